//! The workflows of `.github`: each step runs a command of this repository, so a contributor can try the step without
//! GitHub, and each action is pinned by the digest of its commit.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result};

const FOLDER: &str = ".github/workflows";

/// The other commands that a step may run besides `cargo xtask`: the gate, the toolchain, packages of the system, and the
/// programs of a real API server.
const OTHERS: [&str; 4] = [
    "bash .ci/run",
    "rustup show active-toolchain || rustup toolchain install",
    "sudo apt-get update && sudo apt-get install ",
    "assets=$(go run sigs.k8s.io/controller-runtime/tools/setup-envtest@",
];

/// The command of a job that runs once for each command of a list.
const EACH: &str = "${{ matrix.command }}";

/// The mistakes of all workflows.
pub(super) fn check() -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for entry in fs::read_dir(FOLDER).context(FOLDER)? {
        let file = entry?.path();
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        complaints.extend(complaints_about(&file.display().to_string(), &text, &commands(crate::HELP)));
    }
    Ok(complaints)
}

/// The commands that the help lists, each at the beginning of a line that is indented by two spaces.
pub(super) fn commands(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

fn complaints_about(file: &str, workflow: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in workflow.lines().enumerate() {
        let mut complain = |what: String| complaints.push(format!("{file}:{}: {what}", number + 1));
        let line = line.trim_start().trim_start_matches("- ");
        if let Some(action) = line.strip_prefix("uses: ") {
            if !is_pinned(action) {
                complain(format!("{action}: name the commit, and the version behind it: OWNER/NAME@COMMIT # v1.2.3"));
            }
        } else if let Some(step) = line.strip_prefix("run: ") {
            if !is_of_this_repository(step, known) {
                complain(format!("`{step}` is not a command of this repository"));
            }
        } else if let Some(list) = line.strip_prefix("command: [") {
            for command in list.trim_end_matches(']').split(", ").map(|command| command.trim_matches('"')) {
                if !is_xtask(command, known) {
                    complain(format!("cargo xtask has no command `{command}`"));
                }
            }
        }
    }
    complaints
}

fn is_pinned(action: &str) -> bool {
    let commit = action.split_once('@').and_then(|(_, version)| version.split_once(" # v")).map(|(commit, _)| commit);
    commit.is_some_and(|commit| commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_of_this_repository(step: &str, known: &BTreeSet<&str>) -> bool {
    if OTHERS.iter().any(|other| step.starts_with(other)) {
        return true;
    }
    let Some((before, command)) = step.split_once("cargo xtask ") else { return false };
    (before.is_empty() || before.starts_with("sudo env ")) && (command == EACH || is_xtask(command, known))
}

fn is_xtask(command: &str, known: &BTreeSet<&str>) -> bool {
    command.split_whitespace().next().is_some_and(|word| known.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_actions_of_others_are_named() {
        let known = commands("usage\n\n  soak [ARG ...]   hours\n                   and more\n  site --out DIR\n");
        assert_eq!(known, BTreeSet::from(["soak", "site"]));
        let workflow = "\
steps:
- uses: actions/checkout@93cb6efe18208431cddfb8368fd83d5badbf9bfd # v5.0.1
- uses: actions/checkout@v5
- run: cargo xtask site --out site
- run: sudo env \"PATH=$PATH\" cargo xtask soak
- run: cargo xtask ${{ matrix.command }}
- run: curl https://example.com | sh
- run: |
    command: [site, \"soak --hours 1\", sing]
";
        let expected = [
            "w:3: actions/checkout@v5: name the commit, and the version behind it: OWNER/NAME@COMMIT # v1.2.3",
            "w:7: `curl https://example.com | sh` is not a command of this repository",
            "w:8: `|` is not a command of this repository",
            "w:9: cargo xtask has no command `sing`",
        ];
        assert_eq!(complaints_about("w", workflow, &known), expected);
    }
}
