//! Conversion of the API's objects to interned objects, once for each change to an object.

mod affinity;
mod storage;

use std::{borrow::Cow, sync::Arc};

use thin_vec::ThinVec;

pub use self::affinity::{label_selector, spread_constraint};
use crate::{
    ConditionReason, Feature, Features, PodUid, api,
    node::Node,
    pod::{
        HostPort, NodeRules, NodeTerm, NonZero, Operator, Pod, Requirement, Resources, Taint, TaintEffect, Toleration,
        TolerationOperator, WeightedNodeTerm,
    },
    requests::{self, PodRequests, Requests},
    symbols::{Interning, Sym, Symbols, Uses},
};

/// The maximum number of image names that are kept for a node. By default, a kubelet reports 50 images with five names
/// each.
const MAX_IMAGE_NAMES: usize = 4096;

/// The pod as plugins see it. The release and its gates decide how the pod's requests are counted.
pub fn pod(pod: &api::Pod, features: Features, symbols: &mut Symbols) -> Pod {
    let mut symbols = symbols.of_object();
    let images = images(&pod.spec, &mut symbols);
    let pod = pod_with_images(pod, features, images, &mut symbols);
    Pod { uses: symbols.finish(), ..pod }
}

/// The pod as plugins see it, without its images. The function is for pods that another scheduler placed, because the
/// images of such a pod do not affect other pods.
pub fn pod_of_others(pod: &api::Pod, features: Features, symbols: &mut Symbols) -> Pod {
    let mut symbols = symbols.of_object();
    let pod = pod_with_images(pod, features, ThinVec::new(), &mut symbols);
    Pod { uses: symbols.finish(), ..pod }
}

fn pod_with_images(pod: &api::Pod, features: Features, images: ThinVec<Sym>, symbols: &mut Interning<'_>) -> Pod {
    let spec = &pod.spec;
    let sums = PodRequests::of(pod, features);
    let placed_requests = resources(&sums.placed, symbols);
    let extended_claim = pod.status.extended_resource_claim_status.as_ref();
    Pod {
        uid: PodUid::from(pod.metadata.uid.as_str()),
        namespace: symbols.intern(&pod.metadata.namespace),
        name: Arc::from(pod.metadata.name.as_str()),
        labels: pairs(&pod.metadata.labels, symbols),
        scheduler_name: symbols.intern(&spec.scheduler_name),
        priority: spec.priority.unwrap_or(0),
        node_name: symbols.intern(&spec.node_name),
        nominated_node_name: symbols.intern(&pod.status.nominated_node_name),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        scheduling_gates: spec.scheduling_gates.iter().map(|gate| Arc::from(gate.name.as_str())).collect(),
        owner: storage::owner(&pod.metadata),
        started_at: pod.status.start_time.as_deref().and_then(milliseconds),
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        is_preempted: is_preempted(&pod.status.conditions),
        node_rules: node_rules(spec, symbols),
        affinity: affinity::pod_affinity(pod, symbols),
        topology_spread: affinity::spread_constraints(pod, features, symbols),
        tolerations: spec.tolerations.iter().map(|it| toleration(it, symbols)).collect(),
        host_ports: host_ports(spec, symbols),
        volumes: storage::volumes(spec),
        resource_claims: storage::resource_claims(pod),
        extended_requests: storage::extended_requests(spec, symbols),
        extended_claim: extended_claim.map(|status| Arc::from(status.resource_claim_name.as_str())),
        images,
        n_containers: n_with_images(spec, features),
        required_features: required_features(spec, features, symbols),
        requests: resources(&sums.spec, symbols),
        placed_non_zero: NonZero { milli_cpu: sums.placed_non_zero.milli_cpu, memory: sums.placed_non_zero.memory },
        scoring_requests: resources(&sums.scoring, symbols),
        balanced_requests: placed_requests.clone(),
        placed_requests,
        json: pod.json.clone(),
        uses: Uses::default(),
    }
}

