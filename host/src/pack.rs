//! `berth pack`: this program with its built-in components compiled, as `cargo xtask dist` hands it to users.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Result, anyhow};
use berth_telemetry::chain;
use berth_wasm_host::{Binary, PackedSizes, pack_this_program};
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct Pack {
    /// The file to write
    #[arg(value_name = "FILE")]
    to: PathBuf,
}

pub(crate) fn run(pack: &Pack) -> Result<()> {
    let components = berth_components::COMPONENTS.iter();
    let components: Vec<Binary> = components.map(|it| Binary::embedded(it.name, it.bytes())).collect();
    let sizes = pack_this_program(&components, &pack.to);
    let sizes = sizes.map_err(|error| anyhow!("{}: {}", pack.to.display(), chain(&error)))?;
    let PackedSizes { program, artefacts, uncompressed } = sizes;
    writeln!(io::stderr(), "program:             {program:>11} bytes")?;
    writeln!(io::stderr(), "compiled components: {artefacts:>11} bytes, {uncompressed} in memory")?;
    Ok(())
}
