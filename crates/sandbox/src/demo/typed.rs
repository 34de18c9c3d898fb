//! Lines that a person types in the story: each is printed with the answer of its program.

use crate::{Progress, SandboxError};
use futures::{StreamExt, stream};
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::Command,
};

/// Runs a program and prints the `line` that stands for it, and its answer. It must end with this code.
pub(super) async fn answer(
    command: &mut Command,
    line: &str,
    code: i32,
    out: &Progress,
) -> Result<(), SandboxError> {
    out.say(&format!("   $ {line}"));
    let cannot_start = |error: std::io::Error| {
        SandboxError::Demo(format!("cannot start {line}: {error}; build it: make build"))
    };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot_start)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut answer = stream::select(
        stream::iter(stdout).flat_map(|out| lines(out).boxed()),
        stream::iter(stderr).flat_map(|err| lines(err).boxed()),
    );
    while let Some(text) = answer.next().await {
        out.say(&format!("     {text}"));
    }
    let ended = child.wait().await.map_err(cannot_start)?;
    if ended.code() == Some(code) {
        return Ok(());
    }
    Err(SandboxError::Demo(format!(
        "{line}: ended with {ended}, not with exit code {code}"
    )))
}

/// The lines of a stream, up to its end.
fn lines(stream: impl AsyncRead + Unpin + Send) -> impl stream::Stream<Item = String> + Send {
    stream::unfold(BufReader::new(stream).lines(), |mut lines| async {
        let line = lines.next_line().await.ok().flatten()?;
        Some((line, lines))
    })
}
