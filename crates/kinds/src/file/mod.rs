//! The schemas of `kind.yaml`, one for each scope.

pub(crate) mod kind;
pub(crate) mod platform;

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;
use serde_saphyr::Spanned;

/// The largest status that is returned, in bytes, unless the file says otherwise.
pub(crate) const STATUS_BYTES: u32 = 64 << 10;

/// The largest payload of a companion's source, in bytes, unless the file says otherwise.
pub(crate) const SOURCE_BYTES: u32 = 256 << 10;

/// The largest data of a Secret that goes back, in bytes, unless the file says otherwise.
pub(crate) const RETURN_BYTES: u32 = 64 << 10;

/// A field that [`Head`] has read already.
type Unread = Option<IgnoredAny>;

/// The field that says by which schema the rest is read.
#[derive(Deserialize)]
pub(crate) struct Head {
    pub(crate) scope: Option<Spanned<Value>>,
}

/// A schema of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    /// A kind that is federated.
    Federated,
    /// A kind of which the platform owns every object.
    Platform,
}

/// A part of a file, with the names of its fields.
pub(crate) type Section = (&'static str, Vec<String>);

impl Schema {
    /// The sections of the file with their allowed fields; the first section is the file itself.
    pub(crate) fn sections(self) -> Vec<Section> {
        match self {
            Self::Federated => vec![
                ("the file", fields_of::<kind::KindFile>()),
                ("placement", fields_of::<kind::PlacementFile>()),
                ("status", fields_of::<kind::StatusFile>()),
                ("companions", fields_of::<kind::CompanionsFile>()),
                ("companions.references[]", fields_of::<kind::ReferenceFile>()),
                ("writeBack", fields_of::<kind::WriteBackFile>()),
                ("deletion", fields_of::<kind::DeletionFile>()),
                ("deletion.guards[]", fields_of::<kind::GuardFile>()),
                ("returns[]", fields_of::<kind::ReturnFile>()),
                ("interpreter", fields_of::<kind::InterpreterFile>()),
            ],
            Self::Platform => vec![
                ("the file", fields_of::<platform::KindFile>()),
                ("platform", fields_of::<platform::PlatformFile>()),
                ("platform.selector", fields_of::<platform::SelectorFile>()),
                (
                    "platform.selector.matchExpressions[]",
                    fields_of::<platform::ExpressionFile>(),
                ),
            ],
        }
    }
}

/// The names of a struct's fields, as serde tells them of an unknown one, so that error messages always match the parser.
fn fields_of<T: DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_str::<T>(r#"{"?": 0}"#).err();
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    // unknown field `?`, expected one of `path`, `label`
    text.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}
