//! The proxy of Clusters before the stand-in's hub: Karmada's words to whoever asks (docs/contract/clusters.md, W38 to W51), and
//! nothing else of the hub changes.

use super::{ALONE, dir};
use anyhow::{Context, Result};
use fedgate_sandbox::{CellSpec, Options, Progress, Sandbox, User};
use futures::TryStreamExt;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{SelfSubjectReview, TokenRequest},
        core::v1::{ConfigMap, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
};
use kube::{
    Api, Client, Config, Resource,
    api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    client::Body,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt::Debug, pin::pin, time::Duration};
use tokio::time::timeout;

const CELL: &str = "dfw-1";
const SETTINGS: &str = "api/v1/namespaces/default/configmaps/settings";
/// How long rights may take to be known.
const PATIENCE: Duration = Duration::from_secs(30);
const GATEWAY: &str = "fedgate-gateway";

/// Path behind the proxy of a Cluster.
fn at(cluster: &str, path: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy/{path}")
}

/// An answer: its code, type and text.
async fn get(client: &Client, path: &str, header: Option<(&str, &str)>) -> Result<(u16, String, String)> {
    let mut request = Request::get(path);
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let answer = client.send(request.body(Body::empty())?).await?;
    let code = answer.status().as_u16();
    let kind = answer
        .headers()
        .get("content-type")
        .map(|kind| kind.to_str().map(str::to_owned));
    let kind = kind.transpose()?.unwrap_or_default();
    let text = String::from_utf8(answer.into_body().collect().await?.to_bytes().to_vec())?;
    Ok((code, kind, text))
}

/// A refusal: its code, reason, details and message.
async fn refusal(client: &Client, path: &str) -> Result<(u16, Value, String)> {
    let (code, _, text) = get(client, path, None).await?;
    let status: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    assert_eq!(
        (&status["kind"], &status["code"]),
        (&json!("Status"), &json!(code))
    );
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    Ok((code, json!([status["reason"], status["details"]]), message))
}

async fn create<K>(client: &Client, object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let object: K = serde_json::from_value(object)?;
    Api::<K>::all(client.clone())
        .create(&PostParams::default(), &object)
        .await?;
    Ok(())
}

/// Lets a subject do that.
async fn grant(client: &Client, name: &str, rule: Value, subject: Value) -> Result<()> {
    let rights = json!({"metadata": {"name": name}, "rules": [rule]});
    create::<ClusterRole>(client, rights).await?;
    let granted = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    let binding = json!({"metadata": {"name": name}, "roleRef": granted, "subjects": [subject]});
    create::<ClusterRoleBinding>(client, binding).await
}

fn subject(kind: &str, name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name})
}

