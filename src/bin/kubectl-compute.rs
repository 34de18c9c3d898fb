//! The `kubectl-compute` executable: a stub until the users' command line is implemented.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const COMING: &str = "\
kubectl compute is not there yet. These commands are coming:

  deploy, diff, destroy       bring a workload up, show what a change would do, take it down
  status, workloads, instances
                              see workloads, their deployments by city, and Instances
  scale, restart              change the number of Instances, start them anew
  rollout status|history|undo follow a change, list and restore revisions
  logs, exec                  look into Instances
  trace                       show every hop between project, hub and cell

Until then use kubectl with workloads, workloaddeployments and instances of compute.datumapis.com.
";

fn main() -> ExitCode {
    eprint!("{COMING}");
    ExitCode::from(2)
}
