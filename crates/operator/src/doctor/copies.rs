//! Copies that a cell which reads locations alone could not place: those without `spec.locationRef` at a Cluster with the
//! label of a location (contract: locations.md §3).

use super::{Check, Finding, PreflightError, Subject};
use fedgate_api::keys;
use fedgate_kinds::FederatedKind;
use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, ObjectMeta},
};

/// Copies in a page of the list.
const PAGE: u32 = 500;
/// Maximum number of copies that are read: of a larger hub the gauge tells.
const AT_MOST: usize = 5_000;

/// Checks the copies of a kind; `None` if it names no locations, or if no Cluster has one.
pub(super) async fn check(
    subject: &Subject,
    clusters: &[DynamicObject],
    kind: &FederatedKind,
) -> Option<Finding> {
    let located: Vec<&DynamicObject> = clusters
        .iter()
        .filter(|cluster| label(&cluster.metadata, keys::LOCATION).is_some())
        .collect();
    if located.is_empty() || !kind.may_name_a_location() {
        return None;
    }
    let plural = &kind.resource.plural;
    let copies = match read(subject, kind).await {
        Ok(Some(copies)) => copies,
        Ok(None) => {
            let text = format!(
                "the hub has more than {AT_MOST} {plural}, so those without a location were not counted"
            );
            let next = "look at gauge fedgate_copies_without_place{field=\"locationRef\"}";
            return Some(subject.open(Check::Cells, text, next));
        }
        Err(error) => {
            let error = PreflightError::of(&error, "list", &format!("{plural}.{}", kind.resource.group));
            return Some(subject.error(Check::Cells, &error));
        }
    };
    Some(judge(subject, &located, &copies, kind))
}

/// The labels of the copies that lack a location; `None` if there are too many copies.
async fn read(subject: &Subject, kind: &FederatedKind) -> Result<Option<Vec<ObjectMeta>>, kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(subject.client.client(), &kind.resource);
    let mut list = ListParams::default().limit(PAGE);
    let (mut lacking, mut count) = (Vec::new(), 0);
    loop {
        let page = api.list(&list).await?;
        count += page.items.len();
        let without = |copy: &DynamicObject| copy.data.pointer("/spec/locationRef/name").is_none();
        lacking.extend(page.items.into_iter().filter(without).map(|copy| copy.metadata));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(Some(lacking)),
            Some(_) if count >= AT_MOST => return Ok(None),
            Some(token) => list = list.continue_token(&token),
        }
    }
}

fn judge(
    subject: &Subject,
    located: &[&DynamicObject],
    copies: &[ObjectMeta],
    kind: &FederatedKind,
) -> Finding {
    let at = |cluster: &DynamicObject| {
        let same = |copy: &ObjectMeta, key: &str| {
            let of_cluster = label(&cluster.metadata, key);
            of_cluster.is_some() && label(copy, key) == of_cluster
        };
        let is_there = |copy: &&ObjectMeta| same(copy, &kind.placement.label) || same(copy, keys::LOCATION);
        copies.iter().filter(is_there).count()
    };
    let counts = located.iter().map(|cluster| {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        (name, at(cluster))
    });
    let lacking: Vec<String> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    let plural = &kind.resource.plural;
    if lacking.is_empty() {
        let text = format!("all {plural} at Clusters with a location name theirs");
        return subject.ok(Check::Cells, text);
    }
    subject.open(
        Check::Cells,
        format!("{plural} without spec.locationRef at Clusters with a location: {}", lacking.join(", ")),
        "replace none of these cells by one that reads locations alone before there are none: the gateway adds the \
         location once all Clusters of the city have the same one (gauge fedgate_copies_without_place)",
    )
}

fn label<'a>(of: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    of.labels.as_ref()?.get(key)
}
