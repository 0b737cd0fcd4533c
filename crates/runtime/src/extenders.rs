//! HTTP extenders. The scheduling thread asks them about nodes and waits for the answers. The executor asks them to
//! bind pods.
//!
//! An extender that hangs costs each attempt its `httpTimeout`, as in kube-scheduler. `berth_framework` decides the
//! meaning of an answer; this module sends the requests and reads the answers.

mod wire;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use berth_cluster::{JsonService, JsonServiceError, JsonServiceOptions};
use berth_config::ExtenderTls;
use berth_framework::{
    Call, ExtenderError, ExtenderIdx, ExtenderProfile, ExtenderVerdict, ExtenderVictims, Extenders, Manifest,
    ObjectKind, Preemption,
};
use berth_model::{NodeIdx, Pod};
use berth_scheduler::PodRef;
use berth_serving::Health;
use futures::future::join_all;
use serde_json::Value;
use tokio::runtime::Handle;
use tracing::{debug, error, info};

/// The number of bytes that is enough for the reasons. An answer contains at most the data that was sent, and a reason
/// for each node.
const MAX_REASONS: usize = 16 << 20;

/// The extenders of the configuration, ready for calls.
#[derive(Debug)]
pub(crate) struct HttpExtenders {
    profiles: Vec<ExtenderProfile>,
    /// The extenders, in the order of `profiles`.
    extenders: Vec<HttpExtender>,
    runtime: Handle,
    /// Knows when the scheduling loop waits for an extender.
    health: Health,
}

#[derive(Debug)]
struct HttpExtender {
    settings: berth_config::Extender,
    service: JsonService,
}

impl HttpExtenders {
    /// Connects the extenders; `None` if none is configured. This must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The address or the certificates of an extender cannot be used.
    pub(crate) async fn connect(configured: &[berth_config::Extender], health: &Health) -> Result<Option<Arc<Self>>> {
        if configured.is_empty() {
            return Ok(None);
        }
        let mut extenders = Vec::new();
        for (index, settings) in configured.iter().enumerate() {
            let service = JsonService::new(options(settings)).await;
            let service = service.with_context(|| format!("extenders[{index}]"))?;
            extenders.push(HttpExtender { settings: settings.clone(), service });
        }
        extenders.sort_by_key(|extender| extender.settings.ignorable);
        let profiles = extenders.iter().map(HttpExtender::profile).collect();
        Ok(Some(Arc::new(Self { profiles, extenders, runtime: Handle::current(), health: health.clone() })))
    }

    /// The data that must be sent to the extenders, in the form of a plugin's manifest. Some extenders need complete
    /// nodes, or complete pods that may be evicted.
    pub(crate) fn manifest(&self) -> Manifest {
        let mut manifest =
            Manifest { name: "extenders".to_owned(), events_to_register: Some(Vec::new()), ..Manifest::default() };
        let mut need = |kind: &str| {
            manifest.needs.objects.push(ObjectKind { api_version: "v1".to_owned(), kind: kind.to_owned() });
        };
        if self.extenders.iter().any(HttpExtender::needs_nodes) {
            need("Node");
        }
        if self.extenders.iter().any(HttpExtender::needs_placed_pods) {
            need("Pod");
        }
        manifest
    }

    /// Asks an extender to bind the pod: `extender`, or the extender that binds if the configuration has changed since.
    ///
    /// # Errors
    /// The extender refused, or gave no usable answer.
    pub(crate) async fn bind(&self, extender: ExtenderIdx, pod: &PodRef, node: &str) -> Result<(), ExtenderError> {
        let binds = |extender: &&HttpExtender| !extender.settings.bind_verb.is_empty();
        let extender = self.extenders.get(extender.0).filter(binds).or_else(|| self.extenders.iter().find(binds));
        let extender = extender.ok_or_else(|| ExtenderError::new("no configured extender has a bindVerb"))?;
        let body = wire::binding(&pod.namespace, &pod.name, &pod.uid, node);
        wire::binding_result(&extender.post(&extender.settings.bind_verb, body).await?)
    }

