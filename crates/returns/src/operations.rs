//! The part of the operations API that the role adds: next steps (contract: operations.md §2.2).

use super::Returns;
use fedgate_operations::{Class, views::role::Answering};

impl Answering for Returns {
    fn next_step(class: Class, plane: &str, word: &str) -> String {
        match class {
            Class::Right => {
                let (target, files) = if plane == "cell" {
                    ("the member", "OUT/member")
                } else {
                    (
                        "the hub",
                        "OUT/hub/cell-returns.yaml and OUT/hub/role-of-returns.yaml",
                    )
                };
                format!(
                    "apply {files} to {target}; fedgate manifests --write OUT writes them, with the --builtin-kinds and \
                     --interpreters of fedgate returns: {word} is denied"
                )
            }
            Class::Plane => {
                "check the address and the credential of the plane, the network and the API server itself"
                    .to_owned()
            }
            _ => "see the log of fedgate returns for the key".to_owned(),
        }
    }
}
