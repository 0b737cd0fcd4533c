//! A program loads exactly the components that were packed into its file.

use std::io::Cursor;

use super::*;

fn guest() -> Binary {
    Binary::new("ByPriority", berth_test_guests::by_priority().expect("a component"))
}

/// A program followed by these artefacts.
fn program(artefacts: &[u8]) -> Cursor<Vec<u8>> {
    let mut file = b"what the system loads".to_vec();
    append(artefacts, &mut file).expect("memory");
    Cursor::new(file)
}

#[test]
fn a_component_is_loaded_as_it_was_packed() {
    let guest = guest();
    let mut file = program(&compile(std::slice::from_ref(&guest)).expect("a component"));
    let precompiled = Precompiled::read(&mut file).expect("intact").expect("there");
    let engine = wasmtime::Engine::new(&settings::config()).expect("this machine");
    assert!(precompiled.load(&engine, guest.digest()).is_some());
    assert!(precompiled.load(&engine, Digest::new([7; 32])).is_none(), "nothing else was packed");
}

#[test]
fn artefacts_for_other_settings_are_refused() {
    let guest = guest();
    let precompiled = Precompiled::parse(compile(std::slice::from_ref(&guest)).expect("a component")).expect("a list");
    let engine = wasmtime::Engine::new(settings::config().epoch_interruption(false)).expect("this machine");
    assert!(precompiled.load(&engine, guest.digest()).is_none());
}

/// A processor with the instructions of x86-64-v2 and no others.
#[cfg(target_arch = "x86_64")]
#[test]
fn an_old_processor_will_do() {
    let guest = guest();
    let precompiled = Precompiled::parse(compile(std::slice::from_ref(&guest)).expect("a component")).expect("a list");
    let mut config = settings::portable().expect("this architecture");
    #[expect(unsafe_code, reason = "the processor can do more than it says here")]
    // SAFETY: each of them is there.
    unsafe {
        config.detect_host_feature(|feature| {
            Some(["cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"].contains(&feature))
        });
    }
    let engine = wasmtime::Engine::new(&config).expect("such a machine");
    assert!(precompiled.load(&engine, guest.digest()).is_some());
}

#[test]
fn a_program_without_artefacts_has_none() {
    for file in [&b""[..], b"short", b"a program as it comes from the linker, which is longer than any footer"] {
        assert!(Precompiled::read(&mut Cursor::new(file)).expect("no damage").is_none());
    }
    assert!(Precompiled::of_this_program().expect("this test").is_none());
}

#[test]
fn damage_is_told() {
    let file = program(&[&[7; HEAD_BYTES][..], b"rest"].concat()).into_inner();
    assert!(Precompiled::read(&mut Cursor::new(&file)).is_err(), "a length beyond the end");
    let intact = program(&[&[7; DIGEST_BYTES][..], &4_u64.to_le_bytes(), b"rest"].concat()).into_inner();
    assert_eq!(Precompiled::read(&mut Cursor::new(&intact)).expect("intact").expect("there").artefacts.len(), 1);
    let undamaged = Precompiled::read(&mut Cursor::new(&intact)).expect("intact").expect("there");
    for at in 21..intact.len() - MAGIC.len() {
        let mut file = intact.clone();
        file[at] ^= 0x40;
        // Some bits do not matter.
        if let Ok(Some(read)) = Precompiled::read(&mut Cursor::new(&file)) {
            assert_eq!(read.bytes, undamaged.bytes, "at {at}");
        }
    }
}
