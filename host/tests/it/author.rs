//! What `berth plugin` tells an author about a component.

use std::{fs, path::Path, time::Duration};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Ended, Process};

const LIMIT: Duration = Duration::from_secs(300);

/// A folder with a component, as an author has it after a build.
struct Project(TempDir);

impl Project {
    fn new(name: &str, component: &[u8]) -> Self {
        let project = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir(project.path().join("build")).expect("a folder");
        fs::write(project.path().join(format!("build/{name}.wasm")), component).expect("a file");
        project
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    async fn berth(&self, arguments: &[&str]) -> Ended {
        let (here, cache) = (self.path().display().to_string(), self.path().join("cache").display().to_string());
        let arguments = [&["plugin"], arguments, &[here.as_str()]].concat();
        let ended = Process::berth_with(arguments, &[("XDG_CACHE_HOME", &cache)]).ended(LIMIT).await;
        assert!(ended.status.success(), "{}{}", ended.out, ended.err);
        ended
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_bring_pods_back_are_shown_in_words() {
    let component = berth_components::COMPONENTS.iter().find(|component| component.name == "NodeAffinity");
    let project = Project::new("NodeAffinity", component.expect("a built-in").bytes);
    let shown = project.berth(&["inspect"]).await.out;
    assert!(shown.contains("Tries pods again on  Node: Add, UpdateNodeLabel\n"), "{shown}");
    let report: Value = serde_json::from_str(&project.berth(&["inspect", "-o", "json"]).await.out).expect("JSON");
    assert_eq!(report["requeue"][0], "Node: Add, UpdateNodeLabel");
}
