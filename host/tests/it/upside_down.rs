//! Builds `fixtures/upside-down`, a plugin to put in a built-in's place.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use wit_component::ComponentEncoder;

const TARGET: &str = "wasm32-unknown-unknown";

/// The component's bytes.
///
/// The crate is copied out of the source tree, so that the build leaves nothing there, and gets the workspace's lock
/// file, so that it needs no crate that the workspace has not fetched.
pub(crate) fn component() -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/upside-down");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("upside-down");
    fs::create_dir_all(copy.join("src")).expect("a folder");
    let manifest = fs::read_to_string(source.join("Cargo.toml")).expect("its manifest");
    let manifest = manifest.replace("../../../..", &workspace.display().to_string());
    write(&copy.join("Cargo.toml"), manifest.as_bytes());
    write(&copy.join("src/lib.rs"), &fs::read(source.join("src/lib.rs")).expect("its source"));
    fs::copy(workspace.join("Cargo.lock"), copy.join("Cargo.lock")).expect("the lock file");
    build(&copy);
    let module = copy.join("target").join(TARGET).join("release/upside_down.wasm");
    let module = fs::read(module).expect("the module");
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(&module).expect("a module of the contract").encode().expect("a component")
}

fn build(folder: &Path) {
    let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.current_dir(folder).args(["build", "--release", "--offline", "--target", TARGET, "--target-dir"]);
    cargo.arg(folder.join("target"));
    // What the outer build was given is meant for the host, not for wasm.
    for inherited in ["RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"]
    {
        cargo.env_remove(inherited);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+simd128");
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Leaves a file alone that is as it should be, for cargo looks at the time of its change.
fn write(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return;
    }
    fs::write(path, bytes).expect("a file");
}
