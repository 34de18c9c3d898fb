//! A role as a process of its own, under its own certificate, tied to the life of the bench.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsStr,
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

/// `--city-linger`: short, so that narrowing can be counted.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
const READY_WITHIN: Duration = Duration::from_secs(120);
const END_WITHIN: Duration = Duration::from_secs(40);

/// A running role, most often the gateway.
pub(crate) struct Gateway {
    // Ends it when its standard input closes, hence also when the bench is killed.
    holder: Child,
    pid: u32,
    /// Of its admin server.
    pub(crate) address: String,
    log: PathBuf,
}

/// Where a gateway finds its planes, and where it writes.
pub(crate) struct Place<'a> {
    pub(crate) hub: PathBuf,
    /// The flags that say by which mode.
    pub(crate) projects: &'a [&'a OsStr],
    pub(crate) dir: &'a Path,
    /// Flags beside those that every run has.
    pub(crate) flags: &'a [&'a str],
}

impl Gateway {
    /// Starts it and waits until it says that it is ready.
    pub(crate) async fn start(place: &Place<'_>) -> Result<Self> {
        let linger = format!("{}s", LINGER.as_secs());
        let mut flags: Vec<&OsStr> = vec![
            "--hub-kubeconfig".as_ref(),
            place.hub.as_ref(),
            "--city-linger".as_ref(),
            linger.as_ref(),
        ];
        flags.extend(place.projects);
        flags.extend(place.flags.iter().map(OsStr::new));
        Self::role("gateway", "gateway", &flags, place.dir).await
    }

    /// Starts a role with these flags, under a name of its own, and waits until it says that it is ready.
    pub(crate) async fn role(role: &str, name: &str, flags: &[&OsStr], dir: &Path) -> Result<Self> {
        let mut arguments: Vec<&OsStr> = vec![role.as_ref()];
        arguments.extend(flags);
        arguments.extend(["--log-format", "json"].map(OsStr::new));
        let program = Path::new(env!("CARGO_BIN_EXE_fedgate"));
        Self::program(program, name, &arguments, "--admin-address", dir).await
    }

    /// Starts a program with these arguments, and with a flag for the address of its readiness, and waits until it says that it is
    /// ready.
    pub(crate) async fn program(
        program: &Path,
        name: &str,
        arguments: &[&OsStr],
        address_flag: &str,
        dir: &Path,
    ) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")
            .context("find a free port")?
            .local_addr()?
            .to_string();
        // Not beside the kubeconfigs: the program would notice each line of its own log.
        let dir = dir.join("processes");
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let file = |ending: &str| dir.join(format!("{name}.{ending}"));
        let (lock, log) = (file("lock"), file("log"));
        File::create(&lock).with_context(|| format!("create {}", lock.display()))?;
        let out = File::options().create(true).append(true).open(&log);
        let out = out.with_context(|| format!("open {}", log.display()))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate-sandbox"));
        command
            .args(["hold", "--lock"])
            .arg(&lock)
            .arg("--")
            .arg(program)
            .args(arguments)
            .args([address_flag, &address])
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out);
        let holder = command
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut started = Self {
            holder,
            pid: 0,
            address,
            log,
        };
        started.ready().await?;
        started.pid = started.held()?;
        Ok(started)
    }

    /// The gateway's own process: the only child of its holder.
    fn held(&self) -> Result<u32> {
        let holder = self.holder.id().context("it has ended")?;
        let path = format!("/proc/{holder}/task/{holder}/children");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        text.split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok())
            .context("it has ended")
    }

    async fn ready(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut last = String::new();
        while started.elapsed() < READY_WITHIN {
            if let Some(status) = self.holder.try_wait()? {
                bail!(
                    "it ended with {status}; its log: {}\n{}",
                    self.log.display(),
                    self.tail()
                );
            }
            match get(&self.address, "/readyz").await {
                Ok(answer) if answer.starts_with("HTTP/1.1 200") => return Ok(()),
                Ok(answer) => last = answer,
                Err(error) => last = error.to_string(),
            }
            sleep(Duration::from_millis(100)).await;
        }
        bail!(
            "it is not ready after {READY_WITHIN:?}: {last}; its log: {}",
            self.log.display()
        )
    }

    fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Resident memory now and at its highest, in MiB.
    pub(crate) fn memory(&self) -> Result<(f64, f64)> {
        let path = format!("/proc/{}/status", self.pid);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let field = |name: &str| -> Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line
                .and_then(|rest| rest.split_whitespace().next())
                .and_then(|n| n.parse::<f64>().ok());
            Ok(kib.with_context(|| format!("{path} has no {name}"))? / 1024.0)
        };
        Ok((field("VmRSS:")?, field("VmHWM:")?))
    }

    /// Waits until every plane is listed and no key is left to be looked at.
    pub(crate) async fn at_rest(&self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < READY_WITHIN {
            let state = self.state().await?;
            let planes = state["planes"].as_array();
            let listed = planes.is_some_and(|all| all.iter().all(|plane| plane["ready"] == true));
            if listed && state["queue"]["ready"] == 0 && state["queue"]["running"] == 0 {
                return Ok(());
            }
            // The answer names every watch: asked more often it would be part of what is measured.
            sleep(Duration::from_millis(250)).await;
        }
        bail!("the gateway is not at rest after {READY_WITHIN:?}")
    }

    async fn state(&self) -> Result<serde_json::Value> {
        let answer = get(&self.address, "/debug/planes").await?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok(serde_json::from_str(body).unwrap_or_default())
    }

    /// How many planes it knows, the hub with them.
    pub(crate) async fn planes(&self) -> Result<usize> {
        let state = self.state().await?;
        let planes = state["planes"].as_array();
        Ok(planes.context("/debug/planes has no planes")?.len())
    }

    /// Lets the highest memory count from now on.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.pid);
        std::fs::write(&path, "5").with_context(|| format!("write {path}"))
    }

    /// Sockets that it has open.
    pub(crate) fn sockets(&self) -> Result<usize> {
        let path = format!("/proc/{}/fd", self.pid);
        let files = std::fs::read_dir(&path).with_context(|| format!("read {path}"))?;
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        Ok(targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count())
    }

    /// Threads that it has.
    pub(crate) fn threads(&self) -> Result<usize> {
        let path = format!("/proc/{}/task", self.pid);
        let threads = std::fs::read_dir(&path).with_context(|| format!("read {path}"))?;
        Ok(threads.count())
    }

    /// Seconds of CPU that it has used.
    pub(crate) fn cpu(&self) -> Result<f64> {
        cpu_seconds(&self.pid.to_string())
    }

    /// SIGTERM, and the wait for the end.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .context("the gateway has no process id")?;
        kill_process(pid, Signal::TERM).context("send SIGTERM to the gateway")?;
        // Waiting would close it, and the gateway would be killed before it has released its Lease.
        let _open = self.holder.stdin.take();
        let ended = timeout(END_WITHIN, self.holder.wait()).await;
        ensure!(ended.is_ok(), "it did not end within {END_WITHIN:?} of SIGTERM");
        Ok(())
    }
}

/// Seconds of CPU that a process has used; it is named as in `/proc`.
pub(crate) fn cpu_seconds(process: &str) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // After the name, which may hold anything: fields 14 and 15 of proc(5), in ticks of 10 ms.
    let fields = text
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|t| t.parse::<f64>().ok())
        .sum();
    Ok(ticks / 100.0)
}

/// The whole answer to one GET.
pub(crate) async fn get(address: &str, path: &str) -> Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    Ok(timeout(Duration::from_secs(5), exchange).await??)
}
