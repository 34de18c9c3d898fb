//! The token that the administrative address asks for: a file, read when it is needed.

use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Fewest characters of a token.
pub(super) const LEAST: usize = 16;

/// Where the token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    file: PathBuf,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("{}: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is easily guessed.
    #[error("{}: the token has {length} characters", file.display())]
    Short {
        /// The file.
        file: PathBuf,
        /// What the file has.
        length: usize,
    },
}

/// A token as it is now. Its characters are not kept.
pub(super) struct Wanted([u8; 32]);

impl Token {
    /// The token in this file.
    pub fn of(file: PathBuf) -> Self {
        Self { file }
    }

    /// Reads it; white space around it does not count.
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
    /// Whether this is the token. Digests are compared, and to their ends: the time tells nothing of the token.
    pub(super) fn is(&self, shown: &str) -> bool {
        let shown: [u8; 32] = Sha256::digest(shown).into();
        let differing = self.0.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
        differing == 0
    }
}
