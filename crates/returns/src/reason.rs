//! Reasons for which the role writes.

fedgate_engine::labels! {
    /// Why a member's returns are written: the label `reason` of `fedgate_writes_total`.
    pub enum WriteReason: fedgate_engine::plan::ReasonLabel {
        /// A Secret was not sent since the start, or differs from what was sent.
        Return = "return",
        /// A Secret is gone, or its object names another one.
        ReturnGone = "return_gone",
        /// A Secret has become too large.
        ReturnTooLarge = "return_too_large",
    }
}

fedgate_engine::labels! {
    /// Why a Secret is not sent: the label `reason` of `fedgate_quarantined_objects`.
    pub enum Verdict: fedgate_engine::reconcile::quarantine::VerdictLabel {
        /// The Secret is larger than its kind admits.
        TooLarge = "too_large",
        /// The name of its object, or its kind's, is no value of a label.
        NoLabelValue = "no_label_value",
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
