//! Ordinals: the position of an Instance within its deployment.

use super::RolloutInstance;
use fedgate_api::{keys, names::ordinal};

/// Name of the Instance with this ordinal.
pub fn name(deployment: &str, ordinal: u32) -> String {
    format!("{deployment}-{ordinal}")
}

/// The ordinal in a name of the form `<deployment>-<ordinal>`.
pub fn of_name(deployment: &str, name: &str) -> Option<u32> {
    ordinal(name.strip_prefix(deployment)?.strip_prefix('-')?)
}

/// The ordinal of an Instance. Its name wins over its label, because the name is immutable and occupies the slot's
/// name.
pub fn of(deployment: &str, instance: &RolloutInstance) -> Option<u32> {
    let label = instance.labels.get(keys::INSTANCE_INDEX);
    of_name(deployment, &instance.name).or_else(|| ordinal(label?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_ordinal_only_behind_the_whole_name_of_the_deployment() {
        assert_eq!(of_name("web-us-dfw", "web-us-dfw-3"), Some(3));
        for other in [
            "web-us-dfw",
            "web-us-dfw-",
            "web-us-dfw-x-3",
            "web-us-df-3",
            "web-us-dfw3",
        ] {
            assert_eq!(of_name("web-us-dfw", other), None, "{other}");
        }
    }
}
