//! The scheduler as readers see it, which change nothing.

use berth_scheduler::ClusterView;

/// Shows the scheduler to endpoints, without a way to change it. Cheap to clone.
pub trait ReadModel: Clone + Send + Sync + 'static {
    /// Runs `read` on a copy of what the scheduler knows, where it may take its time. The copy says of when it is
    /// ([`ClusterView::as_of`]), and whether it is whole. `None` if there is no answer in time, or too many readers wait.
    fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&ClusterView) -> R + Send + 'static,
    ) -> impl Future<Output = Option<R>> + Send;
}
