//! The scheduler as readers see it, which change nothing.

use berth_scheduler::PodsSnapshot;

/// Shows the scheduler to endpoints, without a way to change it. Cheap to clone.
pub trait ReadModel: Clone + Send + Sync + 'static {
    /// The pods that are known at the moment; `None` if the scheduler does not show them in time.
    fn pods(&self) -> impl Future<Output = Option<PodsSnapshot>> + Send;
}
