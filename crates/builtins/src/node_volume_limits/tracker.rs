//! Keeps the [`AttachedVolumes`] up to date with pods, claims, volumes and attachments.
//!
//! Pods on nodes use claims, and the volume of a claim changes while the claim is being bound. The tracker therefore
//! records the users of each claim. When the claim or its volume changes, the tracker moves the uses from one volume to
//! another. It counts everything again only if a StorageClass has changed or the tracker has missed changes.

use std::sync::Arc;

use berth_framework::Status;
use berth_model::{Catchup, ClusterTable, NodeIdx, ObjectView, Pod, PodUid, Sym, Symbols};
use rustc_hash::FxHashMap;

use super::{
    attached_volumes::{AttachedVolumes, VolumeHolder},
    attachments::Attachments,
    volume_id::{CountedClaim, CountedVolume, VolumeId},
};
use crate::storage::{
    self, ClaimError, ClaimName, PersistentVolume, PersistentVolumeClaim, StorageClass, claim_name, migration,
};

/// Namespace and name.
type ClaimKey = (Sym, Arc<str>);

/// The volumes on each node, and the data that is needed to follow changes.
#[derive(Debug)]
pub(super) struct VolumeTracker {
    claims: ObjectView<CountedClaim>,
    volumes: ObjectView<CountedVolume>,
    classes: ObjectView<StorageClass>,
    /// The position in the journal of pods.
    position: Option<u64>,
    held: FxHashMap<ClaimKey, HeldClaim>,
    /// Claims in `held` by their volume.
    by_volume: FxHashMap<Box<str>, Vec<ClaimKey>>,
    attachments: Attachments,
    attached: AttachedVolumes,
    /// The reasons why the claims of pods on a node cannot be counted, by node, with one entry for each use of such a
    /// claim by a pod.
    problems: FxHashMap<NodeIdx, Vec<ClaimError>>,
}

/// A claim that is used by pods on nodes.
#[derive(Debug, Default)]
struct HeldClaim {
    /// The volume that counts for the claim in [`AttachedVolumes`].
    volume: Option<VolumeId>,
    /// The name under which `by_volume` lists the claim.
    volume_name: Box<str>,
    /// The uses of the claim; equal uses are counted together.
    uses: FxHashMap<ClaimUse, u32>,
}

/// A volume of a pod on a node that refers to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClaimUse {
    node: NodeIdx,
    /// The uid and name of the pod, if the volume is ephemeral. The pod must then own the claim.
    owner: Option<(PodUid, Arc<str>)>,
}

impl VolumeTracker {
    pub(super) fn new() -> Self {
        Self {
            claims: storage::CLAIM.view_of_parts::<PersistentVolumeClaim, _>(),
            volumes: storage::VOLUME.view_of_parts::<PersistentVolume, _>(),
            classes: storage::CLASS.view(),
            position: None,
            held: FxHashMap::default(),
            by_volume: FxHashMap::default(),
            attachments: Attachments::new(),
            attached: AttachedVolumes::default(),
            problems: FxHashMap::default(),
        }
    }

    /// Nodes with a claim that cannot be counted.
    pub(super) fn problem_nodes(&self) -> impl Iterator<Item = NodeIdx> {
        self.problems.keys().copied()
    }

    pub(super) fn attached(&self) -> &AttachedVolumes {
        &self.attached
    }

    /// The reason why the volumes of a pod on the node cannot be counted.
    pub(super) fn problem_at(&self, node: NodeIdx) -> Option<&ClaimError> {
        self.problems.get(&node)?.first()
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        let objects = table.objects();
        let claims = self.claims.catch_up(objects);
        let volumes = self.volumes.catch_up(objects);
        let classes_changed = self.classes.refresh(objects);
        let is_everything = |found: &Catchup| *found == Catchup::Everything;
        let pods = table.pods();
        let changes = self.position.and_then(|position| pods.since(position));
        match changes {
            Some(changes) if !classes_changed && !is_everything(&claims) && !is_everything(&volumes) => {
                self.follow_objects(claims, &volumes, &table.symbols);
                for change in changes {
                    self.count(&change.pod, change.node, change.sign > 0, &table.symbols);
                }
            }
            Some(_) | None => self.recount(table),
        }
        self.position = Some(pods.position());
        self.attachments.follow(table, &self.volumes, &volumes, &mut self.attached);
    }

    fn recount(&mut self, table: &ClusterTable) {
        self.held.clear();
        self.by_volume.clear();
        self.attached = AttachedVolumes::default();
        self.problems.clear();
        self.attachments.reset();
        for (_, pod, node) in table.pods().iter() {
            self.count(pod, node, true, &table.symbols);
        }
    }

