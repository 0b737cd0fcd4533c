//! The interfaces of the contract. The plugin's framework traits answer them.

use std::sync::Arc;

use berth_framework::{Call, CycleId, DryRun, Failure, Plugin, Preemption, Reach, Removal, State, Status};
use berth_model::{NodeIdx, NodeSet};

use crate::{
    bindings::{
        bind::exports::berth::scheduler::bind,
        cycle::exports::berth::scheduler::cycle,
        explain::exports::berth::scheduler::explain,
        filter::exports::berth::scheduler::filter,
        lifecycle::exports::berth::scheduler::lifecycle,
        normalize_score::exports::berth::scheduler::normalize_score,
        permit::exports::berth::scheduler::permit,
        post_bind::exports::berth::scheduler::post_bind,
        post_filter::exports::berth::scheduler::post_filter,
        pre_bind::exports::berth::scheduler::pre_bind,
        pre_bind_pre_flight::exports::berth::scheduler::pre_bind_pre_flight,
        pre_enqueue::exports::berth::scheduler::pre_enqueue,
        pre_filter::exports::berth::scheduler::pre_filter,
        pre_score::exports::berth::scheduler::pre_score,
        queue_sort::exports::berth::scheduler::queue_sort,
        queueing_hint::exports::berth::scheduler::queueing_hint,
        reserve::exports::berth::scheduler::reserve,
        reuse::exports::berth::scheduler::reuse,
        score::exports::berth::scheduler::score,
        shared::berth::scheduler::{host, types as wit},
        shared_facts::exports::berth::built_in::shared_facts,
        sign::exports::berth::scheduler::sign,
        state::exports::berth::scheduler::state,
        sync::exports::berth::scheduler::sync,
        sync_pods::exports::berth::scheduler::sync_pods,
    },
    convert,
    guest::{HasGuest, absent},
    log,
};

fn failed(status: Status) -> wit::Status {
    convert::status_to_wit(status)
}

impl<T: HasGuest> lifecycle::Guest for T {
    fn describe() -> lifecycle::Manifest {
        log::install_panic_hook();
        T::with(|guest| convert::manifest_to_wit(guest.describe()))
    }

    fn configure(args: String) -> Result<(), String> {
        log::install_panic_hook();
        T::with(|guest| guest.configure(&args)).map_err(|error| error.to_string())
    }
}

impl<T: HasGuest> sync::Guest for T {
    fn apply(delta: sync::Delta) {
        T::with(|guest| guest.apply(&convert::delta(delta)));
    }
}

impl<T: HasGuest> sync_pods::Guest for T {
    fn place(pods: Vec<sync_pods::AlikePod>) {
        T::with(|guest| guest.place_alike(pods));
    }

    fn set_usage(generation: u64, usage: Vec<sync_pods::Usage>) {
        let usage = usage.into_iter().map(convert::usage);
        T::with(|guest| guest.set_usage(generation, usage));
    }
}

impl<T: HasGuest> cycle::Guest for T {
    fn begin(cycle: u64, pod: wit::Pod) {
        T::with(|guest| guest.begin(CycleId(cycle), convert::pod(pod)));
    }

    fn end(cycle: u64) {
        T::with(|guest| guest.end(CycleId(cycle)));
    }
}

impl<T: HasGuest> pre_enqueue::Guest for T {
    fn pre_enqueue(pod: wit::Pod) -> Result<(), wit::Status> {
        let pod = convert::pod(pod);
        let status = T::with(|guest| guest.pre_enqueue(&pod));
        convert::status_to_result(status)
    }
}

impl<T: HasGuest> queue_sort::Guest for T {
    fn sort_key(pod: wit::Pod, queued_at: i64) -> (i64, i64) {
        let pod = convert::pod(pod);
        T::with(|guest| match guest.plugin().map(<dyn Plugin>::queue_sort) {
            Ok(Some(plugin)) => plugin.sort_key(&pod, queued_at),
            Ok(None) | Err(_) => (0, queued_at),
        })
    }
}

impl<T: HasGuest> pre_filter::Guest for T {
    fn pre_filter(cycle: u64) -> Result<Option<Vec<String>>, wit::Status> {
        T::with(|guest| guest.call(cycle, |plugin, call| plugin.pre_filter().ok_or_else(absent)?.pre_filter(call)))
            .map_err(failed)
    }
}

impl<T: HasGuest> filter::Guest for T {
    fn filter(cycle: u64, candidates: Vec<u64>) -> Result<Vec<u64>, wit::Status> {
        let mut candidates = NodeSet::from_words(candidates);
        T::with(|guest| {
            guest.call(cycle, |plugin, call| plugin.filter().ok_or_else(absent)?.filter(call, &mut candidates))
        })
        .map_err(failed)?;
        Ok(convert::rows_to_wit(&candidates))
    }

    fn node_to_status(cycle: u64, rejected: Vec<u64>) -> Result<Vec<wit::RejectedNodes>, wit::Status> {
        let rejected = NodeSet::from_words(rejected);
        T::with(|guest| {
            guest.call(cycle, |plugin, call| plugin.filter().ok_or_else(absent)?.node_to_status(call, &rejected))
        })
        .map(convert::groups_to_wit)
        .map_err(failed)
    }

