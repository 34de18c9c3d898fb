//! In which order the gateway asks for what becomes of a vault (tests/kinds): what the API servers' audit logs say.

use crate::{
    adopted,
    lanes::{delivered, is, pin},
    support::{
        Case,
        audit::{AuditLog, Entry, GATEWAY, between},
        condition, has_finalizer,
        kinds::{SEAL, SECRET, VAULT},
        label, seconds, trials, wait_for,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};
use tokio::time::Instant;

trials![
    v52_requests_of_a_vault_and_its_end_come_in_their_order,
    v53_a_vault_is_gone_when_its_member_says_so,
];

const NAME: &str = "gold";
const DRAIN: &str = "example.fedgate.dev/drain";

/// What the gateway asked of the hub for the vault's namespace, by its UID, in order of arrival.
fn on_hub(case: &Case, mark: u64) -> Vec<Entry> {
    let own = case.hub_ns.trim_start_matches("ns-");
    let mut asked = case.suite.hub_log.since(mark, GATEWAY);
    asked.retain(|entry| entry.request_uri.contains(own));
    sorted(asked)
}

/// The audit log of the vault's member.
async fn log_of_member(case: &Case) -> AuditLog {
    let member = &case.dfw.name;
    case.suite
        .with_sandbox(async |sandbox| AuditLog::new(&sandbox.audit_log(member)))
        .await
}

/// When the gateway asked the member for the vault, by the hub's proxy, and its watches of it that have ended.
fn looks(case: &Case, log: &AuditLog, mark: u64) -> (Vec<Entry>, usize) {
    let mut asked = log.since(mark, GATEWAY);
    asked.retain(|entry| entry.object_ref.namespace == case.hub_ns);
    let watches = of(&asked, "watch vaults").len();
    asked.retain(|entry| entry.action() == "get vaults");
    (sorted(asked), watches)
}

/// The same of a project.
fn in_project(case: &Case, mark: u64) -> Vec<Entry> {
    let mut asked = case.suite.alpha_log.since(mark, GATEWAY);
    asked.retain(|entry| entry.object_ref.namespace == case.ns);
    sorted(asked)
}

fn sorted(mut asked: Vec<Entry>) -> Vec<Entry> {
    // What was refused is asked for again, but for what is not there.
    asked.retain(|entry| entry.succeeded() || entry.response_status.code == 404);
    asked.sort_by(|a, b| a.request_received_timestamp.cmp(&b.request_received_timestamp));
    asked
}

fn at(entry: &Entry) -> &str {
    &entry.request_received_timestamp
}

/// The requests of this form.
fn of<'a>(asked: &'a [Entry], action: &str) -> Vec<&'a Entry> {
    asked.iter().filter(|entry| entry.action() == action).collect()
}

/// The only request of this form.
fn only<'a>(asked: &'a [Entry], action: &str) -> &'a Entry {
    let found = of(asked, action);
    assert_eq!(found.len(), 1, "{action} once: {:#?}", lines(asked));
    found[0]
}

fn lines(asked: &[Entry]) -> Vec<String> {
    let line = |e: &Entry| {
        let (action, code) = (e.action(), e.response_status.code);
        format!("{} {action} {} {code}", at(e), e.object_ref.name)
    };
    asked.iter().map(line).collect()
}

/// The lanes that an object of the hub was in, one after the other.
fn lanes(states: &[(u64, Value, bool)]) -> Vec<String> {
    let all = states
        .iter()
        .filter_map(|(_, object, _)| label(object, keys::LANE));
    let mut all: Vec<String> = all.map(str::to_owned).collect();
    all.dedup();
    all
}

async fn v52_requests_of_a_vault_and_its_end_come_in_their_order(case: Case) {
    made(&case).await;
    ended(&case).await;
}

/// G7, G14: the member hears of the vault only when its copy is sent, and has by then what the vault names.
async fn made(case: &Case) {
    let member = &case.dfw.name;
    let log = log_of_member(case).await;
    let (mark, below) = (case.suite.hub_log.mark(), log.mark());
    let since = case.hub.version(&VAULT, &case.hub_ns).await;
    adopted::delivered(case).await;
    let states = case.hub.history(&VAULT, &case.hub_ns, &since).await;
    let city = case.dfw.city.to_lowercase();
    let expected = [
        format!("vault-choose-{city}"),
        format!("vault-drop-{member}"),
        format!("vault-send-{member}"),
        format!("vault-pin-{member}"),
    ];
    assert_eq!(lanes(&states), expected);
    let asked = on_hub(case, mark);
    let changes = of(&asked, "patch vaults");
    assert_eq!(changes.len(), 3, "one per lane: {:#?}", lines(&asked));
    let sent = at(changes[1]);
    let all = log.since(below, &case.hub_ns);
    let there = sorted(all.clone());
    let first = |action: &str, name: &str| -> &Entry {
        let found = there
            .iter()
            .find(|entry| entry.action() == action && entry.object_ref.name == name);
        found.unwrap_or_else(|| panic!("{action} {name}: {:#?}", lines(&there)))
    };
    for (action, name) in [("create secrets", "token"), ("create seals", "wax")] {
        assert!(
            at(first(action, name)) < sent,
            "{action} at the member: {:#?}",
            lines(&there)
        );
    }
    assert!(at(first("create vaults", NAME)) > sent);
    let early = all
        .iter()
        .find(|e| e.object_ref.resource == "vaults" && at(e) <= sent);
    assert!(early.is_none(), "before it was sent: {early:?}");
}

