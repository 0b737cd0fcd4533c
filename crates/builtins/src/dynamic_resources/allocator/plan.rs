//! Claims, prepared for the search. A plan is made once for all nodes; only the number of devices that a request for all
//! devices means differs from node to node.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    AllocationError, MAX_DEVICES_OF_CLAIM, SearchLimit,
    alternative::{Alternative, is_selected, name_of},
};
use crate::dynamic_resources::{
    cel::Selectors,
    node_devices::NodeDevices,
    objects::{DeviceClass, DeviceRequest, ResourceClaim},
    pools::PoolState,
};

/// What a pod's unallocated claims ask for.
#[derive(Debug)]
pub(in crate::dynamic_resources) struct Plan {
    pub(super) claims: Vec<ClaimPlan>,
    /// The amounts, if they are the same on every node.
    everywhere: Option<Amounts>,
}

/// By the ordinals of alternatives; `None` if no device matches some request for all devices.
type Amounts = Result<Option<Vec<Amount>>, AllocationError>;

#[derive(Debug)]
pub(super) struct ClaimPlan {
    pub(super) claim: Arc<ResourceClaim>,
    pub(super) requests: Vec<RequestPlan>,
}

#[derive(Debug)]
pub(super) struct RequestPlan {
    pub(super) name: String,
    /// One for `exactly`, several for `firstAvailable`.
    pub(super) alternatives: Vec<Alternative>,
    pub(super) is_prioritized: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Amount {
    /// All matching devices, and none matches.
    Nothing,
    Exactly(usize),
    /// Locations of all devices that match.
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
        classes: &BTreeMap<String, Arc<DeviceClass>>,
        selectors: &mut Selectors,
        claims: impl IntoIterator<Item = Arc<ResourceClaim>>,
    ) -> Self {
        let mut planner = Planner { classes, selectors, n_alternatives: 0 };
        let claims = claims.into_iter().enumerate();
        let claims = claims.map(|(claim_idx, claim)| planner.claim(claim_idx, claim)).collect();
        let mut plan = Self { claims, everywhere: None };
        if !plan.alternatives().any(|alternative| alternative.wanted.takes_all()) {
            plan.everywhere = Some(plan.amounts_on(selectors, SearchLimit::NONE, &NodeDevices::default()));
        }
        plan
    }

    fn alternatives(&self) -> impl Iterator<Item = &Alternative> {
        self.claims.iter().flat_map(|claim| &claim.requests).flat_map(|request| &request.alternatives)
    }

    pub(super) fn alternative(&self, ordinal: usize) -> Option<&Alternative> {
        self.alternatives().nth(ordinal)
    }

    /// How many devices each alternative asks for on a node. Amounts that differ from node to node are put into `scratch`.
    pub(super) fn amounts<'a>(
        &'a self,
        selectors: &mut Selectors,
        limit: SearchLimit,
        node_devices: &NodeDevices,
        scratch: &'a mut Vec<Amount>,
    ) -> Result<Option<&'a [Amount]>, AllocationError> {
        match &self.everywhere {
            Some(amounts) => Ok(amounts.as_ref().map_err(Clone::clone)?.as_deref()),
            None => Ok(self.amounts_on(selectors, limit, node_devices)?.map(|amounts| {
                *scratch = amounts;
                scratch.as_slice()
            })),
        }
    }

    fn amounts_on(&self, selectors: &mut Selectors, limit: SearchLimit, node_devices: &NodeDevices) -> Amounts {
        let mut amounts = Vec::new();
        for claim in &self.claims {
            let mut n_least = 0usize;
            for request in &claim.requests {
                let first = amounts.len();
                for alternative in &request.alternatives {
                    amounts.push(amount(selectors, limit, node_devices, &claim.claim, alternative)?);
                }
                let of_request = amounts.iter().skip(first).filter_map(Amount::n_devices);
                let Some(least) = of_request.min() else { return Ok(None) };
                n_least = n_least.saturating_add(least);
            }
            check_size(&claim.claim, n_least)?;
        }
        Ok(Some(amounts))
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
            alternatives.push(Alternative {
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
    selectors: &mut Selectors,
    limit: SearchLimit,
    node_devices: &NodeDevices,
    claim: &ResourceClaim,
    alternative: &Alternative,
) -> Result<Amount, AllocationError> {
    let wanted = &alternative.wanted;
    if alternative.class.is_none() {
        let class = &wanted.device_class_name;
        return Err(AllocationError::ClassNotFound(class.clone()));
    }
    if !wanted.takes_all() {
        return Ok(Amount::Exactly(usize::try_from(wanted.count.max(1)).unwrap_or(usize::MAX)));
    }
    if let Some((pool, state)) = node_devices.unusable.first() {
        return Err(AllocationError::PoolNotUsable {
            claim: name_of(claim),
            request: alternative.name.clone(),
            pool: pool.to_string(),
            state: if *state == PoolState::Invalid { "invalid" } else { "being updated" },
        });
    }
    let mut locations = Vec::new();
    for (location, node_device) in node_devices.devices.iter().enumerate() {
        if is_selected(selectors, limit, claim, alternative, &node_device.device)? {
            locations.push(location);
        }
    }
    Ok(if locations.is_empty() { Amount::Nothing } else { Amount::All(locations) })
}

fn check_size(claim: &ResourceClaim, n_least: usize) -> Result<(), AllocationError> {
    if n_least <= MAX_DEVICES_OF_CLAIM {
        return Ok(());
    }
    Err(AllocationError::TooManyDevices { claim: name_of(claim), n_devices: n_least })
}
