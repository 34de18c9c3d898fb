//! Rebuilds the crate when a kind's folder is added, removed or changed: the kinds are part of the executable.

fn main() {
    println!("cargo:rerun-if-changed=../../interpreters");
}
