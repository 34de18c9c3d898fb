//! The use of a cell: bindings, write-backs, and objects of tenants at the member. Pure, but for the lists.

use super::{
    change::title,
    cluster::Cluster,
    plane::{Plane, kind},
};
use fedgate_api::keys::{CELL, CITY_CODE, CLAIM_FINALIZER, LOCATION};
use fedgate_kinds::{CompanionKinds, FederatedKind};
use fedgate_terminal::{error::Error, write::say};
use kube::api::ApiResource;
use serde_json::Value;

/// Bindings of Karmada.
pub fn bindings() -> [ApiResource; 2] {
    ["ResourceBinding", "ClusterResourceBinding"].map(|name| kind("work.karmada.io/v1alpha2", name))
}

/// The kinds that cells write back, each once.
pub fn write_backs(kinds: &[FederatedKind]) -> Vec<&ApiResource> {
    let mut all: Vec<&ApiResource> = Vec::new();
    for of in kinds.iter().filter_map(|kind| kind.write_back.as_ref()) {
        if !all.contains(&&of.resource) {
            all.push(&of.resource);
        }
    }
    all
}

/// Group and kind of a binding's object.
fn kind_of(binding: &Value) -> (&str, &str) {
    let resource = &binding["spec"]["resource"];
    let version = resource["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    (group, resource["kind"].as_str().unwrap_or_default())
}

/// True if the binding's object is of one of these kinds.
pub fn is_of(binding: &Value, kinds: &[ApiResource]) -> bool {
    let (group, name) = kind_of(binding);
    kinds.iter().any(|kind| kind.group == group && kind.kind == name)
}

/// True if the binding's object is a tenant's own, also of a kind that was not loaded: neither a Namespace nor a companion,
/// which follow the others.
pub fn is_own(binding: &Value, companions: &CompanionKinds) -> bool {
    let (group, name) = kind_of(binding);
    (group, name) != ("", "Namespace") && companions.id_of(group, name).is_none()
}

/// True if the binding delivers to the cell, or keeps its object there until another cell serves.
pub fn names_cell(binding: &Value, cell: &str) -> bool {
    let clusters = binding["spec"]["clusters"].as_array();
    let mut clusters = clusters.into_iter().flatten();
    clusters.any(|cluster| cluster["name"] == cell) || is_evicted(binding, cell)
}

/// True if the binding's object leaves the cell by a graceful eviction task.
pub fn is_evicted(binding: &Value, cell: &str) -> bool {
    let tasks = binding["spec"]["gracefulEvictionTasks"].as_array();
    let mut tasks = tasks.into_iter().flatten();
    tasks.any(|task| task["fromCluster"] == cell)
}

/// True if the binding is of a city or location: its affinity names the label.
pub fn is_placed(binding: &Value) -> bool {
    let affinity = binding["spec"]["placement"]["clusterAffinity"].to_string();
    affinity.contains(CITY_CODE) || affinity.contains(LOCATION)
}

/// True if the binding is of a location.
pub fn is_located(binding: &Value) -> bool {
    let affinity = &binding["spec"]["placement"]["clusterAffinity"];
    affinity.to_string().contains(LOCATION)
}

/// True if another cell to which the binding delivers reports its object as applied and healthy. Nobody may judge the health of a kind that is
/// not among `kinds`: such an object has to be applied, and not called unhealthy.
pub fn is_safe_without(binding: &Value, cell: &str, kinds: &[ApiResource]) -> bool {
    let is_well =
        |item: &Value| item["health"] == "Healthy" || !is_of(binding, kinds) && item["health"] != "Unhealthy";
    let items = binding["status"]["aggregatedStatus"].as_array();
    let stays = |item: &Value| {
        let name = item["clusterName"].as_str().unwrap_or_default();
        name != cell && names_cell(binding, name) && !is_evicted(binding, name)
    };
    items
        .into_iter()
        .flatten()
        .any(|item| stays(item) && item["applied"] == true && is_well(item))
}

/// Kind, namespace and name of a binding's object.
pub fn object_of(binding: &Value) -> String {
    let resource = &binding["spec"]["resource"];
    title(&serde_json::json!({"kind": resource["kind"], "metadata": resource}))
}

/// The uses of a cell, in words: tenants' objects that are delivered to it, its write-backs on the hub, objects of federated kinds
/// and those that are written back at the member, which of these hold a claim of quota, and other bindings that name it.
pub fn of_cell(
    cell: &str,
    companions: &CompanionKinds,
    bindings: &[Value],
    write_backs: &[Value],
    at_member: &[Value],
) -> Vec<String> {
    let named = bindings.iter().filter(|binding| names_cell(binding, cell));
    let (delivered, others): (Vec<&Value>, Vec<&Value>) =
        named.partition(|binding| is_own(binding, companions));
    let written = write_backs
        .iter()
        .filter(|written| written["metadata"]["labels"][CELL] == cell);
    let claims = at_member
        .iter()
        .filter(|object| has_finalizer(object, &[CLAIM_FINALIZER]));
    let mut parts = listed(&[
        (
            delivered.into_iter().map(object_of).collect(),
            "delivered objects",
        ),
        (written.map(title).collect(), "write-backs on the hub"),
        (at_member.iter().map(title).collect(), "objects at the cell"),
    ]);
    for (count, noun) in [(claims.count(), "quota claims"), (others.len(), "other bindings")] {
        parts.extend((count > 0).then(|| format!("{count} {noun}")));
    }
    parts
}

/// True if the object has one of these finalizers.
pub fn has_finalizer(object: &Value, finalizers: &[&str]) -> bool {
    let has = object["metadata"]["finalizers"].as_array();
    let mut has = has.into_iter().flatten().filter_map(Value::as_str);
    has.any(|finalizer| finalizers.contains(&finalizer))
}

/// Fails if a cell or project that is to go is in use, unless that is forced.
pub fn refuse_used(subject: &str, used: &[String], force: bool, next: &str) -> Result<(), Error> {
    let text = used.join(", ");
    if used.is_empty() {
        return Ok(());
    }
    if force {
        say(&format!("{subject} is in use and leaves all the same: {text}"));
        return Ok(());
    }
    Err(Error::refused(format!("{subject} is in use: {text}")).next(next))
}

/// Number, noun and first names of each list that is not empty.
pub fn listed(lists: &[(Vec<String>, &str)]) -> Vec<String> {
    let lists = lists.iter().filter(|(names, _)| !names.is_empty());
    lists
        .map(|(names, noun)| format!("{} {noun} ({})", names.len(), first(names)))
        .collect()
}

/// The first five names.
pub fn first(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        return format!("{shown}, ...");
    }
    shown
}

