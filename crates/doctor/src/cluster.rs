//! The API server. The checks ask whether it answers, which version and time it has, which schedulers hold a Lease,
//! whether a user may do what the scheduler does, and whether the kinds that plugins read exist.

use std::{
    collections::BTreeSet,
    fmt,
    time::{Duration, Instant},
};

use berth_cluster::{
    Client, ConnectError, ConnectOptions, Connection, Impersonation, Kinds, LeaseHolder, ServerInfo, ServerInfoError,
    USER_AGENT, WriteError, connect, has_access, lease_holder, server_info,
};
use berth_config::{LeaderElection, Profile, emulation::KubernetesVersion};
use berth_plugin_host::watched_kinds;
use berth_runtime::rights::{Operation, Rights};
use berth_telemetry::chain;

use crate::{
    Cluster,
    files::Setup,
    findings::{Area, Findings},
};

/// The clock difference that Leases and tokens of Kubernetes tolerate.
const MAX_SECONDS_AHEAD: i64 = 5;

/// The number of answers that are timed. The median counts.
const N_ANSWERS: usize = 5;

/// A slow answer. Each binding takes at least one request.
const SLOW_ANSWER: Duration = Duration::from_millis(100);

/// A Lease by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LeaseName<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// `kube-system/berth`.
impl fmt::Display for LeaseName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The Lease of the cluster's own scheduler.
const KUBE_SCHEDULERS_LEASE: LeaseName<'static> = LeaseName { namespace: "kube-system", name: "kube-scheduler" };

/// The API server's answers to the first questions.
pub(crate) struct Answer {
    connection: Result<Connection, ConnectError>,
    /// The server's facts, and the time that the server takes to answer; `None` without a connection.
    facts: Option<Result<(ServerInfo, Duration), ServerInfoError>>,
}

impl Answer {
    /// Asks the API server.
    pub(crate) async fn of(cluster: &Cluster) -> Self {
        let options = ConnectOptions {
            kubeconfig: cluster.kubeconfig.clone(),
            context: cluster.context.clone(),
            impersonation: cluster.impersonation.clone(),
            user_agent: USER_AGENT.to_owned(),
            ..ConnectOptions::default()
        };
        let connection = connect(&options).await;
        let facts = match &connection {
            Ok(connection) => Some(timed_info(&connection.client()).await),
            Err(_) => None,
        };
        Self { connection, facts }
    }

    /// The server's version, if it is known.
    pub(crate) fn version(&self) -> Option<KubernetesVersion> {
        let (facts, _) = self.facts.as_ref()?.as_ref().ok()?;
        facts.version.parse().ok()
    }
}

/// Checks the cluster. `version` is the value of `--emulated-version`.
pub(crate) async fn look(
    cluster: &Cluster,
    Answer { connection, facts }: Answer,
    version: Option<KubernetesVersion>,
    setup: Option<&Setup>,
    findings: &mut Findings,
) {
    let connection = match connection {
        Ok(connection) => connection,
        Err(error) => {
            let fix = match &error {
                ConnectError::NoCluster => "give --kubeconfig FILE, or --offline to look at files only",
                ConnectError::Impersonation { .. } => "correct --as or --as-group",
                _ => "correct the kubeconfig",
            };
            return findings.problem(Area::Cluster, chain(&error), fix);
        }
    };
    let client = connection.client();
    let (server, impersonation) = (connection.server, cluster.impersonation.as_ref());
    match facts {
        None => {}
        Some(Err(error)) => {
            return no_answer(&server, &error, impersonation, findings);
        }
        Some(Ok((facts, took))) => {
            findings.ok(Area::Cluster, format!("{server} answers: Kubernetes {}", facts.version));
            latency(took, findings);
            release(&facts.version, version, findings);
            clocks(facts.seconds_ahead, findings);
        }
    }
    if let Some(Setup { settings, .. }) = setup {
        leaders(&client, &settings.leader_election, &settings.profiles, cluster.is_before_installation, findings).await;
    }
    let user = impersonation.map(|impersonation| impersonation.user.as_str());
    rights(&client, user, &needed(setup, cluster.operation), findings).await;
    if let Some(setup) = setup {
        kinds(&client, setup, findings).await;
    }
}

/// Says why there is no answer from the server.
fn no_answer(server: &str, error: &ServerInfoError, impersonation: Option<&Impersonation>, findings: &mut Findings) {
    let reason = chain(error);
    match impersonation {
        Some(impersonation) if error.is_impersonation_refused() => {
            let text = format!("{server}: this user may not impersonate {:?}: {reason}", impersonation.user);
            let rules = impersonation.rules().join(", ");
            let fix = format!("add to a ClusterRole of this user: {rules}, or do without --as");
            findings.problem(Area::Cluster, text, fix);
        }
        Some(_) | None => {
            let fix = "is the address right, and can this machine reach it?";
            findings.problem(Area::Cluster, format!("{server}: {reason}"), fix);
        }
    }
}

