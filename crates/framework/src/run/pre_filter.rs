//! PreFilter. Each plugin looks at the pod once. It may restrict the nodes, and may reject the pod for all nodes.

use std::collections::BTreeSet;

use super::{Attempt, PreFilterAnswer, Refusal, Restriction};
use crate::{
    plugin::Point,
    points::{Call, PreFilter},
    profile::{PluginIdx, Profile},
    status::{Code, Status},
};

/// The end of PreFilter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreFilterOutcome {
    /// Filter is next.
    Proceed,
    /// The pod fits on no node.
    Rejected {
        /// The reason.
        status: Status,
        /// The plugin that rejected the pod, and after `Unschedulable` also the plugins that restricted the nodes; or
        /// the plugins whose restrictions left no node.
        plugins: Vec<PluginIdx>,
    },
}

/// Asks every PreFilter plugin.
///
/// # Errors
/// A plugin broke; the attempt fails with this status.
pub fn pre_filter(profile: &mut Profile, call: &Call<'_>, attempt: &mut Attempt) -> Result<PreFilterOutcome, Status> {
    let start = profile.meter().start(call.cycle);
    let outcome = ask(profile, call, attempt);
    let code = match &outcome {
        Ok(PreFilterOutcome::Proceed) => Code::Success,
        Ok(PreFilterOutcome::Rejected { status, .. }) | Err(status) => status.code,
    };
    profile.meter().end(start, Point::PreFilter.as_str(), code);
    outcome
}

fn ask(profile: &mut Profile, call: &Call<'_>, attempt: &mut Attempt) -> Result<PreFilterOutcome, Status> {
    if let Some(Refusal { plugin, status }) = profile.blind_to_all() {
        return Ok(PreFilterOutcome::Rejected { status, plugins: vec![plugin] });
    }
    let mut rejection = None;
    let mut plugins = profile.each::<dyn PreFilter>();
    while let Some((plugin, point)) = plugins.next(profile) {
        let answer = point.pre_filter(call);
        let (status, nodes) = match profile.is_blind(plugin) {
            // The plugin must not judge pods that it affects. It skips this pod, so it does not affect the pod.
            Some(_) if matches!(&answer, Err(status) if status.code == Code::Skip) => (Status::skip(), None),
            Some(blind) => (blind, None),
            None => answer.map_or_else(|status| (status, None), |nodes| (Status::success(), nodes)),
        };
        profile.meter().answered(plugin, Point::PreFilter, status.code);
        if status.code != Code::Skip {
            profile.meter().asked(plugin, Point::PreFilter, 1);
        }
        attempt.findings.pre_filters.push(PreFilterAnswer { plugin, status: status.clone(), nodes: nodes.clone() });
        match status.code {
            Code::Skip => attempt.findings.skipped_filters.insert(plugin),
            Code::UnschedulableAndUnresolvable => {
                return Ok(PreFilterOutcome::Rejected { status, plugins: vec![plugin] });
            }
            Code::Unschedulable => rejection = Some((plugin, status)),
            Code::Success => {
                if let Some(rejected) = restrict(profile, attempt, plugin, nodes) {
                    return Ok(rejected);
                }
            }
            Code::Error | Code::Wait => return Err(Refusal::new(profile, plugin, status, "PreFilter").status),
            Code::Pending => {
                let text = format!("running PreFilter plugin \"{}\": {}", profile.name(plugin), status.message());
                return Err(Status::error(text));
            }
        }
    }
    let Some((plugin, status)) = rejection else { return Ok(PreFilterOutcome::Proceed) };
    // The events of plugins that restricted the nodes may help as well, because the pod may then fit on other nodes.
    let mut plugins = vec![plugin];
    plugins.extend(attempt.findings.restriction.iter().flat_map(|restriction| &restriction.plugins));
    Ok(PreFilterOutcome::Rejected { status, plugins })
}

/// Intersects the restriction with `nodes`. An empty result rejects the pod.
fn restrict(
    profile: &Profile,
    attempt: &mut Attempt,
    plugin: PluginIdx,
    nodes: Option<Vec<String>>,
) -> Option<PreFilterOutcome> {
    let names: BTreeSet<String> = nodes?.into_iter().collect();
    let restriction = match attempt.findings.restriction.take() {
        None => Restriction { names, plugins: vec![plugin] },
        Some(Restriction { names: mut kept, mut plugins }) => {
            kept.retain(|name| names.contains(name));
            plugins.push(plugin);
            Restriction { names: kept, plugins }
        }
    };
    let plugins = restriction.plugins.clone();
    let rejected = restriction.names.is_empty().then(|| {
        let message = match plugins.as_slice() {
            [only] => format!("node(s) didn't satisfy plugin {}", profile.name(*only)),
            several => {
                format!("node(s) didn't satisfy plugin(s) {} simultaneously", sorted_names(profile, several))
            }
        };
        PreFilterOutcome::Rejected { status: Status::unresolvable(message), plugins }
    });
    attempt.findings.restriction = Some(restriction);
    rejected
}

/// The names of plugins in order, as `[A B]`.
pub(super) fn sorted_names(profile: &Profile, plugins: &[PluginIdx]) -> String {
    let mut names: Vec<&str> = plugins.iter().map(|&plugin| &**profile.name(plugin)).collect();
    names.sort_unstable();
    format!("[{}]", names.join(" "))
}
