//! The answer of a machine to a command, and the next action for each of its jobs.

use super::{mask::masked_end, ssh::Job};
use fedgate_api::cell::MachineRole;
use fedgate_engine::backoff::Backoff;
use fedgate_kubeconfig::from_base64;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Time between the end of a job that failed and the next one.
const RETRY: Backoff = Backoff::new(Duration::from_secs(15), Duration::from_mins(5));
/// Time after which a job that runs counts as failed. It is not ended, because nobody knows what it does.
const TIMEOUT: Duration = Duration::from_mins(20);

/// The file by which a machine belongs to a Cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// Name of the Cell.
    pub(super) cell: String,
    /// Name of the machine in the Cell.
    pub(super) machine: String,
    /// UID of the Cell.
    pub(super) uid: String,
}

/// A machine as its answer shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MachineState {
    /// The claim; `None` without one. A claim that cannot be parsed counts as that of another Cell.
    pub(super) claim: Option<Claim>,
    /// True if a kubelet has joined a cluster.
    pub(super) has_kubelet: bool,
    /// True if it has an administrator's kubeconfig.
    pub(super) has_admin: bool,
    /// True if files of a control plane or of etcd exist, finished or not.
    pub(super) has_begun: bool,
    /// Version of kubeadm; empty without it.
    pub(super) kubeadm: String,
    /// Version of the kubelet; empty without it.
    pub(super) kubelet: String,
    programs: Vec<String>,
    /// The administrator's kubeconfig, if it was asked for.
    pub(super) admin: Option<Vec<u8>>,
    jobs: Vec<JobState>,
}

/// The last start of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobState {
    name: String,
    /// Number of the start, from 1 on.
    pub(super) number: u32,
    /// The progress of the job.
    pub(super) stage: Stage,
    /// Time since its end, or since its start.
    pub(super) age: Duration,
    /// The end of what it wrote to standard error, without secrets; empty unless it failed.
    pub(super) error: String,
}

/// Progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The process of the job lives.
    Runs,
    /// The job has ended with this exit status.
    Ended(i32),
    /// The process of the job is gone, and has left no exit status.
    Died,
}

/// The next action for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Start it with this number.
    Start(u32),
    /// Wait for its end.
    Wait,
    /// The job is done.
    Done,
    /// The job has failed, and may be started again later; or it has run for too long.
    Failed,
    /// The job has failed after it wrote files of a control plane. A further start could lose a member of etcd.
    NeedsReset,
}

impl MachineState {
    /// Parses an answer. Unknown lines are ignored.
    pub(super) fn parse(answer: &str) -> Self {
        let mut state = Self::default();
        for line in answer.lines() {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.trim();
            match (key, value) {
                ("claim", _) => {
                    let unknown = Claim {
                        cell: "(unreadable claim)".to_owned(),
                        machine: String::new(),
                        uid: String::new(),
                    };
                    state.claim = Some(serde_json::from_str(value).unwrap_or(unknown));
                }
                ("kubernetes", "kubelet.conf") => state.has_kubelet = true,
                ("kubernetes", "admin.conf") => state.has_admin = true,
                ("kubernetes", "begun") => state.has_begun = true,
                ("kubeadm", _) => value.clone_into(&mut state.kubeadm),
                ("kubelet", _) => value.clone_into(&mut state.kubelet),
                ("program", _) => state.programs.push(value.to_owned()),
                ("admin", _) => state.admin = from_base64(value),
                ("job", _) => state.jobs.extend(JobState::parse(value)),
                ("error", _) => state.add_error(value),
                _ => {}
            }
        }
        state
    }

    fn add_error(&mut self, value: &str) {
        let (name, error) = value.split_once(' ').unwrap_or((value, ""));
        if let Some(job) = self.jobs.iter_mut().find(|job| job.name == name) {
            job.error = masked_end(error.trim());
        }
    }

    /// True if the program is installed.
    pub(super) fn has_program(&self, name: &str) -> bool {
        self.programs.iter().any(|program| program == name)
    }

    /// The last start of a job.
    pub(super) fn job(&self, job: Job) -> Option<&JobState> {
        self.jobs.iter().find(|state| state.name == job.as_str())
    }

    /// True if the job has ended well.
    pub(super) fn is_done(&self, job: Job) -> bool {
        self.job(job).is_some_and(|state| state.stage == Stage::Ended(0))
    }

    /// True if a job runs, other than the reset.
    pub(super) fn is_busy(&self) -> bool {
        let mut jobs = self.jobs.iter();
        jobs.any(|state| state.stage == Stage::Runs && state.name != Job::Reset.as_str())
    }

    /// Replaces the state of one job by that of a later answer.
    pub(super) fn replace_job(&mut self, job: Job, later: &Self) {
        self.jobs.retain(|state| state.name != job.as_str());
        self.jobs.extend(later.job(job).cloned());
    }