/// Warns of kinds that the plugins of profiles need and the server does not serve. Kubernetes' own kinds are not
/// checked, because they follow from the release.
async fn kinds(client: &Client, Setup { settings, plugins }: &Setup, findings: &mut Findings) {
    let (kinds, inventory) = (Kinds::new(client.clone()), &plugins.inventory);
    let names: BTreeSet<_> = settings.profiles.iter().flat_map(|profile| profile.plugins.named()).collect();
    for name in names {
        let Some(manifest) = inventory.manifest(name) else { continue };
        for kind in watched_kinds::wanted(&manifest, inventory.rules().features) {
            let shown = watched_kinds::shown(&kind);
            match kinds.resolve(&kind).await {
                Ok(_) => {}
                Err(WriteError::NotFound { .. }) => findings.warning(
                    Area::Cluster,
                    format!("{name} reads {shown}, which this cluster does not serve"),
                    watched_kinds::advice_on_missing(&kind),
                ),
                Err(error) => findings.warning(
                    Area::Cluster,
                    format!("{name} reads {shown}, and it is unknown whether this cluster serves it: {error}"),
                    "use a user that may read the API server's discovery",
                ),
            }
        }
    }
}

/// The server's facts, and the time that it takes to answer.
async fn timed_info(client: &Client) -> Result<(ServerInfo, Duration), ServerInfoError> {
    // The first answer is not timed, because it includes the time of a new connection.
    let mut facts = server_info(client).await?;
    let mut times = Vec::new();
    for _ in 0..N_ANSWERS {
        let start = Instant::now();
        facts = server_info(client).await?;
        // `server_info` sends two requests.
        times.push(start.elapsed() / 2);
    }
    times.sort_unstable();
    Ok((facts, times[N_ANSWERS / 2]))
}

fn latency(took: Duration, findings: &mut Findings) {
    let text = format!("the API server answers in {} ms", took.as_micros().div_ceil(1_000));
    if took < SLOW_ANSWER {
        findings.ok(Area::Cluster, text);
    } else {
        let fix = "run the scheduler near the API server: each binding takes a request";
        findings.warning(Area::Cluster, text, fix);
    }
}

/// Checks whether decisions follow the rules of the API server's release. `asked` is the value of `--emulated-version`.
fn release(version: &str, asked: Option<KubernetesVersion>, findings: &mut Findings) {
    if let Some(asked) = asked {
        let nearest = KubernetesVersion::from(asked.nearest().0);
        let text = format!("decisions are those of kube-scheduler {nearest}, as --emulated-version asks");
        return findings.ok(Area::Cluster, text);
    }
    let Ok(known) = version.parse::<KubernetesVersion>() else {
        let fix = "set --emulated-version";
        return findings.warning(Area::Cluster, format!("unknown Kubernetes version {version}"), fix);
    };
    let (release, is_exact) = known.nearest();
    let nearest = KubernetesVersion::from(release);
    if is_exact {
        findings.ok(Area::Cluster, format!("decisions are those of kube-scheduler {nearest}, the cluster's release"));
    } else {
        let text =
            format!("decisions are those of kube-scheduler {nearest}, the nearest release to the cluster's {known}");
        let fix = if known < nearest {
            "upgrade the cluster first: like kube-scheduler, Berth must not be newer than the API server"
        } else {
            "take a release of Berth that knows this version of Kubernetes"
        };
        findings.warning(Area::Cluster, text, fix);
    }
}

/// Checks the Leases: whether another scheduler serves the same pods, and whether this scheduler's replicas have a
/// leader.
async fn leaders(
    client: &Client,
    election: &LeaderElection,
    profiles: &[Profile],
    is_before: bool,
    findings: &mut Findings,
) {
    let own = LeaseName { namespace: &election.resource_namespace, name: &election.resource_name };
    if election.leader_elect {
        match lease_holder(client, own.namespace, own.name).await {
            Err(error) => unknown_leader(own, &chain(&error), findings),
            Ok(Some(holder)) if !holder.is_over() => findings.ok(Area::Cluster, held(own, &holder)),
            Ok(_) if is_before => {
                findings.ok(Area::Cluster, format!("the Lease {own} has no holder: a replica can take it"));
            }
            Ok(_) => {
                let text = format!("the Lease {own} has no holder: no replica schedules pods");
                findings.warning(
                    Area::Cluster,
                    text,
                    "are the replicas running and ready? Before they are installed give --pre. In a sandbox all is well: \
                     the scheduler of `berth sandbox` is alone and holds no Lease",
                );
            }
        }
    } else {
        let fix = "run one replica, and no other scheduler for its profiles";
        findings.warning(
            Area::Cluster,
            "leaderElection.leaderElect is false: nothing keeps two replicas from scheduling",
            fix,
        );
    }
    let kube_schedulers = KUBE_SCHEDULERS_LEASE;
    if election.leader_elect && own == kube_schedulers {
        return;
    }
    let serves_default = profiles.iter().any(|profile| profile.scheduler_name == "default-scheduler");
    match lease_holder(client, kube_schedulers.namespace, kube_schedulers.name).await {
        Err(error) => unknown_leader(kube_schedulers, &chain(&error), findings),
        Ok(Some(holder)) if !holder.is_over() && serves_default => {
            let text = format!(
                "{}, and this configuration also has the profile default-scheduler: both schedulers schedule its pods",
                held(kube_schedulers, &holder)
            );
            let fix = "give the profile another schedulerName, or contend for that Lease (leaderElection.resourceName)";
            findings.problem(Area::Cluster, text, fix);
        }
        Ok(Some(holder)) if !holder.is_over() => {
            findings.ok(
                Area::Cluster,
                format!("{}: it schedules the pods of default-scheduler", held(kube_schedulers, &holder)),
            );
        }
        Ok(_) if serves_default => {}
        Ok(_) => {
            let text = format!(
                "the Lease {kube_schedulers} has no holder: no scheduler may be running for pods of default-scheduler"
            );
            findings.warning(Area::Cluster, text, "check the cluster's own scheduler, or serve default-scheduler");
        }
    }
}

