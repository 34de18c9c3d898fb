//! Works that are being deleted, do not end and preserve their objects: they hold their Clusters, too (contract: clusters.md V4).

use super::{Check, Finding, PreflightError, Subject};
use fedgate_gateway::single_member::probe::{is_stuck, named, works_resource};
use fedgate_kinds::FederatedKind;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, ObjectMeta},
};

/// Works in a page of the list.
const PAGE: u32 = 500;
/// Maximum number of Works that are read.
const AT_MOST: usize = 20_000;
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 8;
/// Maximum number of Works that are looked at, and that are named.
const NAMED: (usize, usize) = (50, 10);

/// Checks the Works; `None` if no kind preserves its objects.
pub(super) async fn check(subject: &Subject, kinds: &[FederatedKind], now: Timestamp) -> Option<Finding> {
    if !kinds.iter().any(FederatedKind::is_exactly_one) {
        return None;
    }
    let found = async {
        let (stuck, is_whole) = stuck(subject, now).await?;
        Ok((preserving(subject, &stuck).await?, is_whole))
    };
    Some(match found.await {
        Ok((preserving, is_whole)) => judge(subject, &preserving, is_whole),
        Err(error) => {
            let error = PreflightError::of(&error, "list", "works.work.karmada.io");
            subject.error(Check::Works, &error)
        }
    })
}

/// The Works whose deletion takes too long, and whether all Works were read. Of the Works only the metadata is read, since
/// they have whole objects in them.
async fn stuck(subject: &Subject, now: Timestamp) -> Result<(Vec<ObjectMeta>, bool), kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(subject.client.client(), &works_resource());
    let mut list = ListParams::default().limit(PAGE);
    let (mut stuck, mut count) = (Vec::new(), 0);
    loop {
        let page = api.list_metadata(&list).await?;
        count += page.items.len();
        let works = page.items.into_iter().map(|work| work.metadata);
        stuck.extend(works.filter(|work| is_stuck(work, now)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok((stuck, true)),
            Some(_) if count >= AT_MOST => return Ok((stuck, false)),
            Some(token) => list = list.continue_token(&token),
        }
    }
}

/// Works of the list that preserve their objects. The gateway may list Works, and not get them.
async fn preserving(subject: &Subject, works: &[ObjectMeta]) -> Result<Vec<ObjectMeta>, kube::Error> {
    let looked_at = works.iter().take(NAMED.0);
    let lists = stream::iter(looked_at.map(|work| async {
        let within = work.namespace.as_deref().unwrap_or_default();
        let name = work.name.as_deref().unwrap_or_default();
        let api: Api<DynamicObject> =
            Api::namespaced_with(subject.client.client(), within, &works_resource());
        api.list(&ListParams::default().fields(&format!("metadata.name={name}")))
            .await
    }));
    let lists: Vec<_> = lists.buffered(AT_ONCE).try_collect().await?;
    let works = lists.into_iter().flat_map(|list| list.items);
    let preserve = works.filter(|work| work.data["spec"]["preserveResourcesOnDeletion"] == true);
    Ok(preserve.map(|work| work.metadata).collect())
}

fn judge(subject: &Subject, works: &[ObjectMeta], is_whole: bool) -> Finding {
    let check = Check::Works;
    let Some(first) = works.first() else {
        if is_whole {
            return subject.ok(check, "no Work that is being deleted keeps its object");
        }
        let text = format!("the hub has more than {AT_MOST} Works, of which the rest was not looked at");
        let next = "look for reason WorkStuck in the conditions of deleted objects";
        return subject.open(check, text, next);
    };
    let names: Vec<String> = works.iter().take(NAMED.1).map(named).collect();
    let (names, more) = (names.join(", "), if works.len() > NAMED.1 { " …" } else { "" });
    let within = first.namespace.as_deref().unwrap_or_default();
    let name = first.name.as_deref().unwrap_or_default();
    subject.fail(
        check,
        format!(
            "Works that preserve their objects are being deleted and do not end, and hold their Clusters, too: {names}{more}"
        ),
        format!(
            "if the object is not at the member, or the member is lost, take off the finalizers of each: kubectl \
             patch works.work.karmada.io {name} -n {within} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"
        ),
    )
}
