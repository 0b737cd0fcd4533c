//! The folder with the binaries of etcd and kube-apiserver.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};

const VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// A folder with `etcd` and `kube-apiserver`.
#[derive(Clone, Debug)]
pub struct Assets {
    folder: PathBuf,
}

impl Assets {
    /// The folder in `KUBEBUILDER_ASSETS`; `None` if the variable is not set. Fails if a binary is missing in the
    /// folder.
    pub fn from_environment() -> Result<Option<Self>> {
        let Some(folder) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Ok(None) };
        let assets = Self { folder: folder.into() };
        for program in [assets.etcd(), assets.kube_apiserver()] {
            ensure!(program.is_file(), "{VARIABLE}: {} is not there", program.display());
        }
        Ok(Some(assets))
    }

    /// The path of kube-scheduler, which envtest does not contain; `None` if the file does not exist.
    #[must_use]
    pub fn kube_scheduler(&self) -> Option<PathBuf> {
        Some(self.folder.join("kube-scheduler")).filter(|program| program.is_file())
    }

    /// The path of the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn etcd(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    pub(crate) fn kube_apiserver(&self) -> PathBuf {
        self.folder.join("kube-apiserver")
    }
}
