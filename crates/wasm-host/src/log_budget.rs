//! The number of lines that a plugin may log in a second, over all of its instances and binaries.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The lines that a plugin has logged in the present second, by the clock of the engine.
#[derive(Debug, Default)]
pub(crate) struct LogBudget(Mutex<Logged>);

#[derive(Debug, Default)]
struct Logged {
    second: u64,
    lines: u32,
}

impl LogBudget {
    /// Counts one more line. Returns whether the plugin may log the line.
    pub(crate) fn take(&self, second: u64, lines_per_second: u32) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if second != logged.second {
            *logged = Logged { second, lines: 0 };
        }
        logged.lines = logged.lines.saturating_add(1);
        logged.lines <= lines_per_second
    }
}

/// The budgets of all plugins, by name.
#[derive(Debug, Default)]
pub(crate) struct LogBudgets(Mutex<BTreeMap<Box<str>, Arc<LogBudget>>>);

impl LogBudgets {
    /// The plugin's budget. Budgets of plugins without a binary are deleted.
    pub(crate) fn of(&self, plugin: &str) -> Arc<LogBudget> {
        let mut budgets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.retain(|_, budget| Arc::strong_count(budget) > 1);
        Arc::clone(budgets.entry(plugin.into()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_binaries_of_a_plugin_have_one_budget() {
        let budgets = LogBudgets::default();
        let (one, other, of_another) = (budgets.of("A"), budgets.of("A"), budgets.of("B"));
        assert!(one.take(1, 2) && other.take(1, 2));
        assert!(!one.take(1, 2) && !other.take(1, 2));
        assert!(of_another.take(1, 2));
        assert!(other.take(2, 2), "the next second");
        drop((one, other));
        drop(budgets.of("C"));
        assert_eq!(budgets.0.lock().expect("one thread").len(), 2, "A has no binary any more");
    }
}
