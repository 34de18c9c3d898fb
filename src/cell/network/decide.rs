//! What is left to do for a deployment's network, and whether it is ready. Pure.

use crate::api::{LocationReference, NetworkReference, Reason};
use std::{collections::BTreeSet, sync::Arc};

/// An object with a condition Ready, as far as all of them are alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it is being deleted: it is never ready then.
    pub deleting: bool,
    /// Whether its condition Ready is True.
    pub ready: bool,
}

impl Readiness {
    fn holds(&self) -> bool {
        self.ready && !self.deleting
    }
}

/// A `NetworkBinding`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its UID.
    pub uid: Arc<str>,
    /// UID of its controller.
    pub controller: Option<Arc<str>>,
    /// `spec.network`.
    pub network: NetworkReference,
    /// `spec.location`.
    pub location: LocationReference,
    /// Its condition Ready.
    pub readiness: Readiness,
    /// Reason and message of a Ready=False.
    pub refusal: Option<(Arc<str>, Arc<str>)>,
    /// `status.networkContextRef`: namespace and name.
    pub context: Option<(Arc<str>, Arc<str>)>,
}

/// A `NetworkContext`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its UID.
    pub uid: Arc<str>,
    /// `spec.location`.
    pub location: LocationReference,
    /// `spec.ipFamilies`.
    pub families: Vec<Arc<str>>,
    /// Its condition Ready.
    pub readiness: Readiness,
}

/// A `SubnetClaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: Arc<str>,
    /// `spec.subnetClass`.
    pub class: Arc<str>,
    /// `spec.ipFamily`.
    pub family: Arc<str>,
    /// `spec.networkContext.name`.
    pub context: Arc<str>,
    /// `spec.location`.
    pub location: LocationReference,
    /// Its condition Ready.
    pub readiness: Readiness,
    /// `status.subnetRef.name`.
    pub subnet: Option<Arc<str>>,
}

/// What is known of the cell's networking objects.
pub trait Known {
    /// The binding of this name in the deployment's namespace.
    fn binding(&self, name: &str) -> Option<&Binding>;
    /// A context.
    fn context(&self, namespace: &str, name: &str) -> Option<&Context>;
    /// The claims of a namespace, by name.
    fn claims(&self, namespace: &str) -> Vec<&Claim>;
    /// A subnet.
    fn subnet(&self, namespace: &str, name: &str) -> Option<&Readiness>;
}

/// The deployment, as far as its network goes.
#[derive(Debug, Clone, Copy)]
pub struct Deployment<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// The networks of its template's interfaces, in order.
    pub networks: &'a [NetworkReference],
    /// Where the cell is.
    pub location: &'a LocationReference,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Make the binding of an interface.
    Bind {
        /// Its name.
        name: String,
        /// The interface's network.
        network: NetworkReference,
    },
    /// A binding cannot change: it goes, and its end brings the next.
    Unbind {
        /// Its name.
        name: String,
        /// Its UID.
        uid: Arc<str>,
    },
    /// Make a claim for a context, owned by it.
    Claim {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: String,
        /// The context's name.
        context: Arc<str>,
        /// The context's UID.
        owner: Arc<str>,
        /// The address family.
        family: Arc<str>,
    },
}

/// How the network stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// All of it is there.
    Ready,
    /// Something is on its way.
    Pending,
    /// Something will not come by itself; why, for people.
    Refused(String),
}

/// The class of the subnets that are claimed.
const CLASS: &str = "private";
/// The family of a context that names none.
const DEFAULT_FAMILY: &str = "IPv4";

/// Name of the binding of an interface.
pub fn binding_name(deployment: &str, interface: usize) -> String {
    format!("{deployment}-net-{interface}")
}

/// What to do now, and how it stands.
pub fn decide(deployment: &Deployment<'_>, known: &impl Known) -> (Vec<Act>, State) {
    let mut acts = Vec::new();
    let mut bound = Vec::new();
    let mut refused = None;
    for (interface, network) in deployment.networks.iter().enumerate() {
        let name = binding_name(deployment.name, interface);
        match known.binding(&name) {
            None => acts.push(Act::Bind {
                name,
                network: network.clone(),
            }),
            Some(binding) if binding.controller.as_deref() != Some(deployment.uid) => {
                refused.get_or_insert_with(|| {
                    format!("NetworkBinding {name} belongs to something else; delete or rename it")
                });
            }
            Some(binding) if binding.readiness.deleting => {}
            Some(binding) if !is_for(binding, network, deployment) => acts.push(Act::Unbind {
                name,
                uid: binding.uid.clone(),
            }),
            Some(binding) => match refusal(binding) {
                Some(why) => drop(refused.get_or_insert(why)),
                None => bound.push(binding),
            },
        }
    }
    if let Some(why) = refused {
        return (acts, State::Refused(why));
    }
    if bound.len() < deployment.networks.len() || !bound.iter().all(|b| b.readiness.holds()) {
        return (acts, State::Pending);
    }
    let contexts: BTreeSet<_> = bound.iter().map(|binding| binding.context.as_ref()).collect();
    let mut ready = true;
    for context in contexts {
        ready &= context.is_some_and(|(namespace, name)| addressed(namespace, name, known, &mut acts));
    }
    let state = if ready && acts.is_empty() {
        State::Ready
    } else {
        State::Pending
    };
    (acts, state)
}

