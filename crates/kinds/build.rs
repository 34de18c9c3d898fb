//! Builds the crate anew when a kind's folder comes, goes or changes: the kinds are part of the executable.

fn main() {
    println!("cargo:rerun-if-changed=../../interpreters");
}
