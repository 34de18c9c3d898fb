//! The token that the administrative address requires: a file, read at each request.

use crate::console::session::Key;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Minimum length of a token, in characters.
pub(super) const LEAST: usize = 16;

/// Location of the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    file: PathBuf,
}

/// Reason why no token is available.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("{}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The token is shorter than the minimum.
    #[error("{}: the token has {length} characters", file.display())]
    Short {
        /// The file.
        file: PathBuf,
        /// Length of the file's token, in characters.
        length: usize,
    },
}

/// The current token as a SHA-256 digest, without its characters.
pub(super) struct Wanted([u8; 32]);

impl Token {
    /// The token in this file.
    pub fn of(file: PathBuf) -> Self {
        Self { file }
    }

    /// Reads the token; surrounding white space is ignored.
    pub(super) async fn read(&self) -> Result<Wanted, TokenError> {
        let file = || self.file.clone();
        let text = tokio::fs::read_to_string(&self.file).await;
        let text = text.map_err(|source| TokenError::Unreadable { file: file(), source })?;
        let length = text.trim().chars().count();
        if length < LEAST {
            return Err(TokenError::Short { file: file(), length });
        }
        Ok(Wanted(Sha256::digest(text.trim()).into()))
    }
}

impl Wanted {
    /// The key of sessions that this token began.
    pub(super) fn sessions(&self) -> Key {
        Key::of(&self.0)
    }

    /// True if this is the token. Compares the digests in constant time, so that the duration reveals nothing about the
    /// token.
    pub(super) fn is(&self, shown: &str) -> bool {
        let shown: [u8; 32] = Sha256::digest(shown).into();
        let differing = self.0.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        differing == 0
    }
}
