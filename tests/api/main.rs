//! The API as people and controllers meet it: `api::validate`, and the definitions and admission policies of
//! manifests/ on a real kube-apiserver.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test says where")]

mod admission;
mod cells;
mod claims;
mod definitions;
mod doctor;
mod old_server;
mod plane;
mod table;
mod walls;

use anyhow::Result;
use fedgate_api::validate;
use fedgate_sandbox::User;
use std::collections::BTreeSet;

#[test]
fn rust_refuses_what_the_table_says_and_nothing_else() {
    let mut wrong = Vec::new();
    for case in table::cases() {
        let found = validate::spec(&case.spec);
        let right = case
            .breaks
            .map_or(found.is_empty(), |rule| found.iter().any(|p| p.rule == rule));
        if !right {
            wrong.push(format!(
                "{}: expected {:?}, found {found:?}",
                case.name, case.breaks
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_breaks_every_rule() {
    let broken: BTreeSet<&str> = table::cases().iter().filter_map(|c| c.breaks).collect();
    for rule in (1..=29).map(|n| format!("V{n}")) {
        assert!(
            broken.contains(rule.as_str()),
            "no object of the table breaks {rule}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_agrees() -> Result<()> {
    let sandbox = plane::up().await?;
    let project = sandbox.client("alpha", User::Admin)?;
    let wrong = definitions::the_server_agrees_with_rust(&project).await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    definitions::a_deployment_is_not_bound(&project).await?;
    definitions::a_deployment_is_pruned_and_defaulted(&project).await?;
    definitions::an_instance_has_a_status_from_the_start(&project).await?;
    definitions::a_workload_is_not_ready_from_the_start(&project).await?;
    definitions::a_long_name_and_a_misspelt_field_are_refused(&project).await?;
    definitions::names_and_columns_are_served(&project).await?;
    definitions::the_example_is_accepted(&project).await?;
    admission::a_cell_writes_its_own_instances_only(&sandbox).await?;
    walls::a_cell_puts_nothing_else_on_a_write_back(&sandbox).await?;
    walls::a_cell_takes_no_other_names(&sandbox).await?;
    walls::a_cell_speaks_for_its_own_city(&sandbox).await?;
    walls::a_cell_is_also_its_service_account(&sandbox).await?;
    walls::nobody_in_the_group_deletes_what_names_no_cell(&sandbox).await?;
    admission::the_gateway_deletes_only_what_is_its_own(&sandbox).await?;
    admission::the_gateway_writes_only_what_is_its_own(&sandbox).await?;
    admission::the_gateway_deletes_bindings_of_tenants_only(&sandbox).await?;
    admission::the_gateway_changes_the_cells_of_a_binding_only(&sandbox).await?;
    admission::only_an_operator_reassigns_a_hub_namespace(&sandbox).await?;
    admission::a_tenant_uses_only_networks_that_it_may(&sandbox).await?;
    cells::rules_of_cells_hold(&sandbox.client("hub", User::Admin)?).await?;
    claims::a_cell_writes_its_own_claims_only(&sandbox).await?;
    doctor::definitions_and_policies_are_found_as_they_were_applied(&sandbox).await?;
    sandbox.down().await?;
    Ok(())
}
