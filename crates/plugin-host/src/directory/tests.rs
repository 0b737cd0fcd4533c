//! Tests of what happens to files, pass by pass.

use std::{fs, process::Command};

use berth_wasm_host::{Binary, CompilerProcess, EngineOptions};

use super::*;

fn directory(dir: &Path, options: EngineOptions) -> PluginsDirectory {
    PluginsDirectory::new(Engine::new(options).expect("an engine"), dir)
}

/// Passes over a directory, and their events.
struct Passes {
    directory: PluginsDirectory,
    loads: Loads,
    events: mpsc::Receiver<DirectoryEvent>,
}

impl Passes {
    fn new(dir: &Path) -> Self {
        Self::with(dir, EngineOptions::default())
    }

    fn with(dir: &Path, options: EngineOptions) -> Self {
        let (sender, events) = mpsc::channel();
        let sink = Arc::new(Mutex::new(move |event| drop(sender.send(event))));
        let loads = Loads::start(sink, Weak::new()).expect("threads");
        Self { directory: directory(dir, options), loads, events }
    }

    /// The events after one pass.
    fn pass(&mut self, now: Instant) -> Vec<DirectoryEvent> {
        self.directory.pass(now, &self.loads);
        self.loads.attempts.wait_for_all();
        self.events.try_iter().collect()
    }
}

/// The reason why the only file in a directory is refused.
fn refusal(directory: &mut PluginsDirectory) -> String {
    let mut events = directory.scan().expect("a folder");
    match (events.pop(), events.is_empty()) {
        (Some(DirectoryEvent { change: DirectoryChange::Refused { error, .. }, .. }), true) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = fs::File::create(dir.path().join("Sparse.wasm")).expect("a file");
    file.set_len(6 << 30).expect("a sparse file");
    let mut directory = directory(dir.path(), EngineOptions::default());
    assert_eq!(refusal(&mut directory), "has 6442450944 bytes, more than the 134217728 that a plugin may have");
}

#[test]
fn a_file_that_is_rewritten_all_the_time_is_loaded_now_and_then_and_in_the_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("Mine.wasm");
    let mut passes = Passes::new(dir.path());
    let (mut now, mut events) = (Instant::now(), Vec::new());
    let mut last = None;
    for version in 0..200_u32 {
        fs::write(&file, format!("version {version}")).expect("a file");
        last = Some(Binary::new("Mine", format!("version {version}").into_bytes()).digest());
        // The second pass finds the file unchanged, so the file has settled.
        for _ in 0..2 {
            now += Duration::from_millis(5);
            events.extend(passes.pass(now));
        }
    }
    now += Duration::from_secs(1);
    events.extend(passes.pass(now));
    let digest = |DirectoryEvent { change, .. }| match change {
        DirectoryChange::Refused { digest: Some(digest), .. } => digest,
        other => panic!("{other:?}"),
    };
    let loaded: Vec<Digest> = events.into_iter().map(digest).collect();
    assert_eq!(loaded.len(), 7, "2 s and a burst of 5");
    assert_eq!(loaded.last().copied(), last);
}

#[test]
fn a_denied_file_is_refused_before_it_is_looked_into() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("Bad.wasm"), "of whatever kind").expect("a file");
    let digest = Binary::new("Bad", *b"of whatever kind").digest();
    let denied = [digest].into_iter().collect();
    let mut directory = directory(dir.path(), EngineOptions { denied, ..EngineOptions::default() });
    assert_eq!(
        refusal(&mut directory),
        format!("has a denied digest: {digest} is among deniedDigests in --plugin-config")
    );
    directory.loader.engine.set_denied(BTreeSet::new());
    directory.known.clear();
    assert_eq!(refusal(&mut directory), "is not a WebAssembly file");
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = Command::new("mkfifo").arg(dir.path().join("Pipe.wasm")).status().expect("mkfifo");
    assert!(made.success());
    let directory = directory(dir.path(), EngineOptions::default());
    let error = directory.loader.read("Pipe").expect_err("no file");
    assert_eq!(error.to_string(), "is not a regular file");
}

