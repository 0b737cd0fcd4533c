//! Between the host's words and the contract's: [`lower`] on the way into a component, [`lift`] on the way out.
//!
//! Lifting checks what a component says against the limits on its answers; lowering cannot fail.

pub(crate) mod lift;
pub(crate) mod lower;
mod names;
