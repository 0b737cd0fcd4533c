//! A value for each extension point.

use std::ops::{Index, IndexMut};

use crate::plugin::Point;

/// One value for each [`Point`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerPoint<T>([T; Point::ALL.len()]);

impl<T> PerPoint<T> {
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T: Default> Default for PerPoint<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

impl<T> Index<Point> for PerPoint<T> {
    type Output = T;

    fn index(&self, point: Point) -> &T {
        &self.0[point as usize]
    }
}

impl<T> IndexMut<Point> for PerPoint<T> {
    fn index_mut(&mut self, point: Point) -> &mut T {
        &mut self.0[point as usize]
    }
}
