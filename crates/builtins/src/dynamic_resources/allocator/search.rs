//! The search itself: depth first with backtracking.
//!
//! The order of the checks of a device is kube-scheduler's. The order decides which error an attempt ends with and, in
//! Kubernetes 1.36, the results of later choices. The answer of a request's selectors and tolerations about a device
//! does not depend on the other devices: it is evaluated once and kept with the devices of the node.
//!
//! Two short cuts do not change the result. A branch ends as soon as too few devices are left for the request. When the
//! search goes back for the first time, it ends if some request could not be served even alone. An error of a selector
//! fails the search only if the search reaches the selector's device. The short cuts are not taken if a selector fails,
//! or if failed tries have effects: see [`Search::tries_have_effects`].

use berth_model::Feature;

use super::{
    AllocationError, Inventory, MAX_DEVICES_OF_CLAIM, SearchLimit,
    alternative::{Alternative, is_selected, name_of},
    chosen::ChosenDevice,
    constraints::ClaimConstraints,
    counters::CounterLedger,
    eligibility,
    plan::{Amount, ClaimPlan, Plan},
};
use crate::dynamic_resources::{
    cel::Selectors,
    node_devices::{NodeDevice, SelectionResults, Suitability},
};

/// The place of the search: a request of a claim.
#[derive(Clone, Copy, Debug)]
struct Position {
    claim_idx: usize,
    request_idx: usize,
}

/// The requests of the claims.
#[derive(Clone, Copy)]
pub(super) struct Demand<'p> {
    pub(super) plan: &'p Plan,
    /// Amounts by the ordinals of alternatives.
    pub(super) amounts: &'p [Amount],
}

/// The resources of the node.
pub(super) struct Supply<'s, 'p> {
    pub(super) devices: &'p [NodeDevice],
    pub(super) selection_results: &'s mut SelectionResults,
}

/// The devices that are still to be chosen for a request.
#[derive(Clone, Copy)]
struct Remainder {
    /// The first device that may be chosen: a location, or a position in the list of all devices.
    start: usize,
    n_missing: usize,
}

pub(super) struct Search<'s, 'p> {
    inventory: &'s Inventory<'s>,
    selectors: &'s mut Selectors,
    plan: &'p Plan,
    /// Amounts by the ordinals of alternatives.
    amounts: &'p [Amount],
    devices: &'p [NodeDevice],
    selection_results: &'s mut SelectionResults,
    chosen: Vec<ChosenDevice<'p>>,
    /// Constraints by claim.
    constraints: Vec<ClaimConstraints<'p>>,
    counters: CounterLedger<'p>,
    limit: SearchLimit<'p>,
    takes_short_cuts: bool,
    is_known_possible: bool,
}

impl<'s, 'p> Search<'s, 'p> {
    pub(super) fn new(
        inventory: &'s Inventory<'s>,
        selectors: &'s mut Selectors,
        demand: Demand<'p>,
        supply: Supply<'s, 'p>,
        limit: SearchLimit<'p>,
    ) -> Self {
        let (Demand { plan, amounts }, Supply { devices, selection_results }) = (demand, supply);
        let claims = plan.claims.iter();
        let constraints = claims.map(|it| ClaimConstraints::new(&it.claim, inventory.features)).collect();
        let mut search = Self {
            inventory,
            selectors,
            plan,
            amounts,
            devices,
            selection_results,
            chosen: Vec::new(),
            constraints,
            counters: CounterLedger::default(),
            limit,
            takes_short_cuts: false,
            is_known_possible: false,
        };
        search.takes_short_cuts = !search.tries_have_effects();
        search.is_known_possible = !search.takes_short_cuts;
        search
    }