    /// The next action for a job. A job runs at most once for each number.
    pub(super) fn next(&self, job: Job, role: MachineRole) -> Next {
        let Some(state) = self.job(job) else {
            return Next::Start(1);
        };
        // A control plane with these files may be a member of etcd, and a reset would lose the data of the member.
        let makes_control_plane = matches!(job, Job::Init | Job::Join) && role == MachineRole::ControlPlane;
        let again = RETRY.delay(state.number.saturating_sub(1), job.as_str());
        match state.stage {
            Stage::Runs if state.age > TIMEOUT => Next::Failed,
            Stage::Runs => Next::Wait,
            Stage::Ended(0) => Next::Done,
            Stage::Ended(_) | Stage::Died if makes_control_plane && self.has_begun => Next::NeedsReset,
            Stage::Ended(_) | Stage::Died if state.age < again => Next::Failed,
            Stage::Ended(_) | Stage::Died => Next::Start(state.number.saturating_add(1)),
        }
    }
}

impl JobState {
    /// Reads `name number stage age [status]`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (name, number, stage, age) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let stage = match stage {
            "runs" => Stage::Runs,
            "died" => Stage::Died,
            "ended" => Stage::Ended(words.next()?.parse().ok()?),
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            number: number.parse().ok()?,
            stage,
            age: Duration::from_secs(age.parse().ok()?),
            error: String::new(),
        })
    }

    /// The state of the job as a sentence.
    pub(super) fn describe(&self) -> String {
        let Self {
            name,
            number,
            stage,
            error,
            ..
        } = self;
        match stage {
            Stage::Ended(status) => format!("job {name}-{number} ended with exit status {status}: {error}"),
            Stage::Died => {
                format!("job {name}-{number} ended without an exit status; the machine may have restarted")
            }
            Stage::Runs => format!("job {name}-{number} has run for {} s", self.age.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(job: &str) -> MachineState {
        MachineState::parse(&format!("root yes\nkubernetes kubelet.conf\n{job}\n"))
    }

    #[test]
    fn an_answer_is_read_and_what_is_not_known_says_nothing() {
        let state = MachineState::parse(
            "program containerd\nclaim {\"cell\":\"dfw-2\",\"machine\":\"w1\",\"uid\":\"u-1\",\"x\":1}\nkubernetes admin.conf\nkubeadm v1.36.3\nkubelet \n\
             job prepare 1 ended 4 0\njob init 2 ended 7 1\nerror init it is  full\njob x\njob join 1 sleeps 3\nmotd\nadmin aGk=\n",
        );
        let claim = Claim {
            cell: "dfw-2".to_owned(),
            machine: "w1".to_owned(),
            uid: "u-1".to_owned(),
        };
        assert_eq!(state.claim, Some(claim));
        assert_eq!(
            (state.has_admin, state.has_kubelet, state.has_begun),
            (true, false, false)
        );
        assert_eq!((&*state.kubeadm, &*state.kubelet), ("v1.36.3", ""));
        assert!(state.has_program("containerd") && !state.has_program("kubectl"));
        assert_eq!(state.admin.as_deref(), Some(&b"hi"[..]));
        assert!(state.is_done(Job::Prepare) && !state.is_done(Job::Init) && !state.is_busy());
        assert_eq!(
            state.job(Job::Init).unwrap().describe(),
            "job init-2 ended with exit status 1: it is  full"
        );
        assert_eq!(state.job(Job::Join), None);
        let broken = MachineState::parse("claim nonsense");
        assert_eq!(broken.claim.unwrap().uid, "");
    }

    #[test]
    fn a_job_that_failed_is_started_again_later_with_the_next_number() {
        let worker = with("job join 1 ended 60 1\nkubernetes begun").next(Job::Join, MachineRole::Worker);
        assert_eq!(worker, Next::Start(2));
        let table = [
            (Job::Join, "", Next::Start(1)),
            (Job::Join, "job join 1 runs 900", Next::Wait),
            (Job::Join, "job join 1 runs 1300", Next::Failed),
            (Job::Join, "job join 3 ended 900 0", Next::Done),
            (Job::Join, "job join 1 ended 2 1", Next::Failed),
            (Job::Join, "job join 1 ended 60 1", Next::Start(2)),
            (Job::Join, "job join 9 ended 60 1", Next::Failed),
            (Job::Join, "job join 9 died 400", Next::Start(10)),
            (
                Job::Join,
                "job join 1 ended 60 1\nkubernetes begun",
                Next::NeedsReset,
            ),
            (
                Job::Prepare,
                "job prepare 1 ended 60 1\nkubernetes begun",
                Next::Start(2),
            ),
            (Job::Init, "job init 1 ended 60 1", Next::Start(2)),
            (
                Job::Init,
                "job init 1 ended 60 1\nkubernetes begun",
                Next::NeedsReset,
            ),
            (
                Job::Init,
                "job init 1 died 60\nkubernetes begun",
                Next::NeedsReset,
            ),
            (Job::Init, "job init 1 ended 60 0\nkubernetes begun", Next::Done),
        ];
        for (job, line, next) in table {
            assert_eq!(with(line).next(job, MachineRole::ControlPlane), next, "{line}");
        }
    }
}
