//! Compares the volumes that the pod's unbound claims get on each feasible node. The check reserves on the node, reads
//! the choice from the effects that PreBind returns, and reverts the reservation.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use berth_framework::{Effect, Status};
use berth_model::NodeIdx;
use serde_json::Value;

use super::{CYCLE, Check, show_status};
use crate::{case::VolumeChoices, findings::Findings};

const PLUGIN: &str = "VolumeBinding";

impl Check<'_> {
    pub(super) fn volumes(&mut self, findings: &mut Findings) {
        let expected = &self.case.expect.volumes;
        if self.subject.lacks(PLUGIN) {
            if !expected.is_empty() {
                findings.leave_out(PLUGIN);
            }
            return;
        }
        for name in &self.case.expect.feasible {
            let mut expected = expected.get(name).cloned().unwrap_or_default();
            expected.provision.sort_unstable();
            let what = format!("volumes {name}");
            let Some(node) = self.cluster.node(name) else {
                findings.differ(what, "a feasible node", "no node of this name");
                continue;
            };
            match self.choices(node) {
                Ok(got) => {
                    findings.compare(what, &expected, &got);
                }
                Err(status) => findings.differ(what, format!("{expected:?}"), show_status(PLUGIN, &status)),
            }
        }
    }

    fn choices(&mut self, node: NodeIdx) -> Result<VolumeChoices, Status> {
        let call = self.cluster.call(CYCLE, &self.pod);
        let Some(plugin) = self.subject.profile.find(PLUGIN) else { return Ok(VolumeChoices::default()) };
        let Some(plugin) = self.subject.profile.get(plugin) else { return Ok(VolumeChoices::default()) };
        let status = plugin.reserve().map_or_else(Status::success, |point| point.reserve(&call, node));
        let effects = match plugin.pre_bind().map(|point| point.pre_bind(&call, node)) {
            Some(Ok(effects)) => effects,
            Some(Err(status)) if status.code != berth_framework::Code::Skip => return Err(status),
            Some(Err(_)) | None => Vec::new(),
        };
        if let Some(point) = plugin.reserve() {
            point.unreserve(&call, node);
        }
        if status.is_success() { read(&effects).map_err(|error| Status::error(error.to_string())) } else { Err(status) }
    }
}

/// A patch of a volume names the claim that gets it, and a patch of a claim asks for a new volume.
fn read(effects: &[Effect]) -> anyhow::Result<VolumeChoices> {
    let (mut chosen, mut provision) = (BTreeMap::new(), Vec::new());
    let mut waits = false;
    for effect in effects {
        match effect {
            Effect::Patch { kind, name, patch, .. } if kind == "v1/PersistentVolume" => {
                let patch: Value = serde_json::from_slice(patch)?;
                let claim = patch.pointer("/spec/claimRef/name").and_then(Value::as_str);
                chosen.insert(claim.context("a volume is patched without a claim")?.to_owned(), name.clone());
            }
            Effect::Patch { kind, name, .. } if kind == "v1/PersistentVolumeClaim" => provision.push(name.clone()),
            Effect::Wait { .. } => waits = true,
            other => bail!("an effect that binds no volume: {other:?}"),
        }
    }
    if waits == effects.is_empty() {
        bail!("it must wait for what it writes, and for nothing else");
    }
    provision.sort_unstable();
    Ok(VolumeChoices { chosen, provision })
}
