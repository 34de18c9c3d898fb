//! A standby reads nothing, writes nothing, and records nothing as done.

use crate::{
    context::{Context, Shared},
    federator::{Federator, memory::Memory},
    index::{
        GatewayIndex, TableId,
        fixture::{self, shop},
    },
    testing::context,
};
use axum::body::Body;
use fedgate_engine::reconcile::throttle::TokenBucket;
use fedgate_engine::runtime::driver::reconcile;
use fedgate_engine::{error::Category, key::Key, testing::access::SinglePlane};
use fedgate_kinds::KindId;
use http::{Request, Response};
use parking_lot::Mutex;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn what_a_standby_did_not_write_is_not_remembered_as_written() {
    // Its city is not a valid label: the project gets a condition, and nothing else happens.
    let deployment = fixture::source("web", "not a city");
    let requests = Arc::new(AtomicUsize::new(0));
    let (counted, answer) = (requests.clone(), deployment.to_string());
    let service = tower::service_fn(move |_: Request<kube::client::Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let answer = answer.clone();
        async { Ok::<_, Infallible>(Response::new(Body::from(answer))) }
    });
    for leads in [false, true] {
        let until = Instant::now() + Duration::from_secs(60 * u64::from(leads));
        let ground = SinglePlane::new(kube::Client::new(service.clone(), "default"), until);
        let mut index = GatewayIndex::fixture();
        index.shop_has(TableId::DEPLOYMENTS, &deployment);
        let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
        let ctx = context(Arc::new(Mutex::new(index)), ground);
        let (failure, memory) = reconcile_once(&ctx, &key).await;
        assert_eq!(failure, (!leads).then_some(Category::NotLeader));
        assert_eq!(requests.load(Ordering::Relaxed) > 0, leads);
        assert_eq!(
            memory.status_writes != TokenBucket::default(),
            leads,
            "{memory:?}"
        );
    }
}

/// One reconcile: its failure, if any, and the memory afterwards.
async fn reconcile_once(ctx: &Shared, key: &Key) -> (Option<Category>, Memory) {
    let federator = Federator::default();
    let wrote = AtomicBool::new(false);
    let end = reconcile(&federator, &Context::new(ctx, Instant::now(), &wrote), key).await;
    let memory = federator.memory.take(key);
    (end.err().map(|failure| failure.category), memory)
}
