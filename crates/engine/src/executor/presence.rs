//! Whether there is an object, by a list that no watch serves.

use super::{Executor, failure};
use crate::{
    error::Failure,
    plan::{Endpoint, Target},
};
use kube::{api::ListParams, core::PartialObjectMeta};

/// How many objects with a label are looked at.
const MANY: u32 = 100;

/// Which objects are asked for.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Those with this label that are here to stay.
    Labelled(&'a str, &'a str),
    /// The one with the target's name, terminating or not. Who may list need not be allowed to get.
    Named,
}

impl Executor {
    /// Whether there is such an object of the target's kind and namespace, by a list that no watch serves. A standby reads
    /// nothing.
    pub async fn any(&self, target: &Target, which: Which<'_>) -> Result<bool, Failure> {
        self.may_write(target, "list")?;
        let api = self.api(target, Endpoint::Main, "list")?;
        let params = match which {
            Which::Labelled(key, value) => ListParams::default()
                .labels(&format!("{key}={value}"))
                .limit(MANY),
            Which::Named => ListParams::default().fields(&format!("metadata.name={}", target.name)),
        };
        let answer = api
            .list_metadata(&params)
            .await
            .map_err(|e| failure(target, "list", &e));
        self.ended(target, Endpoint::Main, "list", answer.as_ref().err());
        answer.map(|found| match which {
            Which::Labelled(..) => {
                let stays = |o: &PartialObjectMeta<_>| o.metadata.deletion_timestamp.is_none();
                // If they are more than one looks at, one of them will stay.
                found.metadata.continue_.is_some_and(|token| !token.is_empty())
                    || found.items.iter().any(stays)
            }
            Which::Named => !found.items.is_empty(),
        })
    }
}
