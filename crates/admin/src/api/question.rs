//! A request as values: its path and parameters are checked here, and nowhere else.

use super::{
    position::Positions,
    refusal::Refusal,
    route::{Route, Target, checked},
    topics::{Selection, Topic},
};
use fedgate_operations::{
    CellState, Class, PlaneState,
    query::{
        CellsQuery, FlowsQuery, JournalQuery, LIMIT, MOST, PageQuery, PlanesQuery, ProjectsQuery,
        SEARCH_LIMIT, STUCK_FOR, Sort, StuckQuery, TOP, TOP_MOST, TraceQuery,
    },
};
use jiff::SignedDuration;
use std::{collections::BTreeMap, str::FromStr, time::Duration};

/// Longest value of `for`.
const STUCK_MOST: Duration = Duration::from_secs(30 * 86_400);

/// A request that a source answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    Overview,
    Planes(PlanesQuery),
    Projects(ProjectsQuery),
    Project(String),
    Cells(CellsQuery),
    Cell(String),
    Flows(FlowsQuery),
    Stuck(StuckQuery),
    Trace(TraceQuery),
    Journal(JournalQuery),
    Events(Selection),
}

impl Question {
    /// The question of a request.
    pub(super) fn of(target: Target, query: &str, positions: &Positions) -> Result<Self, Refusal> {
        let (route, mut values) = (target.route, target.values.into_iter());
        let mut p = Parameters::of(route, query)?;
        let mut value = || values.next().unwrap_or_default();
        let question = match route {
            Route::Overview => Self::Overview,
            Route::Planes => Self::Planes(PlanesQuery {
                plane: p.word("plane", &PLANES)?,
                state: p.one_of("state", &STATES)?,
                q: p.search()?,
                page: p.page(Sort::Worst, positions)?,
            }),
            Route::Projects => {
                let state = p.one_of("state", &STATES)?;
                let (reason, city, sort) = (p.text("reason")?, p.text("city")?, p.sort()?);
                Self::Projects(ProjectsQuery {
                    state,
                    reason,
                    city,
                    q: p.search()?,
                    sort,
                    page: p.page(sort, positions)?,
                })
            }
            Route::Project => Self::Project(value()),
            Route::Cells => {
                let state = p.one_of("state", &CellState::ALL.map(|state| (state.as_str(), state)))?;
                let (city, sort) = (p.text("city")?, p.sort()?);
                Self::Cells(CellsQuery {
                    state,
                    city,
                    sort,
                    page: p.page(sort, positions)?,
                })
            }
            Route::Cell => Self::Cell(value()),
            Route::Flows => Self::Flows(FlowsQuery {
                top: p.number("top", TOP, TOP_MOST)?,
                project: p.text("project")?,
                city: p.text("city")?,
                cell: p.text("cell")?,
            }),
            Route::Stuck => Self::Stuck(StuckQuery {
                class: p.one_of("class", &Class::ALL.map(|class| (class.as_str(), class)))?,
                plane: p.word("plane", &PLANES)?,
                project: p.text("project")?,
                cell: p.text("cell")?,
                stuck_for: p.stuck_for()?,
                page: p.page(Sort::Worst, positions)?,
            }),
            Route::Trace => Self::Trace(TraceQuery {
                project: value(),
                namespace: value(),
                kind: value(),
                name: value(),
            }),
            Route::Journal => Self::Journal(JournalQuery {
                project: p.text("project")?,
                namespace: p.text("namespace")?,
                name: p.text("name")?,
                plane: p.word("plane", &PLANES)?,
                reason: p.text("reason")?,
                result: p.text("result")?,
                after: p.parsed("after", "a number of a write")?,
                page: p.page(Sort::Since, positions)?,
            }),
            Route::Events => {
                let topics = p.take("topics");
                Self::Events(Selection::of(topics.as_deref(), p.text("project")?)?)
            }
        };
        p.end().map(|()| question)
    }
}

/// Kinds of planes.
const PLANES: [&str; 3] = ["hub", "project", "cell"];
const STATES: [(&str, PlaneState); 4] = [
    ("unauthorized", PlaneState::Unauthorized),
    ("backoff", PlaneState::Backoff),
    ("syncing", PlaneState::Syncing),
    ("connected", PlaneState::Connected),
];

/// Words for a message.
fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

/// A value for a message: without control characters, and not of any length.
pub(super) fn shortened(value: &str) -> String {
    const SHOWN: usize = 64;
    match value.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{:?}…", &value[..at]),
        None => format!("{value:?}"),
    }
}

/// The parameters of a query.
struct Parameters {
    route: Route,
    given: BTreeMap<String, String>,
    /// Names that the route takes.
    taken: Vec<&'static str>,
}

