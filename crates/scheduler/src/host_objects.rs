//! The objects that events and actions name by a handle, because these objects are not data: binaries, prepared
//! instances, profiles, extenders.
//!
//! The sender of an event stores the object in [`HostObjects`] and puts the handle into the event. The receiver takes
//! the object out. Events and actions with handles can be serialized. A replay stores its own objects under the same
//! handles.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

/// The name of an object of type `T` that is kept until it is taken. The objects of a process have different numbers.
#[derive(Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct Handle<T> {
    number: u64,
    #[serde(skip)]
    names: PhantomData<fn() -> T>,
}

/// The objects that pending events and actions name. Cloning is cheap.
#[derive(Clone, Default)]
pub struct HostObjects(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    next: u64,
    objects: BTreeMap<u64, Box<dyn Any + Send>>,
}

impl HostObjects {
    /// Keeps an object until it is taken.
    pub fn put<T: Send + 'static>(&self, object: T) -> Handle<T> {
        let mut kept = self.kept();
        let number = kept.next;
        kept.next += 1;
        kept.objects.insert(number, Box::new(object));
        Handle { number, names: PhantomData }
    }

    /// Takes the object out. The result is `None` if the object was taken before, or if the handle belongs to another
    /// process.
    #[must_use]
    pub fn take<T: 'static>(&self, handle: Handle<T>) -> Option<T> {
        let object = self.kept().objects.remove(&handle.number)?;
        object.downcast().ok().map(|object| *object)
    }

    /// The result of `look` for an object, which stays stored. `None` if the object was taken, or if the handle belongs
    /// to another process.
    pub fn look<T: 'static, R>(&self, handle: Handle<T>, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.kept().objects.get(&handle.number)?.downcast_ref().map(look)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HostObjects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HostObjects").field("kept", &self.kept().objects.len()).finish()
    }
}

// Derived implementations would require the same traits for `T`.
impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Handle({})", self.number)
    }
}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Handle<T> {}

impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_taken_once() {
        let objects = HostObjects::default();
        let (text, number) = (objects.put("a binary".to_owned()), objects.put(7_u8));
        assert_eq!(objects.look(text, String::len), Some(8));
        assert_eq!(objects.take(text).as_deref(), Some("a binary"));
        assert_eq!(objects.take(text), None);
        assert_eq!(objects.take(number), Some(7));
    }
}
