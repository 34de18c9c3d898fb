//! An answer that is asked for again at each event, and at the next leader when it changes.

use super::{
    answer::Answer,
    events::Events,
    output::Repeated,
    replicas::{Address, Replicas},
};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use fedgate_terminal::error::{Error, Kind};
use std::time::Duration;

/// News of a document that is followed.
pub(super) enum News {
    /// The document, which may have changed.
    Answer(Box<Answer>),
    /// The replica does not answer; it, or the next leader, is looked for again.
    Lost(String),
}

/// A document that is followed.
pub(super) struct Follow<'a> {
    replicas: &'a mut Replicas,
    /// The query of `/events`.
    topics: String,
    stream: Option<(Address, Events)>,
    /// True if the document has to be asked for again.
    is_due: bool,
    /// True once there was an answer: an error before it ends the command.
    was_reached: bool,
    delays: ExponentialBackoff,
    delay: Option<Duration>,
}

impl<'a> Follow<'a> {
    /// Follows what the topics tell of.
    pub(super) fn new(replicas: &'a mut Replicas, topics: String) -> Self {
        Self {
            replicas,
            topics,
            stream: None,
            is_due: false,
            was_reached: false,
            delays: delays(),
            delay: None,
        }
    }

    /// Waits for the next reason to look at the document of this path. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self, path: &str) -> Result<News, Error> {
        match self.answer(path).await {
            Ok(answer) => {
                self.was_reached = true;
                self.is_due = false;
                self.delays = delays();
                self.delay = None;
                Ok(News::Answer(Box::new(answer)))
            }
            // Another error does not pass by itself.
            Err(error) if self.was_reached && error.kind == Kind::Failed => {
                self.stream = None;
                self.delay = self.delays.next();
                let cause = error.cause.map(|cause| format!(": {cause}")).unwrap_or_default();
                Ok(News::Lost(format!("{}{cause}; it is asked again", error.what)))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the next call ask at once: time alone has changed the document.
    pub(super) fn ask_again(&mut self) {
        self.is_due = true;
    }

    async fn answer(&mut self, path: &str) -> Result<Answer, Error> {
        if let Some(delay) = self.delay {
            tokio::time::sleep(delay).await;
            self.delay = None;
        }
        let Some((address, events)) = &mut self.stream else {
            return self.begin(path).await;
        };
        if !self.is_due {
            events
                .next()
                .await
                .map_err(|cause| Error::new(Kind::Failed, format!("lost {address}")).because(cause))?;
            self.is_due = true;
        }
        let answer = self.replicas.ask(path).await?;
        if answer.address != *address {
            self.stream = None;
            return self.begin(path).await;
        }
        Ok(answer)
    }

    /// Finds the leader, opens its stream, and asks once the stream has begun, so that no change falls between.
    async fn begin(&mut self, path: &str) -> Result<Answer, Error> {
        let address = self.replicas.ask(path).await?.address;
        let mut events = self.replicas.events(&address, &self.topics).await?;
        events
            .next()
            .await
            .map_err(|cause| Error::new(Kind::Failed, format!("{address} sends no events")).because(cause))?;
        let answer = self.replicas.ask_at(&address, path).await?;
        self.stream = Some((address, events));
        Ok(answer)
    }
}

/// Prints a document again at each event, until Ctrl-C.
pub(super) async fn watch(
    replicas: &mut Replicas,
    topics: String,
    path: &str,
    is_json: bool,
    text: impl Fn(&Answer) -> Result<String, Error>,
) -> Result<(), Error> {
    let mut shown = Repeated::new(is_json);
    let mut follow = Follow::new(replicas, topics);
    loop {
        match follow.next(path).await? {
            News::Answer(answer) => shown.print(&text(&answer)?)?,
            News::Lost(notice) => shown.lost(&notice)?,
        }
    }
}

/// The times between two attempts to reach a replica.
fn delays() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(Duration::from_secs(10))
        .with_jitter()
        .without_max_times()
        .build()
}
