//! A cell's user on the hub: admission policies bind its writes to the Cluster whose name it has.

use super::{Check, Finding, Subject};
use crate::membership::cluster::Cluster;
use fedgate_manifests::{CELL_ACCOUNT_PREFIX, CELL_ACCOUNTS_GROUP, CELL_USER_PREFIX, CELLS};
use serde_json::Value;

/// Checks name and group of the user, and that the Cluster exists; `clusters` are those of the hub, if known.
pub(super) async fn check(subject: &Subject, clusters: Option<&[Value]>) -> Finding {
    let user = match subject.user().await {
        Ok(user) => user,
        Err(error) => return subject.error(Check::CellLogin, &error),
    };
    let groups = user.groups.unwrap_or_default();
    judge(subject, &user.username.unwrap_or_default(), &groups, clusters)
}

fn judge(subject: &Subject, user: &str, groups: &[String], clusters: Option<&[Value]>) -> Finding {
    let check = Check::CellLogin;
    let cell = &subject.name;
    let wanted = format!("{CELL_ACCOUNT_PREFIX}{cell}");
    let by_certificate = format!("{CELL_USER_PREFIX}{cell}");
    let issue = format!("issue one: fedgate cells credential {cell} rotate --out FILE");
    let group = if user == wanted {
        CELL_ACCOUNTS_GROUP
    } else if user == by_certificate {
        CELLS
    } else {
        return subject.fail(
            check,
            format!("the credential is of user {user}, not {wanted} or {by_certificate}"),
            issue,
        );
    };
    if !groups.iter().any(|of| of == group) {
        return subject.fail(check, format!("user {user} is not in group {group}"), issue);
    }
    let is_own = |cluster: &Value| Cluster(cluster).name() == cell;
    match clusters {
        Some(clusters) if !clusters.iter().any(is_own) => subject.fail(
            check,
            format!("the hub has no Cluster {cell}, so the cell may write nothing"),
            format!("join it under this name: fedgate cells join {cell} --city CITY, or correct the name"),
        ),
        Some(_) => subject.ok(check, format!("user {user} is the one of Cluster {cell}")),
        None => subject.open(
            check,
            format!("user {user} is right, but the Clusters of the hub are not known"),
            "correct the hub's lines first",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, super::tests::subject, *};

    #[test]
    fn a_cells_user_needs_its_name_its_group_and_its_cluster() {
        let mut subject = subject();
        subject.name = "dfw-1".to_owned();
        let cells = [CELLS.to_owned()];
        let clusters = [serde_json::json!({"metadata": {"name": "dfw-1"}})];
        let own = "fedgate-cell-dfw-1";
        let judge = |user: &str, groups: &[String], clusters| judge(&subject, user, groups, clusters);
        let account = "system:serviceaccount:fedgate-cells:dfw-1";
        let accounts = ["system:serviceaccounts:fedgate-cells".to_owned()];
        assert_eq!(judge(account, &accounts, Some(&clusters)).verdict, Verdict::Ok);
        assert_eq!(judge(account, &cells, Some(&clusters)).verdict, Verdict::Fail);
        assert_eq!(judge(own, &cells, Some(&clusters)).verdict, Verdict::Ok);
        assert_eq!(judge(own, &cells, None).verdict, Verdict::Open);
        for (finding, text) in [
            (
                judge("fedgate-cell-lhr-1", &cells, Some(&clusters)),
                "of user fedgate-cell-lhr-1",
            ),
            (judge(own, &[], Some(&clusters)), "not in group fedgate-cells"),
            (judge(own, &cells, Some(&[])), "no Cluster dfw-1"),
        ] {
            assert_eq!(finding.verdict, Verdict::Fail);
            assert!(
                finding.text.contains(text) && !finding.next.is_empty(),
                "{finding}"
            );
        }
    }
}
