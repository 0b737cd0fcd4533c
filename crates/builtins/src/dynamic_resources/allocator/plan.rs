//! Claims that are prepared for the search. One plan serves all nodes; only the number of devices of a request for all
//! devices differs from node to node.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::Deadline;
use berth_model::{Feature, Features};

use super::{
    AllocationError, Inventory, MAX_DEVICES_OF_CLAIM, SearchLimit,
    alternative::{Alternative, is_selected, name_of},
    eligibility,
};
use crate::dynamic_resources::{
    cel::Selectors,
    node_devices::{NodeDevice, NodeDevices, UnusablePool},
    objects::{DeviceClass, DeviceRequest, ResourceClaim},
    pools::PoolState,
    stable_allocator,
};

/// The devices that a pod's unallocated claims request.
#[derive(Debug)]
pub(in crate::dynamic_resources) struct Plan {
    pub(super) claims: Vec<ClaimPlan>,
    /// The amounts, if they are the same on every node.
    everywhere: Option<Amounts>,
}

/// Amounts by the ordinals of alternatives.
type Amounts = Result<Vec<Amount>, AllocationError>;

#[derive(Debug)]
pub(super) struct ClaimPlan {
    pub(super) claim: Arc<ResourceClaim>,
    pub(super) requests: Vec<RequestPlan>,
}

#[derive(Debug)]
pub(super) struct RequestPlan {
    pub(super) name: String,
    /// One alternative for `exactly`, several for `firstAvailable`.
    pub(super) alternatives: Vec<Alternative>,
    pub(super) is_prioritized: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Amount {
    /// The request is for all matching devices, and no device matches.
    Nothing,
    Exactly(usize),
    /// The locations of all devices that match.
    All(Vec<usize>),
}

impl Amount {
    pub(super) fn n_devices(&self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Exactly(count) => Some(*count),
            Self::All(locations) => Some(locations.len()),
        }
    }
}

impl Plan {
    pub(in crate::dynamic_resources) fn new(
        inventory: &Inventory<'_>,
        classes: &BTreeMap<String, Arc<DeviceClass>>,
        selectors: &mut Selectors,
        claims: impl IntoIterator<Item = Arc<ResourceClaim>>,
        deadline: Deadline<'_>,
    ) -> Self {
        let mut planner = Planner { classes, selectors, n_alternatives: 0 };
        let mut plan = Self { claims: Vec::new(), everywhere: None };
        for (claim_idx, claim) in claims.into_iter().enumerate() {
            plan.claims.push(planner.claim(claim_idx, claim));
            // A pod may have many claims, each as large as an object can be.
            if deadline.is_over() {
                return Self { everywhere: Some(Err(AllocationError::TimedOut)), ..plan };
            }
        }
        if !plan.alternatives().any(|alternative| alternative.wanted.takes_all()) {
            let nothing = NodeDevices::default();
            plan.everywhere = Some(plan.amounts_on(inventory, selectors, SearchLimit::NONE, &nothing));
        }
        plan
    }

    /// The claims that are to be allocated, in order.
    pub(in crate::dynamic_resources) fn claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.claims.iter().map(|claim| &*claim.claim)
    }

    fn alternatives(&self) -> impl Iterator<Item = &Alternative> {
        self.claims.iter().flat_map(|claim| &claim.requests).flat_map(|request| &request.alternatives)
    }

    pub(super) fn alternative(&self, ordinal: usize) -> Option<&Alternative> {
        self.alternatives().nth(ordinal)
    }

    /// The number of devices that each alternative requests on a node. Amounts that differ from node to node are put
    /// into `scratch`.
    pub(super) fn amounts<'a>(
        &'a self,
        inventory: &Inventory<'_>,
        selectors: &mut Selectors,
        limit: SearchLimit<'_>,
        node_devices: &NodeDevices,
        scratch: &'a mut Vec<Amount>,
    ) -> Result<&'a [Amount], AllocationError> {
        if let Some(amounts) = &self.everywhere {
            return amounts.as_deref().map_err(Clone::clone);
        }
        *scratch = self.amounts_on(inventory, selectors, limit, node_devices)?;
        Ok(scratch)
    }

    fn amounts_on(
        &self,
        inventory: &Inventory<'_>,
        selectors: &mut Selectors,
        limit: SearchLimit<'_>,
        node_devices: &NodeDevices,
    ) -> Amounts {
        let mut amounts = Vec::new();
        for ClaimPlan { claim, requests } in &self.claims {
            let mut n_least = 0usize;
            for request in requests {
                request.require_no_capacity(inventory, claim)?;
                let first = amounts.len();
                for alternative in &request.alternatives {
                    amounts.push(amount(inventory, selectors, limit, node_devices, claim, alternative)?);
                }
                let of_request = amounts.iter().skip(first).map(|amount| amount.n_devices().unwrap_or(0));
                n_least = n_least.saturating_add(of_request.min().unwrap_or(0));
            }
            check_size(claim, n_least)?;
            check_constraints(claim, inventory.features)?;
        }
        Ok(amounts)
    }
}

impl RequestPlan {
    /// Refuses requests for capacity if the gate DRAConsumableCapacity is off. kube-scheduler's stable allocator ignores
    /// capacity instead.
    fn require_no_capacity(&self, inventory: &Inventory<'_>, claim: &ResourceClaim) -> Result<(), AllocationError> {
        let features = inventory.features;
        if features.has(Feature::DRAConsumableCapacity) || stable_allocator::is_in_use(features) {
            return Ok(());
        }
        match self.alternatives.iter().find(|alternative| alternative.wanted.capacity.is_some()) {
            None => Ok(()),
            Some(alternative) => Err(AllocationError::CapacityDisabled {
                claim: name_of(claim),
                kind: if self.is_prioritized { "subrequest" } else { "request" },
                request: alternative.short_name.clone(),
            }),
        }
    }
}

