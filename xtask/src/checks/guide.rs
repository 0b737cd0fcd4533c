//! Checks that the commands and flags in the documents exist.
//!
//! `docs/src/commands.md` lists the commands of `berth` with their options, and a test of the program compares it with the
//! program. The help of `cargo xtask` lists its commands. This check compares the code blocks and the inline code of all
//! other documents with both lists.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

const REFERENCE: &str = "docs/src/commands.md";

/// Documents, and folders of documents.
const DOCUMENTS: [&str; 5] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "docs"];

/// The languages of blocks with commands.
const BLOCKS: [&str; 4] = ["", "console", "sh", "text"];

/// Flags of other programs and of `cargo xtask` that the documents name without a command before them.
const OF_OTHERS: [&str; 7] = [
    "--authorities",
    "--event-ttl",
    "--insecure-ignore-tlog",
    "--out",
    "--preserve-digests",
    "--required",
    "--runtime-config",
];

/// Words that may stand before the name of a program.
const BEFORE_PROGRAMS: [&str; 6] = ["$", "--", "exec", "run", "sudo", "time"];

/// The commands that exist.
struct Commands<'a> {
    /// The flags of each command of `berth`, by the command's words, for example `berth plugin new`.
    berth: BTreeMap<&'a str, BTreeSet<&'a str>>,
    xtask: BTreeSet<&'a str>,
}

/// One complaint for each command or flag that a document names and that does not exist.
pub(super) fn check() -> Result<Vec<String>> {
    let reference = fs::read_to_string(REFERENCE).context(REFERENCE)?;
    let commands = Commands { berth: berth(&reference), xtask: super::workflows::commands(crate::HELP) };
    let mut files = Vec::new();
    for document in DOCUMENTS {
        find(Path::new(document), &mut files)?;
    }
    files.sort_unstable();
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| *file != Path::new(REFERENCE)) {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let found = code(&text).iter().filter_map(|command| commands.complaint(command)).collect::<Vec<_>>();
        complaints.extend(found.into_iter().map(|what| format!("{}: {what}", file.display())));
    }
    Ok(complaints)
}

/// Adds the Markdown files at or below a path.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
            find(&entry?.path(), files)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "md") {
        files.push(path.to_owned());
    }
    Ok(())
}

/// The commands of the reference with their flags. A command's second name has the same flags.
fn berth(reference: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut commands: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let (mut command, mut second_names) = ("", Vec::new());
    for line in reference.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            command = name;
            commands.entry(command).or_default();
        } else if let Some(row) = line.strip_prefix("| `") {
            let synopsis = row.split("` |").next().unwrap_or_default();
            commands.entry(command).or_default().extend(synopsis.split([' ', ',']).filter_map(flag));
        } else if let Some((before, _)) = line.split_once("` is another name for this command") {
            second_names.push((before.rsplit('`').next().unwrap_or_default(), command));
        }
    }
    for (name, command) in second_names {
        let flags = commands.get(command).cloned().unwrap_or_default();
        commands.insert(name, flags);
    }
    commands
}

/// The flag at the beginning of a word, for example `--config` of `--config=FILE`. `None` for `--tls-*`, which stands for
/// several flags.
fn flag(word: &str) -> Option<&str> {
    let rest = word.strip_prefix("--")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
    let flag = word.get(..end + 2)?;
    (rest.starts_with(|first: char| first.is_ascii_lowercase()) && !flag.ends_with('-')).then_some(flag)
}

/// The commands in the code of a document: the lines of its blocks and its inline code, divided where a shell divides
/// them, without comments.
fn code(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, part) in text.split("```").enumerate() {
        if number % 2 == 1 {
            let (language, body) = part.split_once('\n').unwrap_or_default();
            if BLOCKS.contains(&language) {
                lines.extend(body.replace("\\\n", " ").lines().map(str::to_owned));
            }
        } else {
            // A backtick without a closing backtick must not affect the next paragraph.
            for paragraph in part.split("\n\n") {
                lines.extend(paragraph.split('`').skip(1).step_by(2).map(|inline| inline.replace('\n', " ")));
            }
        }
    }
    let without_comments = lines.iter().filter_map(|line| line.split(" #").next());
    let commands = without_comments.flat_map(|line| line.split(['|', ';', '&', '<', '>', '(', ')']));
    commands.map(str::to_owned).collect()
}

