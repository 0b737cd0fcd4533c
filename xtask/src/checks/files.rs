//! Checks of files that lints do not make: a file describes its content, is not too long, is named by some `mod`, has
//! types as errors, begins its comments with a subject, and cites only sources that a reader can open. The binary's
//! package has few lines.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

use super::{module_tree::Tree, packages::Package};

/// The most lines of a file without its tests. A longer file must be split.
const MAX_LINES: usize = 600;
/// The maximum number of lines of a package's sources without tests. The binary only connects its commands with the
/// libraries.
const MAX_LINES_OF_PACKAGES: Ceilings = &[("berth-host", 4_999)];
const NAMES_THAT_SAY_NOTHING: [&str; 5] = ["util", "utils", "helpers", "common", "misc"];
/// Words that no sentence of a comment may begin with, because a sentence begins with its subject.
const NO_SUBJECTS: [&str; 2] = ["Of ", "To "];

/// The folders of libraries. Their errors must be types.
const LIBRARIES: [&str; 2] = ["crates", "sdks"];
/// The number of types `Result<_, String>` that a library may name outside its tests. Libraries that are not listed may
/// name no such type. The SDK for Rust implements signatures that are generated from WIT.
const TEXTS_AS_ERRORS: Ceilings = &[("berth-sdk", 2)];
/// The number of comments of a package that may cite a document outside the repository.
const MISSING_SOURCES: Ceilings = &[];

/// The number of violations that a package may still have. Only ever lower these numbers.
type Ceilings = &'static [(&'static str, usize)];

pub(super) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for package in packages {
        complaints.extend(orphans(package)?);
        let (mut texts_as_errors, mut missing_sources, mut lines) = (Vec::new(), Vec::new(), 0);
        for file in &package.files {
            let text = fs::read_to_string(file)?;
            complaints.extend(in_file(file, &text));
            if file.starts_with(package.folder.join("src")) && !is_test(file) {
                lines += n_lines(&text);
            }
            missing_sources
                .extend(lines_that_cite_what_is_not_here(&text).map(|line| format!("{}:{line}", file.display())));
            let is_library = LIBRARIES.iter().any(|folder| package.folder.starts_with(folder));
            if is_library && !is_test(file) {
                let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{}: {error}", file.display()))?;
                texts_as_errors.extend(vec![file.display().to_string(); count_texts_as_errors(tokens)]);
            }
        }
        complaints.extend(too_long(&package.name, lines));
        let wrong = "is not an error type; make one";
        complaints.extend(above(TEXTS_AS_ERRORS, &package.name, "`Result<_, String>`", wrong, texts_as_errors));
        let wrong = "names a document that is not in the repository; cite a KEP, a page of kubernetes.io or a file of kube-scheduler";
        complaints.extend(above(MISSING_SOURCES, &package.name, "a comment", wrong, missing_sources));
    }
    Ok(complaints)
}

/// Complains if the package has more violations than its ceiling allows.
fn above(ceilings: Ceilings, package: &str, what: &str, wrong: &str, found: Vec<String>) -> Option<String> {
    let allowed = ceilings.iter().find(|(name, _)| *name == package).map_or(0, |(_, allowed)| *allowed);
    let n_found = found.len();
    let places: BTreeSet<String> = found.into_iter().collect();
    let places = places.into_iter().collect::<Vec<_>>().join(", ");
    (n_found > allowed).then(|| format!("{package}: {what} {wrong} ({n_found} found, {allowed} allowed): {places}"))
}

/// Complains if the package's sources have more lines than its ceiling allows.
fn too_long(package: &str, n_lines: usize) -> Option<String> {
    let (_, ceiling) = MAX_LINES_OF_PACKAGES.iter().find(|(name, _)| *name == package)?;
    (n_lines > *ceiling).then(|| {
        format!(
            "{package}: {n_lines} lines without tests; move some of them to a library, so that at most {ceiling} remain"
        )
    })
}

/// The text without the tests at its end.
pub(super) fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The number of lines without tests.
fn n_lines(text: &str) -> usize {
    without_tests(text).lines().count()
}

