//! Parameters, paths, pages and errors.

use super::{
    fake::{error, write},
    *,
};
use fedgate_operations::ErrorCode;

#[tokio::test]
async fn every_answer_has_version_kind_time_and_replica() {
    let api = api(&Fake::with_projects(2));
    for (path, kind) in [
        ("overview", "Overview"),
        ("planes", "Planes"),
        ("projects", "Projects"),
        ("projects/p00001", "Project"),
        ("stuck", "Stuck"),
        ("trace/p00001/default/workloads/web", "Trace"),
        ("journal", "Journal"),
    ] {
        let (status, document) = get(&api, path).await;
        assert_eq!((status, &document["kind"]), (200, &kind.into()), "{path}");
        assert_eq!(document["apiVersion"], "operations.fedgate.dev/v1");
        assert_eq!(document["asOf"], "1970-01-01T00:16:40.000Z");
        assert_eq!(document["complete"], true);
        assert_eq!(document["replica"]["role"], "leader");
    }
}

#[tokio::test]
async fn a_wrong_parameter_is_named_with_its_value_and_what_is_allowed() {
    let api = api(&Fake::with_projects(0));
    let long = "x".repeat(65);
    for (path, parts) in [
        (
            "overview?limit=1",
            ["\"limit\" is unknown", "takes no parameters"],
        ),
        (
            "projects?sort=age",
            ["sort is \"age\"", "name, worst, since, instances"],
        ),
        ("projects?limit=501", ["limit is \"501\"", "1 to 500"]),
        ("projects?limit=0", ["limit is \"0\"", "1 to 500"]),
        ("projects?limit=", ["limit is \"\"", "1 to 500"]),
        ("projects?limit=1&limit=2", ["limit", "given twice"]),
        (
            "projects?project=a",
            ["\"project\" is unknown", "state, reason, city"],
        ),
        (&format!("projects?q={long}"), ["q is \"xxx", "64 characters"]),
        ("projects?q=%1b", ["\\u{1b}", "control characters"]),
        ("planes?state=down", ["state is \"down\"", "connected"]),
        ("planes?plane=moon", ["plane is \"moon\"", "hub, project, cell"]),
        ("flows?top=201", ["top is \"201\"", "1 to 200"]),
        ("stuck?class=bored", ["class is \"bored\"", "unavailable"]),
        ("stuck?for=soon", ["for is \"soon\"", "60s"]),
        ("stuck?for=-1s", ["for is \"-1s\"", "60s"]),
        ("journal?after=-1", ["after is \"-1\"", "number"]),
        (
            "events?topics=overview,all",
            ["topics is \"all\"", "overview, projects"],
        ),
        (
            "events?project=a&topics=overview",
            ["topics is \"overview\"", "projects, stuck, journal"],
        ),
        ("stuck?project=", ["project is empty", "leave it out"]),
        (&format!("journal?name={}", "n".repeat(254)), ["254 bytes", "253"]),
        ("journal?%00%0a=1", ["\\0\\n", "unknown"]),
    ] {
        let (status, document) = get(&api, path).await;
        let error = error(&document);
        assert_eq!((status, error.code), (400, ErrorCode::Invalid), "{path}");
        for part in parts {
            assert!(error.message.contains(part), "{path}: {}", error.message);
        }
    }
}

#[tokio::test]
async fn the_reference_has_each_path_with_its_parameters() {
    let api = api(&Fake::with_projects(0));
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/operations-api.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    for route in Route::all() {
        let path = route.path();
        let row = page
            .lines()
            .find_map(|line| line.strip_prefix(&format!("| `{BASE}{path}` | ")));
        let (parameters, _) = row.unwrap_or_else(|| panic!("{path}")).split_once('|').unwrap();
        let takes = match parameters.trim().replace('`', "") {
            none if none.is_empty() => "no parameters".to_owned(),
            some => some,
        };
        let asked = path.replace(['{', '}'], "");
        let (_, document) = get(&api, &format!("{asked}?other=1")).await;
        let wanted = format!("the parameter \"other\" is unknown; /{path} takes {takes}");
        assert_eq!(error(&document).message, wanted);
    }
}

#[tokio::test]
async fn parameters_arrive_as_values() {
    let fake = Fake::with_projects(0);
    let api = api(&fake);
    for (path, status) in [
        (
            "projects?state=backoff&city=DFW&q=sh%26op&sort=worst&limit=500",
            200,
        ),
        // There is no such project.
        ("stuck?class=retrying&plane=hub&for=5m&project=a%2Fb", 404),
        ("planes", 200),
    ] {
        assert_eq!(get(&api, path).await.0, status, "{path}");
    }
    let questions = fake.state.lock().questions.join("\n");
    for part in [
        "Query { plane: None, state: Some(\"backoff\"), q: Some(\"sh&op\"), reason: None, project: None, city: Some(\"DFW\")",
        "sort: Worst, page: PageQuery { limit: 500, from: Start } }",
        "Query { plane: Some(\"hub\"), state: None, q: None, reason: None, project: Some(\"a/b\"), city: None, cell: None, \
         class: Some(Retrying), stuck_for: Some(300s)",
        "top: None, sort: Name, page: PageQuery { limit: 100, from: Start } }",
    ] {
        assert!(questions.contains(part), "{part} is missing in {questions}");
    }
}