fn is_for(binding: &Binding, network: &NetworkReference, deployment: &Deployment<'_>) -> bool {
    let namespace = |of: &NetworkReference| {
        let named = of.namespace.clone().filter(|named| !named.is_empty());
        named.unwrap_or_else(|| deployment.namespace.to_owned())
    };
    binding.network.name == network.name
        && namespace(&binding.network) == namespace(network)
        && is_same_place(&binding.location, deployment.location)
}

/// A reference may leave out the namespace of a cluster-scoped Location.
fn is_same_place(a: &LocationReference, b: &LocationReference) -> bool {
    let namespace = |of: &'_ LocationReference| of.namespace.clone().unwrap_or_else(|| "default".to_owned());
    a.name == b.name && namespace(a) == namespace(b)
}

/// What a binding says that will not pass by itself.
fn refusal(binding: &Binding) -> Option<String> {
    let (reason, message) = binding.refusal.as_ref().filter(|_| !binding.readiness.ready)?;
    let final_ones = [
        Reason::NetworkFailedToCreate.as_str(),
        Reason::NetworkNotFound.as_str(),
        "ProjectUnresolved",
        "LocationNotAvailable",
    ];
    final_ones
        .contains(&&**reason)
        .then(|| format!("{reason}: {message}"))
}

/// Whether a context has a subnet of each of its families; claims what is missing.
fn addressed(namespace: &Arc<str>, name: &Arc<str>, known: &impl Known, acts: &mut Vec<Act>) -> bool {
    let Some(context) = known.context(namespace, name).filter(|c| c.readiness.holds()) else {
        return false;
    };
    let mut families: Vec<&str> = context.families.iter().map(|family| &**family).collect();
    if families.is_empty() {
        families.push(DEFAULT_FAMILY);
    }
    let claims = known.claims(namespace);
    let mut all = true;
    for family in families {
        let fits = |claim: &&&Claim| {
            *claim.class == *CLASS
                && *claim.family == *family
                && claim.context == *name
                && is_same_place(&claim.location, &context.location)
        };
        let claim = claims.iter().find(fits);
        all &= claim.is_some_and(|claim| {
            let subnet = claim.subnet.as_ref().filter(|_| claim.readiness.holds());
            let subnet = subnet.and_then(|subnet| known.subnet(namespace, subnet));
            subnet.is_some_and(Readiness::holds)
        });
        let own = claim_name(name, family);
        // One that fits under another name serves; our own name may be held by one that is going.
        if claim.is_none() && claims.iter().all(|claim| *claim.name != *own) {
            acts.push(Act::Claim {
                namespace: namespace.clone(),
                name: own,
                context: name.clone(),
                owner: context.uid.clone(),
                family: family.into(),
            });
        }
    }
    all
}

