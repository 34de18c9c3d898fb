//! No answer, stream, log line, Event or own condition shows what tenants keep in their objects (contract: operations.md
//! §2.6): each place has a mark, every hop is broken in several ways, and the marks are looked for.

use crate::{
    logs,
    objects::{COMPUTE, config_map, deployment, secret},
    operations::operations,
    ops::Op::*,
    rig::{HUB, Rig, rest},
    scenarios::STEP,
};
use axum::body::Body;
use fedgate_admin::api::{Operations, Provider};
use fedgate_engine::{metrics::Metrics, random::Random};
use fedgate_simulator::{Down, Fault, Rule, Verb, When};
use futures::StreamExt;
use http::Request;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{fmt::Write, sync::Arc, time::Duration};
use tower::ServiceExt;

/// The seed of the runs.
const SEED: u64 = 1;
/// Every mark contains it.
const MARK: &str = "MARK";
/// The same in the data of a Secret, in base 64: `MARK` at the three offsets that it may have there.
const ENCODED: [&str; 3] = ["TUFSS", "1BUk", "NQVJL"];

const PATHS: [&str; 18] = [
    "overview",
    "planes",
    "projects",
    "projects/p",
    "cells",
    "cells/dfw-1",
    "cells/lhr-1",
    "flows",
    "stuck",
    "stuck?for=0s&class=retrying",
    "stuck?for=0s&class=refused",
    "stuck?for=0s&class=quarantined",
    "journal?limit=500",
    "trace/p/default/workloads/shop",
    "trace/p/default/workloaddeployments/web",
    "trace/p/default/workloaddeployments/shop-main-dfw",
    "trace/p/default/instances/web-0",
    "trace/p/default/instances/web-1",
];

/// Runs on a paused clock; answers come from threads of their own, whose maps have the order of the run.
fn run(run: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_start(|| Random::seed(SEED))
        .build()
        .unwrap()
        .block_on(run);
}

/// Each place that may hold a tenant's secret, with a mark.
fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "MARK-label"}},
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{
                    "name": "web",
                    "image": "shop/MARK-image:1",
                    "command": ["MARK-command"],
                    "args": ["--token=MARK-argument"],
                    "env": [{"name": "TOKEN", "value": "MARK-env"}],
                    "volumeAttachments": [
                        {"name": "settings", "mountPath": "/etc/MARK-path"},
                        {"name": "login", "mountPath": "/etc/login"},
                    ],
                }]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "volumes": [
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "login", "secret": {"secretName": "login"}},
            ],
        },
    })
}

fn marked(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({"example.com/note": "MARK-annotation"});
    object["spec"]["template"] = template();
    object
}

fn plant(rig: &Rig) {
    let plane = &rig.projects["p"];
    plane
        .create(config_map("default", "settings", "MARK-config"))
        .unwrap();
    // "MARK-secret"
    plane
        .create(secret("default", "login", "TUFSSy1zZWNyZXQ="))
        .unwrap();
    let web = deployment("default", "web", "DFW", 2, None);
    plane.create(marked(web)).unwrap();
    let workload = json!({
        "apiVersion": COMPUTE, "kind": "Workload",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"placements": [{"name": "main", "cityCodes": ["DFW", "LHR"], "scaleSettings": {"minReplicas": 1}}]},
    });
    plane.create(marked(workload)).unwrap();
}

/// All that an operator and a log see.
struct Shown {
    api: Arc<Operations>,
    metrics: Arc<Metrics>,
    text: Arc<Mutex<String>>,
    logs: logs::Captured,
}

impl Shown {
    async fn begin(rig: &Rig) -> Self {
        let answers = Arc::new(operations(rig));
        let provider: Provider = Arc::new(move || answers.clone());
        let metrics = Metrics::new().unwrap();
        let shown = Self {
            api: Operations::new(provider, &metrics),
            metrics,
            text: Arc::default(),
            logs: logs::capture(tracing::Level::TRACE),
        };
        let topics = "events?topics=overview,projects,cells,stuck,journal";
        let mut stream = shown.open(topics).await.into_data_stream();
        let text = shown.text.clone();
        tokio::spawn(async move {
            while let Some(Ok(part)) = stream.next().await {
                text.lock().push_str(std::str::from_utf8(&part).unwrap());
            }
        });
        shown
    }

    async fn open(&self, path: &str) -> Body {
        let request = Request::get(format!("/api/v1/{path}"))
            .body(Body::empty())
            .unwrap();
        let response = self.api.router().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        assert!(status == 200 || status == 404, "{path}: {status}");
        response.into_body()
    }

