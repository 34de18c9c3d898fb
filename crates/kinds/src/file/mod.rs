//! The schemas of `kind.yaml`, one for each language and scope.

pub(crate) mod one;
pub(crate) mod platform;
pub(crate) mod two;

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny},
};
use serde_json::Value;
use serde_saphyr::Spanned;

/// The largest status of a kind of language 2, in bytes, unless its file says otherwise.
pub(crate) const STATUS_BYTES: u32 = 64 << 10;

/// The largest payload of a companion's source, in bytes, unless the file says otherwise.
pub(crate) const SOURCE_BYTES: u32 = 256 << 10;

/// The largest data of a Secret that goes back, in bytes, unless the file says otherwise.
pub(crate) const RETURN_BYTES: u32 = 64 << 10;

/// A field that [`Head`] has read already.
type Unread = Option<IgnoredAny>;

/// The fields that say by which schema the rest is read.
#[derive(Deserialize)]
pub(crate) struct Head {
    pub(crate) language: Option<Spanned<Value>>,
    pub(crate) scope: Option<Spanned<Value>>,
}

/// A schema of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    /// Language 1.
    One,
    /// Language 2, a kind that is federated.
    Two,
    /// Language 2, a kind of the platform.
    Platform,
}

/// A part of a file, with the names of its fields.
pub(crate) type Section = (&'static str, &'static [&'static str]);

impl Schema {
    /// The sections of the file with their allowed fields; the first section is the file itself.
    pub(crate) fn sections(self) -> Vec<Section> {
        match self {
            Self::One => vec![
                (FILE, fields_of::<one::KindFile>()),
                (PLACEMENT, fields_of::<one::PlacementFile>()),
                (STATUS, fields_of::<one::StatusFile>()),
                (COMPANIONS, fields_of::<one::CompanionsFile>()),
                (REFERENCES, fields_of::<one::ReferenceFile>()),
                ("writeBack", fields_of::<two::WriteBackFile>()),
                ("interpreter", fields_of::<two::InterpreterFile>()),
            ],
            Self::Two => vec![
                (FILE, fields_of::<two::KindFile>()),
                (PLACEMENT, fields_of::<two::PlacementFile>()),
                (STATUS, fields_of::<two::StatusFile>()),
                (COMPANIONS, fields_of::<two::CompanionsFile>()),
                (REFERENCES, fields_of::<two::ReferenceFile>()),
                ("writeBack", fields_of::<two::WriteBackFile>()),
                ("deletion", fields_of::<two::DeletionFile>()),
                ("deletion.guards[]", fields_of::<two::GuardFile>()),
                ("returns[]", fields_of::<two::ReturnFile>()),
                ("interpreter", fields_of::<two::InterpreterFile>()),
            ],
            Self::Platform => vec![
                (FILE, fields_of::<platform::KindFile>()),
                ("platform", fields_of::<platform::PlatformFile>()),
                ("platform.selector", fields_of::<platform::SelectorFile>()),
                (
                    "platform.selector.matchExpressions[]",
                    fields_of::<platform::ExpressionFile>(),
                ),
            ],
        }
    }

    /// Whether this schema has the field in a section.
    pub(crate) fn has(self, section: &str, field: &str) -> bool {
        let sections = self.sections();
        let mut named = sections.iter().filter(|(name, _)| *name == section);
        named.any(|(_, fields)| fields.contains(&field))
    }
}

/// Sections that several schemas have.
pub(crate) const FILE: &str = "the file";
const PLACEMENT: &str = "placement";
const STATUS: &str = "status";
const COMPANIONS: &str = "companions";
const REFERENCES: &str = "companions.references[]";

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