/// Converts an RFC 3339 time to milliseconds since 1970.
#[must_use]
pub fn milliseconds(time: &str) -> Option<i64> {
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// Whether a scheduler is evicting the pod. If a type of condition is listed several times, the first one counts.
fn is_preempted(conditions: &[api::Condition]) -> bool {
    let preemption = ConditionReason::PreemptionByScheduler;
    let disruption = conditions.iter().find(|condition| condition.type_ == preemption.condition_type());
    disruption.is_some_and(|it| it.status == preemption.condition_status() && it.reason == preemption.as_str())
}

/// The interned form of the node's own object.
pub fn node(node: &api::Node, symbols: &mut Symbols) -> Node {
    let mut symbols = symbols.of_object();
    let node = node_fields(node, &mut symbols);
    Node { uses: symbols.finish(), ..node }
}

fn node_fields(node: &api::Node, symbols: &mut Interning<'_>) -> Node {
    let allocatable = requests::allocatable(&node.status.allocatable);
    Node {
        name: symbols.intern(&node.metadata.name),
        unschedulable: node.spec.unschedulable,
        labels: pairs(&node.metadata.labels, symbols),
        taints: node.spec.taints.iter().filter_map(|it| taint(it, symbols)).collect(),
        allowed_pods: node.status.allocatable.get("pods").map_or(0, crate::quantity::Quantity::value),
        allocatable: resources(&allocatable, symbols),
        images: node
            .status
            .images
            .iter()
            .flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)))
            .take(MAX_IMAGE_NAMES)
            .map(|(name, size)| (symbols.intern(name), size))
            .collect(),
        declared_features: node.status.declared_features.iter().map(|name| symbols.intern(name)).collect(),
        annotations: Arc::new(node.metadata.annotations.clone()),
        uses: Uses::default(),
    }
}

fn pairs(map: &api::StringMap, symbols: &mut Interning<'_>) -> ThinVec<(Sym, Sym)> {
    let mut pairs: ThinVec<_> = map.iter().map(|(key, value)| (symbols.intern(key), symbols.intern(value))).collect();
    pairs.sort_unstable();
    pairs
}

fn resources(requests: &Requests, symbols: &mut Interning<'_>) -> Resources {
    Resources {
        milli_cpu: requests.milli_cpu,
        memory: requests.memory,
        ephemeral_storage: requests.ephemeral_storage,
        // The map is sorted by name. Therefore the reasons that users read are sorted by name, too.
        scalars: requests.scalars.iter().map(|(name, amount)| (symbols.intern(name), *amount)).collect(),
    }
}

fn taint_effect(effect: &str) -> Option<TaintEffect> {
    match effect {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

/// Converts a taint. The result is `None` for an unknown effect, because such a taint keeps no pod away.
fn taint(taint: &api::Taint, symbols: &mut Interning<'_>) -> Option<Taint> {
    let effect = taint_effect(&taint.effect)?;
    Some(Taint { key: symbols.intern(&taint.key), value: symbols.intern(&taint.value), effect })
}

fn toleration(toleration: &api::Toleration, symbols: &mut Interning<'_>) -> Toleration {
    let effect = taint_effect(&toleration.effect);
    let known_effect = effect.is_some() || toleration.effect.is_empty();
    let operator = match toleration.operator.as_str() {
        "" | "Equal" if known_effect => TolerationOperator::Equal,
        "Exists" if known_effect => TolerationOperator::Exists,
        "Lt" if known_effect => TolerationOperator::Lt,
        "Gt" if known_effect => TolerationOperator::Gt,
        _ => TolerationOperator::Never,
    };
    Toleration { key: symbols.intern(&toleration.key), operator, value: symbols.intern(&toleration.value), effect }
}

/// `spec.nodeSelector` and `spec.affinity.nodeAffinity`; also used for NodeAffinity's `addedAffinity`.
pub fn node_rules(spec: &api::PodSpec, symbols: &mut Interning<'_>) -> NodeRules {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    NodeRules {
        selector: spec.node_selector.as_ref().map(|labels| pairs(labels, symbols)),
        ..node_affinity(affinity, symbols)
    }
}

/// The two lists of `nodeAffinity`, without a selector.
pub fn node_affinity(affinity: Option<&api::NodeAffinity>, symbols: &mut Interning<'_>) -> NodeRules {
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let preferred = affinity.and_then(|affinity| affinity.preferred.as_ref());
    NodeRules {
        selector: None,
        required: required
            .map(|selector| selector.node_selector_terms.iter().map(|term| node_term(term, symbols)).collect()),
        preferred: preferred.map(|terms| {
            let weighted = |term: &api::PreferredSchedulingTerm, symbols: &mut Interning<'_>| WeightedNodeTerm {
                weight: term.weight,
                term: node_term(&term.preference, symbols),
            };
            terms.iter().map(|term| weighted(term, symbols)).collect()
        }),
    }
}

