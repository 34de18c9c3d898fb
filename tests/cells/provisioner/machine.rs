//! Machines of tests. The file system of each is a folder. It has a real SSH server on an address of its own, and doubles of kubeadm and of
//! the programs around it.

use crate::support::suite::Suite;
use fedgate_sandbox::{Progress, User, program};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
};

/// Where Debian and others have it; its path must be absolute.
const SSHD: &str = "/usr/sbin/sshd";
/// The version of Kubernetes of each machine.
pub(crate) const VERSION: &str = "v1.36.3";
/// The file of the kubelet's package that keeps the folder of manifests.
pub(crate) const PACKAGED: &str = "etc/kubernetes/manifests/.kubelet-keep";
/// Programs of which `programs.sh` is a double.
const DOUBLES: [&str; 9] = [
    "containerd",
    "haproxy",
    "id",
    "kubelet",
    "modprobe",
    "sudo",
    "swapoff",
    "sysctl",
    "systemctl",
];

/// True if there is an SSH server. Otherwise says that the test was not run.
pub(crate) fn has_sshd(test: &str) -> bool {
    let is_there = Path::new(SSHD).is_file();
    if !is_there {
        println!("NOT RUN: {test} needs {SSHD}; next: install OpenSSH's server (Debian: openssh-server)");
    }
    is_there
}

/// A machine.
pub(crate) struct Machine {
    pub(crate) name: String,
    address: String,
    port: u16,
    folder: PathBuf,
    sshd: Mutex<Option<Child>>,
}

/// Runs a program to its end.
fn run(command: &mut Command) {
    let status = command.stdin(Stdio::null()).status();
    let ended = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    assert!(ended, "{command:?}: {status:?}");
}

fn keygen(path: &Path) {
    run(Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(path));
}

/// A key pair of this name, the private one as text.
pub(crate) fn private_key(suite: &Suite, name: &str) -> String {
    let path = suite.dir.join(name);
    if !path.exists() {
        keygen(&path);
    }
    fs::read_to_string(path).expect("read the key")
}

impl Machine {
    /// Starts the machine with this number, whose cluster is to be that of the new cell. The owner of the key may log in.
    pub(crate) async fn start(suite: &Suite, name: &str, number: u8, key: &str) -> Self {
        let folder = suite.dir.join("machines").join(name);
        let _ = fs::remove_dir_all(&folder);
        let root = folder.join("root");
        for needed in [
            "bin",
            "root/etc/modules-load.d",
            "root/etc/sysctl.d",
            "root/etc/systemd/system",
        ] {
            fs::create_dir_all(folder.join(needed)).expect("make a folder");
        }
        let admin = suite
            .with_sandbox(async |sandbox| sandbox.kubeconfig(crate::support::suite::NEW.0, User::Admin))
            .await;
        let [kubectl, kubeadm] = ["kubectl", "kubeadm"].map(|of| async move {
            program(of, &Progress::new(|_| {}))
                .await
                .expect("build the program")
        });
        let (kubectl, kubeadm) = (kubectl.await, kubeadm.await);
        let played = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cells/provisioner");
        for name in DOUBLES {
            symlink(played.join("programs.sh"), folder.join("bin").join(name)).expect("link a program");
        }
        symlink(played.join("kubeadm.sh"), folder.join("bin/kubeadm")).expect("link kubeadm");
        symlink(&kubectl, folder.join("bin/kubectl")).expect("link kubectl");
        let address = format!("127.0.3.{number}");
        let free = std::net::TcpListener::bind((&*address, 0)).expect("a free port");
        let port = free.local_addr().expect("it has an address").port();
        drop(free);
        keygen(&folder.join("host_key"));
        fs::copy(
            suite.dir.join(format!("{key}.pub")),
            folder.join("authorized_keys"),
        )
        .expect("copy the key");
        let path = |path: &Path| path.display().to_string();
        let variables = [
            format!("FEDGATE_ROOT={}", path(&root)),
            format!("MACHINE={}", path(&folder)),
            format!("PATH={}:/usr/bin:/bin", path(&folder.join("bin"))),
            format!("ADMIN={}", path(&admin)),
            format!("KUBECTL={}", path(&kubectl)),
            format!("KUBEADM={}", path(&kubeadm)),
        ];
        let configuration = format!(
            "Port {port}\nListenAddress {address}\nHostKey {folder}/host_key\nPidFile none\nAuthorizedKeysFile {folder}/authorized_keys\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel VERBOSE\n\
             SetEnv {}\n",
            variables.join(" "),
            folder = path(&folder),
        );
        fs::write(folder.join("sshd_config"), configuration).expect("write the configuration");
        let machine = Self {
            name: name.to_owned(),
            address,
            port,
            folder,
            sshd: Mutex::default(),
        };
        machine.write("version", VERSION);
        machine.write(&format!("root/{PACKAGED}"), "");
        machine.start_sshd();
        machine
    }

