//! The allocations of a pod from Reserve to the end of binding, and how PreBind writes them.
//!
//! PreBind first adds a finalizer to each claim, then writes allocation and reservation into its status. A claim for
//! extended resources is created before the finalizer is added. The name of that claim is derived from the name of the
//! pod, so PreBind need not read the answer to the request. Each patch contains the uid of the claim; a patch that adds
//! to a list also contains the resource version. If devices have binding conditions (KEP-5007), PreBind waits for them.
//! Unreserve removes the reservation from the status, and deletes the claim for extended resources.

use std::collections::BTreeMap;

use berth_framework::{Call, CycleId, Effect, Fact, PatchType, Status, effect::ObjectRef};
use berth_model::{Time, api::NodeAllocatableClaimStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    attempt::{failed_condition, is_ready},
    claim_table::{ClaimTable, DeviceHolder, EXTENDED_RESOURCE_CLAIM, FINALIZER, InFlight},
    extended::{ExtendedClaim, UNNAMED},
    objects::{Allocation, Consumer, ResourceClaim},
    pod_claims,
};

const CLAIM_KIND: &str = "resource.k8s.io/v1/ResourceClaim";
/// The milliseconds for which PreBind waits for another pod's reservation of a shared claim.
const WRITE_TIMEOUT: u64 = 30_000;

/// The claims that one pod has reserved for its node.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct ClaimReservation {
    pub(super) pod_uid: String,
    namespace: String,
    pod_name: String,
    claims: Vec<ReservedClaim>,
    extended: Option<ReservedExtended>,
    /// Whether kube-scheduler would make a claim without requests for the pod's extended resources. It could not enter
    /// such a claim in the pod.
    #[serde(default)]
    pub(super) has_no_mappings: bool,
    /// The entries for the pod's `status.nodeAllocatableResourceClaimStatuses`; `None` if the status stays as it is.
    #[serde(default)]
    pub(super) node_claims: Option<Vec<NodeAllocatableClaimStatus>>,
    /// Whether PreBind has returned the writes.
    is_sent: bool,
}

/// A claim of the pod.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct ReservedClaim {
    name: String,
    uid: String,
    /// The new allocation; `None` if the claim was already allocated.
    allocation: Option<Allocation>,
}

/// A claim for extended resources, which PreBind creates.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct ReservedExtended {
    allocation: Allocation,
    requests: Value,
    mappings: Value,
}

/// The time at which a pod's allocations are written, and the time that the devices may then take to become ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteTime {
    pub(super) now: Time,
    /// The timeout in milliseconds.
    pub(super) binding_timeout: u64,
    /// Whether conditions of devices matter.
    pub(super) waits: bool,
}

impl WriteTime {
    /// The allocation in the form in which it is written. The time that its devices may take to become ready counts
    /// from now.
    fn written(self, allocation: &Allocation) -> Allocation {
        if self.waits { allocation.made_at(self.now) } else { allocation.clone() }
    }
}

/// All reservations between Reserve and the end of their cycle.
pub(super) type Reservations = BTreeMap<CycleId, ClaimReservation>;

impl ClaimReservation {
    pub(super) fn new(call: &Call<'_>) -> Self {
        Self {
            pod_uid: call.pod.uid.to_string(),
            namespace: call.table.symbols.text(call.pod.namespace).to_owned(),
            pod_name: call.pod.name.to_string(),
            claims: Vec::new(),
            extended: None,
            has_no_mappings: false,
            node_claims: None,
            is_sent: false,
        }
    }

    pub(super) fn take(&mut self, table: &mut ClaimTable, claim: &ResourceClaim, allocation: Option<Allocation>) {
        let uid = claim.metadata.uid.clone();
        if let Some(allocation) = &allocation {
            let reserved = InFlight::new(allocation.clone(), &self.pod_uid, Some(claim));
            table.reserve(DeviceHolder::Claim(uid.clone()), reserved);
        }
        self.claims.push(ReservedClaim { name: claim.metadata.name.clone(), uid, allocation });
    }

