//! Rebuilds the crate when a file is added, removed or changed that it embeds.

fn main() {
    println!("cargo:rerun-if-changed=src/yaml");
    println!("cargo:rerun-if-changed=../../charts/fedgate/templates");
}
