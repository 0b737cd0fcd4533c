//! Device claims, as the resource claim controller manages them.

pub(super) mod claim_templates;
pub(super) mod claims;
