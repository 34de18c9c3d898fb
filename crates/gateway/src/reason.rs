//! Reasons for which the gateway writes, and for which it quarantines an object.

fedgate_engine::labels! {
    /// Why the gateway writes: the label `reason` of `fedgate_writes_total`.
    pub enum WriteReason: fedgate_engine::plan::ReasonLabel {
        /// A deployment gets the federator's finalizer and the name of its hub namespace.
        Announce = "announce",
        /// A deployment has no copy.
        CreateCopy = "create_copy",
        /// A copy differs from its deployment.
        UpdateCopy = "update_copy",
        /// A deployment is in another city.
        MoveCopy = "move_copy",
        /// A copy is given to another delivery policy on its way to its one member.
        ChangeLane = "change_lane",
        /// A member is chosen for an object, or has it.
        WritePin = "write_pin",
        /// A deleted object is gone at its member.
        RemovePin = "remove_pin",
        /// A deleted object is to wait for its member no longer, by its annotation.
        AbandonMember = "abandon_member",
        /// A companion is given to other members.
        MoveCompanion = "move_companion",
        /// A project is suspended or resumed, and a copy says so.
        SuspendCopy = "suspend_copy",
        /// A copy belongs to an earlier deployment of the name.
        ReplaceCopy = "replace_copy",
        /// A copy does not name the cell whose write-backs count.
        NameCell = "name_cell",
        /// A move is planned, or a planned move or a request is withdrawn.
        RequestMove = "request_move",
        /// A planned move begins at the binding.
        StartMove = "start_move",
        /// The new cell has taken over, so Karmada may delete the object at the former cell.
        EndMove = "end_move",
        /// A deployment did not become healthy at another cell.
        CancelMove = "cancel_move",
        /// A policy's claim of a copy was lost.
        RepairClaim = "repair_claim",
        /// A deployment is deleted.
        DeleteCopy = "delete_copy",
        /// A copy belongs to an earlier project of the name.
        DrainEarlierLife = "drain_earlier_life",
        /// A deployment has nothing left on the hub.
        RemoveFinalizers = "let_go",
        /// A deployment lacks the status of its copy, or a condition.
        ReturnStatus = "return_status",
        /// A deployment waits for the hub or for a permission, and its tenant is told.
        ReportDelay = "report_delay",
        /// A companion is missing.
        CreateCompanion = "create_companion",
        /// A companion differs from its source.
        UpdateCompanion = "update_companion",
        /// A companion cannot be updated, e.g. another type of Secret.
        ReplaceCompanion = "replace_companion",
        /// Other deployments reference a companion.
        CountCompanion = "count_companion",
        /// No deployment references a companion.
        ReleaseCompanion = "release_companion",
        /// A hub Namespace is missing.
        CreateNamespace = "create_namespace",
        /// Labels of a hub Namespace were edited.
        RestoreNamespace = "restore_namespace",
        /// A hub Namespace uses other cities.
        MoveNamespace = "move_namespace",
        /// An administrator assigned a hub Namespace to another project.
        ReassignNamespace = "reassign_namespace",
        /// The policy of a city set is missing.
        CreateCitySet = "create_city_set",
        /// The policy of a city set was edited.
        RestoreCitySet = "restore_city_set",
        /// A city set has no users.
        DeleteCitySet = "delete_city_set",
        /// The policy of a city or location is missing, or a delivery policy.
        CreateCityPolicy = "create_city_policy",
        /// The policy of a city or location was edited, or a delivery policy.
        RestoreCityPolicy = "restore_city_policy",
        /// The policy of a city or location is not in use, or a delivery policy.
        DeleteCityPolicy = "delete_city_policy",
        /// A write-back has no projection.
        CreateProjection = "create_projection",
        /// A projection differs from its write-back.
        UpdateProjection = "update_projection",
        /// A projection lacks the status of its write-back.
        ProjectStatus = "project_status",
        /// A write-back is gone.
        DeleteProjection = "delete_projection",
        /// A Secret has come back from a member.
        CreateReturn = "create_return",
        /// A Secret that has come back differs from that of its member.
        UpdateReturn = "update_return",
        /// A Secret that has come back cannot be updated: its type, or the object that owns it, is another one.
        ReplaceReturn = "replace_return",
        /// A Secret that has come back is gone at its member.
        DeleteReturn = "delete_return",
        /// A copy has lost its deployment.
        DeleteOrphan = "delete_orphan",
        /// A Project is deleted, whatever its own API says.
        TearDown = "tear_down",
        /// A hub Namespace has lost its project namespace.
        CollectNamespace = "collect_namespace",
        /// A binding has lost its template.
        DeleteOrphanedBinding = "delete_orphaned_binding",
        /// An interpreter is missing.
        CreateInterpreter = "create_interpreter",
        /// An interpreter was edited.
        RestoreInterpreter = "restore_interpreter",
        /// A project lacks an object of the platform.
        CreatePlatformObject = "create_platform_object",
        /// An object of the platform was edited, on the hub or in a project.
        UpdatePlatformObject = "update_platform_object",
        /// An object of the platform is gone on the hub.
        DeletePlatformObject = "delete_platform_object",
        /// A Workload lacks the finalizer.
        HoldWorkload = "hold_workload",
        /// A deleted Workload has no deployment.
        RemoveWorkloadFinalizer = "let_workload_go",
        /// A placement of a Workload lacks a deployment.
        CreateDeployment = "create_deployment",
        /// A deployment differs from its Workload.
        UpdateDeployment = "update_deployment",
        /// A Workload no longer wants a deployment.
        DeleteDeployment = "delete_deployment",
        /// A Workload's status differs from those of its deployments.
        RollUp = "roll_up",
    }
}

impl WriteReason {
    /// The reason with this label.
    pub fn of(label: fedgate_engine::plan::ReasonLabel) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| label == *reason)
    }
}

fedgate_engine::labels! {
    /// Why the gateway quarantines an object: the label `reason` of `fedgate_quarantined_objects`.
    pub enum Verdict: fedgate_engine::reconcile::quarantine::VerdictLabel {
        /// The identity labels name another owner.
        IdentityMismatch = "identity_mismatch",
        /// The name of a city set is that of another set.
        CitySetCollision = "city_set_collision",
        /// A write-back has no deployment's name.
        MissingDeploymentName = "missing_deployment_name",
        /// A write-back is controlled by another object than its deployment, or by none.
        OwnerMismatch = "owner_mismatch",
        /// A cell has written more Instances of a deployment than are projected.
        TooMany = "too_many",
        /// The object, or its status, is too large.
        TooLarge = "too_large",
        /// An object that fedgate did not make has the name.
        NameTaken = "name_taken",
        /// A member returns a Secret that its kind does not admit, or that is not the one which its object names.
        NotAllowed = "not_allowed",
        /// The object cannot be decoded.
        Undecodable = "undecodable",
    }
}

fedgate_engine::words! {
    /// Why the gateway rejects an identity: the label `reason` of `fedgate_identity_rejections_total`.
    pub enum IdentityRejection {
        /// The identity labels of an object name another owner.
        Mismatch = "identity_mismatch",
        /// The identity labels of a hub Namespace were edited.
        LabelsEdited = "namespace_labels_edited",
        /// A project namespace claims the hub Namespace of another project.
        NamespaceClaimed = "hub_namespace_claimed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_a_word_of_its_own() {
        WriteReason::check_words();
        Verdict::check_words();
    }
}
