//! `version`: of this command and of the server.

use crate::{
    error::Error,
    output::{Output, escaped},
    plane::Plane,
};
use serde_json::json;

/// Prints both versions.
pub(crate) async fn run(plane: &Plane, output: &Output) -> Result<(), Error> {
    let client = env!("CARGO_PKG_VERSION");
    let server = plane.version().await?;
    let lines = [format!("client  {client}"), format!("server  {server}")];
    let object = json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Version", "metadata": {"name": "version"},
        "client": client, "server": server});
    output.result(&escaped(&lines), &object)
}