/// G35.
async fn ended(case: &Case) {
    let log = log_of_member(case).await;
    let (mark, alpha, below) = (case.suite.hub_log.mark(), case.suite.alpha_log.mark(), log.mark());
    let (vaults, seals) = (
        case.hub.version(&VAULT, &case.hub_ns).await,
        case.hub.version(&SEAL, &case.hub_ns).await,
    );
    case.delete(&VAULT, NAME).await;
    case.project.gone(&VAULT, &case.ns, NAME, seconds(200)).await;
    let member = &case.dfw.name;
    let states = case.hub.history(&VAULT, &case.hub_ns, &vaults).await;
    assert_eq!(lanes(&states), [format!("vault-drop-{member}")]);
    let states = case.hub.history(&SEAL, &case.hub_ns, &seals).await;
    assert_eq!(lanes(&states), [format!("park-{member}")]);
    let asked = on_hub(case, mark);
    let copy = only(&asked, "delete vaults");
    let (proxied, _) = looks(case, &log, below);
    let [spec, first, ..] = proxied.as_slice() else {
        panic!(
            "its member was asked for its spec, and for its end: {:#?}",
            lines(&asked)
        );
    };
    let last = proxied.last().expect("one at least");
    assert_eq!(last.response_status.code, 404, "its member has the last word");
    let pins = only(&asked, "patch configmaps");
    let project = in_project(case, alpha);
    let order = [
        (
            "its member is asked for its spec, before copy to drop",
            spec,
            only(&asked, "patch vaults"),
        ),
        (
            "copy to drop, before copy deleted",
            only(&asked, "patch vaults"),
            copy,
        ),
        (
            "seal to park, before copy deleted",
            only(&asked, "patch seals"),
            copy,
        ),
        ("copy deleted, before its member is asked", copy, first),
        (
            "the binding's end, before its member is asked",
            &binding(case, mark),
            first,
        ),
        ("the member's word, before the pin goes", last, pins),
        ("the pin, before the seal", pins, only(&asked, "delete seals")),
        ("the pin, before the Secret", pins, only(&asked, "delete secrets")),
    ];
    let free = only(&project, "patch vaults");
    let companions = ["delete seals", "delete secrets"]
        .map(|action| ("a companion, before the finalizers", only(&asked, action), free));
    for (what, earlier, later) in order.into_iter().chain(companions) {
        assert!(
            at(earlier) < at(later),
            "{what}: {:#?} {:#?}",
            lines(&asked),
            lines(&project)
        );
    }
}

/// Karmada's last write to the copy's binding.
fn binding(case: &Case, mark: u64) -> Entry {
    let mut all = case.suite.hub_log.since(mark, &case.hub_ns);
    all.retain(|e| {
        let of = &e.object_ref;
        of.resource == "resourcebindings" && of.name == "gold-vault" && e.is_write() && e.succeeded()
    });
    sorted(all).pop().expect("its binding has ended")
}

/// G34: a watch through the hub's proxy tells that the member's object has changed.
async fn v53_a_vault_is_gone_when_its_member_says_so(case: Case) {
    delivered(&case).await;
    let held = json!({"metadata": {"finalizers": [DRAIN]}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, NAME, held).await;
    let log = log_of_member(&case).await;
    let mark = log.mark();
    case.delete(&VAULT, NAME).await;
    case.project
        .sees(&VAULT, &case.ns, NAME, "waits for its member", seconds(90), |o| {
            is(o, "Federated", "WaitingForMember")
                && condition(o, "Federated").is_some_and(|c| c["message"].to_string().contains(DRAIN))
        })
        .await;
    // After 8 s without an answer that helps, the next look is due in 16 s.
    wait_for("looks are far apart", seconds(120), || async {
        let (asked, _) = looks(&case, &log, mark);
        let [.., earlier, last] = asked.as_slice() else {
            return None;
        };
        (between(earlier, last) > seconds(7)).then_some(())
    })
    .await;
    let waits = case.project.get(&VAULT, &case.ns, NAME).await.expect("it waits");
    assert!(has_finalizer(&waits, keys::FEDERATOR_FINALIZER));
    assert!(pin(&case).await.is_some(), "the pin stays");
    for plane in [&case.hub, &case.dfw.plane] {
        plane.exists(&SECRET, &case.hub_ns, "token", seconds(5)).await;
    }
    let (_, watches) = looks(&case, &log, mark);
    let free = json!({"metadata": {"finalizers": null}});
    case.dfw.plane.merge(&VAULT, &case.hub_ns, NAME, free).await;
    let since = Instant::now();
    case.project.gone(&VAULT, &case.ns, NAME, seconds(120)).await;
    let took = since.elapsed();
    eprintln!("    gone {:.1} s after its member's object", took.as_secs_f64());
    assert!(took < seconds(14), "no look was due before: {took:?}");
    let (asked, ended) = looks(&case, &log, mark);
    assert!(ended > watches, "its watch has told: {:#?}", lines(&asked));
    assert_eq!(asked.last().map(|entry| entry.response_status.code), Some(404));
    assert_eq!(pin(&case).await, None);
}
