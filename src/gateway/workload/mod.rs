//! Workload controller.
use super::context::Context;
use crate::{api::names::ProjectKey, engine::{error::Failure, key::Key, plan::Next}};
/// One turn.
pub async fn reconcile(_ctx: &Context, _key: &Key, _project: &ProjectKey) -> Result<Next, Failure> { Ok(Next::OnEvent) }
