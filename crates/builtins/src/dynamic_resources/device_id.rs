//! Names of devices and of the pools that they belong to.

use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PoolId {
    pub(super) driver: Arc<str>,
    pub(super) pool: Arc<str>,
}

/// The identity of a device in claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DeviceId {
    pub(super) pool: PoolId,
    pub(super) device: Arc<str>,
}

impl DeviceId {
    pub(super) fn new(driver: &str, pool: &str, device: &str) -> Self {
        Self { pool: PoolId { driver: driver.into(), pool: pool.into() }, device: device.into() }
    }
}

impl std::fmt::Display for PoolId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.driver, self.pool)
    }
}

impl std::fmt::Display for DeviceId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.pool, self.device)
    }
}