#[tokio::test]
async fn only_get_and_head_of_known_paths_are_served() {
    let api = api(&Fake::with_projects(1));
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let (status, response) = send(&api, method, "/api/v1/overview").await;
        assert_eq!(
            (status, &response.headers()["allow"]),
            (405, &"GET, HEAD".parse().unwrap())
        );
    }
    let (status, response) = send(&api, "HEAD", "/api/v1/overview").await;
    assert_eq!(status, 200);
    assert!(response.headers().contains_key("content-length"));
    let (status, response) = send(&api, "HEAD", "/api/v1/events").await;
    assert_eq!(
        (status, &response.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    for path in [
        "",
        "nothing",
        "overview/",
        "projects/",
        "trace/a/b/c",
        "trace/a/b/c/d/e",
        "../metrics",
        "trace/a//c/d",
    ] {
        let (status, document) = get(&api, path).await;
        assert_eq!(
            (status, error(&document).code),
            (404, ErrorCode::NotFound),
            "{path}"
        );
    }
    let (status, document) = get(&api, "projects/unknown").await;
    assert_eq!(status, 404);
    assert!(error(&document).message.contains("no project"));
    for path in ["stuck?project=typo", "journal?project=typo"] {
        let (status, document) = get(&api, path).await;
        assert_eq!(status, 404, "{path}");
        assert!(error(&document).message.contains("no project \"typo\""), "{path}");
    }
    let (status, _) = get(&api, "stuck?project=p00000").await;
    assert_eq!(status, 200);
    let (status, document) = get(&api, "flows").await;
    assert_eq!(status, 404, "the role does not serve it");
    assert!(
        error(&document)
            .message
            .contains("a cell does not serve this path")
    );
}

#[tokio::test]
async fn a_name_in_a_path_is_decoded_once_and_is_a_name() {
    let api = api(&Fake::with_projects(1));
    let (status, document) = get(&api, "trace/a%2Fb/default/workloads/we%252Fb").await;
    assert_eq!(status, 200);
    assert_eq!(document["object"]["project"], "a/b");
    assert_eq!(document["object"]["name"], "we%2Fb", "not twice");
    let long = format!("projects/{}", "p".repeat(254));
    for path in [
        "projects/%00",
        "projects/%0d%0ax",
        "projects/%ff",
        "projects/%1b[2J",
        &long,
    ] {
        let (status, document) = get(&api, path).await;
        assert_eq!(
            (status, error(&document).code),
            (400, ErrorCode::Invalid),
            "{path}"
        );
    }
    let (status, document) = get(&api, "projects/a%2Fb").await;
    assert_eq!(status, 404);
    assert!(error(&document).message.contains("a/b"));
}

#[tokio::test]
async fn pages_in_order_of_name_have_each_row_once_while_others_come_and_go() {
    let fake = Fake::with_projects(1_000);
    let api = api(&fake);
    let mut seen = Vec::new();
    let mut path = "projects?limit=7".to_owned();
    loop {
        let (status, document) = get(&api, &path).await;
        assert_eq!(status, 200);
        for row in document["items"].as_array().unwrap() {
            seen.push(row["project"].as_str().unwrap().to_owned());
        }
        let n = seen.len();
        fake.set(&format!("p{n:05}-new"), 0);
        fake.set(&format!("a{n}"), 0);
        fake.remove(&format!("a{}", n.saturating_sub(7)));
        match document["continue"].as_str() {
            Some(token) => path = format!("projects?limit=7&continue={token}"),
            None => break,
        }
    }
    let stayed: Vec<_> = seen.iter().filter(|name| name.len() == 6).cloned().collect();
    let wanted: Vec<_> = (0..1_000).map(|n| format!("p{n:05}")).collect();
    assert_eq!(stayed, wanted);
}

#[tokio::test]
async fn a_continue_that_this_process_did_not_give_has_expired() {
    let fake = Fake::with_projects(10);
    let (api, other) = (api(&fake), super::api(&fake));
    let (_, document) = get(&api, "projects?limit=2").await;
    let token = document["continue"].as_str().unwrap();
    assert_eq!(document["remaining"], 8);
    let mut forged = token.to_owned();
    forged.replace_range(forged.len() - 2.., "39");
    let huge = "0".repeat(4_000);
    for token in [
        &forged,
        "",
        "x",
        "00",
        &huge,
        "ä",
        &token[..token.len() - 1],
        &format!("{token}00"),
    ] {
        let (status, document) = get(&api, &format!("projects?continue={token}")).await;
        assert_eq!(
            (status, error(&document).code),
            (410, ErrorCode::Expired),
            "{token}"
        );
    }
    let path = format!("projects?continue={token}");
    assert_eq!(get(&other, &path).await.0, 410, "of another process");
    assert_eq!(get(&api, &path).await.0, 200);
    assert_eq!(
        get(&api, &format!("{path}&sort=worst")).await.0,
        400,
        "of another sort"
    );
    assert_eq!(
        get(&api, &format!("cells?continue={token}")).await.0,
        400,
        "of another list"
    );
}

#[tokio::test]
async fn an_answer_over_a_mebibyte_is_cut_and_goes_on_where_it_was_cut() {
    let fake = Arc::new(Fake::default());
    for seq in 1..=500 {
        let mut row = write(seq, "shop");
        row.message = "x".repeat(4_000);
        fake.state.lock().journal.insert(0, row);
    }
    let api = api(&fake);
    let mut seen = Vec::new();
    let mut path = "journal?limit=500".to_owned();
    loop {
        let (status, document) = get(&api, &path).await;
        assert_eq!(status, 200);
        seen.extend(
            document["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["seq"].as_u64().unwrap()),
        );
        assert_eq!(document["remaining"], 500 - seen.len());
        match document["continue"].as_str() {
            Some(token) => path = format!("journal?limit=500&continue={token}"),
            None => break,
        }
    }
    assert_eq!(seen, (1..=500).rev().collect::<Vec<u64>>());
}
