//! The drain of a cell and its end: the taint, by which the gateway moves deployments to other cells, then the city label, then the
//! wait until the cell is empty (contract: provisioning.md §7.2, serving.md §2).

use super::{
    args::{DrainArgs, UncordonArgs},
    change::{Verb, mark},
    cluster::{BEFORE, Cluster},
    error::foreign,
    executor::Executor,
    plane::{Plane, kind},
    usage::{self, first, is_evicted, is_located, is_own, is_placed, is_safe_without, names_cell, object_of},
    wait::{labelled, until_none},
};
use fedgate_api::keys::{CELL, CITY_CODE, CORDONED, DRAINING, LOCATION};
use fedgate_kinds::{CompanionKinds, FederatedKind};
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use kube::api::ApiResource;
use serde_json::{Value, json};
use std::time::Duration;

/// The next step of a drain.
#[derive(Debug, PartialEq)]
enum Step {
    /// Set taint `fedgate.dev/draining`, by which the gateway moves deployments.
    Taint(Value),
    /// The last cell of a city or location in use: nothing happens.
    LastOfPlace { place: String, objects: Vec<String> },
    /// Wait until other cells run these, then withdraw.
    AwaitOthers(Vec<String>),
    /// Take the labels of city and location off.
    Withdraw(Value),
    /// Wait until nothing is left.
    AwaitEmpty,
}

/// The kinds that a drain knows.
struct Known {
    /// Federated kinds.
    own: Vec<ApiResource>,
    /// Kinds that follow them.
    companions: CompanionKinds,
}

impl Known {
    fn of(kinds: &[FederatedKind]) -> Self {
        Self {
            own: kinds.iter().map(|kind| kind.resource.clone()).collect(),
            companions: CompanionKinds::of(kinds),
        }
    }

    /// True if the binding's object is a tenant's own, in the cell for its city or location.
    fn uses(&self, binding: &Value, cell: &str) -> bool {
        is_placed(binding) && names_cell(binding, cell) && is_own(binding, &self.companions)
    }

    /// True if a binding that uses the cell is not healthy at another cell, or still moves there.
    fn needs(&self, binding: &Value, cell: &str) -> bool {
        is_evicted(binding, cell) || !is_safe_without(binding, cell, &self.own)
    }
}

/// Decides the next step from the Clusters and bindings of the hub.
fn decide(
    cluster: Cluster<'_>,
    clusters: &[Value],
    bindings: &[Value],
    allow_outage: bool,
    kinds: &Known,
) -> Step {
    if let Some(taints) = cluster.taints_with(Some(DRAINING)) {
        return Step::Taint(cluster.patch(json!({"spec": {"taints": taints}})));
    }
    if !cluster.is_open() {
        return Step::AwaitEmpty;
    }
    let used = || {
        bindings
            .iter()
            .filter(|binding| kinds.uses(binding, cluster.name()))
    };
    if !allow_outage {
        let others = usage::others_of_city(cluster, clusters, &kinds.own);
        let is_there = others.iter().any(|other| other.location() == cluster.location());
        let stranded = used().filter(|binding| others.is_empty() || is_located(binding) && !is_there);
        let objects: Vec<String> = stranded.map(object_of).collect();
        if !objects.is_empty() {
            let city = cluster.city().filter(|_| others.is_empty());
            let place = city.or(cluster.location()).unwrap_or_default().to_owned();
            return Step::LastOfPlace { place, objects };
        }
        let left = used().filter(|binding| kinds.needs(binding, cluster.name()));
        let left: Vec<String> = left.map(object_of).collect();
        if !left.is_empty() {
            return Step::AwaitOthers(left);
        }
    }
    let mut before = json!({"city": cluster.city()});
    if let Some(location) = cluster.location() {
        before["location"] = json!(location);
    }
    Step::Withdraw(cluster.withdrawn(&json!({BEFORE: before.to_string()})))
}

