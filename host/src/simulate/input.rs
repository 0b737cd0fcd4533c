//! The simulated cluster. Its objects come from files, folders and standard input, and from a live cluster, which the
//! command only reads.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use berth_cluster::{ConnectError, ConnectOptions, ListError, USER_AGENT, connect, list};
use berth_config::Usage;
use berth_model::KindRef;
use berth_plugin_cli::block_on;
use berth_telemetry::chain;
use berth_what_if::{Cluster, ClusterReader, ReadError};
use clap::Args;
use tracing::info;

use crate::manifests;

/// The number of broken objects that a message lists. The message counts the others.
const LISTED: usize = 20;

/// The kinds that are read from a live cluster, because the built-in plugins and disruption budgets need these kinds.
/// The first two kinds are required.
const KINDS: [(&str, &str); 21] = [
    ("v1", "Node"),
    ("v1", "Pod"),
    ("v1", "Namespace"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "ReplicationController"),
    ("v1", "Service"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("policy/v1", "PodDisruptionBudget"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("storage.k8s.io/v1", "CSIDriver"),
    ("storage.k8s.io/v1", "CSINode"),
    ("storage.k8s.io/v1", "CSIStorageCapacity"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("storage.k8s.io/v1", "VolumeAttachment"),
    ("resource.k8s.io/v1", "DeviceClass"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceSlice"),
];

/// The source of the cluster.
#[derive(Args, Debug)]
pub(crate) struct Input {
    /// Manifests of the cluster and of pods to be placed: files or folders, YAML or JSON; `-` is standard input. Can be repeated
    #[arg(short, long = "filename", value_name = "PATH", required_unless_present = "from_cluster")]
    files: Vec<PathBuf>,
    /// Read the cluster of the kubeconfig without changing it; -f adds to it
    #[arg(long)]
    from_cluster: bool,
    /// kubeconfig file of --from-cluster [default: $KUBECONFIG, the pod's service account, ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "from_cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME", requires = "from_cluster")]
    context: Option<String>,
    /// Leave out objects that cannot be read, and report them
    #[arg(long)]
    skip_broken: bool,
}

/// All objects that were read, before a cluster is made from them.
pub(crate) struct Objects {
    pub(crate) reader: ClusterReader,
    /// Kinds that could not be read, each in a sentence.
    pub(crate) warnings: Vec<String>,
}

impl Input {
    /// The cluster of all files and, with `--from-cluster`, of the live cluster. `kinds` are read from the live cluster
    /// as well.
    pub(super) fn read(&self, kinds: Vec<KindRef>) -> Result<Cluster> {
        let Objects { reader, warnings } = self.objects(kinds)?;
        let (mut cluster, errors) = reader.finish();
        self.tell_broken(&errors)?;
        if !errors.is_empty() {
            cluster.warn(left_out(errors.len()));
        }
        warnings.into_iter().for_each(|warning| cluster.warn(warning));
        Ok(cluster)
    }

    /// All objects of the files and of the live cluster.
    pub(crate) fn objects(&self, kinds: Vec<KindRef>) -> Result<Objects> {
        let mut objects = Objects { reader: ClusterReader::default(), warnings: Vec::new() };
        if self.from_cluster {
            block_on(self.read_live(kinds, &mut objects))?;
        }
        for path in &self.files {
            if path.as_os_str() == "-" {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).map_err(|error| Usage(format!("standard input: {error}")))?;
                objects.reader.read("standard input", &text);
                continue;
            }
            for file in manifests::files(path).map_err(|error| Usage(format!("{error:#}")))? {
                objects.reader.read(&file.display().to_string(), &text_of(&file)?);
            }
        }
        Ok(objects)
    }

    /// Reports broken objects. The command fails unless `--skip-broken` leaves them out.
    pub(crate) fn tell_broken(&self, errors: &[ReadError]) -> Result<()> {
        if errors.is_empty() {
            return Ok(());
        }
        let mut listed: Vec<String> = errors.iter().take(LISTED).map(ToString::to_string).collect();
        if errors.len() > LISTED {
            listed.push(format!("and {} more", errors.len() - LISTED));
        }
        let listed = listed.join("\n  ");
        let objects = counted(errors.len());
        if !self.skip_broken {
            let them = if errors.len() == 1 { "it" } else { "them" };
            bail!(Usage(format!("{objects} cannot be used; --skip-broken continues without {them}:\n  {listed}")));
        }
        Ok(writeln!(io::stderr(), "without {objects} that cannot be used:\n  {listed}")?)
    }

    async fn read_live(&self, more: Vec<KindRef>, objects: &mut Objects) -> Result<()> {
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        let options =
            ConnectOptions { kubeconfig, context, user_agent: USER_AGENT.to_owned(), ..ConnectOptions::default() };
        let connection = connect(&options).await.map_err(|error| match error {
            ConnectError::NoCluster => Usage(format!("{error} with --kubeconfig FILE")),
            error => Usage(chain(&error)),
        })?;
        info!(server = connection.server, "reading the cluster");
        let client = connection.client();
        let mut kinds: Vec<KindRef> =
            KINDS.iter().map(|(api_version, kind)| KindRef::of_kind(api_version, kind)).collect();
        kinds.extend(
            more.into_iter().filter(|kind| !KINDS.contains(&(kind.api_version().as_str(), kind.kind.as_str()))),
        );
        for (at, kind) in kinds.iter().enumerate() {
            match list(&client, kind).await {
                Ok(found) => found.into_iter().for_each(|object| objects.reader.take(&connection.server, object)),
                // No question can be answered without nodes and pods.
                Err(error) if at < 2 => bail!("--from-cluster: {error}"),
                // The server is older, or a feature gate is off.
                Err(ListError::NotServed { .. }) => {}
                Err(error @ ListError::Forbidden { .. }) => {
                    objects
                        .warnings
                        .push(format!("the simulation does without {}: this user may not list it: {error}", kind.kind));
                }
                Err(error) => bail!("--from-cluster: {error}"),
            }
        }
        Ok(())
    }
}

fn counted(n_objects: usize) -> String {
    if n_objects == 1 { "1 object".to_owned() } else { format!("{n_objects} objects") }
}

fn left_out(n_objects: usize) -> String {
    let because = if n_objects == 1 { "was left out, because it" } else { "were left out, because they" };
    format!("{} {because} cannot be used", counted(n_objects))
}

fn text_of(file: &Path) -> Result<String, Usage> {
    fs::read_to_string(file).map_err(|error| Usage(format!("{}: cannot be read: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_is_not_several() {
        assert_eq!(left_out(1), "1 object was left out, because it cannot be used");
        assert_eq!(left_out(3), "3 objects were left out, because they cannot be used");
    }
}