fn claim_name(context: &str, family: &str) -> String {
    if family == "IPv6" {
        format!("{context}-0-v6")
    } else {
        format!("{context}-0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Default, Clone)]
    struct Cell {
        bindings: BTreeMap<String, Binding>,
        context: Option<Context>,
        claims: Vec<Claim>,
        subnets: BTreeMap<String, Readiness>,
    }

    impl Known for Cell {
        fn binding(&self, name: &str) -> Option<&Binding> {
            self.bindings.get(name)
        }
        fn context(&self, _: &str, _: &str) -> Option<&Context> {
            self.context.as_ref()
        }
        fn claims(&self, _: &str) -> Vec<&Claim> {
            self.claims.iter().collect()
        }
        fn subnet(&self, _: &str, name: &str) -> Option<&Readiness> {
            self.subnets.get(name)
        }
    }

    fn place(namespace: Option<&str>) -> LocationReference {
        LocationReference {
            name: "us-south-1".to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }

    fn network() -> NetworkReference {
        NetworkReference {
            name: "default".to_owned(),
            namespace: None,
        }
    }

    const UP: Readiness = Readiness {
        deleting: false,
        ready: true,
    };

    /// A cell on which all is as it should be for one interface.
    fn up() -> Cell {
        let binding = Binding {
            uid: "b".into(),
            controller: Some("d".into()),
            network: network(),
            location: place(Some("default")),
            readiness: UP,
            refusal: None,
            context: Some(("ns-1".into(), "ctx".into())),
        };
        let claim = Claim {
            name: "ctx-0".into(),
            class: "private".into(),
            family: "IPv4".into(),
            context: "ctx".into(),
            location: place(None),
            readiness: UP,
            subnet: Some("sub".into()),
        };
        Cell {
            bindings: [("web-net-0".to_owned(), binding)].into(),
            context: Some(Context {
                uid: "c".into(),
                location: place(Some("default")),
                families: Vec::new(),
                readiness: UP,
            }),
            claims: vec![claim],
            subnets: [("sub".to_owned(), UP)].into(),
        }
    }

    fn decided(cell: &Cell) -> (Vec<Act>, State) {
        let (networks, location) = ([network()], place(None));
        let deployment = Deployment {
            namespace: "ns-1",
            name: "web",
            uid: "d",
            networks: &networks,
            location: &location,
        };
        decide(&deployment, cell)
    }

    #[test]
    fn all_that_is_there_is_ready_and_nothing_is_done() {
        assert_eq!(decided(&up()), (vec![], State::Ready));
    }

    #[test]
    fn what_is_missing_is_made_step_by_step() {
        let bind = Act::Bind {
            name: "web-net-0".to_owned(),
            network: network(),
        };
        assert_eq!(decided(&Cell::default()), (vec![bind], State::Pending));
        let mut cell = up();
        cell.claims.clear();
        let claim = |name: &str, family: &str| Act::Claim {
            namespace: "ns-1".into(),
            name: name.to_owned(),
            context: "ctx".into(),
            owner: "c".into(),
            family: family.into(),
        };
        assert_eq!(decided(&cell), (vec![claim("ctx-0", "IPv4")], State::Pending));
        cell.context.as_mut().unwrap().families = vec!["IPv4".into(), "IPv6".into()];
        let both = vec![claim("ctx-0", "IPv4"), claim("ctx-0-v6", "IPv6")];
        assert_eq!(decided(&cell), (both, State::Pending), "a claim a family");
    }

    #[test]
    fn nothing_counts_that_is_not_ready_or_is_going_or_not_named() {
        let changes: [&dyn Fn(&mut Cell); 9] = [
            &|c| c.bindings.values_mut().for_each(|b| b.readiness.ready = false),
            &|c| c.bindings.values_mut().for_each(|b| b.readiness.deleting = true),
            &|c| c.bindings.values_mut().for_each(|b| b.context = None),
            &|c| c.context = None,
            &|c| c.context.as_mut().unwrap().readiness.deleting = true,
            &|c| c.claims[0].readiness.ready = false,
            &|c| c.claims[0].subnet = None,
            &|c| c.subnets.clear(),
            &|c| c.subnets.values_mut().for_each(|s| s.deleting = true),
        ];
        for (n, change) in changes.iter().enumerate() {
            let mut cell = up();
            change(&mut cell);
            assert_eq!(decided(&cell), (vec![], State::Pending), "change {n}");
        }
    }

    #[test]
    fn a_binding_of_another_network_or_place_is_replaced_and_anothers_is_not_touched() {
        let mut cell = up();
        cell.bindings.get_mut("web-net-0").unwrap().location.name = "elsewhere".to_owned();
        let unbind = Act::Unbind {
            name: "web-net-0".to_owned(),
            uid: "b".into(),
        };
        assert_eq!(decided(&cell), (vec![unbind], State::Pending));
        cell.bindings.get_mut("web-net-0").unwrap().controller = None;
        let (acts, state) = decided(&cell);
        assert_eq!(acts, []);
        assert!(matches!(state, State::Refused(why) if why.contains("web-net-0")));
    }

    #[test]
    fn what_a_binding_says_for_good_is_a_refusal_and_the_rest_is_waited_for() {
        let says = |reason: &str| {
            let mut cell = up();
            let binding = cell.bindings.get_mut("web-net-0").unwrap();
            binding.readiness.ready = false;
            binding.refusal = Some((reason.into(), "so it is".into()));
            decided(&cell).1
        };
        for reason in [
            "NetworkFailedToCreate",
            "ProjectUnresolved",
            "NetworkNotFound",
            "LocationNotAvailable",
        ] {
            assert_eq!(says(reason), State::Refused(format!("{reason}: so it is")));
        }
        assert_eq!(says("NetworkContextNotReady"), State::Pending);
    }
}
