//! `berth snapshot`: a cluster as a file, for `berth simulate` and for bug reports.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use berth_what_if::{Redaction, snapshot};
use clap::Args;

use crate::simulate::{Input, Objects};

const AFTER_HELP: &str = "\
A snapshot contains only what scheduling reads. Containers keep their name, image, resources and ports; Secrets and ConfigMaps are
left out. `berth simulate -f` reads a snapshot.

With --redact, digests replace the names of objects, namespaces and images, and all labels that are not Kubernetes' own. Within one
snapshot the same name has the same digest, so selectors and references still match. Annotations are left out. The number of
pods and the requests of pods stay as they are.

Examples:
  berth snapshot --from-cluster --to cluster.json
  berth snapshot --from-cluster --redact --to cluster.json
  kubectl get nodes,pods -A -o yaml | berth snapshot -f - --redact";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    input: Input,
    /// Replace names by digests
    #[arg(long)]
    redact: bool,
    /// Write to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Snapshot) -> Result<()> {
    let Objects { reader, warnings } = arguments.input.objects(Vec::new())?;
    arguments.input.tell_broken(reader.errors())?;
    for warning in warnings {
        writeln!(io::stderr(), "warning: {warning}")?;
    }
    // Each snapshot has its own salt, so names cannot be compared with names of another snapshot.
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).context("cannot generate the salt of the digests")?;
    let redaction = arguments.redact.then(|| Redaction::new(&salt));
    let text =
        serde_json::to_string(&snapshot(reader.objects(), redaction.as_ref())).context("cannot write the snapshot")?;
    match &arguments.to {
        Some(file) => {
            fs::write(file, text + "\n").with_context(|| format!("--to {}: cannot be written", file.display()))
        }
        None => Ok(writeln!(io::stdout().lock(), "{text}")?),
    }
}
