//! The fields of a kind's file that the gateway does not carry yet.

use super::{
    Cardinality, ConditionsIn, FederatedKind, FinishedWhen, Kinds, Reference, Required, Suspension,
    UNLIMITED, file,
};

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
        let placement = &self.placement;
        let of_placement = [
            (
                placement.cardinality == Cardinality::ExactlyOne,
                "placement.cardinality: exactlyOne",
            ),
            (placement.immutable, "placement.immutable: true"),
            (placement.require_member_api, "placement.requireMemberAPI: true"),
        ];
        let mut references = self.companions.iter().flat_map(|section| &section.references);
        let of_the_rest = [
            (
                self.deletion.finished_when == FinishedWhen::MemberAbsent,
                "deletion.finishedWhen: memberAbsent",
            ),
            (!self.deletion.guards.is_empty(), "deletion.guards"),
            (self.deletion.abandon, "deletion.abandon: true"),
            (!self.returns.is_empty(), "returns"),
            (self.suspension == Suspension::Dispatch, "suspension: dispatch"),
            (
                ![UNLIMITED, file::STATUS_BYTES].contains(&self.status.max_bytes),
                "status.maxBytes",
            ),
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
        used(&of_placement)
            .or_else(|| references.find_map(beyond))
            .or_else(|| used(&of_the_rest))
    }
}

fn beyond(reference: &Reference) -> Option<String> {
    let resource = &reference.resource;
    let what = match () {
        () if reference.companion_kind().is_none() => {
            format!("companions of kind {} of {}", resource.kind, resource.api_version)
        }
        () if reference.required == Required::Always => "companions.references[].required: always".to_owned(),
        () if reference.before_applied => "companions.references[].before: applied".to_owned(),
        () if ![UNLIMITED, file::SOURCE_BYTES].contains(&reference.max_bytes) => {
            "companions.references[].maxBytes".to_owned()
        }
        () => return None,
    };
    Some(what)
}
