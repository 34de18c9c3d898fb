//! Runs on a terminal: questions, progress that is drawn in place, Ctrl-C and resizing.

use crate::project::{NAMESPACE, Project};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use serde_json::json;
use std::{
    io::{Read, Write},
    time::Duration,
};
use tokio::sync::mpsc;

/// The longest wait for a text; a run that hangs must end the test.
const LIMIT: Duration = Duration::from_secs(60);

const WEB: [&str; 6] = ["deploy", "web", "--image", "web:1", "--city", "DFW,IAD"];

/// A run on a terminal of its own.
struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    output: mpsc::UnboundedReceiver<String>,
    text: String,
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

impl Terminal {
    fn start(project: &Project, words: &[&str], rows: u16, cols: u16) -> Self {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_kubectl-compute"));
        command.args(words);
        Self::spawn(project, command, rows, cols)
    }

    fn spawn(project: &Project, mut command: CommandBuilder, rows: u16, cols: u16) -> Self {
        let pair = native_pty_system().openpty(size(rows, cols)).unwrap();
        command.env("KUBECONFIG", project.kubeconfig());
        command.env("TERM", "xterm");
        command.env_remove("NO_COLOR");
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (send, output) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of a terminal is an error.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                if send.send(text).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keys: pair.master.take_writer().unwrap(),
            master: pair.master,
            output,
            text: String::new(),
        }
    }

    /// Waits until the text has come that is not yet read; returns all up to it.
    async fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.text.find(text) {
                let rest = self.text.split_off(at + text.len());
                return std::mem::replace(&mut self.text, rest);
            }
            let more = tokio::time::timeout(LIMIT, self.output.recv()).await;
            match more.ok().flatten() {
                Some(more) => self.text.push_str(&more),
                None => panic!("{text:?} has not come: {:?}", self.text),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end; returns the exit code and all that was not read.
    async fn end(mut self) -> (u32, String) {
        let mut child = self.child;
        let end = tokio::task::spawn_blocking(move || child.wait().unwrap());
        let end = tokio::time::timeout(LIMIT, end).await.unwrap().unwrap();
        // The reader ends with the terminal.
        drop((self.keys, self.master));
        while let Some(more) = self.output.recv().await {
            self.text.push_str(&more);
        }
        (end.exit_code(), self.text)
    }
}