fn proxies() -> Value {
    json!({"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["get"]})
}

fn reads() -> Value {
    json!({"apiGroups": ["", "example.dev"], "resources": ["configmaps", "gadgets", "clusters"], "verbs": ["get", "watch"]})
}

/// Asks until the answer is as wanted: hub and member learn of new rights a moment after they are given.
async fn soon(client: &Client, path: &str, wanted: impl Fn(u16, &str) -> bool) -> Result<String> {
    let known = async {
        loop {
            let (code, _, text) = get(client, path, None).await?;
            if wanted(code, &text) {
                return Ok(text);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, known)
        .await
        .with_context(|| format!("GET {path}"))?
}

async fn code_becomes(client: &Client, path: &str, wanted: u16) -> Result<()> {
    soon(client, path, |code, _| code == wanted).await.map(drop)
}

/// The hub decides first, then the member.
async fn rights(sandbox: &Sandbox) -> Result<()> {
    let (hub, cell) = (
        sandbox.client("hub", User::Admin)?,
        sandbox.client(CELL, User::Admin)?,
    );
    let gateway = sandbox.client("hub", User::Gateway)?;
    let settings = at(CELL, SETTINGS);
    let of =
        |name: &str| json!(["Forbidden", {"name": name, "group": "cluster.karmada.io", "kind": "clusters"}]);
    for cluster in [CELL, "absent"] {
        let (code, details, message) = refusal(&gateway, &at(cluster, SETTINGS)).await?;
        assert_eq!((code, details), (403, of(cluster)));
        let words = format!(
            "clusters.cluster.karmada.io \"{cluster}\" is forbidden: User \"fedgate-gateway\" cannot get resource \
             \"clusters/proxy\" in API group \"cluster.karmada.io\" at the cluster scope"
        );
        assert_eq!(message, words);
    }
    grant(&hub, "proxy", proxies(), subject("User", GATEWAY)).await?;
    let unknown = json!(["NotFound", {"name": "absent", "group": "cluster.karmada.io", "kind": "clusters"}]);
    code_becomes(&gateway, &at("absent", SETTINGS), 404).await?;
    let (_, details, message) = refusal(&gateway, &at("absent", SETTINGS)).await?;
    assert_eq!(
        (details, &*message),
        (unknown, "clusters.cluster.karmada.io \"absent\" not found")
    );
    let (code, details, message) = refusal(&gateway, &settings).await?;
    let of_member = json!(["Forbidden", {"name": "settings", "kind": "configmaps"}]);
    assert_eq!((code, details), (403, of_member));
    assert!(
        message.contains("User \"fedgate-gateway\" cannot get"),
        "{message}"
    );
    let (code, ..) = get(&gateway, &settings, Some(("impersonate-user", "admin"))).await?;
    assert_eq!(code, 400, "it plays nobody else");

    grant(&cell, "reads", reads(), subject("User", GATEWAY)).await?;
    code_becomes(&gateway, &settings, 404).await?;
    let (code, details, _) = refusal(&gateway, &settings).await?;
    let absent = json!(["NotFound", {"name": "settings", "kind": "configmaps"}]);
    assert_eq!((code, details), (404, absent));
    let (code, kind, text) = get(&gateway, &at(CELL, "apis/example.dev/v1/gadgets/a"), None).await?;
    assert_eq!((code, &*text), (404, "404 page not found\n"));
    assert!(kind.starts_with("text/plain"), "{kind}");
    Ok(())
}

/// A watch through the proxy tells of the object alone, as it happens.
async fn followed(sandbox: &Sandbox) -> Result<()> {
    let cell = Api::<ConfigMap>::namespaced(sandbox.client(CELL, User::Admin)?, "default");
    let gateway = sandbox.client("hub", User::Gateway)?;
    let named = |name: &str| ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    cell.create(&PostParams::default(), &named("settings")).await?;
    let (code, _, text) = get(&gateway, &at(CELL, SETTINGS), None).await?;
    let found: Value = serde_json::from_str(&text)?;
    assert_eq!((code, &found["metadata"]["name"]), (200, &json!("settings")));
    let kind = GroupVersionKind::gvk("cluster.karmada.io", "v1alpha1", "ConfigMap");
    let below = format!("clusters/{CELL}/proxy/api/v1/namespaces/default/configmaps");
    let proxied = Api::<DynamicObject>::all_with(gateway, &ApiResource::from_gvk_with_plural(&kind, &below));
    let params = WatchParams::default().fields("metadata.name=settings");
    let version = found["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut events = pin!(proxied.watch(&params, version).await?);
    cell.create(&PostParams::default(), &named("other")).await?;
    for edit in ["a", "b"] {
        let patch = json!({"data": {"edit": edit}});
        cell.patch("settings", &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        let event = events.try_next().await?;
        let Some(WatchEvent::Modified(seen)) = event else {
            anyhow::bail!("not the edit: {event:?}");
        };
        assert_eq!(seen.data["data"]["edit"], edit);
    }
    Ok(())
}

async fn who(client: &Client) -> Result<(String, Vec<String>)> {
    let review = Api::<SelfSubjectReview>::all(client.clone())
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    let user = review
        .status
        .and_then(|status| status.user_info)
        .unwrap_or_default();
    Ok((user.username.unwrap_or_default(), user.groups.unwrap_or_default()))
}

/// A client of the hub's address with other credentials.
async fn with(sandbox: &Sandbox, credentials: AuthInfo) -> Result<Client> {
    let file = Kubeconfig::read_from(sandbox.kubeconfig("hub", User::Gateway))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.auth_info = credentials;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

async fn with_token(sandbox: &Sandbox, token: String) -> Result<Client> {
    let credentials = AuthInfo {
        token: Some(token.into()),
        ..AuthInfo::default()
    };
    with(sandbox, credentials).await
}

/// Users are those of the hub: by certificate, by token, or nobody. Their groups count at the member, too.
async fn users(sandbox: &Sandbox) -> Result<()> {
    let (hub, cell) = (
        sandbox.client("hub", User::Admin)?,
        sandbox.client(CELL, User::Admin)?,
    );
    let gateway = sandbox.client("hub", User::Gateway)?;
    let authenticated = vec!["system:authenticated".to_owned()];
    assert_eq!(who(&gateway).await?, (GATEWAY.to_owned(), authenticated.clone()));
    let forged = Some(("x-remote-group", "system:masters"));
    let (code, ..) = get(&gateway, "/api/v1/secrets", forged).await?;
    assert_eq!(code, 403, "a client does not say by itself who it is");

    let settings = at(CELL, SETTINGS);
    let of_cell = sandbox.client("hub", User::Cell(CELL))?;
    assert_eq!(refusal(&of_cell, &settings).await?.0, 403);
    grant(&hub, "proxy-cells", proxies(), subject("Group", "fedgate-cells")).await?;
    grant(&cell, "reads-cells", reads(), subject("Group", "fedgate-cells")).await?;
    code_becomes(&of_cell, &settings, 200).await?;

    let accounts = Api::<ServiceAccount>::namespaced(hub.clone(), "default");
    let reader = json!({"metadata": {"name": "reader"}});
    accounts
        .create(&PostParams::default(), &serde_json::from_value(reader)?)
        .await?;
    let request: TokenRequest = serde_json::from_value(json!({"metadata": {}, "spec": {"audiences": []}}))?;
    let token = accounts
        .create_token_request("reader", &PostParams::default(), &request)
        .await?;
    let token = token.status.and_then(|status| status.token);
    let reader = with_token(sandbox, token.context("a token")?).await?;
    let name = "system:serviceaccount:default:reader";
    assert_eq!(who(&reader).await?.0, name);
    assert_eq!(refusal(&reader, &settings).await?.0, 403);
    grant(&hub, "proxy-reader", proxies(), subject("User", name)).await?;
    let words = format!("User \\\"{name}\\\" cannot get resource \\\"configmaps\\\"");
    soon(&reader, &settings, |code, text| {
        code == 403 && text.contains(&words)
    })
    .await?;

    let nobody = with(sandbox, AuthInfo::default()).await?;
    let made_up = with_token(sandbox, "made-up".to_owned()).await?;
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::default().self_signed(&key)?;
    let base64 = |text: String| -> Result<String> {
        Ok(serde_json::from_value(json!(ByteString(text.into_bytes())))?)
    };
    let unproven = AuthInfo {
        client_certificate_data: Some(base64(certificate.pem())?),
        client_key_data: Some(base64(key.serialize_pem())?.into()),
        ..AuthInfo::default()
    };
    let unproven = with(sandbox, unproven).await?;
    for path in ["/api/v1/secrets", &settings] {
        let (code, _, message) = refusal(&nobody, path).await?;
        assert_eq!(code, 403, "{message}");
        assert!(message.contains("User \"system:anonymous\" cannot"), "{message}");
        for client in [&made_up, &unproven] {
            assert_eq!(refusal(client, path).await?.0, 401, "{path}");
        }
    }
    Ok(())
}

/// The audit logs name the user: the hub's as its own, the member's as one who is played.
fn logged(sandbox: &Sandbox) -> Result<()> {
    let entries = |plane: &str| -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(sandbox.audit_log(plane))?;
        let lines = text.lines().map(serde_json::from_str);
        Ok(lines.collect::<Result<_, _>>()?)
    };
    let own =
        |entry: &Value| entry["user"]["username"] == GATEWAY && entry["objectRef"]["resource"] == "secrets";
    assert!(entries("hub")?.iter().any(own));
    let played = |entry: &Value| {
        entry["user"]["username"] == "hub-controllers"
            && entry["impersonatedUser"]["username"] == GATEWAY
            && entry["objectRef"]["name"] == "settings"
    };
    assert!(entries(CELL)?.iter().any(played));
    Ok(())
}

/// A Cluster without the way to its member, and planes that do not answer.
async fn unreached(sandbox: &Sandbox) -> Result<()> {
    let gateway = sandbox.client("hub", User::Gateway)?;
    let hub = sandbox.client("hub", User::Admin)?;
    let kind = GroupVersionKind::gvk("cluster.karmada.io", "v1alpha1", "Cluster");
    let clusters = Api::<DynamicObject>::all_with(hub, &ApiResource::from_gvk(&kind));
    let broken = json!([null, null]);
    let mut cluster = DynamicObject::new("other", &ApiResource::from_gvk(&kind));
    cluster.data = json!({"spec": {"syncMode": "Push"}});
    clusters.create(&PostParams::default(), &cluster).await?;
    let said = "API endpoint of cluster other should not be empty".to_owned();
    let path = at("other", SETTINGS);
    assert_eq!(refusal(&gateway, &path).await?, (500, broken.clone(), said));
    let endpoint = json!({"spec": {"apiEndpoint": "https://other.invalid"}});
    clusters
        .patch("other", &PatchParams::default(), &Patch::Merge(&endpoint))
        .await?;
    let said = "the impersonatorSecretRef of cluster other is nil".to_owned();
    assert_eq!(refusal(&gateway, &path).await?, (500, broken.clone(), said));

    sandbox.stop_plane(CELL).await?;
    let (code, details, message) = refusal(&gateway, &at(CELL, SETTINGS)).await?;
    assert_eq!((code, details), (500, broken));
    assert!(
        message.starts_with("dial tcp 127.0.0.1:") && message.ends_with(": connect: connection refused"),
        "{message}"
    );
    sandbox.start_plane(CELL).await?;
    assert_eq!(get(&gateway, &at(CELL, SETTINGS), None).await?.0, 200);

    sandbox.stop_plane("hub").await?;
    let gone = get(&gateway, "/version", None).await;
    assert!(gone.is_err(), "its address takes no connection: {gone:?}");
    sandbox.start_plane("hub").await?;
    assert_eq!(get(&gateway, &at(CELL, SETTINGS), None).await?.0, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "verify: planes of its own"]
async fn the_hub_of_the_stand_in_leads_to_its_members() -> Result<()> {
    let _alone = ALONE.lock().await;
    let sandbox = Sandbox::up(Options {
        projects: Vec::new(),
        cells: vec![CellSpec {
            name: CELL.to_owned(),
            city: "DFW".to_owned(),
        }],
        progress: Progress::new(|line| eprintln!("sandbox: {line}")),
        ..Options::new(dir("proxied"), env!("CARGO_BIN_EXE_fedgate-sandbox"))
    })
    .await?;
    rights(&sandbox).await?;
    followed(&sandbox).await?;
    users(&sandbox).await?;
    logged(&sandbox)?;
    unreached(&sandbox).await?;
    sandbox.down().await?;
    Ok(())
}
