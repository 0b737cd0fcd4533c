//! A folder of recorded files: its content, and its comparison.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use berth_model::Features;
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::{
    case::Case,
    check::{check_as, check_explanation},
    execution::Execution,
    findings::Findings,
    registrations, tables,
};

/// Families of scheduling cases. Simple families come first.
const CASE_FAMILIES: [&str; 14] = [
    "fit",
    "taints",
    "affinity",
    "ports",
    "images",
    "mixed",
    "big",
    "spread",
    "interpod",
    "volumes",
    "preemption",
    "scenarios",
    "devices",
    "gated",
];
/// Tables, each for one small function.
const TABLE_FAMILIES: [&str; 5] = ["quantity", "pod_requests", "selectors", "tolerations", "numeric"];
/// The family with the events of each plugin.
const HINTS_FAMILY: &str = "queueing_hints";
const SUFFIX: &str = ".jsonl.gz";

/// A folder of recorded files.
#[derive(Clone, Debug)]
pub struct Suite {
    dir: PathBuf,
    families: Vec<Family>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cases,
    /// The rows do not depend on how plugins are run.
    Table,
    /// The events for which plugins register in the queue.
    Registrations,
}

/// A mistake in the folder or the request.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("{path} is not a directory", path = .0.display())]
    NoDirectory(PathBuf),
    #[error("{path} holds no recorded cases (*{SUFFIX})", path = .0.display())]
    NoFiles(PathBuf),
    #[error("there is no family {family:?} here; there are {known}", known = .known.join(", "))]
    UnknownFamily { family: String, known: Vec<&'static str> },
    #[error("there is no case {0:?} here")]
    UnknownCase(String),
    #[error("cannot read {path}", path = .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}, line {line}, is not a case", path = .path.display())]
    Parse { path: PathBuf, line: usize, source: serde_json::Error },
}

impl Suite {
    /// Lists the recorded files in `dir`.
    ///
    /// # Errors
    /// The path is not a folder, or contains no recorded file.
    pub fn open(dir: &Path) -> Result<Self, SuiteError> {
        if !dir.is_dir() {
            return Err(SuiteError::NoDirectory(dir.to_owned()));
        }
        let cases = CASE_FAMILIES.into_iter().map(|name| Family { name, kind: Kind::Cases });
        let hints = Family { name: HINTS_FAMILY, kind: Kind::Registrations };
        let tables = TABLE_FAMILIES.into_iter().map(|name| Family { name, kind: Kind::Table });
        let all = cases.chain([hints]).chain(tables);
        let suite = Self { dir: dir.to_owned(), families: Vec::new() };
        let families: Vec<Family> = all.filter(|family| suite.path(family.name).is_file()).collect();
        if families.is_empty() {
            return Err(SuiteError::NoFiles(dir.to_owned()));
        }
        Ok(Self { families, ..suite })
    }

    #[must_use]
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The family with this name.
    ///
    /// # Errors
    /// There is no such family.
    pub fn family(&self, name: &str) -> Result<&Family, SuiteError> {
        let known = || self.families.iter().map(|family| family.name).collect();
        let found = self.families.iter().find(|family| family.name == name);
        found.ok_or_else(|| SuiteError::UnknownFamily { family: name.to_owned(), known: known() })
    }

    /// The family and the case with this id. The id names the family to search first.
    ///
    /// # Errors
    /// No file contains the case, or a file cannot be read.
    pub fn find(&self, id: &str) -> Result<(&Family, Case), SuiteError> {
        let cases = self.families.iter().filter(|family| family.kind == Kind::Cases);
        let mut likely: Vec<&Family> = cases.collect();
        likely.sort_by_key(|family| !id.starts_with(family.name));
        for family in likely {
            for case in self.cases(family)? {
                let case = case?;
                if case.id == id {
                    return Ok((family, case));
                }
            }
        }
        Err(SuiteError::UnknownCase(id.to_owned()))
    }

    /// The cases of `family`, which are read one by one.
    ///
    /// # Errors
    /// The file cannot be read. Each item may also have an error about its line.
    pub fn cases(&self, family: &Family) -> Result<impl Iterator<Item = Result<Case, SuiteError>>, SuiteError> {
        self.rows(family)
    }

    /// Runs every case of `family` and passes the findings on. A table has one item of findings for each row.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn run(
        &self,
        family: &Family,
        execution: &dyn Execution,
        mut report: impl FnMut(&str, &Findings),
    ) -> Result<(), SuiteError> {
        self.run_each(family, execution, |id, check| report(id, &check(Features::default())))
    }

    /// Explains the pod of every case of `family`, as `berth explain` does, and passes the findings on. Tables and
    /// registrations have no explanations.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn explain(
        &self,
        family: &Family,
        execution: &dyn Execution,
        mut report: impl FnMut(&str, &Findings),
    ) -> Result<(), SuiteError> {
        if family.kind == Kind::Cases {
            for case in self.cases(family)? {
                let case = case?;
                report(&case.id, &check_explanation(&case, Features::default(), execution));
            }
        }
        Ok(())
    }

    /// Passes on each case of `family`, which can be checked with any features. Tables do not depend on features.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn run_each(
        &self,
        family: &Family,
        execution: &dyn Execution,
        mut each: impl FnMut(&str, &dyn Fn(Features) -> Findings),
    ) -> Result<(), SuiteError> {
        match family.kind {
            Kind::Cases => {
                for case in self.cases(family)? {
                    let case = case?;
                    each(&case.id, &|features| check_as(&case, features, execution));
                }
            }
            Kind::Registrations => {
                for (number, row) in (1..).zip(self.rows(family)?) {
                    let (id, row) = (format!("{} row {number}", family.name), row?);
                    each(&id, &|features| registrations::check(&row, features, execution));
                }
            }
            Kind::Table => {
                let rows: Vec<Value> = self.rows(family)?.collect::<Result<_, _>>()?;
                for (number, row) in (1..).zip(rows) {
                    let findings = check_row(family.name, row);
                    each(&format!("{} row {number}", family.name), &|_| findings.clone());
                }
            }
        }
        Ok(())
    }

    fn path(&self, family: &str) -> PathBuf {
        self.dir.join(format!("{family}{SUFFIX}"))
    }

    fn rows<T: serde::de::DeserializeOwned>(
        &self,
        family: &Family,
    ) -> Result<impl Iterator<Item = Result<T, SuiteError>>, SuiteError> {
        let path = self.path(family.name);
        let file = File::open(&path).map_err(|source| SuiteError::Read { path: path.clone(), source })?;
        let lines = BufReader::new(GzDecoder::new(BufReader::new(file))).lines();
        Ok((1..).zip(lines).map(move |(line, text)| {
            let text = text.map_err(|source| SuiteError::Read { path: path.clone(), source })?;
            serde_json::from_str(&text).map_err(|source| SuiteError::Parse { path: path.clone(), line, source })
        }))
    }
}

fn check_row(table: &str, row: Value) -> Findings {
    let mut findings = Findings { n_compared: 1, ..Findings::default() };
    for mismatch in tables::run(table, std::iter::once(row)).mismatches {
        findings.differ("row", "as recorded", mismatch);
    }
    findings
}
