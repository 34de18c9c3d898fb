//! Opens the browser. Every user of the machine can read the arguments of a program, so that the browser gets the address with
//! its code from a page in a file that only this user can read.

use fedgate_admin::console::session;
use fedgate_terminal::write::say;
use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::Command;

/// The program that opens a file in the user's browser.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// The page in its file, which is removed with it.
pub(super) struct Page(PathBuf);

impl Page {
    fn write(url: &str) -> io::Result<Self> {
        let name = session::random_text().map_err(io::Error::other)?;
        let path = std::env::temp_dir().join(format!("fedgate-console-{name}.html"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let page = Self(path);
        file.write_all(
            format!(
                "<!doctype html>\n<title>fedgate console</title>\n<meta name=\"referrer\" content=\"no-referrer\">\n\
                 <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<a href=\"{url}\">Open the console</a>\n"
            )
            .as_bytes(),
        )?;
        Ok(page)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // A page that cannot be removed leads to a code that is used, or whose process has ended.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The page that leads to this address; without one, the user is told.
pub(super) fn page(url: &str) -> Option<Page> {
    let page = Page::write(url);
    page.map_err(|error| {
        let folder = std::env::temp_dir();
        say(&format!(
            "cannot write a page into {} ({error}): open the address yourself",
            folder.display()
        ));
    })
    .ok()
}

/// Opens a page in the browser, which goes on without this process.
pub(super) fn open(page: &Path) {
    let started = Command::new(OPENER)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        say(&format!(
            "{OPENER} does not start ({error}): open the address yourself"
        ));
    }
}
