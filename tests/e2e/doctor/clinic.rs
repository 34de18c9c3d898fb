//! `fedgate doctor` on the suite's planes, and whoever carries out the steps that it names.

use super::karmada::HOST;
use crate::support::{
    Case,
    credentials::{self, Twin},
    federated::{kinds_flags, kinds_flags_without_members},
    seconds,
    suite::{ALPHA_KEY, BETA_KEY},
    wait_for,
};
use fedgate_sandbox::{Progress, User};
use serde_json::Value;
use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Output, Stdio},
};
use tokio::{process::Command, time::Instant};

/// How long the gateway's token is good: doctor finds fault with less than 30 days.
const LONG: i64 = 40 * 24 * 3600;

/// See the module.
pub(super) struct Clinic {
    pub(super) case: Case,
    folder: PathBuf,
    /// The administrator's, with a context for each plane.
    merged: PathBuf,
    kubectl: PathBuf,
    account: Twin,
    /// The flags that name the kinds.
    kinds: [OsString; 4],
}

/// What a run has found.
struct Report {
    exit: i32,
    findings: Vec<Value>,
}

impl Report {
    /// The findings of a check of a plane.
    fn of<'a>(&'a self, plane: &'a str, check: &'a str) -> impl Iterator<Item = &'a Value> {
        let is_of = move |finding: &&Value| finding["plane"] == plane && finding["check"] == check;
        self.findings.iter().filter(is_of)
    }
}

async fn ended(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.expect("run it")
}

impl Clinic {
    /// One that asks the hub as a `ServiceAccount`, so with kinds whose deletion asks no member.
    pub(super) async fn open(case: &Case) -> Self {
        Self::with(case, kinds_flags_without_members()).await
    }

    /// One that asks the hub and its members as the gateway does, by its certificate.
    pub(super) async fn of_members(case: &Case) -> Self {
        let clinic = Self::with(case, kinds_flags()).await;
        clinic.use_certificate();
        clinic
    }

    async fn with(case: &Case, kinds: [OsString; 4]) -> Self {
        let folder = case.suite.dir.join("clinic");
        std::fs::create_dir_all(&folder).expect("make a folder");
        let (merged, cells) = case
            .suite
            .with_sandbox(async |sandbox| {
                let cell = |plane: &str| sandbox.kubeconfig(plane, User::Cell("dfw-1"));
                let admin = sandbox.kubeconfig("hub", User::Admin);
                (
                    sandbox.merged_kubeconfig(),
                    [
                        ("dfw-1.yaml", cell("dfw-1")),
                        ("dfw-1-on-hub.yaml", cell("hub")),
                        ("hub-admin.yaml", admin),
                    ],
                )
            })
            .await;
        let projects = [ALPHA_KEY, BETA_KEY].map(|key| format!("{key}.yaml"));
        let from = case.suite.gateway.projects();
        let projects = projects.iter().map(|file| (file.as_str(), from.join(file)));
        for (to, from) in cells.into_iter().chain(projects) {
            std::fs::copy(from, folder.join(to)).expect("copy a kubeconfig");
        }
        let progress = Progress::new(|line| eprintln!("kubectl: {line}"));
        let kubectl = fedgate_sandbox::program("kubectl", &progress).await;
        let clinic = Self {
            case: case.clone(),
            folder,
            merged,
            kubectl: kubectl.expect("kubectl can be had"),
            account: Twin::shipped(&case.hub).await,
            kinds,
        };
        clinic.renew(LONG).await;
        clinic.write_manifests().await;
        clinic
    }

