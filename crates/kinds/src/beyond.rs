//! The fields of a kind's file that the gateway does not carry yet.

use super::{ConditionsIn, FederatedKind, Kinds, Reference, Required, Suspension, UNLIMITED, file};

impl Kinds {
    /// Names the first kind that the gateway does not carry yet, with its file and the field; `None` if it carries all.
    pub fn beyond_this_version(&self) -> Option<String> {
        let refuse = |file: &str, field: &str| format!("{file}: this version does not carry {field} yet");
        self.federated
            .iter()
            .find_map(|kind| Some(refuse(&kind.origin.file, &kind.beyond_this_version()?)))
    }
}

impl FederatedKind {
    /// Names the first field in use that the gateway does not carry yet; `None` if it carries the kind.
    pub fn beyond_this_version(&self) -> Option<String> {
        let mut references = self.companions.iter().flat_map(|section| &section.references);
        let at_all = !self.is_exactly_one();
        let of_the_rest = [
            (at_all && self.placement.immutable, "placement.immutable: true"),
            (
                at_all && self.placement.require_member_api,
                "placement.requireMemberAPI: true",
            ),
            (at_all && !self.deletion.guards.is_empty(), "deletion.guards"),
            (
                at_all && self.suspension == Suspension::Dispatch,
                "suspension: dispatch",
            ),
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
        references.find_map(beyond).or_else(|| used(&of_the_rest))
    }
}

fn beyond(reference: &Reference) -> Option<String> {
    let resource = &reference.resource;
    let what = match () {
        () if reference.companion_kind().is_none() => {
            format!("companions of kind {} of {}", resource.kind, resource.api_version)
        }
        () if reference.required == Required::Always => "companions.references[].required: always".to_owned(),
        () if ![UNLIMITED, file::SOURCE_BYTES].contains(&reference.max_bytes) => {
            "companions.references[].maxBytes".to_owned()
        }
        () => return None,
    };
    Some(what)
}
