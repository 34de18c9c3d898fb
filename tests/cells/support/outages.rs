//! Times in which a test had stopped a plane's API server. One that starts forbids what it admits once it has read its roles.

use parking_lot::Mutex;

/// The outages so far.
#[derive(Default)]
pub(crate) struct Outages(Mutex<Vec<Outage>>);

/// Times are in the form of the audit logs, so that texts sort by time.
struct Outage {
    plane: String,
    from: String,
    until: Option<String>,
}

fn now() -> String {
    format!("{:.6}", jiff::Timestamp::now())
}

impl Outages {
    pub(crate) fn begin(&self, plane: &str) {
        self.0.lock().push(Outage {
            plane: plane.to_owned(),
            from: now(),
            until: None,
        });
    }

    pub(crate) fn end(&self, plane: &str) {
        for outage in self.0.lock().iter_mut().filter(|outage| outage.plane == plane) {
            outage.until.get_or_insert_with(now);
        }
    }

    /// Whether the plane was stopped or starting at that time of an audit log.
    pub(crate) fn had(&self, plane: &str, time: &str) -> bool {
        self.0.lock().iter().any(|outage| {
            outage.plane == plane
                && outage.from.as_str() <= time
                && outage.until.as_deref().is_none_or(|until| time <= until)
        })
    }
}
