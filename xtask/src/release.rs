//! `cargo xtask release`: all files of a release in one folder, from the checked-out sources.
//!
//! The programs are static and contain glibc (ADR 0015). Debian's compilers link the programs of other architectures.
//! Each program packs its own components, so QEMU's emulator runs the programs of other architectures. Archives and
//! layers contain the time of the commit, no owners, and names in a fixed order, so the same commit gives the same bytes
//! with the same compilers. The release also uses git, python3 with pip, GNU tar, gzip and sha256sum, and openssl for a
//! signature.

mod check;
mod container;
mod deb;
mod files;
mod image;
mod installed;
mod options;
mod provenance;
mod signature;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{cargo_home, cargo_with, output_of, release::options::Options, run, sbom, setup, target_dir};

/// The maximum size of a packed image.
const MAX_IMAGE_BYTES: u64 = 70_000_000;

/// Flags for C code that keep the time of the build out of the program. mimalloc has a text with `__DATE__` and
/// `__TIME__`.
const C_FLAGS: &str = "-Wno-builtin-macro-redefined -D__DATE__=\"redacted\" -D__TIME__=\"redacted\"";

/// The file with the licences of the crates and of the C library that a program contains.
const THIRD_PARTY: &str = "LICENSE-THIRD-PARTY";

/// The text that the archive of a program has as its README.md. The README.md of the repository is for readers who have
/// the sources.
const ARCHIVE_README: &str = "docs/archive-readme.md";

/// A processor architecture that programs are released for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Architecture {
    /// The name in container images and file names.
    name: &'static str,
    /// The name in Rust's targets and in `uname`.
    machine: &'static str,
    /// The name in Homebrew's formulas.
    family: &'static str,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture { name: "amd64", machine: "x86_64", family: "intel" },
    Architecture { name: "arm64", machine: "aarch64", family: "arm" },
];

/// What makes the C code of a program.
#[derive(Clone, Debug)]
struct CToolchain {
    /// The compiler with its version, for example `cc (Debian 12.2.0-14) 12.2.0`.
    compiler: String,
    /// The version of the glibc that the program contains, for example `2.36`.
    glibc: String,
}

impl Architecture {
    fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.machine)
    }

    /// The C compiler that links programs of this architecture.
    ///
    /// # Errors
    /// The compiler or its static C library is not installed.
    fn linker(self) -> Result<String> {
        let (linker, packages) = if self.machine == env::consts::ARCH {
            ("cc".to_owned(), "gcc and libc6-dev".to_owned())
        } else {
            let packages =
                format!("gcc-{}-linux-gnu and libc6-dev-{}-cross", self.machine.replace('_', "-"), self.name);
            (format!("{}-linux-gnu-gcc", self.machine), packages)
        };
        let missing = || format!("linking the program for {} needs Debian's packages {packages}", self.name);
        // A compiler that does not find the file prints the name alone.
        let library = output_of(&linker, &["-print-file-name=libc.a"]).with_context(missing)?;
        ensure!(Path::new(&library).is_absolute(), "{linker} has no libc.a: {}", missing());
        Ok(linker)
    }

    /// The installed C compiler and library.
    ///
    /// # Errors
    /// The C compiler is not installed, or links another C library.
    fn c_toolchain(self) -> Result<CToolchain> {
        let linker = self.linker()?;
        let macros = output_of(&linker, &["-E", "-dM", "-include", "features.h", "-x", "c", "/dev/null"])?;
        let number = |name: &str| macros.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        let version = number("__GLIBC__").zip(number("__GLIBC_MINOR__"));
        let (major, minor) = version.with_context(|| format!("{linker} does not link glibc"))?;
        Ok(CToolchain { compiler: version_of(&linker)?, glibc: format!("{major}.{minor}") })
    }

    /// The emulator that runs programs of this architecture; `None` on a machine of this architecture.
    ///
    /// # Errors
    /// The emulator is not installed.
    fn emulator(self) -> Result<Option<PathBuf>> {
        if self.machine == env::consts::ARCH {
            return Ok(None);
        }
        let names = [format!("qemu-{}-static", self.machine), format!("qemu-{}", self.machine)];
        let folders: Vec<PathBuf> = env::var_os("PATH").iter().flat_map(env::split_paths).collect();
        let found =
            names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|it| it.exists());
        let found = found.with_context(|| {
            format!(
                "{} is not on the PATH, which runs the program for {} so that it packs its components: install Debian's \
                 qemu-user-static, or leave the architecture out (--arch {})",
                names[0],
                self.name,
                env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64")
            )
        })?;
        Ok(Some(found))
    }

    /// A command that runs a program of this architecture on this machine.
    fn command(self, program: &Path) -> Result<Command> {
        let Some(emulator) = self.emulator()? else { return Ok(Command::new(program)) };
        let mut command = Command::new(emulator);
        command.arg(program);
        Ok(command)
    }
}

