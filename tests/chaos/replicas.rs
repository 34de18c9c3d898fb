//! Two replicas under load: the one that leads is ended, killed or stopped, and the other takes over.

use crate::{
    crashes::leads_after,
    memory::Memory,
    process::signal,
    support::{
        audit::{Entry, GATEWAY},
        credentials::Twin,
        gateway::Gateway,
        seconds,
        suite::Suite,
    },
};
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Longer than a Lease lasts (15 s), so that the other has taken over when the stopped one goes on.
const FROZEN: Duration = seconds(22);
/// How long each pair of leader and standby works before the next blow.
const BETWEEN: Duration = seconds(5);

/// How a leader is brought down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    /// SIGTERM: it gives the Lease back, unless a write to the hub went unanswered.
    Term,
    /// SIGKILL: its Lease runs out.
    Kill,
    /// SIGSTOP for longer than its Lease lasts, then SIGCONT.
    Stop,
}

impl Blow {
    fn name(self) -> &'static str {
        match self {
            Self::Term => "SIGTERM",
            Self::Kill => "SIGKILL",
            Self::Stop => "SIGSTOP",
        }
    }
}

/// The contract's figure for a Lease that was given back, or ran out.
const RELEASED: Duration = seconds(2);
const RUN_OUT: Duration = seconds(15);
/// What a busy machine may need on top before a hand-over fails.
const MARGIN: Duration = seconds(15);

/// One change of leaders.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct HandOver {
    pub(crate) blow: &'static str,
    /// Seconds until the other led; nothing if it did not.
    pub(crate) seconds: Option<f64>,
    pub(crate) figure: f64,
    pub(crate) holds: bool,
    pub(crate) too_late: bool,
}

/// Two gateways of different users on the hub, so that its audit log tells their writes apart.
pub(crate) struct Pair {
    pub(crate) second: Gateway,
    pub(crate) second_user: String,
}

impl Pair {
    pub(crate) async fn new(suite: &Suite) -> Self {
        let twin = Twin::new(&suite.hub, "default", "twin").await;
        Self {
            second: suite.second_gateway(&twin).await,
            second_user: twin.user(),
        }
    }

    /// Starts both, waits until one leads, and deals out the blows as long as there is time, at least `least` of them.
    pub(crate) async fn run(
        &self,
        first: &Gateway,
        blows: &[Blow],
        least: usize,
        time: Duration,
        memory: &mut Memory,
    ) -> Vec<HandOver> {
        let began = Instant::now();
        first.spawn().await;
        let _ = leads_after(first, Instant::now()).await;
        self.second.spawn().await;
        let (mut leader, mut standby) = (first, &self.second);
        let mut seen = Vec::new();
        for (number, blow) in blows.iter().cycle().enumerate() {
            if number >= least && began.elapsed() + BETWEEN > time {
                break;
            }
            standby.ready().await;
            sleep(BETWEEN).await;
            memory.look(leader).await;
            memory.look(standby).await;
            let over = strike(*blow, leader, standby).await;
            eprintln!(
                "    {} of the leader: the other leads after {:?} s",
                over.blow, over.seconds
            );
            seen.push(over);
            (leader, standby) = (standby, leader);
        }
        seen
    }
}

async fn strike(blow: Blow, leader: &Gateway, standby: &Gateway) -> HandOver {
    let (struck, mark) = (Instant::now(), leader.log_mark());
    let after = match blow {
        Blow::Term => {
            let ((), after) = tokio::join!(leader.stop(), leads_after(standby, struck));
            leader.spawn().await;
            after
        }
        Blow::Kill => {
            leader.kill().await;
            leader.spawn().await;
            leads_after(standby, struck).await
        }
        Blow::Stop => {
            let pid = leader.pid().await.expect("the leader runs");
            signal("-STOP", &pid).await;
            let after = leads_after(standby, struck).await;
            sleep(FROZEN.saturating_sub(struck.elapsed())).await;
            signal("-CONT", &pid).await;
            after
        }
    };
    // A write that the hub may yet carry out forbids giving the Lease back.
    let kept = leader
        .log_since(mark)
        .iter()
        .any(|line| line.contains("not released"));
    let (blow, figure) = match blow {
        Blow::Term if kept => ("SIGTERM (a write was unanswered)", RUN_OUT),
        Blow::Term => (blow.name(), RELEASED),
        Blow::Kill | Blow::Stop => (blow.name(), RUN_OUT),
    };
    HandOver {
        blow,
        seconds: after.map(|after| after.as_secs_f64()),
        figure: figure.as_secs_f64(),
        holds: after.is_some_and(|after| after <= figure),
        too_late: after.is_none_or(|after| after > figure + MARGIN),
    }
}

/// Writes on the hub by a replica that had not the Lease, in words.
///
/// From the Lease's own writes follows who had it when: a write that came after another's name was written into the Lease
/// and before the writer's own is one too many.
pub(crate) fn writes_without_lease(suite: &Suite, mark: u64, second_user: &str) -> Vec<String> {
    let mut entries = suite.hub_log.since(mark, "");
    entries.retain(|e| e.user.username == GATEWAY || e.user.username == second_user);
    let leases: Vec<&Entry> = entries
        .iter()
        .filter(|e| e.object_ref.resource == "leases" && e.succeeded())
        .filter(|e| matches!(e.verb.as_str(), "create" | "update" | "patch"))
        .collect();
    let holder = |at: &str| {
        let before = leases.iter().filter(|lease| lease.stage_timestamp.as_str() <= at);
        before.max_by(|a, b| a.stage_timestamp.cmp(&b.stage_timestamp))
    };
    let writes = entries.iter().filter(|e| e.is_write());
    writes
        .filter_map(|write| {
            let lease = holder(&write.request_received_timestamp)?;
            let other = lease.user.username != write.user.username;
            other.then(|| {
                format!(
                    "{} {} {}/{} by {} ({}), while {} had the Lease since {}",
                    write.request_received_timestamp,
                    write.action(),
                    write.object_ref.namespace,
                    write.object_ref.name,
                    write.user.username,
                    write.response_status.code,
                    lease.user.username,
                    lease.stage_timestamp
                )
            })
        })
        .collect()
}
