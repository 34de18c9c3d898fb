//! `fedgate trace`: the way of an object, hop by hop, and the first broken one.

pub(super) mod table;
pub(super) mod tree;

use super::{
    answer::Answer,
    follow::{Follow, News},
    output::{Output, Repeated, is_coloured, topics},
    replicas::Replicas,
};
use crate::client::args::{ListFormat, TraceArgs, TraceFormat};
use fedgate_operations::{Answer as Document, HopState, Time, Trace, Verdict};
use fedgate_terminal::{
    error::{Error, Kind},
    table::escape,
    write::write,
};
use jiff::SignedDuration;
use std::time::Duration;

/// The kinds that are looked for, in this order, if none is named.
const KINDS: [&str; 3] = ["workloads", "workloaddeployments", "instances"];
/// A hop that waits for this long is broken.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// Runs the command.
pub(super) async fn run(args: &TraceArgs) -> Result<(), Error> {
    let mut replicas = Replicas::open(&args.ask.way, false).await?;
    let (path, answer) = find(&mut replicas, args).await?;
    if !args.watch {
        write(&text(&answer, args)?)?;
        return verdict(answer.document::<Trace>()?.body.verdict);
    }
    let mut shown = Repeated::new(args.output == TraceFormat::Json);
    // An edit of the object shows in its project's row, a write of ours in the journal, a failure among the stuck objects.
    let topics = topics("projects,stuck,journal", Some(&args.project));
    let mut follow = Follow::new(&mut replicas, topics);
    let mut last: Option<Trace> = None;
    let mut change = None;
    loop {
        let news = tokio::select! {
            news = follow.next(&path) => news?,
            () = sleep(change) => {
                change = None;
                follow.ask_again();
                continue;
            }
        };
        match news {
            News::Lost(notice) => shown.lost(&notice)?,
            News::Answer(answer) => {
                let trace: Document<Trace> = answer.document()?;
                change = next_change(&trace.body, trace.header.as_of);
                if last.as_ref() != Some(&trace.body) {
                    shown.print(&text(&answer, args)?)?;
                }
                if trace.body.verdict == Verdict::Whole {
                    return Ok(());
                }
                last = Some(trace.body);
            }
        }
    }
}

async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Looks for the object: a kind that lacks it moves on to the next. The error is that of the first.
async fn find(replicas: &mut Replicas, args: &TraceArgs) -> Result<(String, Answer), Error> {
    let kinds: Vec<&str> = match &args.kind {
        Some(kind) => vec![kind],
        None => KINDS.into(),
    };
    let mut missing = None;
    for kind in kinds {
        let path = path(args, kind);
        match replicas.ask(&path).await {
            Ok(answer) => return Ok((path, answer)),
            Err(error) if error.kind == Kind::NotFound => missing = missing.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Err(missing.unwrap_or_else(|| Error::usage("--kind: no kind is named")))
}

pub(super) fn path(args: &TraceArgs, kind: &str) -> String {
    let object = &args.object;
    let parts = [&args.project, &object.namespace, kind, &object.name];
    let encoded = parts.map(|part| {
        let part: String = form_urlencoded::byte_serialize(part.as_bytes()).collect();
        part.replace('+', "%20")
    });
    format!("/trace/{}", encoded.join("/"))
}

fn verdict(verdict: Verdict) -> Result<(), Error> {
    match verdict {
        Verdict::Whole => Ok(()),
        Verdict::Moving => Err(Error::new(Kind::Moving, "moving").shown()),
        Verdict::Broken => Err(Error::new(Kind::Blocked, "broken").shown()),
    }
}

/// Time until a waiting hop is broken by its age alone, which no event tells.
pub(super) fn next_change(trace: &Trace, as_of: Time) -> Option<Duration> {
    let hops = trace.branches.iter().flat_map(|branch| &branch.hops);
    let waiting = hops.filter(|hop| hop.state == HopState::Waiting);
    let left = waiting.filter_map(|hop| Some(STUCK_AFTER - as_of.0.duration_since(hop.since?.0)));
    // A hop behind a broken one stays waiting, however old it is.
    let left = left.filter(SignedDuration::is_positive).min()?;
    Duration::try_from(left).ok()
}

fn text(answer: &Answer, args: &TraceArgs) -> Result<String, Error> {
    let output = |format| Output::of(format, &args.ask);
    match args.output {
        TraceFormat::Json => Ok(answer.json()),
        TraceFormat::Name => {
            let object = answer.document::<Trace>()?.body.object;
            let name = format!("{} {}/{}", object.project, object.namespace, object.name);
            Ok(escape(&name) + "\n")
        }
        TraceFormat::Table => Ok(table::text(&answer.document()?, output(ListFormat::Table))),
        TraceFormat::Wide => Ok(table::text(&answer.document()?, output(ListFormat::Wide))),
        TraceFormat::Tree => {
            let drawing = tree::Drawing::of_locale(is_coloured(args.ask.color));
            Ok(tree::text(&answer.document()?, drawing))
        }
    }
}