    fn follow_objects(&mut self, claims: Catchup, volumes: &Catchup, symbols: &Symbols) {
        if let Catchup::Some(changed) = claims {
            for (namespace, name) in changed {
                // A namespace without a symbol has no pods.
                let Some(namespace) = symbols.lookup(&namespace) else { continue };
                self.move_uses(&(namespace, Arc::from(name)), symbols);
            }
        }
        if let Catchup::Some(changed) = volumes {
            for (_, name) in changed {
                for claim in self.by_volume.get(name.as_str()).cloned().unwrap_or_default() {
                    self.move_uses(&claim, symbols);
                }
            }
        }
    }

    /// Moves the uses of a claim to its present volume.
    fn move_uses(&mut self, key: &ClaimKey, symbols: &Symbols) {
        let Some(uses) = self.held.get(key).map(|held| held.uses.clone()) else { return };
        let each = |(claim_use, n): (ClaimUse, u32)| std::iter::repeat_n(claim_use, n as usize);
        let uses: Vec<ClaimUse> = uses.into_iter().flat_map(each).collect();
        uses.iter().for_each(|claim_use| self.remove_use(key, claim_use, symbols));
        uses.into_iter().for_each(|claim_use| self.add_use(key, claim_use, symbols));
    }

    fn count(&mut self, pod: &Pod, node: NodeIdx, is_added: bool, symbols: &Symbols) {
        for volume in &pod.volumes {
            if let Some(ClaimName { name, is_ephemeral }) = claim_name(pod, volume) {
                let owner = is_ephemeral.then(|| (pod.uid.clone(), Arc::clone(&pod.name)));
                let (key, claim_use) = ((pod.namespace, Arc::from(&*name)), ClaimUse { node, owner });
                if is_added {
                    self.add_use(&key, claim_use, symbols);
                } else {
                    self.remove_use(&key, &claim_use, symbols);
                }
            } else if let Some(volume) = VolumeId::of_inline(volume, storage::namespace(pod, symbols)) {
                self.attached.count(&volume, node, VolumeHolder::Pod, if is_added { 1 } else { -1 });
            }
        }
    }

    fn add_use(&mut self, key: &ClaimKey, claim_use: ClaimUse, symbols: &Symbols) {
        let namespace = symbols.text(key.0);
        let claim = self.claims.get(namespace, &key.1);
        let is_first = !self.held.contains_key(key);
        let held = self.held.entry(key.clone()).or_default();
        if is_first && let Some(claim) = claim {
            held.volume = volume_of(namespace, &key.1, claim, &self.volumes, &self.classes);
            held.volume_name.clone_from(&claim.volume_name);
            if !held.volume_name.is_empty() {
                self.by_volume.entry(held.volume_name.clone()).or_default().push(key.clone());
            }
        }
        if let Some(problem) = problem(claim.map(|claim| &**claim), key, &claim_use, symbols) {
            self.problems.entry(claim_use.node).or_default().push(problem);
        }
        if let Some(volume) = &held.volume {
            self.attached.count(volume, claim_use.node, VolumeHolder::Pod, 1);
        }
        *held.uses.entry(claim_use).or_default() += 1;
    }

    fn remove_use(&mut self, key: &ClaimKey, claim_use: &ClaimUse, symbols: &Symbols) {
        let Some(held) = self.held.get_mut(key) else { return debug_assert!(false, "no pod used the claim") };
        let Some(n_uses) = held.uses.get_mut(claim_use) else { return debug_assert!(false, "no such use") };
        *n_uses -= 1;
        if *n_uses == 0 {
            held.uses.remove(claim_use);
        }
        if let Some(volume) = &held.volume {
            self.attached.count(volume, claim_use.node, VolumeHolder::Pod, -1);
        }
        if key.1.is_empty() {
            self.remove_problem(claim_use.node, &ClaimError::NoName);
        } else if let Some((_, pod)) = &claim_use.owner {
            self.remove_problem(claim_use.node, &ClaimError::not_owned(symbols.text(key.0), &key.1, pod));
        }
        let Some(held) = self.held.get(key).filter(|held| held.uses.is_empty()) else { return };
        if let Some(claims) = self.by_volume.get_mut(&held.volume_name) {
            claims.retain(|claim| claim != key);
            if claims.is_empty() {
                self.by_volume.remove(&held.volume_name);
            }
        }
        self.held.remove(key);
    }