    pub(super) fn take_extended(
        &mut self,
        table: &mut ClaimTable,
        extended_claim: &ExtendedClaim,
        allocation: Allocation,
    ) {
        table.reserve(self.extended_holder(), InFlight::new(allocation.clone(), &self.pod_uid, None));
        self.extended = Some(ReservedExtended {
            allocation,
            requests: json!(extended_claim.requests),
            mappings: json!(extended_claim.mappings),
        });
    }

    /// The amounts that the devices take from the node, for the scheduler; `None` if they take nothing.
    pub(super) fn node_share(&self) -> Option<Fact> {
        let claims = self.node_claims.as_deref().filter(|claims| !claims.is_empty())?;
        Some(Fact::node_share(&self.pod_uid, serde_json::to_vec(claims).ok()?.into()))
    }

    fn extended_holder(&self) -> DeviceHolder {
        DeviceHolder::ExtendedResourcesOf { pod_uid: self.pod_uid.clone() }
    }

    /// Gives the devices back. If their allocation was sent to the API server, the devices stay held, but are doubtful.
    pub(super) fn undo(&self, table: &mut ClaimTable) {
        for claim in self.claims.iter().filter(|claim| claim.allocation.is_some()) {
            let holder = DeviceHolder::Claim(claim.uid.clone());
            if self.is_sent { table.mark_doubtful(&holder) } else { table.unreserve(&holder) }
        }
        if self.extended.is_some() {
            table.unreserve(&self.extended_holder());
        }
    }

    /// Whether the claim does not show the write of this reservation yet.
    fn is_writing(&self, claim: &ResourceClaim) -> bool {
        self.is_sent && self.has(claim) && !claim.is_reserved_for(&self.pod_uid)
    }

    fn has(&self, claim: &ResourceClaim) -> bool {
        self.claims.iter().any(|it| it.uid == claim.metadata.uid)
    }

    fn reference(&self, claim_name: &str) -> ObjectRef {
        ObjectRef { kind: CLAIM_KIND.to_owned(), namespace: self.namespace.clone(), name: claim_name.to_owned() }
    }

    fn patch(&self, claim_name: &str, subresource: Option<&str>, patch: &Value) -> Effect {
        Effect::Patch {
            kind: CLAIM_KIND.to_owned(),
            namespace: self.namespace.clone(),
            name: claim_name.to_owned(),
            subresource: subresource.map(str::to_owned),
            patch: patch.to_string().into_bytes(),
            patch_type: PatchType::Merge,
        }
    }

    fn consumer(&self) -> Consumer {
        Consumer {
            api_group: String::new(),
            resource: "pods".to_owned(),
            name: self.pod_name.clone(),
            uid: self.pod_uid.clone(),
        }
    }
}

/// The next effects for the reservation of `cycle`; none when the pod can be bound.
pub(super) fn pre_bind(
    reservations: &mut Reservations,
    cycle: CycleId,
    table: &mut ClaimTable,
    node_name: &str,
    at: WriteTime,
) -> Result<Vec<Effect>, Status> {
    let Some(reservation) = reservations.get(&cycle) else { return Err(Status::skip()) };
    if reservation.has_no_mappings {
        let ClaimReservation { namespace, pod_name, .. } = reservation;
        return Err(Status::error(format!(
            "nil or empty request mappings, no update of pod {namespace}/{pod_name} ExtendedResourceClaimStatus"
        )));
    }
    if reservation.is_sent {
        let waits = reservation.wait_for_devices(table, node_name, at)?;
        return Ok(waits.into_iter().collect());
    }
    let mut effects = Vec::new();
    let mut reserved_by_others = Vec::new();
    for reserved in &reservation.claims {
        let claim = reservation.current(table, reserved)?;
        let others = reservations.iter().filter(|(other, _)| **other != cycle);
        if others.map(|(_, other)| other).any(|other| other.is_writing(claim)) {
            reserved_by_others.push(reservation.reference(&reserved.name));
        } else {
            effects.extend(reservation.writes(reserved, claim, table, at));
        }
    }
    if !reserved_by_others.is_empty() {
        let timeout_message = "timed out waiting for the reservation of a shared ResourceClaim".to_owned();
        return Ok(vec![Effect::Wait { objects: reserved_by_others, timeout_ms: WRITE_TIMEOUT, timeout_message }]);
    }
    if let Some(extended) = &reservation.extended {
        effects.extend(reservation.extended_writes(extended, at));
    }
    effects.extend(reservation.share_write());
    if let Some(wait) = reservation.wait_for_devices(table, node_name, at)? {
        effects.push(Effect::Event {
            warning: false,
            reason: "BindingConditionsPending".to_owned(),
            action: "Scheduling".to_owned(),
            note: format!("waiting for binding conditions for device on node {node_name}"),
        });
        effects.push(wait);
    }
    if let Some(reservation) = reservations.get_mut(&cycle) {
        reservation.is_sent = true;
        reservation.mark_sent(table);
    }
    Ok(effects)
}

