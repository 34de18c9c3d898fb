//! `fedgate cells move` and `balance`: the request to move deployments to other cells of their city. The gateway carries it out (contract:
//! serving.md §2).

use super::{
    args::{BalanceArgs, MoveArgs},
    change::Verb,
    cluster::Cluster,
    executor::Executor,
    plane::{Plane, kind},
    usage::{self, is_evicted, is_of, names_cell, object_of},
};
use fedgate_api::keys::{CITY_CODE, LOCATION, MOVE_TO, UPSTREAM_CLUSTER, UPSTREAM_NAMESPACE};
use fedgate_kinds::FederatedKind;
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use kube::api::ApiResource;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Runs `fedgate cells move`.
pub(super) async fn run(args: &MoveArgs) -> Result<(), Error> {
    let hub = super::open_hub(&args.hub).await?;
    let kinds = movable(&super::load_kinds(&args.kinds)?.federated);
    let (namespace, name) = &args.object;
    let hub_namespace = hub_namespace(&hub, &args.project.label(), namespace).await?;
    let copy = copy(&hub, &kinds, &hub_namespace, name).await?;
    let clusters = hub.clusters().await?;
    let target = clusters
        .iter()
        .map(Cluster)
        .find(|cluster| cluster.name() == args.to);
    let target = target.ok_or_else(|| {
        Error::new(Kind::NotFound, format!("the hub has no Cluster {}", args.to)).next("fedgate cells list")
    })?;
    check(&copy, target, &kinds)?;
    let bindings = usage::list_bindings(&hub).await?;
    let is_its = |binding: &&Value| {
        let resource = &binding["spec"]["resource"];
        resource["kind"] == copy["kind"]
            && resource["namespace"] == *hub_namespace
            && resource["name"] == **name
    };
    let binding = bindings.iter().find(is_its);
    let runs_there = |binding: &Value| names_cell(binding, &args.to) && !is_evicted(binding, &args.to);
    if binding.is_some_and(runs_there) {
        say(&format!("{name} runs at cell {}; nothing to change", args.to));
        return Ok(());
    }
    let mut executor = Executor::new(args.write.mode(None));
    executor.run(&hub, Verb::Merge, request(&copy, &args.to)).await?;
    let project = args.project.as_str();
    executor.conclude(
        &format!("fedgate trace {project} {namespace}/{name} shows the move"),
        "",
    );
    Ok(())
}

/// Runs `fedgate cells balance`.
pub(super) async fn balance(args: &BalanceArgs) -> Result<(), Error> {
    let hub = super::open_hub(&args.hub).await?;
    let kinds = movable(&super::load_kinds(&args.kinds)?.federated);
    let clusters = hub.clusters().await?;
    let bindings = usage::list_bindings(&hub).await?;
    let (cells, placed) = loads(&args.city, &clusters, &bindings, &kinds)?;
    let mut executor = Executor::new(args.write.mode(None));
    for (binding, to) in choose(cells, placed) {
        let resource = &binding["spec"]["resource"];
        let like = json!({"apiVersion": resource["apiVersion"], "kind": resource["kind"],
            "metadata": {"namespace": resource["namespace"], "name": resource["name"]}});
        if let Some(copy) = hub.live(&like).await? {
            say(&format!("{} goes to cell {to}", object_of(binding)));
            executor.run(&hub, Verb::Merge, request(&copy, &to)).await?;
        }
    }
    executor.conclude(
        "the gateway moves the deployments, a few at a time",
        "the cells are even",
    );
    Ok(())
}

/// The kinds whose objects run at one cell at a time.
fn movable(kinds: &[FederatedKind]) -> Vec<ApiResource> {
    let movable = kinds.iter().filter(|kind| kind.is_movable());
    movable.map(|kind| kind.resource.clone()).collect()
}

/// The patch of a copy that names the cell to which it is to move.
fn request(copy: &Value, to: &str) -> Value {
    let mut patch = json!({"apiVersion": copy["apiVersion"], "kind": copy["kind"], "metadata": {"annotations": {MOVE_TO: to}}});
    for key in ["namespace", "name", "uid", "resourceVersion"] {
        patch["metadata"][key] = copy["metadata"][key].clone();
    }
    patch
}

