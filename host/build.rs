//! Builds the binary anew when what it embeds changes: `include_dir!` alone does not notice new files.

fn main() {
    for folder in ["../sdks", "../wit", "../crates/model/src", "../crates/framework/src"] {
        println!("cargo::rerun-if-changed={folder}");
    }
}
