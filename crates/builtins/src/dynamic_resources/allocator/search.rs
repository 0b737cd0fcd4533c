//! The search itself: depth first with backtracking.
//!
//! Whether selectors and tolerations of a request accept a device does not depend on the other devices: it is evaluated once
//! and kept with the devices of the node.
//!
//! Two short cuts do not change the result. A branch ends as soon as too few devices are left for the request. And when the
//! search goes back for the first time, it ends if some request could not be served even if it were alone. An error of a
//! selector fails the search only if the search gets to that device, so where a selector fails neither short cut is taken.

use super::{
    AllocationError, Inventory, MAX_DEVICES_OF_CLAIM, SearchLimit,
    alternative::{Alternative, is_selected},
    chosen::ChosenDevice,
    eligibility,
    plan::{Amount, Plan},
};
use crate::dynamic_resources::{
    cel::Selectors,
    node_devices::{NodeDevice, SelectionResults},
};

/// Where the search stands: a request of a claim.
#[derive(Clone, Copy, Debug)]
struct Position {
    claim_idx: usize,
    request_idx: usize,
}

pub(super) struct Search<'s, 'p> {
    inventory: &'s Inventory<'s>,
    selectors: &'s mut Selectors,
    plan: &'p Plan,
    /// By the ordinals of alternatives.
    amounts: &'p [Amount],
    devices: &'p [NodeDevice],
    selection_results: &'s mut SelectionResults,
    chosen: Vec<ChosenDevice<'p>>,
    limit: &'s mut SearchLimit,
    is_known_possible: bool,
}

impl<'s, 'p> Search<'s, 'p> {
    pub(super) fn new(
        inventory: &'s Inventory<'s>,
        selectors: &'s mut Selectors,
        (plan, amounts): (&'p Plan, &'p [Amount]),
        (devices, selection_results): (&'p [NodeDevice], &'s mut SelectionResults),
        limit: &'s mut SearchLimit,
    ) -> Self {
        let (chosen, is_known_possible) = (Vec::new(), false);
        Self { inventory, selectors, plan, amounts, devices, selection_results, chosen, limit, is_known_possible }
    }

    /// Whether there is a solution; [`Search::into_chosen`] returns it.
    pub(super) fn run(&mut self) -> Result<bool, AllocationError> {
        match self.request(Position { claim_idx: 0, request_idx: 0 }) {
            Ok(is_found) => Ok(is_found),
            Err(SearchEnd::Impossible) => Ok(false),
            Err(SearchEnd::Failed(error)) => Err(error),
        }
    }

    /// In the order of claims and requests.
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
                && self.devices(position, alternative, 0, n_devices)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Chooses `n_missing` more devices at or after `start`: a location, or a position in the list of all devices.
    fn devices(
        &mut self,
        position: Position,
        alternative: &'p Alternative,
        start: usize,
        n_missing: usize,
    ) -> Result<bool, SearchEnd> {
        if n_missing == 0 {
            return self.request(Position { request_idx: position.request_idx + 1, ..position });
        }
        if let Amount::All(locations) = self.amount(alternative) {
            let Some(location) = locations.get(start) else { return Ok(false) };
            let trial = self.device(position, alternative, *location, (start + 1, n_missing - 1))?;
            return Ok(matches!(trial, DeviceTrial::Solved));
        }
        for location in start..self.devices.len() {
            match self.device(position, alternative, location, (location + 1, n_missing - 1))? {
                DeviceTrial::Solved => return Ok(true),
                DeviceTrial::Ineligible => {}
                DeviceTrial::NoSolution if self.could_serve(alternative, location + 1, n_missing)? => {}
                DeviceTrial::NoSolution => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Takes the device and goes on with `next`, a start and a number of missing devices. Gives the device back if there
    /// is no solution with it.
    fn device(
        &mut self,
        position: Position,
        alternative: &'p Alternative,
        location: usize,
        next: (usize, usize),
    ) -> Result<DeviceTrial, SearchEnd> {
        self.limit.step()?;
        let Some(chosen) = self.eligible(position, alternative, location)? else { return Ok(DeviceTrial::Ineligible) };
        self.chosen.push(chosen);
        if self.devices(position, alternative, next.0, next.1)? {
            return Ok(DeviceTrial::Solved);
        }
        self.chosen.pop();
        self.require_possible()?;
        Ok(DeviceTrial::NoSolution)
    }

    fn eligible(
        &mut self,
        position: Position,
        alternative: &'p Alternative,
        location: usize,
    ) -> Result<Option<ChosenDevice<'p>>, AllocationError> {
        let devices = self.devices;
        let Some((device, claim)) = devices.get(location).zip(self.plan.claims.get(position.claim_idx)) else {
            return Ok(None);
        };
        if eligibility::is_taken(self.inventory, &self.chosen, alternative, device)
            || !self.suits(alternative, location)?
            || !eligibility::meets_constraints(&claim.claim, &self.chosen, alternative, &device.device)
            || !(alternative.wanted.is_admin() || eligibility::has_counters(self.inventory, &self.chosen, device))
        {
            return Ok(None);
        }
        let consumed = eligibility::capacity_for(self.inventory, &self.chosen, alternative, device);
        Ok(consumed.map(|consumed| ChosenDevice { alternative, location, device, consumed }))
    }

    /// Whether selectors and tolerations accept the device.
    fn suits(&mut self, alternative: &Alternative, location: usize) -> Result<bool, AllocationError> {
        let Some(node_device) = self.devices.get(location) else { return Ok(false) };
        if !alternative.has_selectors && !node_device.is_tainted {
            return Ok(true);
        }
        let known = self.selection_results.of(alternative.selection, self.devices.len());
        let Some(known) = known.get_mut(location) else { return Ok(false) };
        if let Some(accepts) = known {
            return Ok(*accepts);
        }
        let (device, claim) = (&node_device.device, self.plan.claims.get(alternative.claim_idx));
        let Some(claim) = claim else { return Ok(false) };
        let accepts = is_selected(self.selectors, *self.limit, &claim.claim, alternative, device)?
            && eligibility::tolerates(&alternative.wanted.tolerations, &device.device.taints);
        *known = Some(accepts);
        Ok(accepts)
    }

    /// Whether there are `n_wanted` devices for the request from `start` on, if no other request takes any.
    fn could_serve(
        &mut self,
        alternative: &Alternative,
        start: usize,
        n_wanted: usize,
    ) -> Result<bool, AllocationError> {
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
            match self.suits(alternative, location) {
                Ok(suits) => n_possible += usize::from(suits),
                Err(error) if error.is_timeout() => return Err(error),
                Err(_) => return Ok(true),
            }
        }
        Ok(n_possible >= n_wanted)
    }

    /// Ends the search if some request could not be served even if it were alone.
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

/// The result of trying a device.
#[derive(Clone, Copy, Debug)]
enum DeviceTrial {
    Solved,
    Ineligible,
    NoSolution,
}

/// Why a search ends early.
enum SearchEnd {
    Impossible,
    Failed(AllocationError),
}

impl From<AllocationError> for SearchEnd {
    fn from(error: AllocationError) -> Self {
        Self::Failed(error)
    }
}
