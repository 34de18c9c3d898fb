//! Running the story on a sandbox: who owns it, and what is left of it when it fails.

use super::{inventory, journal, roles, story::Story};
use crate::{CellSpec, Options, Progress, Sandbox, SandboxError, layout::Layout, process::tail};
use futures::future::select_all;
use std::{path::PathBuf, time::Instant};
use tokio::signal::unix::{SignalKind, signal};

const DUMP: &str = "demo-failure.txt";

/// Brings a sandbox up, tells the story and takes the sandbox down, also when it is interrupted.
pub(crate) async fn here(options: Options, out: &Progress) -> Result<(), SandboxError> {
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
        told.map(drop)
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

/// Starts gateway and cells on a sandbox and tells the story; the gateway's URL. A failure leaves a dump of all planes
/// beside the logs.
pub(crate) async fn story_of(
    sandbox: &mut Sandbox,
    cells: &[CellSpec],
    out: &Progress,
) -> Result<String, SandboxError> {
    let started = Instant::now();
    let told = tell(sandbox, cells, out).await;
    match told {
        Ok(gateway) => {
            let seconds = started.elapsed().as_secs();
            out.say(&format!("\nAll of it has happened as it should, in {seconds} s."));
            Ok(gateway)
        }
        Err(error) => {
            let names = cells.iter().map(|cell| roles::process_name(&cell.name));
            for name in std::iter::once("gateway".to_owned()).chain(names) {
                let log = sandbox.launcher.log_of(&name);
                out.say(&format!("\nend of {}:\n{}", log.display(), tail(&log)));
            }
            let dump = dump(sandbox).await?;
            Err(SandboxError::Demo(format!(
                "{error}\nevery change in its order (what came last is where it stopped): {}\n\
                 all objects, and the ends of all logs: {}",
                journal::path(&sandbox.logs()).display(),
                dump.display()
            )))
        }
    }
}

async fn tell(sandbox: &mut Sandbox, cells: &[CellSpec], out: &Progress) -> Result<String, SandboxError> {
    out.say("\n== Gateway and cells start, each as a user of its own, under the roles of manifests/");
    let times: Vec<String> = roles::SHORT_TIMES
        .iter()
        .map(|(flag, value)| format!("{flag} {value}"))
        .collect();
    out.say(&format!("(times are short here: {})", times.join(" ")));
    let running = roles::start(sandbox, cells).await?;
    for role in &running {
        let (name, address) = (role.process.name(), &role.address);
        out.say(&format!("{name} is ready; figures at http://{address}/metrics"));
    }
    let gateway = format!("http://{}", running[0].address);
    let processes: Vec<_> = running.into_iter().map(|role| role.process).collect();
    let before = inventory::take(sandbox).await?;
    let whole = async {
        Story::begin(sandbox, cells, &gateway, out)
            .await?
            .tell(&before)
            .await
    };
    let ended = select_all(processes.iter().map(|process| Box::pin(process.wait())));
    let result = tokio::select! {
        told = whole => told,
        (how, which, _) = ended => {
            Err(processes[which].failure(format!("ended by itself ({how})"), "read the whole log"))
        }
    };
    sandbox.hub_processes.extend(processes);
    sandbox.write_state().await?;
    result.map(|()| gateway)
}

async fn dump(sandbox: &Sandbox) -> Result<PathBuf, SandboxError> {
    let path = sandbox.logs().join(DUMP);
    let text = sandbox.dump().await;
    std::fs::write(&path, text).map_err(SandboxError::io("write", &path))?;
    Ok(path)
}

/// What to type on a sandbox that was kept: the executable by its path, since it need not be installed.
pub(crate) fn how_to_use(sandbox: &Sandbox, gateway: &str) -> String {
    let (program, dir) = (sandbox.launcher.holder.display(), sandbox.layout.dir.display());
    let compute = sandbox.launcher.holder.with_file_name("kubectl-compute");
    let fedgate = sandbox.launcher.holder.with_file_name("fedgate");
    let (compute, fedgate) = (compute.display(), fedgate.display());
    format!(
        "\n== The sandbox, the gateway and the cells keep running\n\
         export KUBECONFIG='{}'\n\
         kubectl --context alpha apply -f examples/storefront-settings.yaml\n\
         '{compute}' --context alpha deploy -f examples/storefront.yaml     # kubectl compute\n\
         '{compute}' --context alpha trace storefront\n\
         kubectl --context hub get workloaddeployments,propagationpolicies --all-namespaces\n\
         kubectl --context dfw-1 get instances,pods --all-namespaces\n\
         '{fedgate}' console --server {gateway}     # the operator's view, in a browser\n\
         '{program}' status --dir '{dir}'     # planes, processes, logs\n\
         '{program}' down --dir '{dir}'       # ends everything",
        sandbox.merged_kubeconfig().display()
    )
}