/// The hub namespace of a project's namespace.
async fn hub_namespace(hub: &Plane, project: &str, namespace: &str) -> Result<String, Error> {
    let labels = format!("{UPSTREAM_CLUSTER}={project},{UPSTREAM_NAMESPACE}={namespace}");
    let found = hub.list(&kind("v1", "Namespace"), &labels).await?;
    let found = found.first().and_then(|found| found["metadata"]["name"].as_str());
    let missing = || {
        Error::new(
            Kind::NotFound,
            format!("the hub has no Namespace for namespace {namespace} of the project"),
        )
        .next("fedgate projects list")
    };
    found.map(str::to_owned).ok_or_else(missing)
}

/// The copy of this name, of the first movable kind that has one.
async fn copy(hub: &Plane, kinds: &[ApiResource], namespace: &str, name: &str) -> Result<Value, Error> {
    for kind in kinds {
        let like = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"namespace": namespace, "name": name}});
        if let Some(copy) = hub.live(&like).await? {
            return Ok(copy);
        }
    }
    Err(Error::new(
        Kind::NotFound,
        format!("the hub has no deployment {name} in {namespace}"),
    )
    .next("give the name of a deployment, as kubectl compute status shows it, not that of its Workload"))
}

/// Fails unless the cell can run the copy: it is in the copy's city or location, and takes new deployments.
fn check(copy: &Value, target: Cluster<'_>, kinds: &[ApiResource]) -> Result<(), Error> {
    let of = |label: &str| copy["metadata"]["labels"][label].as_str();
    let is_there = match (of(LOCATION), of(CITY_CODE)) {
        (Some(location), _) => target.location() == Some(location),
        (None, city) => city.is_some() && target.city() == city,
    };
    let place = of(LOCATION).or(of(CITY_CODE)).unwrap_or_default();
    if !is_there {
        let what = format!(
            "cell {} does not serve {place}, the place of the deployment",
            target.name()
        );
        return Err(Error::refused(what).next("fedgate cells list shows the cells of each city"));
    }
    if !target.is_available(kinds) {
        let what = format!("cell {} takes no new deployments", target.name());
        let next = "fedgate cells list shows why: it is not ready, drained or cordoned, or it does not serve the kind";
        return Err(Error::refused(what).next(next));
    }
    Ok(())
}

/// A deployment: its binding, its cell, and the number of its replicas.
type Placed<'a> = (&'a Value, String, u64);

/// The replicas at each usable cell of a city, and the deployments there that can move: those of a city, not of a location.
fn loads<'a>(
    city: &str,
    clusters: &[Value],
    bindings: &'a [Value],
    kinds: &[ApiResource],
) -> Result<(BTreeMap<String, u64>, Vec<Placed<'a>>), Error> {
    let usable = clusters.iter().map(Cluster);
    let usable = usable.filter(|cluster| cluster.city() == Some(city) && cluster.is_available(kinds));
    let mut cells: BTreeMap<String, u64> = usable.map(|cluster| (cluster.name().to_owned(), 0)).collect();
    if cells.len() < 2 {
        let what = format!("city {city} has {} cells that take new deployments", cells.len());
        return Err(Error::refused(what).next("fedgate cells list; balancing needs two"));
    }
    let mut placed = Vec::new();
    for binding in bindings.iter().filter(|binding| is_of(binding, kinds)) {
        let spec = &binding["spec"];
        let Some([cluster]) = spec["clusters"].as_array().map(Vec::as_slice) else {
            continue;
        };
        let name = cluster["name"].as_str().unwrap_or_default();
        let Some(load) = cells.get_mut(name) else { continue };
        let replicas = spec["replicas"].as_u64().unwrap_or(1).max(1);
        *load += replicas;
        if spec["gracefulEvictionTasks"].is_null() && !usage::is_located(binding) {
            placed.push((binding, name.to_owned(), replicas));
        }
    }
    Ok((cells, placed))
}