    /// Whether a failed try of a device can change later results or end the search. A constraint may forbid one device
    /// of a request for all devices, and counters may stay taken in Kubernetes 1.36.
    fn tries_have_effects(&self) -> bool {
        let is_constrained = |claim: &ClaimPlan| !claim.claim.spec.devices.constraints.is_empty();
        let takes_all = |claim: &ClaimPlan| {
            claim.requests.iter().flat_map(|request| &request.alternatives).any(|it| it.wanted.takes_all())
        };
        if self.plan.claims.iter().any(|claim| is_constrained(claim) && takes_all(claim)) {
            return true;
        }
        let keeps = |device: &NodeDevice| device.consumes_counters && (device.is_tainted || device.is_shareable);
        let has_counters = || self.devices.iter().any(|device| device.consumes_counters);
        !self.inventory.features.has(Feature::CountersAreGivenBack)
            && (self.devices.iter().any(keeps) || self.plan.claims.iter().any(is_constrained) && has_counters())
    }

    /// Whether there is a solution; [`Search::into_chosen`] returns it.
    pub(super) fn run(&mut self) -> Result<bool, AllocationError> {
        match self.request(Position { claim_idx: 0, request_idx: 0 }) {
            Ok(is_found) => Ok(is_found),
            Err(SearchEnd::Impossible) => Ok(false),
            Err(SearchEnd::Failed(error)) => Err(error),
        }
    }

