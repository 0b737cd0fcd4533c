//! The claims, the allocations that the API server does not show yet, and the devices that both hold.
//!
//! An allocation is in flight from Reserve until the watch shows the claim with an allocation, or until Unreserve.
//! While it is in flight its devices count as held, and no other pod may allocate the claim. The plugin sees only the
//! last state of a claim, so it may never see a claim that was allocated and given back before the next cycle: see
//! [`InFlight::sent`]. The cost of a change depends only on the claim that changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_framework::Fact;
use serde::{Deserialize, Serialize};

use super::{
    in_use::InUse,
    objects::{Allocation, ResourceClaim},
};

/// The finalizer that keeps a claim while it is allocated.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The annotation of claims that the scheduler created for a pod's extended resources.
pub(super) const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// The holder of an allocation: a claim by its uid, or a claim for a pod's extended resources that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(super) enum DeviceHolder {
    Claim(String),
    ExtendedResourcesOf { pod_uid: String },
}

impl DeviceHolder {
    const CLAIM: &str = "claim-";
    const POD: &str = "pod-";

    /// The name of the fact about the holder's allocation in flight.
    fn fact_name(&self) -> String {
        match self {
            Self::Claim(uid) => [Self::CLAIM, uid].concat(),
            Self::ExtendedResourcesOf { pod_uid } => [Self::POD, pod_uid].concat(),
        }
    }

    fn of_fact(name: &str) -> Option<Self> {
        let claim = name.strip_prefix(Self::CLAIM).map(|uid| Self::Claim(uid.to_owned()));
        claim.or_else(|| Some(Self::ExtendedResourcesOf { pod_uid: name.strip_prefix(Self::POD)?.to_owned() }))
    }
}

/// All claims.
#[derive(Debug, Default)]
pub(super) struct ClaimTable {
    /// Claims by namespace and name.
    claims: BTreeMap<(String, String), Arc<ResourceClaim>>,
    /// Keys of the claims for extended resources, by the uid of their pod.
    extended: BTreeMap<String, (String, String)>,
    /// Claims for extended resources that the plugin made, and whose deletion it has not asked for. Unreserve deletes
    /// such a claim only if the claim was seen before.
    made: BTreeSet<(String, String)>,
    /// The uids of the pods that Unreserve removes from a claim, by the uid of the claim.
    releasing: BTreeMap<String, BTreeSet<String>>,
    in_flight: BTreeMap<DeviceHolder, InFlight>,
    /// The holders whose allocations in flight changed since the last [`Self::take_facts`].
    changed: BTreeSet<DeviceHolder>,
    in_use: InUse,
}

/// An allocation that the API server does not show yet.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct InFlight {
    allocation: Allocation,
    /// The uid of the pod for which the devices were reserved.
    #[serde(default)]
    pod_uid: String,
    /// Namespace and name of the claim; `None` if the claim does not exist yet.
    #[serde(default)]
    claim: Option<(String, String)>,
    /// The writes, once they were sent. The writes add [`FINALIZER`] to this exact version of the claim. A later
    /// version that lacks finalizer and allocation has been allocated and given back, or will not be allocated.
    sent: Option<SentWrites>,
    /// Whether the success of the write is unknown, because the binding failed after the write was sent. The devices
    /// stay held, but another pod may allocate the claim, because the API server accepts only one allocation.
    pub(super) is_doubtful: bool,
}

/// The writes that PreBind sent for an allocation.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
enum SentWrites {
    /// Changes to a claim of this resource version.
    Changes { resource_version: String },
    /// A new claim.
    Creation { namespace: String, name: String },
}

impl InFlight {
    /// An allocation that was reserved for the pod. `claim` is `None` if the claim does not exist yet.
    pub(super) fn new(allocation: Allocation, pod_uid: &str, claim: Option<&ResourceClaim>) -> Self {
        let claim = claim.map(|claim| (claim.metadata.namespace.clone(), claim.metadata.name.clone()));
        Self { allocation, pod_uid: pod_uid.to_owned(), claim, sent: None, is_doubtful: false }
    }

    /// Whether the claim has an allocation from any writer, or has lost its allocation.
    fn is_ended_by(&self, claim: &ResourceClaim) -> bool {
        let is_later = matches!(&self.sent, Some(SentWrites::Changes { resource_version })
            if *resource_version != claim.metadata.resource_version);
        let is_given_back = is_later && !claim.finalizers().any(|finalizer| finalizer == FINALIZER);
        claim.status.allocation.is_some() || is_given_back
    }
}

