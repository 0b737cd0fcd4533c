//! The steps from a plugin's bytes to its factory: the bytes are compiled, checked against the contract, and asked for
//! the manifest.

use std::sync::Arc;

use berth_framework::Manifest;
use berth_model::Digest;
use wasmtime::component::{Component, types::ComponentItem};

use crate::{
    artefacts::RefusalLimits,
    binary::{Binary, LoadError},
    compiler_process::{CompileError, CompileLimits, CompilerProcess},
    component::LoadedComponent,
    convert::lift,
    effort::LoadEffort,
    engine::{Engine, Shared},
    exports::ExportIndices,
    factory::ComponentFactory,
    fault::FaultKind,
    instance::{Instance, TimeLimit, guest},
    precompiled::Precompiled,
};

impl Engine {
    /// Loads a binary of a registry like [`Self::load`], but first refuses it if the operator denied its digest.
    ///
    /// # Errors
    /// The binary is denied, or is not a plugin.
    pub fn load_unless_denied(&self, binary: &Binary) -> Result<ComponentFactory, LoadError> {
        self.check_denied(binary.digest())?;
        // A result that needs little effort is known before an attempt with much effort begins.
        let mut effort = LoadEffort::FIRST;
        while let Some(next) = effort.next() {
            if let Some(loaded) = self.try_load(binary, effort) {
                return loaded;
            }
            effort = next;
        }
        self.load(binary)
    }

    /// # Errors
    /// The operator denied these bytes.
    pub fn check_denied(&self, digest: Digest) -> Result<(), LoadError> {
        if self.shared().is_denied(digest) { Err(LoadError::Denied(digest)) } else { Ok(()) }
    }

    /// Compiles the component, or uses the compiled artefact of the same bytes. Then checks the imports and exports of
    /// the component, and asks the component for its manifest. The call may take seconds.
    ///
    /// # Errors
    /// The bytes are not a plugin, or not the plugin of this name.
    pub fn load(&self, binary: &Binary) -> Result<ComponentFactory, LoadError> {
        self.load_with(binary, None)
    }

    /// Loads like [`Self::load`], but uses the artefact that comes with the program, if the program has one for the
    /// component.
    ///
    /// # Errors
    /// Fails as [`Self::load`] does.
    pub fn load_with(&self, binary: &Binary, precompiled: Option<&Precompiled>) -> Result<ComponentFactory, LoadError> {
        let precompiled = precompiled.and_then(|it| it.load(&self.shared().wasmtime, binary.digest()));
        match self.attempt(binary, precompiled, LoadEffort::Full) {
            Ok(factory) => Ok(factory),
            Err(NotLoaded::Refused(error)) => Err(error),
            Err(NotLoaded::NeedsMore) => Err(LoadError::Invalid("it was not compiled".to_owned())),
        }
    }

    /// Loads with at most this effort. `None` if this effort does not show whether the bytes are a plugin.
    /// [`LoadEffort::Full`] always gives a result.
    #[must_use]
    pub fn try_load(&self, binary: &Binary, effort: LoadEffort) -> Option<Result<ComponentFactory, LoadError>> {
        match self.attempt(binary, None, effort) {
            Ok(factory) => Some(Ok(factory)),
            Err(NotLoaded::Refused(error)) => Some(Err(error)),
            Err(NotLoaded::NeedsMore) => None,
        }
    }

    /// The plugin with this digest, if its artefact is available. Its bytes are not needed.
    #[must_use]
    pub fn load_compiled(&self, name: &str, digest: Digest) -> Option<ComponentFactory> {
        let shared = self.shared();
        let component = shared.artefacts.as_ref()?.load(&shared.wasmtime, digest)?;
        self.check(name, digest, Compiled { component, is_from_artefact: true }, false, LoadEffort::Full).ok()
    }

    /// Makes the next load of these bytes examine them again, although they were refused before.
    pub fn forget_refusal(&self, digest: Digest) {
        if let Some(artefacts) = &self.shared().artefacts {
            artefacts.forget_refusal(digest);
        }
    }

    fn attempt(
        &self,
        binary: &Binary,
        precompiled: Option<Component>,
        effort: LoadEffort,
    ) -> Result<ComponentFactory, NotLoaded> {
        binary.check_format()?;
        let (shared, digest) = (self.shared(), binary.digest());
        // The program's own binaries are never refused, so no refusal is looked up for such a binary.
        let artefacts = shared.artefacts.as_ref().filter(|_| !binary.is_embedded());
        let limits = RefusalLimits {
            compile: shared.file_limits().compile.here(),
            lifecycle_timeout: shared.limits_of(binary.name()).lifecycle_timeout,
        };
        if let Some(reason) = artefacts.and_then(|artefacts| artefacts.refusal(digest, limits)) {
            return Err(LoadError::Remembered(reason).into());
        }
        let compiled = match precompiled {
            Some(component) => Ok(Compiled { component, is_from_artefact: true }),
            None => compile(shared, binary, effort, limits.compile),
        };
        let loaded =
            compiled.and_then(|compiled| self.check(binary.name(), digest, compiled, binary.is_embedded(), effort));
        if let (Some(artefacts), Err(NotLoaded::Refused(error))) = (artefacts, &loaded)
            && error.is_worth_remembering()
        {
            artefacts.remember_refusal(digest, limits, &error.to_string());
        }
        loaded
    }

