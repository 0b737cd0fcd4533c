//! The service that one profile was last given for a plugin, and the service that the profile reported to use.

use berth_model::{BinaryId, Digest, Time};

use crate::binary::Service;

/// A plugin's place in one profile.
#[derive(Clone, Debug)]
pub(crate) struct ProfileSlot {
    given: ServiceKey,
    /// The binary that the profile keeps if it cannot use the given binary.
    before: ServiceKey,
    /// The binary that the profile reported to use; `None` for a placeholder.
    taken: Option<BinaryId>,
    restart: Option<Restart>,
}

/// A wait for a new instance. A profile has lost its instance of a component, and the new instance may not be made yet.
#[derive(Clone, Debug)]
pub struct Restart {
    /// The digest of the component.
    pub digest: Digest,
    /// The time from which the new instance may be made.
    pub at: Time,
    /// The reason why the old instance is gone.
    pub reason: String,
}

/// A service of a plugin in a form that can be compared: the id of the binary, or the reason for the placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServiceKey {
    Binary(BinaryId),
    Pass(String),
    Hold(String),
}

impl ProfileSlot {
    /// The slot of a profile that was just built with this service: a binary or a placeholder.
    pub(crate) fn new<B>(service: &Service<B>) -> Self {
        let given = ServiceKey::of(service);
        Self { before: given.clone(), taken: service.id(), given, restart: None }
    }

    /// The binary that the profile reported to use.
    pub(crate) fn taken(&self) -> Option<BinaryId> {
        self.taken
    }

    /// The restart for which the profile waits, if it lost its instance of this component.
    pub(crate) fn restart_of(&self, binary: BinaryId) -> Option<&Restart> {
        self.restart.as_ref().filter(|restart| BinaryId::Component(restart.digest) == binary)
    }

    /// Notes that the profile has lost its instance.
    pub(crate) fn begin_restart(&mut self, restart: Restart) {
        self.restart = Some(restart);
    }

    /// Ends the wait for a new instance if its time has come.
    pub(crate) fn end_restart(&mut self, now: Time) {
        self.restart = self.restart.take().filter(|restart| restart.at > now);
    }

    pub(crate) fn has<B>(&self, service: &Service<B>) -> bool {
        self.given == ServiceKey::of(service)
    }

    /// Notes that the profile is given this service.
    pub(crate) fn give<B>(&mut self, service: &Service<B>) {
        self.before = std::mem::replace(&mut self.given, ServiceKey::of(service));
    }

    /// Notes that the profile is given a new instance of its present binary.
    pub(crate) fn renew(&mut self) {
        self.before = self.given.clone();
    }

    pub(crate) fn take(&mut self, binary: Option<BinaryId>) {
        self.taken = binary;
    }

    /// Whether the profile already has this binary and is only given a new instance of it.
    pub(crate) fn is_renewing(&self, binary: BinaryId) -> bool {
        self.given == self.before && self.given == ServiceKey::Binary(binary)
    }

    /// Notes that the profile could not take this binary and keeps its previous service.
    pub(crate) fn refuse(&mut self, binary: BinaryId) {
        let refused = ServiceKey::Binary(binary);
        if self.given == refused {
            self.given = self.before.clone();
        } else if self.before == refused
            && let Some(taken) = self.taken
        {
            // Another binary was given to the profile since the offer. If that binary is refused too, the binary that
            // was taken last continues to serve.
            self.before = ServiceKey::Binary(taken);
        }
    }
}

impl ServiceKey {
    fn of<B>(service: &Service<B>) -> Self {
        match service {
            Service::Native(_) => ServiceKey::Binary(BinaryId::Native),
            Service::Embedded(component) | Service::Directory(component) => ServiceKey::Binary(component.id()),
            Service::Pass(reason) => ServiceKey::Pass(reason.clone()),
            Service::Hold(reason) => ServiceKey::Hold(reason.clone()),
        }
    }
}
