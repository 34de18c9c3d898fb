//! The files of the page, embedded in the executable.

use fedgate_api::names::hex;
use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/src/console/assets");

/// The page; its files stand below an address of their content.
const PAGE: &str = "index.html";
/// The page's name for the folder of its files.
const FOLDER: &str = "@assets@";
/// Length of the hash in the address, in characters.
const HASH: usize = 12;

/// The page and the hash of all files, made once.
static MADE: LazyLock<(String, String)> = LazyLock::new(|| {
    let hash = hash();
    let text = FILES.get_file(PAGE).and_then(include_dir::File::contents_utf8);
    let folder = format!("/console/a/{hash}");
    (text.unwrap_or_default().replace(FOLDER, &folder), hash)
});

/// A file of the page.
pub(super) struct Asset {
    /// Media type of the file.
    pub(super) media_type: &'static str,
    /// Bytes of the file.
    pub(super) content: &'static [u8],
}

/// The page.
pub(super) fn page() -> &'static str {
    &MADE.0
}

/// The file of this name below the address with this hash. Names are compared, and no path is made of one.
pub(super) fn file(hash: &str, name: &str) -> Option<Asset> {
    let file = FILES.files().find(|file| file.path().to_str() == Some(name))?;
    Some(Asset {
        media_type: media_type(name).filter(|_| hash == MADE.1 && name != PAGE)?,
        content: file.contents(),
    })
}

/// The type of a file by the end of its name; `None` if the console has no such files.
fn media_type(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    Some(match ending {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "html" => "text/html; charset=utf-8",
        _ => return None,
    })
}

/// The first characters of a SHA-256 of names and contents.
fn hash() -> String {
    let mut files: Vec<_> = FILES.files().collect();
    files.sort_by_key(|file| file.path());
    let mut sum = Sha256::new();
    for file in files {
        let name = file.path().as_os_str().as_encoded_bytes();
        for part in [name, file.contents()] {
            sum.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            sum.update(part);
        }
    }
    let mut text = hex(&sum.finalize());
    text.truncate(HASH);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_few_and_small_and_each_has_a_type() {
        let files: Vec<_> = FILES.files().collect();
        let bytes: usize = files.iter().map(|file| file.contents().len()).sum();
        assert_eq!(FILES.dirs().count(), 0);
        assert!((2..=16).contains(&files.len()), "{} files", files.len());
        assert!(bytes <= 160 * 1024, "{bytes} bytes");
        for file in files {
            let name = file.path().to_str().unwrap();
            assert!(media_type(name).is_some(), "{name}");
            assert!(file.contents_utf8().is_some(), "{name}");
        }
    }

    #[test]
    fn the_page_names_its_files_by_their_hash() {
        assert!(!page().contains(FOLDER), "{}", page());
        assert!(page().contains(&format!("/console/a/{}/", MADE.1)), "{}", page());
        assert_eq!(MADE.1.len(), HASH);
    }
}
