//! Tests of the events from the watch of a plugins directory, which arrive on its channel.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use berth_model::Digest;
use berth_plugin_host::{
    Admission, Approval, Candidate, DirectoryChange, DirectoryEvent, DirectoryWatch, FileError, NotAdmitted,
    PluginsDirectory,
};
use berth_test_guests as guests;
use berth_wasm_host::{CompilerProcess, Engine, EngineOptions, LoadError};

use crate::engine;

/// The time is longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

struct Watched {
    events: Receiver<DirectoryEvent>,
    watch: DirectoryWatch,
}

impl Watched {
    fn new(dir: &Path) -> Self {
        Self::with(engine(), dir)
    }

    fn with(engine: Engine, dir: &Path) -> Self {
        let mut directory = PluginsDirectory::new(engine, dir);
        directory.scan().unwrap();
        let (sender, events) = channel();
        let watch = directory.watch(move |event| drop(sender.send(event))).unwrap();
        Self { events, watch }
    }

    fn next(&self) -> DirectoryEvent {
        self.events.recv_timeout(PATIENCE).unwrap()
    }

    /// The digest of the plugin in the next event.
    fn next_loaded(&self, name: &str) -> Digest {
        let event = self.next();
        assert_eq!(event.name, name);
        match event.change {
            DirectoryChange::Loaded { factory, .. } => factory.digest(),
            other @ (DirectoryChange::Refused { .. } | DirectoryChange::Removed) => panic!("{other:?}"),
        }
    }

    fn next_removed(&self, name: &str) {
        let event = self.next();
        assert_eq!(event.name, name);
        assert!(matches!(event.change, DirectoryChange::Removed), "{event:?}");
    }
}

/// A second version of `ByPriority`: the same component with an added custom section.
fn newer_version() -> Vec<u8> {
    let mut bytes = guests::by_priority().unwrap();
    bytes.extend_from_slice(&[0, 2, 1, b'v']);
    bytes
}

#[test]
fn the_first_scan_finds_plugins_and_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ByPriority.wasm"), guests::by_priority().unwrap()).unwrap();
    fs::write(dir.path().join("Note.wasm"), "not yet").unwrap();
    fs::write(dir.path().join("README.md"), "plugins go here").unwrap();
    fs::write(dir.path().join(".Hidden.wasm"), "a file on its way").unwrap();
    let found = PluginsDirectory::new(engine(), dir.path()).scan().unwrap();
    let [by_priority, note] = found.as_slice() else { panic!("{found:?}") };
    assert!(
        by_priority.name == "ByPriority" && matches!(by_priority.change, DirectoryChange::Loaded { .. }),
        "{by_priority:?}"
    );
    assert!(
        note.name == "Note"
            && matches!(note.change, DirectoryChange::Refused { error: FileError::NoPlugin(LoadError::NotWasm), .. }),
        "{note:?}"
    );
}

#[test]
fn a_file_is_loaded_replaced_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let watched = Watched::new(dir.path());
    let file = dir.path().join("ByPriority.wasm");
    fs::write(&file, guests::by_priority().unwrap()).unwrap();
    let first = watched.next_loaded("ByPriority");
    fs::write(&file, newer_version()).unwrap();
    assert_ne!(watched.next_loaded("ByPriority"), first);
    fs::remove_file(&file).unwrap();
    watched.next_removed("ByPriority");
}

#[test]
fn a_file_renamed_into_place_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ByPriority.wasm"), guests::by_priority().unwrap()).unwrap();
    let watched = Watched::new(dir.path());
    fs::write(dir.path().join("ByPriority.wasm.tmp"), newer_version()).unwrap();
    fs::rename(dir.path().join("ByPriority.wasm.tmp"), dir.path().join("ByPriority.wasm")).unwrap();
    watched.next_loaded("ByPriority");
    fs::rename(dir.path().join("ByPriority.wasm"), dir.path().join("ByPriority.off")).unwrap();
    watched.next_removed("ByPriority");
}

/// A file that is replaced and immediately deleted also removes the previous version.
#[test]
fn a_file_replaced_and_deleted_in_one_breath_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ByPriority.wasm");
    fs::write(&file, guests::by_priority().unwrap()).unwrap();
    let watched = Watched::new(dir.path());
    fs::write(dir.path().join("incoming"), "no plugin").unwrap();
    fs::rename(dir.path().join("incoming"), &file).unwrap();
    fs::remove_file(&file).unwrap();
    watched.next_removed("ByPriority");
}

#[test]
fn links_through_a_swapped_directory_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    for (version, bytes) in [("one", guests::by_priority().unwrap()), ("two", newer_version())] {
        fs::create_dir(dir.path().join(version)).unwrap();
        fs::write(dir.path().join(version).join("ByPriority.wasm"), bytes).unwrap();
    }
    symlink("one", dir.path().join("data")).unwrap();
    symlink("data/ByPriority.wasm", dir.path().join("ByPriority.wasm")).unwrap();
    let watched = Watched::new(dir.path());
    symlink("two", dir.path().join("data.tmp")).unwrap();
    fs::rename(dir.path().join("data.tmp"), dir.path().join("data")).unwrap();
    watched.next_loaded("ByPriority");
}