impl ClaimTable {
    /// Adds a claim or replaces its previous version.
    pub(super) fn insert(&mut self, claim: &Arc<ResourceClaim>) {
        let key = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
        let holder = DeviceHolder::Claim(claim.metadata.uid.clone());
        let is_recreated = |known: &&Arc<ResourceClaim>| known.metadata.uid != claim.metadata.uid;
        if self.claims.get(&key).filter(is_recreated).is_some() {
            self.remove(&key.0, &key.1);
        }
        if let Some(known) = self.claims.remove(&key) {
            self.release_seen(&known);
        }
        if let Some(pod_uid) = pod_of_extended(claim) {
            self.extended.insert(pod_uid.to_owned(), key.clone());
            self.recognize(pod_uid, &key.0, &key.1);
            self.end_in_flight(&DeviceHolder::ExtendedResourcesOf { pod_uid: pod_uid.to_owned() }, claim);
        }
        self.end_in_flight(&holder, claim);
        if let Some(allocation) = &claim.status.allocation {
            self.in_use.add(allocation);
        }
        self.end_seen_releases(claim);
        self.claims.insert(key, Arc::clone(claim));
    }

    /// Removes a claim that was deleted, and its allocation in flight.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.made.remove(&key);
        let Some(claim) = self.claims.remove(&key) else { return self.end_creation(namespace, name) };
        self.release_seen(&claim);
        self.releasing.remove(&claim.metadata.uid);
        self.unreserve(&DeviceHolder::Claim(claim.metadata.uid.clone()));
        if let Some(pod_uid) = pod_of_extended(&claim)
            && self.extended.get(pod_uid) == Some(&key)
        {
            self.extended.remove(pod_uid);
        }
    }

    /// Records that this claim is being created for the pod.
    fn recognize(&mut self, pod_uid: &str, namespace: &str, name: &str) {
        let holder = DeviceHolder::ExtendedResourcesOf { pod_uid: pod_uid.to_owned() };
        let sent = self.in_flight.get(&holder).and_then(|in_flight| in_flight.sent.as_ref());
        if matches!(sent, Some(SentWrites::Creation { namespace: its, name: own }) if its == namespace && own == name) {
            self.made.insert((namespace.to_owned(), name.to_owned()));
        }
    }

    /// Whether this plugin made the claim, for a pod's extended resources.
    pub(super) fn is_made_here(&self, claim: &ResourceClaim) -> bool {
        self.made.contains(&(claim.metadata.namespace.clone(), claim.metadata.name.clone()))
    }

    /// Records that the claim, which this plugin may have made, is being deleted. No later attempt uses it.
    pub(super) fn give_up(&mut self, claim: &ResourceClaim) {
        self.made.remove(&(claim.metadata.namespace.clone(), claim.metadata.name.clone()));
    }

    /// Records that the pod is being removed from the pods that have reserved the claim.
    pub(super) fn begin_release(&mut self, claim_uid: &str, pod_uid: &str) {
        self.releasing.entry(claim_uid.to_owned()).or_default().insert(pod_uid.to_owned());
    }

    /// Records that the claim is being reserved for the pod again.
    pub(super) fn end_release(&mut self, claim_uid: &str, pod_uid: &str) {
        if let Some(pods) = self.releasing.get_mut(claim_uid) {
            pods.remove(pod_uid);
            if pods.is_empty() {
                self.releasing.remove(claim_uid);
            }
        }
    }

    /// Ends the removals that this version of the claim shows. A version without an allocation shows none: PreBind adds
    /// the finalizer before it writes the allocation and the reservation, and the removal comes after both.
    fn end_seen_releases(&mut self, claim: &ResourceClaim) {
        let uid = &claim.metadata.uid;
        if claim.status.allocation.is_some()
            && let Some(pods) = self.releasing.get_mut(uid)
        {
            pods.retain(|pod_uid| claim.is_reserved_for(pod_uid));
            if pods.is_empty() {
                self.releasing.remove(uid);
            }
        }
    }

    /// Whether the pod is being removed from the pods that have reserved the claim.
    pub(super) fn is_releasing(&self, claim_uid: &str, pod_uid: &str) -> bool {
        self.releasing.get(claim_uid).is_some_and(|pods| pods.contains(pod_uid))
    }

    /// The uids of the pods that Unreserve removes from claims, by the uids of the claims.
    pub(super) fn releasing(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.releasing
    }

    /// Takes over the removals from another instance of the plugin.
    pub(super) fn restore_releasing(&mut self, releasing: BTreeMap<String, BTreeSet<String>>) {
        self.releasing = releasing;
    }

    fn release_seen(&mut self, claim: &ResourceClaim) {
        if let Some(allocation) = &claim.status.allocation {
            self.in_use.remove(allocation);
        }
    }

    /// Ends the allocation in flight once the claim has an allocation from any writer, or has lost its allocation.
    fn end_in_flight(&mut self, holder: &DeviceHolder, claim: &ResourceClaim) {
        if self.in_flight.get(holder).is_some_and(|in_flight| in_flight.is_ended_by(claim)) {
            self.unreserve(holder);
        }
    }

    /// Handles the end of a claim that was never seen. If the claim was made for extended resources, the resources are
    /// no longer in use.
    fn end_creation(&mut self, namespace: &str, name: &str) {
        let is_made = |in_flight: &InFlight| match &in_flight.sent {
            Some(SentWrites::Creation { namespace: in_namespace, name: made }) => {
                in_namespace == namespace && made == name
            }
            Some(SentWrites::Changes { .. }) | None => false,
        };
        let made = self.in_flight.iter().find(|(_, in_flight)| is_made(in_flight)).map(|(holder, _)| holder.clone());
        if let Some(holder) = made {
            self.unreserve(&holder);
        }
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The claim that was created for the extended resources of a pod.
    pub(super) fn extended_of(&self, pod_uid: &str) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(self.extended.get(pod_uid)?)
    }

    /// Holds the devices of an allocation until the claim shows it or [`Self::unreserve`].
    pub(super) fn reserve(&mut self, holder: DeviceHolder, reserved: InFlight) {
        self.changed.insert(holder.clone());
        self.hold(holder, reserved);
    }

    /// Records that the claim of this version is being written.
    pub(super) fn mark_sent(&mut self, holder: &DeviceHolder, resource_version: &str) {
        self.mark(holder, SentWrites::Changes { resource_version: resource_version.to_owned() });
    }

    /// Records that a claim of this name is being created.
    pub(super) fn mark_created(&mut self, holder: &DeviceHolder, namespace: &str, name: &str) {
        self.mark(holder, SentWrites::Creation { namespace: namespace.to_owned(), name: name.to_owned() });
    }

    fn mark(&mut self, holder: &DeviceHolder, sent: SentWrites) {
        if let Some(in_flight) = self.in_flight.get_mut(holder) {
            in_flight.sent = Some(sent);
            self.changed.insert(holder.clone());
        }
    }

    /// Keeps the devices of an allocation held although it is unknown whether the write succeeded.
    pub(super) fn mark_doubtful(&mut self, holder: &DeviceHolder) {
        if let Some(in_flight) = self.in_flight.get_mut(holder) {
            in_flight.is_doubtful = true;
            self.changed.insert(holder.clone());
        }
    }

    /// Gives the devices of an allocation in flight back, if the claim has an allocation in flight.
    pub(super) fn unreserve(&mut self, holder: &DeviceHolder) {
        if self.release(holder) {
            self.changed.insert(holder.clone());
        }
    }

    /// Gives back what an earlier instance reserved for the pod. That instance was lost, so no reservation says what
    /// it was.
    pub(super) fn unreserve_all_of(&mut self, pod_uid: &str) {
        let of_pod = self.in_flight.iter().filter(|(_, in_flight)| in_flight.pod_uid == pod_uid);
        let of_pod = of_pod.map(|(holder, in_flight)| (holder.clone(), in_flight.sent.is_some()));
        for (holder, is_sent) in of_pod.collect::<Vec<_>>() {
            match &holder {
                DeviceHolder::Claim(_) if is_sent => self.mark_doubtful(&holder),
                DeviceHolder::Claim(_) | DeviceHolder::ExtendedResourcesOf { .. } => self.unreserve(&holder),
            }
        }
    }

    /// Whether devices are reserved for the pod, without doubt about their allocation.
    pub(super) fn holds_devices_for(&self, pod_uid: &str) -> bool {
        self.in_flight.values().any(|in_flight| in_flight.pod_uid == pod_uid && !in_flight.is_doubtful)
    }

    fn hold(&mut self, holder: DeviceHolder, reserved: InFlight) {
        self.release(&holder);
        self.in_use.add(&reserved.allocation);
        self.in_flight.insert(holder, reserved);
    }

    /// Returns whether there was an allocation in flight.
    fn release(&mut self, holder: &DeviceHolder) -> bool {
        let Some(in_flight) = self.in_flight.remove(holder) else { return false };
        self.in_use.remove(&in_flight.allocation);
        true
    }

    /// The changed allocations in flight, for the instances of other profiles and for other plugins.
    pub(super) fn take_facts(&mut self) -> Vec<Fact> {
        let changed = std::mem::take(&mut self.changed);
        let json = |holder: &DeviceHolder| -> Option<Arc<[u8]>> {
            serde_json::to_vec(self.in_flight.get(holder)?).ok().map(Into::into)
        };
        changed.iter().map(|holder| Fact { name: holder.fact_name(), json: json(holder) }).collect()
    }

    /// Drops the changes for [`Self::take_facts`], in a plugin that publishes nothing.
    pub(super) fn drop_changes(&mut self) {
        self.changed.clear();
    }

    /// Follows a change of the facts that the scheduler keeps. The fact may come from this instance. The claims must be
    /// up to date.
    pub(super) fn follow_fact(&mut self, name: &str, fact: Option<&InFlight>) {
        let Some(holder) = DeviceHolder::of_fact(name) else { return };
        self.changed.remove(&holder);
        match fact {
            // The scheduler keeps the fact until its publisher has seen the end as well.
            Some(fact) if self.is_over(&holder, fact) => {
                self.release(&holder);
                self.changed.insert(holder);
            }
            Some(fact) if self.in_flight.get(&holder) == Some(fact) => {}
            Some(fact) => self.hold(holder, fact.clone()),
            None => {
                self.release(&holder);
            }
        }
    }

    /// Whether the claim shows that the allocation is no longer in flight.
    fn is_over(&self, holder: &DeviceHolder, in_flight: &InFlight) -> bool {
        match (holder, &in_flight.claim) {
            (DeviceHolder::Claim(uid), Some(key)) => {
                let claim = self.claims.get(key).filter(|claim| claim.metadata.uid == *uid);
                claim.is_none_or(|claim| in_flight.is_ended_by(claim))
            }
            (DeviceHolder::Claim(_), None) => false,
            (DeviceHolder::ExtendedResourcesOf { pod_uid }, _) => {
                self.extended_of(pod_uid).is_some_and(|claim| in_flight.is_ended_by(claim))
            }
        }
    }

    pub(super) fn in_flight(&self, holder: &DeviceHolder) -> Option<&InFlight> {
        self.in_flight.get(holder)
    }

    pub(super) fn all_in_flight(&self) -> impl Iterator<Item = (&DeviceHolder, &InFlight)> {
        self.in_flight.iter()
    }

    /// Takes over an allocation in flight from another instance of the plugin.
    pub(super) fn restore(&mut self, holder: DeviceHolder, in_flight: InFlight) {
        self.hold(holder, in_flight);
    }

    pub(super) fn in_use(&self) -> &InUse {
        &self.in_use
    }

    /// The devices in use, for registering devices.
    pub(super) fn in_use_mut(&mut self) -> &mut InUse {
        &mut self.in_use
    }
}

