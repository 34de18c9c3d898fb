//! Answers about a hub namespace for the projects that claim it.

use super::{projects, stuck};
use crate::index::{
    GatewayIndex, TableId,
    derived::summary::Problem,
    fixture::{HUB, binding, shop, zoo},
};
use fedgate_kinds::KindId;
use fedgate_operations::Class;
use serde_json::json;

#[test]
fn only_the_project_of_a_hub_namespace_reads_its_cells_and_its_name() {
    let mut index = GatewayIndex::fixture();
    let mut bound = binding("web");
    bound["spec"]["clusters"] = json!([{"name": "dfw-1"}]);
    index.hub_has(TableId::Bindings, &bound);
    index.with_zoo("z1", "a1");
    let problem = Problem {
        class: Class::Refused,
        reason: "HubNamespaceClaimed".into(),
        since: 0,
    };
    for (project, namespace, cell) in [(shop(), "default", "dfw-1"), (zoo(), "cages", "")] {
        let object = (project.clone(), (KindId::FIRST, (namespace.into(), "web".into())));
        let found = stuck::of_problem(&index, &object, &problem);
        assert_eq!(found.item.cell, cell, "{project}");
    }
    let shows = |project| {
        let rows = projects::namespaces(&index, &project);
        rows.iter().any(|row| row.hub_namespace == HUB)
    };
    assert_eq!([shows(shop()), shows(zoo())], [true, false]);
}
