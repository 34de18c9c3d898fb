//! Checks whether an object exists, with a list request that is not part of a watch.

use super::{Executor, failure};
use crate::{
    error::Failure,
    plan::{Endpoint, Target},
};
use kube::{api::ListParams, core::PartialObjectMeta};

/// Limit of objects in a list by label.
const MANY: u32 = 100;

/// The objects to list.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Objects with this label that are not being deleted.
    Labelled(&'a str, &'a str),
    /// The object with the target's name, terminating or not. Uses list because a role that allows list need not allow
    /// get.
    Named,
}

impl Executor {
    /// True if such an object of the target's kind and namespace exists, by a list request that is not part of a watch.
    /// A standby reads nothing.
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
                // If the list has another page, at least one object is assumed to stay.
                found.metadata.continue_.is_some_and(|token| !token.is_empty())
                    || found.items.iter().any(stays)
            }
            Which::Named => !found.items.is_empty(),
        })
    }
}
