//! The search itself: depth first with backtracking.
//!
//! What is decided for good about a request and a device is found out once and remembered with the node's devices. Beyond trying one device after
//! the other there are two short cuts, and neither changes the answer: a branch ends as soon as the devices
//! left are too few, and the first time that something must be undone, each request is looked at for devices
//! that suffice at all. A selector that fails on a device fails the search only if the search gets to that device; so where one
//! fails, neither short cut is taken.

use std::collections::BTreeMap;

use berth_model::quantity::Quantity;

use super::{
    AllocationError, Inventory, MAX_DEVICES_OF_CLAIM, eligibility,
    plan::{Alternative, Amount, Plan},
};
use crate::dynamic_resources::{
    cel::Selectors,
    layouts::{Answers, LaidOut},
};

/// A device for a request.
#[derive(Debug)]
pub(super) struct Chosen<'p> {
    pub(super) alternative: &'p Alternative,
    pub(super) location: usize,
    pub(super) device: &'p LaidOut,
    pub(super) consumed: BTreeMap<String, Quantity>,
}

/// The same, for keeping.
#[derive(Clone, Debug)]
pub(in crate::dynamic_resources) struct Picked {
    /// Of the alternative.
    ordinal: usize,
    location: usize,
    consumed: BTreeMap<String, Quantity>,
}

impl From<Chosen<'_>> for Picked {
    fn from(chosen: Chosen<'_>) -> Self {
        let Chosen { alternative, location, consumed, .. } = chosen;
        Self { ordinal: alternative.ordinal, location, consumed }
    }
}

impl Picked {
    /// What it was in a search by `plan` among `devices`.
    pub(super) fn chosen<'p>(&self, plan: &'p Plan, devices: &'p [LaidOut]) -> Option<Chosen<'p>> {
        let (alternative, device) = plan.alternative(self.ordinal).zip(devices.get(self.location))?;
        Some(Chosen { alternative, location: self.location, device, consumed: self.consumed.clone() })
    }
}

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
    devices: &'p [LaidOut],
    answers: &'s mut Answers,
    chosen: Vec<Chosen<'p>>,
    steps_left: u64,
    is_known_possible: bool,
}

impl<'s, 'p> Search<'s, 'p> {
    pub(super) fn new(
        inventory: &'s Inventory<'s>,
        selectors: &'s mut Selectors,
        (plan, amounts): (&'p Plan, &'p [Amount]),
        (devices, answers): (&'p [LaidOut], &'s mut Answers),
        max_steps: u64,
    ) -> Self {
        let (chosen, is_known_possible) = (Vec::new(), false);
        Self { inventory, selectors, plan, amounts, devices, answers, chosen, steps_left: max_steps, is_known_possible }
    }

    /// Whether there is a solution, which [`Search::into_chosen`] then holds.
    pub(super) fn run(&mut self) -> Result<bool, AllocationError> {
        match self.request(Position { claim_idx: 0, request_idx: 0 }) {
            Ok(is_found) => Ok(is_found),
            Err(Stop::Impossible) => Ok(false),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// In the order of claims and requests.
    pub(super) fn into_chosen(self) -> Vec<Chosen<'p>> {
        self.chosen
    }

    fn amount(&self, alternative: &Alternative) -> &'p Amount {
        self.amounts.get(alternative.ordinal).unwrap_or(&Amount::Nothing)
    }

