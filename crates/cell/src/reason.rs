//! Reasons for which a cell writes.

fedgate_engine::labels! {
    /// Why a cell writes: the label `reason` of `fedgate_writes_total`.
    pub enum WriteReason: fedgate_engine::plan::ReasonLabel {
        /// A deployment lacks an Instance.
        InstanceMissing = "instance_missing",
        /// An Instance is none of its deployment.
        InstanceStray = "instance_stray",
        /// A deployment has more Instances than it wants.
        InstanceSurplus = "instance_surplus",
        /// An Instance that never became available has an old template.
        InstanceFixForward = "instance_fix_forward",
        /// An Instance has an old template.
        InstanceRoll = "instance_roll",
        /// Labels of an Instance differ.
        InstanceLabels = "instance_labels",
        /// A deployment is suspended or resumed.
        InstanceSuspension = "instance_suspension",
        /// The network of an Instance is ready.
        InstanceNetwork = "instance_network",
        /// A deployment's status differs.
        DeploymentStatus = "deployment_status",
        /// The annotations for `onFailure: Undo` differ from those that the last complete rollout leaves.
        RolloutRecorded = "rollout_recorded",
        /// The rollout of a deployment has failed, and is undone.
        RolloutUndone = "rollout_undone",
        /// A deployment lacks a `NetworkBinding`.
        NetworkBinding = "network_binding",
        /// No Instance uses a `NetworkBinding`.
        NetworkBindingUnused = "network_binding_unused",
        /// A network lacks a `SubnetClaim`.
        SubnetClaim = "subnet_claim",
        /// An Instance lacks a finalizer.
        InstanceFinalizers = "instance_finalizers",
        /// Conditions of an Instance differ.
        InstanceConditions = "instance_conditions",
        /// A gate of an Instance is open.
        InstanceGates = "instance_gates",
        /// Nothing of an Instance is left on other planes.
        InstanceReleased = "instance_released",
        /// An Instance has no quota claim.
        QuotaClaim = "quota_claim",
        /// A quota claim is of no use.
        QuotaClaimAnew = "quota_claim_anew",
        /// An Instance has no write-back, or another one.
        WriteBack = "write_back",
        /// The write-back of an Instance lacks its status.
        WriteBackStatus = "write_back_status",
        /// A write-back belongs to an earlier Instance.
        WriteBackLeftover = "write_back_leftover",
        /// An Instance lacks the provider's finalizer.
        ProviderFinalizer = "provider_finalizer",
        /// No Pod of an Instance is left.
        ProviderDone = "provider_done",
        /// An object of the provider lacks its labels.
        ProviderLabels = "provider_labels",
        /// A namespace enforces no Pod Security profile.
        NamespacePodSecurity = "namespace_pod_security",
        /// An Instance has no Pod.
        Pod = "pod",
        /// A Pod has ended.
        PodReplaced = "pod_replaced",
        /// An Instance is suspended.
        PodSuspended = "pod_suspended",
        /// An Instance is deleted.
        PodStopped = "pod_stopped",
        /// The state of a crashing Pod changed.
        Recovery = "recovery",
        /// An Instance's report of its Pod differs.
        InstanceReport = "instance_report",
        /// An Instance lacks its Service, or has another one.
        Service = "service",
        /// An Instance needs no Service.
        ServiceUnwanted = "service_unwanted",
        /// The Instance of a Service is deleted.
        ServiceStopped = "service_stopped",
        /// An Instance lacks its `NetworkPolicy`, or has another one.
        NetworkPolicy = "network_policy",
        /// An Instance needs no `NetworkPolicy`.
        NetworkPolicyUnwanted = "network_policy_unwanted",
        /// The Instance of a `NetworkPolicy` is deleted.
        NetworkPolicyStopped = "network_policy_stopped",
        /// An object of an Instance is left on a plane that does not answer.
        ReleaseRecorded = "release_recorded",
        /// An Instance is gone.
        Release = "release",
        /// A recorded object is released.
        ReleaseDone = "release_done",
        /// All recorded objects are released.
        ReleasesDone = "releases_done",
    }
}

impl WriteReason {
    /// True if the write is more than a status or a label: it is logged.
    pub fn is_milestone(self) -> bool {
        matches!(
            self,
            Self::InstanceMissing
                | Self::InstanceStray
                | Self::InstanceSurplus
                | Self::InstanceFixForward
                | Self::InstanceRoll
                | Self::RolloutUndone
                | Self::InstanceSuspension
                | Self::InstanceGates
                | Self::InstanceNetwork
                | Self::InstanceReleased
                | Self::NetworkBinding
                | Self::NetworkBindingUnused
                | Self::QuotaClaimAnew
                | Self::Pod
                | Self::PodReplaced
                | Self::PodSuspended
                | Self::PodStopped
                | Self::WriteBackLeftover
                | Self::ReleaseRecorded
                | Self::ReleaseDone
        )
    }
}

impl WriteReason {
    /// The reason with this label.
    pub fn of(label: fedgate_engine::plan::ReasonLabel) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| label == *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_a_word_of_its_own() {
        WriteReason::check_words();
    }
}
