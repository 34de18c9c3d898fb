//! Files with credentials: mode 0600, replaced in one step.

use fedgate_terminal::{
    error::Error,
    write::{say, write},
};
use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Writes a credential to the file, or to standard output for `-`.
pub(super) fn hand_out(out: &Path, text: &str) -> Result<(), Error> {
    if out == Path::new("-") {
        return write(text);
    }
    write_private(out, text)?;
    say(&format!("credential written to {}", out.display()));
    Ok(())
}

/// Writes the text beside the path and moves it into place, so that no reader sees half of it and no other user any.
fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    replace(path, text).map_err(|error| {
        Error::failed(format!("cannot write {}", path.display()))
            .because(error.to_string())
            .next("name a file in a folder that you may write to, then run the command again")
    })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let draft = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_whole_and_only_its_owner_reads_it() {
        let dir = std::env::temp_dir().join(format!("fedgate-private-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("hub.yaml");
        std::fs::write(&path, "old, and readable by all").unwrap();
        write_private(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "no draft is left");
        assert!(write_private(&dir.join("no/such/folder"), "x").is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
