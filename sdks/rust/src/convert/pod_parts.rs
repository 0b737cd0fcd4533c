//! The parts of a pod that concern other pods, volumes, devices and owners.

use std::sync::Arc;

use berth_model::{
    Sym,
    pod::{
        ClaimName, ContainerKind, ExtendedRequest, LabelSelector, Owner, PodAffinity, PodClaim, PodTerm,
        SpreadConstraint, Volume, VolumeSource, WeightedPodTerm,
    },
};

use super::{requirement, syms, wit};

pub(super) fn owner(owner: wit::Owner) -> Owner {
    Owner {
        api_version: Arc::from(owner.api_version),
        kind: Arc::from(owner.kind),
        name: Arc::from(owner.name),
        uid: Arc::from(owner.uid),
    }
}

fn label_selector(selector: wit::LabelSelector) -> LabelSelector {
    LabelSelector { requirements: selector.requirements.into_iter().map(requirement).collect(), error: selector.error }
}

pub(super) fn spread_constraint(constraint: wit::SpreadConstraint) -> SpreadConstraint {
    SpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: Sym(constraint.topology_key),
        is_hard: constraint.hard,
        selector: constraint.selector.map(label_selector),
        min_domains: constraint.min_domains,
        honor_node_affinity: constraint.honor_node_affinity,
        honor_node_taints: constraint.honor_node_taints,
    }
}

pub(super) fn affinity(affinity: wit::PodAffinity) -> PodAffinity {
    PodAffinity {
        required: affinity.required.into_iter().map(term).collect(),
        preferred: affinity.preferred.into_iter().map(weighted_term).collect(),
        anti_required: affinity.anti_required.into_iter().map(term).collect(),
        anti_preferred: affinity.anti_preferred.into_iter().map(weighted_term).collect(),
    }
}

fn term(term: wit::PodTerm) -> PodTerm {
    PodTerm {
        namespaces: syms(term.namespaces),
        namespace_selector: term.namespace_selector.map(label_selector),
        selector: term.selector.map(label_selector),
        topology_key: Sym(term.topology_key),
    }
}

fn weighted_term(weighted: wit::WeightedPodTerm) -> WeightedPodTerm {
    WeightedPodTerm { weight: weighted.weight, term: term(weighted.term) }
}

pub(super) fn volume(volume: wit::Volume) -> Volume {
    Volume { name: Arc::from(volume.name), source: source(volume.source) }
}

fn source(source: wit::VolumeSource) -> VolumeSource {
    match source {
        wit::VolumeSource::Claim(name) => VolumeSource::Claim(Arc::from(name)),
        wit::VolumeSource::Ephemeral => VolumeSource::Ephemeral,
        wit::VolumeSource::GcePersistentDisk(disk) => {
            VolumeSource::GcePersistentDisk { pd_name: Arc::from(disk.name), read_only: disk.read_only }
        }
        wit::VolumeSource::AwsElasticBlockStore(volume_id) => {
            VolumeSource::AwsElasticBlockStore { volume_id: Arc::from(volume_id) }
        }
        wit::VolumeSource::Iscsi(disk) => VolumeSource::Iscsi { iqn: Arc::from(disk.name), read_only: disk.read_only },
        wit::VolumeSource::Rbd(image) => VolumeSource::Rbd {
            monitors: image.monitors.into_iter().map(Arc::from).collect(),
            pool: Arc::from(image.pool),
            image: Arc::from(image.image),
            read_only: image.read_only,
        },
        wit::VolumeSource::Csi(driver) => VolumeSource::Csi { driver: Arc::from(driver) },
        wit::VolumeSource::InTree((field, id)) => VolumeSource::InTree { field: Arc::from(field), id: Arc::from(id) },
    }
}

pub(super) fn claim(claim: wit::PodClaim) -> PodClaim {
    let name = match claim.claim {
        wit::ClaimName::Known(name) => ClaimName::Known(Arc::from(name)),
        wit::ClaimName::Pending => ClaimName::Pending,
        wit::ClaimName::NotNeeded => ClaimName::NotNeeded,
    };
    PodClaim { name: Arc::from(claim.name), from_template: claim.from_template, claim: name }
}

pub(super) fn extended_request(request: wit::ExtendedRequest) -> ExtendedRequest {
    let kind = match request.kind {
        wit::ContainerKind::Init => ContainerKind::Init,
        wit::ContainerKind::Sidecar => ContainerKind::Sidecar,
        wit::ContainerKind::Regular => ContainerKind::Regular,
    };
    ExtendedRequest {
        container_idx: request.container,
        container_name: Arc::from(request.container_name),
        kind,
        resource: Sym(request.resource),
        request_idx: request.request,
        amount: request.amount,
    }
}
