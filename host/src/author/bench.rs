//! `berth plugin bench`: what each extension point costs, beside the native plugin or another version.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use berth_author::{Measurement, measure};
use berth_framework::PluginFactory;
use clap::Args;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::project::{self, Target};
use crate::{options::Output, table};

#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(flatten)]
    target: Target,
    /// Another component to compare with [default: the native plugin, for a built-in's name]
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// The plugin's arguments (`pluginConfig`) as JSON
    #[arg(long, default_value = "null", value_name = "JSON")]
    args: String,
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
    /// The same call of what it is compared with.
    against: Option<f64>,
}

pub(crate) fn run(bench: &Bench) -> Result<()> {
    let loaded = bench.target.load()?;
    let (other, title): (Option<Box<dyn PluginFactory>>, String) = match &bench.against {
        Some(file) => {
            let other = project::load(file)?;
            let title = other.title();
            (Some(Box::new(other.factory)), title)
        }
        None => match berth_builtins::factory(&loaded.factory.manifest().name) {
            Some(native) => (Some(Box::new(Native(native))), "native".to_owned()),
            None => (None, String::new()),
        },
    };
    let mut rows = Vec::new();
    for &n_nodes in &bench.nodes {
        let measured = measure(&loaded.factory, &bench.args, n_nodes).map_err(anyhow::Error::msg)?;
        let others = other.as_ref().map(|other| measure(&**other, &bench.args, n_nodes)).transpose();
        let others = others.map_err(anyhow::Error::msg).context(title.clone())?.unwrap_or_default();
        rows.extend(measured.into_iter().map(|measured| {
            let same = others.iter().find(|other| other.call == measured.call);
            Row { against: same.map(|other| other.microseconds), measured }
        }));
    }
    let mut out = io::stdout().lock();
    match bench.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &rows)?;
            writeln!(out)?;
        }
        Output::Table => {
            writeln!(out, "{}, microseconds, medians; every node is asked about", loaded.title())?;
            writeln!(out, "{}", table::text(&listed(&rows, &title)))?;
        }
    }
    Ok(())
}

/// A shared factory as one of its own.
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