    /// Writes the manifests of all kinds, as an administrator with a folder of kinds does.
    async fn write_manifests(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
        let to = self.folder.join("manifests");
        command.arg("manifests").args(kinds_flags());
        let output = ended(command.arg("--write").arg(to)).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "fedgate manifests: {said}");
    }

    /// Gives the gateway's user on the hub a token that is good for so many seconds.
    pub(super) async fn renew(&self, seconds: i64) {
        self.write_token(&self.account.token_for(seconds).await);
    }

    /// Puts it back to a token that is good for long.
    pub(super) async fn renew_for_long(&self) {
        self.renew(LONG).await;
    }

    pub(super) fn write_token(&self, token: &str) {
        let hub = credentials::with_token(self.case.suite.gateway.hub_kubeconfig(), token);
        credentials::replace(&self.folder.join("hub.yaml"), &hub);
    }

    /// Puts the gateway's own certificate in the place of a token.
    pub(super) fn use_certificate(&self) {
        let hub = std::fs::read_to_string(self.case.suite.gateway.hub_kubeconfig());
        credentials::replace(&self.folder.join("hub.yaml"), &hub.expect("read a kubeconfig"));
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    async fn examine(&self, flags: &[&str]) -> Report {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
        command.current_dir(&self.folder).args([
            "doctor",
            "--hub-kubeconfig=hub.yaml",
            "--admin-kubeconfig=hub-admin.yaml",
            &format!("--project-kubeconfig={ALPHA_KEY}.yaml"),
            &format!("--project-kubeconfig={BETA_KEY}.yaml"),
            "--cell-kubeconfig=dfw-1=dfw-1.yaml",
            "--cell-hub-kubeconfig=dfw-1=dfw-1-on-hub.yaml",
            "--admin-auth=hub",
            "-o=json",
        ]);
        command.args(&self.kinds);
        if self.file(HOST).exists() {
            command.arg(format!("--karmada-host-kubeconfig={HOST}"));
        }
        let output = ended(command.args(flags)).await;
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
        });
        Report {
            exit: output.status.code().expect("it ends"),
            findings: report["findings"].as_array().expect("findings").clone(),
        }
    }

    /// Waits until doctor finds this and exits as it should, and returns the next step that it names. An API server takes a
    /// moment to know a role, and a moment to answer after a test that has stopped it.
    pub(super) async fn finds(&self, (plane, check): (&str, &str), verdict: &str, words: &str) -> String {
        let is_away = matches!(check, "reach") || words.contains("is refused");
        let exit = match verdict {
            _ if is_away => 3,
            "fail" => 1,
            _ => 0,
        };
        let what = format!("doctor says {verdict} {plane} {check}: {words}, and exits {exit}");
        let finding = wait_for(&what, seconds(60), || async {
            let report = self.examine(&[]).await;
            let is = |finding: &&Value| {
                finding["verdict"] == verdict
                    && finding["text"].as_str().is_some_and(|text| text.contains(words))
            };
            let found = report.of(plane, check).find(is).cloned();
            found.filter(|_| report.exit == exit)
        })
        .await;
        if verdict == "open" {
            assert_eq!(self.examine(&["--strict"]).await.exit, 1, "{finding}");
        }
        finding["next"].as_str().expect("a text").to_owned()
    }

    /// Waits until nothing of a check is wrong.
    pub(super) async fn is_mended(&self, (plane, check): (&str, &str)) {
        let deadline = Instant::now() + seconds(60);
        loop {
            let report = self.examine(&[]).await;
            let found: Vec<&Value> = report.of(plane, check).collect();
            if !found.is_empty() && found.iter().all(|finding| finding["verdict"] == "ok") {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{plane} {check} is not mended: {found:#?}"
            );
        }
    }

    /// Waits until nothing fails on any plane.
    pub(super) async fn is_well(&self) {
        let mut last = Vec::new();
        for _ in 0..20 {
            let report = self.examine(&[]).await;
            if report.exit == 0 {
                return;
            }
            last = report.findings;
        }
        last.retain(|finding| finding["verdict"] == "fail");
        panic!("doctor finds faults before anything is broken: {last:#?}");
    }

    /// The same, once the gateway may ask the hub for reviews of its users.
    pub(super) async fn is_well_with_reviews(&self) {
        let reviews = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "-f",
            "manifests/hub/admin-auth",
        ];
        self.kubectl("hub", &reviews).await;
        self.is_well().await;
    }

    /// Runs kubectl with an administrator's kubeconfig, beside the manifests.
    pub(super) async fn kubectl(&self, context: &str, words: &[&str]) {
        let mut command = Command::new(&self.kubectl);
        command
            .args(["--context", context])
            .args(words)
            .env("KUBECONFIG", &self.merged)
            .current_dir(&self.folder);
        let output = ended(&mut command).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {words:?}: {said}");
    }

    /// Carries out `apply manifests/…` on a plane.
    pub(super) async fn apply(&self, context: &str, next: &str) {
        let folder = next
            .split("apply ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let folder = folder.unwrap_or_else(|| panic!("{next:?} names no manifests"));
        let folder = folder.trim_end_matches([':', ',']);
        assert!(folder.starts_with("manifests/"), "{next:?}");
        let words = ["apply", "--server-side", "--force-conflicts", "-f", folder];
        self.kubectl(context, &words).await;
    }

    /// Runs the `kubectl …` of a step, with this in the place of what is left open.
    pub(super) async fn carry_out(&self, context: &str, next: &str, open: &str) {
        let (_, words) = next.split_once("kubectl ").expect("a command");
        let words = words.replace("<CODE>", open).replace('\'', "");
        let words: Vec<&str> = words.split(' ').collect();
        self.kubectl(context, &words).await;
    }
}
