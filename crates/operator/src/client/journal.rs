//! `fedgate journal`: the last writes, the latest last, so that new ones follow below.

use super::{
    follow::{Follow, News},
    output::{Output, counted, query, topics},
    replicas::Replicas,
};
use crate::client::args::{JournalArgs, ListFormat, ObjectName};
use fedgate_operations::{Answer as Document, Journal, JournalRow, Replica, Time, query::MOST};
use fedgate_terminal::{
    error::{Error, Kind},
    style::Tone,
    table::{Cell, Table, escape},
    write::{say, write, write_next},
};

const COLUMNS: &[&str] = &[
    "TIME", "PLANE", "VERB", "OBJECT", "REASON", "RESULT", "PROJECT", "TOOK", "MESSAGE",
];
/// Columns of the narrow form.
const NARROW: usize = 6;

/// Runs the command.
pub(super) async fn run(args: &JournalArgs) -> Result<(), Error> {
    let output = Output::of(args.output, &args.ask);
    let mut replicas = Replicas::open(&args.ask.way, args.cell).await?;
    if args.follow {
        return follow(&mut replicas, args, output).await;
    }
    let answer = replicas.ask(&path(args, None)).await?;
    if output.format == ListFormat::Json {
        return write(&answer.json());
    }
    let journal: Document<Journal> = answer.document()?;
    let rows: Vec<&JournalRow> = journal.body.items.iter().rev().collect();
    let mut widths = Vec::new();
    write(&text(&rows, output, output.headers, &mut widths))?;
    match journal.body.remaining {
        _ if rows.is_empty() => say(&match &args.object {
            None => "No write is in the journal.".to_owned(),
            Some(ObjectName { namespace, name }) => format!(
                "No write of {namespace}/{name} is in the journal; fedgate trace PROJECT {namespace}/{name} shows whether it exists."
            ),
        }),
        Some(earlier @ 1..) => say(&format!("{} before these", counted(earlier, "write"))),
        _ => {}
    }
    Ok(())
}

/// Prints new writes until Ctrl-C.
async fn follow(replicas: &mut Replicas, args: &JournalArgs, output: Output) -> Result<(), Error> {
    let mut follow = Follow::new(replicas, topics("journal", args.project.as_deref()));
    let mut seen = Seen::default();
    let mut widths = Vec::new();
    let mut headers = output.headers;
    loop {
        match follow.next(&path(args, seen.after)).await? {
            News::Lost(notice) => say(&notice),
            News::Answer(answer) => {
                let journal: Document<Journal> = answer.document()?;
                if seen.is_of_another(&journal.header.replica) && seen.after.is_some() {
                    // The question was about numbers of the process before.
                    seen.begin_another();
                    follow.ask_again();
                    continue;
                }
                let rows = seen.new_rows(&journal);
                if rows.is_empty() {
                    continue;
                }
                write_next(&if output.format == ListFormat::Json {
                    json(&rows)?
                } else {
                    text(&rows, output, std::mem::take(&mut headers), &mut widths)
                })?;
            }
        }
    }
}

/// The rows that are new, an object a line.
fn json(rows: &[&JournalRow]) -> Result<String, Error> {
    let lines = rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n"));
    lines
        .collect::<Result<String, serde_json::Error>>()
        .map_err(|error| Error::new(Kind::Failed, "a write cannot be printed").because(error.to_string()))
}

/// The writes that were printed: numbers of one process, and the time of the last one for the next process.
#[derive(Debug, Default)]
pub(super) struct Seen {
    replica: Option<(String, Time)>,
    after: Option<u64>,
    last: Option<Time>,
}

impl Seen {
    fn is_of_another(&self, replica: &Replica) -> bool {
        let is_it = |(identity, started): &(String, Time)| {
            *identity == replica.identity && *started == replica.started_at
        };
        !self.replica.as_ref().is_some_and(is_it)
    }

    /// Begins with another process, whose numbers are its own.
    pub(super) fn begin_another(&mut self) {
        self.after = None;
        self.replica = None;
    }

    /// The writes that were not printed, the latest last.
    pub(super) fn new_rows<'a>(&mut self, journal: &'a Document<Journal>) -> Vec<&'a JournalRow> {
        let replica = &journal.header.replica;
        let is_another = self.is_of_another(replica);
        self.replica = Some((replica.identity.clone(), replica.started_at));
        let is_new = |row: &JournalRow| {
            let by_number = self.after.is_none_or(|after| row.seq > after);
            by_number && (!is_another || self.last.is_none_or(|last| row.at > last))
        };
        let rows: Vec<&JournalRow> = journal
            .body
            .items
            .iter()
            .rev()
            .filter(|row| is_new(row))
            .collect();
        let highest = journal.body.items.iter().map(|row| row.seq).max();
        self.after = highest.max(self.after);
        self.last = rows.iter().map(|row| row.at).max().max(self.last);
        rows
    }
}

fn path(args: &JournalArgs, after: Option<u64>) -> String {
    let after = after.map(|after| after.to_string());
    let limit = MOST.to_string();
    let object = args.object.as_ref();
    let pairs = [
        ("project", args.project.as_deref()),
        ("namespace", object.map(|object| object.namespace.as_str())),
        ("name", object.map(|object| object.name.as_str())),
        ("after", after.as_deref()),
        ("limit", Some(limit.as_str())),
    ];
    format!("/journal{}", query(&pairs))
}

pub(super) fn text(rows: &[&JournalRow], output: Output, headers: bool, widths: &mut Vec<usize>) -> String {
    if output.format == ListFormat::Name {
        return rows.iter().map(|row| escape(&row.object) + "\n").collect();
    }
    let mut table = Table::new(COLUMNS);
    for row in rows {
        let tone = if row.result == "ok" { Tone::Good } else { Tone::Bad };
        table.row(vec![
            row.at.to_string().into(),
            row.plane.as_str().into(),
            row.verb.as_str().into(),
            row.object.as_str().into(),
            row.reason.as_str().into(),
            Cell::toned(&row.result, tone),
            row.project.as_str().into(),
            format!("{}ms", row.took_ms).into(),
            row.message.as_str().into(),
        ]);
    }
    output.next_table(&table, NARROW, headers, widths)
}
