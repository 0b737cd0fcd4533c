//! A score for each utilization: a piecewise linear function through the points in the args.

use serde::Deserialize;
use thiserror::Error;

use crate::normalize::MAX_SCORE;

/// The factor from the scores of points, which are from 0 to 10, to the scores of nodes.
const SCALE: i64 = MAX_SCORE / 10;

/// An entry of `shape` in args.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PointArgs {
    pub(crate) utilization: i64,
    pub(crate) score: i64,
}

/// The reason why a shape is refused.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum ShapeError {
    #[error("shape needs at least one point")]
    NoPoints,
    #[error("utilization must increase with each point, and stay between 0 and 100")]
    Utilization,
    #[error("score {0} must be from 0 to 10")]
    Score(i64),
}

/// A piecewise linear function from utilization (0 to 100) to score: points of strictly rising utilization.
#[derive(Debug)]
pub(crate) struct Shape(Vec<(i64, i64)>);

impl Shape {
    pub(crate) fn new(points: &[PointArgs]) -> Result<Self, ShapeError> {
        if points.is_empty() {
            return Err(ShapeError::NoPoints);
        }
        let mut last = -1;
        for point in points {
            if point.utilization <= last || point.utilization > 100 {
                return Err(ShapeError::Utilization);
            }
            if !(0..=10).contains(&point.score) {
                return Err(ShapeError::Score(point.score));
            }
            last = point.utilization;
        }
        Ok(Self(points.iter().map(|point| (point.utilization, point.score * SCALE)).collect()))
    }

    pub(crate) fn at(&self, utilization: i64) -> i64 {
        let Some(mut before) = self.0.first().copied() else { return 0 };
        for &(x, y) in &self.0 {
            if utilization <= x {
                let (x0, y0) = before;
                return if x == x0 { y } else { y0 + (y - y0) * (utilization - x0) / (x - x0) };
            }
            before = (x, y);
        }
        before.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_interpolate() {
        let points = [(0, 0), (40, 8), (100, 2)].map(|(utilization, score)| PointArgs { utilization, score });
        let shape = Shape::new(&points).unwrap();
        for (utilization, expected) in [(0, 0), (20, 40), (40, 80), (50, 70), (70, 50), (75, 45), (87, 33), (100, 20)] {
            assert_eq!(shape.at(utilization), expected, "{utilization}");
        }
        let late =
            Shape::new(&[PointArgs { utilization: 20, score: 3 }, PointArgs { utilization: 65, score: 9 }]).unwrap();
        assert_eq!([0, 20, 65, 100].map(|utilization| late.at(utilization)), [30, 30, 90, 90]);
    }

    #[test]
    fn shapes_are_checked() {
        for points in [&[][..], &[(10, 1), (10, 2)], &[(0, 11)], &[(101, 1)], &[(-1, 1)]] {
            let points: Vec<_> = points.iter().map(|&(utilization, score)| PointArgs { utilization, score }).collect();
            assert!(Shape::new(&points).is_err(), "{points:?}");
        }
    }
}
