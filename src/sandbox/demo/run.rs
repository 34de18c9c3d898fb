//! Running the story on a sandbox: who owns it, and what is left of it when it fails.

use super::{gateway, inventory, story::Story};
use crate::sandbox::{CellSpec, Options, Progress, Sandbox, SandboxError, layout::Layout, process::tail};
use std::{path::PathBuf, time::Instant};
use tokio::signal::unix::{SignalKind, signal};

const DUMP: &str = "demo-failure.txt";

/// Brings a sandbox up, tells the story and takes the sandbox down, also when it is interrupted.
pub(in crate::sandbox) async fn here(options: Options, out: &Progress) -> Result<(), SandboxError> {
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|e| SandboxError::Options(format!("cannot watch for signals: {e}")))?;
    let layout = Layout {
        dir: options.absolute_dir()?,
    };
    let cells = options.cells.clone();
    let whole = async {
        let mut sandbox = Sandbox::up(options).await?;
        let told = story_of(&mut sandbox, &cells, out).await;
        out.say("\n== The sandbox ends");
        sandbox.down().await?;
        told
    };
    let interrupted = tokio::select! {
        told = whole => return told,
        _ = tokio::signal::ctrl_c() => "interrupted",
        _ = terminate.recv() => "told to end",
    };
    // The sandbox was dropped with its future: its holders are killing what they hold.
    layout.processes_gone().await?;
    layout.wipe(false)?;
    Err(SandboxError::Options(format!(
        "{interrupted}; nothing is left running"
    )))
}

/// Starts the gateway on a sandbox and tells the story; a failure leaves a dump of all planes beside the logs.
pub(in crate::sandbox) async fn story_of(
    sandbox: &mut Sandbox,
    cells: &[CellSpec],
    out: &Progress,
) -> Result<(), SandboxError> {
    let started = Instant::now();
    let told = tell(sandbox, cells, out).await;
    match told {
        Ok(()) => {
            let seconds = started.elapsed().as_secs();
            out.say(&format!("\nAll of it has happened as it should, in {seconds} s."));
            Ok(())
        }
        Err(error) => {
            let log = sandbox.launcher.log_of("gateway");
            out.say(&format!("\nend of {}:\n{}", log.display(), tail(&log)));
            let dump = dump(sandbox).await?;
            Err(SandboxError::Demo(format!(
                "{error}\nall objects and logs: {}",
                dump.display()
            )))
        }
    }
}

async fn tell(sandbox: &mut Sandbox, cells: &[CellSpec], out: &Progress) -> Result<(), SandboxError> {
    out.say("\n== The gateway starts, as user fedgate-gateway, under the roles of manifests/");
    let times: Vec<String> = gateway::SHORT_TIMES
        .iter()
        .map(|(flag, value)| format!("{flag} {value}"))
        .collect();
    out.say(&format!("(times are short here: {})", times.join(" ")));
    let (process, address) = gateway::start(sandbox).await?;
    out.say(&format!(
        "ready; figures at http://{address}/metrics, planes at http://{address}/debug/planes"
    ));
    let before = inventory::take(sandbox).await?;
    let story = Story::new(sandbox, cells, out)?;
    let result = tokio::select! {
        told = story.tell(&before) => told,
        how = process.wait() => Err(process.failure(format!("ended by itself ({how})"), "read the whole log")),
    };
    sandbox.hub_processes.push(process);
    sandbox.write_state().await?;
    result
}

async fn dump(sandbox: &Sandbox) -> Result<PathBuf, SandboxError> {
    let path = sandbox.logs().join(DUMP);
    let text = sandbox.dump().await;
    std::fs::write(&path, text).map_err(SandboxError::io("write", &path))?;
    Ok(path)
}

/// What to type on a sandbox that was kept: the executable by its path, since it need not be installed.
pub(in crate::sandbox) fn how_to_use(sandbox: &Sandbox) -> String {
    let (fedgate, dir) = (sandbox.launcher.holder.display(), sandbox.layout.dir.display());
    format!(
        "\n== The sandbox and the gateway keep running\n\
         export KUBECONFIG='{}'\n\
         kubectl --context alpha apply -f examples/storefront.yaml\n\
         kubectl --context alpha get workloads,workloaddeployments\n\
         kubectl --context hub get workloaddeployments,propagationpolicies --all-namespaces\n\
         kubectl --context dfw-1 get workloaddeployments --all-namespaces\n\
         '{fedgate}' sandbox status --dir '{dir}'     # planes, processes, logs\n\
         '{fedgate}' sandbox down --dir '{dir}'       # ends everything",
        sandbox.merged_kubeconfig().display()
    )
}