/// The deployments that make the cells even, each with its new cell. Each move brings the fullest and the emptiest cell nearer.
fn choose(mut cells: BTreeMap<String, u64>, mut placed: Vec<Placed<'_>>) -> Vec<(&Value, String)> {
    let mut moves = Vec::new();
    loop {
        let most = cells.iter().max_by_key(|(_, load)| **load);
        let least = cells.iter().min_by_key(|(_, load)| **load);
        let (Some((from, most)), Some((to, least))) = (most, least) else {
            break;
        };
        let (from, to, gap) = (from.clone(), to.clone(), most - least);
        let nearer = |(_, (_, at, replicas)): &(usize, &Placed<'_>)| *at == from && *replicas < gap;
        let candidates = placed.iter().enumerate().filter(nearer);
        let best = candidates.min_by_key(|(_, (_, _, replicas))| (gap / 2).abs_diff(*replicas));
        let Some(best) = best.map(|(at, _)| at) else { break };
        let (binding, _, replicas) = placed.swap_remove(best);
        for (cell, is_left) in [(&from, true), (&to, false)] {
            if let Some(load) = cells.get_mut(cell) {
                *load = if is_left {
                    *load - replicas
                } else {
                    *load + replicas
                };
            }
        }
        moves.push((binding, to));
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            cluster::tests::{cluster, kinds},
            usage::tests::binding,
        },
        *,
    };

    fn placed(name: &str, cell: &str, replicas: u64) -> Value {
        let mut binding = binding(&[cell], &[cell]);
        binding["spec"]["resource"]["name"] = json!(name);
        binding["spec"]["replicas"] = json!(replicas);
        binding
    }

    #[test]
    fn balancing_moves_no_more_than_makes_the_cells_even() {
        let clusters = ["dfw-1", "dfw-2"].map(|name| cluster(name, name, Some("DFW")));
        let moves = |bindings: &[Value]| {
            let (cells, placed) = loads("DFW", &clusters, bindings, &kinds()).unwrap();
            let chosen = choose(cells, placed).into_iter();
            let words = chosen.map(|(binding, to)| format!("{} {to}", binding["spec"]["resource"]["name"]));
            words.collect::<Vec<_>>()
        };
        let six: Vec<Value> = (0..6).map(|n| placed(&format!("w{n}"), "dfw-1", 1)).collect();
        assert_eq!(moves(&six).len(), 3);
        let uneven = [placed("big", "dfw-1", 9), placed("small", "dfw-1", 2)];
        assert_eq!(moves(&uneven), ["\"small\" dfw-2"]);
        assert_eq!(moves(&[placed("only", "dfw-1", 3)]), [""; 0]);
        let mut moving = placed("moving", "dfw-1", 1);
        moving["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "dfw-2"}]);
        assert_eq!(
            moves(&[moving, placed("w", "dfw-1", 1), placed("v", "dfw-1", 1)]).len(),
            1
        );
    }

    #[test]
    fn a_city_with_one_usable_cell_is_not_balanced() {
        let mut drained = cluster("dfw-2", "2", Some("DFW"));
        drained["spec"]["taints"] = json!([{"key": "fedgate.dev/draining", "effect": "NoSchedule"}]);
        let clusters = [cluster("dfw-1", "1", Some("DFW")), drained];
        let error = loads("DFW", &clusters, &[], &kinds()).unwrap_err();
        assert_eq!(error.kind, Kind::Refused);
    }

    #[test]
    fn a_deployment_goes_only_to_a_cell_of_its_place_that_takes_it() {
        let copy = json!({"metadata": {"labels": {CITY_CODE: "DFW"}}});
        let (dfw, lhr) = (
            cluster("dfw-2", "2", Some("DFW")),
            cluster("lhr-1", "3", Some("LHR")),
        );
        assert!(check(&copy, Cluster(&dfw), &kinds()).is_ok());
        assert_eq!(
            check(&copy, Cluster(&lhr), &kinds()).unwrap_err().kind,
            Kind::Refused
        );
        let mut dead = dfw.clone();
        dead["status"]["conditions"][0]["status"] = json!("False");
        assert_eq!(
            check(&copy, Cluster(&dead), &kinds()).unwrap_err().kind,
            Kind::Refused
        );
        let at = json!({"metadata": {"labels": {LOCATION: "dfw-east"}}});
        assert_eq!(
            check(&at, Cluster(&dfw), &kinds()).unwrap_err().kind,
            Kind::Refused
        );
    }

    #[test]
    fn a_request_is_of_the_version_that_was_read() {
        let copy = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"namespace": "ns-1", "name": "web", "uid": "u",
            "resourceVersion": "7", "labels": {"x": "y"}}, "spec": {}});
        assert_eq!(
            request(&copy, "dfw-2"),
            json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"namespace": "ns-1", "name": "web", "uid": "u",
                "resourceVersion": "7", "annotations": {MOVE_TO: "dfw-2"}}})
        );
    }
}