    fn remove_problem(&mut self, node: NodeIdx, problem: &ClaimError) {
        let Some(problems) = self.problems.get_mut(&node) else { return };
        if let Some(at) = problems.iter().position(|known| known == problem) {
            problems.remove(at);
        }
        if problems.is_empty() {
            self.problems.remove(&node);
        }
    }

    /// The volumes that the cycle's pod needs, without repetitions.
    pub(super) fn wanted(&self, pod: &Pod, symbols: &Symbols) -> Result<Vec<VolumeId>, Status> {
        let mut wanted = Vec::new();
        let namespace = storage::namespace(pod, symbols);
        for volume in &pod.volumes {
            let id = match claim_name(pod, volume) {
                None => VolumeId::of_inline(volume, namespace),
                Some(ClaimName { name, .. }) if name.is_empty() => {
                    return Err(Status::error(ClaimError::NoName.to_string()));
                }
                Some(ClaimName { name, is_ephemeral }) => {
                    let Some(claim) = self.claims.get(namespace, &name) else {
                        let error = ClaimError::not_found(&name);
                        return Err(Status::unresolvable(format!("looking up PVC {namespace}/{name}: {error}")));
                    };
                    if is_ephemeral && claim.owner.as_deref() != Some(&*pod.uid) {
                        let error = ClaimError::not_owned(namespace, &name, &pod.name);
                        return Err(Status::error(error.to_string()));
                    }
                    volume_of(namespace, &name, claim, &self.volumes, &self.classes)
                }
            };
            wanted.extend(id.filter(|id| !wanted.contains(id)));
        }
        Ok(wanted)
    }

    /// The volumes that the pod's claims have from CSI drivers. A volume of an in-tree plugin is not among them, even if a
    /// driver replaced the plugin.
    pub(super) fn of_drivers(&self, pod: &Pod, symbols: &Symbols) -> Vec<VolumeId> {
        let namespace = storage::namespace(pod, symbols);
        let of_driver = |claim: ClaimName<'_>| {
            let counted = self.claims.get(namespace, &claim.name)?;
            let is_of_driver = match self.volumes.get("", &counted.volume_name) {
                Some(volume) => volume.is_csi,
                None => migration::of_plugin(&self.classes.get("", &counted.class)?.provisioner).is_none(),
            };
            let volume = volume_of(namespace, &claim.name, counted, &self.volumes, &self.classes);
            volume.filter(|_| is_of_driver)
        };
        pod.volumes.iter().filter_map(|volume| claim_name(pod, volume)).filter_map(of_driver).collect()
    }

    /// The volumes that a pod would use on a node, and the reason why some of them cannot be counted.
    pub(super) fn held_by(&self, pod: &Pod, symbols: &Symbols) -> (Vec<VolumeId>, Option<ClaimError>) {
        let (mut held, mut first_problem) = (Vec::new(), None);
        let namespace = storage::namespace(pod, symbols);
        for volume in &pod.volumes {
            let Some(ClaimName { name, is_ephemeral }) = claim_name(pod, volume) else {
                held.extend(VolumeId::of_inline(volume, namespace));
                continue;
            };
            let claim = self.claims.get(namespace, &name);
            let owner = is_ephemeral.then(|| (pod.uid.clone(), Arc::clone(&pod.name)));
            let (key, claim_use) = ((pod.namespace, Arc::from(&*name)), ClaimUse { node: NodeIdx(0), owner });
            let problem = problem(claim.map(|claim| &**claim), &key, &claim_use, symbols);
            first_problem = first_problem.or(problem);
            let volume = claim.and_then(|claim| volume_of(namespace, &name, claim, &self.volumes, &self.classes));
            held.extend(volume);
        }
        (held, first_problem)
    }
}

/// The reason why a claim that a pod on a node uses cannot be counted.
fn problem(
    claim: Option<&CountedClaim>,
    key: &ClaimKey,
    claim_use: &ClaimUse,
    symbols: &Symbols,
) -> Option<ClaimError> {
    if key.1.is_empty() {
        return Some(ClaimError::NoName);
    }
    let (uid, pod) = claim_use.owner.as_ref()?;
    (claim?.owner.as_deref() != Some(&**uid)).then(|| ClaimError::not_owned(symbols.text(key.0), &key.1, pod))
}

/// The volume of a claim; `None` if no CSI driver attaches it.
fn volume_of(
    namespace: &str,
    name: &str,
    claim: &CountedClaim,
    volumes: &ObjectView<CountedVolume>,
    classes: &ObjectView<StorageClass>,
) -> Option<VolumeId> {
    match volumes.get("", &claim.volume_name) {
        Some(volume) => volume.id.clone(),
        None => VolumeId::of_claim(namespace, name, classes.get("", &claim.class)?),
    }
}
