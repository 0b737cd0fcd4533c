//! Checks that the guide lists each environment variable that Berth reads, and no other (`docs/src/environment.md`).
//!
//! A variable's name is a string in the code, in capital letters with an underscore. This file lists the strings of this
//! form that are not variables of Berth, and the variables that it does not find in the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

use super::{files, packages::Package};

const PAGE: &str = "docs/src/environment.md";

/// The folders with the code of the program.
const FOLDERS: [&str; 2] = ["crates", "host"];

/// The names without an underscore.
const SHORT_NAMES: [&str; 3] = ["HOME", "HOSTNAME", "KUBECONFIG"];

/// Variables that libraries and the programs that build plugins read, and names in small letters, which this check does
/// not find in the code.
const NOT_IN_THE_CODE: [&str; 7] = [
    "BERTH_TOOLCHAINS",
    "KUBERNETES_SERVICE_PORT",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Beginnings of strings that are not variables for users: cargo's variables, suites of ciphers, a variable of debug
/// builds for tests, and a variable that Berth sets for its compiler's process.
const NOT_FOR_USERS: [&str; 6] = ["CARGO_", "RUSTC_", "OUT_DIR", "TLS_", "BERTH_PANIC_IN", "MIMALLOC_"];

/// The differences between the page and the code.
pub(super) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut read: BTreeMap<String, String> = BTreeMap::new();
    for package in packages.iter().filter(|it| FOLDERS.iter().any(|folder| it.folder.starts_with(folder))) {
        let sources = package.folder.join("src");
        for file in package.files.iter().filter(|file| file.starts_with(&sources) && !files::is_test(file)) {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            let names = variables(&text).with_context(|| file.display().to_string())?;
            read.extend(names.into_iter().map(|name| (name, file.display().to_string())));
        }
    }
    let page = fs::read_to_string(PAGE).context(PAGE)?;
    Ok(complaints(&read, &page))
}

/// The names of variables in a file, without its tests.
fn variables(text: &str) -> Result<BTreeSet<String>> {
    let tokens: TokenStream = files::without_tests(text).parse().map_err(|error| anyhow!("{error}"))?;
    let mut names = BTreeSet::new();
    add(tokens, &mut names);
    Ok(names)
}

fn add(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => add(group.stream(), names),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let name = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                names.extend(name.filter(|name| is_variable(name)).map(str::to_owned));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

fn is_variable(text: &str) -> bool {
    let is_name = text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_for_users = !NOT_FOR_USERS.iter().any(|beginning| text.starts_with(beginning));
    is_name && is_for_users && (text.contains('_') || SHORT_NAMES.contains(&text))
}

/// The first column of the page's table of variables.
fn listed(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    rows.flat_map(|cell| cell.split(['`', ',', ' '])).filter(|name| !name.is_empty()).collect()
}

fn complaints(read: &BTreeMap<String, String>, page: &str) -> Vec<String> {
    let listed = listed(page);
    let missing = read.iter().filter(|(name, _)| !listed.contains(name.as_str()));
    let missing = missing.map(|(name, file)| format!("{PAGE} does not list {name}, which {file} names"));
    let unknown = listed.iter().filter(|name| !read.contains_key(**name) && !NOT_IN_THE_CODE.contains(*name));
    let unknown = unknown.map(|name| format!("{PAGE}: nothing reads {name}"));
    missing.chain(unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_strings_of_capital_letters_outside_of_tests() {
        let code = "
            /// `COMMENT_ONLY`
            #[arg(env = \"BERTH_LOG\")]
            fn f() { var(\"POD_NAME\"); env!(\"CARGO_PKG_NAME\"); g(\"GET\", \"HOME\", \"a POD_UID\"); }
            #[cfg(test)]\nmod tests { const A: &str = \"FOR_TESTS\"; }
        "
        .replace("            #[cfg(test)]", "#[cfg(test)]");
        let names = variables(&code).expect("code");
        assert_eq!(names, BTreeSet::from(["BERTH_LOG", "HOME", "POD_NAME"].map(str::to_owned)));
    }

    #[test]
    fn the_page_and_the_code_must_agree() {
        let read = BTreeMap::from(["POD_NAME", "POD_UID"].map(|name| (name.to_owned(), "a.rs".to_owned())));
        let page =
            "| variable | what |\n|---|---|\n| `POD_NAME`, `OLD_NAME` | the pod |\n| `SSL_CERT_FILE` | a file |\n";
        let expected = [
            "docs/src/environment.md does not list POD_UID, which a.rs names",
            "docs/src/environment.md: nothing reads OLD_NAME",
        ];
        assert_eq!(complaints(&read, page), expected);
    }
}
