//! P11', P7, P17: projects of Milo, found by their Projects and reached by one address, with a deployment in each.

use super::{
    acts::{deploy, filled},
    planes::until,
    run::{REST, Run, float, from_env, scaled, share_of_core, start, whole},
};
use anyhow::Result;
use fedgate_simulator::Verb;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long CPU and requests are counted.
const WATCHED: Duration = Duration::from_secs(60);

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let mut planes = run.planes_of_milo("milo").await?;
    let many = from_env("FEDGATE_SCALE_PROJECTS").map_or_else(|| scaled(1_000), whole);
    planes.grow(many)?;
    let began = Instant::now();
    let gateway = start(&planes).await?;
    planes.watched().await?;
    let name = format!("P12 milo: until {many} projects of a start are watched");
    run.figure(
        name,
        (began.elapsed().as_secs_f64(), "s"),
        None,
        "no bar".to_owned(),
        true,
    );
    sleep(REST).await;
    let bounds = async |run: &mut Run, what: &str| -> Result<()> {
        let memory = (gateway.memory()?.0, "MiB");
        run.at_most(format!("P11' milo: memory, {many} {what}"), memory, 700.0);
        let sockets = (float(gateway.sockets()?), "");
        run.at_most(format!("P11' milo: sockets, {many} {what}"), sockets, 500.0);
        Ok(())
    };
    bounds(run, "idle projects").await?;
    for (n, project) in planes.projects.iter().enumerate() {
        deploy(project, &filled(0))?;
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    until("every deployment has its copy", || planes.copies() >= many).await?;
    planes.quiet().await?;
    sleep(REST).await;
    bounds(run, "projects with a deployment each").await?;
    planes.forget_requests();
    let share = share_of_core(&gateway, WATCHED).await?;
    run.at_most(
        format!("P17 milo: CPU, {many} projects"),
        (share, "% of a core"),
        2.0,
    );
    let asked = planes.requests(|verb| verb.writes() || matches!(verb, Verb::Get | Verb::List));
    for entry in asked.iter().take(5) {
        eprintln!("bench: at rest, {entry}");
    }
    let name = format!("P7 milo: requests but watches in {} s at rest", WATCHED.as_secs());
    run.at_most(name, (float(asked.len()), ""), 0.0);
    gateway.stop().await
}