    /// Everything since the last call.
    async fn take(&self, rig: &Rig) -> String {
        let mut text = std::mem::take(&mut *self.text.lock());
        for path in PATHS {
            let answer = axum::body::to_bytes(self.open(path).await, usize::MAX)
                .await
                .unwrap();
            writeln!(text, "{path} {}", std::str::from_utf8(&answer).unwrap()).unwrap();
        }
        for line in self.logs.take() {
            // src/telemetry/mod.rs drops these lines, which have the answer to a refused request whole.
            if line["target"] == "kube_client::client" {
                continue;
            }
            writeln!(text, "{line}").unwrap();
        }
        writeln!(text, "debug {}", rig.gateway().describe()).unwrap();
        text.push_str(&rig.metrics());
        text.push_str(&self.metrics.render(&rig.gateway().gauges()).unwrap());
        for plane in [&rig.hub, &rig.projects["p"]] {
            for event in plane.list("Event.events.k8s.io") {
                writeln!(text, "{event}").unwrap();
            }
        }
        for kind in ["WorkloadDeployment", "Workload"] {
            for object in rig.projects["p"].list(kind) {
                writeln!(text, "{}", object["status"]["conditions"]).unwrap();
            }
        }
        text
    }
}

/// Lines that show a mark.
fn leaks(text: &str) -> Vec<&str> {
    let marks = || ENCODED.into_iter().chain([MARK]);
    text.lines()
        .filter(|line| marks().any(|mark| line.contains(mark)))
        .collect()
}

/// Requests that are refused in one of the ways that repeat an object.
fn rules(plane: &str, plural: &str, code: u16) -> Vec<Rule> {
    let writes = [Verb::Create, Verb::Apply, Verb::Patch, Verb::Update];
    let rule = |verb| {
        Rule::new(When::Always, Fault::Repeats { code })
            .plane(plane)
            .kind(plural)
            .verb(verb)
    };
    writes.into_iter().map(rule).collect()
}

/// Writes of every kind are due: bodies, companions, status.
fn stir(rig: &mut Rig, round: u32) {
    Scale("p", "default", "web", 2 + round % 2).apply(rig);
    let plane = &rig.projects["p"];
    let note = format!("MARK-config-{round}");
    plane
        .merge(
            "ConfigMap",
            "default",
            "settings",
            json!({"data": {"greeting": note}}),
        )
        .unwrap();
    let login = if round.is_multiple_of(2) {
        "TUFSSy0w"
    } else {
        "TUFSSy0x"
    };
    plane
        .merge("Secret", "default", "login", json!({"data": {"password": login}}))
        .unwrap();
    let env = json!([{"name": "TOKEN", "value": format!("MARK-env-{round}")}]);
    let mut changed = template();
    changed["spec"]["runtime"]["sandbox"]["containers"][0]["env"] = env;
    plane
        .merge(
            "Workload",
            "default",
            "shop",
            json!({"spec": {"template": changed}}),
        )
        .unwrap();
    DropProjection("p", "default", "web-0").apply(rig);
}

#[test]
fn a_refusal_that_repeats_the_object_shows_fields_and_reasons_alone() {
    let hops = [
        (HUB, "workloaddeployments"),
        (HUB, "configmaps"),
        (HUB, "secrets"),
        (HUB, "namespaces"),
        (HUB, "propagationpolicies"),
        ("p", "instances"),
        ("p", "workloaddeployments"),
        ("p", "workloads"),
    ];
    for code in [422, 403, 500] {
        run(async move {
            let mut rig = Rig::new(SEED, &["p"]);
            rig.start();
            let shown = Shown::begin(&rig).await;
            plant(&rig);
            rest(STEP).await;
            let mut seen = shown.take(&rig).await;
            for (round, (plane, plural)) in (0..).zip(hops) {
                let rules = rules(plane, plural, code).into_iter();
                let rules: Vec<_> = rules.map(|rule| rig.simulator.faults().add(rule)).collect();
                stir(&mut rig, round);
                rest(Duration::from_secs(100)).await;
                let text = shown.take(&rig).await;
                assert_eq!(leaks(&text), [""; 0], "{code} of {plural} at {plane}");
                seen.push_str(&text);
                for rule in rules {
                    rig.simulator.faults().remove(rule);
                }
                rest(STEP).await;
            }
            let text = shown.take(&rig).await;
            assert_eq!(leaks(&text), [""; 0], "after {code}");
            seen.push_str(&text);
            let said = match code {
                422 => "spec.template: FieldValueInvalid",
                _ => "spec.template: Invalid value: …: by script",
            };
            assert!(seen.contains(said), "{code} was never shown");
        });
    }
}

#[test]
fn a_plane_that_is_down_shows_nothing_of_its_objects() {
    run(async {
        let mut rig = Rig::new(SEED, &["p"]);
        rig.start();
        let shown = Shown::begin(&rig).await;
        plant(&rig);
        rest(STEP).await;
        for (round, (plane, down)) in (0..).zip([
            (HUB, Down::Refused),
            (HUB, Down::BlackHole),
            ("p", Down::Refused),
            ("p", Down::BlackHole),
        ]) {
            let handle = rig.simulator.plane(plane).unwrap();
            handle.set_down(Some(down));
            stir(&mut rig, round);
            rest(Duration::from_mins(3)).await;
            assert_eq!(leaks(&shown.take(&rig).await), [""; 0], "{plane} is down");
            handle.set_down(None);
            rest(STEP).await;
        }
        assert_eq!(leaks(&shown.take(&rig).await), [""; 0]);
    });
}
