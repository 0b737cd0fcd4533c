//! The binaries that become plugins, and the messages about binaries that do not.

use berth_framework::{PluginFactory, Point};
use berth_model::{BinaryId, Column};
use berth_test_guests as guests;
use berth_wasm_host::{Binary, Engine, EngineOptions, FaultKind};

use crate::cluster::{by_priority, engine};

fn check_refused(name: &str, bytes: Vec<u8>, reason: &str) {
    let error = engine().load(&Binary::new(name, bytes)).unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn a_component_is_asked_what_it_is() {
    let factory = by_priority(&engine());
    assert_eq!(factory.manifest().name, "ByPriority");
    assert_eq!(factory.version().version, "1.2.3");
    assert_eq!(factory.version().binary, Some(BinaryId::Component(factory.digest())));
    assert!(factory.manifest().needs.columns.contains(Column::Name));
    let points: Vec<Point> = factory.points().iter().collect();
    assert_eq!(points, [Point::Filter, Point::Score, Point::Reserve]);
}

#[test]
fn text_is_refused() {
    check_refused("Text", b"apiVersion: v1".to_vec(), "is not a WebAssembly file");
    check_refused("Empty", Vec::new(), "is not a WebAssembly file");
}

#[test]
fn a_core_module_is_refused_with_the_remedy() {
    check_refused("Module", guests::core_module().unwrap(), "run `wasm-tools component new`");
}

#[test]
fn a_cut_off_component_is_refused() {
    let mut bytes = guests::by_priority().unwrap();
    bytes.truncate(bytes.len() / 2);
    check_refused("ByPriority", bytes, "is not a valid component");
}

#[test]
fn an_import_beyond_the_host_interface_is_refused_by_name() {
    check_refused("Wasi", guests::imports_wasi().unwrap(), "imports wasi:filesystem/preopens@0.2.0");
}

#[test]
fn a_component_of_another_world_is_refused_with_what_it_exports() {
    check_refused("Greeter", guests::of_another_world().unwrap(), "its exports: example:greeter/greet@1.0.0");
}

#[test]
fn missing_interfaces_are_refused_by_name() {
    check_refused("Sorter", guests::sorts_without_lifecycle().unwrap(), "does not export berth:scheduler/lifecycle");
    check_refused("Blind", guests::without_cycle().unwrap(), "does not export berth:scheduler/cycle");
}

#[test]
fn an_interface_with_other_functions_is_refused_by_name() {
    let reason = "exports berth:scheduler/lifecycle@0.2.0 with functions other than the contract's";
    check_refused("Strange", guests::wrong_signature().unwrap(), reason);
}

#[test]
fn a_plugin_under_a_foreign_name_is_refused() {
    check_refused("OtherName", guests::by_priority().unwrap(), "has the name \"ByPriority\"");
}

#[test]
fn describe_may_neither_trap_nor_take_forever() {
    check_refused("LoopsInDescribe", guests::loops_in_describe().unwrap(), "took too long in describe");
    check_refused("Broken", guests::traps_in_describe().unwrap(), "instruction executed in describe");
}

#[test]
fn refused_arguments_are_the_plugins_own_words() {
    assert_eq!(by_priority(&engine()).build("\"refuse\"").unwrap_err().to_string(), "refused on demand");
}

#[test]
fn limits_may_differ_by_plugin() {
    let mut options = EngineOptions::default();
    let tight = berth_wasm_host::Limits { memory_bytes: 1000, ..options.limits.clone() };
    options.plugin_limits.insert("ByPriority".to_owned(), tight);
    let engine = Engine::new(options).unwrap();
    let error = engine.load(&Binary::new("ByPriority", guests::by_priority().unwrap())).unwrap_err().to_string();
    assert!(error.contains("asked for 196608 bytes of memory (limit 1000)"), "{error}");
    assert!(engine.load(&Binary::new("Other", guests::by_priority_named("Other").unwrap())).is_ok());
}

#[test]
fn artefacts_are_kept_for_this_user_alone_and_used_again() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let artefacts = dir.path().join("artefacts");
    let options = EngineOptions { artefacts: Some(artefacts.clone()), ..EngineOptions::default() };
    let binary = Binary::new("ByPriority", guests::by_priority().unwrap());
    let load = || Engine::new(options.clone()).unwrap().load(&binary).unwrap();

    assert!(!load().is_from_artefact());
    assert_eq!(artefacts.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let stored = artefacts.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let stored: Vec<_> =
        stored.filter(|path| path.extension().is_some_and(|extension| extension == "compiled")).collect();
    let [stored] = stored.as_slice() else { panic!("{stored:?}") };
    assert_eq!(stored.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let again = load();
    assert!(again.is_from_artefact());
    assert_eq!(again.stats().faults(FaultKind::Trap), 0);

    let by_digest = |digest| Engine::new(options.clone()).unwrap().load_compiled("ByPriority", digest);
    assert_eq!(by_digest(binary.digest()).map(|factory| factory.digest()), Some(binary.digest()));
    assert!(by_digest(Binary::new("ByPriority", *b"others").digest()).is_none());

    let mut content = std::fs::read(stored).unwrap();
    *content.last_mut().unwrap() ^= 1;
    std::fs::write(stored, content).unwrap();
    assert!(!load().is_from_artefact());
    assert!(load().is_from_artefact());

    // An artefact with a MAC of another directory's key is not accepted.
    std::fs::write(artefacts.join("key"), [7; 64]).unwrap();
    assert!(!load().is_from_artefact());
}
