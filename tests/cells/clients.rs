//! A client sends HTTP requests to a deployment during a rollout (docs/contract/serving.md §3). The test starts an HTTP server for
//! each Pod, as the kubelet starts processes, and keeps the addresses behind the Services, as kube-proxy does.

use crate::support::{
    Case, Wish,
    case::{is_true, name, selects, uid},
    http,
    kinds::{POD, SERVICE, WORKLOAD},
    seconds, trials, wait_for,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::oneshot,
    task::JoinSet,
};

trials![s14_clients_see_no_failure_while_the_one_instance_is_replaced];

/// KWOK writes no status for a Pod whose image has the word `untouched`.
const FORMER: &str = "shop/web:untouched-1";
const NEWER: &str = "shop/web:untouched-2";
/// The template's `preStop.sleep.seconds`: far more than the age of an address.
const PRE_STOP: u64 = 10;
const REQUESTS: usize = 500;
/// Pause between two looks at the cell. An address is at most twice as old.
const PAUSE: Duration = Duration::from_millis(200);

/// Addresses of the ready Pods behind a Service.
type Addresses = Mutex<Vec<String>>;

/// The HTTP server of a Pod. Without `_pod` it ends after the Pod's `preStop`.
struct Process {
    address: String,
    _pod: oneshot::Sender<()>,
}

#[derive(Default)]
struct Node {
    /// By the UID of the Pod.
    processes: BTreeMap<String, Process>,
    servers: JoinSet<()>,
}

impl Node {
    /// Never returns.
    async fn run(mut self, case: &Case, addresses: &Addresses) {
        loop {
            let (pods, services) = (
                case.at(case.dfw(), &POD).await,
                case.at(case.dfw(), &SERVICE).await,
            );
            let is_kept = |object: &&Value| object["metadata"]["deletionTimestamp"].is_null();
            let kept: BTreeMap<&str, &Value> =
                pods.iter().filter(is_kept).map(|pod| (uid(pod), pod)).collect();
            self.processes.retain(|uid, _| kept.contains_key(uid.as_str()));
            for (uid, pod) in &kept {
                if !self.processes.contains_key(*uid) && pod["spec"]["nodeName"].is_string() {
                    self.start(case, pod).await;
                }
            }
            let is_served = |pod: &Value| {
                services
                    .iter()
                    .filter(is_kept)
                    .any(|service| selects(service, pod))
            };
            let ready = kept
                .iter()
                .filter(|(_, pod)| is_true(pod, "Ready") && is_served(pod));
            let all = ready.filter_map(|(uid, _)| self.processes.get(*uid));
            let all: Vec<String> = all.map(|process| process.address.clone()).collect();
            // Clients learn of a deletion later than the process.
            tokio::time::sleep(PAUSE).await;
            *addresses.lock().unwrap() = all;
        }
    }

    /// Starts the process of a Pod, and then writes that the Pod is ready.
    async fn start(&mut self, case: &Case, pod: &Value) {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("listen on loopback");
        let address = listener
            .local_addr()
            .expect("the listener has an address")
            .to_string();
        let container = &pod["spec"]["containers"][0];
        let image = container["image"].as_str().unwrap_or_default().to_owned();
        let pre_stop = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64();
        let (alive, deleted) = oneshot::channel();
        let ends = async move {
            let _ = deleted.await;
            tokio::time::sleep(seconds(pre_stop.unwrap_or_default())).await;
        };
        let served = serve(listener, image.clone());
        self.servers.spawn(async move {
            tokio::select! {
                () = ends => {}
                () = served => {}
            }
        });
        let process = Process { address, _pod: alive };
        self.processes.insert(uid(pod).to_owned(), process);
        let ready = json!({"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "web", "image": image, "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "state": {"running": {}}}]});
        let cell = &case.dfw().plane;
        cell.merge_status(&POD, &case.hub_ns, name(pod), ready).await;
    }
}

/// Answers each request with the name of the image.
async fn serve(listener: TcpListener, image: String) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let image = image.clone();
        tokio::spawn(async move {
            let _ = stream.read(&mut [0; 1024]).await;
            let head = "HTTP/1.1 200 OK\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{image}", image.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        });
    }
}

/// The images that answer a request to each address, or what fails.
async fn ask(addresses: &Addresses) -> Vec<Result<String, String>> {
    let all = addresses.lock().unwrap().clone();
    if all.is_empty() {
        return vec![Err("no Service has a ready Pod".to_owned())];
    }
    let mut answers = Vec::new();
    for address in all {
        answers.push(match http::get(&address, "/").await {
            Some((200, image)) => Ok(image),
            other => Err(format!("{address}: {other:?}")),
        });
    }
    answers
}

async fn s14_clients_see_no_failure_while_the_one_instance_is_replaced(case: Case) {
    let wish = Wish::new("web", 1).image(FORMER).rollout(json!({}));
    let of_image = |image: &str| {
        let mut workload = wish.clone().image(image).workload();
        let sandbox = &mut workload["spec"]["template"]["spec"]["runtime"]["sandbox"];
        sandbox["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": PRE_STOP}}});
        workload
    };
    let addresses = Addresses::default();
    let asked = async {
        case.project.create(&WORKLOAD, &case.ns, of_image(FORMER)).await;
        case.runs(&wish).await;
        let what = "clients know the address of the first Instance";
        wait_for(what, seconds(60), || async {
            (!addresses.lock().unwrap().is_empty()).then_some(())
        })
        .await;
        let edit = json!({"spec": of_image(NEWER)["spec"]});
        case.project.merge(&WORKLOAD, &case.ns, &wish.name, edit).await;
        let newer = wish.clone().image(NEWER);
        let replaced = case.runs(&newer);
        tokio::pin!(replaced);
        let (mut answers, mut is_replaced) = (Vec::new(), false);
        // The last requests come once no address is older than the end of the rollout.
        let mut last = tokio::time::Instant::now();
        while !is_replaced || answers.len() < REQUESTS || last.elapsed() < 4 * PAUSE {
            tokio::select! {
                () = &mut replaced, if !is_replaced => {
                    is_replaced = true;
                    last = tokio::time::Instant::now();
                }
                () = tokio::time::sleep(Duration::from_millis(10)) => answers.extend(ask(&addresses).await),
            }
        }
        answers
    };
    let answers = tokio::select! {
        answers = asked => answers,
        () = Node::default().run(&case, &addresses) => unreachable!("a node runs for ever"),
    };
    let failures: Vec<&String> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .collect();
    assert_eq!(failures, Vec::<&String>::new(), "of {} requests", answers.len());
    let images: BTreeSet<&String> = answers.iter().flatten().collect();
    assert_eq!(images.len(), 2, "both templates have answered: {images:?}");
    let last = answers.last().and_then(|answer| answer.as_ref().ok());
    assert_eq!(last.map(String::as_str), Some(NEWER));
}
