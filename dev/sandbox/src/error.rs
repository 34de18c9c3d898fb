//! Messages of errors: what failed, where, why, and what to do next.

use std::path::Path;

/// The context of an error of a file operation, e.g. `write`.
pub(super) fn cannot(action: &str, path: &Path) -> impl FnOnce() -> String {
    let text = format!("cannot {action} {}", path.display());
    move || text
}

/// The context of an error of a request to a plane.
pub(super) fn on(plane: &str, action: impl std::fmt::Display) -> impl FnOnce() -> String {
    let text = format!("plane {plane}: cannot {action}");
    move || text
}

/// The error that another process owns a sandbox in this folder.
pub(super) fn in_use(dir: &Path) -> anyhow::Error {
    let dir = dir.display();
    anyhow::anyhow!(
        "the sandbox in {dir} is in use; run `fedgate-sandbox down --dir {dir}` or give another --dir"
    )
}
