//! The scripts that make a shell ask for candidates.

use crate::args::Shell;

/// The script for a shell.
pub(crate) const fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("scripts/kubectl-compute.bash"),
        Shell::Zsh => include_str!("scripts/kubectl-compute.zsh"),
        Shell::Fish => include_str!("scripts/kubectl-compute.fish"),
        Shell::Powershell => include_str!("scripts/kubectl-compute.ps1"),
    }
}
