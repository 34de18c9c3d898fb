//! Commands at machines, by the program `ssh` of the system: one connection for each command.

use super::{answer::MachineState, mask::masked};
use crate::reason::{Problem, Reason};
use fedgate_api::cell::Machine;
use fedgate_engine::plane::lease::LeaseHandle;
use fedgate_operator::membership::executor::InFlightWrite;
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};

/// The program that runs at a machine.
pub(super) const PROGRAM: &str = include_str!("machine.sh");
/// Time for one command: its answer comes within ten seconds, and a manifest of a network plugin has some hundred kilobytes.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Folder below the runtime directory.
const FOLDER: &str = "ssh";
/// The longest answer in bytes that is read.
const MAX_ANSWER: u64 = 64 << 10;
/// The exit status of `ssh` after an error of its own.
const SSH_FAILED: i32 = 255;
/// The exit status of [`PROGRAM`] without the rights of root.
const NOT_ROOT: i32 = 77;
/// The exit status of [`PROGRAM`] at a machine without the claim.
const NOT_CLAIMED: i32 = 78;

/// A script at a machine that may run longer than one SSH connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// Sets the kernel up, and starts containerd.
    Prepare,
    /// Sets HAProxy up.
    Balancer,
    /// Runs `kubeadm init`.
    Init,
    /// Applies the objects of the network plugin.
    Cni,
    /// Uploads the certificates for a further control plane.
    Certificates,
    /// Runs `kubeadm join`.
    Join,
    /// Runs `kubeadm reset`, and removes the settings of the other jobs.
    Reset,
}

impl Job {
    /// The name of the job at the machine.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Balancer => "balancer",
            Self::Init => "init",
            Self::Cni => "cni",
            Self::Certificates => "certificates",
            Self::Join => "join",
            Self::Reset => "reset",
        }
    }
}

/// A file at a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    /// Configuration of job [`Job::Balancer`].
    Balancer,
    /// Configuration of job [`Job::Init`].
    Init,
    /// Objects of job [`Job::Cni`].
    Cni,
    /// Configuration of job [`Job::Certificates`].
    Certificates,
    /// Configuration of job [`Job::Join`].
    Join,
    /// The kubeconfig without a credential that [`File::Join`] names.
    Discovery,
}

impl File {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Balancer => "haproxy.cfg",
            Self::Init => "init.yaml",
            Self::Cni => "cni.yaml",
            Self::Certificates => "certificates.yaml",
            Self::Join => "join.yaml",
            Self::Discovery => "discovery.conf",
        }
    }
}

/// A command of [`PROGRAM`]. `claimed.rs` sends it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verb {
    /// Print the state of the machine.
    Look,
    /// Write the claim, unless the machine has one.
    Claim,
    /// Write a file.
    Put(File),
    /// Start a job of this number, unless it was started.
    Start(Job, u32),
    /// Read the administrator's kubeconfig.
    Admin,
    /// End the jobs that run.
    Stop,
    /// Remove files and claim.
    Forget,
}

impl Verb {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Claim => "claim",
            Self::Put(_) => "put",
            Self::Start(..) => "start",
            Self::Admin => "admin",
            Self::Stop => "stop",
            Self::Forget => "forget",
        }
    }

    /// The first line of the input of [`PROGRAM`], before `bytes` of content.
    fn line(self, uid: &str, machine: &str, bytes: usize) -> String {
        let arguments = match self {
            Self::Put(file) => format!("{} {bytes}", file.as_str()),
            Self::Start(job, number) => format!("{} {number}", job.as_str()),
            Self::Look | Self::Claim | Self::Admin | Self::Stop | Self::Forget => String::new(),
        };
        format!("{} {uid} {machine} {arguments}\n", self.as_str())
    }
}

/// The private key and the host keys, as files for `ssh`. They are deleted when the value is dropped.
#[derive(Debug)]
pub(super) struct SshFiles {
    folder: PathBuf,
}

impl SshFiles {
    /// Writes the private key into a folder of this name, and deletes the folder of an earlier process.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(super) fn write(runtime: &Path, name: &str, private_key: &[u8]) -> io::Result<Self> {
        let folder = runtime.join(FOLDER).join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let files = Self { folder };
        files.write_file("key", private_key)?;
        Ok(files)
    }

    fn write_file(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(content)?;
        // ssh refuses a key that does not end with a newline.
        file.write_all(b"\n")?;
        Ok(path)
    }
}