    /// Starts its SSH server.
    pub(crate) fn start_sshd(&self) {
        // sshd needs /run/sshd, which the init system usually makes.
        let _ = fs::create_dir_all("/run/sshd");
        let sshd = Command::new(SSHD)
            .arg("-D")
            .arg("-f")
            .arg(self.folder.join("sshd_config"))
            .arg("-E")
            .arg(self.folder.join("sshd.log"))
            .stdin(Stdio::null())
            .spawn();
        *self.sshd.lock().expect("no holder panics") = Some(sshd.expect("start sshd"));
    }

    /// Ends its SSH server.
    pub(crate) fn stop_sshd(&self) {
        if let Some(mut sshd) = self.sshd.lock().expect("no holder panics").take() {
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
    }

    /// The entry of the machine in a Cell.
    pub(crate) fn entry(&self, role: &str) -> Value {
        let key = fs::read_to_string(self.folder.join("host_key.pub")).expect("read the host key");
        let last = self.address.rsplit('.').next().unwrap_or_default();
        json!({"name": self.name, "role": role, "address": self.address, "port": self.port, "user": user(),
            "nodeAddress": format!("10.0.0.{last}"), "hostKey": key.trim()})
    }

    /// Text of a file of its folder; empty if it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// Writes a file of its folder.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("make the folder");
        fs::write(path, text).expect("write a file");
    }

    /// Deletes a file of its folder.
    pub(crate) fn delete(&self, name: &str) {
        fs::remove_file(self.folder.join(name)).expect("delete a file");
    }

    /// True if a file or folder is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// Mode of a file.
    pub(crate) fn mode(&self, name: &str) -> u32 {
        let metadata = fs::metadata(self.folder.join(name)).expect("the file is there");
        metadata.permissions().mode() & 0o777
    }

    /// The calls of a program, with its arguments.
    pub(crate) fn calls(&self, program: &str) -> Vec<String> {
        let calls = self.read("calls");
        let of = |line: &&str| line.split(' ').next() == Some(program);
        calls.lines().filter(of).map(str::to_owned).collect()
    }

    /// The number of calls that begin so.
    pub(crate) fn count(&self, command: &str) -> usize {
        let calls = self.read("calls");
        calls.lines().filter(|call| call.starts_with(command)).count()
    }

    /// Files below its root.
    pub(crate) fn files(&self) -> Vec<String> {
        fn walk(at: &Path, root: &Path, into: &mut Vec<String>) {
            for entry in fs::read_dir(at).expect("read a folder") {
                let path = entry.expect("read an entry").path();
                if path.is_dir() {
                    walk(&path, root, into);
                } else {
                    into.push(
                        path.strip_prefix(root)
                            .expect("it is below")
                            .display()
                            .to_string(),
                    );
                }
            }
        }
        let (mut files, root) = (Vec::new(), self.folder.join("root"));
        walk(&root, &root, &mut files);
        files.sort();
        files
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop_sshd();
    }
}

/// The user of this process.
fn user() -> String {
    let id = Command::new("id").arg("-un").output().expect("run id");
    String::from_utf8_lossy(&id.stdout).trim().to_owned()
}
