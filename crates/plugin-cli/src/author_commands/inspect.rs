//! `berth plugin inspect`: describes a component, its needs, and the grants that it would get.

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use berth_author::{CaseFile, CaseHost};
use berth_config::Usage;
use berth_framework::{ClusterEvent, Grants, Manifest, PluginFactory as _, Point, Points};
use berth_model::{BinaryId, Digest};
use berth_plugin_host::{Granted, NotGranted, is_own};
use berth_telemetry::chain;
use clap::Args;
use serde::Serialize;
use wit_component::DecodedWasm;

use super::{
    cases::granted_in,
    project::{Loaded, Target},
};
use crate::output::Output;

#[derive(Args, Debug)]
pub struct Inspect {
    #[command(flatten)]
    target: Target,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    file: String,
    bytes: usize,
    digest: String,
    imports: Vec<String>,
    exports: Vec<String>,
    name: String,
    version: String,
    /// The extension points that the component implements.
    points: Vec<&'static str>,
    needs: Needs,
    /// The events after which pods that the plugin rejected are tried again; `None` stands for any event.
    events_to_register: Option<Vec<String>>,
    /// The grants that the plugin gets without a setting of the operator.
    granted: String,
    /// A whole file for `--plugin-config` with the grants that the plugin needs; `None` if the plugin needs no grants.
    plugin_config: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Needs {
    columns: Vec<String>,
    pods: bool,
    pod_json: bool,
    objects: Vec<String>,
}

impl Report {
    fn rejects_pods(&self) -> bool {
        Points::REJECTING.iter().any(|point| self.points.contains(&point.shown()))
    }
}

pub(crate) fn run(inspect: &Inspect) -> Result<()> {
    let file = inspect.target.file()?;
    let loaded = super::project::load(&file)?;
    let (imports, exports) = interfaces(loaded.binary.bytes())?;
    let manifest = loaded.factory.manifest();
    let points = loaded.factory.points();
    let (granted, plugin_config) = granted(manifest, loaded.binary.digest(), in_cases(inspect, &loaded)?.as_ref());
    let report = Report {
        file: file.display().to_string(),
        bytes: loaded.binary.bytes().len(),
        digest: loaded.binary.digest().to_string(),
        imports,
        exports,
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        points: points.iter().map(Point::shown).collect(),
        needs: needs(manifest),
        events_to_register: manifest.events_to_register.as_ref().map(|events| events.iter().map(in_words).collect()),
        granted,
        plugin_config,
    };
    let mut out = io::stdout().lock();
    match inspect.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)?;
        }
        Output::Table => write_text(&mut out, &report)?,
    }
    loaded.warn_of_misspelt_kinds()?;
    loaded.warn_of_undeclared_reads()
}

/// Writes `Node: Add, UpdateNodeLabel`.
fn in_words(event: &ClusterEvent) -> String {
    let resource = if event.resource == "*" { "any kind" } else { &event.resource };
    format!("{resource}: {}", event.action_names().join(", "))
}

/// The grants that the plugin gets without a setting of the operator, and the grants that it needs. The second text is
/// the operator's file with these grants.
fn granted(manifest: &Manifest, digest: Digest, in_cases: Option<&InCases>) -> (String, Option<String>) {
    let name = manifest.name.as_str();
    let is_own = is_own(name, Some(BinaryId::Component(digest)));
    if let Some(built_in) = berth_builtins::factory(name).filter(|_| is_own) {
        let needs = Granted::of_built_in(built_in.manifest());
        let lines = if needs.is_empty() { "nothing".to_owned() } else { needs.lines(name) };
        return (format!("as this program's own {name}: {lines}"), None);
    }
    let reads =
        Granted { reads: manifest.needs.objects.clone(), pod_json: manifest.needs.pod_json, ..Granted::default() };
    let grants = in_cases.map_or_else(|| reads.grants(), |cases| cases.enough.clone());
    // The cases may grant a kind for events.
    let granted_reads = Granted { reads: grants.reads().to_vec(), ..reads };
    let events = match granted_reads.check_reads(name, manifest, None) {
        Err(NotGranted::Events { kinds, versions }) => {
            format!("; for events of {kinds}, reads must also contain a kind of {versions}")
        }
        Ok(()) | Err(_) => String::new(),
    };
    let effects = match in_cases {
        None => "; and the effects that it asks for: cases.yaml beside it would show these",
        Some(cases) if cases.granted.as_ref().is_some_and(|granted| *granted != cases.enough) => {
            "; `grants` in its files of cases has less: berth plugin test shows what is missing"
        }
        Some(_) => "",
    };
    let is_granted = in_cases.is_some_and(|cases| cases.granted.as_ref() == Some(&cases.enough));
    let needs = match (grants.is_empty() && events.is_empty(), is_granted) {
        (true, _) => "the plugin needs no grants".to_owned(),
        (false, true) => {
            format!("its test cases (cases.yaml) use these grants, which are enough: {}{events}", grants.entry(name))
        }
        (false, false) => format!("the plugin needs {}{events}", grants.entry(name)),
    };
    let file = (!grants.is_empty()).then(|| grants.document(name));
    (format!("nothing; {needs}{effects}"), file)
}

