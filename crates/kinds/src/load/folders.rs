//! The folders of kinds in the executable.

use crate::folder::{Folder, last_name};
use include_dir::{Dir, include_dir};

/// The kinds that are built into the executable.
static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../interpreters");

/// The folders in the executable.
pub(super) fn built_in() -> Vec<Folder> {
    let mut folders = Vec::new();
    for group in BUILT_IN.dirs() {
        for version in group.dirs() {
            for kind in version.dirs() {
                let files = kind.files().filter_map(|file| {
                    Some((
                        file.path().file_name()?.to_str()?.to_owned(),
                        file.contents_utf8()?.to_owned(),
                    ))
                });
                folders.push(Folder {
                    path: format!("(built in)/{}", kind.path().display()),
                    kind: last_name(kind.path()),
                    version: last_name(version.path()),
                    group: last_name(group.path()),
                    files: files.collect(),
                });
            }
        }
    }
    folders
}