    fn get(&self, extender: ExtenderIdx) -> Result<&HttpExtender, ExtenderError> {
        self.extenders.get(extender.0).ok_or_else(|| ExtenderError::new("no such extender"))
    }
}

impl Extenders for HttpExtenders {
    fn list(&self) -> &[ExtenderProfile] {
        &self.profiles
    }

    fn is_interested(&self, extender: ExtenderIdx, pod: &Pod) -> bool {
        self.extenders.get(extender.0).is_some_and(|extender| extender.is_interested(pod))
    }

    fn filter(
        &self,
        extender: ExtenderIdx,
        call: &Call<'_>,
        nodes: &[NodeIdx],
    ) -> Result<ExtenderVerdict, ExtenderError> {
        let extender = self.get(extender)?;
        extender.noted(self.runtime.block_on(self.health.while_waiting(extender.filter(call, nodes))))
    }

    fn preempt(
        &self,
        extender: ExtenderIdx,
        call: &Call<'_>,
        preemptions: &[Preemption],
    ) -> Result<Vec<ExtenderVictims>, ExtenderError> {
        let extender = self.get(extender)?;
        extender.noted(self.runtime.block_on(self.health.while_waiting(extender.preempt(call, preemptions))))
    }

    fn prioritize(
        &self,
        extenders: &[ExtenderIdx],
        call: &Call<'_>,
        nodes: &[NodeIdx],
    ) -> Vec<(ExtenderIdx, Vec<(String, i64)>)> {
        let ask = async |index: &ExtenderIdx| {
            let extender = self.extenders.get(index.0)?;
            match extender.prioritize(call, nodes).await {
                Ok(scores) => Some((*index, scores)),
                Err(error) => {
                    debug!(extender = extender.settings.url_prefix, %error, "extender gave no scores");
                    None
                }
            }
        };
        let answers = self.health.while_waiting(join_all(extenders.iter().map(ask)));
        self.runtime.block_on(answers).into_iter().flatten().collect()
    }
}

impl HttpExtender {
    fn profile(&self) -> ExtenderProfile {
        let settings = &self.settings;
        ExtenderProfile {
            name: settings.url_prefix.clone(),
            is_ignorable: settings.ignorable,
            filters: !settings.filter_verb.is_empty(),
            preempts: !settings.preempt_verb.is_empty(),
            weight: (!settings.prioritize_verb.is_empty()).then_some(settings.weight),
            binds: !settings.bind_verb.is_empty(),
        }
    }

    fn needs_nodes(&self) -> bool {
        let asks_about_nodes = !self.settings.filter_verb.is_empty() || !self.settings.prioritize_verb.is_empty();
        asks_about_nodes && !self.settings.node_cache_capable
    }

    fn needs_placed_pods(&self) -> bool {
        !self.settings.preempt_verb.is_empty() && !self.settings.node_cache_capable
    }

    /// Returns the extender's answer unchanged. A failure that is ignored is logged.
    fn noted<T>(&self, answer: Result<T, ExtenderError>) -> Result<T, ExtenderError> {
        if let Err(error) = &answer
            && self.settings.ignorable
        {
            let extender = self.settings.url_prefix.as_str();
            info!(extender, %error, "skipping extender: it returned an error and is ignorable");
        }
        answer
    }

    /// Whether a container or init container has a request or limit for a resource that the extender manages.
    fn is_interested(&self, pod: &Pod) -> bool {
        if self.settings.managed_resources.is_empty() {
            return true;
        }
        let Some(pod) = pod.json.as_deref().and_then(|json| serde_json::from_slice::<Value>(json).ok()) else {
            // The extender is asked without the pod, so it answers with an error. The attempt fails, which makes the
            // problem visible.
            error!(pod = %pod.name, "a pending pod is not kept as JSON, but extenders need it");
            return true;
        };
        let containers = ["containers", "initContainers"].map(|field| pod["spec"][field].as_array());
        let mut amounts = containers.into_iter().flatten().flatten().flat_map(|container| {
            ["requests", "limits"].map(|field| container["resources"][field].as_object()).into_iter().flatten()
        });
        amounts.any(|amounts| self.settings.managed_resources.iter().any(|it| amounts.contains_key(&it.name)))
    }

