//! The part of the operations API that the role adds: next steps (contract: operations.md §2.2).

use super::Returns;
use fedgate_operations::{Class, views::role::Answering};

impl Answering for Returns {
    fn next_step(class: Class, plane: &str, word: &str) -> String {
        match class {
            Class::Right => {
                let roles = if plane == "cell" { "member" } else { plane };
                format!(
                    "apply the roles for {roles} that fedgate manifests --interpreters writes: {word} is denied"
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
