//! A crash at every request: before it is applied, and after it was applied without the answer being heard.
//!
//! Each course is run once without disturbance and its requests are counted; then with a crash at each of them, or at every
//! n-th. The state in the end must be that of the undisturbed run, nothing may be violated on the way, and one more restart
//! must write nothing. `FEDGATE_PROVE_CELL_STRIDE=1` crashes at every request.

use super::{
    courses::{COURSES, Course, SETTLED, STEP},
    end::{self, settled},
    invariants::Watchman,
    rig::{Rig, USER},
};
use crate::{
    crash::{Crash, Mortal, at_requests, every_request_of, until_or_crash},
    rig::{rest, simulate, stride},
    state::{State, differences},
};
use fedgate_simulator::{Faults, Verb};

/// The cell dies at every fifth request, unless the environment says otherwise.
const STRIDE: u64 = 5;
/// No course is shorter than its lists and the writes of one Instance's life.
const FEWEST: u64 = 30;

/// What a run ends in.
struct End {
    state: State,
    requests: u64,
    crashes: u64,
    wrong: Vec<String>,
}

impl Mortal for Rig {
    fn faults(&self) -> Faults {
        self.simulator.faults()
    }

    async fn kill(&mut self) {
        Rig::kill(self).await;
    }

    fn start(&mut self) {
        Rig::start(self);
    }
}

async fn run(course: &Course, crash: Option<Crash>) -> End {
    let mut rig = Rig::new(1, course.networking);
    if let Some(Crash { at, after }) = crash {
        rig.simulator.faults().stop_at(USER, at, after);
    }
    rig.start();
    let mut crashes = 0;
    for step in course.steps {
        for op in *step {
            op.apply(&rig);
        }
        crashes += until_or_crash(&mut rig, STEP).await;
    }
    crashes += until_or_crash(&mut rig, SETTLED).await;
    let entries = rig.simulator.log().entries();
    // What a plane did not hear of cannot be a cell's last request there.
    let heard = |verb, code| verb != Verb::Watch && code != 0;
    let asked = entries
        .iter()
        .filter(|e| &*e.user == USER && heard(e.verb, e.code));
    let requests = asked.count() as u64;
    let state = end::state(&rig);
    let mut wrong = settled(&rig);
    rig.simulator.log().clear();
    rig.kill().await;
    rig.start();
    rest(SETTLED).await;
    wrong.extend(
        rig.writes()
            .into_iter()
            .map(|write| format!("a restart writes: {write}")),
    );
    wrong.extend(Watchman::default().violations(&rig.simulator.take_changes()));
    End {
        state,
        requests,
        crashes,
        wrong,
    }
}

fn every_request(name: &str) {
    let course = COURSES.iter().find(|c| c.name == name).unwrap();
    let calm = simulate(run(course, None));
    assert_eq!(calm.wrong, Vec::<String>::new(), "{name}, undisturbed");
    assert!(
        calm.requests > FEWEST,
        "{name}: {} requests are too few",
        calm.requests
    );
    let stride = stride("FEDGATE_PROVE_CELL_STRIDE", STRIDE);
    at_requests(name, calm.requests, stride, |crash| {
        let end = simulate(run(course, Some(crash)));
        let mut lines = differences(&calm.state, &end.state);
        lines.extend(end.wrong);
        if end.crashes != 1 {
            lines.push(format!("the cell died {} times", end.crashes));
        }
        lines
    });
}

every_request_of!(
    COURSES,
    each_course_has_its_test:
    create,
    roll,
    surge,
    surge_and_scale,
    surge_and_bad_image,
    surge_and_denied_claim,
    scale_down,
    deletion,
    deletion_and_creation,
    suspension,
    bad_image,
    denied_claim,
    companion,
    networking,
    networking_and_deletion,
    scale_down_and_roll_while_away,
    deletion_while_away,
);
