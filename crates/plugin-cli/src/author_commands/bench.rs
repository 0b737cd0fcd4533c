//! `berth plugin bench`: the time of each extension point, compared with the native plugin or another version, and the
//! plugin's use of memory.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use berth_author::{HarnessError, MeasuredPlugin, Measurement, Situation, Sizes, measure, sizes};
use berth_config::Usage;
use berth_framework::PluginFactory;
use berth_wasm_host::{Binary, ComponentFactory, delta_bytes};
use clap::Args;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::{
    arguments::{self, Source},
    cases::Cases,
    project::{self, Loaded, Target},
};
use crate::{output::Output, table};

#[derive(Args, Debug)]
pub struct Bench {
    #[command(flatten)]
    target: Target,
    /// Another component to compare with [default: the native plugin, for a built-in's name]
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// The plugin's arguments (`pluginConfig`) as JSON
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// A file of cases: measure with the arguments, objects and pods of its first case, within its limits [default:
    /// *.cases.yaml or cases.yaml in the plugin's folder, unless --args is given]
    #[arg(long, value_name = "FILE", conflicts_with = "args")]
    cases: Option<PathBuf>,
    /// Sizes of the cluster
    #[arg(long, value_delimiter = ',', default_value = "100,1000,5000", value_name = "N,...")]
    nodes: Vec<u64>,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// One line of the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(flatten)]
    measured: Measurement,
    /// The figure of the compared plugin for the same call.
    against: Option<f64>,
}

/// The plugin's use of memory on a cluster of one size.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Footprint {
    #[serde(flatten)]
    deltas: Sizes,
    /// The linear memory after the calls.
    memory: u64,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    calls: Vec<Row>,
    sizes: Vec<Footprint>,
    /// A sentence for each point that was called for no pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uncalled: Vec<String>,
    /// The size at which a call failed. Nothing was measured after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<FailedSize>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailedSize {
    n_nodes: u64,
    error: String,
}

/// The plugin that is measured, and the plugin that it is compared with.
struct Subjects<'a> {
    plugin: &'a ComponentFactory,
    title: String,
    situation: Situation,
    source: Source,
    other: Option<Box<dyn PluginFactory>>,
    /// Empty if the plugin is not compared.
    other_title: String,
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    let loaded = bench.target.load()?;
    let (plugin, situation, source) = subject(bench, &loaded)?;
    let (other, other_title): (Option<Box<dyn PluginFactory>>, String) = match &bench.against {
        Some(file) => {
            // Another version often has another file name.
            let bytes = project::read(file)?.bytes().to_vec();
            let name = project::name_in_manifest(&bytes).with_context(|| format!("--against {}", file.display()))?;
            let other = project::load_binary(Binary::new(name, bytes), &file.display().to_string())?;
            let title = other.title();
            (Some(Box::new(other.factory)), title)
        }
        None => match berth_builtins::factory(&loaded.factory.manifest().name) {
            Some(native) => (Some(Box::new(Native(native))), "native".to_owned()),
            None => (None, String::new()),
        },
    };
    let subjects = Subjects { plugin: &plugin, title: loaded.title(), situation, source, other, other_title };
    let (report, failure) = subjects.measured(&bench.nodes);
    loaded.warn_of_undeclared_reads()?;
    print(&report, &subjects, bench.output)?;
    failure.map_or(Ok(()), Err)
}

fn print(report: &Report, subjects: &Subjects<'_>, output: Output) -> Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
        }
        // The error says everything.
        Output::Table if report.sizes.is_empty() && report.failed.is_some() => {}
        Output::Table => {
            writeln!(out, "{}, microseconds, medians; every node is asked about", subjects.title)?;
            writeln!(out, "{}", table::text(&listed(&report.calls, &subjects.other_title)))?;
            for sentence in &report.uncalled {
                writeln!(out, "{sentence}")?;
            }
            writeln!(out, "{}", table::text(&weighed(&report.sizes)))?;
        }
    }
    Ok(())
}