    async fn filter(&self, call: &Call<'_>, nodes: &[NodeIdx]) -> Result<ExtenderVerdict, ExtenderError> {
        let names = names(call, nodes);
        let body = self.arguments(call, &names)?;
        let answer = self.post(&self.settings.filter_verb, body).await?;
        wire::filter_result(&answer, &self.settings.url_prefix, self.settings.node_cache_capable, &names)
    }

    async fn preempt(
        &self,
        call: &Call<'_>,
        preemptions: &[Preemption],
    ) -> Result<Vec<ExtenderVictims>, ExtenderError> {
        let pod = call.pod.json.as_deref().ok_or_else(|| ExtenderError::new("the pod is not kept as JSON"))?;
        let body = wire::preemption(pod, call.table, preemptions, self.settings.node_cache_capable)?;
        wire::preemption_result(&self.post(&self.settings.preempt_verb, body).await?)
    }

    async fn prioritize(&self, call: &Call<'_>, nodes: &[NodeIdx]) -> Result<Vec<(String, i64)>, ExtenderError> {
        let body = self.arguments(call, &names(call, nodes))?;
        wire::host_priorities(&self.post(&self.settings.prioritize_verb, body).await?)
    }

    fn arguments(&self, call: &Call<'_>, names: &[&str]) -> Result<Vec<u8>, ExtenderError> {
        let pod = call.pod.json.as_deref().ok_or_else(|| ExtenderError::new("the pod is not kept as JSON"))?;
        if self.settings.node_cache_capable {
            return wire::arguments(pod, Err(names));
        }
        let mut objects: Vec<&[u8]> = Vec::with_capacity(names.len());
        for name in names {
            // Nodes arrive over two watches. If the node is not in both yet, the next attempt finds it.
            let node = call.table.objects().get("v1", "Node", "", name);
            objects.push(node.ok_or_else(|| ExtenderError::new(format!("node {name:?} is not listed yet")))?);
        }
        wire::arguments(pod, Ok(&objects))
    }

    async fn post(&self, verb: &str, body: Vec<u8>) -> Result<Vec<u8>, ExtenderError> {
        let limit = body.len() + MAX_REASONS;
        self.service.post(verb, body, limit).await.map_err(|error| match error {
            JsonServiceError::Status { url, code } => {
                ExtenderError::new(format!("failed {verb} with extender at URL {url}, code {code}"))
            }
            error @ (JsonServiceError::TimedOut { .. }
            | JsonServiceError::TooLong { .. }
            | JsonServiceError::Transport { .. }
            | JsonServiceError::Options { .. }) => ExtenderError::new(error),
        })
    }
}

fn names<'a>(call: &Call<'a>, nodes: &[NodeIdx]) -> Vec<&'a str> {
    nodes.iter().map(|&node| call.table.symbols.text(call.table.name(node))).collect()
}

/// The options of the extender's client. If there is HTTPS but no authorities, kube-scheduler does not verify the
/// certificate (`makeTransport` in `pkg/scheduler/extender.go`).
fn options(settings: &berth_config::Extender) -> JsonServiceOptions {
    let tls = settings.tls_config.clone().unwrap_or_default();
    let has_authorities = !tls.ca_file.is_empty() || !tls.ca_data.is_empty();
    let ExtenderTls { insecure, server_name, cert_file, key_file, ca_file, cert_data, key_data, ca_data } = tls;
    JsonServiceOptions {
        url: settings.url_prefix.clone(),
        timeout: settings.http_timeout,
        insecure: insecure || (settings.enable_https && !has_authorities),
        server_name,
        ca_file,
        ca_data,
        cert_file,
        cert_data,
        key_file,
        key_data,
    }
}
