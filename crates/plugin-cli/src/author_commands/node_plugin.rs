//! Compares the methods of a `NodePlugin` with the names in its `export!` line. The trait has defaults for all methods,
//! so the compiler reports neither a method that is never called nor a missing method.
//!
//! The sources are read as text in the format of rustfmt: an `impl` begins and ends at the first column.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A method of the trait, the interface that calls it, and its name in `export!`.
struct NodeMethod {
    name: &'static str,
    interface: &'static str,
    export: &'static str,
    /// Whether the trait's default is useless, so that the plugin must have its own method.
    has_to_be_written: bool,
}

const METHODS: [NodeMethod; 4] = [
    NodeMethod { name: "filter", interface: "filter", export: "Filter", has_to_be_written: true },
    NodeMethod { name: "score", interface: "score", export: "Score", has_to_be_written: true },
    NodeMethod { name: "normalize", interface: "normalize-score", export: "Normalize", has_to_be_written: false },
    NodeMethod { name: "explain", interface: "explain", export: "Explain", has_to_be_written: true },
];

/// A warning for each method in a crate's sources if the component does not export the method's interface.
pub(super) fn uncalled(crate_folder: &Path, exports: impl Fn(&str) -> bool) -> Vec<String> {
    let mut warnings = Vec::new();
    for file in rust_files(&crate_folder.join("src")) {
        // The compiler has already reported files that cannot be read.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let place = file.strip_prefix(crate_folder).unwrap_or(&file).display().to_string();
        for (line, method) in methods_of(&text).filter(|(_, method)| !exports(method.interface)) {
            let NodeMethod { name, export, .. } = method;
            warnings.push(format!("{place}:{line}: {name} is never called: add {export} to the line export!"));
        }
    }
    warnings
}

/// A sentence for each exported interface without a method in any `NodePlugin` of the crate. The trait's default lets
/// every pod pass, scores 0, or says nothing. A crate that does not export a `PerNode` gets no sentence.
pub(super) fn unwritten(crate_folder: &Path, exports: impl Fn(&str) -> bool) -> Vec<String> {
    let files = rust_files(&crate_folder.join("src"));
    let texts: Vec<(PathBuf, String)> =
        files.into_iter().filter_map(|file| Some((file.clone(), fs::read_to_string(file).ok()?))).collect();
    let export = texts.iter().find_map(|(file, text)| {
        let line = text.lines().position(|line| line.contains("export!(") && line.contains("PerNode<"))?;
        Some(format!("{}:{}", file.strip_prefix(crate_folder).unwrap_or(file).display(), line + 1))
    });
    let Some(place) = export else { return Vec::new() };
    let is_written = |name: &str| texts.iter().any(|(_, text)| methods_of(text).any(|(_, method)| method.name == name));
    let unwritten = METHODS.iter().filter(|method| method.has_to_be_written && exports(method.interface));
    let sentence = |NodeMethod { name, export, .. }: &NodeMethod| {
        format!(
            "{place}: export! names {export}, but the plugin has no method {name}: add the method, or remove {export}"
        )
    };
    unwritten.filter(|method| !is_written(method.name)).map(sentence).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The methods of all implementations in a file, with their line numbers.
fn methods_of(text: &str) -> impl Iterator<Item = (usize, &'static NodeMethod)> {
    let mut is_inside = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if line.starts_with("impl") {
            is_inside = line.contains("NodePlugin for ");
        } else if line.starts_with('}') {
            is_inside = false;
        }
        let signature = line.strip_prefix("    fn ").filter(|_| is_inside)?;
        let name = signature.split(['(', '<']).next()?;
        METHODS.iter().find(|method| method.name == name).map(|method| (number, method))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "berth_sdk::export!(PerNode<Even>: Filter);\n\nimpl NodePlugin for Even {\n    fn filter(&self) {\n    \
                          }\n\n    fn score(&self) -> i64 {\n        0\n    }\n}\n\nimpl Even {\n    fn normalize(&self) {}\n}\n";

    #[test]
    fn a_method_that_is_not_exported_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src/parts")).unwrap();
        fs::write(folder.path().join("src/parts/even.rs"), SOURCE).unwrap();
        let warnings = uncalled(folder.path(), |interface| interface == "filter");
        assert_eq!(warnings, ["src/parts/even.rs:7: score is never called: add Score to the line export!"]);
        assert!(uncalled(folder.path(), |_| true).is_empty());
    }

    #[test]
    fn a_method_that_is_exported_and_not_written_is_told_with_the_line_of_the_export() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src")).unwrap();
        let source = SOURCE.replace("fn score", "fn other").replace("Filter);", "Filter, Score, Normalize);");
        fs::write(folder.path().join("src/lib.rs"), source).unwrap();
        let errors = unwritten(folder.path(), |interface| interface != "explain");
        let error =
            "src/lib.rs:1: export! names Score, but the plugin has no method score: add the method, or remove Score";
        assert_eq!(errors, [error]);
        assert!(unwritten(folder.path(), |interface| interface == "filter").is_empty());
    }
}
