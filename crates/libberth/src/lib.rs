//! `libberth`: the simulator behind a small C ABI, for schedulers' companions in any language: autoscalers, queues,
//! tools.
//!
//! `include/libberth.h` is generated from this page. Each simulator has a thread of its own, so that a handle may be
//! used from any thread. A panic ends only that simulator and never reaches the caller. Texts are UTF-8 and end with a
//! zero byte. A value that a function returns belongs to the caller. The caller gives it back to the function whose
//! name says so.

use std::{
    any::Any,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    ptr,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use berth_config::Execution;
use berth_simulator::{Simulator, SimulatorOptions};
use berth_telemetry::chain;
use berth_what_if::{Arrival, Cluster, ClusterReader, Report, WhatIfRequest};
use serde::Deserialize;

/// The time that a question may take if the caller sets no limit.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// The number of mistakes in manifests that an error names. Further mistakes are counted.
const NAMED_MISTAKES: usize = 20;

/// A scheduler with its plugins, and the cluster that it is asked about.
#[derive(Debug)]
pub struct BerthSimulator {
    /// The channel to the simulator's thread. It is dropped when the simulator is closed, which ends the thread.
    work: Option<mpsc::Sender<Work>>,
    thread: Option<thread::JoinHandle<()>>,
}

type Work = Box<dyn FnOnce(&mut State) + Send>;

/// The data on the simulator's thread.
struct State {
    simulator: Simulator,
    cluster: Cluster,
}

/// The first argument of `berth_simulator_open`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct OpenOptions {
    config: Option<PathBuf>,
    scheduler_name: Option<String>,
    plugins_dir: Option<PathBuf>,
    plugin_config: Option<PathBuf>,
    execution: Option<Execution>,
    artifact_cache: Option<PathBuf>,
    emulated_version: Option<String>,
}

impl From<OpenOptions> for SimulatorOptions {
    fn from(options: OpenOptions) -> Self {
        Self {
            config: options.config,
            scheduler_name: options.scheduler_name,
            plugins_dir: options.plugins_dir,
            plugin_config: options.plugin_config,
            execution: options.execution,
            artifact_cache: options.artifact_cache,
            emulated_version: options.emulated_version,
            compiler: None,
        }
    }
}

impl BerthSimulator {
    fn open(options: &str) -> Result<Self> {
        let mut json = serde_json::Deserializer::from_str(if options.is_empty() { "{}" } else { options });
        let options: OpenOptions = serde_path_to_error::deserialize(&mut json).context("options")?;
        let (work, orders) = mpsc::channel::<Work>();
        let (opened, open) = mpsc::channel();
        let thread = thread::Builder::new().name("berth-simulator".to_owned()).spawn(move || {
            let state = guarded(|| Simulator::open(options.into()));
            let mut state = match state {
                Ok(simulator) => State { simulator, cluster: ClusterReader::default().finish().0 },
                Err(error) => return drop(opened.send(Err(error))),
            };
            let _ = opened.send(Ok(()));
            orders.into_iter().for_each(|work| work(&mut state));
        })?;
        open.recv().context("the simulator's thread ended")??;
        Ok(Self { work: Some(work), thread: Some(thread) })
    }

    /// Runs the question on the simulator's thread.
    fn ask<T: Send + 'static>(&self, question: impl FnOnce(&mut State) -> Result<T> + Send + 'static) -> Result<T> {
        let (answer, answered) = mpsc::channel();
        let work: Work = Box::new(move |state| {
            let answered = guarded(|| question(state));
            // The caller waits for the answer, so the channel is open.
            let _ = answer.send(answered);
        });
        let gone = || anyhow!("the simulator has ended");
        self.work.as_ref().ok_or_else(gone)?.send(work).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    fn set_cluster(&self, manifests: &str) -> Result<()> {
        let manifests = manifests.to_owned();
        self.ask(move |state| {
            let mut reader = ClusterReader::default();
            reader.read("manifests", &manifests);
            let (mut cluster, errors) = reader.finish();
            let named: Vec<String> = errors.iter().take(NAMED_MISTAKES).map(ToString::to_string).collect();
            let objects = if errors.len() == 1 { "object" } else { "objects" };
            ensure!(errors.is_empty(), "{} {objects} cannot be used: {}", errors.len(), named.join("; "));
            state.simulator.adopt(&mut cluster);
            state.cluster = cluster;
            Ok(())
        })
    }

    fn place(&self, timeout: Duration) -> Result<String> {
        self.ask(move |state| {
            let end = Instant::now() + timeout;
            let placed = state.simulator.place(&state.cluster, Arrival::Together, &|| Instant::now() > end)?;
            Ok(serde_json::to_string(&Report::new(&state.cluster, placed))?)
        })
    }

    fn what_if(&self, request: &str, timeout: Duration) -> Result<String> {
        let request = WhatIfRequest::read(request)?;
        self.ask(move |state| {
            let end = Instant::now() + timeout;
            let answer = state.simulator.what_if(&state.cluster, &request, &|| Instant::now() > end)?;
            Ok(serde_json::to_string(&answer)?)
        })
    }
}

