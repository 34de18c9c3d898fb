//! The parameter `continue`: where the next page begins, with a check that only this process computes.

use super::refusal::Refusal;
use fedgate_api::names::hex;
use fedgate_operations::{
    ErrorCode,
    query::{From, Sort},
};
use std::hash::{BuildHasher, RandomState};

/// Hexadecimal digits of the check.
const CHECK: usize = 16;
/// Maximum length of a position before it is encoded.
const LIMIT: usize = 512;

/// Encodes and decodes the positions of this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Positions {
    /// Keys of the hash, drawn at random for each process.
    key: RandomState,
}

/// A list and its order, to which a position belongs.
pub(super) type List = (&'static str, Sort);

impl Positions {
    /// The name of this process for streams.
    pub(super) fn process(&self) -> String {
        format!("{:08x}", self.key.hash_one("process") & 0xffff_ffff)
    }

    /// The value of `continue`; `None` at the start of a list.
    pub(super) fn encode(&self, list: List, from: &From) -> Option<String> {
        let place = match from {
            From::Start => return None,
            From::After(name) => format!("a{name}"),
            From::Skip(rows) => format!("s{rows}"),
        };
        let text = format!("{}\n{:?}\n{place}", list.0, list.1);
        let check = self.key.hash_one(&text);
        Some(format!("{check:016x}{}", hex(text.as_bytes())))
    }

    /// The position of a value of `continue`.
    pub(super) fn decode(&self, list: List, token: &str) -> Result<From, Refusal> {
        let text = self.verified(token).ok_or_else(|| {
            Refusal::new(
                ErrorCode::Expired,
                "continue is of another process, or is no value that an answer had",
                "begin again without continue",
            )
        })?;
        let other =
            || Refusal::invalid("continue is of another list or another sort; begin again without continue");
        let (head, place) = text.rsplit_once('\n').ok_or_else(other)?;
        if head != format!("{}\n{:?}", list.0, list.1) {
            return Err(other());
        }
        match (place.strip_prefix('a'), place.strip_prefix('s')) {
            (Some(name), _) => Ok(From::After(name.to_owned())),
            (_, Some(rows)) => rows.parse().map(From::Skip).map_err(|_| other()),
            _ => Err(other()),
        }
    }

    /// The text of a token whose check is right.
    fn verified(&self, token: &str) -> Option<String> {
        let (check, digits) = token.split_at_checked(CHECK)?;
        if digits.len() > 2 * LIMIT || digits.len() % 2 != 0 {
            return None;
        }
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let text = String::from_utf8(bytes?).ok()?;
        (format!("{:016x}", self.key.hash_one(&text)) == check).then_some(text)
    }
}
