//! The driver of the controllers.

use crate::{
    context::State,
    index::{
        GatewayIndex, TableId,
        fixture::{self, HUB},
    },
    reason::WriteReason,
    testing::Rig,
};
use fedgate_engine::{
    key::Plane,
    plan::{Effect, Endpoint, Plan, Requeue, Target, Write},
    runtime::driver::{MAX_PASSES, Reconcile, Reconciler, Step, reconcile},
};
use serde_json::json;
use std::time::Duration;

/// Writes again and again.
struct Endless;

impl Reconciler for Endless {
    type State = State;
    type Session = u64;
    type Basis = ();

    const NAME: &'static str = "endless";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<()> {
        run.session += 1;
        let resource = run.ctx.index.lock().resource(TableId::Namespaces).clone();
        let mut plan = Plan::one(Effect {
            target: Target::cluster(Plane::Hub, &resource, HUB),
            endpoint: Endpoint::Main,
            write: Write::Merge { patch: json!({}) },
            reason: WriteReason::Announce.into(),
        });
        plan.next = Requeue::After(Duration::from_secs(run.session));
        Step::Apply(plan, ())
    }

    fn message(&self, (): &()) -> Option<&'static str> {
        None
    }
}

#[tokio::test]
async fn a_reconcile_without_end_stops_and_goes_on_when_its_last_plan_says() {
    let rig = Rig::new(GatewayIndex::fixture(), |_, _| {
        (200, fixture::hub_namespace("dfw"))
    });
    let key = rig.context.index.lock().hub_key(TableId::Namespaces, "", HUB);
    let next = reconcile(&Endless, &rig.reconcile_once(), &key).await.unwrap();
    assert_eq!((rig.asked().len(), MAX_PASSES), (8, 8));
    assert_eq!(next, Requeue::After(Duration::from_secs(8)));
}
