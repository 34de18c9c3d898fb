//! `fedgate stuck`: groups of what does not go on, or their oldest items.

use super::{
    answer::Answer,
    follow::watch,
    output::{Output, age, counted, query, topics},
    replicas::Replicas,
};
use crate::client::args::{ListFormat, StuckArgs};
use fedgate_operations::{Answer as Document, Class, Stuck, StuckGroup, StuckItem, Time, query::MOST};
use fedgate_terminal::{
    error::{Error, Kind},
    style::Tone,
    table::{Cell, Table, escape},
    write::{say, write},
};

const GROUPS: &[&str] = &["CLASS", "PLANE", "WORD", "COUNT", "OLDEST", "NEXT"];
const ITEMS: &[&str] = &[
    "CLASS", "PLANE", "WORD", "PROJECT", "OBJECT", "CELL", "AGE", "ATTEMPTS", "NEXT TRY", "MESSAGE",
];

/// Runs the command.
pub(super) async fn run(args: &StuckArgs) -> Result<(), Error> {
    let output = Output::of(args.output, &args.ask);
    let mut replicas = Replicas::open(&args.ask.way, args.cell == Some(None)).await?;
    let path = path(args);
    if !args.watch {
        let answer = replicas.ask(&path).await?;
        write(&text(&answer, output)?)?;
        let stuck: Document<Stuck> = answer.document()?;
        remark(&stuck.body, output);
        let is_stuck = !stuck.body.groups.is_empty();
        let blocked = Error::new(Kind::Blocked, "stuck").shown();
        return if is_stuck { Err(blocked) } else { Ok(()) };
    }
    let topics = topics("stuck", args.project.as_deref());
    let shown = |answer: &Answer| match text(answer, output)? {
        text if text.is_empty() => Ok("Nothing is stuck.\n".to_owned()),
        text => Ok(text),
    };
    let is_json = output.format == ListFormat::Json;
    watch(&mut replicas, topics, &path, is_json, shown).await
}

fn path(args: &StuckArgs) -> String {
    let limit = MOST.to_string();
    let stuck_for = args.stuck_for.map(|time| format!("{}s", time.as_secs()));
    let pairs = [
        ("class", args.class.map(Class::as_str)),
        ("project", args.project.as_deref()),
        ("cell", args.cell.as_ref().and_then(Option::as_deref)),
        ("for", stuck_for.as_deref()),
        ("limit", Some(limit.as_str())),
    ];
    format!("/stuck{}", query(&pairs))
}

fn text(answer: &Answer, output: Output) -> Result<String, Error> {
    output.text(answer, |document| render(document, output))
}

/// Says on stderr that there is nothing, or more.
fn remark(stuck: &Stuck, output: Output) {
    let is_text = matches!(output.format, ListFormat::Table | ListFormat::Wide);
    if stuck.groups.is_empty() && is_text {
        say("Nothing is stuck.");
    }
    if stuck.next.is_some() {
        let more = stuck
            .remaining
            .map_or_else(|| "more groups".to_owned(), |more| counted(more, "group"));
        say(&format!(
            "{more} beyond these: narrow them by --class, --project or --cell"
        ));
    }
}

pub(super) fn render(document: &Document<Stuck>, output: Output) -> String {
    let (groups, as_of) = (&document.body.groups, document.header.as_of);
    match output.format {
        ListFormat::Wide => items(groups, as_of, output),
        ListFormat::Name => {
            let items = groups.iter().flat_map(|group| &group.items);
            items.map(|item| escape(&name(item)) + "\n").collect()
        }
        _ => {
            let mut table = Table::new(GROUPS);
            for group in groups {
                table.row(vec![
                    class(group),
                    group.plane.as_str().into(),
                    group.word.as_str().into(),
                    group.count.to_string().into(),
                    age(group.oldest, as_of).into(),
                    group.next.as_str().into(),
                ]);
            }
            output.table(&table, GROUPS.len())
        }
    }
}

fn items(groups: &[StuckGroup], as_of: Time, output: Output) -> String {
    let mut table = Table::new(ITEMS);
    let rows = groups
        .iter()
        .flat_map(|group| group.items.iter().map(move |item| (group, item)));
    for (group, item) in rows {
        let since = age(item.since, as_of);
        table.row(vec![
            class(group),
            group.plane.as_str().into(),
            group.word.as_str().into(),
            item.project.as_str().into(),
            object(item).into(),
            item.cell.as_str().into(),
            format!("{}{since}", if item.since_at_least { ">" } else { "" }).into(),
            item.attempts
                .map_or_else(String::new, |attempts| attempts.to_string())
                .into(),
            item.next_try
                .map_or_else(String::new, |at| until(at, as_of))
                .into(),
            item.message.as_str().into(),
        ]);
    }
    output.table(&table, ITEMS.len())
}

fn class(group: &StuckGroup) -> Cell {
    let tone = match group.class {
        Class::Undelivered | Class::Waiting | Class::Deleting => Tone::Busy,
        _ => Tone::Bad,
    };
    Cell::toned(group.class.as_str(), tone)
}

/// Time until an instant: the age of the answer at that time.
fn until(at: Time, as_of: Time) -> String {
    format!("in {}", age(Some(as_of), at))
}

/// `<kind> <namespace>/<name>`, as far as there is one.
fn object(item: &StuckItem) -> String {
    let parts = [item.namespace.as_str(), item.name.as_str()];
    let path: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    [item.kind.as_str(), &path.join("/")].join(" ").trim().to_owned()
}

/// The words that `fedgate trace` takes; the plane where there is no object.
fn name(item: &StuckItem) -> String {
    let object = if item.name.is_empty() {
        item.cell.clone()
    } else {
        format!("{}/{}", item.namespace, item.name)
    };
    [item.project.as_str(), &object].join(" ").trim().to_owned()
}
