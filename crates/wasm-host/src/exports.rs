//! The interfaces of the contract that a component exports.
//!
//! The contract's world exports all interfaces; a component exports only the interfaces that it implements. So each
//! interface is looked up separately. If its functions differ from the contract's, the component is refused. Otherwise
//! the interface would seem to be absent.

use berth_framework::{Point, Points};
use wasmtime::{
    AsContextMut,
    component::{Instance, InstancePre},
};

use crate::{
    binary::LoadError,
    bindings::{
        points::{
            bind, cycle, explain, filter, lifecycle, normalize_score, permit, post_bind, post_filter, pre_bind,
            pre_bind_pre_flight, pre_enqueue, pre_filter, pre_score, queue_sort, queueing_hint, reserve, reuse, score,
            sign, state, sync, sync_pods,
        },
        shared_facts,
    },
    host_state::HostState,
};

macro_rules! interfaces {
    ($($field:ident: $name:literal $(=> $point:ident)?,)*) => {
        /// The places of the interfaces in a component.
        #[derive(Clone)]
        pub(crate) struct ExportIndices {
            $($field: Option<$field::GuestIndices>,)*
        }

        /// The functions of one instance.
        pub(crate) struct Exports {
            $(pub(crate) $field: Option<$field::Guest>,)*
        }

        impl ExportIndices {
            pub(crate) fn find(pre: &InstancePre<HostState>) -> Result<Self, LoadError> {
                $(let $field = match pre.component().get_export_index(None, concat!($name, "@0.2.0")) {
                    None => None,
                    Some(_) => Some($field::GuestIndices::new(pre).map_err(|error| signature($name, &error))?),
                };)*
                Ok(Self { $($field,)* })
            }

            /// Looks up the functions and compares their types with the contract's.
            pub(crate) fn load(
                &self,
                mut store: impl AsContextMut,
                instance: &Instance,
            ) -> Result<Exports, LoadError> {
                $(let $field = match &self.$field {
                    None => None,
                    Some(indices) => {
                        let guest = indices.load(&mut store, instance);
                        Some(guest.map_err(|error| signature($name, &error))?)
                    }
                };)*
                Ok(Exports { $($field,)* })
            }

            pub(crate) fn points(&self) -> Points {
                let mut points = Points::default();
                $($(if self.$field.is_some() {
                    points.insert(Point::$point);
                })?)*
                points
            }

            fn is_empty(&self) -> bool {
                $(self.$field.is_none())&&*
            }
        }
    };
}

interfaces! {
    lifecycle: "berth:scheduler/lifecycle",
    sync: "berth:scheduler/sync",
    cycle: "berth:scheduler/cycle",
    pre_enqueue: "berth:scheduler/pre-enqueue" => PreEnqueue,
    queue_sort: "berth:scheduler/queue-sort" => QueueSort,
    pre_filter: "berth:scheduler/pre-filter" => PreFilter,
    filter: "berth:scheduler/filter" => Filter,
    post_filter: "berth:scheduler/post-filter" => PostFilter,
    pre_score: "berth:scheduler/pre-score" => PreScore,
    score: "berth:scheduler/score" => Score,
    normalize_score: "berth:scheduler/normalize-score" => Normalize,
    reserve: "berth:scheduler/reserve" => Reserve,
    permit: "berth:scheduler/permit" => Permit,
    pre_bind_pre_flight: "berth:scheduler/pre-bind-pre-flight" => PreBindPreFlight,
    pre_bind: "berth:scheduler/pre-bind" => PreBind,
    bind: "berth:scheduler/bind" => Bind,
    post_bind: "berth:scheduler/post-bind" => PostBind,
    queueing_hint: "berth:scheduler/queueing-hint" => QueueingHint,
    sign: "berth:scheduler/sign" => Sign,
    state: "berth:scheduler/state",
    reuse: "berth:scheduler/reuse",
    sync_pods: "berth:scheduler/sync-pods",
    explain: "berth:scheduler/explain" => Explain,
    shared_facts: "berth:built-in/shared-facts",
}

/// Points that are called within a cycle.
const CYCLE_POINTS: [Point; 12] = [
    Point::PreFilter,
    Point::Filter,
    Point::PostFilter,
    Point::PreScore,
    Point::Score,
    Point::Reserve,
    Point::Permit,
    Point::PreBindPreFlight,
    Point::PreBind,
    Point::Bind,
    Point::PostBind,
    Point::Explain,
];

impl ExportIndices {
    pub(crate) fn has_sync(&self) -> bool {
        self.sync.is_some()
    }

    pub(crate) fn has_sync_pods(&self) -> bool {
        self.sync_pods.is_some()
    }

    pub(crate) fn has_state(&self) -> bool {
        self.state.is_some()
    }

    pub(crate) fn has_reuse(&self) -> bool {
        self.reuse.is_some()
    }

    pub(crate) fn has_shared_facts(&self) -> bool {
        self.shared_facts.is_some()
    }

    /// Checks that the interfaces form a plugin. If the component exports no interface, the message contains the text
    /// of `exports`.
    pub(crate) fn check(&self, exports: impl FnOnce() -> String) -> Result<(), LoadError> {
        if self.is_empty() {
            return Err(LoadError::OtherWorld { exports: exports() });
        }
        if self.lifecycle.is_none() {
            let because = "every plugin must export";
            return Err(LoadError::Missing { interface: "berth:scheduler/lifecycle", because });
        }
        if self.sync.is_none() && self.has_sync_pods() {
            let because = "`sync-pods` needs";
            return Err(LoadError::Missing { interface: "berth:scheduler/sync", because });
        }
        let points = self.points();
        let has_cycles = CYCLE_POINTS.into_iter().any(|point| points.contains(point)) || self.has_reuse();
        if self.cycle.is_none() && has_cycles {
            let because = "its extension points need to learn of the pod";
            return Err(LoadError::Missing { interface: "berth:scheduler/cycle", because });
        }
        Ok(())
    }
}

fn signature(interface: &'static str, error: &wasmtime::Error) -> LoadError {
    LoadError::Signature { interface, reason: format!("{error:#}") }
}
