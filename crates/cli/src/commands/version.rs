//! `version`: of this command and of the server.

use crate::{
    error::Error,
    output::{Format, Output, table::escape, write},
    plane::Plane,
};
use serde_json::json;

/// Prints both versions.
pub(crate) async fn run(plane: &Plane, output: &Output) -> Result<(), Error> {
    let client = env!("CARGO_PKG_VERSION");
    let server = plane.version().await?;
    if matches!(output.format, Format::Table | Format::Wide) {
        return write(&format!("client  {client}\nserver  {}\n", escape(&server)));
    }
    output.object(
        &json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Version", "metadata": {"name": "version"},
        "client": client, "server": server}),
    )
}
