//! A gateway whose hub credential is a `ServiceAccount`'s, which no member's proxy lets through in Groups: kinds whose deletion
//! asks the member wait for another credential, everything else goes on.

use crate::{
    lanes::{is, vault},
    support::{Case, condition, credentials, kinds::VAULT, lone_trials},
    vault_status::shows,
};
use serde_json::json;

lone_trials![v23_a_service_account_gets_no_vault_to_the_hub];

const NAME: &str = "gold";

/// G52.
async fn v23_a_service_account_gets_no_vault_to_the_hub(case: Case) {
    let twin = credentials::Twin::new(&case.hub, "default", &format!("twin-{}", case.ns)).await;
    let account = case.suite.second_gateway(&twin).await;
    case.suite.gateway.stop().await;
    let mark = case.suite.hub_log.mark();
    account.start().await;
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    case.create(&VAULT, vault(&case.dfw.city)).await;
    let refused = shows(&case, "is refused", |o| is(o, "Federated", "HubIdentityRefused")).await;
    let said = condition(&refused, "Federated").map(|c| c["message"].to_string());
    assert!(
        said.is_some_and(|said| said.contains(&twin.user())),
        "it says who it is"
    );
    case.event(NAME, "HubIdentityRefused").await;
    case.deploy("web", &case.dfw.city).await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    account.stop().await;
    let asked = case.suite.hub_log.since(mark, &twin.user()).into_iter();
    let of_vault = asked.filter(|e| {
        let object = &e.object_ref;
        object.namespace == case.hub_ns && (object.resource == VAULT.plural || object.name == "token")
    });
    let of_vault: Vec<String> = of_vault.map(|e| e.action()).collect();
    assert_eq!(of_vault, [] as [String; 0], "nothing of it goes to the hub");
    case.suite.gateway.start().await;
    shows(&case, "is delivered", |o| is(o, "Federated", "Delivered")).await;
    twin.remove().await;
}
