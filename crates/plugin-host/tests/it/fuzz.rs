//! Random changes of files. The last reports must match the final content of the directory. `cargo xtask fuzz` makes
//! more changes.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use berth_model::Digest;
use berth_plugin_host::{DirectoryChange, DirectoryEvent, PluginsDirectory};
use berth_test_guests::by_priority_named;
use berth_wasm_host::Binary;
use fuzz_targets::{Random, rounds};

use crate::engine;

/// The time is longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The number of changes after which the directory is checked. It may also contain a pipe.
const UNTIL_LOOKED_AT: usize = 30;

/// The last report about a directory matches its content after any changes to its files.
#[test]
fn a_directory_is_seen_as_it_ends() {
    let good: Vec<Vec<u8>> = NAMES.iter().map(|name| by_priority_named(name).unwrap()).collect();
    let engine = engine();
    rounds(3, |random| {
        let dir = tempfile::tempdir().unwrap();
        let mut directory = PluginsDirectory::new(engine.clone(), dir.path());
        directory.scan().unwrap();
        let (sender, events) = channel();
        let watch = directory.watch(move |event| drop(sender.send(event))).unwrap();
        let mut seen = Seen::default();
        for step in 1..=20 + random.below(200) {
            disturb(dir.path(), &good, random);
            if step % UNTIL_LOOKED_AT == 0 {
                let pipe = dir.path().join(format!("{}.wasm", random.one_of(&NAMES)));
                let _ = remove(&pipe);
                make_pipe(&pipe).unwrap();
                let mark = format!("looked at after {step}").into_bytes();
                fs::write(dir.path().join("Mark.wasm"), &mark).unwrap();
                let mark = Some(Binary::new("Mark", mark).digest());
                while seen.mark != mark {
                    seen.take(&next(&events, &seen));
                }
            }
        }
        // The first exists, the second is not a plugin, and the third is deleted.
        clear(dir.path());
        fs::write(dir.path().join("incoming"), &good[0]).unwrap();
        fs::rename(dir.path().join("incoming"), dir.path().join("A.wasm")).unwrap();
        fs::write(dir.path().join("B.wasm"), "the last word").unwrap();
        let expected = Seen {
            a: Some(Binary::new("A", good[0].clone()).digest()),
            refused_b: Some(Binary::new("B", *b"the last word").digest()),
            is_c_there: false,
            mark: seen.mark,
        };
        while seen != expected {
            seen.take(&next(&events, &expected));
        }
        drop(watch);
    });
}

fn next(events: &Receiver<DirectoryEvent>, expected: &Seen) -> DirectoryEvent {
    events.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no more events, but not yet {expected:?}"))
}

const NAMES: [&str; 3] = ["A", "B", "C"];

/// The state according to the events so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    a: Option<Digest>,
    refused_b: Option<Digest>,
    is_c_there: bool,
    mark: Option<Digest>,
}

impl Seen {
    fn take(&mut self, event: &DirectoryEvent) {
        let (loaded, refused) = match &event.change {
            DirectoryChange::Loaded { factory, .. } => (Some(factory.digest()), None),
            DirectoryChange::Refused { digest, .. } => (None, *digest),
            DirectoryChange::Removed => (None, None),
        };
        match event.name.as_str() {
            "A" => self.a = loaded,
            "B" => self.refused_b = refused,
            "C" => self.is_c_there = !matches!(event.change, DirectoryChange::Removed),
            _ => self.mark = refused,
        }
    }
}

/// One random change of a file.
fn disturb(dir: &Path, good: &[Vec<u8>], random: &mut Random) {
    let which = random.below(NAMES.len());
    let path = dir.join(format!("{}.wasm", NAMES[which]));
    let other = dir.join(format!("{}.wasm", random.one_of(&NAMES)));
    // Many changes fail, because another change has taken the name.
    let _ = match random.below(12) {
        // A write to a pipe would wait for a reader.
        0..5 if fs::metadata(&path).is_ok_and(|metadata| metadata.file_type().is_fifo()) => remove(&path),
        0..3 => fs::write(&path, &good[which]),
        3 => fs::write(&path, &good[which][..random.below(good[which].len())]),
        4 => fs::write(&path, "no plugin"),
        5 => fs::write(dir.join("incoming"), &good[which]).and_then(|()| fs::rename(dir.join("incoming"), &path)),
        6 => fs::rename(&path, &other),
        7 => symlink(&other, &path),
        8 => fs::create_dir(&path),
        9 => make_pipe(&path),
        10 => fs::set_permissions(&path, fs::Permissions::from_mode(0o000)),
        _ => remove(&path),
    };
}

fn make_pipe(path: &Path) -> std::io::Result<()> {
    Command::new("mkfifo").arg(path).stderr(Stdio::null()).status().map(drop)
}

fn remove(path: &Path) -> std::io::Result<()> {
    fs::remove_file(path).or_else(|_| fs::remove_dir(path))
}

fn clear(dir: &Path) {
    for name in NAMES {
        let _ = remove(&dir.join(format!("{name}.wasm")));
    }
}
