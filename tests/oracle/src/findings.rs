//! The results of one case.

use std::{collections::BTreeMap, fmt::Debug};

use serde::Serialize;

/// One answer that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The answer, such as `filter n3` or `score NodeAffinity n0`.
    pub what: String,
    pub expected: String,
    pub got: String,
}

/// All results of one case.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub differences: Vec<Difference>,
    /// The number of recorded answers that were compared.
    pub n_compared: usize,
    /// The number of recorded answers that were left out, by the missing plugin to which they belong.
    pub left_out: BTreeMap<String, usize>,
}

impl Findings {
    /// Records a difference unless both values are equal. Returns whether the values are equal.
    pub(crate) fn compare<T: Debug + PartialEq + ?Sized>(
        &mut self,
        what: impl Into<String>,
        expected: &T,
        got: &T,
    ) -> bool {
        self.n_compared += 1;
        let is_equal = expected == got;
        if !is_equal {
            self.differ(what, format!("{expected:?}"), format!("{got:?}"));
        }
        is_equal
    }

    pub(crate) fn differ(&mut self, what: impl Into<String>, expected: impl Into<String>, got: impl Into<String>) {
        self.differences.push(Difference { what: what.into(), expected: expected.into(), got: got.into() });
    }

    pub(crate) fn leave_out(&mut self, plugin: &str) {
        *self.left_out.entry(plugin.to_owned()).or_default() += 1;
    }
}
