//! Decisions for a hub Namespace: the exact effects, and no others.

use super::*;

fn city(code: &str) -> CityCode {
    CityCode::parse(code).unwrap()
}

fn cities(codes: &[&str]) -> BTreeSet<CityCode> {
    codes.iter().map(|c| city(c)).collect()
}

fn now() -> Now {
    Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    }
}

fn row<D>(digest: D) -> Row<D> {
    Row {
        uid: "u".into(),
        version: 7,
        deleting: false,
        partial: false,
        digest,
        body: None,
    }
}

fn policy(codes: &[&str]) -> (Arc<str>, Row<CitySet>) {
    let set = cities(codes);
    let name = city_set_policy(&city_set(&set).unwrap());
    (
        name.as_str().into(),
        row(CitySet {
            is_intruder: false,
            cities: Some(set),
            exact: true,
        }),
    )
}

/// A snapshot and its city sets.
struct Seen {
    snapshot: Snapshot,
    city_sets: BTreeMap<Arc<str>, Row<CitySet>>,
    /// Policies that are being deleted.
    ending: BTreeSet<&'static str>,
    /// True if the project may use no more sets.
    full: bool,
}

impl std::ops::Deref for Seen {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl std::ops::DerefMut for Seen {
    fn deref_mut(&mut self) -> &mut Snapshot {
        &mut self.snapshot
    }
}

impl CitySets for Seen {
    fn policy(&self, name: &str) -> Option<&Row<CitySet>> {
        self.city_sets.get(name)
    }

    fn is_ending(&self, name: &str) -> bool {
        self.ending.contains(name)
    }

    fn has_room(&self, _: &str) -> bool {
        !self.full
    }
}

fn decide(s: &Seen, linger: Duration, now: Now) -> Decision {
    super::decide(s, s, linger, now)
}

/// A Namespace with these current cities and these cities in use.
fn snapshot(current: &[&str], used: &[&str]) -> Seen {
    let digest = HubNamespaceDigest {
        cluster: Some("cluster-shop".into()),
        namespace: Some("default".into()),
        skip: true,
        project_uid: Some("p1".into()),
        cities: city_set(&cities(current)).map(|s| s.as_str().into()),
        reassign_to: None,
        garbage_confirmed: None,
        of_hub: None,
    };
    let snapshot = Snapshot {
        preserves: false,
        name: "ns-a".into(),
        label: keys::CITY_CODE.into(),
        resources: Arc::default(),
        cluster: "cluster-shop".into(),
        namespace: "default".into(),
        project_uid: "p1".into(),
        reassigned: false,
        earlier_life: false,
        in_use: cities(used),
        unlabelled: false,
        current: Some(cities(current)),
        left: BTreeMap::new(),
        row: (!current.is_empty()).then(|| row(digest)),
    };
    Seen {
        snapshot,
        city_sets: if current.is_empty() {
            BTreeMap::new()
        } else {
            [policy(current)].into()
        },
        ending: BTreeSet::new(),
        full: false,
    }
}

const LINGER: Duration = Duration::from_secs(60);

fn reasons(d: &Decision) -> Vec<&'static str> {
    d.plan.effects.iter().map(|e| e.reason.label()).collect()
}

#[tokio::test]
async fn the_first_city_makes_policy_and_complete_namespace_in_this_order() {
    let d = decide(&snapshot(&[], &["DFW"]), LINGER, now());
    assert_eq!(reasons(&d), ["create_city_set", "create_namespace"]);
    let Write::Apply { body, .. } = &d.plan.effects[1].write else {
        panic!("{d:?}")
    };
    assert_eq!(
        body["metadata"]["labels"],
        json!({"meta.datumapis.com/upstream-cluster-name": "cluster-shop",
            "meta.datumapis.com/upstream-namespace": "default",
            "namespace.karmada.io/skip-auto-propagation": "true",
            "fedgate.dev/project-uid": "p1", "fedgate.dev/cities": "dfw"})
    );
    assert_eq!(d.plan.next, Requeue::AwaitChange);
}

#[tokio::test]
async fn at_rest_nothing_is_written() {
    assert_eq!(
        decide(&snapshot(&["DFW"], &["DFW"]), LINGER, now()),
        Decision {
            wanted: Some("dfw".into()),
            ..Decision::wait(BTreeMap::new(), Requeue::AwaitChange)
        }
    );
    assert!(
        decide(&snapshot(&["DFW"], &[]), LINGER, now()).plan.is_idle(),
        "the last city stays"
    );
    assert!(decide(&snapshot(&[], &[]), LINGER, now()).plan.is_idle());
}

