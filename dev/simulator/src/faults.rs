//! What goes wrong, by script.

use crate::{
    random::Random,
    route::{Call, Verb},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// Which requests of those that a rule fits are met by its fault. Each rule counts for itself, from when it was added.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// The n-th one, from 1 on.
    Nth(u64),
    /// Every n-th one.
    Every(u64),
    /// All.
    Always,
    /// Those in a span of time, counted from when the rule was added.
    During(Range<Duration>),
    /// The first one and those that come within this time after it.
    Within(Duration),
    /// Each with this probability, drawn from the simulator's seed.
    Chance(f64),
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is applied, and the connection breaks.
    DropBefore,
    /// The request is applied, then the connection breaks.
    LoseAnswer,
    /// 409, nothing applied.
    Conflict,
    /// 410, nothing applied.
    Gone,
    /// 429, nothing applied.
    TooMany {
        /// Seconds in the `Retry-After` header, if there is to be one.
        retry_after: Option<u32>,
    },
    /// 500, nothing applied.
    Internal,
    /// 503, nothing applied.
    Unavailable,
    /// The request is applied, then 504.
    TimeoutAfterApply,
    /// 401, nothing applied.
    Unauthorized,
    /// 403 for want of rights, nothing applied.
    Forbidden,
    /// 403 by admission, nothing applied.
    Denied,
    /// This status, nothing applied. Its text repeats the object of the request as an invalid value, and so does the cause of
    /// a 422.
    Repeats {
        /// The status: 422, 403, or any other.
        code: u16,
    },
    /// Applied. Half of the answer, or of a watch's next line, then the body ends.
    TruncatedLine,
    /// Nothing is applied and nothing answered, ever.
    Hang,
    /// Applied, and never answered.
    HangAfterApply,
    /// Applied. The answer, or each line of a watch, comes a few bytes at a time.
    SlowDrip {
        /// How many.
        bytes: usize,
        /// How often.
        every: Duration,
    },
    /// Applied. Each object of the answer, or of a watch's lines, has a field of so many bytes more, in its metadata.
    Padded {
        /// How many.
        bytes: usize,
    },
    /// Applied. Each object of the answer, or of a watch's lines, has a field more that is nested so deeply, in its metadata.
    Nested {
        /// How deeply.
        levels: usize,
    },
    /// Applied. The connection is reset amid the answer; a watch is reset at once.
    Reset,
    /// A proxy's 502 page, nothing applied.
    HtmlBadGateway,
    /// As [`Fault::Hang`], and [`Faults::stopped`] is told. Nothing more of this user is applied or answered.
    StopBefore,
    /// As [`Fault::HangAfterApply`], and [`Faults::stopped`] is told. Nothing more of this user is applied or answered.
    StopAfter,
}

impl Fault {
    /// Its name, as in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DropBefore => "DropBefore",
            Self::LoseAnswer => "LoseAnswer",
            Self::Conflict => "Conflict",
            Self::Gone => "Gone",
            Self::TooMany { .. } => "TooMany",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
            Self::TimeoutAfterApply => "TimeoutAfterApply",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::Denied => "Denied",
            Self::Repeats { .. } => "Repeats",
            Self::TruncatedLine => "TruncatedLine",
            Self::Hang => "Hang",
            Self::HangAfterApply => "HangAfterApply",
            Self::SlowDrip { .. } => "SlowDrip",
            Self::Padded { .. } => "Padded",
            Self::Nested { .. } => "Nested",
            Self::Reset => "Reset",
            Self::HtmlBadGateway => "HtmlBadGateway",
            Self::StopBefore => "StopBefore",
            Self::StopAfter => "StopAfter",
        }
    }

    /// Whether the request is carried out.
    pub fn applies(&self) -> bool {
        matches!(
            self,
            Self::LoseAnswer
                | Self::TimeoutAfterApply
                | Self::TruncatedLine
                | Self::HangAfterApply
                | Self::SlowDrip { .. }
                | Self::Padded { .. }
                | Self::Nested { .. }
                | Self::Reset
                | Self::StopAfter
        )
    }
}

/// A fault and the requests that it meets. What is `None` fits every request.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The plane's name.
    pub plane: Option<String>,
    /// Who asks.
    pub user: Option<String>,
    /// What is asked.
    pub verb: Option<Verb>,
    /// The kind's plural.
    pub kind: Option<String>,
    /// Whether the status endpoint is asked.
    pub status: Option<bool>,
    /// Which of the requests that fit.
    pub when: When,
    /// What goes wrong.
    pub fault: Fault,
}

impl Rule {
    /// A rule that fits every request.
    pub fn new(when: When, fault: Fault) -> Self {
        Self {
            plane: None,
            user: None,
            verb: None,
            kind: None,
            status: None,
            when,
            fault,
        }
    }

    /// Narrows the rule to a plane.
    #[must_use]
    pub fn plane(mut self, name: &str) -> Self {
        self.plane = Some(name.to_owned());
        self
    }

    /// Narrows the rule to a user.
    #[must_use]
    pub fn user(mut self, name: &str) -> Self {
        self.user = Some(name.to_owned());
        self
    }

    /// Narrows the rule to a verb.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Narrows the rule to a kind, by its plural.
    #[must_use]
    pub fn kind(mut self, plural: &str) -> Self {
        self.kind = Some(plural.to_owned());
        self
    }