/// Runs `fedgate cells drain`.
pub(super) async fn run(args: &DrainArgs) -> Result<(), Error> {
    let name = &args.cell.name;
    let hub = super::open_hub(&args.cell.hub).await?;
    let member = super::open_cell(&args.cell).await?;
    let federated = super::load_kinds(&args.kinds)?.federated;
    super::refuse_cell(&hub, name).await?;
    let mut executor = Executor::new(args.write.mode(None));
    if args.cordon {
        cordon(&hub, name, &mut executor).await?;
        say(&format!("cell {name} takes no new deployments"));
        return Ok(());
    }
    let drain = Drain {
        name,
        hub: &hub,
        member: member.as_ref(),
        allow_outage: args.allow_outage,
        timeout: args.timeout,
        kinds: &federated,
    };
    let is_done = drain.run(&mut executor).await?;
    if is_done {
        let done = format!("cell {name} is drained");
        executor.conclude(&done, &done);
    } else {
        say("(dry run: the steps after this depend on it)");
    }
    Ok(())
}

/// Keeps new deployments away from a cell, which keeps those that it has.
///
/// # Errors
/// If the hub has no such Cluster of ours, or refuses.
pub async fn cordon(hub: &Plane, name: &str, executor: &mut Executor) -> Result<(), Error> {
    let clusters = hub.clusters().await?;
    let cluster = find(name, &clusters)?;
    if let Some(taints) = cluster.taints_with(Some(CORDONED)) {
        let patch = cluster.patch(json!({"spec": {"taints": taints}}));
        executor.run(hub, Verb::Merge, patch).await?;
    }
    Ok(())
}

/// Arguments of a drain.
#[derive(Clone, Copy)]
pub struct Drain<'a> {
    /// Name of the cell.
    pub name: &'a str,
    /// The hub.
    pub hub: &'a Plane,
    /// The cell, where Namespaces of tenants have to be gone, too.
    pub member: Option<&'a Plane>,
    /// True if deployments are withdrawn although no other cell runs them.
    pub allow_outage: bool,
    /// How long to wait for other cells, and until the cell is empty. Without time the drain looks once.
    pub timeout: Duration,
    /// The federated kinds.
    pub kinds: &'a [FederatedKind],
}

impl Drain<'_> {
    /// Goes on with the drain from the present state. Returns false after the first change of a dry run.
    ///
    /// # Errors
    /// `LastCellOfCity` and `OthersNotHealthy`, or if the cell is not empty in time.
    pub async fn run(self, executor: &mut Executor) -> Result<bool, Error> {
        let Self { name, hub, .. } = self;
        let kinds = Known::of(self.kinds);
        let mut awaited = false;
        loop {
            let clusters = hub.clusters().await?;
            let cluster = find(name, &clusters)?;
            let bindings = usage::bindings_of_cell(hub, name).await?;
            match decide(cluster, &clusters, &bindings, self.allow_outage, &kinds) {
                Step::Taint(patch) | Step::Withdraw(patch) => {
                    executor.run(hub, Verb::Merge, patch).await?;
                }
                Step::LastOfPlace { place, objects } => return Err(last_of_place(name, &place, &objects)),
                Step::AwaitOthers(left) if awaited => return Err(others_not_healthy(name, &left)),
                Step::AwaitOthers(_) if executor.writes() => {
                    await_others(hub, name, self.timeout, &kinds).await?;
                    awaited = true;
                }
                Step::AwaitOthers(left) => {
                    say(&format!("would wait for other cells to run {}", first(&left)));
                }
                Step::AwaitEmpty => {
                    if executor.writes() {
                        await_empty(hub, self.member, name, self.timeout, self.kinds).await?;
                    }
                    return Ok(true);
                }
            }
            if !executor.writes() {
                return Ok(false);
            }
        }
    }
}