impl ClaimReservation {
    /// Records in the table which writes were sent, and to which versions of the claims.
    fn mark_sent(&self, table: &mut ClaimTable) {
        self.claims.iter().for_each(|claim| table.end_release(&claim.uid, &self.pod_uid));
        for claim in self.claims.iter().filter(|claim| claim.allocation.is_some()) {
            let version = table.get(&self.namespace, &claim.name).map(|claim| claim.metadata.resource_version.clone());
            table.mark_sent(&DeviceHolder::Claim(claim.uid.clone()), &version.unwrap_or_default());
        }
        if self.extended.is_some() {
            table.mark_created(&self.extended_holder(), &self.namespace, &self.extended_name());
        }
    }

    /// The current version of the claim; `None` if the claim can no longer be written.
    fn current<'a>(&self, table: &'a ClaimTable, reserved: &ReservedClaim) -> Result<&'a ResourceClaim, Status> {
        let changed =
            |what: &str| Status::error(format!("claim {}/{} {what} in the meantime", self.namespace, reserved.name));
        let claim = table.get(&self.namespace, &reserved.name).filter(|claim| claim.metadata.uid == reserved.uid);
        let claim = claim.ok_or_else(|| changed("got deleted"))?;
        match (&reserved.allocation, &claim.status.allocation) {
            (Some(ours), Some(theirs)) if ours != theirs => Err(changed("got allocated elsewhere")),
            (None, None) => Err(changed("got deallocated elsewhere")),
            (Some(_), _) | (None, Some(_)) => Ok(claim),
        }
    }

    fn writes(
        &self,
        reserved: &ReservedClaim,
        claim: &ResourceClaim,
        table: &ClaimTable,
        at: WriteTime,
    ) -> Vec<Effect> {
        let is_reserved =
            claim.is_reserved_for(&self.pod_uid) && !table.is_releasing(&claim.metadata.uid, &self.pod_uid);
        if claim.status.allocation.is_some() && is_reserved {
            return Vec::new();
        }
        let mut effects = Vec::new();
        let mut consumers = claim.status.reserved_for.clone();
        consumers.retain(|consumer| consumer.uid != self.pod_uid);
        consumers.push(self.consumer());
        let mut metadata = json!({"uid": reserved.uid});
        let mut status = json!({"reservedFor": consumers});
        if let Some(allocation) = &reserved.allocation {
            // A finalizer keeps the claim while it is allocated. Adding it changes the resource version, so the patch
            // of the status cannot contain a version. The API server refuses to replace an allocation anyway.
            if !claim.finalizers().any(|finalizer| finalizer == FINALIZER) {
                let finalizers: Vec<&str> = claim.finalizers().chain([FINALIZER]).collect();
                let version = &claim.metadata.resource_version;
                let metadata = json!({"uid": reserved.uid, "resourceVersion": version, "finalizers": finalizers});
                effects.push(self.patch(&reserved.name, None, &json!({"metadata": metadata})));
            }
            status["allocation"] = json!(at.written(allocation));
        } else {
            metadata["resourceVersion"] = json!(claim.metadata.resource_version);
        }
        let patch = json!({"metadata": metadata, "status": status});
        effects.push(self.patch(&reserved.name, Some("status"), &patch));
        effects
    }

    fn extended_writes(&self, extended: &ReservedExtended, at: WriteTime) -> Vec<Effect> {
        let name = self.extended_name();
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": self.pod_name, "uid": self.pod_uid,
            "controller": true, "blockOwnerDeletion": true});
        let body = json!({
            "apiVersion": super::objects::API_VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": self.namespace, "finalizers": [FINALIZER],
                "annotations": {EXTENDED_RESOURCE_CLAIM: "true"}, "ownerReferences": [owner]},
            "spec": {"devices": {"requests": extended.requests}},
        });
        let status =
            json!({"status": {"allocation": at.written(&extended.allocation), "reservedFor": [self.consumer()]}});
        let of_pod = json!({"metadata": {"uid": self.pod_uid}, "status": {"extendedResourceClaimStatus":
            {"resourceClaimName": name, "requestMappings": extended.mappings}}});
        vec![
            Effect::Create {
                kind: CLAIM_KIND.to_owned(),
                namespace: self.namespace.clone(),
                body: body.to_string().into_bytes(),
            },
            self.patch(&name, Some("status"), &status),
            self.patch_of_pod(&of_pod),
        ]
    }

    /// Writes the amounts that the devices take from the node into the pod's status. At this time, the claim for
    /// extended resources already has its name. The write replaces the entries of an earlier attempt.
    fn share_write(&self) -> Option<Effect> {
        let mut claims = self.node_claims.clone()?;
        for claim in claims.iter_mut().filter(|claim| claim.resource_claim_name == UNNAMED) {
            claim.resource_claim_name = self.extended_name();
        }
        let status = json!({"nodeAllocatableResourceClaimStatuses": claims});
        Some(self.patch_of_pod(&json!({"metadata": {"uid": self.pod_uid}, "status": status})))
    }

    fn patch_of_pod(&self, patch: &Value) -> Effect {
        Effect::Patch {
            kind: "v1/Pod".to_owned(),
            namespace: self.namespace.clone(),
            name: self.pod_name.clone(),
            subresource: Some("status".to_owned()),
            patch: patch.to_string().into_bytes(),
            patch_type: PatchType::Merge,
        }
    }

    /// `<pod>-extended-resources-<part of the pod's uid>`. The uid makes the name unique, like the API server's random
    /// suffix: each pod has only one such claim.
    fn extended_name(&self) -> String {
        const MAX_NAME: usize = 253;
        let letters: String = self.pod_uid.chars().filter(char::is_ascii_alphanumeric).collect();
        let suffix = format!("-extended-resources-{}", letters.get(..8).unwrap_or(&letters).to_lowercase());
        let room = MAX_NAME.saturating_sub(suffix.len());
        format!("{}{suffix}", self.pod_name.get(..room).unwrap_or(&self.pod_name))
    }

    /// A wait, if some binding condition is not true yet.
    ///
    /// # Errors
    /// A binding failure condition of a device is true.
    fn wait_for_devices(&self, table: &ClaimTable, node: &str, at: WriteTime) -> Result<Option<Effect>, Status> {
        if !at.waits {
            return Ok(None);
        }
        let timeout_ms = at.binding_timeout;
        let mut pending = Vec::new();
        for reserved in &self.claims {
            let seen = table.get(&self.namespace, &reserved.name).map(AsRef::as_ref);
            let allocation = reserved.allocation.as_ref().or(seen.and_then(|claim| claim.status.allocation.as_ref()));
            let Some((claim, allocation)) = seen.zip(allocation) else { continue };
            if let Some((_, condition)) = failed_condition(claim, allocation) {
                return Err(Status::error(format!(
                    "device binding failed: claim={}, reason={}, message={:?}",
                    reserved.name, condition.reason, condition.message
                )));
            }
            if !is_ready(claim, allocation) {
                pending.push(self.reference(&reserved.name));
            }
        }
        if let Some(extended) = &self.extended {
            let made = table.extended_of(&self.pod_uid);
            let unmade = ResourceClaim::default();
            if !is_ready(made.map_or(&unmade, AsRef::as_ref), &extended.allocation) {
                pending.push(self.reference(&self.extended_name()));
            }
        }
        let timeout_message = format!("device binding timeout on node {node}");
        Ok((!pending.is_empty()).then_some(Effect::Wait { objects: pending, timeout_ms, timeout_message }))
    }
}

