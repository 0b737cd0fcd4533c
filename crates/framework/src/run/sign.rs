//! Signatures: the part of a pod that matters to the plugins that decide about nodes.

use std::sync::Arc;

use berth_model::Pod;

use crate::{
    plugin::Point,
    profile::{PluginIdx, Profile},
    status::Code,
};

/// The points at which a plugin's answer affects the choice of a pod's node.
const DECIDING: [Point; 4] = [Point::PreFilter, Point::Filter, Point::PreScore, Point::Score];

/// The Sign answers of the plugins that decide about nodes. As long as the cluster does not change, pods of one profile
/// with equal signatures get the same answers from all of these plugins. Cloning a signature is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(Arc<[String]>);

/// The pod's signature; `None` if a deciding plugin has no Sign, or does not sign this pod (KEP-5598).
///
/// `first` is asked before the others. The function sets `first` to the plugin that did not sign, so that a profile
/// whose pods are never signed costs one call for each pod.
pub fn sign(profile: &mut Profile, pod: &Pod, first: &mut PluginIdx) -> Option<Signature> {
    if decides(profile, *first) {
        ask(profile, *first, pod)?;
    }
    let mut fragments = Vec::with_capacity(profile.instances().len());
    for plugin in (0u32..).map(PluginIdx).take(profile.instances().len()) {
        if !decides(profile, plugin) {
            continue;
        }
        let Some(fragment) = ask(profile, plugin, pod) else {
            *first = plugin;
            return None;
        };
        fragments.push(fragment);
    }
    Some(Signature(fragments.into()))
}

/// Whether equivalent pods have the same signature. This is so if every plugin that signs has the hook Reuse, which
/// requires equal signatures of equivalent pods.
#[must_use]
pub fn signs_by_class(profile: &Profile) -> bool {
    let plugins = (0u32..).map(PluginIdx).zip(profile.instances());
    plugins.filter(|(plugin, _)| decides(profile, *plugin)).all(|(_, instance)| instance.has_reuse())
}

fn decides(profile: &Profile, plugin: PluginIdx) -> bool {
    DECIDING.iter().any(|&point| profile.plugins.at(point).contains(&plugin))
}

fn ask(profile: &mut Profile, plugin: PluginIdx, pod: &Pod) -> Option<String> {
    let fragment = profile.get(plugin)?.sign()?.sign(pod);
    let code = if fragment.is_some() { Code::Success } else { Code::Unschedulable };
    profile.meter().answered(plugin, Point::Sign, code);
    fragment
}
