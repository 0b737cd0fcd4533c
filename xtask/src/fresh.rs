//! `cargo xtask fresh`: the README's first two commands as a newcomer runs them after cloning the repository, on a
//! machine with nothing but rustup and a C compiler.
//!
//! HEAD is cloned into a temporary folder. The folder also holds an empty home, cargo home, target folder and caches.
//! The toolchain is the installed toolchain. The environment has only the variables of the toolchain, of proxies and of
//! certificates.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

/// Variables that a fresh machine also has, or that describe the way to the package registries.
const KEPT: [&str; 12] = [
    "TERM",
    "LANG",
    "LC_ALL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "RUSTUP_AUTO_INSTALL",
];

/// Runs both commands, even if the first fails, and reports.
pub(crate) fn fresh() -> Result<()> {
    let place = env::temp_dir().join(format!("berth-fresh-{}", std::process::id()));
    fs::create_dir(&place).with_context(|| format!("cannot create {}", place.display()))?;
    let outcome = in_place(&Place { root: place.clone() });
    fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    outcome
}

fn in_place(place: &Place) -> Result<()> {
    let head = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain"])?;
    if !changes.is_empty() {
        eprintln!("warning: changes that are not committed are not tried:\n{changes}");
    }
    let clone = place.clone_folder();
    git(&["clone", "--quiet", "--no-hardlinks", ".", &clone.display().to_string()])?;
    for folder in [place.home(), place.tools(), place.temporary()] {
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    place.link_toolchain()?;
    eprintln!("A fresh clone of {head} in {}", clone.display());
    let runs = [place.run("demo")?, place.run("test")?];
    eprintln!("{head}");
    for run in &runs {
        eprintln!("{run}");
    }
    eprintln!("{}", place.downloads());
    ensure!(runs.iter().all(|run| run.is_success), "a command failed on a fresh clone");
    Ok(())
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).output().context("cannot start git")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {} failed: {}", arguments.join(" "), words.trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The temporary folder.
struct Place {
    root: PathBuf,
}

impl Place {
    fn clone_folder(&self) -> PathBuf {
        self.root.join("berth")
    }

    fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Links to cargo, rustc and rustup, so that nothing else from their folder is on the path.
    fn tools(&self) -> PathBuf {
        self.root.join("tools")
    }

    fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    fn link_toolchain(&self) -> Result<()> {
        let path = env::var_os("PATH").context("PATH is not set")?;
        for tool in ["cargo", "rustc", "rustdoc", "rustfmt", "cargo-fmt", "cargo-clippy", "clippy-driver", "rustup"] {
            // Cargo puts the toolchain's own folder first on the path, so this looks for rustup's proxies, which read
            // rust-toolchain.toml.
            let mut found = env::split_paths(&path).map(|folder| folder.join(tool));
            let proxy = found.find(|file| file.is_file() && file.with_file_name("rustup").is_file());
            let Some(proxy) = proxy else { bail!("{tool} of rustup is not on the path; see https://rustup.rs") };
            std::os::unix::fs::symlink(&proxy, self.tools().join(tool))?;
        }
        Ok(())
    }

    fn run(&self, command: &'static str) -> Result<Run> {
        eprintln!("\n$ cargo xtask {command}");
        let times = self.root.join("times");
        // The shell's `times` counts the processor time of all commands that the shell waited for.
        let script = "\"$@\"; status=$?; times > \"$TIMES\"; exit $status";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", "cargo", "xtask", command]).current_dir(self.clone_folder());
        shell.env_clear().envs(KEPT.iter().filter_map(|name| Some((name, env::var_os(name)?))));
        let rustup_home = env::var_os("RUSTUP_HOME").map(PathBuf::from);
        let rustup_home = rustup_home.or_else(|| env::home_dir().map(|home| home.join(".rustup")));
        shell.env("RUSTUP_HOME", rustup_home.context("neither RUSTUP_HOME nor a home folder is known")?);
        shell.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.tools().display()));
        shell.env("HOME", self.home()).env("TMPDIR", self.temporary()).env("TIMES", &times);
        let started = Instant::now();
        let status = shell.status().context("cannot start a shell")?;
        let wall = started.elapsed();
        let times = fs::read_to_string(&times).with_context(|| format!("cannot read {}", times.display()))?;
        let processor = children_time(&times).with_context(|| format!("the shell printed other times: {times}"))?;
        Ok(Run { command, is_success: status.success(), status: status.to_string(), wall, processor })
    }

    /// The files that the commands put into the homes, which were empty before.
    fn downloads(&self) -> String {
        let packages = self.home().join(".cargo/registry/cache");
        let (n_packages, bytes) = size(&packages);
        let mut text = format!("downloaded {n_packages} packages, {} MB", bytes / 1_000_000);
        for entry in fs::read_dir(self.home()).into_iter().flatten().flatten() {
            let (n_files, bytes) = size(&entry.path());
            let name = entry.file_name();
            text.push_str(&format!("\n~/{}: {n_files} files, {} MB", name.display(), bytes / 1_000_000));
        }
        text
    }
}

/// The number of files below a folder, and their bytes.
fn size(folder: &Path) -> (u64, u64) {
    let (mut n_files, mut bytes) = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        let (files, size) = if metadata.is_dir() { size(&entry.path()) } else { (1, metadata.len()) };
        n_files += files;
        bytes += size;
    }
    (n_files, bytes)
}

struct Run {
    command: &'static str,
    is_success: bool,
    status: String,
    wall: Duration,
    /// User and system time of all processors.
    processor: Duration,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, status, wall, processor, .. } = self;
        let minutes = |time: &Duration| format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60);
        write!(f, "cargo xtask {command}: {status}, {} ({} of processor time)", minutes(wall), minutes(processor))
    }
}

/// The second line of the output of `times`: user and system time of the shell's children, as in `8m7.13s 1m10.01s`.
fn children_time(times: &str) -> Option<Duration> {
    let line = times.lines().nth(1)?;
    let mut total = Duration::ZERO;
    for time in line.split_whitespace() {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        total += Duration::from_secs(minutes.parse::<u64>().ok()? * 60);
        total += Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_tells_the_time_of_its_children() {
        let times = "0m0.010s 0m0.000s\n8m7.500s 1m10.250s\n";
        assert_eq!(children_time(times), Some(Duration::from_millis(557_750)));
        assert_eq!(children_time("something else"), None);
    }
}
