//! The holder of a Lease, for programs that only read it.

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

use crate::{api_error::RequestFailure, clock};

/// The holder that a Lease names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// `spec.holderIdentity`.
    pub identity: String,
    /// The seconds since the last renewal, by this machine's clock; `None` if the Lease was never renewed.
    pub renewed_seconds_ago: Option<i64>,
    /// `spec.leaseDurationSeconds`.
    pub duration_seconds: i64,
}

impl LeaseHolder {
    /// Whether the Lease was not renewed in time, so that another candidate may take it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.renewed_seconds_ago.is_none_or(|ago| ago > self.duration_seconds)
    }
}

/// The Lease could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the Lease cannot be read: {0}")]
pub struct LeaseError(String);

/// The holder of the Lease; `None` if the Lease does not exist, or was released.
///
/// # Errors
/// The API server does not return the Lease.
pub async fn lease_holder(client: &Client, namespace: &str, name: &str) -> Result<Option<LeaseHolder>, LeaseError> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = api.get_opt(name).await.map_err(|error| LeaseError(RequestFailure::from(error).to_string()))?;
    let Some(spec) = lease.and_then(|lease| lease.spec) else { return Ok(None) };
    let Some(identity) = spec.holder_identity.filter(|identity| !identity.is_empty()) else { return Ok(None) };
    let renewed_seconds_ago = spec.renew_time.map(|time| clock::now().duration_since(time.0).as_secs());
    let duration_seconds = spec.lease_duration_seconds.unwrap_or_default().into();
    Ok(Some(LeaseHolder { identity, renewed_seconds_ago, duration_seconds }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_server;

    async fn holder(code: u16, answer: Value) -> Option<LeaseHolder> {
        let (client, mut server) = test_server::server();
        let asking = tokio::spawn(async move { lease_holder(&client, "kube-system", "berth").await });
        let call = server.next().await;
        assert_eq!(call.line(), "GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth");
        call.answer(code, &answer);
        asking.await.expect("no panic").expect("an answer")
    }

    #[tokio::test]
    async fn a_lease_has_a_holder_until_it_is_given_back_or_runs_out() {
        let lease = |spec: Value| json!({"metadata": {"name": "berth"}, "spec": spec});
        let old = lease(
            json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}),
        );
        let old = holder(200, old).await.expect("a holder");
        assert_eq!((old.identity.as_str(), old.is_over()), ("a", true));
        let now = clock::micros(clock::now());
        let held = lease(json!({"holderIdentity": "b", "leaseDurationSeconds": 15, "renewTime": now}));
        assert!(!holder(200, held).await.expect("a holder").is_over());
        assert_eq!(holder(200, lease(json!({"holderIdentity": "", "leaseDurationSeconds": 1}))).await, None);
        let absent =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
        assert_eq!(holder(404, absent).await, None);
    }
}
