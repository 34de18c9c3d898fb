//! A request as values: its path and parameters are checked here, and nowhere else.

use super::{
    position::Positions,
    refusal::Refusal,
    route::{Route, Target, checked},
    topics::{Selection, Topic},
};
use fedgate_operations::{
    CellState, Class, PlaneState,
    query::{MOST, Query, SEARCH_LIMIT, Sort, TOP_MOST},
};
use jiff::SignedDuration;
use std::{collections::BTreeSet, time::Duration};

/// Longest value of `for`.
const STUCK_MOST: Duration = Duration::from_secs(30 * 86_400);

/// A request that a source answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    /// The route, and the values of the open places of its path.
    pub(super) target: Target,
    /// The parameters.
    pub(super) query: Query,
    /// The topics of a stream.
    pub(super) topics: Option<String>,
}

impl Question {
    /// The question of a request. An error if a parameter is given twice, is none of the route's, or has a value that is not
    /// allowed.
    pub(super) fn of(target: Target, text: &str, positions: &Positions) -> Result<Self, Refusal> {
        let route = target.route;
        let (mut query, mut topics, mut from) = (Query::default(), None, None);
        let mut given = BTreeSet::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let Some(known) = route.parameters().find(|known| *known == name) else {
                return Err(unknown(route, &name));
            };
            if !given.insert(known) {
                let name = shortened(&name);
                return Err(Refusal::invalid(format!("the parameter {name} is given twice")));
            }
            match known {
                "topics" => topics = Some(value.into_owned()),
                "continue" => from = Some(value.into_owned()),
                name => set(&mut query, route, name, value.into_owned())?,
            }
        }
        if let Some(token) = from {
            query.page.from = positions.decode(route.list(query.sort), &token)?;
        }
        Ok(Self {
            target,
            query,
            topics,
        })
    }
}

/// Sets the parameter of a query.
fn set(query: &mut Query, route: Route, name: &'static str, value: String) -> Result<(), Refusal> {
    let word = |words: &[&'static str]| {
        let all: Vec<_> = words.iter().map(|word| (*word, *word)).collect();
        one_of(name, &value, &all).map(|word| Some(word.to_owned()))
    };
    match name {
        "plane" => query.plane = word(&["hub", "project", "cell"])?,
        "state" if route == Route::Cells => query.state = word(CellState::WORDS)?,
        "state" => query.state = word(PlaneState::WORDS)?,
        "sort" => query.sort = one_of(name, &value, &Sort::ALL)?,
        "class" => query.class = word(Class::WORDS)?.as_deref().and_then(Class::parse),
        "top" => query.top = Some(number(name, &value, TOP_MOST)?),
        "limit" => query.page.limit = number(name, &value, MOST)?,
        "after" => {
            let after = value.parse();
            query.after = Some(after.map_err(|_| wrong(name, &value, "a number of a write"))?);
        }
        "for" => query.stuck_for = Some(stuck_for(&value)?),
        _ => {
            let value = checked(&format!("the parameter {name}"), value)?;
            if name == "q" && value.chars().count() > SEARCH_LIMIT {
                let allowed = format!("a part of a name of at most {SEARCH_LIMIT} characters");
                return Err(wrong(name, &value, &allowed));
            }
            let field = match name {
                "q" => &mut query.q,
                "reason" => &mut query.reason,
                "project" => &mut query.project,
                "city" => &mut query.city,
                "cell" => &mut query.cell,
                "namespace" => &mut query.namespace,
                "name" => &mut query.name,
                _ => &mut query.result,
            };
            *field = Some(value);
        }
    }
    Ok(())
}

/// A value for a message: without control characters, and not of any length.
pub(super) fn shortened(value: &str) -> String {
    const SHOWN: usize = 64;
    match value.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{:?}…", &value[..at]),
        None => format!("{value:?}"),
    }
}

fn unknown(route: Route, name: &str) -> Refusal {
    let takes: Vec<&str> = route.parameters().collect();
    let takes = if takes.is_empty() {
        "no parameters".to_owned()
    } else {
        takes.join(", ")
    };
    let (name, path) = (shortened(name), route.path());
    Refusal::invalid(format!("the parameter {name} is unknown; /{path} takes {takes}"))
}

fn wrong(name: &str, value: &str, allowed: &str) -> Refusal {
    let value = shortened(value);
    Refusal::invalid(format!("the parameter {name} is {value}; it must be {allowed}"))
}

/// The value that is one of these words.
fn one_of<T: Copy>(name: &str, value: &str, all: &[(&str, T)]) -> Result<T, Refusal> {
    let found = all.iter().find(|(word, _)| *word == value);
    found.map(|(_, found)| *found).ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        wrong(name, value, &format!("one of {}", words.join(", ")))
    })
}

/// A number from 1 to `most`.
fn number(name: &str, value: &str, most: usize) -> Result<usize, Refusal> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| wrong(name, value, &format!("a number from 1 to {most}")))
}

fn stuck_for(value: &str) -> Result<Duration, Refusal> {
    let span: Option<SignedDuration> = value.parse().ok();
    let span = span.and_then(|span| Duration::try_from(span).ok());
    let span = span.filter(|span| *span <= STUCK_MOST);
    let allowed = "a time from 0s to 30 days, such as 60s, 5m or 1h30m";
    span.ok_or_else(|| wrong("for", value, allowed))
}

/// The selection of a stream's parameters.
pub(super) fn selection(topics: Option<&str>, project: Option<&str>) -> Result<Selection, Refusal> {
    let allowed = Topic::allowed(project.is_some());
    let find = |word: &str| {
        let found = allowed.iter().copied().find(|topic| topic.as_str() == word);
        let topic = found.ok_or_else(|| {
            let scope = if project.is_some() { " with project" } else { "" };
            let words: Vec<&str> = allowed.iter().map(|topic| topic.as_str()).collect();
            wrong("topics", word, &format!("a list{scope} of {}", words.join(", ")))
        })?;
        Ok((project.map(str::to_owned), topic))
    };
    let topics = topics.unwrap_or(allowed[0].as_str());
    topics.split(',').map(find).collect()
}
