//! One way to serve a request: an `exactly` request itself, or one sub-request of a `firstAvailable` request.

use std::sync::Arc;

use berth_model::{Feature, Features};

use super::{AllocationError, SearchLimit};
use crate::dynamic_resources::{
    cel::{SelectionId, SelectorSubject, Selectors},
    objects::{DeviceClass, DeviceSelector, ResourceClaim, SubRequest},
    slices::SliceDevice,
};

/// A request or sub-request of a claim.
#[derive(Debug)]
pub(super) struct Alternative {
    pub(super) wanted: SubRequest,
    /// `None` if the class does not exist; then [`super::plan::Plan::amounts`] fails and there is no search.
    pub(super) class: Option<Arc<DeviceClass>>,
    /// `<request>` or `<request>/<sub-request>`.
    pub(super) name: String,
    /// `<request>` or `<sub-request>`, which some messages use.
    pub(super) short_name: String,
    pub(super) claim_idx: usize,
    /// The position of the request within its claim.
    pub(super) request_idx: usize,
    /// The position among the alternatives of its request: 0 is the preferred alternative.
    pub(super) rank: usize,
    /// The position among the alternatives of all requests of all claims.
    pub(super) ordinal: usize,
    pub(super) has_selectors: bool,
    pub(super) selection: SelectionId,
}

/// Whether the selectors of the class and of the request accept the device.
pub(super) fn is_selected(
    selectors: &mut Selectors,
    features: Features,
    limit: SearchLimit<'_>,
    claim: &ResourceClaim,
    alternative: &Alternative,
    device: &SliceDevice,
) -> Result<bool, AllocationError> {
    let name_of_class = || format!("class {}", alternative.wanted.device_class_name);
    let selectors_of_class = alternative.class.as_ref().map(|class| &*class.spec.selectors).unwrap_or_default();
    let of_claim = || format!("claim {}", name_of(claim));
    Ok(all_match(selectors, features, limit, selectors_of_class, device, name_of_class)?
        && all_match(selectors, features, limit, &alternative.wanted.selectors, device, of_claim)?)
}

fn all_match(
    selectors: &mut Selectors,
    features: Features,
    limit: SearchLimit<'_>,
    expressions: &[DeviceSelector],
    device: &SliceDevice,
    origin: impl Fn() -> String,
) -> Result<bool, AllocationError> {
    for (position, selector) in expressions.iter().enumerate() {
        let Some(cel) = &selector.cel else {
            return Err(AllocationError::UnsupportedSelector { origin: origin(), position });
        };
        let subject = SelectorSubject { driver: &device.id.pool.driver, device: &device.device };
        let result = selectors.matches(&cel.expression, subject, device.key, limit.deadline);
        match result.filter(|_| !limit.is_over()) {
            None => return Err(AllocationError::SelectorTimedOut { origin: origin(), position }),
            Some(Ok(true)) => {}
            Some(Ok(false)) => return Ok(false),
            Some(Err(source)) => {
                let is_detailed = features.has(Feature::SelectorErrorsNameDevices);
                let names_device = is_detailed && source.is_of_run();
                let on_device = if names_device { format!(" on device {}", device.id) } else { String::new() };
                let source = if is_detailed { source.with_advice() } else { source };
                return Err(AllocationError::Selector { origin: origin(), position, on_device, source });
            }
        }
    }
    Ok(true)
}

/// The name of a claim in messages.
pub(super) fn name_of(claim: &ResourceClaim) -> String {
    format!("{}/{}", claim.metadata.namespace, claim.metadata.name)
}
