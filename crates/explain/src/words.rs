//! The plugins' own words about a pod.
//!
//! Plugins are asked for their words after all other questions. A plugin that breaks at this point therefore loses only
//! its words.

use berth_framework::{
    Call, CycleId, Plugin, PluginIdx, Point, Profile, Status,
    run::{self, Attempt, PreFilterOutcome, SearchRange},
};
use berth_model::NodeIdx;

use crate::{
    analysis::{Analysis, CYCLES, PluginWords},
    question::Question,
};

/// Asks the plugins that explain themselves about the pod of `call`, and about the node of the question if there is
/// such a node. The caller must call [`analyze`](crate::analyze) first, with the same call and the same question.
pub fn add_words(profile: &mut Profile, call: &Call<'_>, question: &Question<'_>, analysis: &mut Analysis) {
    let instances = (0u32..).map(PluginIdx).zip(profile.instances());
    let explaining = instances.filter(|(_, instance)| instance.plugin.points().contains(Point::Explain));
    let explaining: Vec<PluginIdx> = explaining.map(|(plugin, _)| plugin).collect();
    if explaining.is_empty() {
        return;
    }
    let call = Call { cycle: CycleId(call.cycle.0.saturating_add(CYCLES - 1)), ..*call };
    // A point that fails in this call has also failed in the analysis. A plugin that broke fails again when it is asked
    // for words.
    let _ = look_at_all(profile, &call, question);
    for plugin in explaining {
        if let Err(status) = add_words_of(profile, plugin, &call, question.node, analysis) {
            let name = profile.name(plugin);
            analysis.notes.push(format!("the words of {name} are unknown: {}", status.message()));
        }
    }
    profile.end_cycle(call.cycle);
}

/// Calls the plugins at the points that choose a node, so that the plugins have the results that they explain.
fn look_at_all(profile: &mut Profile, call: &Call<'_>, question: &Question<'_>) -> Result<(), Status> {
    let mut attempt = Attempt::default();
    if let PreFilterOutcome::Rejected { .. } = run::pre_filter(profile, call, &mut attempt)? {
        return Ok(());
    }
    run::list_candidates(call, question.order, &mut attempt);
    let all = SearchRange { start: 0, n_wanted: question.order.len().max(1) };
    run::filter(profile, call, all, question.nominated, &mut attempt)?;
    if attempt.findings().feasible().len() > 1 {
        run::score(profile, call, &mut attempt)?;
    }
    Ok(())
}

fn add_words_of(
    profile: &mut Profile,
    plugin: PluginIdx,
    call: &Call<'_>,
    node: Option<NodeIdx>,
    analysis: &mut Analysis,
) -> Result<(), Status> {
    for node in [None].into_iter().chain(node.map(Some)) {
        let Some(point) = profile.get(plugin).and_then(<dyn Plugin>::explain) else { return Ok(()) };
        let text = point.explain(call, node)?;
        if !text.is_empty() {
            let node = node.map(|node| call.table.symbols.text(call.table.name(node)).to_owned());
            analysis.words.push(PluginWords { plugin: profile.name(plugin).to_string(), node, text });
        }
    }
    Ok(())
}