    /// Checks what the component imports and exports, and asks it for its manifest.
    fn check(
        &self,
        name: &str,
        digest: Digest,
        compiled: Compiled,
        is_embedded: bool,
        effort: LoadEffort,
    ) -> Result<ComponentFactory, NotLoaded> {
        let Compiled { component, is_from_artefact } = compiled;
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
        let (account, log_budget) = (shared.time.plugin(name), shared.log_budgets.of(name));
        let name = Arc::from(name);
        let (clock, ticker) = (Arc::clone(&shared.clock), Arc::clone(&shared.ticker));
        let (manifest, stats) = (Manifest::default(), Arc::default());
        let faults = shared.faults.clone();
        let lifecycle_timeout = limits.lifecycle_timeout;
        limits.lifecycle_timeout = effort.cut(lifecycle_timeout);
        let is_cut = limits.lifecycle_timeout < lifecycle_timeout;
        let mut loaded = LoadedComponent {
            pre,
            indices,
            limits,
            clock,
            ticker,
            stats,
            account,
            log_budget,
            faults,
            name,
            manifest,
            points,
            digest,
        };
        loaded.manifest = match describe(&loaded) {
            Err(LoadError::Faulty { kind: FaultKind::Timeout, .. }) if is_cut => return Err(NotLoaded::NeedsMore),
            described => described?,
        };
        loaded.limits.lifecycle_timeout = lifecycle_timeout;
        Ok(ComponentFactory::new(loaded, is_from_artefact, is_embedded))
    }
}

/// A compiled component.
struct Compiled {
    component: Component,
    /// Whether an artefact was available.
    is_from_artefact: bool,
}

/// The reason why an attempt gave no plugin.
enum NotLoaded {
    Refused(LoadError),
    /// More effort is needed to know the result.
    NeedsMore,
}

impl From<LoadError> for NotLoaded {
    fn from(error: LoadError) -> Self {
        Self::Refused(error)
    }
}

/// Asks a temporary instance for the manifest. The start of the instance also compares the types of all exported
/// functions with the contract's.
fn describe(component: &LoadedComponent) -> Result<Manifest, LoadError> {
    let mut instance = Instance::new(component)?;
    let described = instance.call(component, "describe", TimeLimit::Lifecycle, |context| {
        let manifest = guest(&context.exports.lifecycle)?.call_describe(context.store)?;
        Ok(lift::manifest(manifest, context.limits)?)
    });
    let manifest = described.map_err(LoadError::from)?;
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

/// Uses the component's artefact, or compiles the component within the part of the limits that `effort` allows.
fn compile(shared: &Shared, binary: &Binary, effort: LoadEffort, whole: CompileLimits) -> Result<Compiled, NotLoaded> {
    let engine = &shared.wasmtime;
    if let Some(component) = shared.artefacts.as_ref().and_then(|artefacts| artefacts.load(engine, binary.digest())) {
        return Ok(Compiled { component, is_from_artefact: true });
    }
    let limits = effort.compile_limits(binary.bytes().len(), whole).ok_or(NotLoaded::NeedsMore)?;
    let invalid = |error: wasmtime::Error| LoadError::Invalid(format!("{error:#}"));
    let artefact = match &shared.compiler {
        Some(compiler) if !binary.is_embedded() => match compile_in_turn(shared, compiler, binary, effort, limits) {
            Err(error) if limits != whole && error.is_of_the_limits() => return Err(NotLoaded::NeedsMore),
            compiled => compiled.map_err(LoadError::from)?,
        },
        Some(_) | None => engine.precompile_component(binary.bytes()).map_err(invalid)?,
    };
    #[expect(unsafe_code, reason = "these bytes were made by this engine, or by the same program on its behalf")]
    // SAFETY: the compiler of this program wrote the bytes, and no other process could change them.
    let component = unsafe { Component::deserialize(engine, &artefact) }.map_err(invalid)?;
    if let Some(artefacts) = &shared.artefacts {
        artefacts.store(binary, &artefact);
    }
    Ok(Compiled { component, is_from_artefact: false })
}

fn compile_in_turn(
    shared: &Shared,
    compiler: &CompilerProcess,
    binary: &Binary,
    effort: LoadEffort,
    limits: CompileLimits,
) -> Result<Vec<u8>, CompileError> {
    let _turn = shared.compile_turns.wait(effort);
    compiler.compile(binary.bytes(), limits)
}

/// Refuses imports other than the host interface and plain types.
fn check_imports(component: &Component) -> Result<(), LoadError> {
    let engine = component.engine();
    for (name, import) in component.component_type().imports(engine) {
        let is_given = name == "berth:scheduler/host@0.2.0"
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
    // The number of imports that a message shows.
    const SHOWN: usize = 10;
    let component_type = component.component_type();
    let names: Vec<&str> = component_type.exports(component.engine()).map(|(name, _)| name).collect();
    match names.len().checked_sub(SHOWN) {
        _ if names.is_empty() => "none".to_owned(),
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}
