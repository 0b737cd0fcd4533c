//! A loaded component: compiled, checked against the contract, and asked for its manifest.

use std::sync::Arc;

use berth_framework::{BuildError, Manifest, Plugin, PluginFactory, PluginVersion, Points};
use wasmtime::component::{Component, InstancePre, types::ComponentItem};

use crate::{
    binary::{Binary, LoadError},
    convert::lift,
    engine::Shared,
    exports::ExportIndices,
    fault::{Fault, FaultReport, FaultSink},
    host_state::{Clock, HostState},
    instance::{Instance, TimeLimit, guest},
    limits::Limits,
    plugin::ComponentPlugin,
    stats::PluginStats,
};

/// Makes instances of one component, one for each profile that uses it.
#[derive(Clone, Debug)]
pub struct ComponentFactory {
    component: Arc<LoadedComponent>,
    is_from_artefact: bool,
}

/// What all instances of a component share.
#[derive(Clone)]
pub(crate) struct LoadedComponent {
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) indices: ExportIndices,
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<Clock>,
    pub(crate) stats: Arc<PluginStats>,
    pub(crate) faults: FaultSink,
    /// As in the logs: the name by which the binary came.
    pub(crate) name: Arc<str>,
    pub(crate) manifest: Manifest,
    pub(crate) points: Points,
    pub(crate) version: PluginVersion,
}

impl std::fmt::Debug for LoadedComponent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LoadedComponent").field("version", &self.version).finish_non_exhaustive()
    }
}

impl ComponentFactory {
    pub(crate) fn load(shared: &Shared, binary: &Binary, limits: Limits) -> Result<Self, LoadError> {
        binary.check_format()?;
        let (component, is_from_artefact) = compile(shared, binary)?;
        check_imports(&component)?;
        let pre = shared.linker.instantiate_pre(&component);
        let pre = pre.map_err(|error| LoadError::Invalid(format!("{error:#}")))?;
        let indices = ExportIndices::find(&pre)?;
        indices.check(|| exports_of(&component))?;
        let points = indices.points();
        let name = Arc::from(binary.name());
        let version = PluginVersion { digest: binary.digest().to_owned(), ..PluginVersion::default() };
        let clock = Arc::clone(&shared.clock);
        let (manifest, stats) = (Manifest::default(), Arc::default());
        let faults = shared.faults.clone();
        let mut loaded =
            LoadedComponent { pre, indices, limits, clock, stats, faults, name, manifest, points, version };
        loaded.manifest = loaded.describe()?;
        loaded.version.name.clone_from(&loaded.manifest.name);
        loaded.version.version.clone_from(&loaded.manifest.version);
        Ok(Self { component: Arc::new(loaded), is_from_artefact })
    }

    /// The same binary with other limits, for instances to come. It keeps counting in the same figures.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Self {
        let component = LoadedComponent { limits, ..(*self.component).clone() };
        Self { component: Arc::new(component), is_from_artefact: self.is_from_artefact }
    }

    /// The figures of this binary, over all its instances.
    #[must_use]
    pub fn stats(&self) -> &Arc<PluginStats> {
        &self.component.stats
    }

    /// Whether loading it needed no compiler.
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
        self.component.version.clone()
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(ComponentPlugin::new(Arc::clone(&self.component), args)?))
    }

    /// Instantiating takes a fraction of a millisecond, `configure` up to seconds, and a full delta a millisecond for
    /// each thousand nodes.
    fn takes_long(&self) -> bool {
        true
    }
}

impl LoadedComponent {
    /// Asks a throw-away instance, which also compares the types of all exported functions with the contract's.
    fn describe(&self) -> Result<Manifest, LoadError> {
        let mut instance = Instance::new(self)?;
        let described = instance.call(self, "describe", TimeLimit::Configure, |context| {
            let manifest = guest(&context.exports.lifecycle)?.call_describe(context.store)?;
            Ok(lift::manifest(manifest, context.limits)?)
        });
        let manifest = described.map_err(|fault| LoadError::Faulty(fault.to_string()))?;
        if manifest.name != *self.name {
            return Err(LoadError::Name { manifest: manifest.name });
        }
        let needs = &manifest.needs;
        let has_needs = !needs.columns.is_empty() || needs.pods || !needs.objects.is_empty();
        if has_needs && !self.indices.has_sync() {
            let because = "its manifest needs, as it names columns, pods or objects";
            return Err(LoadError::Missing { interface: "berth:scheduler/sync", because });
        }
        Ok(manifest)
    }

    /// Reports a fault of an instance in service.
    pub(crate) fn tell(&self, fault: &Fault) {
        self.faults.tell(FaultReport {
            plugin: self.name.to_string(),
            digest: self.version.digest.clone(),
            kind: fault.kind,
            reason: fault.to_string(),
        });
    }

    /// How messages name the plugin.
    pub(crate) fn title(&self) -> String {
        let PluginVersion { version, digest, .. } = &self.version;
        let digest = digest.get(..12).unwrap_or(digest);
        format!("plugin {:?} ({version}, {digest})", self.name)
    }
}

/// The component, and whether it was there already.
fn compile(shared: &Shared, binary: &Binary) -> Result<(Component, bool), LoadError> {
    let engine = &shared.wasmtime;
    if let Some(component) = shared.artefacts.as_ref().and_then(|artefacts| artefacts.load(engine, binary)) {
        return Ok((component, true));
    }
    let component = Component::from_binary(engine, binary.bytes());
    let component = component.map_err(|error| LoadError::Invalid(format!("{error:#}")))?;
    if let Some(artefacts) = &shared.artefacts {
        artefacts.store(binary, &component);
    }
    Ok((component, false))
}

/// Refuses whatever is neither the host interface nor mere types.
fn check_imports(component: &Component) -> Result<(), LoadError> {
    let engine = component.engine();
    for (name, import) in component.component_type().imports(engine) {
        let is_given = name == "berth:scheduler/host@0.1.0"
            || match &import.ty {
                ComponentItem::Type(_) => true,
                ComponentItem::ComponentInstance(instance) => {
                    instance.exports(engine).all(|(_, item)| matches!(item.ty, ComponentItem::Type(_)))
                }
                _ => false,
            };
        if !is_given {
            return Err(LoadError::Import { import: name.to_owned() });
        }
    }
    Ok(())
}

fn exports_of(component: &Component) -> String {
    let component_type = component.component_type();
    let names: Vec<&str> = component_type.exports(component.engine()).map(|(name, _)| name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
