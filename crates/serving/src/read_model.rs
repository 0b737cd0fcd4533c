//! The scheduler from the view of readers, which change nothing.

use berth_scheduler::{ClusterView, PodList};

/// Gives endpoints access to the scheduler's data, without a way to change it. Cheap to clone.
pub trait ReadModel: Clone + Send + Sync + 'static {
    /// Runs `read` on a copy of the scheduler's data, where it does not delay the scheduler. The copy contains its time
    /// ([`ClusterView::as_of`]), and says whether it is complete. `None` if there is no answer in time, or if too many
    /// readers wait.
    fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&ClusterView) -> R + Send + 'static,
    ) -> impl Future<Output = Option<R>> + Send;

    /// [`Self::read`] for a reader of pods, with less work while no other reader comes.
    fn read_pods<R: Send + 'static>(
        &self,
        read: impl FnOnce(PodList<'_>) -> R + Send + 'static,
    ) -> impl Future<Output = Option<R>> + Send {
        self.read(move |view| read(view.pod_list()))
    }
}
