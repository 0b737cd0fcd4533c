//! The factory that makes the instances of a loaded component.

use std::sync::Arc;

use berth_framework::{BuildError, Manifest, Plugin, PluginFactory, PluginVersion, Points, SchedulingTime};
use berth_model::Digest;

use crate::{
    component::LoadedComponent, fault::FaultSink, gated_needs::with_gated_needs, limits::Limits,
    plugin::ComponentPlugin, stats::PluginStats,
};

/// A factory that makes instances of one component, one for each profile that uses it.
#[derive(Clone, Debug)]
pub struct ComponentFactory {
    component: Arc<LoadedComponent>,
    is_from_artefact: bool,
    is_embedded: bool,
    /// Whether the bytes are those of a component that is part of this program.
    is_own: bool,
}

impl ComponentFactory {
    pub(crate) fn new(component: LoadedComponent, is_from_artefact: bool, is_embedded: bool) -> Self {
        Self { component: Arc::new(component), is_from_artefact, is_embedded, is_own: is_embedded }
    }

    /// The factory of a file that is a copy of a component of this program. Its instances get what instances of the
    /// embedded component get with a feature gate.
    #[must_use]
    pub fn of_copy(&self) -> Self {
        Self { is_own: true, ..self.clone() }
    }

    /// A factory of the same binary that gives new instances other limits. The statistics are shared.
    #[must_use]
    pub fn with_limits(&self, mut limits: Limits) -> Self {
        if self.is_embedded {
            limits.share = None;
        }
        let component = LoadedComponent { limits, ..(*self.component).clone() };
        Self { component: Arc::new(component), ..*self }
    }

    /// A factory of the same binary for questions that decide nothing, such as explanations. A caller may ask many
    /// questions, so the questions must not harm the plugin in service: the instances report no faults, their calls do
    /// not count, and their time is charged to the accounts of `time`.
    #[must_use]
    pub fn for_questions(&self, time: &SchedulingTime) -> Self {
        let component = LoadedComponent {
            account: time.plugin(&self.component.name),
            stats: Arc::default(),
            faults: FaultSink::default(),
            ..(*self.component).clone()
        };
        Self { component: Arc::new(component), ..*self }
    }

    /// Sets the time that components of this engine see, in milliseconds since 1970.
    pub fn set_now(&self, milliseconds: u64) {
        self.component.clock.set_now(milliseconds);
    }

    /// The SHA-256 of the component's bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.component.digest
    }

    /// The statistics of this binary, over all its instances.
    #[must_use]
    pub fn stats(&self) -> &Arc<PluginStats> {
        &self.component.stats
    }

    /// Whether loading the binary needed no compiler.
    #[must_use]
    pub fn is_from_artefact(&self) -> bool {
        self.is_from_artefact
    }
}

impl PluginFactory for ComponentFactory {
    fn manifest(&self) -> &Manifest {
        &self.component.manifest
    }

    fn points(&self) -> Points {
        self.component.points
    }

    fn version(&self) -> PluginVersion {
        self.component.version()
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        let component = if self.is_own { with_gated_needs(&self.component, args) } else { Arc::clone(&self.component) };
        Ok(Box::new(ComponentPlugin::new(component, args)?))
    }

    /// Returns `true`: instantiating takes a fraction of a millisecond, `configure` up to seconds, and a full delta a
    /// millisecond for each thousand nodes.
    fn takes_long(&self) -> bool {
        true
    }
}
