//! The operations API at full size: its answers' times, what it asks of the planes, how long it holds the index, and
//! what its streams cost (docs/contract/operations.md §2.9).

use super::{
    acts::filled,
    gateway::{Gateway, get},
    planes::{NAMESPACE, Planes, until},
    report::percentile,
    run::{REST, Run, float, from_env, scaled, start, whole},
};
use anyhow::{Context, Result};
use fedgate_simulator::{Plane, Verb};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, interval, sleep},
};

/// Deployments for each project, and Instances for each deployment.
const EACH: (usize, usize) = (10, 3);
/// Deployments that are made at a time: the bench waits for each group's copies.
const GROUP: usize = 5_000;
/// Changes of a kind that a project and the hub keep: each holds an object, and memory is for objects here.
const HISTORY: (usize, usize) = (10, 10_000);
/// Requests for each path, one after the other.
const SAMPLES: usize = 300;
/// Clients that ask for everything at once.
const CLIENTS: usize = 10;
/// Open streams of [`with_streams`].
const STREAMS: usize = 5;
/// Changes a second while streams are open.
const CHANGES: u32 = 200;
/// How long CPU is counted, and how long clients ask.
const WATCHED: Duration = Duration::from_secs(60);

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let homes = from_env("FEDGATE_SCALE_PROJECTS").map_or_else(|| scaled(10_000), whole);
    let mut planes = run.planes("operations").await?;
    planes.grow(homes)?;
    for project in &planes.projects {
        project.keep_history(HISTORY.0);
    }
    planes.hub.keep_history(HISTORY.1);
    let gateway = start(&planes).await?;
    planes.watched().await?;
    fill(&planes, homes).await?;
    sleep(REST).await;
    let what = format!(
        "{homes} projects, {} copies, {} Instances",
        planes.copies(),
        planes.projections()
    );
    run.figure(
        format!("operations: memory with {what}"),
        (gateway.memory()?.0, "MiB"),
        None,
        "–".to_owned(),
        true,
    );
    answers(run, &gateway).await?;
    asked_by_many(run, &planes, &gateway).await?;
    paged(run, &planes, &gateway, homes).await?;
    held(run, &gateway).await?;
    with_streams(run, &planes, &gateway).await?;
    gateway.stop().await
}

async fn fill(planes: &Planes, homes: usize) -> Result<()> {
    let (deployments, instances) = EACH;
    for begin in (0..homes * deployments).step_by(GROUP) {
        let end = (begin + GROUP).min(homes * deployments);
        planes.fill(0..homes, begin..end).await?;
        planes.forget_requests();
    }
    planes.bind()?;
    planes.quiet().await?;
    let mut written = 0;
    for number in 0..instances {
        written += planes.write_back_number(number)?;
        until("every Instance is projected", || planes.projections() >= written).await?;
        planes.forget_requests();
    }
    planes.quiet().await
}

/// The paths that are measured, each with its bar in milliseconds.
fn paths() -> [(&'static str, String, f64); 5] {
    let trace = format!(
        "/api/v1/trace/p-00000/{NAMESPACE}/workloaddeployments/{}",
        filled(0)
    );
    [
        ("/overview", "/api/v1/overview".to_owned(), 5.0),
        (
            "a page of 500 projects",
            "/api/v1/projects?limit=500".to_owned(),
            30.0,
        ),
        ("/stuck", "/api/v1/stuck".to_owned(), 50.0),
        ("/trace", trace, 10.0),
        ("/metrics", "/metrics".to_owned(), 200.0),
    ]
}

async fn body(gateway: &Gateway, path: &str) -> Result<String> {
    let answer = get(&gateway.address, path).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer has no body")?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {head}\n{body}");
    Ok(body.to_owned())
}

async fn answers(run: &mut Run, gateway: &Gateway) -> Result<()> {
    for (name, path, bar) in paths() {
        let mut took = Vec::with_capacity(SAMPLES);
        let mut bytes = 0;
        for _ in 0..SAMPLES {
            let began = Instant::now();
            bytes = body(gateway, &path).await?.len();
            took.push(began.elapsed());
        }
        let name = format!("operations: {name}, p99 of {SAMPLES}");
        run.at_most(name, (percentile(&took, 0.99), "ms"), bar);
        run.detail(format!(
            "{} KiB, p50 {:.1} ms",
            bytes / 1024,
            percentile(&took, 0.5)
        ));
    }
    Ok(())
}

/// Clients that ask for everything as fast as they are answered: none of it is a request to a plane.
async fn asked_by_many(run: &mut Run, planes: &Planes, gateway: &Gateway) -> Result<()> {
    planes.forget_requests();
    let end = Instant::now() + WATCHED;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let address = gateway.address.clone();
        clients.spawn(async move {
            let (mut answered, mut refused) = (0_usize, 0_usize);
            while Instant::now() < end {
                for (_, path, _) in paths() {
                    match get(&address, &path).await {
                        Ok(answer) if answer.starts_with("HTTP/1.1 200") => answered += 1,
                        _ => refused += 1,
                    }
                }
            }
            (answered, refused)
        });
    }
    let done = clients.join_all().await;
    let answered: usize = done.iter().map(|(answered, _)| answered).sum();
    let refused: usize = done.iter().map(|(_, refused)| refused).sum();
    // Watches end and begin again by their own time limits.
    let asked = planes.requests(|verb| verb != Verb::Watch);
    for entry in asked.iter().take(5) {
        eprintln!("bench: while clients asked, {entry}");
    }
    let name = format!(
        "operations: requests to planes while {CLIENTS} clients ask for {} s",
        WATCHED.as_secs()
    );
    run.at_most(name, (float(asked.len()), ""), 0.0);
    run.detail(format!("{answered} answers, {refused} refusals"));
    Ok(())
}