    /// The chosen devices in the order of claims and requests.
    pub(super) fn into_chosen(self) -> Vec<ChosenDevice<'p>> {
        self.chosen
    }

    fn amount(&self, alternative: &Alternative) -> &'p Amount {
        self.amounts.get(alternative.ordinal).unwrap_or(&Amount::Nothing)
    }

    fn request(&mut self, position: Position) -> Result<bool, SearchEnd> {
        let plan = self.plan;
        let Some(claim) = plan.claims.get(position.claim_idx) else { return Ok(true) };
        let Some(request) = claim.requests.get(position.request_idx) else {
            return self.request(Position { claim_idx: position.claim_idx + 1, request_idx: 0 });
        };
        let n_chosen = self.chosen.iter().filter(|it| it.alternative.claim_idx == position.claim_idx).count();
        for alternative in &request.alternatives {
            let Some(n_devices) = self.amount(alternative).n_devices() else { continue };
            if n_chosen.saturating_add(n_devices) <= MAX_DEVICES_OF_CLAIM
                && self.devices(position, alternative, Remainder { start: 0, n_missing: n_devices })?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Chooses the remaining devices.
    fn devices(
        &mut self,
        position: Position,
        alternative: &'p Alternative,
        Remainder { start, n_missing }: Remainder,
    ) -> Result<bool, SearchEnd> {
        if n_missing == 0 {
            return self.request(Position { request_idx: position.request_idx + 1, ..position });
        }
        if let Amount::All(locations) = self.amount(alternative) {
            let Some(location) = locations.get(start) else { return Ok(false) };
            let rest = Remainder { start: start + 1, n_missing: n_missing - 1 };
            let trial = self.device(position, alternative, *location, rest)?;
            return Ok(matches!(trial, DeviceTrial::Solved));
        }
        for location in start..self.devices.len() {
            let rest = Remainder { start: location + 1, n_missing: n_missing - 1 };
            match self.device(position, alternative, location, rest)? {
                DeviceTrial::Solved => return Ok(true),
                DeviceTrial::Ineligible => {}
                DeviceTrial::NoSolution if self.could_serve(alternative, location + 1, n_missing)? => {}
                DeviceTrial::NoSolution => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Takes the device and chooses the remaining devices. Gives the device back if no solution contains it.
    fn device(
        &mut self,
        position: Position,
        alternative: &'p Alternative,
        location: usize,
        rest: Remainder,
    ) -> Result<DeviceTrial, SearchEnd> {
        self.limit.step()?;
        if !self.choose(position, alternative, location)? {
            return Ok(DeviceTrial::Ineligible);
        }
        if self.devices(position, alternative, rest)? {
            return Ok(DeviceTrial::Solved);
        }
        self.give_back();
        self.require_possible()?;
        Ok(DeviceTrial::NoSolution)
    }

    /// Takes the device for the request, if the request may have it.
    fn choose(
        &mut self,
        position: Position,
        alternative: &'p Alternative,
        location: usize,
    ) -> Result<bool, AllocationError> {
        let (devices, inventory) = (self.devices, self.inventory);
        let Some((device, claim)) = devices.get(location).zip(self.plan.claims.get(position.claim_idx)) else {
            return Ok(false);
        };
        // Selectors and capacity are already checked for a request for all devices.
        let is_one_of_all = alternative.wanted.takes_all();
        if eligibility::is_taken(inventory, &self.chosen, alternative, device)
            || self.suitability(alternative, location)? == Suitability::Unselected
        {
            return Ok(false);
        }
        let capacity = |chosen: &[ChosenDevice<'_>]| eligibility::capacity_for(inventory, chosen, alternative, device);
        let consumed = if is_one_of_all { None } else { capacity(&self.chosen) };
        if !is_one_of_all && consumed.is_none() {
            return Ok(false);
        }
        let Some(takes_counters) = self.take_counters(device) else { return Ok(false) };
        if self.suitability(alternative, location)? == Suitability::Untolerated {
            self.undo_counters(takes_counters, device);
            return Ok(false);
        }
        let constraints = self.constraints.get_mut(position.claim_idx);
        if constraints.is_some_and(|constraints| !constraints.add(alternative, &device.device)) {
            self.undo_counters(takes_counters, device);
            return if is_one_of_all { Err(forbidden(claim, alternative, device)) } else { Ok(false) };
        }
        let Some(consumed) = consumed.or_else(|| capacity(&self.chosen)) else {
            self.undo_in_vain(position, alternative, takes_counters, device);
            return Ok(false);
        };
        self.chosen.push(ChosenDevice { alternative, location, device, consumed });
        Ok(true)
    }

    /// Takes the counters that the device consumes. Returns whether it consumes any, or `None` if too little is left.
    fn take_counters(&mut self, device: &'p NodeDevice) -> Option<bool> {
        if !device.consumes_counters {
            return Some(false);
        }
        if !self.inventory.features.has(Feature::DRAPartitionableDevices) {
            return None;
        }
        let is_shared = eligibility::has_share(self.inventory, &self.chosen, device);
        (is_shared || self.counters.take(self.inventory, &device.device)).then_some(!is_shared)
    }

    /// Gives back the counters of a device that was not chosen. Kubernetes 1.36 keeps them.
    fn undo_counters(&mut self, takes_counters: bool, device: &'p NodeDevice) {
        if takes_counters && self.inventory.features.has(Feature::CountersAreGivenBack) {
            self.counters.give_back(self.inventory, &device.device);
        }
    }

    /// Undoes a failed try: the device has too little capacity for a request for all devices. Kubernetes 1.36 keeps
    /// counters and attributes.
    fn undo_in_vain(
        &mut self,
        position: Position,
        alternative: &Alternative,
        takes_counters: bool,
        device: &'p NodeDevice,
    ) {
        if self.inventory.features.has(Feature::CountersAreGivenBack)
            && let Some(constraints) = self.constraints.get_mut(position.claim_idx)
        {
            constraints.remove(alternative);
        }
        self.undo_counters(takes_counters, device);
    }

    /// Gives back the device that was chosen last. Kubernetes 1.36 keeps the counters of a shareable device.
    fn give_back(&mut self) {
        let Some(ChosenDevice { alternative, device, .. }) = self.chosen.pop() else { return };
        if let Some(constraints) = self.constraints.get_mut(alternative.claim_idx) {
            constraints.remove(alternative);
        }
        let is_shareable = eligibility::is_shareable(self.inventory, device);
        let is_given_back = !is_shareable
            || self.inventory.features.has(Feature::CountersAreGivenBack)
                && !eligibility::has_share(self.inventory, &self.chosen, device);
        if device.consumes_counters && is_given_back {
            self.counters.give_back(self.inventory, &device.device);
        }
    }

    /// The answer of selectors and tolerations about the device.
    fn suitability(&mut self, alternative: &Alternative, location: usize) -> Result<Suitability, AllocationError> {
        let Some(node_device) = self.devices.get(location) else { return Ok(Suitability::Unselected) };
        let features = self.inventory.features;
        if node_device.needs_binding && !features.has(Feature::DRADeviceBindingConditions) {
            return Ok(Suitability::Unselected);
        }
        if !alternative.has_selectors && !node_device.is_for_node {
            return Ok(Suitability::Unselected);
        }
        if !alternative.has_selectors && !node_device.is_tainted {
            return Ok(Suitability::Suits);
        }
        let known = self.selection_results.of(alternative.selection, self.devices.len());
        let Some(known) = known.get_mut(location) else { return Ok(Suitability::Unselected) };
        if let Some(suitability) = known {
            return Ok(*suitability);
        }
        let (device, claim) = (&node_device.device, self.plan.claims.get(alternative.claim_idx));
        let Some(claim) = claim else { return Ok(Suitability::Unselected) };
        let is_selected = is_selected(self.selectors, features, self.limit, &claim.claim, alternative, device)?;
        let suitability = if !is_selected || !node_device.is_for_node {
            Suitability::Unselected
        } else if features.has(Feature::DRADeviceTaints)
            && !eligibility::tolerates(&alternative.wanted.tolerations, &device.device.taints)
        {
            Suitability::Untolerated
        } else {
            Suitability::Suits
        };
        *known = Some(suitability);
        Ok(suitability)
    }

    /// Whether there are `n_wanted` devices for the request from `start` on, if no other request takes any.
    fn could_serve(
        &mut self,
        alternative: &Alternative,
        start: usize,
        n_wanted: usize,
    ) -> Result<bool, AllocationError> {
        if !self.takes_short_cuts {
            return Ok(true);
        }
        let mut n_possible = 0;
        for location in start..self.devices.len() {
            if n_possible >= n_wanted {
                break;
            }
            self.limit.step()?;
            let Some(device) = self.devices.get(location) else { continue };
            if eligibility::is_taken(self.inventory, &[], alternative, device) {
                continue;
            }
            match self.suitability(alternative, location) {
                Ok(suitability) => n_possible += usize::from(suitability == Suitability::Suits),
                Err(error) if error.is_timeout() => return Err(error),
                Err(_) => return Ok(true),
            }
        }
        Ok(n_possible >= n_wanted)
    }

    /// Ends the search if some request could not be served even alone.
    fn require_possible(&mut self) -> Result<(), SearchEnd> {
        if std::mem::replace(&mut self.is_known_possible, true) {
            return Ok(());
        }
        let plan = self.plan;
        for request in plan.claims.iter().flat_map(|claim| &claim.requests) {
            let mut is_possible = false;
            for alternative in &request.alternatives {
                is_possible = is_possible || self.could_serve_all(alternative)?;
            }
            if !is_possible {
                return Err(SearchEnd::Impossible);
            }
        }
        Ok(())
    }

    fn could_serve_all(&mut self, alternative: &Alternative) -> Result<bool, AllocationError> {
        match self.amount(alternative) {
            Amount::Nothing => Ok(false),
            Amount::All(_) => Ok(true),
            Amount::Exactly(n_devices) => self.could_serve(alternative, 0, *n_devices),
        }
    }
}

fn forbidden(claim: &ClaimPlan, alternative: &Alternative, device: &NodeDevice) -> AllocationError {
    AllocationError::ConstraintForbidsDevice {
        claim: name_of(&claim.claim),
        request: alternative.short_name.clone(),
        device: device.device.id.to_string(),
    }
}

/// The result of trying a device.
#[derive(Clone, Copy, Debug)]
enum DeviceTrial {
    Solved,
    Ineligible,
    NoSolution,
}

/// The reason why a search ends early.
enum SearchEnd {
    Impossible,
    Failed(AllocationError),
}

impl From<AllocationError> for SearchEnd {
    fn from(error: AllocationError) -> Self {
        Self::Failed(error)
    }
}