impl Commands<'_> {
    /// The complaint about a command, if the command or one of its flags does not exist.
    fn complaint(&self, command: &str) -> Option<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let mut before = None;
        let mut rest = words.as_slice();
        while let [word, tail @ ..] = rest {
            let begins = before.is_none_or(|before: &str| BEFORE_PROGRAMS.contains(&before) || before.contains('='));
            if *word == "berth" && begins {
                return self.complaint_about_berth(tail);
            }
            if *word == "xtask" && before == Some("cargo") {
                let unknown = tail.first().filter(|name| is_name(name) && !self.xtask.contains(*name))?;
                return Some(format!("cargo xtask has no command `{unknown}`"));
            }
            before = Some(*word);
            rest = tail;
        }
        // Inline code may be a flag alone, or a flag with its value.
        let alone = words.first().filter(|_| words.len() <= 2).and_then(|word| flag(word))?;
        let is_known = self.berth.values().any(|flags| flags.contains(alone)) || OF_OTHERS.contains(&alone);
        (!is_known && alone != "--help").then(|| format!("no command has the flag {alone}"))
    }

    /// The complaint about the words after `berth`, if a command or flag among them does not exist.
    fn complaint_about_berth(&self, mut words: &[&str]) -> Option<String> {
        let mut command = "berth".to_owned();
        while let [word, tail @ ..] = words {
            let longer = format!("{command} {word}");
            if !self.berth.contains_key(longer.as_str()) {
                break;
            }
            (command, words) = (longer, tail);
        }
        let has_more = self.berth.keys().any(|it| it.strip_prefix(&command).is_some_and(|rest| rest.starts_with(' ')));
        if let Some(word) = words.first().filter(|word| has_more && is_name(word) && **word != "help") {
            return Some(format!("`{command}` has no command `{word}`"));
        }
        let mut flags = words.iter().take_while(|word| **word != "--").filter_map(|word| flag(word));
        let exists = |flag: &str| {
            let has = |command: &str| self.berth.get(command).is_some_and(|flags| flags.contains(flag));
            flag == "--help" || has(&command) || has("berth")
        };
        let unknown = flags.find(|flag| !exists(flag))?;
        Some(format!("`{command}` has no flag {unknown}"))
    }
}

/// Whether the word can be a command, and not a placeholder such as `COMMAND` or `…`.
fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: &str = "\
## berth

| option | what it does |
|---|---|
| `--log <FILTER>` | Log filter, such as `--no-flag` |

## berth doctor

`berth check` is another name for this command.

| `-o, --output <OUTPUT>` | `text` |
| `--leader-elect[=<BOOL>]` | |

## berth plugin

## berth plugin new
";

    fn complaints(text: &str) -> Vec<String> {
        let commands = Commands { berth: berth(COMMANDS), xtask: BTreeSet::from(["release"]) };
        code(text).iter().filter_map(|command| commands.complaint(command)).collect()
    }

    #[test]
    fn commands_and_flags_that_exist_are_no_mistakes() {
        let text = "\
Run `berth check --output json`, `berth doctor\n--leader-elect=false` or `berth plugin`. `--log` and `--tls-*` are flags.

```console
$ kubectl exec deploy/berth -- berth plugin new --log info -- --whatever | head --lines 3
KUBECONFIG=a berth help COMMAND        # berth nonsense
cargo xtask release --out DIR
```

```yaml
berth nonsense
```
";
        assert_eq!(complaints(text), [""; 0]);
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let text = "\
`berth docter`, `berth plugin list`, `--leader`.

```console
berth check --json && cargo xtask relase
```
";
        let expected = [
            "`berth` has no command `docter`",
            "`berth plugin` has no command `list`",
            "no command has the flag --leader",
            "`berth check` has no flag --json",
            "cargo xtask has no command `relase`",
        ];
        assert_eq!(complaints(text), expected);
    }
}