/// All projects, page by page, while a tenth of them leaves and as many others come.
async fn paged(run: &mut Run, planes: &Planes, gateway: &Gateway, homes: usize) -> Result<()> {
    let leaving: Vec<&str> = planes
        .projects
        .iter()
        .skip(5)
        .step_by(10)
        .map(Plane::name)
        .collect();
    for n in 0..leaving.len() {
        planes.project(&guest(n))?;
    }
    let (mut seen, mut pages) = (Vec::new(), 0);
    let mut moves = leaving.iter().enumerate();
    let mut next = String::new();
    loop {
        let path = format!("/api/v1/projects?limit=100{next}");
        let page: Value = serde_json::from_str(&body(gateway, &path).await?)?;
        let rows = page["items"].as_array().context("a page has no items")?;
        seen.extend(
            rows.iter()
                .filter_map(|row| row["project"].as_str().map(str::to_owned)),
        );
        pages += 1;
        for (n, name) in moves.by_ref().take(leaving.len().div_ceil((homes / 100).max(1))) {
            planes.leave(name)?;
            planes.join(&guest(n), super::planes::GATEWAY)?;
        }
        match page["continue"].as_str() {
            Some(token) => next = format!("&continue={token}"),
            None => break,
        }
    }
    let gone: BTreeSet<&str> = leaving.iter().copied().collect();
    let stayed = planes
        .projects
        .iter()
        .map(Plane::name)
        .filter(|name| !gone.contains(name));
    let wrong = stayed
        .filter(|name| seen.iter().filter(|one| one.as_str() == *name).count() != 1)
        .count();
    let name = format!(
        "operations: projects that pages missed or had twice, while {} left and joined",
        leaving.len()
    );
    run.at_most(name, (float(wrong), ""), 0.0);
    run.detail(format!("{pages} pages"));
    // What comes after is measured when the moves are over.
    planes.quiet().await
}

fn guest(n: usize) -> String {
    format!("p-{n:05}-guest")
}

/// How long operations and metrics held the index at a time, by the gateway's own histogram.
async fn held(run: &mut Run, gateway: &Gateway) -> Result<()> {
    let metrics = body(gateway, "/metrics").await?;
    let number = |line: &str| line.rsplit(' ').next().and_then(|text| text.parse::<f64>().ok());
    for holder in ["operations", "metrics"] {
        let label = format!("holder=\"{holder}\"");
        let of = |name: &str| -> Vec<&str> {
            let lines = metrics.lines().filter(|line| line.starts_with(name));
            lines.filter(|line| line.contains(&label)).collect()
        };
        let count = of("fedgate_index_lock_seconds_count")
            .first()
            .and_then(|line| number(line))
            .context("no count")?;
        let bound = of("fedgate_index_lock_seconds_bucket")
            .into_iter()
            .find(|line| number(line).is_some_and(|below| below >= count * 0.999))
            .and_then(|line| line.split("le=\"").nth(1)?.split('"').next()?.parse::<f64>().ok())
            .unwrap_or(f64::INFINITY);
        let name = format!("operations: the index is held at a time by {holder}, p99.9 is below");
        run.at_most(name, (bound * 1e3, "ms"), 2.0);
        run.detail(format!("{count} times"));
    }
    Ok(())
}

/// CPU of cells' reports without a stream and with several, on one gateway.
async fn with_streams(run: &mut Run, planes: &Planes, gateway: &Gateway) -> Result<()> {
    let without = changed(planes, gateway).await?;
    let mut streams = listen(&gateway.address, STREAMS).await?;
    let with = changed(planes, gateway).await?;
    let name = format!("operations: CPU of {STREAMS} streams at {CHANGES} changes/s");
    run.at_most(name, (with - without, "% of a core"), 2.0);
    run.detail(format!("{without:.1} % without and {with:.1} % with"));
    anyhow::ensure!(streams.try_join_next().is_none(), "a stream has ended");
    Ok(())
}

/// Opens streams of all topics and reads them until they end.
pub(crate) async fn listen(address: &str, count: usize) -> Result<JoinSet<()>> {
    let mut streams = JoinSet::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "GET /api/v1/events?topics=overview,projects,cells,stuck,journal HTTP/1.1\r\nHost: {address}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        streams.spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(1..) = stream.read(&mut buffer).await {}
        });
    }
    Ok(streams)
}

/// Share of a core that the gateway uses while cells report so often.
async fn changed(planes: &Planes, gateway: &Gateway) -> Result<f64> {
    let copies = planes.hub.list(super::planes::DEPLOYMENTS);
    let mut turn = interval(Duration::from_secs(1) / CHANGES);
    let (began, cpu) = (Instant::now(), gateway.cpu()?);
    let mut n: u32 = 0;
    while began.elapsed() < WATCHED {
        turn.tick().await;
        let copy = &copies[usize::try_from(n)? % copies.len()];
        let (namespace, name) = (
            super::acts::text(copy, "namespace"),
            super::acts::text(copy, "name"),
        );
        planes.report(namespace, name, 2 + n % 2)?;
        n += 1;
    }
    Ok((gateway.cpu()? - cpu) / began.elapsed().as_secs_f64() * 100.0)
}
