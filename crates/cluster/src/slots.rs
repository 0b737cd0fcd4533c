//! A bound on the number of open requests. Requests wait for a slot in a fair order. No profile can have all slots: a
//! profile with slow requests, for example because of an admission webhook, leaves slots to other profiles.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::fair_queue::{FairQueue, Flow};

/// The quarters of the slots that one profile may have.
const QUARTERS_OF_PROFILE: usize = 3;

/// The slots. The value is cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Slots(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    n_free: usize,
    of_profile: usize,
    /// Taken slots by profile.
    open: HashMap<Arc<str>, usize>,
    waiting: FairQueue<oneshot::Sender<Slot>>,
}

/// The permission for one open request. The slot is free again when this value is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    profile: Arc<str>,
}

impl Slots {
    pub(crate) fn new(n_slots: usize) -> Self {
        let of_profile = (n_slots * QUARTERS_OF_PROFILE / 4).max(1);
        Self(Arc::new(Mutex::new(State {
            n_free: n_slots,
            of_profile,
            open: HashMap::new(),
            waiting: FairQueue::default(),
        })))
    }

    /// Waits for a slot. If the future is dropped, its place in the order is lost.
    pub(crate) async fn acquire(&self, flow: &Flow) -> Option<Slot> {
        let (sender, receiver) = oneshot::channel();
        self.state().waiting.push(flow, sender);
        self.hand_out();
        // The queue keeps the sender until the sender gives a slot.
        receiver.await.ok()
    }

    /// Gives free slots to the requests that wait.
    fn hand_out(&self) {
        loop {
            // The state must be unlocked, because dropping a slot below locks it.
            let next = self.state().next();
            let Some((waiting, profile)) = next else { return };
            // The slot of a dropped request is given back at this place.
            let _ = waiting.send(Slot { slots: self.clone(), profile });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a slot for the next request.
    fn next(&mut self) -> Option<(oneshot::Sender<Slot>, Arc<str>)> {
        while self.n_free > 0 {
            let Self { open, of_profile, waiting, .. } = self;
            // A request without a profile is a request of the process itself.
            let has_room = |profile: &str| profile.is_empty() || open.get(profile).is_none_or(|open| open < of_profile);
            let (Flow { profile, .. }, waiting) = waiting.pop(has_room)?;
            if waiting.is_closed() {
                continue;
            }
            self.n_free -= 1;
            *self.open.entry(Arc::clone(&profile)).or_default() += 1;
            return Some((waiting, profile));
        }
        None
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.n_free += 1;
        if let Some(open) = state.open.get_mut(&self.profile) {
            *open -= 1;
            if *open == 0 {
                state.open.remove(&self.profile);
            }
        }
        drop(state);
        self.slots.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::join_all};

    use super::*;

    fn flow(profile: &str) -> Flow {
        Flow { profile: Arc::from(profile), namespace: Arc::from("default") }
    }

    #[tokio::test]
    async fn a_profile_whose_requests_hang_leaves_slots_to_others() {
        let slots = Slots::new(8);
        let (a, b) = (flow("a"), flow("b"));
        let mut many = Box::pin(join_all((0..100).map(|_| slots.acquire(&a))));
        assert!(futures::poll!(&mut many).is_pending());
        assert_eq!(slots.state().n_free, 2);
        let others = join_all((0..2).map(|_| slots.acquire(&b))).now_or_never().expect("two are left");
        assert!(slots.acquire(&b).now_or_never().is_none());
        drop(others);
        assert!(slots.acquire(&b).now_or_never().is_some());
    }

    #[tokio::test]
    async fn slots_that_come_back_go_to_profiles_in_turn() {
        let slots = Slots::new(1);
        let taken = slots.acquire(&flow("a")).await;
        let (a, b) = (flow("a"), flow("b"));
        let mut waiting_a = Box::pin(join_all((0..10).map(|_| slots.acquire(&a))));
        assert!(futures::poll!(&mut waiting_a).is_pending());
        let mut waiting_b = Box::pin(slots.acquire(&b));
        assert!(futures::poll!(&mut waiting_b).is_pending());
        drop(taken);
        assert!(futures::poll!(&mut waiting_b).is_pending(), "the first of a");
        drop(waiting_a);
        assert!(waiting_b.now_or_never().is_some(), "a slot is passed on if its waiter is gone");
        assert_eq!(slots.state().n_free, 1);
        assert!(slots.state().open.is_empty());
    }
}
