//! 26 of operations.md: `--admin-auth=hub`, with tokens of a real hub.

use crate::support::{
    Case,
    credentials::{self, Twin},
    deployment,
    federated::{federated, kinds_flags},
    gateway::{Gateway, Projects, Setup},
    kinds::{ACCESS_REVIEW, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, DEPLOYMENT, NAMESPACE, SERVICE_ACCOUNT},
    lone_trials,
    plane::Plane,
    seconds,
    suite::{ALPHA_KEY, BETA_KEY},
    trials, unique_city, wait_for, with_cleanup,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;

trials![the_hub_says_who_may_ask_for_what];
lone_trials![while_the_hub_is_down_only_the_files_token_is_accepted];

const FILES: &str = "token-of-the-file-of-this-test";
const GROUP: &str = "operations.fedgate.dev";
const VIEWER: &str = "fedgate-operations-viewer";
/// Namespace of the hub with the users of these tests.
const USERS: &str = "default";

/// A standby whose other tokens the hub reviews. It runs under the account that the shipped roles are bound to.
struct Reviewed(Gateway);

impl Reviewed {
    async fn start(case: &Case) -> Self {
        let (suite, account) = (&case.suite, Twin::shipped(&case.hub).await);
        let [hub, file] = ["reviewed-hub.yaml", "reviewed-token"].map(|name| suite.dir.join(name));
        let kubeconfig = credentials::with_token(suite.gateway.hub_kubeconfig(), &account.token().await);
        credentials::replace(&hub, &kubeconfig);
        credentials::replace(&file, FILES);
        let gateway = Gateway::new(Setup {
            hub,
            projects: Projects::Folder(suite.gateway.projects().to_owned()),
            kinds: Some(kinds_flags()),
            log: suite.dir.join("gateway-reviewed.log"),
            further: vec![
                "--admin-auth=hub".into(),
                "--admin-token-file".into(),
                file.into(),
            ],
        });
        gateway.start().await;
        Self(gateway)
    }

    /// Code and text of an answer. The hub is asked for five reviews in a second, and what is over waits here.
    async fn ask(&self, token: &str, path: &str) -> (u16, String) {
        wait_for(&format!("{path} is answered"), seconds(30), || async {
            let answer = self.0.answer_to(token, path).await?;
            (answer.0 != 429).then_some(answer)
        })
        .await
    }

    async fn code(&self, token: &str, path: &str) -> u16 {
        self.ask(token, path).await.0
    }

    async fn document(&self, token: &str, path: &str) -> Value {
        let (code, text) = self.ask(token, path).await;
        assert_eq!(code, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path} answers {error}: {text}"))
    }

    /// Waits until a path answers with this code, and says how long that took.
    async fn becomes(&self, token: &str, path: &str, code: u16) -> std::time::Duration {
        let began = Instant::now();
        wait_for(&format!("{path} answers {code}"), seconds(80), || async {
            (self.code(token, path).await == code).then_some(())
        })
        .await;
        began.elapsed()
    }

    /// Ends it; its log has no token.
    async fn end(self, tokens: &[&str]) {
        self.0.stop().await;
        let log = self.0.log_since(0).join("\n");
        for token in tokens.iter().chain([&FILES]) {
            assert!(!log.contains(token), "the log has a token");
        }
    }
}

/// A user of the hub without rights.
async fn user(case: &Case, name: &str) -> Twin {
    Twin::without_rights(&case.hub, USERS, &format!("{name}-{}", case.ns)).await
}

/// Waits until the hub knows that a user may do this, or no longer.
async fn is_granted(hub: &Plane, user: &str, attributes: Value, granted: bool) {
    let question = json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": attributes}});
    wait_for(&format!("{user} is granted: {granted}"), seconds(20), || async {
        let answer = hub.try_create(&ACCESS_REVIEW, "", question.clone()).await.ok()?;
        (answer["status"]["allowed"] == granted).then_some(())
    })
    .await;
}

fn overview() -> Value {
    json!({"verb": "get", "group": GROUP, "resource": "overview"})
}

/// Applies `manifests/hub/admin-auth`, unless another test has.
async fn apply_reviewer(hub: &Plane) {
    let files = fedgate_manifests::all(&federated().expect("the kinds load")).expect("the manifests");
    let file = files
        .into_iter()
        .find(|file| file.path == "hub/admin-auth/reviewer.yaml");
    for object in file.expect("the reviewer's role is shipped").objects {
        let kind = if object["kind"] == "ClusterRole" {
            &CLUSTER_ROLE
        } else {
            &CLUSTER_ROLE_BINDING
        };
        match hub.try_create(kind, "", object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("apply the reviewer's role: {error}"),
        }
    }
    let account = Twin::shipped(hub).await.user();
    for (group, resource) in [
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ] {
        let attributes = json!({"verb": "create", "group": group, "resource": resource});
        is_granted(hub, &account, attributes, true).await;
    }
}

/// The viewer's role for one project, as docs/operations/install.md describes it.
async fn role_of_one_project(case: &Case) -> String {
    let role = case.hub.get(&CLUSTER_ROLE, "", VIEWER).await;
    let mut rules = role.expect("the viewer's role is installed")["rules"].clone();
    rules[0]["resourceNames"] = json!([ALPHA_KEY]);
    let name = format!("one-project-{}", case.ns);
    let role = json!({"metadata": {"name": name}, "rules": rules});
    case.hub.create(&CLUSTER_ROLE, "", role).await;
    name
}

/// The projects of the items of `/stuck`.
fn projects(stuck: &Value) -> BTreeSet<String> {
    let groups = stuck["groups"].as_array().expect("there are groups");
    let items = groups
        .iter()
        .flat_map(|group| group["items"].as_array().expect("groups have items"));
    let names = items.filter_map(|item| item["project"].as_str());
    names.map(str::to_owned).collect()
}

/// A user of the hub is answered as its role there says, and a role that is given or taken counts once the kept verdict ends.
async fn the_hub_says_who_may_ask_for_what(case: Case) {
    let reviewed = Reviewed::start(&case).await;
    let (viewer, owner, guest) = (
        user(&case, "viewer").await,
        user(&case, "owner").await,
        user(&case, "guest").await,
    );
    let [all, one, none] = [viewer.token().await, owner.token().await, guest.token().await];
    viewer.bind(VIEWER).await;
    owner.bind(&role_of_one_project(&case).await).await;
    is_granted(&case.hub, &viewer.user(), overview(), true).await;

    without_the_reviewers_role(&reviewed, &all).await;
    apply_reviewer(&case.hub).await;

    let beta = &case.suite.beta;
    beta.create(&NAMESPACE, "", json!({"metadata": {"name": case.ns}}))
        .await;
    // No cell serves the city, so that both projects have something to show.
    let city = unique_city();
    for project in [beta, &case.project] {
        project
            .create(&DEPLOYMENT, &case.ns, deployment("web", &city))
            .await;
    }
    all_is_answered(&reviewed, &all).await;
    one_project_is_answered(&reviewed, &one, &case.ns).await;
    let foreign = Twin::without_rights(&case.project, &case.ns, "foreign")
        .await
        .token()
        .await;
    nothing_is_answered(&reviewed, &none, &foreign).await;

    let refused = Instant::now();
    guest.bind(VIEWER).await;
    is_granted(&case.hub, &guest.user(), overview(), true).await;
    reviewed.becomes(&none, "/api/v1/overview", 200).await;
    assert!(
        refused.elapsed() < seconds(15),
        "a refusal is kept for ten seconds"
    );
    viewer.remove().await;
    let taken = Instant::now();
    is_granted(&case.hub, &viewer.user(), overview(), false).await;
    reviewed.becomes(&all, "/api/v1/overview", 403).await;
    assert!(taken.elapsed() < seconds(65), "a verdict is kept for a minute");

    reviewed.end(&[&all, &one, &none, &foreign]).await;
    beta.delete(&NAMESPACE, "", &case.ns).await;
    for user in [owner, guest] {
        user.remove().await;
    }
    for name in ["viewer", "owner", "guest"] {
        let name = format!("{name}-{}", case.ns);
        case.hub.delete(&SERVICE_ACCOUNT, USERS, &name).await;
    }
    let role = format!("one-project-{}", case.ns);
    case.hub.delete(&CLUSTER_ROLE, "", &role).await;
}

/// A gateway that may not create reviews answers the file's token alone, and its log says what to apply.
async fn without_the_reviewers_role(reviewed: &Reviewed, all: &str) {
    let (code, text) = reviewed.ask(all, "/api/v1/overview").await;
    assert_eq!(code, 503, "{text}");
    assert!(text.contains("create tokenreviews"), "{text}");
    assert_eq!(reviewed.code(FILES, "/api/v1/overview").await, 200);
    let log = reviewed.0.log_since(0).join("\n");
    assert!(log.contains("apply manifests/hub/admin-auth"), "{log}");
}

async fn all_is_answered(reviewed: &Reviewed, all: &str) {
    for path in ["overview", "planes", "projects", "cells", "stuck", "journal"] {
        let document = reviewed.document(all, &format!("/api/v1/{path}")).await;
        assert_eq!(document["apiVersion"], "operations.fedgate.dev/v1", "{document}");
        assert_eq!(document["replica"]["role"], "standby", "{document}");
    }
    for path in ["/metrics", "/debug/planes"] {
        assert_eq!(reviewed.code(all, path).await, 200, "{path}");
    }
    wait_for("what is stuck in both projects is shown", seconds(30), || async {
        let stuck = reviewed.document(all, "/api/v1/stuck?class=refused").await;
        projects(&stuck)
            .is_superset(&[ALPHA_KEY, BETA_KEY].map(str::to_owned).into())
            .then_some(())
    })
    .await;
}

async fn one_project_is_answered(reviewed: &Reviewed, one: &str, ns: &str) {
    let project = reviewed
        .document(one, &format!("/api/v1/projects/{ALPHA_KEY}"))
        .await;
    assert_eq!(project["project"], ALPHA_KEY, "{project}");
    let trace = format!("/api/v1/trace/{ALPHA_KEY}/{ns}/workloaddeployments/web");
    assert_eq!(reviewed.document(one, &trace).await["object"]["name"], "web");
    let stuck = reviewed
        .document(one, &format!("/api/v1/stuck?class=refused&project={ALPHA_KEY}"))
        .await;
    assert_eq!(projects(&stuck), [ALPHA_KEY.to_owned()].into(), "{stuck}");
    for path in ["flows", "journal"] {
        let path = format!("/api/v1/{path}?project={ALPHA_KEY}");
        assert_eq!(reviewed.code(one, &path).await, 200, "{path}");
    }
    for path in [
        "/metrics".to_owned(),
        "/debug/planes".to_owned(),
        "/api/v1/overview".to_owned(),
        "/api/v1/projects".to_owned(),
        "/api/v1/flows".to_owned(),
        "/api/v1/stuck".to_owned(),
        "/api/v1/journal".to_owned(),
        "/api/v1/events".to_owned(),
        "/api/v1/cells".to_owned(),
        format!("/api/v1/cells/{ALPHA_KEY}"),
        format!("/api/v1/projects/{BETA_KEY}"),
        format!("/api/v1/flows?project={BETA_KEY}"),
        format!("/api/v1/events?project={BETA_KEY}&topics=stuck"),
        format!("/api/v1/trace/{BETA_KEY}/{ns}/workloaddeployments/web"),
    ] {
        assert_eq!(reviewed.code(one, &path).await, 403, "{path}");
    }
}

async fn nothing_is_answered(reviewed: &Reviewed, none: &str, foreign: &str) {
    let (code, text) = reviewed.ask(none, "/api/v1/overview").await;
    assert_eq!(code, 403, "{text}");
    assert!(
        text.contains("get overview.operations.fedgate.dev of all projects"),
        "{text}"
    );
    assert!(text.contains(VIEWER), "{text}");
    for path in ["/metrics".to_owned(), format!("/api/v1/projects/{ALPHA_KEY}")] {
        assert_eq!(reviewed.code(none, &path).await, 403, "{path}");
    }
    // Of another API server, cut off, made up, none.
    for token in [foreign, &none[..none.len() - 8], "made-up", ""] {
        assert_eq!(reviewed.code(token, "/api/v1/overview").await, 401);
    }
}

/// With the hub down the token of the file is the way in, also into a gateway that starts; a verdict lasts until it ends.
async fn while_the_hub_is_down_only_the_files_token_is_accepted(case: Case) {
    let viewer = user(&case, "viewer").await;
    viewer.bind(VIEWER).await;
    is_granted(&case.hub, &viewer.user(), overview(), true).await;
    apply_reviewer(&case.hub).await;
    let reviewed = Reviewed::start(&case).await;
    let [known, new] = [viewer.token().await, viewer.token().await];
    assert_eq!(reviewed.code(&known, "/api/v1/overview").await, 200);
    case.suite.stop_plane("hub").await;
    let outage = async {
        assert_eq!(
            reviewed.code(&known, "/api/v1/overview").await,
            200,
            "its verdict is kept"
        );
        for token in [new.as_str(), "made-up"] {
            let (code, text) = reviewed.ask(token, "/api/v1/overview").await;
            assert_eq!(code, 503, "{text}");
            assert!(text.contains("--admin-token-file"), "{text}");
        }
        for path in ["/metrics", "/api/v1/overview"] {
            assert_eq!(reviewed.code(FILES, path).await, 200, "{path}");
        }
        reviewed.0.stop().await;
        reviewed.0.spawn().await;
        wait_for("it lives", seconds(60), || async {
            reviewed.0.lives().await.then_some(())
        })
        .await;
        let overview = reviewed.document(FILES, "/api/v1/overview").await;
        assert_eq!(overview["complete"], false, "{overview}");
        assert_eq!(reviewed.code(&known, "/api/v1/overview").await, 503);
    };
    with_cleanup(outage, case.suite.start_plane("hub")).await;
    reviewed.becomes(&new, "/api/v1/overview", 200).await;
    reviewed.end(&[&known, &new]).await;
    // Either of the two may have led after the outage.
    case.suite.gateway.leads().await;
    viewer.remove().await;
    let name = format!("viewer-{}", case.ns);
    case.hub.delete(&SERVICE_ACCOUNT, USERS, &name).await;
}