async fn living() -> Project {
    let mut shop = Project::start("shop").await;
    shop.cells();
    shop.run(&WEB).await.ok();
    shop
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_three_times_and_an_empty_answer_is_the_capital() {
    let shop = living().await;
    let before = shop.writes();
    for answer in ["maybe\nperhaps\nwell\n", "\n", "No\n", "n\n", "\u{4}"] {
        let mut destroy = Terminal::start(&shop, &["destroy", "web"], 24, 80);
        destroy
            .until("Delete workload \"web\" and its 2 instances? (y/N)")
            .await;
        destroy.press(answer);
        let (code, rest) = destroy.end().await;
        assert_eq!(code, 4, "{answer:?}: {rest}");
        assert!(rest.contains("Nothing changed."), "{answer:?}: {rest}");
    }
    assert_eq!(shop.writes(), before);
    let mut destroy = Terminal::start(&shop, &["destroy", "web"], 24, 80);
    destroy.until("(y/N)").await;
    destroy.press("what?\nyes\n");
    let (code, rest) = destroy.end().await;
    assert!(
        code == 0 && rest.contains("workload.compute.datumapis.com/web deleted"),
        "{rest}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_removes_a_city_asks_and_one_that_removes_nothing_suggests_yes() {
    let shop = living().await;
    let mut drop = Terminal::start(&shop, &["deploy", "web", "--city", "DFW"], 24, 80);
    drop.until("This removes IAD and its 1 instance. Continue? (y/N)")
        .await;
    drop.press("\n");
    assert_eq!(drop.end().await.0, 4);
    let mut change = Terminal::start(&shop, &["deploy", "web", "--env", "A=1"], 24, 80);
    change.until("Apply? (Y/n)").await;
    change.press("\n");
    let (code, rest) = change.end().await;
    assert_eq!(code, 0, "{rest}");
    assert!(rest.contains("configured (rev #2)"), "{rest}");
    let mut undo = Terminal::start(&shop, &["rollout", "undo", "web"], 24, 80);
    let plan = undo.until("Apply revision #1 as #3? (y/N)").await;
    assert!(plan.contains("#1 -> #3\r\n") && plan.contains("env[A]"), "{plan}");
    undo.press("Y\n");
    assert_eq!(undo.end().await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_others_make_during_the_question_is_shown_in_a_new_plan() {
    let shop = living().await;
    shop.run(&["scale", "web", "--min", "2"]).await.ok();
    let mut undo = Terminal::start(&shop, &["rollout", "undo", "web"], 24, 80);
    undo.until("Apply revision #1 as #3? (y/N)").await;
    let by_bob = json!({"spec": {"template": {"metadata": {"labels": {"by": "bob"}}}}});
    shop.plane.merge("Workload", NAMESPACE, "web", by_bob).unwrap();
    undo.press("y\n");
    let plan = undo.until("Apply revision #1 as #4? (y/N)").await;
    assert!(
        plan.contains("workload \"web\" changed meanwhile; the new plan:\r\n#1 -> #4\r\n")
            && plan.contains("- spec.template.metadata.labels.by: bob"),
        "{plan}"
    );
    undo.press("y\n");
    let (code, rest) = undo.end().await;
    assert!(code == 0 && rest.contains("configured (rev #4)"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_made_anew_between_question_and_answer_survives() {
    let shop = living().await;
    let mut destroy = Terminal::start(&shop, &["destroy", "web"], 24, 80);
    destroy.until("(y/N)").await;
    shop.plane.delete("Workload", NAMESPACE, "web").unwrap();
    let fresh = shop.workload("web", "web:2", &["DFW"]);
    destroy.press("y\n");
    let (code, rest) = destroy.end().await;
    assert_eq!(code, 5, "{rest}");
    let live = shop.plane.get("Workload", NAMESPACE, "web").unwrap();
    assert_eq!(live["metadata"]["uid"], fresh["metadata"]["uid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_drawn_in_place_and_fits_the_terminal() {
    let mut shop = Project::start("shop").await;
    let mut deploy = Terminal::start(&shop, &[&WEB[..], &["--yes"]].concat(), 24, 80);
    deploy.until("0 of 2 done after ").await;
    // The next drawing begins with the cursor at the first line of the table.
    let again = deploy.until("0 of 2 done after ").await;
    assert!(
        again.contains("\u{1b}[") && again.contains("default"),
        "{again:?}"
    );
    deploy.master.resize(size(24, 30)).unwrap();
    deploy.until("0 of 2 done after ").await;
    deploy.until("0 of 2 done after ").await;
    let drawn = deploy.until("0 of 2 done after ").await;
    for line in drawn.lines() {
        let visible = console::strip_ansi_codes(line);
        assert!(visible.trim().chars().count() <= 30, "{visible:?}");
    }
    deploy.master.resize(size(24, 80)).unwrap();
    shop.cells();
    let (code, rest) = deploy.end().await;
    assert_eq!(code, 0, "{rest}");
    assert!(
        rest.contains("2 of 2 done after") && rest.contains("Rollout complete in "),
        "{rest}"
    );
    assert!(
        rest.contains("\u{1b}[32mDone\u{1b}[0m"),
        "colours on a terminal: {rest:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_a_line_for_each_change_if_stdin_is_no_terminal() {
    let mut shop = Project::start("shop").await;
    shop.workload("web", "web:1", &["DFW"]);
    let line = format!(
        "exec {} rollout status web < /dev/null",
        env!("CARGO_BIN_EXE_kubectl-compute")
    );
    let mut shell = CommandBuilder::new("sh");
    shell.args(["-c", &line]);
    let mut status = Terminal::spawn(&shop, shell, 24, 80);
    status.until("Z us/DFW Waiting no deployment yet").await;
    shop.cells();
    let (code, rest) = status.end().await;
    assert_eq!(code, 0, "{rest}");
    assert!(rest.contains("Z us/DFW Done "), "{rest}");
    assert!(!rest.contains('\u{1b}'), "nothing is drawn in place: {rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_higher_than_the_terminal_is_cut() {
    let shop = Project::start("shop").await;
    let cities: Vec<String> = (0..40).map(|n| format!("C{n}")).collect();
    let words = [
        "deploy",
        "web",
        "--image",
        "x",
        "--city",
        &cities.join(","),
        "--yes",
    ];
    let mut deploy = Terminal::start(&shop, &words, 12, 80);
    deploy.until("lines more").await;
    let drawn = deploy.until("lines more").await;
    assert!(drawn.lines().count() <= 13, "{drawn}");
    deploy.press("\u{3}");
    assert_eq!(deploy.end().await.0, 130);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_wait_and_the_change_stays() {
    let shop = Project::start("shop").await;
    let mut deploy = Terminal::start(&shop, &[&WEB[..], &["--yes"]].concat(), 24, 80);
    deploy.until("0 of 2 done after ").await;
    deploy.press("\u{3}");
    let (code, rest) = deploy.end().await;
    assert_eq!(code, 130);
    assert!(rest.contains("Detached; the rollout continues."), "{rest}");
    assert!(shop.plane.get("Workload", NAMESPACE, "web").is_some());
    let status = shop.run(&["rollout", "status", "web", "--watch=false"]).await;
    assert_eq!(status.code, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn activation_is_asked_for_and_the_command_goes_on() {
    let shop = crate::account::platform().await;
    let mut list = Terminal::start(&shop, &["workloads"], 24, 80);
    list.until("Compute is not activated for project \"shop\". Request it now? (y/N)")
        .await;
    list.press("y\n");
    shop.until("ServiceEntitlement", "compute", |found| found.is_some())
        .await;
    let active = json!({"status": {"phase": "Active"}});
    shop.plane
        .merge_status("ServiceEntitlement", "", "compute", active)
        .unwrap();
    let (code, rest) = list.end().await;
    assert!(
        code == 0 && rest.contains("No workloads in project shop."),
        "{rest}"
    );
}
