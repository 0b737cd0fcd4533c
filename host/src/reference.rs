//! `berth reference`: every command with its options, as a page of the guide and as man pages. Both are made from the
//! definition of the command line.

use std::{
    fmt::{self, Write as _},
    fs,
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, CommandFactory as _};

use crate::cli::Cli;

const INTRODUCTION: &str = "\
# Commands

This page lists the commands of `berth` with their options. `berth reference` prints this page. `berth help COMMAND` shows the help of
a command in a terminal, and `berth reference --man DIR` writes man pages. The flags of `berth kube-scheduler` have a table of their own,
and `berth kube-scheduler --help` shows them.
";

/// Prints the page, or writes man pages to a folder.
pub(crate) fn run(man: Option<&Path>) -> Result<()> {
    let Some(folder) = man else {
        return Ok(io::stdout().write_all(page()?.as_bytes())?);
    };
    fs::create_dir_all(folder).with_context(|| format!("--man {}: cannot be made", folder.display()))?;
    write_man_pages(folder).with_context(|| format!("--man {}: cannot be written", folder.display()))
}

fn write_man_pages(folder: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Cli::command(), folder)?;
    // kube-scheduler's flags have a parser of their own. The page that clap made for this command has no flags, so this
    // page replaces it.
    let flags = berth_kube_flags::command().display_name("berth-kube-scheduler").bin_name("berth kube-scheduler");
    clap_mangen::Man::new(flags).generate_to(folder).map(drop)
}

fn page() -> Result<String, fmt::Error> {
    let mut root = Cli::command();
    root.build();
    let mut page = INTRODUCTION.to_owned();
    describe(&mut page, &mut root, "berth")?;
    Ok(page)
}

/// Writes a section for a command, and then a section for each of its subcommands.
fn describe(page: &mut String, command: &mut clap::Command, path: &str) -> fmt::Result {
    writeln!(page, "\n## {path}\n")?;
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        writeln!(page, "{about}\n")?;
    }
    writeln!(page, "```\n{}\n```", command.render_usage().to_string().trim_start_matches("Usage: "))?;
    options(page, command, path == "berth")?;
    if path == "berth kube-scheduler" {
        // Another parser reads these flags, because kube-scheduler's flags do not follow the rules of this command line.
        let mut flags = berth_kube_flags::command();
        flags.build();
        options(page, &flags, false)?;
    }
    if let Some(more) = command.get_after_help() {
        writeln!(page, "\n```\n{more}\n```")?;
    }
    for below in command.get_subcommands_mut().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        let path = format!("{path} {}", below.get_name());
        describe(page, below, &path)?;
    }
    Ok(())
}

/// Writes the table of a command's options. Global options appear only in the table of the first command.
fn options(page: &mut String, command: &clap::Command, is_root: bool) -> fmt::Result {
    let is_shown = |arg: &&Arg| {
        let is_help = matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong);
        !arg.is_hide_set() && !is_help && (is_root || !arg.is_global_set())
    };
    let mut shown = command.get_arguments().filter(is_shown).peekable();
    if shown.peek().is_none() {
        return Ok(());
    }
    writeln!(page, "\n| option | what it does |\n|---|---|")?;
    for arg in shown {
        writeln!(page, "| {} | {} |", cell(&format!("`{}`", synopsis(arg))), cell(&meaning(arg)))?;
    }
    Ok(())
}

/// The option with its short form and its value, for example `-o, --output <OUTPUT>`.
fn synopsis(arg: &Arg) -> String {
    let text = arg.to_string();
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {text}"),
        _ => text,
    }
}

/// The help of an option with its possible values, its default, and its environment variable.
fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        text.push_str(&format!(" ({})", values.join(", ")));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        text.push_str(&format!(" [default: {}]", defaults.join(", ")));
    }
    if let Some(variable) = arg.get_env().map(|variable| variable.to_string_lossy()) {
        text.push_str(&format!(" [environment: `{variable}`]"));
    }
    text
}

/// Escapes a text for one cell of a table. Angle brackets between backticks stay as they are.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let parts = line.split('`').enumerate();
    let escaped = parts.map(|(at, part)| if at % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() });
    escaped.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_guide_is_that_of_the_code() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/commands.md");
        let kept = fs::read_to_string(file).unwrap_or_default();
        let page = page().expect("a page");
        let differing = kept.lines().zip(page.lines()).find(|(kept, made)| kept != made);
        assert!(
            kept == page,
            "`berth reference > docs/src/commands.md` mends it; the first line that differs: {differing:?}"
        );
    }

    #[test]
    fn each_command_has_a_man_page() {
        let folder = tempfile::tempdir().expect("a folder");
        run(Some(folder.path())).expect("man pages");
        for name in ["berth.1", "berth-simulate.1", "berth-plugin-list.1"] {
            let text = fs::read_to_string(folder.path().join(name)).expect(name);
            assert!(text.contains(".SH SYNOPSIS"), "{name}");
        }
        let flags = fs::read_to_string(folder.path().join("berth-kube-scheduler.1")).expect("a page");
        // A man page writes the hyphen of a flag as `\-`.
        assert!(flags.contains("leader\\-elect\\-lease\\-duration"), "{flags}");
    }
}