fn unknown_leader(lease: LeaseName<'_>, error: &str, findings: &mut Findings) {
    let text = format!("the holder of the Lease {lease} is unknown: {error}");
    findings.warning(Area::Cluster, text, "use a user that may get leases.coordination.k8s.io in this namespace");
}

/// `a_1 holds the Lease kube-system/berth, renewed 2 s ago`.
fn held(lease: LeaseName<'_>, holder: &LeaseHolder) -> String {
    let ago = holder.renewed_seconds_ago.unwrap_or_default().max(0);
    format!("{} holds the Lease {lease}, renewed {ago} s ago", holder.identity)
}

fn clocks(seconds_ahead: Option<i64>, findings: &mut Findings) {
    match seconds_ahead {
        None => findings.warning(Area::Cluster, "the API server does not report its time", "compare by hand"),
        Some(ahead) if ahead.abs() > MAX_SECONDS_AHEAD => {
            let relation = if ahead > 0 { "ahead of" } else { "behind" };
            let text = format!("the API server's clock is {} s {relation} this machine's", ahead.abs());
            findings.problem(Area::Cluster, text, "set the clocks (NTP): ages and time-outs of pods depend on them");
        }
        Some(_) => findings.ok(Area::Cluster, "the clocks agree"),
    }
}

/// Checks the rights of the client's user. `impersonated` is the name of this user if it is not the user of the
/// credentials.
async fn rights(client: &Client, impersonated: Option<&str>, needed: &Rights, findings: &mut Findings) {
    let user = impersonated.unwrap_or("this user");
    let hint = if impersonated.is_none() { "; --as USER checks the rights of another user" } else { "" };
    let mut missing = 0;
    for (right, users) in needed.iter() {
        match has_access(client, right).await {
            Ok(true) => {}
            Ok(false) => {
                missing += 1;
                let users: Vec<&str> = users.iter().map(String::as_str).collect();
                let text = format!("{user} may not {right}: it is needed for {}", users.join(", "));
                let role = match right.namespace.as_str() {
                    "" => format!("a ClusterRole of {user}"),
                    namespace => format!("a Role of {user} in the namespace {namespace}"),
                };
                let fix = format!("add to {role}: {} (`berth rbac` prints all roles{hint})", right.rule());
                findings.problem(Area::Cluster, text, fix);
            }
            Err(error) => {
                let fix = "ask a cluster administrator; by default every user may review their own access";
                return findings.problem(Area::Cluster, chain(&error), fix);
            }
        }
    }
    if missing == 0 {
        let n_needed = needed.iter().count();
        findings.ok(Area::Cluster, format!("{user} has all {n_needed} rights that the scheduler needs"));
    }
}

/// The rights that the scheduler needs, each with the parts of the scheduler that need it.
fn needed(setup: Option<&Setup>, operation: Operation) -> Rights {
    match setup {
        Some(Setup { settings, plugins }) => Rights::of_setup(settings, &plugins.inventory, operation),
        None => Rights::of_scheduler(operation.serving),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finding, Verdict};

    /// What is said about an API server of this version.
    fn said(version: &str) -> Finding {
        let mut findings = Findings::default();
        release(version, None, &mut findings);
        findings.into_vec().remove(0)
    }

    #[test]
    fn an_api_server_of_an_unknown_release_is_too_old_or_too_new() {
        assert_eq!(said("v1.36.2").result, Verdict::Ok);
        assert_eq!(said("v1.37.0+k3s1").result, Verdict::Ok);
        for (version, advice) in [("v1.35.9", "upgrade the cluster first"), ("v1.38.0", "take a release of Berth")] {
            let finding = said(version);
            assert_eq!(finding.result, Verdict::Warning, "{version}");
            let fix = finding.fix.expect("advice");
            assert!(fix.starts_with(advice), "{version}: {fix}");
        }
    }
}