    fn request(&mut self, position: Position) -> Result<bool, Stop> {
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
    ) -> Result<bool, Stop> {
        if n_missing == 0 {
            return self.request(Position { request_idx: position.request_idx + 1, ..position });
        }
        if let Amount::All(locations) = self.amount(alternative) {
            let Some(location) = locations.get(start) else { return Ok(false) };
            let tried = self.device(position, alternative, *location, (start + 1, n_missing - 1))?;
            return Ok(matches!(tried, Tried::Solved));
        }
        for location in start..self.devices.len() {
            match self.device(position, alternative, location, (location + 1, n_missing - 1))? {
                Tried::Solved => return Ok(true),
                Tried::Ineligible => {}
                Tried::InVain if self.could_serve(alternative, location + 1, n_missing) => {}
                Tried::InVain => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Takes the device and goes on with `next`, a start and a number of missing devices; undoes it if that leads
    /// nowhere.
    fn device(
        &mut self,
        position: Position,
        alternative: &'p Alternative,
        location: usize,
        next: (usize, usize),
    ) -> Result<Tried, Stop> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Stop::Failed(AllocationError::TimedOut))?;
        let Some(chosen) = self.eligible(position, alternative, location)? else { return Ok(Tried::Ineligible) };
        self.chosen.push(chosen);
        if self.devices(position, alternative, next.0, next.1)? {
            return Ok(Tried::Solved);
        }
        self.chosen.pop();
        self.require_possible()?;
        Ok(Tried::InVain)
    }

    fn eligible(
        &mut self,
        position: Position,
        alternative: &'p Alternative,
        location: usize,
    ) -> Result<Option<Chosen<'p>>, AllocationError> {
        let devices = self.devices;
        let Some((device, claim)) = devices.get(location).zip(self.plan.claims.get(position.claim_idx)) else {
            return Ok(None);
        };
        if eligibility::is_taken(self.inventory, &self.chosen, alternative, device)
            || !self.suits(alternative, location)?
            || !eligibility::meets_constraints(claim, &self.chosen, alternative, &device.device)
            || !(alternative.wanted.is_admin() || eligibility::has_counters(self.inventory, &self.chosen, device))
        {
            return Ok(None);
        }
        let consumed = eligibility::capacity_for(self.inventory, &self.chosen, alternative, device);
        Ok(consumed.map(|consumed| Chosen { alternative, location, device, consumed }))
    }

    /// What is decided for good: selectors and taints.
    fn suits(&mut self, alternative: &Alternative, location: usize) -> Result<bool, AllocationError> {
        let Some(laid_out) = self.devices.get(location) else { return Ok(false) };
        if !alternative.has_selectors && !laid_out.is_tainted {
            return Ok(true);
        }
        let known = self.answers.of(alternative.selection, self.devices.len());
        let Some(known) = known.get_mut(location) else { return Ok(false) };
        if let Some(answer) = known {
            return Ok(*answer);
        }
        let (device, claim) = (&laid_out.device, self.plan.claims.get(alternative.claim_idx));
        let Some(claim) = claim else { return Ok(false) };
        let answer = eligibility::is_selected(self.selectors, &claim.claim, alternative, device)?
            && eligibility::tolerates(&alternative.wanted.tolerations, &device.device.taints);
        *known = Some(answer);
        Ok(answer)
    }

    /// Whether, whatever else is chosen, there may be `n_wanted` devices for the request from `start` on.
    fn could_serve(&mut self, alternative: &Alternative, start: usize, n_wanted: usize) -> bool {
        let mut n_possible = 0;
        for location in start..self.devices.len() {
            if n_possible >= n_wanted {
                break;
            }
            let Some(device) = self.devices.get(location) else { continue };
            if eligibility::is_taken(self.inventory, &[], alternative, device) {
                continue;
            }
            match self.suits(alternative, location) {
                Ok(suits) => n_possible += usize::from(suits),
                Err(_) => return true,
            }
        }
        n_possible >= n_wanted
    }

    /// Ends the search if some request can't be served, however the others are.
    fn require_possible(&mut self) -> Result<(), Stop> {
        if std::mem::replace(&mut self.is_known_possible, true) {
            return Ok(());
        }
        let plan = self.plan;
        for request in plan.claims.iter().flat_map(|claim| &claim.requests) {
            let mut alternatives = request.alternatives.iter();
            if !alternatives.any(|alternative| self.could_serve_all(alternative)) {
                return Err(Stop::Impossible);
            }
        }
        Ok(())
    }

    fn could_serve_all(&mut self, alternative: &Alternative) -> bool {
        match self.amount(alternative) {
            Amount::Nothing => false,
            Amount::All(_) => true,
            Amount::Exactly(n_devices) => self.could_serve(alternative, 0, *n_devices),
        }
    }
}

/// What came of trying a device.
#[derive(Clone, Copy, Debug)]
enum Tried {
    Solved,
    Ineligible,
    InVain,
}

/// Why a search ends before its time.
enum Stop {
    Impossible,
    Failed(AllocationError),
}

impl From<AllocationError> for Stop {
    fn from(error: AllocationError) -> Self {
        Self::Failed(error)
    }
}