#[test]
fn a_name_steers_no_terminal() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("Red\u{1b}[31m.wasm"), berth_test_guests::by_priority().expect("a component"))
        .expect("a file");
    let events = directory(dir.path(), EngineOptions::default()).scan().expect("a folder");
    let [DirectoryEvent { name, change: DirectoryChange::Refused { error: FileError::Name, .. } }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(name, "Red\\u{1b}[31m");
}

#[test]
fn a_file_is_read_once_two_looks_agree() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut passes = Passes::new(dir.path());
    let bytes = berth_test_guests::by_priority().expect("a component");
    for length in [10, bytes.len() / 2, bytes.len()] {
        fs::write(dir.path().join("ByPriority.wasm"), &bytes[..length]).expect("a file");
        assert!(passes.pass(Instant::now()).is_empty(), "it may go on changing");
    }
    let events = passes.pass(Instant::now());
    assert!(matches!(events.as_slice(), [DirectoryEvent { change: DirectoryChange::Loaded { .. }, .. }]), "{events:?}");
    assert!(passes.pass(Instant::now()).is_empty());
}

#[test]
fn a_folder_by_the_name_of_a_plugin_is_refused_once() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("Mine.wasm")).expect("a folder");
    let mut passes = Passes::new(dir.path());
    let mut events = Vec::new();
    for name in ["", "one", "other"] {
        if !name.is_empty() {
            fs::write(dir.path().join("Mine.wasm").join(name), "in the folder").expect("a file");
        }
        events.extend(passes.pass(Instant::now()));
        events.extend(passes.pass(Instant::now()));
    }
    let [DirectoryEvent { name, change: DirectoryChange::Refused { error, .. } }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((name.as_str(), error.to_string().as_str()), ("Mine", "is a folder, not a file"));
}

/// The compiler is killed each time, as the kernel does when memory is short.
#[test]
fn a_file_whose_compiler_was_killed_is_loaded_again_after_growing_waits() {
    let dir = tempfile::tempdir().expect("a folder");
    let artefacts = tempfile::tempdir().expect("a folder");
    let options = || EngineOptions { artefacts: Some(artefacts.path().to_owned()), ..EngineOptions::default() };
    let killed = CompilerProcess {
        program: "/bin/sh".into(),
        arg0: "sh".into(),
        arguments: vec!["-c".into(), "cat > /dev/null; kill -KILL $$".into()],
    };
    let bytes = berth_test_guests::by_priority().expect("a component");
    fs::write(dir.path().join("ByPriority.wasm"), &bytes).expect("a file");
    let mut passes = Passes::with(dir.path(), EngineOptions { compiler: Some(killed), ..options() });
    let start = Instant::now();
    let mut after = |seconds: u64| {
        let now = start + Duration::from_secs(seconds);
        let mut events = passes.pass(now);
        // The second pass sees the same files as the first pass: the file has settled.
        events.extend(passes.pass(now));
        events
    };
    let is_refused = |events: &[DirectoryEvent]| match events {
        [] => false,
        [DirectoryEvent { change: DirectoryChange::Refused { error, .. }, .. }] => {
            assert!(error.to_string().contains("the compiler's process was killed"), "{error}");
            true
        }
        events => panic!("{events:?}"),
    };
    let refused: Vec<u64> = (0..60).filter(|second| is_refused(&after(*second))).collect();
    assert_eq!(refused, [0, 11, 32], "waits of 10, 20 and 40 s, each from the pass that saw the failure");
    // Another process compiles the same bytes.
    Engine::new(options()).expect("an engine").load(&Binary::new("ByPriority", bytes)).expect("a plugin");
    assert!(after(72).is_empty(), "it is not due yet");
    let events = after(73);
    assert!(matches!(events.as_slice(), [DirectoryEvent { change: DirectoryChange::Loaded { .. }, .. }]), "{events:?}");
    assert!(after(1000).is_empty());
}