/// A release in progress.
struct Release {
    version: String,
    /// The commit, with `-dirty` if the tree differs from the commit.
    commit: String,
    /// The time of the commit, in seconds since 1970.
    epoch: String,
    /// The folder of the finished files.
    out: PathBuf,
    /// The folder in which files are made.
    scratch: PathBuf,
    /// What makes the C code of the program of each architecture, by the architecture's name.
    c_toolchains: BTreeMap<&'static str, CToolchain>,
}

pub(crate) fn release(arguments: &[String]) -> Result<()> {
    let Some(options) = Options::parse(arguments)? else { return Ok(()) };
    if let Some(folder) = &options.check {
        return check::check(folder, options.key.as_deref(), options.is_required);
    }
    if let (Some(folder), Some(key)) = (&options.sign, &options.key) {
        check::compare_checksums(folder)?;
        return signature::sign(folder, key);
    }
    let architectures: Vec<Architecture> =
        ARCHITECTURES.into_iter().filter(|it| options.architectures.is_empty() || options.is_named(it.name)).collect();
    // What is missing is reported before the compiler has worked for half an hour.
    let mut c_toolchains = BTreeMap::new();
    for architecture in &architectures {
        architecture.emulator()?;
        c_toolchains.insert(architecture.name, architecture.c_toolchain()?);
    }
    if let Some(key) = &options.key {
        signature::check_key(key)?;
    }
    setup()?;
    let release = Release::new(&options, c_toolchains)?;
    let mut programs = Vec::new();
    for architecture in &architectures {
        programs.push((*architecture, release.program(*architecture)?));
    }
    release.write_archives(&programs)?;
    let image = release.write_image(&programs, options.authorities.as_deref())?;
    release.write_rest(&programs)?;
    release.write_provenance(&options, &image)?;
    if let Some(key) = &options.key {
        signature::sign(&release.out, key)?;
    }
    eprintln!("{}: image {image}", release.out.display());
    let size = fs::metadata(release.out.join(release.image_file()))?.len();
    let bound = MAX_IMAGE_BYTES * architectures.len() as u64;
    ensure!(size <= bound, "the image has {size} bytes for {} architectures: more than {bound}", architectures.len());
    Ok(())
}

