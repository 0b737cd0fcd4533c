//! Refusals are remembered on disk. A later engine needs no compiler and no call to refuse the same bytes.

use std::{fs, path::Path, time::Duration};

use berth_test_guests as guests;
use berth_wasm_host::{
    Binary, CompileError, CompileLimits, CompilerProcess, Engine, EngineOptions, FileLimits, Limits, LoadEffort,
    LoadError,
};

const COMPILE: CompileLimits = CompileLimits { cpu_time: Duration::from_secs(60), memory_bytes: 64 << 20 };

/// An engine with artefacts in `dir`, and a compiler that counts its starts and ends as the script says.
struct Setup {
    dir: tempfile::TempDir,
    script: &'static str,
}

impl Setup {
    fn new(script: &'static str) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), script }
    }

    fn engine(&self, compile: CompileLimits) -> Engine {
        let script = format!("echo >> {}; cat > /dev/null; {}", self.count().display(), self.script);
        let arguments = vec!["-c".into(), script.into()];
        let compiler = CompilerProcess { program: "/bin/sh".into(), arg0: "sh".into(), arguments };
        let files = FileLimits { compile, ..FileLimits::default() };
        let artefacts = Some(self.dir.path().join("artefacts"));
        Engine::new(EngineOptions { artefacts, files, compiler: Some(compiler), ..EngineOptions::default() }).unwrap()
    }

    fn load(&self, compile: CompileLimits) -> LoadError {
        self.engine(compile).load(&binary()).unwrap_err()
    }

    fn count(&self) -> std::path::PathBuf {
        self.dir.path().join("count")
    }

    /// The number of starts of the compiler.
    fn n_compiled(&self) -> usize {
        fs::read_to_string(self.count()).unwrap_or_default().lines().count()
    }
}

fn binary() -> Binary {
    Binary::new("ByPriority", guests::by_priority().unwrap())
}

#[test]
fn a_file_that_took_too_long_is_refused_after_a_restart_without_a_compiler() {
    let setup = Setup::new("kill -XCPU $$");
    let reason = setup.load(COMPILE).to_string();
    let again = setup.load(COMPILE);
    assert!(matches!(again, LoadError::Remembered(_)), "{again:?}");
    assert!(again.to_string().starts_with(&format!("{reason}; this is the result of an earlier load")), "{again}");
    assert_eq!(setup.n_compiled(), 1);
    // The refusal is known without effort.
    let found = setup.engine(COMPILE).try_load(&binary(), LoadEffort::Cached);
    assert!(matches!(found, Some(Err(LoadError::Remembered(_)))), "{found:?}");
}

#[test]
fn other_limits_and_an_order_have_a_refused_file_compiled_again() {
    let setup = Setup::new("kill -XCPU $$");
    setup.load(COMPILE);
    setup.load(CompileLimits { cpu_time: Duration::from_secs(61), ..COMPILE });
    assert_eq!(setup.n_compiled(), 2);
    let engine = setup.engine(CompileLimits { cpu_time: Duration::from_secs(61), ..COMPILE });
    engine.forget_refusal(binary().digest());
    assert!(matches!(engine.load(&binary()), Err(LoadError::Compile(CompileError::ProcessorTime(_)))));
    assert_eq!(setup.n_compiled(), 3);
}

#[test]
fn what_is_not_the_files_fault_is_not_remembered() {
    for script in ["kill -KILL $$", "kill -SEGV $$", "exit 101"] {
        let setup = Setup::new(script);
        setup.load(COMPILE);
        let again = setup.load(COMPILE);
        assert!(matches!(again, LoadError::Compile(_)), "{script}: {again:?}");
        assert_eq!(setup.n_compiled(), 2);
    }
}

#[test]
fn a_compiler_that_ends_for_want_of_effort_refuses_nothing() {
    let setup = Setup::new("kill -XCPU $$");
    let engine = setup.engine(COMPILE);
    assert!(engine.try_load(&binary(), LoadEffort::Cached).is_none());
    assert_eq!(setup.n_compiled(), 0);
    assert!(engine.try_load(&binary(), LoadEffort::Small).is_none());
    assert!(engine.try_load(&binary(), LoadEffort::Medium).is_none());
    let found = engine.try_load(&binary(), LoadEffort::Full);
    assert!(matches!(found, Some(Err(LoadError::Compile(CompileError::ProcessorTime(_))))), "{found:?}");
    assert_eq!(setup.n_compiled(), 3);
}

/// The compiler is started with its limits: seconds, and bytes of memory.
#[test]
fn a_compiler_may_not_use_all_the_memory_that_there_is() {
    let setup = Setup::new("echo $1 >&2; exit 1");
    let error = setup.load(CompileLimits { memory_bytes: u64::MAX, ..COMPILE });
    let LoadError::Compile(CompileError::Invalid(bytes)) = error else { panic!("{error:?}") };
    assert!(bytes.parse::<u64>().is_ok_and(|bytes| bytes < u64::MAX / 2), "{bytes}");
}

/// An engine that compiles in this process, with this limit for `describe`.
fn engine(artefacts: &Path, lifecycle_timeout: Duration) -> Engine {
    let limits = Limits { lifecycle_timeout, ..Limits::default() };
    Engine::new(EngineOptions { artefacts: Some(artefacts.to_owned()), limits, ..EngineOptions::default() }).unwrap()
}

#[test]
fn a_plugin_that_never_describes_itself_is_asked_once() {
    let dir = tempfile::tempdir().unwrap();
    let binary = Binary::new("LoopsInDescribe", guests::loops_in_describe().unwrap());
    let limit = Duration::from_millis(300);
    let error = engine(dir.path(), limit).load(&binary).unwrap_err();
    assert!(error.to_string().contains("took too long in describe"), "{error}");
    let error = engine(dir.path(), limit).load(&binary).unwrap_err();
    assert!(matches!(&error, LoadError::Remembered(reason) if reason.contains("took too long in describe")), "{error}");
    let error = engine(dir.path(), limit * 2).load(&binary).unwrap_err();
    assert!(matches!(error, LoadError::Faulty { .. }), "{error}");
}

#[test]
fn a_plugin_that_describes_itself_slowly_needs_more_effort() {
    let dir = tempfile::tempdir().unwrap();
    let binary = Binary::new("LoopsInDescribe", guests::loops_in_describe().unwrap());
    let engine = engine(dir.path(), Duration::from_millis(300));
    assert!(engine.try_load(&binary, LoadEffort::Cached).is_none(), "it is not compiled yet");
    assert!(engine.try_load(&binary, LoadEffort::Small).is_some(), "a second is more than the limit");
    engine.forget_refusal(binary.digest());
    assert!(engine.try_load(&binary, LoadEffort::Cached).is_none(), "it is compiled, and takes longer than there is");
}
