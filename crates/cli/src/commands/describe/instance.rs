//! The text about an Instance.

use super::{Lines, runtime};
use crate::{
    time::age,
    view::{Home, InstanceState, InstanceWord, Object},
};
use jiff::Timestamp;

/// Describes an Instance.
pub(super) fn text(instance: &Object, home: &Home, now: Timestamp) -> String {
    let state = InstanceState::of(instance);
    let runtime = &instance.0["spec"]["runtime"];
    let mut lines = Lines::default();
    lines.field("Instance", instance.name());
    lines.field("Workload", &home.workload);
    lines.field("Placement", &home.placement);
    lines.field("City", &home.city);
    let created = instance.created().map(|created| age(created, now));
    lines.field("Age", &created.unwrap_or_default());
    lines.field("Status", &state.described);
    lines.field("Message", state.message);
    lines.field("Type", &runtime::kind(runtime));
    network(&mut lines, instance);
    runtime::containers(&mut lines, runtime);
    let gates = instance.list("/spec/controller/schedulingGates").iter();
    let gates: Vec<&str> = gates.filter_map(|gate| gate["name"].as_str()).collect();
    if !gates.is_empty() {
        lines.field("Gates", &gates.join(", "));
    }
    conditions(&mut lines, instance, now);
    lines.next_steps(&next_steps(home, &state));
    lines.0
}

fn network(lines: &mut Lines, instance: &Object) {
    let address = |field: &str| instance.text(&format!("/status/networkInterfaces/0/assignments/{field}"));
    let (external, internal) = (address("externalIP"), address("networkIP"));
    let text = match (external, internal) {
        ("", "") => "Waiting for addresses".to_owned(),
        ("", internal) => format!("{internal} (internal)"),
        (external, "") => format!("{external} (external)"),
        (external, internal) => format!("{external} (external), {internal} (internal)"),
    };
    lines.field("Network", &text);
}

fn conditions(lines: &mut Lines, instance: &Object, now: Timestamp) {
    let types = instance.list("/status/conditions").iter();
    let types: Vec<&str> = types.filter_map(|condition| condition["type"].as_str()).collect();
    if types.is_empty() {
        return;
    }
    lines.line("Conditions:");
    let width = types.iter().map(|type_| type_.len()).max().unwrap_or_default();
    for type_ in types {
        if let Some(condition) = instance.condition(type_) {
            let since = condition.since.map(|since| age(since, now));
            lines.line(&format!(
                "  {type_:<width$}  {:<7}  {}  {}",
                condition.status,
                condition.reason,
                since.as_deref().unwrap_or("-")
            ));
        }
    }
}

fn next_steps(home: &Home, state: &InstanceState<'_>) -> Vec<String> {
    let workload = &home.workload;
    if state.lacks_quota {
        return vec!["kubectl compute quota".to_owned()];
    }
    if state.word == InstanceWord::Failed && workload != "orphaned" {
        return vec![
            format!("kubectl compute rollout history {workload}"),
            format!("kubectl compute rollout undo {workload}"),
        ];
    }
    if matches!(state.word, InstanceWord::Available | InstanceWord::Terminating) || workload == "orphaned" {
        return Vec::new();
    }
    vec![format!("kubectl compute trace {workload} --city {}", home.city)]
}