impl Drop for BerthSimulator {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // A panic was already caught where it happened.
            let _ = thread.join();
        }
    }
}

/// Turns a panic into an error.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(anyhow!("panicked: {}", text_of(&*panic))))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn timeout(milliseconds: u32) -> Duration {
    if milliseconds == 0 { DEFAULT_TIMEOUT } else { Duration::from_millis(milliseconds.into()) }
}

/// A text that the caller frees. A zero byte within the text would end it early, but JSON and messages contain no zero
/// bytes.
fn owned(text: String) -> *mut c_char {
    CString::new(text.replace('\0', "\u{fffd}")).map_or(ptr::null_mut(), CString::into_raw)
}

/// The text at this address.
#[expect(unsafe_code, reason = "the header says which conditions the caller must meet")]
fn text<'a>(address: *const c_char, what: &str) -> Result<&'a str> {
    ensure!(!address.is_null(), "{what}: a null pointer, not a text");
    // SAFETY: the caller's text ends with a zero byte and stays as it is during the call.
    let text = unsafe { CStr::from_ptr(address) };
    text.to_str().with_context(|| format!("{what} is not valid UTF-8"))
}

#[expect(unsafe_code, reason = "the header says which conditions the caller must meet")]
fn handle<'a>(simulator: *const BerthSimulator) -> Result<&'a BerthSimulator> {
    // SAFETY: the caller has the handle from `berth_simulator_open` and has not closed it.
    unsafe { simulator.as_ref() }.context("simulator: a null pointer")
}

/// Returns the value. If the call failed, returns `none` and stores the reason at `error`.
#[expect(unsafe_code, reason = "the header says which conditions the caller must meet")]
fn told<T>(work: impl FnOnce() -> Result<T>, none: T, error: *mut *mut c_char) -> T {
    let answer = guarded(work);
    // SAFETY: `error` is null, or points to a pointer that the caller owns.
    if let Some(slot) = unsafe { error.as_mut() } {
        *slot = answer.as_ref().err().map_or(ptr::null_mut(), |reason| owned(chain(reason.as_ref())));
    }
    answer.unwrap_or(none)
}

/// The library's version. It is not freed.
#[expect(unsafe_code, reason = "nothing else has this name")]
#[unsafe(no_mangle)]
pub extern "C" fn berth_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Loads a scheduler's configuration and plugins. `options` is a JSON object with `config`, `schedulerName`,
/// `pluginsDir`, `pluginConfig`, `execution` (`auto`, `native` or `wasm`), `artifactCache` and `emulatedVersion`, as
/// the options of `berth simulate`; all may be left out. Plugins are compiled in this process, without the limits that
/// a scheduler sets, so load only plugins that you trust.
///
/// If something cannot be used, returns null and sets `*error`, unless `error` is null. The handle may be used from any
/// thread; a question waits until the previous question is answered. Close it with `berth_simulator_close`.
#[expect(unsafe_code, reason = "nothing else has this name")]
#[unsafe(no_mangle)]
pub extern "C" fn berth_simulator_open(options: *const c_char, error: *mut *mut c_char) -> *mut BerthSimulator {
    let open = || Ok(Box::into_raw(Box::new(BerthSimulator::open(text(options, "options")?)?)));
    told(open, ptr::null_mut(), error)
}