/// The uid of the pod with the extended resources for which the claim was made.
fn pod_of_extended(claim: &ResourceClaim) -> Option<&str> {
    let is_marked = claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM).is_some_and(|value| value == "true");
    let mut owners = claim.metadata.owner_references.iter().filter(|owner| owner.controller);
    owners.next().filter(|_| is_marked).map(|owner| owner.uid.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamic_resources::device_id::DeviceId;

    fn allocation(device: &str) -> Allocation {
        let json = format!(
            r#"{{"devices":{{"results":[{{"request":"r","driver":"d","pool":"p","device":"{device}"}},
                {{"request":"a","driver":"d","pool":"p","device":"watched","adminAccess":true}}]}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn claim(uid: &str, device: Option<&str>) -> Arc<ResourceClaim> {
        let json = format!(r#"{{"metadata":{{"namespace":"n","name":"c","uid":"{uid}"}}}}"#);
        let mut claim: ResourceClaim = serde_json::from_str(&json).unwrap();
        claim.status.allocation = device.map(allocation);
        Arc::new(claim)
    }

    fn in_flight(device: &str) -> InFlight {
        InFlight::new(allocation(device), "pod-1", None)
    }

    fn holder(uid: &str) -> DeviceHolder {
        DeviceHolder::Claim(uid.to_owned())
    }

    #[track_caller]
    fn check_held(table: &ClaimTable, expected: &[&str]) {
        let held: Vec<&str> = ["x", "y", "watched"]
            .into_iter()
            .filter(|device| {
                table.in_use().number_of(&DeviceId::new("d", "p", device)).is_some_and(|it| table.in_use().is_held(it))
            })
            .collect();
        assert_eq!(held, expected);
    }

    #[test]
    fn devices_are_held_while_a_claim_has_them() {
        let mut table = ClaimTable::default();
        table.insert(&claim("1", Some("x")));
        check_held(&table, &["x"]);
        table.insert(&claim("1", Some("y")));
        check_held(&table, &["y"]);
        table.insert(&claim("1", None));
        check_held(&table, &[]);
        table.insert(&claim("1", Some("x")));
        table.remove("n", "c");
        check_held(&table, &[]);
        assert!(table.get("n", "c").is_none());
    }

    #[test]
    fn an_allocation_is_in_flight_until_it_is_seen_or_given_back() {
        let mut table = ClaimTable::default();
        table.insert(&claim("1", None));
        table.reserve(holder("1"), in_flight("x"));
        table.insert(&claim("1", None));
        check_held(&table, &["x"]);
        assert!(table.in_flight(&holder("1")).is_some());
        table.insert(&claim("1", Some("x")));
        check_held(&table, &["x"]);
        assert!(table.in_flight(&holder("1")).is_none());
        table.insert(&claim("1", None));
        check_held(&table, &[]);

        table.reserve(holder("1"), in_flight("y"));
        table.unreserve(&holder("1"));
        table.unreserve(&holder("1"));
        check_held(&table, &[]);
    }

    #[test]
    fn an_allocation_that_was_given_back_unseen_is_not_in_flight() {
        let of_version = |version: &str, finalizer: Option<&str>| {
            let mut claim = ResourceClaim::clone(&claim("1", None));
            version.clone_into(&mut claim.metadata.resource_version);
            claim.metadata.finalizers.extend(finalizer.map(str::to_owned));
            Arc::new(claim)
        };
        let mut table = ClaimTable::default();
        table.insert(&of_version("5", None));
        table.reserve(holder("1"), in_flight("x"));
        table.insert(&of_version("6", None));
        check_held(&table, &["x"]);
        table.mark_sent(&holder("1"), "6");
        table.insert(&of_version("6", None));
        table.insert(&of_version("7", Some(FINALIZER)));
        check_held(&table, &["x"]);
        // Another writer has allocated the claim.
        table.insert(&of_version("10", None));
        check_held(&table, &[]);

        let pod = DeviceHolder::ExtendedResourcesOf { pod_uid: "pod-1".to_owned() };
        table.reserve(pod.clone(), in_flight("y"));
        table.remove("n", "made");
        check_held(&table, &["y"]);
        table.mark_created(&pod, "n", "made");
        table.remove("n", "made");
        check_held(&table, &[]);
    }

    #[test]
    fn a_claim_made_anew_starts_afresh() {
        let mut table = ClaimTable::default();
        table.insert(&claim("1", None));
        table.reserve(holder("1"), in_flight("x"));
        table.insert(&claim("2", None));
        check_held(&table, &[]);
        assert!(table.in_flight(&holder("1")).is_none());
    }

    #[test]
    fn claims_for_extended_resources_are_found_by_their_pod() {
        let mut table = ClaimTable::default();
        let pod = DeviceHolder::ExtendedResourcesOf { pod_uid: "pod-1".to_owned() };
        table.reserve(pod.clone(), in_flight("x"));
        let mut made = ResourceClaim::clone(&claim("1", None));
        made.metadata.annotations.insert(EXTENDED_RESOURCE_CLAIM.to_owned(), "true".to_owned());
        let json = r#"{"kind":"Pod","name":"p","uid":"pod-1","controller":true}"#;
        made.metadata.owner_references.push(serde_json::from_str(json).unwrap());
        table.insert(&Arc::new(made.clone()));
        assert_eq!(table.extended_of("pod-1").unwrap().metadata.uid, "1");
        check_held(&table, &["x"]);
        made.status.allocation = Some(allocation("x"));
        table.insert(&Arc::new(made));
        assert!(table.in_flight(&pod).is_none());
        check_held(&table, &["x"]);
        table.remove("n", "c");
        assert!(table.extended_of("pod-1").is_none());
        check_held(&table, &[]);
    }
}