/// Runs `fedgate cells uncordon`.
pub(super) async fn uncordon(args: &UncordonArgs) -> Result<(), Error> {
    let name = &args.name;
    let hub = super::open_hub(&args.hub).await?;
    super::refuse_cell(&hub, name).await?;
    let clusters = hub.clusters().await?;
    let Some(patch) = restored(find(name, &clusters)?)? else {
        say(&format!("cell {name} takes new deployments; nothing to change"));
        return Ok(());
    };
    let mut executor = Executor::new(args.write.mode(None));
    executor.run(&hub, Verb::Merge, patch).await.map(drop)
}

/// The patch that removes the taints and the labels of city and location back; `None` if the cell is open.
fn restored(cluster: Cluster<'_>) -> Result<Option<Value>, Error> {
    let taints = cluster.taints_with(None);
    let noted = cluster.0["metadata"]["annotations"][BEFORE].as_str();
    if cluster.city().is_some() && taints.is_none() && noted.is_none() {
        return Ok(None);
    }
    let before = noted.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let before = before.unwrap_or_default();
    if cluster.city().is_none() && !before["city"].is_string() {
        let name = cluster.name();
        return Err(Error::refused(format!("the city of cell {name} is not known"))
            .next(format!("fedgate cells join {name} --city CODE")));
    }
    let mut patch = json!({"metadata": {"annotations": {BEFORE: null}}});
    for (label, live, noted) in [
        (CITY_CODE, cluster.city(), &before["city"]),
        (LOCATION, cluster.location(), &before["location"]),
    ] {
        if live.is_none() && noted.is_string() {
            patch["metadata"]["labels"][label] = noted.clone();
        }
    }
    if let Some(taints) = taints {
        patch["spec"] = json!({"taints": taints});
    }
    Ok(Some(cluster.patch(patch)))
}

/// The patch that opens a cell of a city, with the location that a drain has noted, and with this taint of ours or none; `None`
/// if nothing is to change.
pub(super) fn opening_patch(cluster: Cluster<'_>, city: &str, taint: Option<&str>) -> Option<Value> {
    let mut patch = json!({});
    if cluster.city().is_none() {
        patch["metadata"]["labels"][CITY_CODE] = json!(city);
    }
    if let Some(noted) = cluster.0["metadata"]["annotations"][BEFORE].as_str() {
        patch["metadata"]["annotations"][BEFORE] = Value::Null;
        let before: Value = serde_json::from_str(noted).unwrap_or_default();
        if cluster.location().is_none() && before["location"].is_string() {
            patch["metadata"]["labels"][LOCATION] = before["location"].clone();
        }
    }
    if let Some(taints) = cluster.taints_with(taint) {
        patch["spec"]["taints"] = json!(taints);
    }
    (patch != json!({})).then_some(patch)
}

/// The patch that removes our taints and annotations from a Cluster; `None` if it has none.
pub(super) fn releasing_patch(cluster: Cluster<'_>) -> Option<Value> {
    let mut patch = json!({});
    if let Some(taints) = cluster.taints_with(None) {
        patch["spec"]["taints"] = json!(taints);
    }
    if cluster.is_withdrawn() {
        patch["metadata"]["annotations"][BEFORE] = Value::Null;
    }
    (patch != json!({})).then(|| cluster.patch(patch))
}

/// The Cluster, if these commands may change it.
pub(super) fn find<'a>(name: &str, clusters: &'a [Value]) -> Result<Cluster<'a>, Error> {
    let mut all = clusters.iter().map(Cluster);
    let cluster = all.find(|cluster| cluster.name() == name).ok_or_else(|| {
        Error::new(Kind::NotFound, format!("the hub has no Cluster {name}")).next("fedgate cells list")
    })?;
    if mark(cluster.0).is_some() || cluster.is_adopted() {
        return Ok(cluster);
    }
    let next = format!("let these commands use it: fedgate cells join {name} --adopt");
    Err(foreign(&format!("Cluster {name}")).next(next))
}

