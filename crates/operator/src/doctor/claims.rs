//! Quota claims whose cell is no longer registered (contract: cell.md §5): no controller releases them, and an operator
//! decides.

use super::{Check, Finding, PreflightError, Subject};
use fedgate_api::keys::SOURCE_CLUSTER;
use kube::{
    Api,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of claims per run; a run reads only the first ones of a project with more.
const AT_MOST: u32 = 5000;
/// Maximum number of claims that are named per cell.
const NAMED: usize = 5;

/// Finds claims of cells that are not joined to the hub, whose Clusters are given if they are known. `None` if the project
/// does not serve quota claims.
pub(super) async fn claims(subject: &Subject, clusters: Option<&[String]>) -> Option<Finding> {
    let resource = ApiResource {
        group: "quota.miloapis.com".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "quota.miloapis.com/v1alpha1".to_owned(),
        kind: "ResourceClaim".to_owned(),
        plural: "resourceclaims".to_owned(),
    };
    let check = Check::Claims;
    let api: Api<DynamicObject> = Api::all_with(subject.client.client(), &resource);
    let list = ListParams::default().labels(SOURCE_CLUSTER).limit(AT_MOST);
    let found = match api.list(&list).await {
        Ok(found) => found.items,
        // The kind is not served.
        Err(kube::Error::Api(status)) if status.code == 404 => return None,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Some(subject.open(
                check,
                "this user may not list claims of quota, so those of cells that are gone were not looked for",
                "run it once as an administrator of the project",
            ));
        }
        Err(error) => {
            let error = PreflightError::of(&error, "list", "resourceclaims.quota.miloapis.com");
            return Some(subject.error(check, &error));
        }
    };
    Some(match clusters {
        Some(clusters) => judge(subject, &found, &clusters.iter().cloned().collect()),
        None => subject.open(
            check,
            "the registered cells are not known, so claims of cells that are gone were not looked for",
            "mend the lines of Karmada's API server first",
        ),
    })
}

fn judge(subject: &Subject, claims: &[DynamicObject], cells: &BTreeSet<String>) -> Finding {
    let mut left: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for claim in claims {
        let labels = claim.metadata.labels.as_ref();
        let Some(cell) = labels.and_then(|labels| labels.get(SOURCE_CLUSTER)) else {
            continue;
        };
        if !cells.contains(cell) {
            let text = |name: &Option<String>| name.clone().unwrap_or_default();
            let name = format!(
                "{}/{}",
                text(&claim.metadata.namespace),
                text(&claim.metadata.name)
            );
            left.entry(cell).or_default().push(name);
        }
    }
    if left.is_empty() {
        let text = format!("all {} claims of quota are of registered cells", claims.len());
        return subject.ok(Check::Claims, text);
    }
    let cells: Vec<String> = left
        .iter()
        .map(|(cell, names)| {
            let more = names.len().saturating_sub(NAMED);
            let named = names[..names.len().min(NAMED)].join(", ");
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("{cell} ({named}{more})")
        })
        .collect();
    subject.open(
        Check::Claims,
        format!(
            "claims of quota of cells that are not registered: {}",
            cells.join("; ")
        ),
        format!(
            "if such a cell is gone for good, release them: kubectl delete resourceclaims.quota.miloapis.com -A -l {SOURCE_CLUSTER}=<cell>"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, super::tests::subject, *};
    use serde_json::json;

    fn claim(name: &str, cell: &str) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "X",
            "metadata": {"namespace": "default", "name": name, "labels": {SOURCE_CLUSTER: cell}}}))
        .unwrap()
    }

    #[test]
    fn claims_of_cells_that_are_gone_are_named_by_cell() {
        let cells = BTreeSet::from(["dfw-1".to_owned()]);
        let fine = judge(&subject(), &[claim("instance-a-0", "dfw-1")], &cells);
        assert_eq!(fine.verdict, Verdict::Ok);
        let mut all: Vec<DynamicObject> = (0..7)
            .map(|n| claim(&format!("instance-a-{n}"), "lhr-1"))
            .collect();
        all.push(claim("instance-b-0", "dfw-1"));
        let open = judge(&subject(), &all, &cells);
        assert_eq!(open.verdict, Verdict::Open);
        assert!(
            open.text.contains("lhr-1 (default/instance-a-0, ") && open.text.contains(" and 2 more)"),
            "{open}"
        );
        assert!(!open.text.contains("instance-b"), "{open}");
        assert!(open.next.contains("kubectl delete"), "{open}");
    }
}
