//! The pods whose wait ends in a step: an effect releases or rejects a pod at Permit, or the plugin is asked again at
//! Permit or PreBind because an object that it waits for has changed.

use berth_framework::{Grants, Status};
use berth_model::ObjectKey;

use crate::{answers::PluginAnswers, case_effect::CaseEffect, harness::PluginHarness, waiting_pods::HeldAt};

/// Asks the plugin again about the pods that wait for one of these objects, and follows its effects. Returns the answers
/// about the pods whose wait ends.
///
/// # Errors
/// The plugin fails.
pub(crate) fn ask_again(
    harness: &mut PluginHarness,
    changed: &[ObjectKey],
    grants: &Grants,
) -> Result<PluginAnswers, Status> {
    let mut all = PluginAnswers::default();
    for uid in harness.waiting().for_objects(changed) {
        let held_at = harness.waiting().held_at(&uid);
        // An effect about an earlier pod may have ended the wait.
        let Some(mut answers) = harness.ask_again(&uid, grants)? else { continue };
        follow_effects(harness, &mut answers, grants)?;
        if harness.waiting().held_at(&uid) != held_at {
            all.add_asked_again(uid.clone(), &answers);
        }
        if !answers.lets_the_pod_be_bound() {
            harness.remove_pod(&uid);
        }
        all.add_ended_waits(answers);
    }
    Ok(all)
}

/// Follows the effects of Unreserve about pods whose wait ended, and adds these effects to the answers.
///
/// # Errors
/// The plugin fails.
pub(crate) fn follow_undone(
    harness: &mut PluginHarness,
    answers: &mut PluginAnswers,
    grants: &Grants,
) -> Result<(), Status> {
    loop {
        let undone = harness.take_undone(grants);
        if undone.is_empty() {
            return Ok(());
        }
        for (uid, mut undone) in undone {
            follow_effects(harness, &mut undone, grants)?;
            answers.add_undone(uid, undone);
        }
    }
}

/// Releases and rejects the pods at Permit that the plugin names in its effects, if all effects are granted. Adds the
/// answers of the points after Permit.
///
/// # Errors
/// The plugin fails.
pub(crate) fn follow_effects(
    harness: &mut PluginHarness,
    answers: &mut PluginAnswers,
    grants: &Grants,
) -> Result<(), Status> {
    if !answers.refused.is_empty() {
        return Ok(());
    }
    for effect in answers.effects() {
        match effect {
            CaseEffect::Allow(uid) => {
                let Some(released) = harness.release(&uid, grants)? else { continue };
                if !released.lets_the_pod_be_bound() {
                    harness.remove_pod(&uid);
                }
                answers.add_released(uid, released);
            }
            CaseEffect::Reject { uid, .. } if harness.waiting().held_at(&uid) == Some(HeldAt::Permit) => {
                harness.remove_pod(&uid);
            }
            CaseEffect::Reject { .. }
            | CaseEffect::Bind
            | CaseEffect::Patch { .. }
            | CaseEffect::Create { .. }
            | CaseEffect::Delete { .. }
            | CaseEffect::Evict { .. }
            | CaseEffect::Activate(_)
            | CaseEffect::Nominate { .. }
            | CaseEffect::Event { .. }
            | CaseEffect::Wait { .. } => {}
        }
    }
    Ok(())
}