/// The grants in the cases beside a plugin.
struct InCases {
    /// The grants that the files of cases name; `None` if a file names none, because the cases of such a file grant
    /// everything.
    granted: Option<Grants>,
    /// These grants, the reads in the manifest, and the effects that the plugin asks for beyond them.
    enough: Grants,
}

/// `None` if there are no cases.
fn in_cases(inspect: &Inspect, loaded: &Loaded) -> Result<Option<InCases>> {
    let files = inspect.target.cases()?;
    if files.is_empty() {
        return Ok(None);
    }
    let of_files: Vec<Option<Granted>> = files.iter().map(|file| granted_in(file)).collect::<Result<_>>()?;
    let all_name_grants = of_files.iter().all(Option::is_some);
    let named = of_files.iter().flatten().fold(Granted::default(), |sum, granted| sum.with(granted));
    let needs = &loaded.factory.manifest().needs;
    let reads = Granted { reads: needs.objects.clone(), pod_json: needs.pod_json, ..Granted::default() };
    let granted = all_name_grants.then(|| named.grants());
    let mut grants = named.with(&reads).grants();
    for file in files {
        let file = CaseFile::read(&file).map_err(|error| Usage(chain(&error)))?;
        let host = |grants| {
            let clock = loaded.factory.clone();
            CaseHost::new(grants, move |milliseconds| clock.set_now(milliseconds))
        };
        grants = file.grants_asked_for(&loaded.factory, grants, host);
    }
    Ok(Some(InCases { granted, enough: grants }))
}

/// The names of the interfaces that a component imports and exports.
pub(super) fn interfaces(component: &[u8]) -> Result<(Vec<String>, Vec<String>)> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(component)? else {
        anyhow::bail!("the file is a WIT package, not a component");
    };
    let world = resolve.worlds.get(world).context("the component has no world")?;
    let names = |keys: Vec<_>| keys.into_iter().map(|key| resolve.name_world_key(key)).collect();
    Ok((names(world.imports.keys().collect()), names(world.exports.keys().collect())))
}

fn needs(manifest: &Manifest) -> Needs {
    let mut columns: Vec<String> = Vec::new();
    for column in manifest.needs.columns.iter() {
        match column {
            berth_model::Column::Labels if !manifest.needs.label_keys.is_empty() => {
                columns.extend(manifest.needs.label_keys.iter().map(|key| format!("label {key}")));
            }
            berth_model::Column::Annotations => {
                columns.extend(manifest.needs.annotation_keys.iter().map(|key| format!("annotation {key}")));
            }
            column => columns.push(format!("{column:?}")),
        }
    }
    let objects = manifest.needs.objects.iter().map(|kind| format!("{}/{}", kind.api_version, kind.kind));
    let (pods, pod_json) = (manifest.needs.pods, manifest.needs.pod_json);
    Needs { columns, pods, pod_json, objects: objects.collect() }
}