/// Reads the bindings of the hub.
pub async fn list_bindings(hub: &Plane) -> Result<Vec<Value>, Error> {
    bindings_that(hub, |_| true).await
}

/// Reads the bindings of the hub that name a cell.
pub async fn bindings_of_cell(hub: &Plane, cell: &str) -> Result<Vec<Value>, Error> {
    bindings_that(hub, |binding| names_cell(binding, cell)).await
}

async fn bindings_that(hub: &Plane, matches: impl Fn(&Value) -> bool) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    for kind in bindings() {
        all.extend(hub.list_matching(&kind, "", "", &matches).await?);
    }
    Ok(all)
}

/// Reads the uses of a cell; those at the member only if it is given.
pub async fn read(
    cell: &str,
    hub: &Plane,
    member: Option<&Plane>,
    kinds: &[FederatedKind],
) -> Result<Vec<String>, Error> {
    let bindings = bindings_of_cell(hub, cell).await?;
    let (mut written, mut at_member) = (Vec::new(), Vec::new());
    for kind in write_backs(kinds) {
        written.extend(hub.list_if_served(kind, &format!("{CELL}={cell}")).await?);
    }
    if let Some(member) = member {
        let own = kinds.iter().map(|kind| &kind.resource);
        for kind in own.chain(write_backs(kinds)) {
            at_member.extend(member.list_if_served(kind, "").await?);
        }
    }
    let companions = CompanionKinds::of(kinds);
    Ok(of_cell(cell, &companions, &bindings, &written, &at_member))
}

