//! The API server: does it answer, what time does it have, and may the scheduler do what it does?

use berth_cluster::{Client, ConnectError, ConnectOptions, USER_AGENT, connect, has_access, server_info};
use berth_runtime::rights::{Rights, Serving};
use berth_telemetry::chain;

use super::{Area, Doctor, Findings, files::Setup};

/// Leases and tokens of Kubernetes bear this much.
const MAX_SECONDS_AHEAD: i64 = 5;

pub(super) async fn look(doctor: &Doctor, setup: Option<&Setup>, findings: &mut Findings) {
    let named = setup.map(|setup| setup.settings.client_connection.kubeconfig.clone()).filter(|file| !file.is_empty());
    let kubeconfig = doctor.kubeconfig.clone().or_else(|| named.map(Into::into));
    let options = ConnectOptions {
        kubeconfig,
        context: doctor.context.clone(),
        user_agent: USER_AGENT.to_owned(),
        ..ConnectOptions::default()
    };
    let connection = match connect(&options).await {
        Ok(connection) => connection,
        Err(error) => {
            let fix = match &error {
                ConnectError::NoCluster => "give --kubeconfig FILE, or --offline to look at files only",
                _ => "correct the kubeconfig",
            };
            return findings.problem(Area::Cluster, chain(&error), fix);
        }
    };
    let client = connection.client();
    let server = connection.server;
    match server_info(&client).await {
        Err(error) => {
            let fix = "is the address right, and can this machine reach it?";
            return findings.problem(Area::Cluster, format!("{server}: {}", chain(&error)), fix);
        }
        Ok(facts) => {
            findings.ok(Area::Cluster, format!("{server} answers: Kubernetes {}", facts.version));
            clocks(facts.seconds_ahead, findings);
        }
    }
    rights(&client, &needed(setup), findings).await;
}

fn clocks(seconds_ahead: Option<i64>, findings: &mut Findings) {
    match seconds_ahead {
        None => findings.warning(Area::Cluster, "the API server does not say what time it is", "compare by hand"),
        Some(ahead) if ahead.abs() > MAX_SECONDS_AHEAD => {
            let relation = if ahead > 0 { "ahead of" } else { "behind" };
            let text = format!("the API server's clock is {} s {relation} this machine's", ahead.abs());
            findings.problem(Area::Cluster, text, "set the clocks (NTP): ages and time-outs of pods depend on them");
        }
        Some(_) => findings.ok(Area::Cluster, "the clocks agree"),
    }
}

async fn rights(client: &Client, needed: &Rights, findings: &mut Findings) {
    let mut missing = 0;
    for (right, users) in needed.iter() {
        match has_access(client, right).await {
            Ok(true) => {}
            Ok(false) => {
                missing += 1;
                let users: Vec<&str> = users.iter().map(String::as_str).collect();
                let text = format!("this user may not {right}, which is for {}", users.join(", "));
                let role = match right.namespace.as_str() {
                    "" => "its ClusterRole".to_owned(),
                    namespace => format!("a Role for it in the namespace {namespace}"),
                };
                let fix = format!("add to {role}: {} (`berth rbac` prints all roles)", right.rule());
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
        findings.ok(Area::Cluster, format!("this user may do all {n_needed} things that the scheduler does"));
    }
}

/// What must be allowed, and to which user.
fn needed(setup: Option<&Setup>) -> Rights {
    match setup {
        Some(Setup { settings, plugins }) => Rights::of_setup(settings, &plugins.inventory, Serving::Http),
        None => Rights::of_scheduler(Serving::Http),
    }
}
