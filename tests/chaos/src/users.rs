//! The actions of users, which create, delete and resize pods at the times of the plan.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant as TokioInstant, sleep_until},
};

use crate::plan::Operation;

/// The number of concurrent requests.
const AT_ONCE: usize = 32;

/// The number of attempts for a request that the API server refuses temporarily.
const TRIES: u32 = 5;

/// Carries out all actions of the plan, each at its time, or as soon as the API server accepts the action.
///
/// # Errors
/// The API server refused a request that it must accept.
pub(crate) async fn act(pods: Api<Pod>, began: Instant, operations: Vec<(Duration, Operation)>) -> Result<()> {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut under_way: JoinSet<Result<()>> = JoinSet::new();
    for (at, operation) in operations {
        sleep_until(TokioInstant::from_std(began + at)).await;
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let pods = pods.clone();
        under_way.spawn(async move {
            let _permit = permit;
            perform(&pods, operation).await.with_context(|| format!("{operation:?}"))
        });
        while let Some(ended) = under_way.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = under_way.join_next().await {
        ended??;
    }
    Ok(())
}

/// The name of the plan's pod.
pub(crate) fn name(pod: u32) -> String {
    format!("chaos-{pod:05}")
}

async fn perform(pods: &Api<Pod>, operation: Operation) -> Result<()> {
    let mut tries = 0;
    loop {
        let refused = match once(pods, operation).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let code = if let kube::Error::Api(status) = &refused { status.code } else { 0 };
        match (code, operation) {
            // The pod no longer exists, or already exists because of the first attempt.
            (404, Operation::Delete { .. } | Operation::Resize { .. }) | (409, Operation::Create { .. }) => {
                return Ok(());
            }
            // A pod that is being deleted is not resized.
            (409 | 422, Operation::Resize { .. }) => return Ok(()),
            _ => {}
        }
        tries += 1;
        if tries == TRIES {
            return Err(refused.into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn once(pods: &Api<Pod>, operation: Operation) -> kube::Result<()> {
    match operation {
        Operation::Create { pod, milli_cpu } => {
            pods.create(&PostParams::default(), &manifest(pod, milli_cpu)?).await?;
        }
        Operation::Delete { pod, gracefully } => {
            let params = if gracefully { DeleteParams::default() } else { DeleteParams::default().grace_period(0) };
            pods.delete(&name(pod), &params).await?;
        }
        Operation::Resize { pod, milli_cpu } => {
            let requests = json!({"requests": {"cpu": format!("{milli_cpu}m")}});
            let patch = json!({"spec": {"containers": [{"name": "main", "resources": requests}]}});
            let params = PatchParams::default();
            pods.patch_subresource("resize", &name(pod), &params, &Patch::Strategic(patch)).await?;
        }
    }
    Ok(())
}

fn manifest(pod: u32, milli_cpu: u32) -> kube::Result<Pod> {
    let manifest = json!({
        "metadata": {"name": name(pod), "labels": {"app": "chaos"}},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 5,
            "containers": [{
                "name": "main",
                "image": "example.com/web:1",
                "resources": {"requests": {"cpu": format!("{milli_cpu}m"), "memory": "64Mi"}},
            }],
        },
    });
    serde_json::from_value(manifest).map_err(kube::Error::SerdeError)
}
