//! Builds the binary again when the embedded files change, because `include_dir!` alone does not notice new files.

fn main() {
    for folder in ["../../sdks", "../../wit"] {
        println!("cargo::rerun-if-changed={folder}");
    }
    for krate in ["model", "framework", "cache", "testing"] {
        println!("cargo::rerun-if-changed=../{krate}/src");
    }
}
