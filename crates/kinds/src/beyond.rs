//! What of the language of kinds the gateway does not carry yet.

use super::{ConditionsIn, FederatedKind, Kinds, Reference, Required, UNLIMITED, file};

impl Kinds {
    /// Names the first kind that the gateway does not carry yet, with its file and the field; `None` if it carries all.
    pub fn beyond_this_version(&self) -> Option<String> {
        let refuse = |file: &str, field: &str| format!("{file}: this version does not carry {field} yet");
        let federated = self
            .federated
            .iter()
            .find_map(|kind| Some(refuse(&kind.origin.file, &kind.beyond_this_version()?)));
        let platform = || {
            self.platform
                .first()
                .map(|kind| refuse(&kind.origin, "scope: Cluster"))
        };
        federated.or_else(platform)
    }
}

impl FederatedKind {
    /// Names the first field in use that the gateway does not carry yet; `None` if it carries the kind.
    pub fn beyond_this_version(&self) -> Option<String> {
        let references = self.companions.iter().flat_map(|section| &section.references);
        let of_the_rest = [
            (!self.returns.is_empty(), "returns"),
            (
                self.status.conditions_in == ConditionsIn::Annotation,
                "status.conditionsIn: annotation",
            ),
        ];
        let used = |fields: &[(bool, &str)]| {
            fields
                .iter()
                .find(|(used, _)| *used)
                .map(|(_, field)| (*field).to_owned())
        };
        references
            .filter_map(beyond)
            .next()
            .or_else(|| used(&of_the_rest))
    }
}

fn beyond(reference: &Reference) -> Option<String> {
    let resource = &reference.resource;
    let what = match () {
        () if reference.companion_kind().is_none() => format!("companions of kind {}", resource.kind),
        () if reference.required == Required::Always => "companions.references[].required: always".to_owned(),
        () if ![UNLIMITED, file::SOURCE_BYTES].contains(&reference.max_bytes) => {
            "companions.references[].maxBytes".to_owned()
        }
        () => return None,
    };
    Some(what)
}
