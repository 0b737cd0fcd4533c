//! Tests of how the SDKs get their tools, without a network: pip finds a wheel in a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::Result;
use berth_test_languages::folder;
use berth_wasm_host::Binary;

/// Writes a wheel that holds a file, and a program in Python.
const WHEEL: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("hammer/head", "iron")
    wheel.writestr("hammer/__init__.py", "def main():\n    print('bang')\n")
    info = "hammer-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: hammer\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "entry_points.txt", "[console_scripts]\nhammer = hammer:main\n")
    wheel.writestr(info + "RECORD", "hammer/head,,\nhammer/__init__.py,,\nhammer-1.0.dist-info/RECORD,,\n")
"#;

/// A folder with a wheel, the digests for pins, and an empty cache.
struct Bench {
    folder: tempfile::TempDir,
    digest: String,
}

impl Bench {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let wheel = folder.path().join("hammer-1.0-py3-none-any.whl");
        let made = Command::new("python3").args(["-c", WHEEL]).arg(&wheel).status()?;
        assert!(made.success());
        let digest = Binary::new("hammer", fs::read(wheel)?).digest().to_string();
        Ok(Self { folder, digest: digest.trim_start_matches("sha256:").to_owned() })
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("cache/hammer-1.0")
    }

    fn fetch(&self, digest: &str, flag: &str) -> Result<Output> {
        let pins = self.folder.path().join("tools.txt");
        fs::write(&pins, format!("# A comment.\nhammer==1.0 --hash=sha256:{digest}  # 1 MB\n"))?;
        let mut python = Command::new("python3");
        python.arg(folder("sdks/fetch.py")).arg(pins).arg(flag);
        python.env("BERTH_TOOLCHAINS", self.folder.path().join("cache"));
        python.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", self.folder.path());
        Ok(python.output()?)
    }
}

#[test]
fn a_tool_is_fetched_once_whatever_an_interruption_left() -> Result<()> {
    let bench = Bench::new()?;
    assert!(!bench.fetch(&bench.digest, "--check")?.status.success());
    let left = bench.home().with_file_name("hammer-1.0.part/hammer");
    fs::create_dir_all(&left)?;
    fs::write(left.join("half"), "ir")?;

    let first = bench.fetch(&bench.digest, "--paths")?;
    let said = String::from_utf8(first.stderr)?;
    assert!(said.starts_with("fetching hammer 1.0 from PyPI (1 MB) ...\nfetched hammer 1.0 in "), "{said}");
    assert_eq!(String::from_utf8(first.stdout)?, format!("hammer={}\n", bench.home().display()));
    assert_eq!(fs::read_to_string(bench.home().join("hammer/head"))?, "iron");
    assert!(!bench.home().join("hammer/half").exists() && !left.exists());
    let program = Command::new(bench.home().join("bin/hammer")).output()?;
    assert_eq!(String::from_utf8(program.stdout)?, "bang\n");

    let second = bench.fetch(&bench.digest, "--paths")?;
    assert_eq!(String::from_utf8(second.stderr)?, "");
    assert!(bench.fetch(&bench.digest, "--check")?.status.success());
    Ok(())
}

#[test]
fn a_tool_with_another_digest_is_refused() -> Result<()> {
    let bench = Bench::new()?;
    let output = bench.fetch(&"0".repeat(64), "--paths")?;
    let said = String::from_utf8(output.stderr)?;
    assert!(!output.status.success() && said.contains("hammer 1.0 cannot be had"), "{said}");
    assert!(said.contains(&bench.digest), "{said}");
    assert!(!bench.home().exists());
    Ok(())
}

/// `sdks/bindings.py` must be run when the contract changes.
#[test]
fn the_bindings_for_c_and_go_are_those_of_the_contract() -> Result<()> {
    let is_wit = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "wit");
    let entries = fs::read_dir(folder("wit"))?.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).filter(is_wit).collect();
    files.sort();
    let contract = files.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?.concat();
    let digest = Binary::new("contract", contract).digest().to_string();
    let recorded = fs::read_to_string(folder("sdks").join(Path::new("bindings.wit.sha256")))?;
    assert_eq!(digest.trim_start_matches("sha256:"), recorded.trim(), "run sdks/bindings.py");
    Ok(())
}
