//! An answer of the operations API, as it was sent and as a document.

use super::replicas::Address;
use fedgate_operations::{Answer as Document, Header, ReplicaRole};
use fedgate_terminal::error::{Error, Kind};
use serde::de::DeserializeOwned;
use std::fmt::Write;

/// Maximum size of an answer, in bytes: the API promises at most 1 MiB.
pub(super) const LARGEST: usize = 4 << 20;

/// An answer with status 200.
#[derive(Clone)]
pub(super) struct Answer {
    /// The replica's address.
    pub(super) address: Address,
    /// The fields of every answer.
    pub(super) header: Header,
    text: String,
}

impl Answer {
    /// Reads the fields of every answer.
    pub(super) fn read(address: Address, text: String) -> Result<Self, Error> {
        let header = decode(&text)?;
        Ok(Self {
            address,
            header,
            text,
        })
    }

    /// True if the replica writes; a standby has no failures and no journal.
    pub(super) fn is_leader(&self) -> bool {
        self.header.replica.role != ReplicaRole::Standby
    }

    /// The document.
    pub(super) fn document<T: DeserializeOwned>(&self) -> Result<Document<T>, Error> {
        decode(&self.text)
    }

    /// The object as it was sent, in one line. Control characters, which JSON allows above U+007E, are escaped for the
    /// terminal.
    pub(super) fn json(&self) -> String {
        let mut json = String::with_capacity(self.text.len() + 1);
        for c in self.text.trim().chars() {
            match c {
                // Between tokens: inside of a text they are escaped already.
                '\n' | '\r' | '\t' => json.push(' '),
                c if c.is_control() => {
                    let _ = write!(json, "\\u{:04x}", u32::from(c));
                }
                c => json.push(c),
            }
        }
        json.push('\n');
        json
    }
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(Kind::Failed, "the answer is no document of the operations API")
            .because(error.to_string())
            .next("fedgate --version, and compare it with the version that runs")
    })
}
