//! Failures of requests: the object and the verb that they concern, and their category.

use crate::{
    error::{Category, Failure, classify, misses_namespace},
    plan::Target,
};
use std::time::Duration;

/// A failure of this category.
pub(super) fn failed(target: &Target, verb: &'static str, category: Category, message: &str) -> Failure {
    Failure {
        plane: target.plane.clone(),
        verb,
        object: format!(
            "{} {}{}",
            target.kind(),
            target
                .namespace
                .as_ref()
                .map(|n| format!("{n}/"))
                .unwrap_or_default(),
            target.name
        ),
        category,
        message: message.to_owned(),
        retry_after: Duration::ZERO,
    }
}

/// The failure that an error of the client stands for.
pub(super) fn failure(target: &Target, verb: &'static str, error: &kube::Error) -> Failure {
    let (category, message, retry_after) = classify(error);
    let namespace = target.namespace.as_deref();
    let category = if namespace.is_some_and(|namespace| misses_namespace(error, namespace)) {
        Category::NamespaceMissing
    } else {
        category
    };
    Failure {
        retry_after,
        ..failed(target, verb, category, &message)
    }
}
