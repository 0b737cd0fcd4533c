//! Resource quantities.
use serde::Deserialize;
/// Placeholder until parsed exactly.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Quantity(String);