/// Cells beside this one that take new deployments of the city.
pub fn others_of_city<'a>(
    cell: Cluster<'_>,
    clusters: &'a [Value],
    kinds: &[ApiResource],
) -> Vec<Cluster<'a>> {
    clusters
        .iter()
        .map(Cluster)
        .filter(|other| other.name() != cell.name() && other.city().is_some() && other.city() == cell.city())
        .filter(|other| other.is_available(kinds))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::cluster::tests::{cluster, kinds},
        *,
    };
    use serde_json::json;

    /// A binding of a deployment.
    pub(crate) fn binding(cells: &[&str], healthy: &[&str]) -> Value {
        let clusters: Vec<Value> = cells.iter().map(|name| json!({"name": name})).collect();
        let status: Vec<Value> = healthy
            .iter()
            .map(|name| json!({"clusterName": name, "applied": true, "health": "Healthy"}))
            .collect();
        json!({
            "metadata": {"name": "web-workloaddeployment", "namespace": "ns-1"},
            "spec": {
                "resource": {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
                    "namespace": "ns-1", "name": "web"},
                "clusters": clusters,
                "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {CITY_CODE: "DFW"}}}},
            },
            "status": {"aggregatedStatus": status},
        })
    }

    /// A binding of another kind's object.
    pub(crate) fn binding_of(api_version: &str, kind: &str, cells: &[&str], healthy: &[&str]) -> Value {
        let mut binding = binding(cells, healthy);
        binding["spec"]["resource"]["apiVersion"] = json!(api_version);
        binding["spec"]["resource"]["kind"] = json!(kind);
        binding
    }

    #[test]
    fn everything_that_uses_a_cell_is_named() {
        let write_back = json!({"kind": "Instance",
            "metadata": {"name": "web-0", "namespace": "ns-1", "labels": {CELL: "dfw-1"}}});
        let instance = json!({"kind": "Instance",
            "metadata": {"name": "web-0", "namespace": "ns-1", "finalizers": [CLAIM_FINALIZER]}});
        let all = [
            binding(&["dfw-1", "dfw-2"], &[]),
            binding(&["lhr-1"], &[]),
            binding_of("v1", "Namespace", &["dfw-1"], &[]),
            binding_of("v1", "Secret", &["dfw-1"], &[]),
            // Of a kind that was not loaded.
            binding_of("x.example/v1", "Vault", &["dfw-1"], &[]),
        ];
        let companions = CompanionKinds::default();
        let written = [write_back];
        let used = of_cell("dfw-1", &companions, &all, &written, &[instance]);
        assert_eq!(
            used.join(", "),
            "2 delivered objects (WorkloadDeployment ns-1/web, Vault ns-1/web), \
             1 write-backs on the hub (Instance ns-1/web-0), 1 objects at the cell (Instance ns-1/web-0), \
             1 quota claims, 2 other bindings"
        );
        assert!(of_cell("iad-1", &companions, &all, &written, &[]).is_empty());
    }

    #[test]
    fn an_object_is_safe_only_with_another_healthy_cell() {
        let is_safe = |binding: &Value| is_safe_without(binding, "dfw-1", &kinds());
        let both = ["dfw-1", "dfw-2"];
        assert!(is_safe(&binding(&both, &both)));
        // The other cell only keeps it until this one serves.
        let mut coming = binding(&["dfw-1"], &both);
        coming["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "dfw-2"}]);
        assert!(!is_safe(&coming));
        assert!(!is_safe(&binding(&both, &["dfw-1"])));
        assert!(!is_safe(&binding(&["dfw-1"], &[])));
        assert!(is_placed(&binding(&[], &[])) && !is_placed(&json!({})));
        let health = |kind: &str, health: Value| {
            let mut binding = binding_of("compute.datumapis.com/v1alpha", kind, &both, &both);
            binding["status"]["aggregatedStatus"][1]["health"] = health;
            is_safe(&binding)
        };
        assert!(!health("WorkloadDeployment", json!("Unknown")));
        assert!(health("Other", json!("Unknown")) && health("Other", Value::Null));
        assert!(!health("Other", json!("Unhealthy")));
    }

    #[test]
    fn only_open_ready_cells_of_the_same_city_count_as_others() {
        let mut dead = cluster("dfw-4", "4", Some("DFW"));
        dead["status"]["conditions"][0]["status"] = json!("Unknown");
        let all = [
            cluster("dfw-1", "1", Some("DFW")),
            cluster("dfw-2", "2", Some("DFW")),
            cluster("lhr-1", "3", Some("LHR")),
            dead,
        ];
        let others = others_of_city(Cluster(&all[0]), &all, &kinds());
        assert_eq!(
            others.into_iter().map(Cluster::name).collect::<Vec<_>>(),
            ["dfw-2"]
        );
    }
}
