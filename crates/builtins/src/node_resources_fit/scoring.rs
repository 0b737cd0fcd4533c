//! The scoring strategies of NodeResourcesFit. All arithmetic is in integers, truncated where Kubernetes truncates.
//!
//! kube-scheduler: `least_allocated.go`, `most_allocated.go` and `requested_to_capacity_ratio.go` in
//! `pkg/scheduler/framework/plugins/noderesources`.

use berth_model::{NodeIdx, node_set::RowBlock};
use serde::Deserialize;
use thiserror::Error;

use crate::{
    normalize::MAX_SCORE,
    row_blocks::{Block, integer_below, number, round_down},
    scored_resources::{ResourceArgs, ResourceView, ScoredResource, WeightError, scored_resources},
    utilization_shape::{PointArgs, Shape, ShapeError},
};

/// `scoringStrategy` in the args.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct StrategyArgs {
    r#type: StrategyType,
    resources: Option<Vec<ResourceArgs>>,
    requested_to_capacity_ratio: Option<RatioArgs>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum StrategyType {
    #[default]
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RatioArgs {
    shape: Option<Vec<PointArgs>>,
}

/// The reason why a scoring strategy is refused.
#[derive(Debug, Error)]
pub(super) enum StrategyError {
    #[error(transparent)]
    Weight(#[from] WeightError),
    #[error("requestedToCapacityRatio: {0}")]
    Shape(#[from] ShapeError),
}

/// The preference for nodes with low or with high use, and the resources that count.
#[derive(Debug)]
pub(super) struct Strategy {
    kind: Kind,
    resources: Vec<ScoredResource>,
}

#[derive(Debug)]
enum Kind {
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio(Shape),
}

impl Strategy {
    pub(super) fn new(args: StrategyArgs) -> Result<Self, StrategyError> {
        let resources = scored_resources(args.resources, 100)?;
        let kind = match args.r#type {
            StrategyType::LeastAllocated => Kind::LeastAllocated,
            StrategyType::MostAllocated => Kind::MostAllocated,
            StrategyType::RequestedToCapacityRatio => {
                let shape = args.requested_to_capacity_ratio.unwrap_or_default().shape.unwrap_or_default();
                Kind::RequestedToCapacityRatio(Shape::new(&shape)?)
            }
        };
        Ok(Self { kind, resources })
    }

    pub(super) fn resources(&self) -> &[ScoredResource] {
        &self.resources
    }

    /// The weighted mean over the resources of a node.
    pub(super) fn score(&self, views: &[ResourceView<'_>], node: NodeIdx) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for view in views {
            let Some((allocatable, used)) = view.amounts(node) else { continue };
            let score = self.resource_score(used.saturating_add(view.request), allocatable);
            if score > 0 || self.counts_zero() {
                sum = sum.saturating_add(score.saturating_mul(view.weight));
                weights += view.weight;
            }
        }
        match (&self.kind, weights) {
            (_, 0) => 0,
            (Kind::LeastAllocated | Kind::MostAllocated, _) => sum / weights,
            (Kind::RequestedToCapacityRatio(_), _) => rounded_quotient(sum, weights),
        }
    }

    /// [`Self::score`] of each row of a block, within the limits of [`row_blocks`](crate::row_blocks). Shapes are not
    /// supported.
    pub(super) fn score_block(
        &self,
        views: &[ResourceView<'_>],
        block: RowBlock,
        scores: &mut Block<i64>,
    ) -> Option<()> {
        match self.kind {
            Kind::LeastAllocated => {
                let free = |requested, allocatable| allocatable - requested;
                mean_of_block(
                    views,
                    block,
                    scores,
                    |requested, all| if requested < all { free(requested, all) } else { 0.0 },
                )
            }
            Kind::MostAllocated => {
                mean_of_block(views, block, scores, |requested, all| if requested < all { requested } else { all })
            }
            Kind::RequestedToCapacityRatio(_) => None,
        }
    }

    /// Whether a resource with score 0 counts in the mean. For a ratio, such a resource does not count.
    fn counts_zero(&self) -> bool {
        match self.kind {
            Kind::LeastAllocated | Kind::MostAllocated => true,
            Kind::RequestedToCapacityRatio(_) => false,
        }
    }

    fn resource_score(&self, requested: i64, allocatable: i64) -> i64 {
        let percent = |amount: i64| amount.saturating_mul(MAX_SCORE).saturating_div(allocatable);
        match &self.kind {
            Kind::LeastAllocated if requested > allocatable => 0,
            Kind::LeastAllocated => percent(allocatable.saturating_sub(requested)),
            Kind::MostAllocated => percent(requested.min(allocatable)),
            Kind::RequestedToCapacityRatio(shape) if requested > allocatable => shape.at(MAX_SCORE),
            Kind::RequestedToCapacityRatio(shape) => shape.at(percent(requested)),
        }
    }
}

/// The weighted mean of `part` of each resource, in percent of the allocatable amount. The arguments of `part` are the
/// requested and the allocatable amount.
#[expect(clippy::cast_precision_loss, reason = "weights are at most 100, and so are scores")]
fn mean_of_block(
    views: &[ResourceView<'_>],
    block: RowBlock,
    scores: &mut Block<i64>,
    part: impl Fn(f64, f64) -> f64,
) -> Option<()> {
    let mut sums: Block<f64> = [0.0; 64];
    let mut weights = 0;
    for view in views {
        let (weight, request) = (view.weight as f64, number(view.request));
        weights += view.weight;
        view.in_block(block, |allocatable, used| {
            for ((sum, allocatable), used) in sums.iter_mut().zip(allocatable).zip(used) {
                let allocatable = number(*allocatable);
                let part = part(number(*used) + request, allocatable);
                *sum += round_down(part * MAX_SCORE as f64 / allocatable) * weight;
            }
        })?;
    }
    // With the additional half, no integer quotient is rounded down to a smaller integer, and no other quotient reaches
    // the next integer.
    let share = 1.0 / weights.max(1) as f64;
    for (score, sum) in scores.iter_mut().zip(&sums) {
        *score = integer_below((sum + 0.5) * share);
    }
    Some(())
}

/// The quotient of two non-negative numbers, rounded to the nearest integer. Halves are rounded up.
fn rounded_quotient(sum: i64, weights: i64) -> i64 {
    (2 * sum + weights) / (2 * weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_up() {
        assert_eq!([(103, 2), (102, 2), (10, 3), (11, 3)].map(|(sum, n)| rounded_quotient(sum, n)), [52, 51, 3, 4]);
    }
}
