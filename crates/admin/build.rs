//! Builds this package again when a file of the console comes or goes, because the executable contains them.

fn main() {
    println!("cargo:rerun-if-changed=src/console/assets");
}