impl Drop for SshFiles {
    fn drop(&mut self) {
        // The next run removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Deletes what earlier processes have left below the runtime directory.
pub(crate) fn delete_ssh_files(runtime: &Path) {
    // Without the folder there is nothing to delete; what cannot be deleted cannot be written, and the steps say that.
    let _ = fs::remove_dir_all(runtime.join(FOLDER));
}

/// Sends commands to the machines of a Cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ssh<'a> {
    /// UID of the Cell.
    pub(super) uid: &'a str,
    /// Key and host keys.
    pub(super) files: &'a SshFiles,
    /// The Lease without which no command is sent.
    pub(super) lease: &'a LeaseHandle,
}

impl Ssh<'_> {
    /// Runs a command with this content.
    ///
    /// # Errors
    /// If the machine cannot be reached, is another one, refuses the key, or the command fails.
    pub(super) async fn run(
        &self,
        machine: &Machine,
        verb: Verb,
        content: &[u8],
    ) -> Result<MachineState, Problem> {
        let problem = |reason, what: &str| Problem::new(reason, format!("machine {}: {what}", machine.name));
        if !self.lease.may_write() {
            return Err(problem(Reason::Waiting, "this replica does not hold the Lease"));
        }
        let mut in_flight = InFlightWrite::new(self.lease);
        let sent = tokio::time::timeout(COMMAND_TIMEOUT, self.send(machine, verb, content));
        let answer = tokio::select! {
            biased;
            () = self.lease.permit_expired() => return Err(problem(Reason::Waiting, "the Lease has ended")),
            answer = sent => answer,
        };
        if let Ok(Ok((status, ..))) = &answer {
            in_flight.is_answered = status.code().is_some_and(|code| code != SSH_FAILED);
        }
        match answer {
            Err(_) => {
                let what = format!("it did not answer within {} s", COMMAND_TIMEOUT.as_secs());
                Err(problem(Reason::HostUnreachable, &what))
            }
            Ok(Err(error)) => Err(problem(
                Reason::RuntimeDirectory,
                &format!("cannot run ssh: {error}"),
            )),
            Ok(Ok((status, output, errors))) => {
                parse_result(status, &output, &errors).map_err(|(reason, what)| problem(reason, &what))
            }
        }
    }

    async fn send(
        &self,
        machine: &Machine,
        verb: Verb,
        content: &[u8],
    ) -> io::Result<(ExitStatus, String, String)> {
        let known_hosts = self.files.write_file(
            &format!("known_hosts-{}", machine.name),
            format!("fedgate {}", machine.host_key).as_bytes(),
        )?;
        let shell = format!("sh -c '{PROGRAM}'");
        let remote = if machine.user == "root" {
            shell
        } else {
            format!("LC_ALL=C sudo -n {shell}")
        };
        let option = |name: &str, value: &str| format!("-o{name}={value}");
        let path = |path: &Path| path.display().to_string();
        let mut child = Command::new("ssh")
            .args([
                "-F",
                "none",
                "-T",
                "-p",
                &machine.port.to_string(),
                "-l",
                &machine.user,
            ])
            .args([
                option("BatchMode", "yes"),
                option("StrictHostKeyChecking", "yes"),
                option("UserKnownHostsFile", &path(&known_hosts)),
                option("GlobalKnownHostsFile", "/dev/null"),
                option("HostKeyAlias", "fedgate"),
                option("HostKeyAlgorithms", algorithms(&machine.host_key)),
                option("IdentityFile", &path(&self.files.folder.join("key"))),
                option("PreferredAuthentications", "publickey"),
                option("IdentitiesOnly", "yes"),
                option("IdentityAgent", "none"),
                option("ForwardAgent", "no"),
                option("ClearAllForwardings", "yes"),
                option("RequiredRSASize", "2048"),
                option("ConnectTimeout", "10"),
                option("ServerAliveInterval", "10"),
                option("LogLevel", "ERROR"),
            ])
            .args(["--", &machine.address, &remote])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut input), Some(output), Some(errors)) = streams else {
            return Err(io::Error::other("it has no streams"));
        };
        let line = verb.line(self.uid, &machine.name, content.len());
        let write = async {
            // A command that ends early reads no content; its exit status says why.
            let _ = input.write_all(&[line.as_bytes(), content].concat()).await;
            drop(input);
        };
        let ((), output, errors) = tokio::join!(write, read_start(output), read_start(errors));
        Ok((child.wait().await?, output?, errors?))
    }
}

