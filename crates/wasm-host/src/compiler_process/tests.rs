//! The ways in which a compiler's process can end, with real processes, and the limits of its resources.

use super::*;

const LIMITS: CompileLimits = CompileLimits { cpu_time: Duration::from_secs(60), memory_bytes: 1 << 20 };

/// The error for a real process that ends like the script.
fn end_of(script: &str, limits: CompileLimits) -> CompileError {
    let shell = CompilerProcess {
        program: "/bin/sh".into(),
        arg0: "sh".into(),
        arguments: vec!["-c".into(), format!("cat > /dev/null; {script}").into()],
    };
    shell.compile(b"bytes", limits).expect_err("there is no artefact")
}

#[test]
fn a_process_without_processor_time_left_is_told_as_that() {
    let error = end_of("kill -XCPU $$", LIMITS);
    assert!(matches!(error, CompileError::ProcessorTime(_)), "{error:?}");
    assert_eq!(error.to_string(), "takes more than 60 s of processor time to compile");
}

#[test]
fn a_process_that_outlasts_the_clock_is_ended_and_told_as_that() {
    let limits = CompileLimits { cpu_time: Duration::from_millis(20), ..LIMITS };
    let error = end_of("exec sleep 1000", limits);
    assert!(matches!(error, CompileError::Clock(_)), "{error:?}");
}

#[test]
fn a_process_whose_allocation_fails_is_told_as_out_of_memory() {
    for end in ["kill -ABRT $$", "exit 1", "exit 101"] {
        let error = end_of(&format!("echo memory allocation of 7 bytes failed >&2; {end}"), LIMITS);
        assert!(matches!(error, CompileError::Memory(limit) if limit == LIMITS.memory_bytes), "{end}: {error:?}");
    }
}

#[test]
fn a_process_that_the_kernel_kills_is_told_as_that() {
    let error = end_of("kill -KILL $$", LIMITS);
    assert!(matches!(error, CompileError::Killed), "{error:?}");
    let says = error.to_string();
    assert!(says.contains("raise the container's memory limit or lower files.compileMemory"), "{says}");
}

#[test]
fn a_process_that_crashes_is_told_with_its_signal() {
    let error = end_of("echo broken >&2; kill -SEGV $$", LIMITS);
    let CompileError::Crashed { signal, message } = error else { panic!("{error:?}") };
    assert_eq!((signal, message.as_str()), (libc::SIGSEGV, "broken"));
}

#[test]
fn a_process_that_refuses_the_bytes_is_told_with_its_reason() {
    let error = end_of("echo no wasm >&2; exit 1", LIMITS);
    assert!(matches!(&error, CompileError::Invalid(reason) if reason == "no wasm"), "{error:?}");
}

#[test]
fn another_exit_code_is_told() {
    let error = end_of("echo panicked >&2; exit 101", LIMITS);
    let CompileError::ExitCode { code, message } = error else { panic!("{error:?}") };
    assert_eq!((code, message.as_str()), (101, "panicked"));
}

#[test]
fn a_program_that_cannot_be_started_is_told() {
    let nothing = CompilerProcess { program: "/nothing".into(), arg0: "nothing".into(), arguments: Vec::new() };
    assert!(matches!(nothing.compile(b"", LIMITS), Err(CompileError::Process(_))));
}

#[test]
fn an_artefact_beyond_the_bound_is_refused_unread() {
    // The process announces 0x7f00000000 bytes and sends no bytes.
    let error = end_of(r"printf '\000\000\000\000\177\000\000\000'; exec sleep 1000", LIMITS);
    let CompileError::ArtefactTooLarge { size, limit } = error else { panic!("{error:?}") };
    assert_eq!((size, limit), (0x7f_0000_0000, MAX_ARTEFACT_BYTES));
}

#[test]
fn an_artefact_is_taken_whole_or_not_at_all() {
    let sent = |length: u64, bytes: &[u8]| {
        let sent = [&length.to_le_bytes(), bytes].concat();
        Answer::read(sent.as_slice()).expect("it can be read")
    };
    match sent(3, b"abc") {
        Answer::Artefact(artefact) => assert_eq!((artefact.as_slice(), artefact.capacity()), (b"abc".as_slice(), 3)),
        _ => panic!("the artefact is there"),
    }
    assert!(matches!(sent(4, b"abc"), Answer::Nothing));
    assert!(matches!(sent(MAX_ARTEFACT_BYTES + 1, b"abc"), Answer::TooLarge(_)));
    assert!(matches!(Answer::read([1, 2].as_slice()), Ok(Answer::Nothing)));
}

#[test]
fn memory_is_half_of_what_there_is_and_never_more_than_configured() {
    let limits = |available| CompileLimits { memory_bytes: 4 << 30, ..LIMITS }.within(available).memory_bytes;
    assert_eq!(limits(Some(2 << 30)), 1 << 30);
    assert_eq!(limits(Some(64 << 30)), 4 << 30);
    assert_eq!(limits(None), 4 << 30);
    let here = CompileLimits { memory_bytes: u64::MAX, ..LIMITS }.here().memory_bytes;
    let there_is = available_memory(Path::new("/")).expect("Linux says how much");
    assert_eq!(here, there_is / 2);
}
