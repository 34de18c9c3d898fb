//! 86: the hub's controllers are killed and started again. Karmada is known to delete at members what it should keep.

use crate::support::{
    Case, Cell, deployment_with_data,
    kinds::{CLUSTER, CONFIG_MAP, DEPLOYMENT, Kind, NAMESPACE, SECRET},
    lone_trials,
    process::Controllers,
    seconds, uid,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

lone_trials![a86_the_hubs_controllers_are_killed];

/// How often they are killed.
const RESTARTS: u32 = 20;
/// From this restart on a cell is away while they start.
const WITHOUT_CELL: u32 = 15;
/// And from this one on its credential at the hub is refused, as one that has expired.
const EXPIRED: u32 = 18;

const NAMES: [&str; 3] = ["web", "api", "jobs"];

/// UIDs of all that must stay at a cell.
async fn standing(case: &Case, cell: &Cell) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut add = |kind: &Kind, object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        all.insert(
            format!("{} {} {name}", cell.name, kind.name),
            uid(object).to_owned(),
        );
    };
    add(
        &NAMESPACE,
        &cell.plane.exists(&NAMESPACE, "", &case.hub_ns, seconds(60)).await,
    );
    for name in NAMES {
        let name = format!("{name}-{}", cell.name);
        add(
            &DEPLOYMENT,
            &cell
                .plane
                .exists(&DEPLOYMENT, &case.hub_ns, &name, seconds(60))
                .await,
        );
    }
    add(
        &CONFIG_MAP,
        &cell
            .plane
            .exists(&CONFIG_MAP, &case.hub_ns, "settings", seconds(60))
            .await,
    );
    add(
        &SECRET,
        &cell
            .plane
            .exists(&SECRET, &case.hub_ns, "keys", seconds(60))
            .await,
    );
    all
}

/// A cell's credential at the hub. Karmada keeps one; the stand-in has a certificate of its own.
struct Credential<'a> {
    case: &'a Case,
    secret: String,
    token: Value,
}

impl<'a> Credential<'a> {
    const NAMESPACE: &'static str = "karmada-cluster";

    /// Makes it one that the cell refuses.
    async fn expire(case: &'a Case, cell: &Cell) -> Option<Self> {
        let hub = &case.suite.hub;
        let cluster = hub.get(&CLUSTER, "", &cell.name).await.unwrap();
        let secret = cluster["spec"]["secretRef"]["name"].as_str()?.to_owned();
        let found = hub.get(&SECRET, Self::NAMESPACE, &secret).await.unwrap();
        let token = found["data"]["token"].clone();
        assert!(token.is_string(), "{secret} has a token");
        let this = Self { case, secret, token };
        this.set(&json!("ZXhwaXJlZA==")).await;
        Some(this)
    }

    async fn renew(self) {
        self.set(&self.token).await;
    }

    async fn set(&self, token: &Value) {
        let data = json!({"data": {"token": token}});
        let hub = &self.case.suite.hub;
        hub.merge(&SECRET, Self::NAMESPACE, &self.secret, data).await;
    }
}

async fn a86_the_hubs_controllers_are_killed(case: Case) {
    case.config_map("settings", &json!({"a": "1"})).await;
    case.secret("keys", "Opaque", &json!({"password": "p"})).await;
    let cells = [&case.dfw, &case.lhr];
    for cell in cells {
        for name in NAMES {
            let object = deployment_with_data(
                &format!("{name}-{}", cell.name),
                &cell.city,
                Some("settings"),
                Some("keys"),
                &[],
            );
            case.create(&DEPLOYMENT, object).await;
        }
    }
    let mut before = BTreeMap::new();
    for cell in cells {
        before.extend(standing(&case, cell).await);
    }
    let mut held = case.suite.controllers.lock().await;
    let controllers = Controllers::taken(&case.suite, &mut held).await;
    controllers.kill().await;
    for round in 1..=RESTARTS {
        let away = (round >= WITHOUT_CELL).then_some(cells[round as usize % 2]);
        let mut expired = None;
        if let Some(cell) = away {
            if round >= EXPIRED {
                expired = Credential::expire(&case, cell).await;
            }
            if expired.is_none() {
                case.suite.stop_plane(&cell.name).await;
            }
        }
        // Changes are on their way while the controllers are gone, and while they read all they know.
        let scale = json!({"spec": {"scaleSettings": {"minReplicas": round}}});
        for cell in cells {
            case.merge(&DEPLOYMENT, &format!("{}-{}", NAMES[0], cell.name), scale.clone())
                .await;
        }
        controllers.start();
        for cell in cells {
            case.merge(&DEPLOYMENT, &format!("{}-{}", NAMES[1], cell.name), scale.clone())
                .await;
        }
        for cell in cells
            .into_iter()
            .filter(|cell| away.is_none_or(|away| away.name != cell.name))
        {
            arrived(&case, cell, round).await;
        }
        if let Some(cell) = away {
            match expired.take() {
                // Karmada uses the credential that it has started with.
                Some(credential) => {
                    credential.renew().await;
                    controllers.kill().await;
                    controllers.start();
                }
                None => case.suite.start_plane(&cell.name).await,
            }
            arrived(&case, cell, round).await;
        }
        let mut after = BTreeMap::new();
        for cell in cells {
            after.extend(standing(&case, cell).await);
        }
        assert_eq!(after, before, "restart {round}");
        controllers.kill().await;
    }
    controllers.start();
}

async fn arrived(case: &Case, cell: &Cell, round: u32) {
    for name in &NAMES[..2] {
        let name = format!("{name}-{}", cell.name);
        let scaled = |o: &Value| o["spec"]["scaleSettings"]["minReplicas"] == round;
        let what = format!("has the scale of restart {round}");
        cell.plane
            .sees(&DEPLOYMENT, &case.hub_ns, &name, &what, seconds(180), scaled)
            .await;
    }
}
