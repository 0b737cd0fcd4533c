//! `berth plugin new`: makes a project that builds and passes its own test without changes.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Result, bail};
use berth_config::Usage;
use clap::{Args, ValueEnum as _};

use super::template::{self, Language, Template};

const EXAMPLES: &str = "\
Examples:
  berth plugin new PreferQuietNodes --lang go    a project in Go; then `berth plugin build` and `berth plugin test` in its folder
  berth plugin new --list                        what each template is";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct New {
    /// The plugin's name in profiles, such as PreferQuietNodes
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// The language of the plugin
    #[arg(long, value_enum, default_value_t = Language::Rust)]
    lang: Language,
    /// The template to start from. Each template has cases, and exists in every language
    #[arg(long, value_enum, default_value_t = Template::AvoidZone)]
    template: Template,
    /// List the templates with a description of each, and make nothing
    #[arg(long, conflicts_with_all = ["name", "template", "dir"])]
    list: bool,
    /// The folder to make [default: the name in lower case with dashes]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(new: &New) -> Result<()> {
    let Some(name) = new.name.as_ref().filter(|_| !new.list) else { return list() };
    if !is_plugin_name(name) {
        let text = format!(
            "{name:?}: a plugin's name starts with a capital letter and contains only letters and \
                            digits, as in MyPlugin"
        );
        return Err(Usage(text).into());
    }
    let dir = new.dir.clone().unwrap_or_else(|| PathBuf::from(kebab_case(name)));
    if dir.exists() {
        bail!("{} already exists; choose another folder with --dir", dir.display());
    }
    if let Some(warning) = warning_of_built_in(name) {
        eprintln!("{warning}");
    }
    let n_files = template::instantiate(new.lang, new.template, name, &kebab_case(name), &dir)?;
    eprintln!(
        "{}: {n_files} files. Next:\n  cd {}\n  berth plugin build\n  berth plugin test\n  berth plugin verify\n  {}",
        dir.display(),
        dir.display(),
        template::to_run(new.template, name).join("\n  ")
    );
    if let Some(grants) = template::grants(new.template) {
        eprintln!("The plugin needs a grant, which plugin-host.yaml gives it: {grants}");
    }
    Ok(())
}

fn list() -> Result<()> {
    let mut output = io::stdout();
    for template in Template::value_variants() {
        let (name, sentence) = template.shown();
        writeln!(output, "{name:<16} {sentence}")?;
    }
    Ok(())
}

/// The warning about a name of a built-in plugin.
fn warning_of_built_in(name: &str) -> Option<String> {
    berth_builtins::factory(name)?;
    Some(format!(
        "warning: {name} is the name of a built-in plugin, and a component of this name replaces it: choose another \
         name, unless you want to replace it"
    ))
}

fn is_plugin_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase()) && name.chars().all(|it| it.is_ascii_alphanumeric())
}

/// Converts a name such as `PreferQuietNodes` to `prefer-quiet-nodes`.
fn kebab_case(name: &str) -> String {
    let mut kebab = String::new();
    let mut after_lower = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && after_lower {
            kebab.push('-');
        }
        after_lower = !letter.is_ascii_uppercase();
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_after_plugins() {
        for (name, folder) in [("PreferQuietNodes", "prefer-quiet-nodes"), ("QOSSort", "qossort"), ("A1B", "a1-b")] {
            assert_eq!(kebab_case(name), folder);
        }
    }

    #[test]
    fn the_name_of_a_built_in_plugin_is_warned_of() {
        let told = warning_of_built_in("NodeName").expect("a warning");
        assert!(told.starts_with("warning: NodeName is the name of a built-in plugin, "), "{told}");
        assert_eq!(warning_of_built_in("NodeNames"), None);
    }

    #[test]
    fn names_are_those_that_profiles_can_use() {
        for (name, is_good) in [("MyPlugin", true), ("myPlugin", false), ("My-Plugin", false), ("", false)] {
            assert_eq!(is_plugin_name(name), is_good, "{name}");
        }
    }
}