fn write_text(out: &mut impl io::Write, report: &Report) -> io::Result<()> {
    let list = |items: &[String]| if items.is_empty() { "-".to_owned() } else { items.join(", ") };
    let mut needs = report.needs.columns.clone();
    needs.extend(report.needs.pods.then(|| "pods on nodes".to_owned()));
    needs.extend(report.needs.pod_json.then(|| "pending pods as JSON".to_owned()));
    needs.extend(report.needs.objects.iter().cloned());
    let points: Vec<String> = report.points.iter().map(ToString::to_string).collect();
    let (exports, other_exports): (Vec<String>, Vec<String>) =
        report.exports.iter().cloned().partition(|export| export.starts_with("berth:scheduler/"));
    let events_to_register = match report.events_to_register.as_deref() {
        None => "any event".to_owned(),
        Some([]) => "nothing".to_owned(),
        Some(events) => events.join("; "),
    };
    for (what, text) in [
        ("Name", Some(report.name.clone())),
        ("Version", Some(report.version.clone())),
        ("File", Some(report.file.clone())),
        ("Size", Some(format!("{} bytes", report.bytes))),
        ("SHA-256", Some(report.digest.clone())),
        ("Imports", Some(list(&report.imports))),
        ("Exports", Some(list(&exports))),
        ("Toolchain's exports", Some(list(&other_exports)).filter(|_| !other_exports.is_empty())),
        ("Extension points", Some(list(&points))),
        ("Needs", Some(list(&needs))),
        ("Tries pods again on", Some(events_to_register).filter(|_| report.rejects_pods())),
        ("Granted", Some(report.granted.clone())),
        ("--plugin-config", report.plugin_config.clone()),
    ] {
        if let Some(text) = text {
            writeln!(out, "{what:20} {text}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(points: &[Point], exports: &[&str]) -> String {
        let report = Report {
            file: "build/A.wasm".to_owned(),
            bytes: 1,
            digest: "00".to_owned(),
            imports: Vec::new(),
            exports: exports.iter().map(|export| (*export).to_owned()).collect(),
            name: "A".to_owned(),
            version: "1".to_owned(),
            points: points.iter().copied().map(Point::shown).collect(),
            needs: needs(&Manifest::default()),
            events_to_register: None,
            granted: "nothing".to_owned(),
            plugin_config: None,
        };
        let mut text = Vec::new();
        write_text(&mut text, &report).expect("memory takes it");
        String::from_utf8(text).expect("a text")
    }

    #[test]
    fn events_are_shown_where_pods_can_be_rejected() {
        for (points, are_shown) in [
            (&[Point::Score][..], false),
            (&[Point::PostFilter, Point::PreBind], false),
            (&[Point::Score, Point::Filter], true),
        ] {
            assert_eq!(shown(points, &[]).contains("Tries pods again on  any event\n"), are_shown, "{points:?}");
        }
    }

    /// As the contract and the bench call it.
    #[test]
    fn normalising_has_one_name() {
        let text = shown(&[Point::Score, Point::Normalize], &[]);
        assert!(text.contains("Score, NormalizeScore\n"), "{text}");
    }

    /// The text of the row is a whole file.
    #[test]
    fn the_needed_grants_are_shown_as_a_file() {
        let kind = berth_framework::ObjectKind { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
        let needs = berth_framework::Needs { objects: vec![kind], ..berth_framework::Needs::default() };
        let manifest = Manifest { name: "Mine".to_owned(), needs, ..Manifest::default() };
        let (_, file) = granted(&manifest, Digest::new([7; 32]), None);
        let file = file.expect("it needs a grant");
        let settings = berth_config::PluginHostSettings::from_text("test", &file).expect("valid");
        assert_eq!(settings.plugin("Mine").grants.expect("grants").reads, manifest.needs.objects);
        assert_eq!(granted(&Manifest::default(), Digest::new([7; 32]), None).1, None);
        assert!(shown(&[], &[]).ends_with("Granted              nothing\n"));
    }

    #[test]
    fn exports_of_a_toolchain_stand_apart() {
        let text = shown(&[], &["init", "berth:scheduler/lifecycle@0.2.0", "exports"]);
        assert!(text.contains("\nExports              berth:scheduler/lifecycle@0.2.0\n"), "{text}");
        assert!(text.contains("\nToolchain's exports  init, exports\n"), "{text}");
        assert!(!shown(&[], &["berth:scheduler/lifecycle@0.2.0"]).contains("Toolchain"));
    }
}