/// Whether the file holds only tests.
pub(super) fn is_test(file: &Path) -> bool {
    file.iter().any(|part| part == "tests" || part == "tests.rs")
}

fn in_file(file: &Path, text: &str) -> Vec<String> {
    let file_name = file.display();
    let mut complaints = Vec::new();
    if !text.starts_with("//!") {
        complaints.push(format!("{file_name}: open the file with `//!`, saying what lives here"));
    }
    let n_lines = n_lines(text);
    if n_lines > MAX_LINES {
        complaints.push(format!("{file_name}: {n_lines} lines; split it below {MAX_LINES}"));
    }
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim_start());
        if comment.is_some_and(|comment| NO_SUBJECTS.iter().any(|word| comment.starts_with(word))) {
            complaints.push(format!("{file_name}:{}: begin the comment with its subject", number + 1));
        }
    }
    if NAMES_THAT_SAY_NOTHING.iter().any(|name| file.file_stem().is_some_and(|stem| stem == *name)) {
        complaints.push(format!("{file_name}: name the file after the thing inside"));
    }
    complaints
}

/// The numbers of the lines, counted from 1.
fn lines_that_cite_what_is_not_here(text: &str) -> impl Iterator<Item = usize> {
    let comments = text.lines().enumerate().filter_map(|(line, text)| Some((line + 1, text.split_once("//")?.1)));
    comments.filter(|(_, comment)| cites_what_is_not_here(comment)).map(|(line, _)| line)
}

/// Whether the comment cites a document outside the repository, by the number of one of its sections.
fn cites_what_is_not_here(comment: &str) -> bool {
    let words: Vec<String> = comment.split_whitespace().map(str::to_lowercase).collect();
    let section = words.windows(2).any(|pair| {
        let is_number = pair[1].starts_with(|first: char| first.is_ascii_digit());
        ["section", "sections", "(section"].contains(&pair[0].as_str()) && is_number
    });
    section
        || words.iter().any(|word| word == "reference's")
        || words.windows(2).any(|pair| pair == ["reference,", "section"])
}

/// Files that no `mod` names. Such files look like code, but are never compiled.
fn orphans(package: &Package) -> Result<Vec<String>> {
    let mut reached: HashSet<PathBuf> = HashSet::new();
    for root in &package.roots {
        reached.extend(Tree::read(root)?.files().into_iter().map(Path::to_owned));
    }
    let orphans = package.files.iter().filter(|file| !reached.contains(*file));
    Ok(orphans.map(|file| format!("{}: no `mod` names this file", file.display())).collect())
}

/// The number of types `Result<…, String>` in the code.
fn count_texts_as_errors(tokens: TokenStream) -> usize {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let inside = tokens.iter().map(|token| match token {
        TokenTree::Group(group) => count_texts_as_errors(group.stream()),
        _ => 0,
    });
    let inside: usize = inside.sum();
    inside + (0..tokens.len()).filter(|at| is_result_of_text(&tokens[*at..])).count()
}

/// Whether a type `Result<…, String>` begins here.
fn is_result_of_text(tokens: &[TokenTree]) -> bool {
    let punct = |token: Option<&TokenTree>| match token {
        Some(TokenTree::Punct(punct)) => Some(punct.as_char()),
        _ => None,
    };
    if !matches!(&tokens[0], TokenTree::Ident(name) if *name == "Result") || punct(tokens.get(1)) != Some('<') {
        return false;
    }
    let (mut depth, mut last_argument) = (1_usize, 2);
    for at in 2..tokens.len() {
        let is_arrow = punct(tokens.get(at - 1)) == Some('-');
        match punct(tokens.get(at)) {
            Some('<') => depth += 1,
            Some('>') if !is_arrow => depth -= 1,
            Some(',') if depth == 1 => last_argument = at + 1,
            _ => {}
        }
        if depth == 0 {
            // `anyhow::Result<String>` has its own error type.
            let has_error = last_argument > 2;
            return has_error && matches!(&tokens[last_argument..at], [TokenTree::Ident(name)] if *name == "String");
        }
    }
    false
}

#[cfg(test)]
mod tests;
