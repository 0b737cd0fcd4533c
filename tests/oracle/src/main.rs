//! `oracle DIR`: compares Berth with recorded answers of kube-scheduler.
//!
//! The exit code is 0 if everything agrees, 1 if something differs, and 2 if the request is invalid.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use berth_model::{Features, Release};
use clap::{Parser, ValueEnum};
use oracle::{
    Causes, Execution, Findings, Native, Suite, SuiteError, check, check_explanation,
    report::{FamilyReport, Report, Tally, case_text, causes_text},
    suite::{Family, Kind},
};

/// Compares Berth with recorded answers of kube-scheduler.
#[derive(Debug, Parser)]
struct Args {
    /// The folder with the recorded *.jsonl.gz files.
    dir: PathBuf,
    /// Only this family, that is, this file without its ending.
    #[arg(long)]
    family: Option<String>,
    /// The execution of the plugins.
    #[arg(long, value_enum, default_value_t = How::Both)]
    execution: How,
    /// Take the components from this folder of NAME.wasm files instead of the embedded components.
    #[arg(long, value_name = "DIR")]
    components: Option<PathBuf>,
    /// Compare as kube-scheduler of this Kubernetes release, and say which change of the release each difference comes from
    /// [default: 1.36, which was recorded]
    #[arg(long, value_name = "VERSION", value_parser = release, conflicts_with_all = ["case", "output"])]
    emulated_version: Option<Release>,
    /// Compare the explanation of `berth explain` about each case's pod: every plugin's verdict on every node, counts,
    /// scores, and what a preemption would do
    #[arg(long, conflicts_with = "emulated_version")]
    explain: bool,
    /// Only this case, with every difference.
    #[arg(long, conflicts_with = "family")]
    case: Option<String>,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    Native,
    Wasm,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(1),
        Err(error) => {
            let mut stderr = io::stderr().lock();
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            // If stderr is closed, the message cannot be written.
            let _ = writeln!(stderr, "oracle: {error}{cause}");
            ExitCode::from(2)
        }
    }
}

/// Runs the comparison, and returns whether something differs.
fn run(args: &Args) -> Result<bool, anyhow::Error> {
    let suite = Suite::open(&args.dir)?;
    let executions = executions(args.execution, args.components.as_deref())?;
    if let Some(id) = &args.case {
        return run_case(&suite, id, &executions, args);
    }
    let families: Vec<&Family> = match &args.family {
        Some(name) => vec![suite.family(name)?],
        None => suite.families().iter().collect(),
    };
    if let Some(release) = args.emulated_version {
        return run_as(release, &suite, &families, &executions);
    }
    let mut report = Report::default();
    for family in families {
        if args.explain && family.kind != Kind::Cases {
            continue;
        }
        report.families.push(run_family(&suite, family, &executions, args.explain)?);
    }
    match args.output {
        Output::Text => print(&report.to_text())?,
        Output::Json => print(&(serde_json::to_string_pretty(&report)? + "\n"))?,
    }
    Ok(report.differs())
}

fn executions(how: How, components: Option<&Path>) -> Result<Vec<Box<dyn Execution>>, anyhow::Error> {
    match how {
        How::Native => Ok(vec![Box::new(Native)]),
        How::Wasm => Ok(vec![wasm(components)?]),
        How::Both => Ok(vec![Box::new(Native), wasm(components)?]),
    }
}

#[cfg(feature = "wasm")]
fn wasm(components: Option<&Path>) -> Result<Box<dyn Execution>, anyhow::Error> {
    let wasm = match components {
        Some(dir) => oracle::Wasm::load_from(dir, None),
        None => oracle::Wasm::load(None),
    };
    Ok(Box::new(wasm?))
}

#[cfg(not(feature = "wasm"))]
fn wasm(_components: Option<&Path>) -> Result<Box<dyn Execution>, anyhow::Error> {
    anyhow::bail!("built without the feature `wasm`; say --execution native")
}

fn run_family(
    suite: &Suite,
    family: &Family,
    executions: &[Box<dyn Execution>],
    explains: bool,
) -> Result<FamilyReport, SuiteError> {
    let mut report = FamilyReport { family: family.name.to_owned(), ..FamilyReport::default() };
    for execution in executions {
        let mut tally = Tally::default();
        let add = |case: &str, findings: &Findings| tally.add(case, findings);
        if explains { suite.explain(family, &**execution, add) } else { suite.run(family, &**execution, add) }?;
        report.set(execution.name(), tally);
        if family.kind == Kind::Table {
            break;
        }
    }
    Ok(report)
}

/// Returns whether some difference has no cause.
fn run_as(
    release: Release,
    suite: &Suite,
    families: &[&Family],
    executions: &[Box<dyn Execution>],
) -> Result<bool, anyhow::Error> {
    let mut is_explained = true;
    for (family, execution) in families.iter().flat_map(|family| executions.iter().map(move |it| (family, it))) {
        let mut causes = Causes::default();
        suite.run_each(family, &**execution, |id, check| causes.add(id, release, check))?;
        is_explained &= causes.unexplained.is_empty();
        print(&causes_text(family.name, execution.name(), &causes))?;
    }
    Ok(!is_explained)
}

fn release(name: &str) -> Result<Release, String> {
    Release::from_name(name).ok_or_else(|| "use 1.36 or 1.37".to_owned())
}

fn run_case(suite: &Suite, id: &str, executions: &[Box<dyn Execution>], args: &Args) -> Result<bool, anyhow::Error> {
    let output = args.output;
    let (family, case) = suite.find(id)?;
    let mut report = FamilyReport { family: family.name.to_owned(), ..FamilyReport::default() };
    for execution in executions {
        let findings = if args.explain {
            check_explanation(&case, Features::default(), &**execution)
        } else {
            check(&case, &**execution)
        };
        if output == Output::Text {
            print(&case_text(id, execution.name(), &findings))?;
        }
        let mut tally = Tally::default();
        tally.add(id, &findings);
        report.set(execution.name(), tally);
    }
    let report = Report { families: vec![report] };
    if output == Output::Json {
        print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    }
    Ok(report.differs())
}

fn print(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
}
