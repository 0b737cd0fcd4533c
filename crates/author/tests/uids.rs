//! A pod has one uid in a case: while it is pending, and once it is on a node.

use std::{collections::BTreeSet, sync::LazyLock};

use berth_author::{CaseFile, CaseHost};
use berth_framework::{
    BuildError, Call, Configure, ConfigureError, Effect, Manifest, Plugin, PluginFactory, PluginType as _,
    PluginVersion, Points, PreFilter, Reserve, Status,
};
use berth_model::NodeIdx;

/// Counts pods like the guide's quota: pods that it reserved, and pods on nodes, each once.
#[derive(Debug, Default)]
struct Counted {
    reserved: BTreeSet<String>,
}

berth_framework::plugin!(Counted: PreFilter, Reserve);

impl Configure for Counted {
    fn describe() -> Manifest {
        Manifest { name: "Counted".to_owned(), ..Manifest::default() }
    }

    fn configure(_args: &str) -> Result<Self, ConfigureError> {
        Ok(Self::default())
    }
}

impl PreFilter for Counted {
    /// Rejects each pod after the first, with all uids.
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        let mut uids = self.reserved.clone();
        uids.extend(call.table.pods().iter().map(|(_, pod, _)| pod.uid.to_string()));
        if uids.is_empty() {
            return Ok(None);
        }
        let json: serde_json::Value = serde_json::from_slice(call.pod.json.as_deref().unwrap_or_default())
            .map_err(|it| Status::error(it.to_string()))?;
        let uid = json["metadata"]["uid"].as_str().unwrap_or_default();
        Err(Status::unschedulable(format!("{} is {uid}, after {uids:?}", call.pod.uid)))
    }
}

impl Reserve for Counted {
    fn reserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Status {
        self.reserved.insert(call.pod.uid.to_string());
        Status::success()
    }

    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.reserved.remove(call.pod.uid.as_str());
        Vec::new()
    }
}

#[derive(Debug)]
struct Factory;

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        static MANIFEST: LazyLock<Manifest> = LazyLock::new(Counted::describe);
        &MANIFEST
    }

    fn points(&self) -> Points {
        Counted::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(self.manifest())
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Counted::configure(args)?))
    }
}

const CASES: &str = "
plugin: Counted
cases:
- name: one pod
  pod: {metadata: {name: web, namespace: team}}
  steps:
  - nodes: [{metadata: {name: a}}]
    bindTo: a
  - pod: {metadata: {name: second, namespace: team}}
    expect: {preFilter: {code: Unschedulable, reasons: ['team/second is team/second, after {\"team/web\"}']}}
- name: a pod with a uid of its own
  pod: {metadata: {name: web, namespace: team, uid: '7'}}
  steps:
  - nodes: [{metadata: {name: a}}]
    bindTo: a
  - pod: {metadata: {name: second, namespace: team, uid: '8'}}
    expect: {preFilter: {code: Unschedulable, reasons: ['8 is 8, after {\"7\"}']}}
";

#[test]
fn a_pod_that_is_placed_keeps_its_uid() {
    let file: CaseFile = serde_saphyr::from_str(CASES).expect("cases");
    for result in file.run(&Factory, &CaseHost::default()) {
        assert_eq!(result.differences, Vec::<String>::new(), "{}", result.name);
    }
}