/// Deallocates a claim.
pub(super) fn deallocation(claim: &ResourceClaim) -> Effect {
    let metadata = json!({"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version});
    let status = json!({"allocation": null, "reservedFor": null, "devices": null});
    status_patch(claim, &json!({"metadata": metadata, "status": status}), PatchType::Merge)
}

/// Removes the pod from the pods that have reserved the claim. The allocation stays. The patch is strategic, so that it
/// leaves the entries of other pods as they are, whichever version of the claim the plugin knows.
fn release(claim: &ResourceClaim, pod_uid: &str) -> Effect {
    let metadata = json!({"uid": claim.metadata.uid});
    let status = json!({"reservedFor": [{"$patch": "delete", "uid": pod_uid}]});
    status_patch(claim, &json!({"metadata": metadata, "status": status}), PatchType::StrategicMerge)
}

fn status_patch(claim: &ResourceClaim, patch: &Value, patch_type: PatchType) -> Effect {
    Effect::Patch {
        kind: CLAIM_KIND.to_owned(),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        subresource: Some("status".to_owned()),
        patch: patch.to_string().into_bytes(),
        patch_type,
    }
}

/// The effects that undo what PreBind wrote for the pod, as in `Unreserve` of kube-scheduler's plugin. `reservation` is
/// `None` if the instance that reserved the claims was lost. A claim for extended resources that the table does not have
/// yet is not deleted here. PostFilter deletes it in the pod's next attempt.
pub(super) fn releases(call: &Call<'_>, table: &mut ClaimTable, reservation: Option<&ClaimReservation>) -> Vec<Effect> {
    let namespace = call.table.symbols.text(call.pod.namespace);
    let mut effects = Vec::new();
    for name in pod_claims::known_names(call.pod) {
        let Some(claim) = table.get(namespace, name).cloned() else { continue };
        // A write that was sent may have succeeded although the claim does not show it yet.
        let is_written = reservation.is_some_and(|reservation| reservation.is_sent && reservation.has(&claim));
        if is_written || claim.is_reserved_for(&call.pod.uid) {
            effects.push(release(&claim, &call.pod.uid));
            table.begin_release(&claim.metadata.uid, &call.pod.uid);
        }
    }
    if let Some(made) = table.extended_of(&call.pod.uid).cloned() {
        effects.extend(deletion(&made));
        table.give_up(&made);
    }
    effects
}

/// Deletes a claim that was created for extended resources, with its finalizer.
pub(super) fn deletion(claim: &ResourceClaim) -> Vec<Effect> {
    let (namespace, name) = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
    let mut effects = Vec::new();
    if claim.finalizers().any(|finalizer| finalizer == FINALIZER) {
        let left: Vec<&str> = claim.finalizers().filter(|finalizer| *finalizer != FINALIZER).collect();
        let metadata = json!({"uid": claim.metadata.uid, "finalizers": left});
        effects.push(Effect::Patch {
            kind: CLAIM_KIND.to_owned(),
            namespace: namespace.clone(),
            name: name.clone(),
            subresource: None,
            patch: json!({"metadata": metadata}).to_string().into_bytes(),
            patch_type: PatchType::Merge,
        });
    }
    effects.push(Effect::Delete { kind: CLAIM_KIND.to_owned(), namespace, name });
    effects
}
