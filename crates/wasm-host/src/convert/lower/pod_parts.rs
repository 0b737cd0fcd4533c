//! The parts of a pod that are about other pods, volumes, devices and owners.

use berth_model::pod::{
    ClaimName, ContainerKind, ExtendedRequest, LabelSelector, Owner, PodAffinity, PodClaim, PodTerm, SpreadConstraint,
    Volume, VolumeSource, WeightedPodTerm,
};

use super::{requirement, symbols, types};

pub(super) fn owner(owner: &Owner) -> types::Owner {
    types::Owner {
        api_version: owner.api_version.to_string(),
        kind: owner.kind.to_string(),
        name: owner.name.to_string(),
        uid: owner.uid.to_string(),
    }
}

fn label_selector(selector: &LabelSelector) -> types::LabelSelector {
    types::LabelSelector {
        requirements: selector.requirements.iter().map(requirement).collect(),
        error: selector.error.clone(),
    }
}

pub(super) fn spread_constraint(constraint: &SpreadConstraint) -> types::SpreadConstraint {
    types::SpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: constraint.topology_key.0,
        hard: constraint.is_hard,
        selector: constraint.selector.as_ref().map(label_selector),
        min_domains: constraint.min_domains,
        honor_node_affinity: constraint.honor_node_affinity,
        honor_node_taints: constraint.honor_node_taints,
    }
}

pub(super) fn affinity(affinity: &PodAffinity) -> types::PodAffinity {
    types::PodAffinity {
        required: affinity.required.iter().map(term).collect(),
        preferred: affinity.preferred.iter().map(weighted_term).collect(),
        anti_required: affinity.anti_required.iter().map(term).collect(),
        anti_preferred: affinity.anti_preferred.iter().map(weighted_term).collect(),
    }
}

fn term(term: &PodTerm) -> types::PodTerm {
    types::PodTerm {
        namespaces: symbols(&term.namespaces),
        namespace_selector: term.namespace_selector.as_ref().map(label_selector),
        selector: term.selector.as_ref().map(label_selector),
        topology_key: term.topology_key.0,
    }
}

fn weighted_term(weighted: &WeightedPodTerm) -> types::WeightedPodTerm {
    types::WeightedPodTerm { weight: weighted.weight, term: term(&weighted.term) }
}

pub(super) fn volume(volume: &Volume) -> types::Volume {
    types::Volume { name: volume.name.to_string(), source: source(&volume.source) }
}

fn source(source: &VolumeSource) -> types::VolumeSource {
    let disk = |name: &str, read_only: bool| types::NamedDisk { name: name.to_owned(), read_only };
    match source {
        VolumeSource::Claim(name) => types::VolumeSource::Claim(name.to_string()),
        VolumeSource::Ephemeral => types::VolumeSource::Ephemeral,
        VolumeSource::GcePersistentDisk { pd_name, read_only } => {
            types::VolumeSource::GcePersistentDisk(disk(pd_name, *read_only))
        }
        VolumeSource::AwsElasticBlockStore { volume_id } => {
            types::VolumeSource::AwsElasticBlockStore(volume_id.to_string())
        }
        VolumeSource::Iscsi { iqn, read_only } => types::VolumeSource::Iscsi(disk(iqn, *read_only)),
        VolumeSource::Rbd { monitors, pool, image, read_only } => types::VolumeSource::Rbd(types::RbdImage {
            monitors: monitors.iter().map(ToString::to_string).collect(),
            pool: pool.to_string(),
            image: image.to_string(),
            read_only: *read_only,
        }),
        VolumeSource::Csi { driver } => types::VolumeSource::Csi(driver.to_string()),
        VolumeSource::InTree { field, id } => types::VolumeSource::InTree((field.to_string(), id.to_string())),
    }
}

pub(super) fn claim(claim: &PodClaim) -> types::PodClaim {
    let name = match &claim.claim {
        ClaimName::Known(name) => types::ClaimName::Known(name.to_string()),
        ClaimName::Pending => types::ClaimName::Pending,
        ClaimName::NotNeeded => types::ClaimName::NotNeeded,
    };
    types::PodClaim { name: claim.name.to_string(), from_template: claim.from_template, claim: name }
}

pub(super) fn extended_request(request: &ExtendedRequest) -> types::ExtendedRequest {
    let kind = match request.kind {
        ContainerKind::Init => types::ContainerKind::Init,
        ContainerKind::Sidecar => types::ContainerKind::Sidecar,
        ContainerKind::Regular => types::ContainerKind::Regular,
    };
    types::ExtendedRequest {
        container: request.container_idx,
        container_name: request.container_name.to_string(),
        kind,
        resource: request.resource.0,
        request: request.request_idx,
        amount: request.amount,
    }
}
