//! Recent answers of the API server about tokens and rights, for as long as they are valid.
//!
//! Clients choose the questions, so only a digest of a question is kept. The number and the bytes of answers are
//! limited. Expired answers are freed when the next one is stored. Beyond the limits, the oldest answer is dropped.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};

/// The maximum number of answers at the same time.
const MAX_ANSWERS: usize = 4096;

/// The maximum number of bytes of all answers together. The groups of a user are a few hundred bytes.
const MAX_BYTES: usize = 4 << 20;

/// The number of bytes that are counted for an entry in addition to its value.
const ENTRY_BYTES: usize = 128;

/// The digest of a question. It covers all parts of the question with their lengths, so that no part can be mistaken
/// for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question([u8; 32]);

/// Answers by question.
#[derive(Debug)]
pub(super) struct Answers<V>(Mutex<Kept<V>>);

#[derive(Debug)]
struct Kept<V> {
    by_question: HashMap<Question, Answer<V>>,
    /// The questions in the order in which their answers arrived. An answer that was replaced or freed still has an
    /// entry in this list.
    order: VecDeque<(Question, Instant)>,
    bytes: usize,
}

#[derive(Debug)]
struct Answer<V> {
    value: V,
    bytes: usize,
    came_at: Instant,
    until: Instant,
}

impl Question {
    pub(super) fn new(parts: &[&str]) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Self(digest.finalize().into())
    }
}

impl<V> Default for Answers<V> {
    fn default() -> Self {
        Self(Mutex::new(Kept { by_question: HashMap::new(), order: VecDeque::new(), bytes: 0 }))
    }
}

impl<V: Clone> Answers<V> {
    /// The answer; `None` without a valid answer.
    pub(super) fn get(&self, question: Question, now: Instant) -> Option<V> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_question.get(&question).filter(|answer| now < answer.until).map(|answer| answer.value.clone())
    }

    /// Stores an answer for `ttl`. Its value takes `bytes` bytes.
    pub(super) fn put(&self, question: Question, value: V, bytes: usize, now: Instant, ttl: Duration) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.free_expired(now);
        kept.remove(question);
        let bytes = bytes + ENTRY_BYTES;
        while kept.by_question.len() >= MAX_ANSWERS || kept.bytes + bytes > MAX_BYTES {
            if !kept.remove_oldest() {
                return;
            }
        }
        kept.bytes += bytes;
        kept.order.push_back((question, now));
        kept.by_question.insert(question, Answer { value, bytes, came_at: now, until: now + ttl });
    }
}

impl<V> Kept<V> {
    fn free_expired(&mut self, now: Instant) {
        let Self { by_question, order, bytes } = self;
        by_question.retain(|_, answer| {
            let holds = now < answer.until;
            if !holds {
                *bytes -= answer.bytes;
            }
            holds
        });
        order.retain(|(question, came_at)| by_question.get(question).is_some_and(|it| it.came_at == *came_at));
    }

    fn remove(&mut self, question: Question) {
        if let Some(answer) = self.by_question.remove(&question) {
            self.bytes -= answer.bytes;
        }
    }

    /// Removes the oldest answer. Returns whether an answer was removed.
    fn remove_oldest(&mut self) -> bool {
        let Some((question, came_at)) = self.order.pop_front() else { return false };
        if self.by_question.get(&question).is_some_and(|answer| answer.came_at == came_at) {
            self.remove(question);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn question(number: usize) -> Question {
        Question::new(&["anonymous", "get", &number.to_string()])
    }

    fn n_kept<V>(answers: &Answers<V>) -> (usize, usize, usize) {
        let kept = answers.0.lock().expect("no panic");
        (kept.by_question.len(), kept.order.len(), kept.bytes)
    }

    #[test]
    fn answers_hold_for_their_time_only() {
        let (answers, now) = (Answers::default(), Instant::now());
        answers.put(question(1), true, 0, now, TTL);
        assert_eq!(answers.get(question(1), now), Some(true));
        assert_eq!(answers.get(question(1), now + TTL), None);
        assert_eq!(answers.get(question(2), now), None);
        assert_ne!(Question::new(&["a", "bc"]), Question::new(&["ab", "c"]));
    }

    #[test]
    fn answers_are_bounded_in_number_and_the_oldest_give_way() {
        let (answers, now) = (Answers::default(), Instant::now());
        for number in 0..MAX_ANSWERS + 10 {
            answers.put(question(number), false, 0, now, TTL);
        }
        assert_eq!(n_kept(&answers), (MAX_ANSWERS, MAX_ANSWERS, MAX_ANSWERS * ENTRY_BYTES));
        assert_eq!((answers.get(question(9), now), answers.get(question(10), now)), (None, Some(false)));
    }

    #[test]
    fn answers_are_bounded_in_bytes() {
        let (answers, now) = (Answers::default(), Instant::now());
        for number in 0..100 {
            answers.put(question(number), (), 1 << 20, now, TTL);
        }
        assert_eq!(n_kept(&answers).0, 3);
        answers.put(question(200), (), MAX_BYTES, now, TTL);
        assert_eq!(answers.get(question(200), now), None, "it is larger than all may be");
    }

    #[test]
    fn answers_whose_time_is_over_are_freed() {
        let (answers, now) = (Answers::default(), Instant::now());
        for number in 0..1000 {
            answers.put(question(number), true, 100, now, TTL);
        }
        answers.put(question(1000), true, 100, now + TTL, TTL);
        assert_eq!(n_kept(&answers), (1, 1, 100 + ENTRY_BYTES));
    }
}
