//! Replays every seed, including earlier crashes.

use std::{fs, io, path::Path, thread};

/// Deeply nested CEL expressions only fit into the usual 2 MiB if the parser is compiled with optimisation.
const STACK_BYTES: usize = 32 << 20;

#[test]
fn every_target_bears_its_seeds() -> io::Result<()> {
    let replay = thread::Builder::new().stack_size(STACK_BYTES).spawn(replay_seeds)?;
    replay.join().expect("a target panicked on the seed printed last")
}

fn replay_seeds() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (name, target) in fuzz_targets::TARGETS {
        let mut n_seeds = 0;
        for entry in fs::read_dir(root.join(name))? {
            let path = entry?.path();
            eprintln!("{}", path.display());
            target(&fs::read(&path)?);
            n_seeds += 1;
        }
        assert!(n_seeds > 0, "{name} has no seeds");
    }
    Ok(())
}

/// A seed in a folder without a target would never run.
#[test]
fn every_folder_of_seeds_has_a_target() -> io::Result<()> {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds"))? {
        let name = entry?.file_name();
        assert!(name.to_str().is_some_and(|name| fuzz_targets::target(name).is_some()), "no target {}", name.display());
    }
    Ok(())
}
