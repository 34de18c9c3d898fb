//! Kill -9 of the gateway in a loop, under load.

use crate::{
    memory::Memory,
    rng::Rng,
    support::{gateway::Gateway, seconds},
};
use std::time::Duration;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// What the loop saw.
#[derive(Debug, Default)]
pub(crate) struct Crashes {
    pub(crate) kills: u64,
    /// The gateway ended although nobody killed it.
    pub(crate) ends: Vec<String>,
    pub(crate) memory: Memory,
}

/// Kills the gateway and starts it again at once, every few seconds until told to stop; then it is left running.
pub(crate) async fn run(gateway: &Gateway, mut rng: Rng, mut stop: watch::Receiver<bool>) -> Crashes {
    let mut seen = Crashes::default();
    loop {
        let life = Duration::from_millis(rng.between(1_500, 8_000));
        let asked = tokio::select! {
            () = sleep(life) => false,
            _ = stop.wait_for(|stop| *stop) => true,
        };
        seen.memory.look(gateway).await;
        if !gateway.is_running().await {
            seen.ends.push(gateway.log_tail(3));
            gateway.kill().await;
            gateway.spawn().await;
        }
        if asked {
            return seen;
        }
        gateway.kill().await;
        gateway.spawn().await;
        seen.kills += 1;
    }
}

/// How long until this replica leads, counted from now; `None` if it does not within a minute.
pub(crate) async fn leads_after(gateway: &Gateway, since: Instant) -> Option<Duration> {
    while since.elapsed() < seconds(60) {
        if gateway.planes().await["leading"] == true {
            return Some(since.elapsed());
        }
        sleep(Duration::from_millis(20)).await;
    }
    None
}
