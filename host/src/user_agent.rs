//! The name under which requests are sent.

/// What the API server's audit log and field managers show.
pub(crate) const USER_AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));