impl Parameters {
    /// An error if a parameter is given twice.
    fn of(route: Route, query: &str) -> Result<Self, Refusal> {
        let mut given = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if given.insert(name.to_string(), value.into_owned()).is_some() {
                let name = shortened(&name);
                return Err(Refusal::invalid(format!("the parameter {name} is given twice")));
            }
        }
        let taken = Vec::new();
        Ok(Self { route, given, taken })
    }

    /// An error if a parameter was given that the route does not take.
    fn end(self) -> Result<(), Refusal> {
        let Some(name) = self.given.keys().next() else {
            return Ok(());
        };
        let takes = if self.taken.is_empty() {
            "no parameters".to_owned()
        } else {
            self.taken.join(", ")
        };
        Err(Refusal::invalid(format!(
            "the parameter {} is unknown; /{} takes {takes}",
            shortened(name),
            self.route.path()
        )))
    }

    fn take(&mut self, name: &'static str) -> Option<String> {
        self.taken.push(name);
        self.given.remove(name)
    }

    /// A text that may be a name.
    fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        self.take(name)
            .map(|value| checked(&format!("the parameter {name}"), value))
            .transpose()
    }

    /// The value of the parameter that is one of these words.
    fn one_of<T: Copy>(&mut self, name: &'static str, all: &[(&str, T)]) -> Result<Option<T>, Refusal> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let found = all.iter().find(|(word, _)| *word == value);
        found.map(|(_, found)| Some(*found)).ok_or_else(|| {
            let allowed = listed(all.iter().map(|(word, _)| *word));
            wrong(name, &value, &format!("one of {allowed}"))
        })
    }

    /// The parameter, which is one of these words.
    fn word(&mut self, name: &'static str, all: &[&'static str; 3]) -> Result<Option<String>, Refusal> {
        self.one_of(name, &all.map(|word| (word, word)))
            .map(|found| found.map(str::to_owned))
    }

    fn parsed<T: FromStr>(&mut self, name: &'static str, meaning: &str) -> Result<Option<T>, Refusal> {
        self.take(name)
            .map(|value| value.parse().map_err(|_| wrong(name, &value, meaning)))
            .transpose()
    }

    /// A number from 1 to `most`.
    fn number(&mut self, name: &'static str, default: usize, most: usize) -> Result<usize, Refusal> {
        let Some(value) = self.take(name) else {
            return Ok(default);
        };
        let number = value.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| wrong(name, &value, &format!("a number from 1 to {most}")))
    }

    fn search(&mut self) -> Result<Option<String>, Refusal> {
        let value = self.text("q")?;
        match value {
            Some(value) if value.chars().count() > SEARCH_LIMIT => Err(wrong(
                "q",
                &value,
                &format!("a part of a name of at most {SEARCH_LIMIT} characters"),
            )),
            value => Ok(value),
        }
    }

    fn sort(&mut self) -> Result<Sort, Refusal> {
        let sorts = Sort::ALL.map(|sort| (sort.as_str(), sort));
        Ok(self.one_of("sort", &sorts)?.unwrap_or_default())
    }

    fn stuck_for(&mut self) -> Result<Duration, Refusal> {
        let Some(value) = self.take("for") else {
            return Ok(STUCK_FOR);
        };
        let span: Option<SignedDuration> = value.parse().ok();
        span.and_then(|span| Duration::try_from(span).ok())
            .filter(|span| *span <= STUCK_MOST)
            .ok_or_else(|| {
                wrong(
                    "for",
                    &value,
                    "a time from 0s to 30 days, such as 60s, 5m or 1h30m",
                )
            })
    }

    /// The page; `sort` is the order of the list.
    fn page(&mut self, sort: Sort, positions: &Positions) -> Result<PageQuery, Refusal> {
        let limit = self.number("limit", LIMIT, MOST)?;
        let from = self.take("continue");
        let list = (self.route.path(), sort);
        let from = from.map(|token| positions.decode(list, &token)).transpose()?;
        Ok(PageQuery {
            limit,
            from: from.unwrap_or_default(),
        })
    }
}

fn wrong(name: &str, value: &str, allowed: &str) -> Refusal {
    Refusal::invalid(format!(
        "the parameter {name} is {}; it must be {allowed}",
        shortened(value)
    ))
}

impl Selection {
    /// The selection of a stream's parameters.
    fn of(topics: Option<&str>, project: Option<String>) -> Result<Self, Refusal> {
        let allowed = Topic::allowed(project.is_some());
        let words = || listed(allowed.iter().map(|topic| topic.as_str()));
        let topics = match topics {
            None => allowed.iter().copied().take(1).collect(),
            Some(text) => text
                .split(',')
                .map(|word| {
                    let found = allowed.iter().copied().find(|topic| topic.as_str() == word);
                    let scope = if project.is_some() { " with project" } else { "" };
                    found.ok_or_else(|| wrong("topics", word, &format!("a list{scope} of {}", words())))
                })
                .collect::<Result<_, _>>()?,
        };
        Ok(Self { topics, project })
    }
}
