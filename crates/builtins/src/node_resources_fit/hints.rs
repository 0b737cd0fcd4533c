//! Queueing hints: the events that may make room for a pod's requests
//! (`pkg/scheduler/framework/plugins/noderesources/fit.go` in kube-scheduler). `ignoredResources` have no effect on
//! hints, as in kube-scheduler.

use berth_framework::{EventSubject, HintCall};
use berth_model::{Node, Pod, Sym, Symbols, pod::Resources};

use super::device_classes::{DeviceClass, DeviceClasses, is_implicit};
use crate::hints::{decoded, has_place, is_own_update};

pub(super) fn may_help(call: &HintCall<'_>, classes: &DeviceClasses) -> bool {
    let symbols = &call.table.symbols;
    match call.subject {
        EventSubject::Pod { old: Some(old), new: None } => has_place(old),
        EventSubject::Pod { old: Some(old), new: Some(new) } => {
            is_own_update(call) || (!new.node_name.is_none() && frees_request(call.pod, old, new))
        }
        EventSubject::Node { old, new: Some(new) } => {
            let requests = || Request::of(call.pod, symbols, classes);
            new.allowed_pods >= 1
                && requests().all(|it| it.fits(new))
                && old.is_none_or(|old| {
                    new.allowed_pods > old.allowed_pods || requests().any(|it| it.has_more_room(old, new))
                })
        }
        EventSubject::Object { key, old, new } => {
            let [old, new] = [old, new].map(decoded::<DeviceClass>);
            new.is_none_or(|new| class_may_help(call.pod, symbols, &key.name, old.as_ref(), &new))
        }
        EventSubject::Pod { .. } | EventSubject::Node { .. } | EventSubject::Hidden => true,
    }
}

/// Every resource that the pod requests.
fn requested(pod: &Pod) -> impl Iterator<Item = (Sym, i64)> {
    let Resources { milli_cpu, memory, ephemeral_storage, ref scalars } = pod.requests;
    let basic = [(Sym::CPU, milli_cpu), (Sym::MEMORY, memory), (Sym::EPHEMERAL_STORAGE, ephemeral_storage)];
    basic
        .into_iter()
        .filter(|(_, amount)| *amount > 0)
        .chain(scalars.iter().copied().filter(|(_, amount)| *amount != 0))
}

fn frees_request(pod: &Pod, old: &Pod, new: &Pod) -> bool {
    requested(pod).any(|(name, _)| old.placed_requests.get(name) > new.placed_requests.get(name))
}

/// The pod's request for one resource.
struct Request {
    name: Sym,
    amount: i64,
    /// Whether DynamicResources decides about nodes that have none of the resource.
    is_served_by_devices: bool,
}

impl Request {
    fn of(pod: &Pod, symbols: &Symbols, classes: &DeviceClasses) -> impl Iterator<Item = Self> {
        requested(pod).map(|(name, amount)| {
            let is_basic = matches!(name, Sym::CPU | Sym::MEMORY | Sym::EPHEMERAL_STORAGE);
            let is_served_by_devices = !is_basic && classes.serve(symbols.text(name));
            Self { name, amount, is_served_by_devices }
        })
    }

    /// Whether the node could hold the request if it had no pods.
    fn fits(&self, node: &Node) -> bool {
        let allocatable = node.allocatable.get(self.name);
        self.amount <= allocatable || (self.is_served_by_devices && allocatable == 0)
    }

    fn has_more_room(&self, old: &Node, new: &Node) -> bool {
        let allocatable = new.allocatable.get(self.name);
        allocatable > old.allocatable.get(self.name) || (self.is_served_by_devices && allocatable == 0)
    }
}

/// Whether devices of the class serve a request of the pod after the event, and did not serve it before. As in
/// kube-scheduler, a request of 0 counts too.
fn class_may_help(pod: &Pod, symbols: &Symbols, name: &str, old: Option<&DeviceClass>, new: &DeviceClass) -> bool {
    let names = || pod.requests.scalars.iter().map(move |&(requested, _)| symbols.text(requested));
    let resource = new.extended_resource();
    let serves = resource.is_some_and(|resource| names().any(|requested| requested == resource));
    match old {
        Some(old) => serves && old.extended_resource() != resource,
        None => serves || names().any(|requested| is_implicit(requested, name)),
    }
}