fn last_of_place(name: &str, place: &str, objects: &[String]) -> Error {
    let count = objects.len();
    Error::refused(format!(
        "cell {name} is the only usable cell of {place}, with {count} objects of tenants"
    ))
    .reason("LastCellOfCity")
    .because(first(objects))
    .next(
        "join another cell there, and the gateway moves the objects; or use --allow-outage; the taint stays",
    )
}

fn others_not_healthy(name: &str, left: &[String]) -> Error {
    Error::timed_out(format!(
        "no other cell runs {} objects of cell {name}",
        left.len()
    ))
    .reason("OthersNotHealthy")
    .because(first(left))
    .next("look at the other cells of the city, or --allow-outage; the cell stays tainted, and the gateway goes on moving its deployments")
}

/// Waits until each object of a tenant in the cell is healthy at another cell.
async fn await_others(hub: &Plane, name: &str, limit: Duration, kinds: &Known) -> Result<(), Error> {
    let left = |binding: &Value| {
        let is_left = kinds.uses(binding, name) && kinds.needs(binding, name);
        is_left.then(|| object_of(binding))
    };
    let [bindings, _] = usage::bindings();
    let missing = |left: &[String]| others_not_healthy(name, left);
    until_none(hub, (bindings, "", labelled("")), limit, left, missing).await
}

