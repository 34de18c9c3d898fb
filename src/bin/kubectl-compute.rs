//! Placeholder until the commands are wired.
fn main() {}
