//! Claims and pools, laid out for the search.

use super::{AllocationError, Inventory, MAX_DEVICES_OF_CLAIM, eligibility};
use crate::dynamic_resources::{
    cel::Selectors,
    objects::{DeviceClass, DeviceConstraint, DeviceRequest, ResourceClaim, SubRequest},
    pools::{Pool, PoolState},
    slices::SliceDevice,
};

#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) claims: Vec<ClaimPlan<'a>>,
    /// Of all usable pools, in order. A position in it is a device's location.
    pub(super) devices: Vec<&'a SliceDevice>,
}

#[derive(Debug)]
pub(super) struct ClaimPlan<'a> {
    pub(super) claim: &'a ResourceClaim,
    pub(super) constraints: &'a [DeviceConstraint],
    pub(super) requests: Vec<RequestPlan<'a>>,
}

#[derive(Debug)]
pub(super) struct RequestPlan<'a> {
    pub(super) request: &'a DeviceRequest,
    /// One for `exactly`, several for `firstAvailable`.
    pub(super) alternatives: Vec<Alternative<'a>>,
}

#[derive(Debug)]
pub(super) struct Alternative<'a> {
    pub(super) wanted: &'a SubRequest,
    pub(super) class: &'a DeviceClass,
    /// `<request>` or `<request>/<sub-request>`.
    pub(super) name: String,
    pub(super) amount: Amount,
    /// Position among those of its request, as the claim lists them.
    pub(super) rank: usize,
    /// Position among those of all requests of all claims.
    pub(super) ordinal: usize,
}

#[derive(Debug)]
pub(super) enum Amount {
    Exactly(usize),
    /// Locations of all devices that match.
    All(Vec<usize>),
}

impl Amount {
    pub(super) fn n_devices(&self) -> usize {
        match self {
            Self::Exactly(count) => *count,
            Self::All(locations) => locations.len(),
        }
    }
}

impl ClaimPlan<'_> {
    pub(super) fn contains(&self, alternative: &Alternative<'_>) -> bool {
        let mut alternatives = self.requests.iter().flat_map(|request| &request.alternatives);
        alternatives.any(|it| it.ordinal == alternative.ordinal)
    }
}

impl RequestPlan<'_> {
    pub(super) fn is_prioritized(&self) -> bool {
        self.request.exactly.is_none()
    }
}

impl<'a> Plan<'a> {
    /// `None` if some request can't be served for want of a single matching device.
    pub(super) fn new(
        inventory: &Inventory<'a>,
        selectors: &mut Selectors,
        claims: &[&'a ResourceClaim],
        pools: &'a [Pool<'a>],
    ) -> Result<Option<Self>, AllocationError> {
        let usable = pools.iter().filter(|pool| pool.state == PoolState::Usable);
        let devices = usable.flat_map(|pool| pool.devices.iter().copied()).collect();
        let mut plan = Self { claims: Vec::with_capacity(claims.len()), devices };
        let mut ordinals = 0..;
        for claim in claims {
            let mut planned = ClaimPlan {
                claim,
                constraints: &claim.spec.devices.constraints,
                requests: Vec::with_capacity(claim.spec.devices.requests.len()),
            };
            for request in &claim.spec.devices.requests {
                let mut alternatives = Vec::new();
                let wanted = request.exactly.as_ref().map_or(&*request.first_available, std::slice::from_ref);
                for (rank, wanted) in wanted.iter().enumerate() {
                    let planner = Planner { inventory, pools, devices: &plan.devices, claim };
                    let position = (rank, ordinals.next().unwrap_or_default());
                    alternatives.extend(planner.alternative(selectors, request, wanted, position)?);
                }
                if alternatives.is_empty() {
                    return Ok(None);
                }
                planned.requests.push(RequestPlan { request, alternatives });
            }
            check_size(&planned)?;
            plan.claims.push(planned);
        }
        Ok(Some(plan))
    }

    pub(super) fn n_alternatives(&self) -> usize {
        let requests = self.claims.iter().flat_map(|claim| &claim.requests);
        requests.flat_map(|request| &request.alternatives).map(|it| it.ordinal + 1).max().unwrap_or_default()
    }
}

struct Planner<'p, 'a> {
    inventory: &'p Inventory<'a>,
    pools: &'p [Pool<'a>],
    devices: &'p [&'a SliceDevice],
    claim: &'a ResourceClaim,
}

impl<'a> Planner<'_, 'a> {
    /// `None` for a request for all devices that no device matches.
    fn alternative(
        &self,
        selectors: &mut Selectors,
        request: &'a DeviceRequest,
        wanted: &'a SubRequest,
        (rank, ordinal): (usize, usize),
    ) -> Result<Option<Alternative<'a>>, AllocationError> {
        let name = match &request.exactly {
            Some(_) => request.name.clone(),
            None => format!("{}/{}", request.name, wanted.name),
        };
        let class = self.inventory.classes.get(&wanted.device_class_name).ok_or_else(|| {
            let class = &wanted.device_class_name;
            AllocationError::Failed(format!("could not retrieve device class {class}: not found"))
        })?;
        let mut alternative = Alternative { wanted, class, name, amount: Amount::Exactly(0), rank, ordinal };
        alternative.amount = if wanted.takes_all() {
            let locations = self.all_locations(selectors, &alternative)?;
            if locations.is_empty() {
                return Ok(None);
            }
            Amount::All(locations)
        } else {
            Amount::Exactly(usize::try_from(wanted.count.max(1)).unwrap_or(usize::MAX))
        };
        Ok(Some(alternative))
    }

    fn all_locations(
        &self,
        selectors: &mut Selectors,
        alternative: &Alternative<'a>,
    ) -> Result<Vec<usize>, AllocationError> {
        for pool in self.pools {
            let trouble = match pool.state {
                PoolState::Usable => continue,
                PoolState::Incomplete => "being updated",
                PoolState::Invalid => "invalid",
            };
            return Err(AllocationError::Failed(format!(
                "claim {}, request {}: asks for all devices, but resource pool {} is currently {trouble}",
                name_of(self.claim),
                alternative.name,
                pool.id
            )));
        }
        let mut locations = Vec::new();
        for (location, device) in self.devices.iter().enumerate() {
            if eligibility::is_selected(selectors, self.claim, alternative, device)? {
                locations.push(location);
            }
        }
        Ok(locations)
    }
}

/// As it appears in messages.
pub(super) fn name_of(claim: &ResourceClaim) -> String {
    format!("{}/{}", claim.metadata.namespace, claim.metadata.name)
}

fn check_size(planned: &ClaimPlan<'_>) -> Result<(), AllocationError> {
    let least = |request: &RequestPlan<'_>| {
        request.alternatives.iter().map(|alternative| alternative.amount.n_devices()).min().unwrap_or_default()
    };
    let n_least = planned.requests.iter().map(least).fold(0usize, usize::saturating_add);
    if n_least <= MAX_DEVICES_OF_CLAIM {
        return Ok(());
    }
    let name = name_of(planned.claim);
    Err(AllocationError::Failed(format!(
        "claim {name}: number of requested devices {n_least} exceeds the claim limit of {MAX_DEVICES_OF_CLAIM}"
    )))
}
