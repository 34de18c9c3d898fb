//! The fields of a kind's file that the gateway does not carry yet.

use super::{FederatedKind, Kinds, Suspension};

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
        let at_all = !self.is_exactly_one();
        let fields = [
            (at_all && self.placement.immutable, "placement.immutable: true"),
            (
                at_all && self.placement.require_member_api,
                "placement.requireMemberAPI: true",
            ),
            (at_all && !self.deletion.guards.is_empty(), "deletion.guards"),
            (at_all && !self.returns.is_empty(), "returns"),
            (
                at_all && self.suspension == Suspension::Dispatch,
                "suspension: dispatch",
            ),
        ];
        let mut used = fields.into_iter().filter(|(used, _)| *used);
        used.next().map(|(_, field)| field.to_owned())
    }
}