/// Waits until no binding names the cell, its write-backs are gone, and its Namespaces of tenants too.
async fn await_empty(
    hub: &Plane,
    member: Option<&Plane>,
    name: &str,
    limit: Duration,
    kinds: &[FederatedKind],
) -> Result<(), Error> {
    type Left<'a> = &'a (dyn Fn(&Value) -> Option<String> + Sync);
    let bound = |binding: &Value| names_cell(binding, name).then(|| object_of(binding));
    let written = |object: &Value| {
        let metadata = &object["metadata"];
        Some(format!(
            "{}/{}",
            metadata["namespace"].as_str()?,
            metadata["name"].as_str()?
        ))
    };
    let tenant = |namespace: &Value| {
        let name = namespace["metadata"]["name"].as_str()?;
        name.starts_with("ns-").then(|| name.to_owned())
    };
    let of_cell = format!("{CELL}={name}");
    let bindings = usage::bindings().into_iter();
    let mut awaited: Vec<(&Plane, ApiResource, &str, Left<'_>, &str)> = bindings
        .map(|kind| (hub, kind, "", &bound as Left<'_>, "bindings"))
        .collect();
    for kind in usage::write_backs(kinds) {
        awaited.push((hub, kind.clone(), &of_cell, &written, "write-backs"));
    }
    if let Some(member) = member {
        let namespaces = kind("v1", "Namespace");
        awaited.push((
            member,
            namespaces,
            "karmada.io/managed=true",
            &tenant,
            "Namespaces",
        ));
    }
    let deadline = tokio::time::Instant::now() + limit;
    for (plane, kind, labels, left, what) in awaited {
        let missing = |names: &[String]| {
            let what = format!("cell {name} still has {} {what}: {}", names.len(), first(names));
            Error::timed_out(what).next("keep the cell's program running, then run the command again")
        };
        let remaining = deadline.saturating_duration_since(tokio::time::Instant::now());
        until_none(plane, (kind, "", labelled(labels)), remaining, left, missing).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            cluster::tests::{cluster, kinds},
            usage::tests::{binding, binding_of},
        },
        *,
    };

    fn known() -> Known {
        Known {
            own: kinds(),
            companions: CompanionKinds::default(),
        }
    }

    fn tainted(mut cluster: Value) -> Value {
        cluster["spec"]["taints"] = json!([{"key": "fedgate.dev/draining", "effect": "NoSchedule"}]);
        cluster
    }

    #[test]
    fn a_drain_taints_checks_the_others_and_withdraws_last() {
        let open = cluster("dfw-1", "1", Some("DFW"));
        let other = cluster("dfw-2", "2", Some("DFW"));
        let decide = |own: &Value, clusters: &[Value], bindings: &[Value], outage| {
            decide(Cluster(own), clusters, bindings, outage, &known())
        };
        assert!(matches!(decide(&open, &[], &[], false), Step::Taint(patch)
            if patch["spec"]["taints"][0]["effect"] == "NoSchedule" && patch["metadata"]["resourceVersion"] == "7"));
        let own = tainted(open);
        let used = [binding(&["dfw-1"], &["dfw-1"])];
        assert_eq!(
            decide(&own, std::slice::from_ref(&own), &used, false),
            Step::LastOfPlace {
                place: "DFW".to_owned(),
                objects: vec!["WorkloadDeployment ns-1/web".to_owned()]
            }
        );
        let both = [own.clone(), other];
        let waiting = [binding(&["dfw-1", "dfw-2"], &["dfw-1"])];
        assert_eq!(
            decide(&own, &both, &waiting, false),
            Step::AwaitOthers(vec!["WorkloadDeployment ns-1/web".to_owned()])
        );
        let safe = [binding(&["dfw-1", "dfw-2"], &["dfw-2"])];
        for (clusters, bindings, outage) in [
            (&both[..], &safe[..], false),
            (&both[..1], &used, true),
            (&both[..1], &[], false),
        ] {
            let Step::Withdraw(patch) = decide(&own, clusters, bindings, outage) else {
                panic!("the label goes");
            };
            assert_eq!(patch["metadata"]["labels"], json!({CITY_CODE: null}));
        }
        let withdrawn = tainted(cluster("dfw-1", "1", None));
        assert_eq!(decide(&withdrawn, &both, &safe, false), Step::AwaitEmpty);
    }

    #[test]
    fn a_drained_cell_opens_with_its_city_and_location_and_the_wanted_taint() {
        let open = cluster("dfw-1", "1", Some("DFW"));
        assert_eq!(opening_patch(Cluster(&open), "DFW", None), None);
        let mut drained = tainted(cluster("dfw-1", "1", None));
        drained["metadata"]["annotations"][BEFORE] = json!(r#"{"city":"DFW","location":"dfw-a"}"#);
        let labels = json!({CITY_CODE: "DFW", LOCATION: "dfw-a"});
        let metadata = json!({"labels": labels, "annotations": {BEFORE: null}});
        for (taint, taints) in [
            (None, json!([])),
            (Some(CORDONED), json!([{"key": CORDONED, "effect": "NoSchedule"}])),
        ] {
            let patch = opening_patch(Cluster(&drained), "DFW", taint).unwrap();
            assert_eq!(patch, json!({"metadata": metadata, "spec": {"taints": taints}}));
        }
    }

    /// Also of kinds that were not loaded; what follows other objects does not count by itself.
    #[test]
    fn the_only_cell_of_any_tenants_object_is_not_drained() {
        let own = tainted(cluster("dfw-1", "1", Some("DFW")));
        let decide = |clusters: &[Value], bindings: &[Value]| {
            decide(Cluster(&own), clusters, bindings, false, &known())
        };
        let vault = |healthy: &[&str]| binding_of("x.example/v1", "Vault", &["dfw-1", "dfw-2"], healthy);
        let alone = decide(std::slice::from_ref(&own), &[vault(&[])]);
        let objects = vec!["Vault ns-1/web".to_owned()];
        assert_eq!(
            alone,
            Step::LastOfPlace {
                place: "DFW".to_owned(),
                objects: objects.clone()
            }
        );
        let both = [own.clone(), cluster("dfw-2", "2", Some("DFW"))];
        assert_eq!(decide(&both, &[vault(&["dfw-1"])]), Step::AwaitOthers(objects));
        assert!(matches!(decide(&both, &[vault(&["dfw-2"])]), Step::Withdraw(_)));
        let followers =
            ["Secret", "ConfigMap", "Namespace"].map(|kind| binding_of("v1", kind, &["dfw-1"], &[]));
        assert!(matches!(decide(&both, &followers), Step::Withdraw(_)));
    }

    /// The copies of a location go to no other location of the city, so its last cell is not drained either.
    #[test]
    fn the_last_cell_of_a_location_stays_although_its_city_has_others() {
        let at = |name: &str, location: &str| {
            let mut cluster = cluster(name, "1", Some("DFW"));
            cluster["metadata"]["labels"][LOCATION] = json!(location);
            cluster
        };
        let own = tainted(at("dfw-1", "us-south-1"));
        let mut located = binding(&["dfw-1"], &["dfw-1"]);
        located["spec"]["placement"]["clusterAffinity"] =
            json!({"labelSelector": {"matchLabels": {LOCATION: "us-south-1"}}});
        let apart = [own.clone(), at("dfw-2", "us-south-2")];
        let decided = decide(
            Cluster(&own),
            &apart,
            std::slice::from_ref(&located),
            false,
            &known(),
        );
        assert_eq!(
            decided,
            Step::LastOfPlace {
                place: "us-south-1".to_owned(),
                objects: vec!["WorkloadDeployment ns-1/web".to_owned()]
            }
        );
        let together = [own.clone(), at("dfw-2", "us-south-1")];
        let decided = decide(Cluster(&own), &together, &[located], false, &known());
        let awaited = vec!["WorkloadDeployment ns-1/web".to_owned()];
        assert_eq!(decided, Step::AwaitOthers(awaited));
        let Step::Withdraw(patch) = decide(Cluster(&own), &together, &[], false, &known()) else {
            panic!("the labels go");
        };
        assert_eq!(
            patch["metadata"]["labels"],
            json!({CITY_CODE: null, LOCATION: null})
        );
        // And come back.
        let mut drained = tainted(cluster("dfw-1", "1", None));
        drained["metadata"]["annotations"][BEFORE] = patch["metadata"]["annotations"][BEFORE].clone();
        let patch = restored(Cluster(&drained)).unwrap().unwrap();
        assert_eq!(
            patch["metadata"]["labels"],
            json!({CITY_CODE: "DFW", LOCATION: "us-south-1"})
        );
    }

    #[test]
    fn uncordon_puts_taint_and_city_back() {
        let mut drained = tainted(cluster("dfw-1", "1", None));
        assert_eq!(restored(Cluster(&drained)).unwrap_err().kind, Kind::Refused);
        drained["metadata"]["annotations"][BEFORE] = json!("{\"city\":\"DFW\"}");
        let patch = restored(Cluster(&drained)).unwrap().unwrap();
        assert_eq!(patch["metadata"]["labels"], json!({CITY_CODE: "DFW"}));
        assert_eq!(patch["spec"]["taints"], json!([]));
        let only_cordoned = tainted(cluster("dfw-1", "1", Some("DFW")));
        let patch = restored(Cluster(&only_cordoned)).unwrap().unwrap();
        assert!(patch["metadata"]["labels"].is_null());
        assert_eq!(restored(Cluster(&cluster("dfw-1", "1", Some("DFW")))), Ok(None));
    }

    #[test]
    fn another_programs_cluster_is_not_changed() {
        let mut foreign = cluster("dfw-1", "1", Some("DFW"));
        foreign["metadata"]["annotations"] = json!({});
        let all = [foreign, cluster("dfw-2", "2", None)];
        assert_eq!(find("dfw-1", &all).unwrap_err().kind, Kind::Refused);
        assert_eq!(find("dfw-3", &all).unwrap_err().kind, Kind::NotFound);
        assert_eq!(find("dfw-2", &all).unwrap().name(), "dfw-2");
    }
}
