//! Lists: pages of a consistent view.

use crate::{
    base64,
    route::{Call, Query},
    select::Selector,
    state::State,
    status::Status,
    view::View,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Where the next page begins, in a view of a revision.
struct Continue {
    revision: u64,
    /// How many objects there are from there on; not counted where objects are selected.
    left: usize,
    after: String,
}

impl Continue {
    fn parse(token: &str) -> Option<Self> {
        let text = String::from_utf8(base64::decode(token)?).ok()?;
        let (revision, rest) = text.split_once(' ')?;
        let (left, after) = rest.split_once(' ')?;
        Some(Self {
            revision: revision.parse().ok()?,
            left: left.parse().ok()?,
            after: after.to_owned(),
        })
    }

    fn token(&self) -> String {
        base64::encode(format!("{} {} {}", self.revision, self.left, self.after).as_bytes())
    }
}

/// Which version of the objects a list shows, and where it begins.
struct Page {
    revision: u64,
    /// For all pages but the first.
    begin: Option<Continue>,
}

impl Page {
    fn of(state: &State, table: usize, call: &Call) -> Result<Self, Status> {
        let named = call.query.get("fieldSelector").starts_with("metadata.name=");
        let lagging = state.tables[table].stale.filter(|_| !named);
        let current = state.revision.min(lagging.unwrap_or(u64::MAX));
        let asked = call.query.number("resourceVersion")?;
        let token = call.query.get("continue");
        if !token.is_empty() {
            if asked.is_some_and(|asked| asked > 0) {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let next = Continue::parse(token).ok_or_else(|| {
                Status::bad_request("continue key is not valid: encoded continue key is unreadable")
            })?;
            if next.revision < state.compacted {
                return Err(too_long_ago());
            }
            return Ok(Self {
                revision: next.revision,
                begin: Some(next),
            });
        }
        let exact = call.query.get("resourceVersionMatch") == "Exact";
        let revision = match asked.filter(|_| exact) {
            None => not_older(asked.unwrap_or(0), current)?,
            Some(exact) => {
                not_older(exact, current)?;
                if exact < state.compacted {
                    return Err(Status::expired(
                        "The resourceVersion for the provided list is too old.",
                    ));
                }
                exact
            }
        };
        Ok(Self {
            revision,
            begin: None,
        })
    }
}

/// Whether the parameters of a list or a watch go together.
pub(crate) fn check(query: &Query, watch: bool) -> Result<(), Status> {
    const FIELD: &str = "resourceVersionMatch";
    let forbidden = |field, message| Err(Status::options(&[("FieldValueForbidden", field, message)]));
    let unsupported = ("FieldValueNotSupported", FIELD, "Unsupported value");
    let (wanted, initial) = (query.get(FIELD), query.get("sendInitialEvents"));
    if watch && initial.is_empty() && !wanted.is_empty() {
        return forbidden(FIELD, "Forbidden: it is for watches with sendInitialEvents alone");
    }
    if watch && !initial.is_empty() {
        return match wanted {
            "" => forbidden(FIELD, "Forbidden: sendInitialEvents needs it"),
            "NotOlderThan" => Ok(()),
            _ => {
                let message = "Forbidden: sendInitialEvents takes NotOlderThan";
                Err(Status::options(&[
                    ("FieldValueForbidden", FIELD, message),
                    unsupported,
                ]))
            }
        };
    }
    if !initial.is_empty() {
        return forbidden("sendInitialEvents", "Forbidden: it is for watches");
    }
    match (wanted, query.get("resourceVersion")) {
        ("", _) => Ok(()),
        _ if !query.get("continue").is_empty() => forbidden(FIELD, "Forbidden: not with continue"),
        (_, "") => forbidden(FIELD, "Forbidden: it needs resourceVersion"),
        ("Exact", "0") => forbidden(FIELD, "Forbidden: Exact needs a version"),
        ("Exact" | "NotOlderThan", _) => Ok(()),
        _ => Err(Status::options(&[unsupported])),
    }
}

/// A version from the future is waited for in vain.
fn not_older(asked: u64, current: u64) -> Result<u64, Status> {
    if asked <= current {
        return Ok(current);
    }
    let mut status = Status::plain(
        504,
        "Timeout",
        format!("Too large resource version: {asked}, current: {current}"),
    );
    status.details = json!({"causes": [{
        "reason": "ResourceVersionTooLarge",
        "message": "Too large resource version",
    }], "retryAfterSeconds": 1});
    Err(status)
}

fn too_long_ago() -> Status {
    Status::expired(
        "The provided continue parameter is too old to display a consistent list result. Start a new list without the continue parameter.",
    )
}

/// Answers a list as JSON.
pub(crate) fn list(
    state: &State,
    table: usize,
    call: &Call,
    selector: &Selector,
    view: &View,
) -> Result<Vec<u8>, Status> {
    check(&call.query, false)?;
    let page = Page::of(state, table, call)?;
    // Version 0 is whatever a cache has, and caches have no pages.
    let cached = call.query.get("resourceVersion") == "0";
    let limit = call.query.number("limit")?.filter(|_| !cached).unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let definition = &state.tables[table].definition;
    let past = state.tables[table].at(page.revision).ok_or_else(too_long_ago)?;
    let mut found = past
        .after(page.begin.as_ref().map(|begin| &*begin.after))
        .filter(|(_, object)| selector.matches(object));
    let mut shown: Vec<(&str, &Arc<Value>)> = Vec::new();
    if limit == 0 {
        shown.extend(found.by_ref());
    } else {
        shown.extend(found.by_ref().take(limit));
    }
    // Who selects is not told how many there are, only whether there are more. To count what is left at each page of a
    // long list would take longer than the page.
    let left = match &page.begin {
        _ if selector.is_narrow() => usize::from(found.next().is_some()),
        Some(begin) => begin.left.saturating_sub(shown.len()),
        None => found.count(),
    };
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if definition.custom && !view.metadata_only {
        metadata["continue"] = json!("");
    }
    if let Some((last, _)) = shown.last().filter(|_| left > 0) {
        let next = Continue {
            revision: page.revision,
            left,
            after: (*last).to_owned(),
        };
        metadata["continue"] = json!(next.token());
        if !selector.is_narrow() {
            metadata["remainingItemCount"] = json!(left);
        }
    }
    let items = shown.into_iter().map(|(_, object)| &**object);
    Ok(view.list(&definition.kind, &metadata, definition.custom, items))
}
