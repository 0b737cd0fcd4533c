//! Leader election: the lease for which the schedulers of a cluster compete, and its durations.

use std::time::Duration;

use berth_model::duration::{NANOS_PER_SECOND, from_nanos, render_duration};
use serde_json::{Value, json};

use crate::fields::Fields;

/// The settings of the election, in which one of several schedulers becomes active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether schedulers elect a leader. Without an election, the scheduler works without a Lease.
    pub leader_elect: bool,
    /// The time after which other schedulers take over a Lease that was not renewed.
    pub lease_duration: Duration,
    /// The time after which a leader gives up if it could not renew the Lease.
    pub renew_deadline: Duration,
    /// The time between two attempts to acquire or renew the lease.
    pub retry_period: Duration,
    /// Name of the Lease object.
    pub resource_name: String,
    /// Namespace of the Lease object.
    pub resource_namespace: String,
}

/// The only kind of lock that Kubernetes still has.
const RESOURCE_LOCK: &str = "leases";

/// Reads and checks `leaderElection`. If the election is off, only types are checked, as in kube-scheduler.
/// `resource_name` is the default for a document without a name.
pub(crate) fn read_leader_election(fields: Fields<'_>, resource_name: &'static str) -> LeaderElection {
    let leader_elect = fields.flag("leaderElect").unwrap_or(true);
    // Zero and the empty string count as unset, as in Kubernetes' own defaulting.
    let nanos = |name, default_seconds| {
        let given = fields.duration_nanos(name).filter(|nanos| *nanos != 0);
        given.unwrap_or(default_seconds * NANOS_PER_SECOND)
    };
    let [lease_nanos, renew_nanos, retry_nanos] =
        [nanos("leaseDuration", 15), nanos("renewDeadline", 10), nanos("retryPeriod", 2)];
    let text = |name, default: &'static str| fields.text(name).filter(|text| !text.is_empty()).unwrap_or(default);
    let lock = text("resourceLock", RESOURCE_LOCK);
    let election = LeaderElection {
        leader_elect,
        lease_duration: from_nanos(lease_nanos),
        renew_deadline: from_nanos(renew_nanos),
        retry_period: from_nanos(retry_nanos),
        resource_name: text("resourceName", resource_name).to_owned(),
        resource_namespace: text("resourceNamespace", "kube-system").to_owned(),
    };
    if leader_elect {
        let durations = [("leaseDuration", lease_nanos), ("renewDeadline", renew_nanos), ("retryPeriod", retry_nanos)];
        for (name, nanos) in durations {
            if nanos < 0 {
                fields.invalid(name, fields.text(name), "must be greater than zero");
            }
        }
        if lease_nanos <= renew_nanos {
            fields.invalid("leaseDuration", shown(lease_nanos), "LeaseDuration must be greater than RenewDeadline");
        }
        // Between two attempts, the elector waits for the retry period and up to a fifth more.
        if i128::from(renew_nanos) * 5 <= i128::from(retry_nanos) * 6 {
            fields.invalid("renewDeadline", shown(renew_nanos), "must be greater than 1.2 times retryPeriod");
        }
        if lock != RESOURCE_LOCK {
            fields.invalid("resourceLock", lock, "resourceLock value must be \"leases\"");
        }
    }
    fields.finish();
    election
}

fn shown(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    format!("{sign}{}", render_duration(Duration::from_nanos(nanos.unsigned_abs())))
}

impl LeaderElection {
    /// The value of `leaderElection` in a document.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "leaderElect": self.leader_elect,
            "leaseDuration": render_duration(self.lease_duration),
            "renewDeadline": render_duration(self.renew_deadline),
            "retryPeriod": render_duration(self.retry_period),
            "resourceLock": RESOURCE_LOCK,
            "resourceName": self.resource_name,
            "resourceNamespace": self.resource_namespace,
        })
    }
}