impl Subjects<'_> {
    /// The results up to the first call that failed.
    fn measured(&self, sizes: &[u64]) -> (Report, Option<anyhow::Error>) {
        let mut report = Report::default();
        for &n_nodes in sizes {
            match self.measured_at(n_nodes) {
                Ok((rows, uncalled, footprint)) => {
                    report.calls.extend(rows);
                    report.sizes.push(footprint);
                    for sentence in uncalled {
                        if !report.uncalled.contains(&sentence) {
                            report.uncalled.push(sentence);
                        }
                    }
                }
                Err(error) => {
                    report.failed = Some(FailedSize { n_nodes, error: format!("{error:#}") });
                    return (report, Some(error));
                }
            }
        }
        (report, None)
    }

    /// The times, the sentences about points that were not called, and the use of memory.
    fn measured_at(&self, n_nodes: u64) -> Result<(Vec<Row>, Vec<String>, Footprint)> {
        let Self { plugin, situation, .. } = self;
        let measured = measure(*plugin, situation, n_nodes).map_err(|error| self.explain(error, n_nodes))?;
        let MeasuredPlugin { calls, uncalled } = measured;
        let memory = plugin.stats().memory_bytes();
        let deltas = sizes(*plugin, situation, n_nodes, delta_bytes).map_err(|error| self.explain(error, n_nodes))?;
        let others = self.other.as_ref().map(|other| measure(&**other, situation, n_nodes)).transpose();
        let others = others.map_err(anyhow::Error::msg);
        let others = others.with_context(|| format!("{} nodes: {}", n_nodes, self.other_title))?.unwrap_or_default();
        let rows = calls.into_iter().map(|measured| {
            let same = others.calls.iter().find(|other| other.call == measured.call);
            Row { against: same.map(|other| other.microseconds), measured }
        });
        Ok((rows.collect(), uncalled, Footprint { deltas, memory }))
    }

    /// Explains the error. The error of refused arguments names no size, because it does not depend on the size.
    fn explain(&self, error: HarnessError, n_nodes: u64) -> anyhow::Error {
        match error {
            HarnessError::Build(_) => self.source.explain(error),
            HarnessError::Call(_) | HarnessError::Object(_) | HarnessError::Pod(_) => {
                anyhow::anyhow!("{n_nodes} nodes: {}, with {}: {error}", self.title, self.source)
            }
        }
    }
}

/// The plugin, the situation in which it is measured, and the source of that situation.
fn subject(bench: &Bench, loaded: &Loaded) -> Result<(ComponentFactory, Situation, Source)> {
    if let Some(args) = &bench.args {
        let situation = Situation::of_args(arguments::checked(args)?);
        return Ok((loaded.factory.clone(), situation, Source::Option));
    }
    let files = bench.cases.clone().map_or_else(|| bench.target.cases(), |path| Ok(vec![path]))?;
    for path in &files {
        let cases = Cases::read(path, loaded)?;
        let factory = cases.limited(&loaded.factory);
        if let Some(situation) = Situation::of_cases(&cases.file).next() {
            factory.set_now(situation.now().unwrap_or_default());
            let source = Source::case(path, &situation);
            return Ok((factory, situation, source));
        }
    }
    if let Some(path) = &bench.cases {
        return Err(
            Usage(format!("{}: contains no case with arguments that the plugin accepts", path.display())).into()
        );
    }
    Ok((loaded.factory.clone(), Situation::of_args("null"), Source::None))
}

/// Makes an owned factory from a shared factory.
#[derive(Debug)]
struct Native(std::sync::Arc<dyn PluginFactory>);

impl PluginFactory for Native {
    fn manifest(&self) -> &berth_framework::Manifest {
        self.0.manifest()
    }
    fn points(&self) -> berth_framework::Points {
        self.0.points()
    }
    fn version(&self) -> berth_framework::PluginVersion {
        self.0.version()
    }
    fn build(&self, args: &str) -> Result<Box<dyn berth_framework::Plugin>, berth_framework::BuildError> {
        self.0.build(args)
    }
}

fn listed(rows: &[Row], against: &str) -> Table {
    let mut table = table::new();
    if against.is_empty() {
        table.set_header(["NODES", "CALL", "US"]);
    } else {
        table.set_header(["NODES", "CALL", "US", against, "RATIO"]);
    }
    for Row { measured, against: other } in rows {
        let mut cells =
            vec![measured.n_nodes.to_string(), measured.call.to_owned(), format!("{:.1}", measured.microseconds)];
        if !against.is_empty() {
            cells.push(other.map_or_else(String::new, |other| format!("{other:.1}")));
            cells.push(other.map_or_else(String::new, |other| format!("{:.1}", measured.microseconds / other)));
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().enumerate().filter(|(at, _)| *at != 1).map(|(_, column)| column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn weighed(footprints: &[Footprint]) -> Table {
    let mut table = table::new();
    table.set_header(["NODES", "MEMORY", "FULL DELTA", "ONE POD"]);
    for Footprint { deltas, memory } in footprints {
        let [memory, full_delta, one_pod] = [*memory, deltas.full_delta, deltas.one_pod].map(shown);
        table.add_row([deltas.n_nodes.to_string(), memory, full_delta, one_pod]);
    }
    table.column_iter_mut().for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    table
}

/// `312 B`, `4.5 KiB`, `12.3 MiB`.
fn shown(bytes: u64) -> String {
    let tenths = |unit: u64| bytes.saturating_mul(10) / unit;
    let with_unit = |unit: u64, name: &str| format!("{}.{} {name}", tenths(unit) / 10, tenths(unit) % 10);
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => with_unit(1 << 10, "KiB"),
        _ => with_unit(1 << 20, "MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn amounts_of_memory_are_short() {
        let amounts = [0, 1023, 1024, 1_048_575, 1_048_576, 55_574_528].map(shown);
        assert_eq!(amounts, ["0 B", "1023 B", "1.0 KiB", "1023.9 KiB", "1.0 MiB", "53.0 MiB"]);
    }
}
