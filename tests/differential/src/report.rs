//! Prints the differences between kube-scheduler and Berth, with the reasons of known differences.

use std::collections::BTreeMap;

use crate::{
    difference::{Aspect, Difference},
    known,
};

/// The number of differences of one aspect that are shown completely.
const N_SHOWN: usize = 20;

/// Prints differences under a title. Differences of one aspect with the same reason are shown together.
pub(crate) fn print(title: &str, differences: &[Difference]) {
    let mut by_reason: BTreeMap<(Aspect, Option<&str>), Vec<&Difference>> = BTreeMap::new();
    for difference in differences {
        by_reason.entry((difference.aspect, known::reason(difference))).or_default().push(difference);
    }
    for ((aspect, reason), differences) in by_reason {
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        println!("  {title}, {} of {aspect:?}{reason}", differences.len());
        for difference in differences.iter().take(if title == "known" { 1 } else { N_SHOWN }) {
            println!("    {}", difference.subject);
            println!("      kube-scheduler: {}", difference.kube_scheduler);
            println!("      berth:          {}", difference.berth);
            if !difference.context.is_empty() {
                println!("      {}", difference.context);
            }
        }
    }
}