struct Planner<'a> {
    classes: &'a BTreeMap<String, Arc<DeviceClass>>,
    selectors: &'a mut Selectors,
    n_alternatives: usize,
}

impl Planner<'_> {
    fn claim(&mut self, claim_idx: usize, claim: Arc<ResourceClaim>) -> ClaimPlan {
        let requests = claim.spec.devices.requests.iter().enumerate();
        let requests = requests.map(|(request_idx, request)| self.request(claim_idx, request_idx, request)).collect();
        ClaimPlan { claim, requests }
    }

    fn request(&mut self, claim_idx: usize, request_idx: usize, request: &DeviceRequest) -> RequestPlan {
        let wanted = request.exactly.as_ref().map_or(&*request.first_available, std::slice::from_ref);
        let mut alternatives = Vec::with_capacity(wanted.len());
        for (rank, wanted) in wanted.iter().enumerate() {
            let name = match &request.exactly {
                Some(_) => request.name.clone(),
                None => format!("{}/{}", request.name, wanted.name),
            };
            let class = self.classes.get(&wanted.device_class_name).cloned();
            let of_class = class.as_ref().map(|class| &*class.spec.selectors).unwrap_or_default();
            // Requests with equal text select the same devices.
            let text = serde_json::to_string(&(of_class, &wanted.selectors, &wanted.tolerations));
            let short_name = if request.exactly.is_some() { &request.name } else { &wanted.name };
            alternatives.push(Alternative {
                short_name: short_name.clone(),
                has_selectors: !of_class.is_empty() || !wanted.selectors.is_empty(),
                selection: self.selectors.selection(text.ok()),
                wanted: wanted.clone(),
                class,
                name,
                claim_idx,
                request_idx,
                rank,
                ordinal: self.n_alternatives,
            });
            self.n_alternatives += 1;
        }
        RequestPlan { name: request.name.clone(), alternatives, is_prioritized: request.exactly.is_none() }
    }
}

fn amount(
    inventory: &Inventory<'_>,
    selectors: &mut Selectors,
    limit: SearchLimit<'_>,
    node_devices: &NodeDevices,
    claim: &ResourceClaim,
    alternative: &Alternative,
) -> Result<Amount, AllocationError> {
    let wanted = &alternative.wanted;
    if alternative.class.is_none() {
        return Err(AllocationError::ClassNotFound {
            claim: name_of(claim),
            request: alternative.short_name.clone(),
            class: wanted.device_class_name.clone(),
        });
    }
    if !wanted.takes_all() {
        return Ok(Amount::Exactly(usize::try_from(wanted.count.max(1)).unwrap_or(usize::MAX)));
    }
    let mut locations = Vec::new();
    let mut unusable = node_devices.unusable.iter().peekable();
    for (location, node_device) in node_devices.devices.iter().enumerate() {
        if let Some(pool) = unusable.next_if(|pool| pool.location <= location) {
            return Err(pool_not_usable(claim, alternative, pool));
        }
        if is_for_all(inventory, selectors, limit, claim, alternative, node_device)? {
            locations.push(location);
        }
    }
    if let Some(pool) = unusable.next() {
        return Err(pool_not_usable(claim, alternative, pool));
    }
    Ok(if locations.is_empty() { Amount::Nothing } else { Amount::All(locations) })
}

fn pool_not_usable(claim: &ResourceClaim, alternative: &Alternative, pool: &UnusablePool) -> AllocationError {
    AllocationError::PoolNotUsable {
        claim: name_of(claim),
        request: alternative.short_name.clone(),
        pool: pool.id.to_string(),
        state: if pool.state == PoolState::Invalid { "invalid" } else { "being updated" },
    }
}

/// Whether a request for all devices includes the device.
fn is_for_all(
    inventory: &Inventory<'_>,
    selectors: &mut Selectors,
    limit: SearchLimit,
    claim: &ResourceClaim,
    alternative: &Alternative,
    device: &NodeDevice,
) -> Result<bool, AllocationError> {
    let features = inventory.features;
    if device.needs_binding && !features.has(Feature::DRADeviceBindingConditions)
        || !is_selected(selectors, features, limit, claim, alternative, &device.device)?
        || !device.is_for_node
    {
        return Ok(false);
    }
    let needs_capacity = features.has(Feature::AllDevicesNeedCapacity);
    Ok(needs_capacity || eligibility::capacity_for(inventory, &[], alternative, device).is_some())
}

fn check_size(claim: &ResourceClaim, n_least: usize) -> Result<(), AllocationError> {
    if n_least <= MAX_DEVICES_OF_CLAIM {
        return Ok(());
    }
    Err(AllocationError::TooManyDevices { claim: name_of(claim), n_devices: n_least })
}

fn check_constraints(claim: &ResourceClaim, features: Features) -> Result<(), AllocationError> {
    let knows_distinct = !stable_allocator::is_in_use(features);
    let mut constraints = claim.spec.devices.constraints.iter();
    let unknown =
        constraints.position(|it| it.match_attribute.is_none() && (it.distinct_attribute.is_none() || !knows_distinct));
    match unknown {
        None => Ok(()),
        Some(position) => Err(AllocationError::UnsupportedConstraint { claim: name_of(claim), position }),
    }
}