#[tokio::test]
async fn a_wider_set_takes_the_claim_off_in_the_same_patch() {
    let d = decide(&snapshot(&["DFW"], &["DFW", "LHR"]), LINGER, now());
    assert_eq!(reasons(&d), ["create_city_set", "move_namespace"]);
    let Write::Merge { patch } = &d.plan.effects[1].write else {
        panic!("{d:?}")
    };
    assert_eq!(
        patch["metadata"],
        json!({"uid": "u", "resourceVersion": "7",
            "labels": {"fedgate.dev/cities": "dfw-lhr", "clusterpropagationpolicy.karmada.io/permanent-id": null},
            "annotations": {"clusterpropagationpolicy.karmada.io/name": null}})
    );
}

#[tokio::test]
async fn a_city_that_was_left_lingers_then_goes_unless_a_write_back_may_be_there() {
    let now = now();
    let mut s = snapshot(&["DFW", "LHR"], &["LHR"]);
    let first = decide(&s, LINGER, now);
    assert!(first.plan.is_idle());
    assert_eq!(
        (first.plan.next, first.left.get(&city("DFW"))),
        (Requeue::After(LINGER), Some(&now.instant))
    );
    s.left = first.left;
    let later = Now {
        instant: now.instant + LINGER,
        ..now
    };
    let second = decide(&s, LINGER, later);
    assert_eq!(reasons(&second), ["create_city_set", "move_namespace"]);
    assert_eq!(second.narrowed, cities(&["DFW"]));
    s.left = second.left;
    let failed = decide(&s, LINGER, later);
    assert_eq!(
        reasons(&failed),
        ["create_city_set", "move_namespace"],
        "a narrowing that failed does not linger once more"
    );
    let (known, lingered) = (s.current.take(), s.left.clone());
    s.left = [(city("LHR"), now.instant)].into();
    s.left = decide(&s, LINGER, later).left;
    let blind = decide(&s, LINGER, later);
    assert_eq!(reasons(&blind), ["create_city_set", "move_namespace"]);
    (s.current, s.left) = (known, lingered);
    s.unlabelled = true;
    assert!(decide(&s, LINGER, later).plan.is_idle());
    s.unlabelled = false;
    s.in_use = cities(&["DFW", "LHR"]);
    assert!(
        decide(&s, LINGER, later).plan.is_idle(),
        "a return within the linger writes nothing"
    );
}

#[tokio::test]
async fn an_edited_identity_is_restored_and_counted() {
    let mut s = snapshot(&["DFW"], &["DFW"]);
    s.row.as_mut().unwrap().digest.cluster = Some("cluster-other".into());
    let d = decide(&s, LINGER, now());
    assert!(d.identity_restored);
    assert_eq!(reasons(&d), ["restore_namespace"]);
    let Write::Merge { patch } = &d.plan.effects[0].write else {
        panic!("{d:?}")
    };
    assert_eq!(
        patch["metadata"]["labels"],
        json!({"meta.datumapis.com/upstream-cluster-name": "cluster-shop"})
    );
}

#[tokio::test]
async fn a_peers_namespace_is_taken_in_if_it_is_this_tenants_and_left_alone_otherwise() {
    let mut s = snapshot(&[], &["DFW"]);
    let peer = |cluster: &str| {
        row(HubNamespaceDigest {
            cluster: Some(cluster.into()),
            namespace: Some("default".into()),
            skip: false,
            project_uid: None,
            cities: None,
            reassign_to: None,
            garbage_confirmed: None,
            of_hub: None,
        })
    };
    s.row = Some(peer("cluster-shop"));
    let d = decide(&s, LINGER, now());
    assert_eq!(reasons(&d), ["create_city_set", "move_namespace"]);
    assert!(!d.foreign && !d.identity_restored);
    s.row = Some(peer("cluster-other"));
    assert_eq!(
        decide(&s, LINGER, now()),
        Decision {
            foreign: true,
            ..Decision::wait(BTreeMap::new(), Requeue::AwaitChange)
        }
    );
}

#[tokio::test]
async fn a_policy_with_other_cities_than_its_set_is_restored() {
    let mut s = snapshot(&["DFW", "LHR"], &["DFW", "LHR"]);
    let policy = s.city_sets.values_mut().next().unwrap();
    policy.digest.cities = Some(cities(&["DFW"]));
    let d = decide(&s, LINGER, now());
    assert_eq!(reasons(&d), ["restore_city_set"]);
    let Write::Apply { body, .. } = &d.plan.effects[0].write else {
        panic!("{d:?}")
    };
    assert_eq!(
        body["spec"]["placement"]["clusterAffinity"]["labelSelector"]["matchExpressions"][0]["values"],
        json!(["DFW", "LHR"])
    );
}

#[test]
fn two_sets_of_one_name_are_told_from_an_edited_policy() {
    let policy = |codes: &[&str]| CitySet {
        is_intruder: false,
        cities: Some(cities(codes)),
        exact: true,
    };
    let (mine, name) = (cities(&["DFW"]), "dfw-lhr");
    assert!(collides(&policy(&["DFW", "LHR"]), name, &mine));
    assert!(!collides(&policy(&["DFW", "IAD"]), name, &mine));
    assert!(!collides(&policy(&["DFW"]), "dfw", &mine));
}

