//! One plugin inside a component: the replica, the open cycles, and the plugin itself.

use std::collections::BTreeMap;

use berth_framework::{
    Call, ClusterEvent, Configure, ConfigureError, CycleId, EventSubject, HintCall, Manifest, Plugin, Status,
};
use berth_model::{ClusterTable, Delta, Pod, PodIdx, Time, Usage};

use crate::{
    bindings::sync_pods::exports::berth::scheduler::sync_pods::AlikePod, convert, per_node::declared::expect_objects,
};

/// The data of a component between calls.
#[derive(Debug)]
pub struct Guest {
    describe: fn() -> Manifest,
    configure: fn(&str) -> Result<Box<dyn Plugin>, ConfigureError>,
    plugin: Option<Box<dyn Plugin>>,
    table: ClusterTable,
    cycles: BTreeMap<CycleId, OpenCycle>,
}

#[derive(Debug)]
struct OpenCycle {
    pod: Pod,
    /// The pods that the dry runs of the cycle have named.
    tried: Vec<Pod>,
}

impl Guest {
    /// A component of the plugin `P` that is not configured yet.
    #[must_use]
    pub fn new<P: Configure>() -> Self {
        let mut table = ClusterTable::default();
        table.objects_mut().report_absent_kinds(|api_version, kind| {
            expect_objects(&P::describe().needs, api_version, kind);
        });
        Self {
            describe: P::describe,
            configure: |args| P::configure(args).map(|plugin| Box::new(plugin) as Box<dyn Plugin>),
            plugin: None,
            table,
            cycles: BTreeMap::new(),
        }
    }

    pub(crate) fn describe(&self) -> Manifest {
        (self.describe)()
    }

    pub(crate) fn configure(&mut self, args: &str) -> Result<(), ConfigureError> {
        self.plugin = Some((self.configure)(args)?);
        Ok(())
    }

    pub(crate) fn apply(&mut self, delta: &Delta) {
        self.table.apply(delta);
        if let Some(plugin) = &mut self.plugin {
            plugin.follow(&self.table);
        }
    }

    /// Places pods on nodes that equal other pods.
    pub(crate) fn place_alike(&mut self, pods: Vec<AlikePod>) {
        #[expect(clippy::expect_used, reason = "the contract says that it is there")]
        let like = |alike: &AlikePod| self.table.pods().get(PodIdx(alike.like)).expect("a pod in the slot").0;
        let pods_placed = pods.into_iter().map(|alike| convert::alike_pod(like(&alike), alike)).collect();
        let delta = Delta {
            generation: self.table.generation(),
            symbols_position: self.table.symbols_position(),
            pods_placed,
            ..Delta::default()
        };
        self.apply(&delta);
    }

    /// Sets new values of the usage of pods on nodes.
    pub(crate) fn set_usage(&mut self, generation: u64, usage: impl Iterator<Item = Usage>) {
        usage.for_each(|usage| self.table.set_usage(&usage));
        self.table.set_generation(generation);
        if let Some(plugin) = &mut self.plugin {
            plugin.follow(&self.table);
        }
    }

    pub(crate) fn begin(&mut self, cycle: CycleId, pod: Pod) {
        self.cycles.insert(cycle, OpenCycle { pod, tried: Vec::new() });
    }

    pub(crate) fn end(&mut self, cycle: CycleId) {
        self.cycles.remove(&cycle);
        if let Some(plugin) = &mut self.plugin {
            plugin.end_cycle(cycle);
        }
    }

    /// The plugin, once it is configured.
    pub(crate) fn plugin(&mut self) -> Result<&mut dyn Plugin, Status> {
        match &mut self.plugin {
            Some(plugin) => Ok(plugin.as_mut()),
            None => Err(Status::error("called before configure")),
        }
    }

    /// Calls the plugin with the data that is visible in `cycle`.
    pub(crate) fn call<R>(
        &mut self,
        cycle: u64,
        answer: impl FnOnce(&mut dyn Plugin, &Call<'_>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let cycle = CycleId(cycle);
        self.call_with_tried(cycle, |plugin, call, _| answer(plugin, call))
    }

    /// The table for a dry run, with the pods that the dry run may name: the first `keep` pods of the previous dry run,
    /// then `more`.
    pub(crate) fn dry_run<R>(
        &mut self,
        cycle: u64,
        keep: usize,
        more: impl Iterator<Item = Pod>,
        answer: impl FnOnce(&mut dyn Plugin, &Call<'_>, &[&Pod]) -> Result<R, Status>,
    ) -> Result<R, Status> {
        self.call_with_tried(CycleId(cycle), |plugin, call, tried| {
            tried.truncate(keep);
            tried.extend(more);
            answer(plugin, call, &tried.iter().collect::<Vec<_>>())
        })
    }

    /// Asks whether the pod may enter activeQ.
    pub(crate) fn pre_enqueue(&mut self, pod: &Pod) -> Status {
        let Some(plugin) = &mut self.plugin else { return Status::error("called before configure") };
        match plugin.pre_enqueue() {
            Some(point) => point.pre_enqueue(pod, &self.table),
            None => absent(),
        }
    }

    /// Asks whether an event is worth another attempt. The answer is yes if the plugin is not configured yet or has no
    /// hint.
    pub(crate) fn hint(&mut self, pod: &Pod, event: &ClusterEvent, subject: EventSubject<'_>) -> bool {
        let Some(point) = self.plugin.as_deref_mut().and_then(<dyn Plugin>::queueing_hint) else { return true };
        point.queueing_hint(&HintCall { table: &self.table, pod, event, subject })
    }

    fn call_with_tried<R>(
        &mut self,
        cycle: CycleId,
        answer: impl FnOnce(&mut dyn Plugin, &Call<'_>, &mut Vec<Pod>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let Some(OpenCycle { pod, tried }) = self.cycles.get_mut(&cycle) else {
            return Err(Status::error("called outside a cycle"));
        };
        let Some(plugin) = &mut self.plugin else {
            return Err(Status::error("called before configure"));
        };
        answer(plugin.as_mut(), &Call::new(cycle, Time(crate::host::now()), pod, &self.table), tried)
    }
}

/// The error for an exported interface that the plugin's traits lack.
pub(crate) fn absent() -> Status {
    Status::error("the plugin does not implement the interface that it exports")
}

/// The place where [`export!`](crate::export) keeps the component's [`Guest`].
pub trait HasGuest {
    /// Runs `run` on the component's only guest. A call into the component from within `run` panics.
    fn with<R>(run: impl FnOnce(&mut Guest) -> R) -> R;
}