impl Release {
    fn new(options: &Options, c_toolchains: BTreeMap<&'static str, CToolchain>) -> Result<Self> {
        let metadata = output_of("cargo", &["metadata", "--no-deps", "--format-version", "1", "--locked"])?;
        let metadata: serde_json::Value =
            serde_json::from_str(&metadata).context("cannot read the output of cargo metadata")?;
        let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
        let host =
            packages.iter().find(|package| package["name"] == "berth-host").context("the workspace has no host")?;
        let version = host["version"].as_str().context("the host has no version")?.to_owned();
        check_tags(&output_of("git", &["tag", "--points-at", "HEAD", "--list", "v*"])?, &version)?;
        let mut commit = output_of("git", &["rev-parse", "HEAD"])?;
        // The program contains the whole folder of SDKs, so files that git ignores also count.
        let ignored = ["ls-files", "--others", "--ignored", "--exclude-standard", "--", "sdks"];
        if !output_of("git", &["status", "--porcelain"])?.is_empty() || !output_of("git", &ignored)?.is_empty() {
            eprintln!("warning: the working tree differs from the commit: do not publish this release");
            commit.push_str("-dirty");
        }
        let epoch = output_of("git", &["log", "-1", "--format=%ct"])?;
        let out = options.out.clone();
        if fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some()) {
            anyhow::bail!("--out {}: the folder is not empty", out.display());
        }
        fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
        let scratch = target_dir().join("release-files");
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        let (out, scratch) = (fs::canonicalize(out)?, fs::canonicalize(scratch)?);
        Ok(Self { version, commit, epoch, out, scratch, c_toolchains })
    }

    /// A release into a folder, without programs. It reads files of the workspace, and a test starts in the crate's
    /// folder, so this changes the current folder.
    #[cfg(test)]
    fn for_test(folder: &Path) -> Self {
        env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("the workspace");
        let (out, scratch) = (folder.join("out"), folder.join("scratch"));
        fs::create_dir_all(&out).expect("a folder");
        fs::create_dir_all(&scratch).expect("a folder");
        let (version, epoch) = ("0.1.0".to_owned(), "1700000000".to_owned());
        let toolchain = CToolchain { compiler: "cc 12.2.0".to_owned(), glibc: "2.36".to_owned() };
        let c_toolchains = ARCHITECTURES.map(|arch| (arch.name, toolchain.clone())).into();
        Self { version, commit: "abc".to_owned(), epoch, out, scratch, c_toolchains }
    }

    /// Builds the program with its components packed.
    fn program(&self, arch: Architecture) -> Result<PathBuf> {
        let target = arch.target();
        run("rustup", &["target", "add", &target])?;
        eprintln!("Building berth for {target}: some ten minutes on two cores.");
        let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
        let build =
            ["rustc", "--release", "--locked", "--package", "berth-host", "--bin", "berth", "--target", &target];
        let environment =
            [(linker.as_str(), arch.linker()?), ("CARGO_ENCODED_RUSTFLAGS", flags()?), ("CFLAGS", C_FLAGS.to_owned())];
        let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
        cargo_with(&[&build[..], &["--", "-Cstrip=symbols"]].concat(), &environment)?;
        let built = target_dir().join(&target).join("release/berth");
        let packed = self.scratch.join(arch.name).join("berth");
        fs::create_dir_all(self.scratch.join(arch.name))?;
        let slowly = if arch.emulator()?.is_some() { ", under an emulator: some ten minutes" } else { "" };
        eprintln!("Compiling the built-in components for {}{slowly}.", arch.name);
        let status = arch.command(&built)?.arg("pack").arg(&packed).status().context("cannot start berth pack")?;
        ensure!(status.success(), "berth pack failed for {}", arch.name);
        Ok(packed)
    }

    /// Writes the archives of the programs, and of the files that install them.
    fn write_archives(&self, programs: &[(Architecture, PathBuf)]) -> Result<()> {
        let texts = self.scratch.join("texts");
        let (first, program) = programs.first().context("no architecture is built")?;
        write_texts(*first, program, &texts)?;
        let targets: Vec<String> = programs.iter().map(|(arch, _)| arch.target()).collect();
        write(&texts.join(THIRD_PARTY), sbom::licences(&targets)?.as_bytes())?;
        self.write_debs(programs, &texts)?;
        for (arch, program) in programs {
            self.write_archive(*arch, program, &texts)?;
        }
        let deploy = self.scratch.join("archives").join(format!("berth-{}-deploy", self.version));
        fs::create_dir_all(&deploy)?;
        for part in ["kustomize", "static-pod", "monitoring"] {
            run("cp", &["-r", &format!("deploy/{part}"), &deploy.display().to_string()])?;
        }
        self.archive(&deploy, &self.out.join(format!("berth-{}-deploy.tar.gz", self.version)))?;
        let chart = self.scratch.join("archives/berth");
        run("cp", &["-r", "deploy/chart", &chart.display().to_string()])?;
        self.archive(&chart, &self.out.join(format!("berth-{}.tgz", self.version)))
    }

    /// Writes the archive of a program. The archive has no links, because krew refuses archives with links
    /// (<https://github.com/kubernetes-sigs/krew/blob/master/internal/download/downloader.go>).
    fn write_archive(&self, arch: Architecture, program: &Path, texts: &Path) -> Result<()> {
        let folder = self.scratch.join("archives").join(format!("berth-{}-linux-{}", self.version, arch.name));
        fs::create_dir_all(&folder)?;
        fs::copy(program, folder.join("berth"))?;
        for (from, to) in [("LICENSE", "LICENSE"), (ARCHIVE_README, "README.md")] {
            fs::copy(from, folder.join(to)).with_context(|| from.to_owned())?;
        }
        for part in ["completions", "man", THIRD_PARTY] {
            run("cp", &["-r", &texts.join(part).display().to_string(), &folder.display().to_string()])?;
        }
        self.archive(&folder, &self.out.join(self.archive_file(arch)))
    }

    /// The bill of materials of the programs for these architectures.
    fn bill(&self, architectures: &[Architecture]) -> Result<String> {
        let targets: Vec<String> = architectures.iter().map(|arch| arch.target()).collect();
        let toolchains = architectures.iter().filter_map(|arch| self.c_toolchains.get(arch.name));
        let c_libraries: BTreeSet<&str> = toolchains.map(|toolchain| toolchain.glibc.as_str()).collect();
        sbom::text(&targets, &c_libraries, &self.created()?)
    }

    fn archive_file(&self, arch: Architecture) -> String {
        format!("berth-{}-linux-{}.tar.gz", self.version, arch.name)
    }

    fn image_file(&self) -> String {
        format!("berth-{}-image.tar", self.version)
    }

    /// Packs a folder under its own name.
    fn archive(&self, folder: &Path, to: &Path) -> Result<()> {
        let parent = folder.parent().context("the folder has no parent folder")?;
        let name = folder.file_name().context("the folder has no name")?.to_string_lossy().into_owned();
        let tar = self.scratch.join("archive.tar");
        self.tar(parent, &name, &tar)?;
        compress(&tar, to)
    }

    /// Writes an archive with bytes that depend only on the contents and the commit.
    fn tar(&self, parent: &Path, name: &str, to: &Path) -> Result<()> {
        let mtime = format!("--mtime=@{}", self.epoch);
        let fixed = ["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];
        let (parent, to) = (parent.display().to_string(), to.display().to_string());
        run("tar", &[&fixed[..], &[&mtime, "-C", &parent, "-cf", &to, name]].concat())
    }
}