#[test]
fn equal_bytes_are_no_event_and_bad_ones_are() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ByPriority.wasm");
    fs::write(&file, guests::by_priority().unwrap()).unwrap();
    let watched = Watched::new(dir.path());
    let copy = dir.path().join("copy");
    fs::write(&copy, guests::by_priority().unwrap()).unwrap();
    fs::rename(copy, &file).unwrap();
    // Names are handled in order, so any event about ByPriority would come before this event.
    fs::write(dir.path().join("Text.wasm"), "no plugin").unwrap();
    let event = watched.next();
    assert_eq!(event.name, "Text");
    assert!(matches!(event.change, DirectoryChange::Refused { error: FileError::NoPlugin(LoadError::NotWasm), .. }));
}

#[test]
fn a_file_is_loaded_again_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ByPriority.wasm"), guests::by_priority().unwrap()).unwrap();
    let watched = Watched::new(dir.path());
    watched.watch.reload("Absent");
    watched.watch.reload("ByPriority");
    watched.next_loaded("ByPriority");
}

/// The kubelet's layout of a ConfigMap: `NAME -> ..data/NAME`, `..data -> ..TIME`. A rename replaces the latter.
#[test]
fn a_volume_of_a_config_map_is_followed_through_its_updates() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("..2026_01")).unwrap();
    symlink("..2026_01", path("..data")).unwrap();
    let watched = Watched::new(dir.path());
    // A new key: first the directory of the update is written, then the swap, then the link.
    for (version, bytes) in [("..2026_02", guests::by_priority().unwrap()), ("..2026_03", newer_version())] {
        fs::create_dir(path(version)).unwrap();
        fs::write(path(version).join("ByPriority.wasm"), bytes).unwrap();
        symlink(version, path("..data_tmp")).unwrap();
        fs::rename(path("..data_tmp"), path("..data")).unwrap();
        if version == "..2026_02" {
            symlink("..data/ByPriority.wasm", path("ByPriority.wasm")).unwrap();
        } else {
            fs::remove_dir_all(path("..2026_02")).unwrap();
        }
        watched.next_loaded("ByPriority");
    }
    // The key is removed. The link remains until the kubelet removes the link.
    fs::create_dir(path("..2026_04")).unwrap();
    symlink("..2026_04", path("..data_tmp")).unwrap();
    fs::rename(path("..data_tmp"), path("..data")).unwrap();
    watched.next_removed("ByPriority");
}

#[test]
fn another_directory_of_the_name_is_watched_too() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("plugins");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("ByPriority.wasm"), guests::by_priority().unwrap()).unwrap();
    let watched = Watched::new(&dir);
    fs::rename(&dir, parent.path().join("old")).unwrap();
    fs::create_dir(&dir).unwrap();
    watched.next_removed("ByPriority");
    fs::write(dir.join("ByPriority.wasm"), newer_version()).unwrap();
    watched.next_loaded("ByPriority");
}

/// Admits files with a file beside them, and returns the name in that file.
#[derive(Debug)]
struct Signed;

impl Admission for Signed {
    fn companions(&self) -> &'static [&'static str] {
        &["sig"]
    }

    fn admit(&self, file: Candidate<'_>) -> Result<Approval, NotAdmitted> {
        match file.companions {
            [Some(name)] => Ok(Approval { signed_by: vec![String::from_utf8_lossy(name).into_owned()] }),
            _ => Err(NotAdmitted("has nothing beside it".to_owned())),
        }
    }
}

#[test]
fn a_gate_decides_by_what_lies_beside_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ByPriority.wasm"), guests::by_priority().unwrap()).unwrap();
    let mut directory = PluginsDirectory::new(engine(), dir.path()).with_admission(std::sync::Arc::new(Signed));
    let found = directory.scan().unwrap();
    let [DirectoryEvent { change: DirectoryChange::Refused { error, digest }, .. }] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(error.to_string() == "has nothing beside it" && digest.is_some(), "{error}");
    let (sender, events) = channel();
    let watch = directory.watch(move |event| drop(sender.send(event))).unwrap();
    let watched = Watched { events, watch };
    fs::write(dir.path().join("ByPriority.wasm.sig"), "somebody").unwrap();
    let event = watched.next();
    let DirectoryChange::Loaded { approval, .. } = event.change else { panic!("{event:?}") };
    assert_eq!(approval.signed_by, ["somebody"]);
}

/// Nothing changes in the directory between the two attempts.
#[test]
fn a_file_whose_compiler_could_not_be_started_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = CompilerProcess { program: "/nothing".into(), arg0: "nothing".into(), arguments: Vec::new() };
    let options = EngineOptions { compiler: Some(nothing), ..EngineOptions::default() };
    let watched = Watched::with(Engine::new(options).unwrap(), dir.path());
    fs::write(dir.path().join("ByPriority.wasm"), guests::by_priority().unwrap()).unwrap();
    for _ in 0..2 {
        let event = watched.next();
        let DirectoryChange::Refused { error, .. } = event.change else { panic!("{event:?}") };
        assert!(error.to_string().contains("cannot start the compiler's process"), "{error}");
    }
}
