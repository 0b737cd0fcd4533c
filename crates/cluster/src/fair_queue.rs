//! A queue for a shared resource, in a fair order: profiles take turns, and namespaces within a profile take turns. The
//! items of one namespace keep their order.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// The profile and namespace for which something is requested. Both are empty for a request without a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// The namespace of the pod.
    pub namespace: Arc<str>,
}

/// A queue in this order. Only waiting items take memory.
#[derive(Debug)]
pub struct FairQueue<T> {
    profiles: Rotation<Rotation<VecDeque<T>>>,
    len: usize,
}

/// Queues by name. The queue with the next turn comes first, and no queue is empty.
#[derive(Debug)]
struct Rotation<Q> {
    turns: VecDeque<Arc<str>>,
    queues: HashMap<Arc<str>, Q>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { profiles: Rotation::default(), len: 0 }
    }
}

impl<Q> Default for Rotation<Q> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), queues: HashMap::new() }
    }
}

impl<Q: Default> Rotation<Q> {
    /// The queue of this name. A new queue has the last turn.
    fn queue(&mut self, name: &Arc<str>) -> &mut Q {
        if !self.queues.contains_key(name) {
            self.turns.push_back(Arc::clone(name));
        }
        self.queues.entry(Arc::clone(name)).or_default()
    }

    /// Takes from the first queue for which `may` holds. This queue then comes last, and is removed if it is empty.
    fn take<T>(
        &mut self,
        may: impl Fn(&str) -> bool,
        give: impl FnOnce(&mut Q) -> (Option<T>, IsEmpty),
    ) -> Option<(Arc<str>, T)> {
        let position = self.turns.iter().position(|name| may(name))?;
        let name = self.turns.remove(position)?;
        let (given, IsEmpty(is_empty)) = give(self.queues.get_mut(&name)?);
        if is_empty {
            self.queues.remove(&name);
        } else {
            self.turns.push_back(Arc::clone(&name));
        }
        given.map(|given| (name, given))
    }
}

/// Whether a queue is empty.
struct IsEmpty(bool);

impl<T> FairQueue<T> {
    /// Adds the item behind the items of the same flow.
    pub fn push(&mut self, flow: &Flow, item: T) {
        self.profiles.queue(&flow.profile).queue(&flow.namespace).push_back(item);
        self.len += 1;
    }

    /// Takes the next item among the profiles for which `may` holds.
    pub fn pop(&mut self, may: impl Fn(&str) -> bool) -> Option<(Flow, T)> {
        let (profile, (namespace, item)) = self.profiles.take(may, |namespaces| {
            let taken = namespaces.take(
                |_| true,
                |waiting| {
                    let item = waiting.pop_front();
                    (item, IsEmpty(waiting.is_empty()))
                },
            );
            (taken, IsEmpty(namespaces.queues.is_empty()))
        })?;
        self.len -= 1;
        Some((Flow { profile, namespace }, item))
    }

    /// The number of items that wait for this profile. Counting takes time in proportion to the profile's namespaces.
    #[must_use]
    pub fn len_of_profile(&self, profile: &str) -> usize {
        let namespaces = self.profiles.queues.get(profile).map(|namespaces| namespaces.queues.values());
        namespaces.into_iter().flatten().map(VecDeque::len).sum()
    }

    /// The number of waiting items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no item waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn flow(profile: &str, namespace: &str) -> Flow {
        Flow { profile: Arc::from(profile), namespace: Arc::from(namespace) }
    }

    fn drain(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop(|_| true)).map(|(_, item)| item).collect()
    }

    #[test]
    fn profiles_take_turns_and_namespaces_within_them() {
        let mut queue = FairQueue::default();
        for (profile, namespace, items) in
            [("a", "x", &["ax1", "ax2", "ax3", "ax4"][..]), ("a", "y", &["ay1"]), ("b", "x", &["bx1", "bx2"])]
        {
            items.iter().for_each(|item| queue.push(&flow(profile, namespace), *item));
        }
        assert_eq!(queue.len(), 7);
        assert_eq!(["a", "b", "c"].map(|profile| queue.len_of_profile(profile)), [5, 2, 0]);
        assert_eq!(drain(&mut queue), ["ax1", "bx1", "ay1", "bx2", "ax2", "ax3", "ax4"]);
        assert!(queue.is_empty() && queue.profiles.queues.is_empty(), "queues without waiting requests are removed");
    }

    #[test]
    fn a_profile_that_may_not_is_passed_over_and_keeps_its_turn() {
        let mut queue = FairQueue::default();
        for (profile, item) in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")] {
            queue.push(&flow(profile, "x"), item);
        }
        assert_eq!(queue.pop(|profile| profile != "a").map(|(_, item)| item), Some("b1"));
        assert_eq!(queue.pop(|profile| profile == "c").map(|(_, item)| item), None);
        assert_eq!(drain(&mut queue), ["a1", "b2", "a2"]);
    }
}