/// Sets the cluster that is asked about: manifests in YAML or JSON, as `kubectl get nodes,pods,... -A -o yaml` prints
/// them. The cluster that was set before is forgotten. If an object cannot be used, false is returned and nothing
/// changes.
#[expect(unsafe_code, reason = "nothing else has this name")]
#[unsafe(no_mangle)]
pub extern "C" fn berth_simulator_set_cluster(
    simulator: *const BerthSimulator,
    manifests: *const c_char,
    error: *mut *mut c_char,
) -> bool {
    let set = || handle(simulator)?.set_cluster(text(manifests, "manifests")?).map(|()| true);
    told(set, false, error)
}

/// Places the pods of the cluster that have no node. Returns a `Simulation` in JSON, as `berth simulate -o json` prints
/// it; it is freed with `berth_string_free`. No placement is carried out: the cluster stays as it was set. If
/// `timeout_milliseconds` is 0, the limit is a minute. Returns null and sets `*error` if the call fails.
#[expect(unsafe_code, reason = "nothing else has this name")]
#[unsafe(no_mangle)]
pub extern "C" fn berth_simulator_place(
    simulator: *const BerthSimulator,
    timeout_milliseconds: u32,
    error: *mut *mut c_char,
) -> *mut c_char {
    let place = || Ok(owned(handle(simulator)?.place(timeout(timeout_milliseconds))?));
    told(place, ptr::null_mut(), error)
}

/// Answers a batch of what-if questions, a `WhatIf` in JSON: where pods go if nodes are added or removed, and which
/// node groups would take them. Returns a `WhatIfAnswer` in JSON; it is freed with `berth_string_free`. If
/// `timeout_milliseconds` is 0, the limit is a minute. Returns null and sets `*error` if the call fails.
#[expect(unsafe_code, reason = "nothing else has this name")]
#[unsafe(no_mangle)]
pub extern "C" fn berth_simulator_what_if(
    simulator: *const BerthSimulator,
    request: *const c_char,
    timeout_milliseconds: u32,
    error: *mut *mut c_char,
) -> *mut c_char {
    let ask = || Ok(owned(handle(simulator)?.what_if(text(request, "request")?, timeout(timeout_milliseconds))?));
    told(ask, ptr::null_mut(), error)
}

/// Closes a simulator after the question that it is answering has ended. Null is ignored.
///
/// # Safety
/// The handle is from `berth_simulator_open` and is not used afterwards.
#[expect(unsafe_code, reason = "the handle is the caller's to give back")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn berth_simulator_close(simulator: *mut BerthSimulator) {
    if !simulator.is_null() {
        // SAFETY: `Box::into_raw` made `simulator`, and the caller gives it back once.
        let simulator = unsafe { Box::from_raw(simulator) };
        let _ = guarded(|| {
            drop(simulator);
            Ok(())
        });
    }
}

/// Frees a text that a function of this library returned. Null is ignored.
///
/// # Safety
/// The text is from this library and is not used afterwards.
#[expect(unsafe_code, reason = "the text is the caller's to give back")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn berth_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: `CString::into_raw` made `text`, and the caller gives it back once.
        drop(unsafe { CString::from_raw(text) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the error is freed as a caller frees it")]
    fn a_panic_is_an_error_and_reaches_no_caller() {
        let mut error = ptr::null_mut();
        assert!(!told(|| -> Result<bool> { panic!("in a call") }, false, &raw mut error));
        // SAFETY: `told` stored a text there, and it is freed once.
        let text = unsafe { CString::from_raw(error) };
        assert_eq!(text.to_str(), Ok("panicked: in a call"));

        let dir = tempfile::tempdir().expect("a folder");
        let options = serde_json::json!({"artifactCache": dir.path()}).to_string();
        let simulator = BerthSimulator::open(&options).expect("kube-scheduler's default profile");
        let panicked = simulator.ask(|_| -> Result<()> { panic!("on the simulator's thread") });
        assert_eq!(panicked.expect_err("it panicked").to_string(), "panicked: on the simulator's thread");
        let placed = simulator.place(DEFAULT_TIMEOUT).expect("the thread goes on");
        assert!(placed.contains("\"kind\":\"Simulation\""), "{placed}");
    }
}