    fn dry_run(
        cycle: u64,
        keep: u32,
        pods: Vec<wit::Pod>,
        cases: Vec<filter::DryRunCase>,
    ) -> Result<Vec<wit::Status>, wit::Status> {
        let cases = convert::dry_run_cases(cases);
        let named = pods.into_iter().map(convert::pod);
        T::with(|guest| {
            guest.dry_run(cycle, keep as usize, named, |plugin, call, pods| {
                plugin.filter().ok_or_else(absent)?.dry_run(call, pods, &cases)
            })
        })
        .map(|statuses| statuses.into_iter().map(convert::status_to_wit).collect())
        .map_err(failed)
    }
}

impl<T: HasGuest> post_filter::Guest for T {
    fn post_filter(cycle: u64, failure: post_filter::Failure) -> Result<post_filter::Outcome, wit::Status> {
        let rejections: Vec<_> = failure.rejections.into_iter().map(convert::group).collect();
        let absent_status = failure.absent.map(convert::status);
        let nominated: Vec<_> =
            failure.nominated.into_iter().map(|(node, pod)| (NodeIdx(node), Arc::new(convert::pod(pod)))).collect();
        let failure = Failure { rejections: &rejections, absent: absent_status.as_ref(), nominated: &nominated };
        T::with(|guest| {
            guest.call(cycle, |plugin, call| {
                plugin.post_filter().ok_or_else(absent)?.post_filter(call, &failure, &mut HostDryRun)
            })
        })
        .map(convert::outcome_to_wit)
        .map_err(failed)
    }
}

/// The other plugins of the profile and the extenders, which are called through the host.
struct HostDryRun;

impl DryRun for HostDryRun {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        let cases: Vec<_> = cases.iter().map(convert::removal_to_wit).collect();
        let statuses = host::dry_run(&cases).map_err(convert::status)?;
        Ok(statuses.into_iter().map(convert::status).collect())
    }

    fn ask_extenders(&mut self, preemptions: Vec<Preemption>) -> Result<Vec<Preemption>, Status> {
        let asked: Vec<_> = preemptions.iter().map(convert::preemption_to_wit).collect();
        let agreed = host::ask_extenders(&asked).map_err(convert::status)?;
        Ok(agreed.into_iter().map(convert::preemption).collect())
    }
}

impl<T: HasGuest> sign::Guest for T {
    fn sign(pod: wit::Pod) -> Option<String> {
        let pod = convert::pod(pod);
        T::with(|guest| guest.plugin().ok()?.sign()?.sign(&pod))
    }
}

impl<T: HasGuest> reuse::Guest for T {
    fn reach_of(cycle: u64) -> reuse::Reach {
        let reach = T::with(|guest| guest.call(cycle, |plugin, call| Ok(plugin.reach(call))));
        match reach.unwrap_or_default() {
            Reach::Cluster => reuse::Reach::Cluster,
            Reach::Row { version } => reuse::Reach::Row(version),
            Reach::Nothing => reuse::Reach::Nothing,
            Reach::NothingAnywhere => reuse::Reach::NothingAnywhere,
            Reach::NothingYet => reuse::Reach::NothingYet,
        }
    }
}

impl<T: HasGuest> explain::Guest for T {
    fn explain(cycle: u64, node: Option<u32>) -> String {
        let said = T::with(|guest| {
            guest.call(cycle, |plugin, call| plugin.explain().ok_or_else(absent)?.explain(call, node.map(NodeIdx)))
        });
        said.unwrap_or_else(|status| {
            log::failure("explain", Err(status));
            String::new()
        })
    }
}

impl<T: HasGuest> shared_facts::Guest for T {
    fn take_facts() -> Vec<shared_facts::Fact> {
        let facts = T::with(|guest| guest.plugin().map(<dyn Plugin>::take_facts).unwrap_or_default());
        let facts = facts.into_iter();
        facts.map(|fact| shared_facts::Fact { name: fact.name, json: fact.json.map(|json| json.to_vec()) }).collect()
    }
}

impl<T: HasGuest> state::Guest for T {
    fn snapshot() -> Vec<u8> {
        T::with(|guest| guest.plugin().ok().and_then(<dyn Plugin>::state).map(State::snapshot).unwrap_or_default())
    }

    fn restore(snapshot: Vec<u8>) -> Result<(), String> {
        T::with(|guest| match guest.plugin().map(<dyn Plugin>::state) {
            Ok(Some(state)) => state.restore(&snapshot).map_err(|error| error.to_string()),
            Ok(None) => Err(absent().message()),
            Err(status) => Err(status.message()),
        })
    }
}

impl<T: HasGuest> pre_score::Guest for T {
    fn pre_score(cycle: u64, nodes: Vec<u64>) -> Result<(), wit::Status> {
        let nodes = NodeSet::from_words(nodes);
        T::with(|guest| {
            guest.call(cycle, |plugin, call| plugin.pre_score().ok_or_else(absent)?.pre_score(call, &nodes))
        })
        .map_err(failed)
    }
}

