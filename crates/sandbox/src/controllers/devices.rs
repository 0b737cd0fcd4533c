//! Device claims, as the resource claim controller keeps them.

pub(super) mod claim_templates;
pub(super) mod claims;
