//! The scheduler's part in a case: it sets the time, and carries out granted effects.

use std::fmt;

use berth_framework::Grants;

/// The surroundings of a plugin in a case, besides the cluster.
pub struct CaseHost {
    grants: Grants,
    set_now: Box<dyn Fn(u64)>,
}

impl CaseHost {
    /// An effect beyond `grants` is a difference. `set_now` gets the time of each step that sets one, in milliseconds
    /// since 1970.
    #[must_use]
    pub fn new(grants: Grants, set_now: impl Fn(u64) + 'static) -> Self {
        Self { grants, set_now: Box::new(set_now) }
    }

    pub(crate) fn grants(&self) -> &Grants {
        &self.grants
    }

    pub(crate) fn set_now(&self, milliseconds: u64) {
        (self.set_now)(milliseconds);
    }
}

/// A host that grants everything and sets no time, because the plugin has its own clock.
impl Default for CaseHost {
    fn default() -> Self {
        Self::new(Grants::ALL, |_| {})
    }
}

impl fmt::Debug for CaseHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CaseHost").field("grants", &self.grants).finish_non_exhaustive()
    }
}
