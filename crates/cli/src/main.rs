//! The `kubectl-compute` executable: `kubectl compute`.

use std::process::ExitCode;

fn main() -> ExitCode {
    fedgate_cli::main(std::env::args_os())
}