    /// Narrows the rule to the status endpoint, or to all but that.
    #[must_use]
    pub fn status(mut self, status: bool) -> Self {
        self.status = Some(status);
        self
    }

    fn fits(&self, plane: &str, user: &str, call: &Call) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        let status = call.subresource.as_deref() == Some("status");
        is(&self.plane, plane)
            && is(&self.user, user)
            && is(&self.kind, &call.resource)
            && self.verb.is_none_or(|verb| verb == call.verb)
            && self.status.is_none_or(|wanted| wanted == status)
    }
}

/// A rule that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

#[derive(Debug)]
struct Active {
    rule: Rule,
    since: Instant,
    first: Option<Instant>,
    random: Random,
    seen: u64,
    hits: u64,
}

impl Active {
    /// Counts a request, and says whether the fault meets it.
    fn meets(&mut self) -> bool {
        self.seen += 1;
        let met = match &self.rule.when {
            When::Nth(n) => self.seen == *n,
            When::Every(n) => self.seen.is_multiple_of((*n).max(1)),
            When::Always => true,
            When::During(span) => span.contains(&self.since.elapsed()),
            When::Within(time) => self.first.get_or_insert_with(Instant::now).elapsed() < *time,
            When::Chance(probability) => self.random.happens(*probability),
        };
        self.hits += u64::from(met);
        met
    }
}

/// Where a user's requests stop.
#[derive(Debug)]
struct Stop {
    /// Requests before the one that stops.
    left: u64,
    after: bool,
    reached: bool,
}

#[derive(Debug, Default)]
struct Script {
    next: u64,
    seed: u64,
    rules: BTreeMap<RuleId, Active>,
    stops: BTreeMap<String, Stop>,
}

/// The script of faults.
#[derive(Debug, Clone)]
pub struct Faults {
    script: Arc<Mutex<Script>>,
    /// There is a rule or a stop at all.
    armed: Arc<AtomicBool>,
    stopped: watch::Sender<bool>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        let script = Script {
            seed,
            ..Script::default()
        };
        Self {
            script: Arc::new(Mutex::new(script)),
            armed: Arc::default(),
            stopped: watch::Sender::new(false),
        }
    }

    /// Adds a rule. Of several rules that meet a request, the one added first wins; all of them count it.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut script = self.script.lock();
        let id = RuleId(script.next);
        script.next += 1;
        let active = Active {
            rule,
            since: Instant::now(),
            first: None,
            random: Random::new(script.seed ^ id.0.wrapping_mul(0xa076_1d64_78bd_642f)),
            seen: 0,
            hits: 0,
        };
        script.rules.insert(id, active);
        self.armed.store(true, Ordering::Relaxed);
        id
    }

    /// Takes a rule away.
    pub fn remove(&self, id: RuleId) {
        self.script.lock().rules.remove(&id);
    }

    /// Takes all rules and stops away. Requests that hang go on hanging.
    pub fn clear(&self) {
        let mut script = self.script.lock();
        script.rules.clear();
        script.stops.clear();
        self.armed.store(false, Ordering::Relaxed);
        self.stopped.send_replace(false);
    }

    /// How many requests a rule has met; 0 if it was taken away.
    pub fn hits(&self, id: RuleId) -> u64 {
        self.script.lock().rules.get(&id).map_or(0, |active| active.hits)
    }

    /// Stops a user at its n-th request from now on, counted from 1, watches left out: before that request is applied,
    /// or after. From there on nothing of this user is applied or answered, until [`Faults::clear`].
    pub fn stop_at(&self, user: &str, n: u64, after: bool) {
        let stop = Stop {
            left: n.saturating_sub(1),
            after,
            reached: false,
        };
        self.script.lock().stops.insert(user.to_owned(), stop);
        self.armed.store(true, Ordering::Relaxed);
    }

    /// Returns once a user was stopped.
    pub async fn stopped(&self) {
        // The sender is here, so waiting does not fail.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Tells those who wait in [`Faults::stopped`].
    pub(crate) fn tell_stopped(&self, user: &str) {
        let mut script = self.script.lock();
        let stop = script.stops.entry(user.to_owned()).or_insert(Stop {
            left: 0,
            after: false,
            reached: false,
        });
        stop.reached = true;
        drop(script);
        self.stopped.send_replace(true);
    }

    /// The fault that meets a request.
    pub(crate) fn meet(&self, plane: &str, user: &str, call: &Call) -> Met {
        if !self.armed.load(Ordering::Relaxed) {
            return Met::Nothing;
        }
        let mut script = self.script.lock();
        if let Some(stop) = script.stops.get_mut(user) {
            if stop.reached {
                return Met::Stopped;
            }
            if call.verb != Verb::Watch {
                if stop.left == 0 {
                    let fault = if stop.after {
                        Fault::StopAfter
                    } else {
                        Fault::StopBefore
                    };
                    return Met::Fault(fault);
                }
                stop.left -= 1;
            }
        }
        let mut met = None;
        for active in script
            .rules
            .values_mut()
            .filter(|active| active.rule.fits(plane, user, call))
        {
            if active.meets() && met.is_none() {
                met = Some(active.rule.fault.clone());
            }
        }
        met.map_or(Met::Nothing, Met::Fault)
    }
}

/// What the script has for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Met {
    Nothing,
    Fault(Fault),
    /// The user was stopped before.
    Stopped,
}
