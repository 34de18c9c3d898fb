//! The record of the play: the gateway's requests, and what Karmada and the members do.

use fedgate_karmada::{Object, names, schedule};
use fedgate_simulator::{Change, Entry, Plane, Simulator, Verb, karmada::KARMADA};
use jiff::Timestamp;
use serde_json::Value;

/// The hub's name in the simulator, and in the output.
pub(super) const HUB: &str = "hub";
/// The project's name in the simulator, and in the output.
pub(super) const PROJECT: &str = "project";

/// A request of the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `hub` or `project`.
    pub plane: &'static str,
    /// `create`, `apply`, `patch`, `delete`, `get` or `list`.
    pub verb: &'static str,
    /// The kind; the plural if the hub does not serve the kind.
    pub kind: String,
    /// The namespace; empty if it is cluster-scoped.
    pub namespace: String,
    /// The name; empty for a list.
    pub name: String,
    /// The member that is asked, by the hub's proxy.
    pub member: Option<String>,
    /// True for the status subresource.
    pub is_status: bool,
    /// Why the gateway sends it, as in `fedgate_writes_total`.
    pub reason: String,
    /// The body; null without one.
    pub body: Value,
}

/// An event of the play.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// The gateway sent a request.
    Request(Box<Request>),
    /// Karmada, a member or the tenant did something.
    Other(&'static str, String),
}

/// See the module.
pub(super) struct Record {
    simulator: Simulator,
    hub: Plane,
    /// Number of the first request of the simulator's log that is not recorded.
    next: u64,
    /// The time of the play.
    pub(super) now: Timestamp,
    pub(super) happened: Vec<(Timestamp, Happening)>,
}

impl Record {
    /// A record of everything that happens on the planes from now on.
    pub(super) fn new(simulator: &Simulator, hub: &Plane, now: Timestamp) -> Self {
        simulator.log().keep_bodies();
        simulator.keep_changes();
        Self {
            simulator: simulator.clone(),
            hub: hub.clone(),
            next: 0,
            now,
            happened: Vec::new(),
        }
    }

    /// Records what has happened since the last call; true if objects have changed.
    pub(super) fn update(&mut self) -> bool {
        self.add_requests();
        let changes = self.simulator.take_changes();
        let lines = changes.iter().filter_map(line);
        let lines = lines.map(|(who, does)| (self.now, Happening::Other(who, does)));
        self.happened.extend(lines);
        !changes.is_empty()
    }

    fn add_requests(&mut self) {
        for entry in self.simulator.log().since(self.next) {
            self.next = entry.n + 1;
            let request = Happening::Request(Box::new(self.request(&entry)));
            self.happened.push((self.now, request));
        }
    }

    fn request(&self, entry: &Entry) -> Request {
        let body: Value = serde_json::from_slice(&entry.body).unwrap_or_default();
        let asks_who_it_is = &*entry.resource == "selfsubjectreviews";
        let verb = match entry.verb {
            Verb::Create if asks_who_it_is => "get",
            Verb::Create => "create",
            Verb::Apply => "apply",
            Verb::Update | Verb::Patch => "patch",
            Verb::Delete | Verb::DeleteCollection => "delete",
            Verb::List | Verb::Watch => "list",
            Verb::Get => "get",
        };
        let member = match &*entry.plane {
            // The namespace of Works says whose they are.
            HUB if &*entry.resource == "works" => names::member_of(&entry.namespace),
            HUB | PROJECT => None,
            member => Some(member),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reason = match (verb, member, &*entry.resource) {
            (_, _, "selfsubjectreviews") => "see who it is on the hub".to_owned(),
            (_, _, "events") => format!("tell the tenant: {}", text(&body["reason"])),
            ("list", Some(_), "works") => "see what Karmada still delivers".to_owned(),
            ("get" | "list", Some(_), _) => "see what the member has".to_owned(),
            ("get" | "list", ..) => "read before a write".to_owned(),
            _ => String::new(),
        };
        let kind = self.hub.kind_of(&entry.group, &entry.resource);
        Request {
            plane: if &*entry.plane == PROJECT { PROJECT } else { HUB },
            verb,
            kind: match body["kind"].as_str() {
                Some(kind) if verb != "delete" => kind.to_owned(),
                _ => kind.unwrap_or_else(|| entry.resource.to_string()),
            },
            namespace: entry.namespace.clone(),
            name: match &*entry.resource {
                "events" => text(&body["regarding"]["name"]),
                _ => entry.name.clone(),
            },
            member: member.map(ToOwned::to_owned),
            is_status: entry.subresource.as_deref() == Some("status"),
            reason,
            body: if verb == "delete" || asks_who_it_is {
                Value::Null
            } else {
                body
            },
        }
    }

    /// Gives the reason of the last write to an object.
    pub(super) fn give_reason(&mut self, plane: &str, namespace: &str, name: &str, reason: &str) {
        self.add_requests();
        let mut last = self.happened.iter_mut().rev();
        let own = last.find_map(|happening| match happening {
            (_, Happening::Request(request))
                if request.plane == plane && request.namespace == namespace && request.name == name =>
            {
                Some(request)
            }
            _ => None,
        });
        if let Some(request) = own.filter(|request| request.reason.is_empty()) {
            reason.clone_into(&mut request.reason);
        }
    }
}

/// A change by Karmada in words: who, and what they do. Cluster-scoped objects are left out.
fn line(change: &Change) -> Option<(&'static str, String)> {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let object = after.or(before)?;
    if &*change.user != KARMADA || object.namespace().is_empty() {
        return None;
    }
    let called = |object: &Value| format!("{} {}", object.kind(), object.name());
    match (&*change.plane, &*change.resource) {
        (HUB, "resourcebindings") => {
            let members = schedule::members(object);
            let had = before.map(schedule::members).unwrap_or_default();
            if members.is_empty() || members == had {
                return None;
            }
            let resource = &object["spec"]["resource"];
            let text = |field: &str| resource[field].as_str().unwrap_or_default();
            let members: Vec<&str> = members.iter().map(String::as_str).collect();
            let line = format!(
                "gives {} {} to {}",
                text("kind"),
                text("name"),
                members.join(", ")
            );
            Some(("Karmada", line))
        }
        (HUB, _) => {
            let is_status = before.is_some_and(|before| before["status"] != object["status"]);
            let is_own = change.group.ends_with("karmada.io");
            (is_status && !is_own).then(|| ("Karmada", format!("writes the status of {}", called(object))))
        }
        (member, _) => {
            let is_managed = |object: &Value| object.label(names::MANAGED).is_some();
            let does = match (before, after) {
                (None, _) => "creates",
                (_, None) => "deletes",
                (Some(before), Some(after)) if is_managed(before) && !is_managed(after) => "keeps",
                _ => "updates",
            };
            Some(("member", format!("{member} {does} {}", called(object))))
        }
    }
}