/// The first bytes of a stream as text.
async fn read_start(stream: impl tokio::io::AsyncRead + Unpin) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The signature algorithms of a host key.
fn algorithms(host_key: &str) -> &str {
    match host_key.split_once(' ') {
        Some(("ssh-rsa", _)) => "rsa-sha2-512,rsa-sha2-256",
        Some((of, _)) => of,
        None => host_key,
    }
}

/// Turns the exit status and the output of ssh into the state of the machine, or into a reason and a message.
fn parse_result(status: ExitStatus, output: &str, errors: &str) -> Result<MachineState, (Reason, String)> {
    // The last line of ssh says what is wrong.
    let last = errors.lines().map(str::trim).rfind(|line| !line.is_empty());
    let said = &*masked(last.unwrap_or_default());
    match status.code() {
        Some(0) => Ok(MachineState::parse(output)),
        Some(NOT_ROOT) => Err((Reason::NeedsRoot, "sudo does not make the user root".to_owned())),
        Some(NOT_CLAIMED) => Err((
            Reason::HostClaimed,
            "/etc/fedgate/claim.json is missing, or names another Cell or machine".to_owned(),
        )),
        Some(SSH_FAILED) => {
            let reason =
                if errors.contains("Host key verification failed") || said.contains("no matching host key") {
                    let mut words = errors.split_whitespace();
                    let shown = words.find(|word| word.starts_with("SHA256:"));
                    let what = match shown {
                        Some(shown) => {
                            format!(
                                "its host key {} is not hostKey of the Cell",
                                shown.trim_end_matches('.')
                            )
                        }
                        None => "it has no host key of the type in hostKey".to_owned(),
                    };
                    return Err((Reason::HostKeyMismatch, what));
                } else if said.contains("Permission denied") || said.contains("invalid format") {
                    Reason::AuthenticationFailed
                } else {
                    Reason::HostUnreachable
                };
            Err((reason, said.to_owned()))
        }
        _ if ["sudo: a password is required", "is not allowed to", "sudo: sorry"]
            .iter()
            .any(|word| said.contains(word)) =>
        {
            Err((Reason::NeedsRoot, said.to_owned()))
        }
        _ => Err((
            Reason::CommandFailed,
            format!("the command ended with {status}: {said}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// The whole text is an argument in single quotes.
    #[test]
    fn the_program_has_no_single_quote() {
        assert!(!PROGRAM.contains('\''));
    }

    #[test]
    fn an_error_of_ssh_gives_its_reason() {
        let of = |code: i32, errors: &str| {
            let result = parse_result(ExitStatus::from_raw(code << 8), "", errors);
            result.map(|_| ()).map_err(|(reason, _)| reason)
        };
        assert_eq!(of(0, "a warning"), Ok(()));
        assert_eq!(
            of(255, "Host key verification failed.\r\n"),
            Err(Reason::HostKeyMismatch)
        );
        let no_key = "Unable to negotiate with 192.0.2.1 port 22: no matching host key type found. Their offer: ssh-rsa";
        assert_eq!(of(255, no_key), Err(Reason::HostKeyMismatch));
        let refused = "ops@192.0.2.1: Permission denied (publickey).";
        assert_eq!(of(255, refused), Err(Reason::AuthenticationFailed));
        assert_eq!(
            of(255, "connect to host x port 22: Connection refused"),
            Err(Reason::HostUnreachable)
        );
        assert_eq!(of(77, ""), Err(Reason::NeedsRoot));
        assert_eq!(of(1, "sudo: a password is required"), Err(Reason::NeedsRoot));
        assert_eq!(of(127, "sh: not found"), Err(Reason::CommandFailed));
    }

    #[test]
    fn the_key_is_for_its_owner_alone_and_goes_with_the_run() {
        let runtime = std::env::temp_dir().join(format!("fedgate-ssh-files-{}", std::process::id()));
        fs::create_dir_all(runtime.join("ssh/dfw-2/left")).unwrap();
        let files = SshFiles::write(&runtime, "dfw-2", b"secret").unwrap();
        let mode = |path: &Path| {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        let folder = runtime.join("ssh/dfw-2");
        assert!(!folder.join("left").exists());
        assert_eq!((mode(&folder), mode(&folder.join("key"))), (0o700, 0o600));
        assert_eq!(fs::read(folder.join("key")).unwrap(), b"secret\n");
        drop(files);
        assert!(!folder.exists());
        std::mem::forget(SshFiles::write(&runtime, "dfw-2", b"secret").unwrap());
        delete_ssh_files(&runtime);
        assert!(!folder.exists());
        fs::remove_dir_all(&runtime).unwrap();
    }
}
