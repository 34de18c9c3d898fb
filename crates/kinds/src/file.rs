//! The schema of `kind.yaml`.

use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

/// A complete `kind.yaml`. Fields: docs/kinds.md.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct KindFile {
    pub(super) plural: Spanned<String>,
    pub(super) placement: PlacementFile,
    pub(super) carried_annotations: Vec<String>,
    pub(super) suspend_annotation: Option<String>,
    pub(super) status: StatusFile,
    pub(super) companions: Option<CompanionsFile>,
    pub(super) write_back: Option<WriteBackFile>,
    pub(super) interpreter: Option<InterpreterFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PlacementFile {
    pub(super) path: Spanned<String>,
    pub(super) label: Spanned<String>,
    pub(super) policy_prefix: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct StatusFile {
    pub(super) counters: Vec<String>,
    pub(super) own_conditions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CompanionsFile {
    pub(super) expected_annotation: Option<String>,
    pub(super) error_annotation: Option<String>,
    pub(super) references: Vec<ReferenceFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ReferenceFile {
    pub(super) kind: KindName,
    pub(super) path: Spanned<String>,
    pub(super) name_field: String,
    pub(super) may_be_optional: bool,
}

/// The kinds that a reference may name.
#[derive(Deserialize)]
pub(super) enum KindName {
    ConfigMap,
    Secret,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WriteBackFile {
    pub(super) api_version: Spanned<String>,
    pub(super) kind: Spanned<String>,
    pub(super) plural: Spanned<String>,
    pub(super) owner_label: String,
    pub(super) city_label: String,
    pub(super) linking_labels: Vec<String>,
    pub(super) scale_paths: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct InterpreterFile {
    pub(super) name: Spanned<String>,
}

/// The sections of the file with their allowed fields; the first section is the file itself.
pub(super) fn sections() -> [(&'static str, &'static [&'static str]); 7] {
    [
        ("the file", fields_of::<KindFile>()),
        ("placement", fields_of::<PlacementFile>()),
        ("status", fields_of::<StatusFile>()),
        ("companions", fields_of::<CompanionsFile>()),
        ("companions.references[]", fields_of::<ReferenceFile>()),
        ("writeBack", fields_of::<WriteBackFile>()),
        ("interpreter", fields_of::<InterpreterFile>()),
    ]
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
