//! From a plugin's bytes to its factory: compiled, checked against the contract, and asked for its manifest.

use std::sync::Arc;

use berth_framework::Manifest;
use berth_model::Digest;
use wasmtime::component::{Component, types::ComponentItem};

use crate::{
    binary::{Binary, LoadError},
    component::LoadedComponent,
    convert::lift,
    engine::{Engine, Shared},
    exports::ExportIndices,
    factory::ComponentFactory,
    instance::{Instance, TimeLimit, guest},
    precompiled::Precompiled,
};

impl Engine {
    /// The same as [`Self::load`] for a binary that came from elsewhere, whose digest may be denied.
    ///
    /// # Errors
    /// It is denied, or no plugin.
    pub fn load_unless_denied(&self, binary: &Binary) -> Result<ComponentFactory, LoadError> {
        if self.shared().is_denied(binary.digest()) {
            return Err(LoadError::Denied(binary.digest()));
        }
        self.load(binary)
    }

    /// Compiles the component, or takes the compiled artefact of the same bytes, checks what it imports and exports, and
    /// asks it for its manifest. Takes up to seconds.
    ///
    /// # Errors
    /// Why these bytes are no plugin, or not the plugin that the name says.
    pub fn load(&self, binary: &Binary) -> Result<ComponentFactory, LoadError> {
        self.load_with(binary, None)
    }

    /// The same; takes what comes with the program, if it has the component.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_with(&self, binary: &Binary, precompiled: Option<&Precompiled>) -> Result<ComponentFactory, LoadError> {
        binary.check_format()?;
        let engine = &self.shared().wasmtime;
        let (component, is_from_artefact) = match precompiled.and_then(|it| it.load(engine, binary.digest())) {
            Some(component) => (component, true),
            None => compile(self.shared(), binary)?,
        };
        self.check(binary.name(), binary.digest(), component, is_from_artefact, binary.is_embedded())
    }

    /// The plugin of this digest, if it was compiled before and its artefact is there: its bytes are not needed.
    #[must_use]
    pub fn load_compiled(&self, name: &str, digest: Digest) -> Option<ComponentFactory> {
        let shared = self.shared();
        let component = shared.artefacts.as_ref()?.load(&shared.wasmtime, digest)?;
        self.check(name, digest, component, true, false).ok()
    }

    /// Checks what the component imports and exports, and asks it for its manifest.
    fn check(
        &self,
        name: &str,
        digest: Digest,
        component: Component,
        is_from_artefact: bool,
        is_embedded: bool,
    ) -> Result<ComponentFactory, LoadError> {
        let shared = self.shared();
        let mut limits = shared.limits_of(name);
        if is_embedded {
            limits.share = None;
            limits.scheduling_thread_timeout = limits.lifecycle_timeout;
        }
        check_imports(&component)?;
        let pre = shared.linker.instantiate_pre(&component);
        let pre = pre.map_err(|error| LoadError::Invalid(format!("{error:#}")))?;
        let indices = ExportIndices::find(&pre)?;
        indices.check(|| exports_of(&component))?;
        let points = indices.points();
        let account = shared.time.plugin(name);
        let name = Arc::from(name);
        let (clock, ticker) = (Arc::clone(&shared.clock), Arc::clone(&shared.ticker));
        let (manifest, stats) = (Manifest::default(), Arc::default());
        let faults = shared.faults.clone();
        let mut loaded = LoadedComponent {
            pre,
            indices,
            limits,
            clock,
            ticker,
            stats,
            account,
            faults,
            name,
            manifest,
            points,
            digest,
        };
        loaded.manifest = describe(&loaded)?;
        Ok(ComponentFactory::new(loaded, is_from_artefact, is_embedded))
    }
}

/// Asks a throw-away instance, which also compares the types of all exported functions with the contract's.
fn describe(component: &LoadedComponent) -> Result<Manifest, LoadError> {
    let mut instance = Instance::new(component)?;
    let described = instance.call(component, "describe", TimeLimit::Lifecycle, |context| {
        let manifest = guest(&context.exports.lifecycle)?.call_describe(context.store)?;
        Ok(lift::manifest(manifest, context.limits)?)
    });
    let manifest = described.map_err(|fault| LoadError::Faulty(fault.to_string()))?;
    if manifest.name != *component.name {
        return Err(LoadError::Name { manifest: manifest.name });
    }
    let needs = &manifest.needs;
    let has_needs = !needs.columns.is_empty() || needs.pods || !needs.objects.is_empty();
    if has_needs && !component.indices.has_sync() {
        let because = "its manifest needs, as it names columns, pods or objects";
        return Err(LoadError::Missing { interface: "berth:scheduler/sync", because });
    }
    Ok(manifest)
}

/// The component, and whether it was there already.
fn compile(shared: &Shared, binary: &Binary) -> Result<(Component, bool), LoadError> {
    let engine = &shared.wasmtime;
    if let Some(component) = shared.artefacts.as_ref().and_then(|artefacts| artefacts.load(engine, binary.digest())) {
        return Ok((component, true));
    }
    let invalid = |error: wasmtime::Error| LoadError::Invalid(format!("{error:#}"));
    let artefact = match &shared.compiler {
        Some(compiler) if !binary.is_embedded() => compiler.compile(binary.bytes(), shared.file_limits().compile)?,
        Some(_) | None => engine.precompile_component(binary.bytes()).map_err(invalid)?,
    };
    #[expect(unsafe_code, reason = "these bytes were made by this engine, or by the same program on its behalf")]
    // SAFETY: the bytes are what the compiler of this program wrote, and nobody else had them in between.
    let component = unsafe { Component::deserialize(engine, &artefact) }.map_err(invalid)?;
    if let Some(artefacts) = &shared.artefacts {
        artefacts.store(binary, &artefact);
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
    // As many as a message bears.
    const SHOWN: usize = 10;
    let component_type = component.component_type();
    let names: Vec<&str> = component_type.exports(component.engine()).map(|(name, _)| name).collect();
    match names.len().checked_sub(SHOWN) {
        _ if names.is_empty() => "none".to_owned(),
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}