/// The names of these two sets collide: 32 bits of a hash agree, about once in 65,000 codes that are long enough to be
/// hashed.
#[tokio::test]
async fn a_set_whose_name_another_set_has_writes_nothing_and_says_so() {
    const LONG: &str = "EDGE-LOCATION-WITH-A-NAME-OF-MORE-THAN-FORTY-CHARACTERS";
    let [one, other] = ["28000", "145696"].map(|n| format!("{LONG}-{n}"));
    assert_eq!(city_set(&cities(&[&one])), city_set(&cities(&[&other])));
    let mut s = snapshot(&[], &[&one]);
    s.city_sets = [policy(&[&other])].into();
    let d = decide(&s, LINGER, now());
    assert!(d.collision && d.plan.effects.is_empty(), "{d:?}");
    s.city_sets = [policy(&[&one])].into();
    let d = decide(&s, LINGER, now());
    assert!(!d.collision, "{d:?}");
    assert_eq!(reasons(&d), ["create_namespace"]);
}

#[tokio::test]
async fn an_edited_policy_is_restored_and_a_terminating_namespace_waits() {
    let mut s = snapshot(&["DFW"], &["DFW"]);
    s.city_sets.values_mut().next().unwrap().digest.exact = false;
    assert_eq!(reasons(&decide(&s, LINGER, now())), ["restore_city_set"]);
    s.row.as_mut().unwrap().deleting = true;
    assert!(decide(&s, LINGER, now()).plan.is_idle());
}

#[tokio::test]
async fn a_namespace_that_an_operator_gave_away_says_so_in_one_patch() {
    let mut s = snapshot(&["DFW"], &["DFW"]);
    s.reassigned = true;
    s.cluster = "cluster-store".into();
    s.project_uid = "p2".into();
    let d = decide(&s, LINGER, now());
    assert_eq!(reasons(&d), ["reassign_namespace"]);
    assert!(!d.identity_restored, "nobody edited anything");
    let Write::Merge { patch } = &d.plan.effects[0].write else {
        panic!("{d:?}")
    };
    let metadata = &patch["metadata"];
    assert_eq!(
        metadata["labels"],
        json!({keys::UPSTREAM_CLUSTER: "cluster-store", keys::PROJECT_UID: "p2"})
    );
    assert_eq!(metadata["annotations"], json!({keys::REASSIGN_TO: null}));
    s.cluster = "cluster-shop".into();
    s.project_uid = "p1".into();
    let d = decide(&s, LINGER, now());
    let Write::Merge { patch } = &d.plan.effects[0].write else {
        panic!("{d:?}")
    };
    assert!(
        patch["metadata"].get("labels").is_none(),
        "it was this one's already"
    );
}

#[tokio::test]
async fn a_namespace_whose_project_may_have_no_more_sets_stays_where_it_is() {
    let mut s = snapshot(&["DFW"], &["DFW", "LHR"]);
    s.full = true;
    let d = decide(&s, LINGER, now());
    assert!(d.limited && d.plan.is_idle(), "{d:?}");
    assert_eq!((d.set, d.wanted.as_deref()), (None, Some("dfw-lhr")));
    s.project_uid = "p2".into();
    assert_eq!(reasons(&decide(&s, LINGER, now())), ["restore_namespace"]);
    let mut new = snapshot(&[], &["DFW"]);
    new.full = true;
    let d = decide(&new, LINGER, now());
    assert!(d.limited && d.plan.is_idle(), "it is not even made");
    let mut settled = snapshot(&["DFW"], &["DFW"]);
    settled.full = true;
    assert!(!decide(&settled, LINGER, now()).limited, "it has its set already");
}

#[tokio::test]
async fn a_policy_that_is_being_deleted_is_waited_for_and_the_set_is_noted() {
    let mut s = snapshot(&["DFW"], &["DFW", "LHR"]);
    s.city_sets.extend([policy(&["DFW", "LHR"])]);
    assert_eq!(reasons(&decide(&s, LINGER, now())), ["move_namespace"]);
    s.ending = BTreeSet::from(["cities-dfw-lhr"]);
    let d = decide(&s, LINGER, now());
    assert!(d.plan.is_idle(), "{d:?}");
    assert_eq!(d.wanted.as_deref(), Some("dfw-lhr"), "its end wakes this one");
}

#[test]
fn a_namespace_with_a_mark_of_ours_is_not_foreign() {
    let named = |project_uid: Option<&str>, cities: Option<&str>| HubNamespaceDigest {
        project_uid: project_uid.map(Into::into),
        cities: cities.map(Into::into),
        ..snapshot(&["DFW"], &[]).snapshot.row.unwrap().digest
    };
    let foreign = |d: HubNamespaceDigest| d.is_foreign("cluster-other", "default");
    assert!(foreign(named(None, None)));
    assert!(!foreign(named(None, Some("dfw"))) && !foreign(named(Some("p1"), None)));
}
