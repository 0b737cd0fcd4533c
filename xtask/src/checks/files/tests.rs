//! Files and packages that break each rule.

use std::{fs, path::Path};

use super::{
    MAX_LINES, above, count_texts_as_errors, in_file, is_test, lines_that_cite_what_is_not_here, orphans, too_long,
};
use crate::checks::packages::Package;

fn complaints_about(name: &str, text: &str) -> Vec<String> {
    in_file(Path::new(name), text)
}

#[test]
fn a_tidy_file_is_not_complained_about() {
    assert_eq!(complaints_about("backoff.rs", "//! How long a pod waits.\n"), [""; 0]);
}

#[test]
fn a_file_says_what_lives_in_it() {
    assert_eq!(complaints_about("a.rs", "use b::c;\n").len(), 1);
}

#[test]
fn a_file_is_named_after_what_is_in_it() {
    assert_eq!(complaints_about("src/utils.rs", "//! Everything.\n").len(), 1);
}

#[test]
fn a_long_file_is_split_but_its_tests_do_not_count() {
    let lines = "fn line() {}\n".repeat(MAX_LINES);
    assert_eq!(complaints_about("a.rs", &format!("//! Long.\n{lines}")).len(), 1);
    assert_eq!(complaints_about("a.rs", &format!("//! Short.\n#[cfg(test)]\nmod tests {{\n{lines}}}\n")), [""; 0]);
}

#[test]
fn the_binary_stays_thin_and_libraries_have_no_ceiling() {
    assert_eq!(too_long("berth-host", 4_999), None);
    assert!(too_long("berth-host", 5_000).is_some());
    assert_eq!(too_long("berth-scheduler", 50_000), None);
}

#[test]
fn a_comment_begins_with_its_subject() {
    let text = "//! A page.\n/// WORD the manifest.\nfn f() { g(); // WORD itself.\n}\n".replace("WORD", "Of");
    assert_eq!(complaints_about("a.rs", &text), ["a.rs:2: begin the comment with its subject"]);
}

#[test]
fn sources_are_ones_that_can_be_opened() {
    let text = "/// The reference, PLACE 12.\n//! See PLACE 4 of it.\n/// KEP-2400, `pkg/scheduler/framework.go`.\nlet section = 4;\n";
    // The word would make the check complain about this file.
    let text = text.replace("PLACE", "section");
    assert_eq!(lines_that_cite_what_is_not_here(&text).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn results_of_text_are_counted_wherever_they_stand() {
    let count = |text: &str| count_texts_as_errors(text.parse().expect("Rust"));
    assert_eq!(count("fn f() -> Result<(), String> { }"), 1);
    assert_eq!(count("type T = Box<dyn Fn(Vec<u8>) -> Result<Vec<Option<u8>>, String>>;"), 1);
    assert_eq!(count("fn f() { let x: Result<fn(u8) -> u8, String> = y; }"), 1);
    assert_eq!(
        count("fn f() -> Result<String, Error>; fn g() -> Result<(u8, String)>; fn h() -> Result<u8, Vec<String>>;"),
        0
    );
    assert_eq!(count("// Result<(), String>\n"), 0);
    assert_eq!(count("fn f() -> anyhow::Result<String>;"), 0);
}

#[test]
fn more_than_the_ceiling_is_complained_about() {
    let found = |n: usize| vec!["a.rs".to_owned(); n];
    assert_eq!(above(&[("here", 2)], "here", "it", "is wrong", found(2)), None);
    let complaint = above(&[("here", 2)], "here", "it", "is wrong", found(3));
    assert_eq!(complaint.as_deref(), Some("here: it is wrong (3 found, 2 allowed): a.rs"));
    assert!(above(&[("here", 2)], "there", "it", "is wrong", found(1)).is_some());
}

#[test]
fn tests_are_told_by_their_place() {
    assert!(is_test(Path::new("crates/queue/src/tests.rs")) && is_test(Path::new("crates/queue/tests/it.rs")));
    assert!(!is_test(Path::new("crates/queue/src/queue.rs")));
}

#[test]
fn a_file_that_no_mod_names_is_an_orphan() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    fs::create_dir_all(folder.path().join("src/named")).expect("a folder");
    write("src/lib.rs", "mod named; #[cfg(test)] mod tests;");
    write("src/named.rs", "mod inner { mod deep; }");
    write("src/tests.rs", "");
    write("src/orphan.rs", "");
    fs::create_dir_all(folder.path().join("src/named/inner")).expect("a folder");
    write("src/named/inner/deep.rs", "");
    let files = ["src/lib.rs", "src/named.rs", "src/named/inner/deep.rs", "src/orphan.rs", "src/tests.rs"];
    let package = Package {
        name: "made-up".to_owned(),
        folder: folder.path().to_owned(),
        roots: vec![folder.path().join("src/lib.rs")],
        files: files.map(|file| folder.path().join(file)).to_vec(),
    };
    let orphans = orphans(&package).expect("files that can be read");
    assert_eq!(orphans, [format!("{}: no `mod` names this file", folder.path().join("src/orphan.rs").display())]);
}