fn node_term(term: &api::NodeSelectorTerm, symbols: &mut Interning<'_>) -> NodeTerm {
    NodeTerm {
        error: crate::selector::node_term_error(term),
        labels: term.match_expressions.iter().filter_map(|it| requirement(it, symbols)).collect(),
        fields: term.match_fields.iter().filter_map(|it| requirement(it, symbols)).collect(),
    }
}

/// Converts a requirement. The result is `None` for an unknown operator. The term then contains the error.
fn requirement(requirement: &api::NodeSelectorRequirement, symbols: &mut Interning<'_>) -> Option<Requirement> {
    let operator = Operator::parse(&requirement.operator)?;
    let values = requirement.values.iter().map(|value| symbols.intern(value)).collect();
    Some(Requirement { key: symbols.intern(&requirement.key), operator, values })
}

/// The ports of containers and sidecars. An init container that ends claims no port.
fn host_ports(spec: &api::PodSpec, symbols: &mut Interning<'_>) -> ThinVec<HostPort> {
    let sidecars = spec.init_containers.iter().filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let ports = sidecars.chain(&spec.containers).flat_map(|container| &container.ports);
    let or_default = |text: &str, default: Sym, symbols: &mut Interning<'_>| {
        if text.is_empty() { default } else { symbols.intern(text) }
    };
    ports
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            address: or_default(&port.host_ip, Sym::ANY_ADDRESS, symbols),
            protocol: or_default(&port.protocol, Sym::TCP, symbols),
            port: port.host_port,
        })
        .collect()
}

fn images(spec: &api::PodSpec, symbols: &mut Interning<'_>) -> ThinVec<Sym> {
    let containers = spec.init_containers.iter().chain(&spec.containers).map(|container| container.image.as_str());
    let volumes = spec.volumes.iter().filter_map(|volume| volume.pointer("/image/reference")?.as_str());
    containers.chain(volumes).map(|image| symbols.intern(&normalized_image_name(image))).collect()
}

/// The number of containers and init containers, as ImageLocality counts them. Image volumes are included if the
/// features say so.
fn n_with_images(spec: &api::PodSpec, features: Features) -> u32 {
    let count_volumes = features.has(Feature::ImageVolumesCountAsContainers);
    let volumes = spec.volumes.iter().filter(|volume| count_volumes && volume.get("image").is_some());
    u32::try_from(spec.init_containers.len() + spec.containers.len() + volumes.count()).unwrap_or(u32::MAX)
}

/// The name of an image as nodes report it, `name:tag`. A name without a tag means `latest` (`normalizedImageName` in
/// kube-scheduler's `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`).
fn normalized_image_name(image: &str) -> Cow<'_, str> {
    let has_tag = image.rfind(':').is_some_and(|colon| image.rfind('/').is_none_or(|slash| slash < colon));
    if has_tag { Cow::Borrowed(image) } else { Cow::Owned(format!("{image}:latest")) }
}

/// The kubelet features that a pod's spec requires (KEP-5328).
fn required_features(spec: &api::PodSpec, features: Features, symbols: &mut Interning<'_>) -> ThinVec<Sym> {
    let containers = || spec.init_containers.iter().chain(&spec.containers);
    let mut required = ThinVec::new();
    let mut rules = containers().flat_map(|it| &it.restart_policy_rules);
    if rules.any(|rule| rule.action == "RestartAllContainers") {
        required.push(symbols.intern("RestartAllContainersOnContainerExits"));
    }
    if spec.host_network && spec.host_users == Some(false) {
        required.push(symbols.intern("UserNamespacesHostNetworkSupport"));
    }
    let mut mounts = containers().flat_map(|it| &it.volume_mounts);
    if features.has(Feature::BindMountOptionsNeedFeature) && mounts.any(|mount| !mount.bind_mount_options.is_empty()) {
        required.push(symbols.intern("VolumeBindMountOptions"));
    }
    required
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_condition_of_its_type_says_whether_a_pod_is_preempted() {
        let condition = |status: &str, reason: &str| api::Condition {
            type_: "DisruptionTarget".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            ..api::Condition::default()
        };
        let ready =
            api::Condition { type_: "Ready".to_owned(), status: "True".to_owned(), ..api::Condition::default() };
        let (preempted, evicted) =
            (condition("True", "PreemptionByScheduler"), condition("True", "EvictionByEvictionAPI"));
        assert!(is_preempted(&[ready, preempted.clone(), evicted.clone()]));
        assert!(!is_preempted(&[evicted, preempted]));
        assert!(!is_preempted(&[condition("False", "PreemptionByScheduler")]));
        assert!(!is_preempted(&[]));
    }
}
