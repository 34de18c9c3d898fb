//! Examples in the help of commands. Each is a line that the command line accepts; a test tries them all.

/// Examples of `deploy`.
pub(crate) const DEPLOY: &str = "\
Examples:
  kubectl compute deploy web --image nginx:1.27 --city DFW,LHR --port http=80
  kubectl compute deploy web --min 3 --env LOG=debug --env OLD-
  kubectl compute deploy web --health-http /ready:http --min-ready 10s --on-failure undo
  kubectl compute deploy -f web.yaml --yes";

/// Examples of `diff`.
pub(crate) const DIFF: &str = "\
Examples:
  kubectl compute diff -f web.yaml
  kubectl compute diff web --to-revision 2 --unified

Exit code 0: nothing differs; 1: something does; above 1: the comparison failed.";

/// Examples of `rollout`.
pub(crate) const ROLLOUT: &str = "\
Examples:
  kubectl compute rollout web
  kubectl compute rollout history web --revision 2
  kubectl compute rollout undo web --to-revision 2
  kubectl compute rollout pause web";

/// Examples of `trace`.
pub(crate) const TRACE: &str = "\
Examples:
  kubectl compute trace web
  kubectl compute trace web --city IAD -w

Exit code 0: whole; 7: something waits; 9: a link is broken.";

/// Examples of `workloads` and `instances`.
pub(crate) const LISTS: &str = "\
Examples:
  kubectl compute workloads --health degraded
  kubectl compute workloads describe web
  kubectl compute instances --workload web --city DFW -o wide
  kubectl compute instances -o jsonpath='{.items[*].metadata.name}'";

/// Exit codes.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0 done   1 failed   2 wrong use   3 not found   4 not confirmed   5 changed by another user   6 forbidden
  7 not there yet   8 timed out   9 blocked   10 not activated   11 being activated   12 activation refused
  70 diff failed   130 interrupted";
