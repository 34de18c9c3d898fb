//! The schemas of `kind.yaml`, one for each scope.

pub(crate) mod kind;
pub(crate) mod platform;

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny},
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
pub(crate) type Section = (&'static str, &'static [&'static str]);

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

/// The field names that serde derived for a struct, so that error messages always match the parser.
fn fields_of<T: de::DeserializeOwned>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(Names(&mut fields)).map(drop);
    fields
}

/// A deserializer that returns no value, but records the field names of a struct.
struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("only structs have names"))
    }

    fn deserialize_struct<V: de::Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(de::Error::custom("the names are known"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
