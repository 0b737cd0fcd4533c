//! Replays every seed, crashes of the past among them.

use std::{fs, path::Path};

#[test]
fn every_target_bears_its_seeds() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (name, target) in fuzz_targets::TARGETS {
        let mut n_seeds = 0;
        for entry in fs::read_dir(root.join(name))? {
            let path = entry?.path();
            println!("{}", path.display());
            target(&fs::read(&path)?);
            n_seeds += 1;
        }
        assert!(n_seeds > 0, "{name} has no seeds");
    }
    Ok(())
}

/// A seed in a folder that no target has would never run.
#[test]
fn every_folder_of_seeds_has_a_target() -> std::io::Result<()> {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds"))? {
        let name = entry?.file_name();
        assert!(name.to_str().is_some_and(|name| fuzz_targets::target(name).is_some()), "no target {}", name.display());
    }
    Ok(())
}