/// The first line of what the program prints about its version.
fn version_of(program: &str) -> Result<String> {
    Ok(output_of(program, &["--version"])?.lines().next().unwrap_or_default().to_owned())
}

/// Checks that the commit has no tag, or the tag of this version.
fn check_tags(tags: &str, version: &str) -> Result<()> {
    let own = format!("v{version}");
    ensure!(
        tags.is_empty() || tags.lines().any(|tag| tag == own),
        "the commit has the tag {}, and Cargo.toml the version {version}",
        tags.replace('\n', " and ")
    );
    Ok(())
}

/// Writes the completions of shells and the man pages, which the program prints itself.
fn write_texts(arch: Architecture, program: &Path, texts: &Path) -> Result<()> {
    for (shell, file) in [("bash", "berth.bash"), ("zsh", "_berth"), ("fish", "berth.fish")] {
        let output = arch.command(program)?.args(["completions", shell]).stderr(Stdio::inherit()).output();
        let output = output.context("cannot start berth completions")?;
        ensure!(output.status.success(), "berth completions {shell} failed");
        write(&texts.join("completions").join(file), &output.stdout)?;
    }
    let status = arch.command(program)?.args(["reference", "--man"]).arg(texts.join("man")).status();
    ensure!(status.context("cannot start berth reference")?.success(), "berth reference failed");
    Ok(())
}

/// The flags that make the program static, and keep paths of this machine out of it.
fn flags() -> Result<String> {
    let here = env::current_dir().context("cannot find the current folder")?;
    let home = cargo_home()?;
    let target = fs::canonicalize(target_dir()).context("cannot find the target folder")?;
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    // The compiler applies the last prefix that matches.
    let remapped = [remap(&here, "/berth"), remap(&target, "/target"), remap(&home, "/cargo")];
    Ok([&remapped[..], &["-Ctarget-feature=+crt-static".to_owned()]].concat().join("\u{1f}"))
}

fn compress(from: &Path, to: &Path) -> Result<()> {
    let file = fs::File::create(to).with_context(|| to.display().to_string())?;
    let status = Command::new("gzip").args(["-n", "-9", "-c"]).arg(from).stdout(Stdio::from(file)).status();
    ensure!(status.context("cannot start gzip")?.success(), "gzip of {} failed", from.display());
    Ok(())
}

fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(file, bytes).with_context(|| file.display().to_string())
}

/// The SHA-256 of a file, in hexadecimal digits.
fn sha256(file: &Path) -> Result<String> {
    let line = output_of("sha256sum", &["--", &file.display().to_string()])?;
    Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_of_a_program_has_no_links_and_a_readme_of_its_own() {
        let dir = tempfile::tempdir().expect("a folder");
        let (program, texts) = (dir.path().join("program"), dir.path().join("texts"));
        write(&program, b"program").expect("a file");
        for text in ["completions/_berth", "man/berth.1", THIRD_PARTY] {
            write(&texts.join(text), b"text").expect("a file");
        }
        let release = Release::for_test(dir.path());
        let arch = ARCHITECTURES[0];
        release.write_archive(arch, &program, &texts).expect("an archive");
        let archive = release.out.join(release.archive_file(arch)).display().to_string();
        let list = output_of("tar", &["-tvzf", &archive]).expect("a list");
        for file in ["berth", "LICENSE", "README.md", "completions/_berth", "man/berth.1", THIRD_PARTY] {
            assert!(list.contains(&format!(" berth-0.1.0-linux-amd64/{file}")), "{file}: {list}");
        }
        assert!(list.lines().all(|line| line.starts_with(['-', 'd'])), "{list}");
        let readme = output_of("tar", &["-xOzf", &archive, "berth-0.1.0-linux-amd64/README.md"]).expect("a text");
        assert!(readme.contains(&format!("<https://{}>", files::PLACEHOLDER_HOST)), "{readme}");
        for of_the_sources in ["](", "cargo", "target/"] {
            assert!(!readme.contains(of_the_sources), "the archive does not have {of_the_sources}: {readme}");
        }
    }

    #[test]
    fn a_tag_and_the_version_must_agree() {
        check_tags("", "0.1.0").expect("no tag");
        check_tags("v0.1.0\nv0.1.0-rc.1", "0.1.0").expect("its tag");
        let error = check_tags("v0.2.0", "0.1.0").expect_err("another tag").to_string();
        assert_eq!(error, "the commit has the tag v0.2.0, and Cargo.toml the version 0.1.0");
    }
}