impl<T: HasGuest> score::Guest for T {
    fn score(cycle: u64, nodes: Vec<u64>) -> Result<Vec<i64>, wit::Status> {
        let nodes = NodeSet::from_words(nodes);
        let mut scores = Vec::with_capacity(nodes.len());
        T::with(|guest| {
            guest.call(cycle, |plugin, call| plugin.score().ok_or_else(absent)?.score(call, &nodes, &mut scores))
        })
        .map_err(failed)?;
        Ok(scores)
    }
}

impl<T: HasGuest> normalize_score::Guest for T {
    fn normalize_score(cycle: u64, nodes: Vec<u64>, mut scores: Vec<i64>) -> Result<Vec<i64>, wit::Status> {
        let nodes = NodeSet::from_words(nodes);
        T::with(|guest| {
            guest
                .call(cycle, |plugin, call| plugin.normalize().ok_or_else(absent)?.normalize(call, &nodes, &mut scores))
        })
        .map_err(failed)?;
        Ok(scores)
    }
}

impl<T: HasGuest> reserve::Guest for T {
    fn reserve(cycle: u64, node: u32) -> Result<(), wit::Status> {
        let status = T::with(|guest| {
            guest.call(cycle, |plugin, call| Ok(plugin.reserve().ok_or_else(absent)?.reserve(call, NodeIdx(node))))
        });
        convert::status_to_result(status.unwrap_or_else(|status| status))
    }

    fn unreserve(cycle: u64, node: u32) -> Vec<wit::Effect> {
        let undone = T::with(|guest| {
            guest.call(cycle, |plugin, call| Ok(plugin.reserve().ok_or_else(absent)?.unreserve(call, NodeIdx(node))))
        });
        match undone {
            Ok(effects) => convert::effects_to_wit(effects),
            Err(status) => {
                log::failure("unreserve", Err(status));
                Vec::new()
            }
        }
    }
}

impl<T: HasGuest> permit::Guest for T {
    fn permit(cycle: u64, node: u32) -> (permit::Verdict, Vec<wit::Effect>) {
        let answer = T::with(|guest| {
            guest.call(cycle, |plugin, call| Ok(plugin.permit().ok_or_else(absent)?.permit(call, NodeIdx(node))))
        });
        match answer {
            Ok((verdict, effects)) => (convert::verdict_to_wit(verdict), convert::effects_to_wit(effects)),
            Err(status) => (permit::Verdict::Deny(failed(status)), Vec::new()),
        }
    }
}

impl<T: HasGuest> pre_bind_pre_flight::Guest for T {
    fn pre_bind_pre_flight(cycle: u64, node: u32) -> Result<pre_bind_pre_flight::PreFlight, wit::Status> {
        let ask = |plugin: &mut dyn Plugin, call: &Call<'_>| {
            plugin.pre_bind_pre_flight().ok_or_else(absent)?.pre_bind_pre_flight(call, NodeIdx(node))
        };
        let flight = T::with(|guest| guest.call(cycle, ask)).map_err(failed)?;
        Ok(pre_bind_pre_flight::PreFlight { allow_parallel: flight.allow_parallel })
    }
}

impl<T: HasGuest> pre_bind::Guest for T {
    fn pre_bind(cycle: u64, node: u32) -> Result<Vec<wit::Effect>, wit::Status> {
        T::with(|guest| {
            guest.call(cycle, |plugin, call| plugin.pre_bind().ok_or_else(absent)?.pre_bind(call, NodeIdx(node)))
        })
        .map(convert::effects_to_wit)
        .map_err(failed)
    }
}

impl<T: HasGuest> bind::Guest for T {
    fn bind(cycle: u64, node: u32) -> Result<Vec<wit::Effect>, wit::Status> {
        T::with(|guest| guest.call(cycle, |plugin, call| plugin.bind().ok_or_else(absent)?.bind(call, NodeIdx(node))))
            .map(convert::effects_to_wit)
            .map_err(failed)
    }
}

impl<T: HasGuest> post_bind::Guest for T {
    fn post_bind(cycle: u64, node: u32) {
        let told = T::with(|guest| {
            guest.call(cycle, |plugin, call| {
                plugin.post_bind().ok_or_else(absent)?.post_bind(call, NodeIdx(node));
                Ok(())
            })
        });
        log::failure("post-bind", told);
    }
}

impl<T: HasGuest> queueing_hint::Guest for T {
    fn queueing_hint(
        pod: wit::Pod,
        event: wit::ClusterEvent,
        subject: queueing_hint::EventSubject,
    ) -> queueing_hint::Hint {
        let (pod, event) = (convert::pod(pod), convert::cluster_event(&event));
        let subject = convert::OwnedSubject::new(subject);
        let queue = T::with(|guest| guest.hint(&pod, &event, subject.borrowed()));
        if queue { queueing_hint::Hint::Queue } else { queueing_hint::Hint::Skip }
    }
}
