//! HTTP extenders: services outside the scheduler's process that take part in its decisions. Berth supports them for
//! compatibility with kube-scheduler.

use std::{collections::BTreeSet, time::Duration};

use berth_model::duration::{from_nanos, render_duration};
use serde_json::{Map, Value, json};

use crate::{fields::Fields, names::extended_resource_name_problem};

/// The address of one extender, and the questions that it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender {
    /// The URL to which verbs are appended. Logs name the extender by this URL.
    pub url_prefix: String,
    /// The verb for filtering; empty if the extender does not filter.
    pub filter_verb: String,
    /// The verb for preemption; empty if the extender is not called for preemption.
    pub preempt_verb: String,
    /// The verb for scoring; empty if the extender does not score.
    pub prioritize_verb: String,
    /// The factor for the extender's scores. It is positive for an extender that scores.
    pub weight: i64,
    /// The verb for binding; empty if the extender does not bind. At most one extender binds.
    pub bind_verb: String,
    /// Whether to speak HTTPS.
    pub enable_https: bool,
    /// The TLS settings. `None` means that HTTPS does not verify the extender's certificate.
    pub tls_config: Option<ExtenderTls>,
    /// The time that one call may take.
    pub http_timeout: Duration,
    /// Whether the extender knows the nodes itself, so that the scheduler sends only their names.
    pub node_cache_capable: bool,
    /// If the list is not empty, the extender is asked only about pods that request one of these resources. Otherwise,
    /// it is asked about every pod.
    pub managed_resources: Vec<ManagedResource>,
    /// Whether scheduling continues when the extender fails.
    pub ignorable: bool,
}

/// TLS for the connection to an extender. Data fields are base64, as in the file, and take precedence over file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderTls {
    /// Whether the server's certificate is not verified.
    pub insecure: bool,
    /// The name to expect in the certificate, if it differs from the host's name.
    pub server_name: String,
    /// The file with the client certificate.
    pub cert_file: String,
    /// The file with the key of the client certificate.
    pub key_file: String,
    /// The file with the trusted authorities.
    pub ca_file: String,
    /// Client certificate, inline.
    pub cert_data: String,
    /// Key of the client certificate, inline.
    pub key_data: String,
    /// Trusted authorities, inline.
    pub ca_data: String,
}

/// An extended resource that an extender manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedResource {
    /// The name, such as `example.com/gpu`.
    pub name: String,
    /// Whether NodeResourcesFit skips this resource, because the extender checks it.
    pub ignored_by_scheduler: bool,
}

/// The timeout that kube-scheduler uses for an extender without a timeout.
const DEFAULT_HTTP_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads and checks `extenders`.
pub(crate) fn read_extenders(fields: &Fields<'_>) -> Vec<Extender> {
    let mut resources = BTreeSet::new();
    let extenders: Vec<_> =
        fields.objects("extenders").into_iter().map(|fields| read_extender(fields, &mut resources)).collect();
    let n_binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if n_binders > 1 {
        let message = format!("found {n_binders} extenders implementing bind");
        fields.invalid("extenders", message, "only one extender can implement bind");
    }
    extenders
}

fn read_extender(fields: Fields<'_>, resources: &mut BTreeSet<String>) -> Extender {
    let text = |name| fields.text(name).unwrap_or_default().to_owned();
    let extender = Extender {
        url_prefix: text("urlPrefix"),
        filter_verb: text("filterVerb"),
        preempt_verb: text("preemptVerb"),
        prioritize_verb: text("prioritizeVerb"),
        weight: fields.whole("weight").unwrap_or(0),
        bind_verb: text("bindVerb"),
        enable_https: fields.flag("enableHTTPS").unwrap_or(false),
        tls_config: fields.value("tlsConfig").map(|_| read_tls(fields.object("tlsConfig"))),
        http_timeout: read_timeout(&fields),
        node_cache_capable: fields.flag("nodeCacheCapable").unwrap_or(false),
        managed_resources: read_managed_resources(&fields, resources),
        ignorable: fields.flag("ignorable").unwrap_or(false),
    };
    if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
        fields.invalid("weight", extender.weight, "must have a positive weight applied to it");
    }
    fields.finish();
    extender
}

fn read_timeout(fields: &Fields<'_>) -> Duration {
    let nanos = fields.duration_nanos("httpTimeout").unwrap_or(0);
    if nanos < 0 {
        fields.invalid("httpTimeout", fields.text("httpTimeout"), "must not be negative");
    }
    if nanos > 0 { from_nanos(nanos) } else { DEFAULT_HTTP_TIMEOUT }
}

fn read_tls(fields: Fields<'_>) -> ExtenderTls {
    let text = |name| fields.text(name).unwrap_or_default().to_owned();
    let tls = ExtenderTls {
        insecure: fields.flag("insecure").unwrap_or(false),
        server_name: text("serverName"),
        cert_file: text("certFile"),
        key_file: text("keyFile"),
        ca_file: text("caFile"),
        cert_data: text("certData"),
        key_data: text("keyData"),
        ca_data: text("caData"),
    };
    fields.finish();
    tls
}

/// Reads the resources that an extender manages. `seen` covers all extenders, because only one extender may manage a
/// resource.
fn read_managed_resources(fields: &Fields<'_>, seen: &mut BTreeSet<String>) -> Vec<ManagedResource> {
    let mut managed = Vec::new();
    for resource in fields.objects("managedResources") {
        let name = resource.text("name").unwrap_or_default().to_owned();
        if let Some(problem) = extended_resource_name_problem(&name) {
            resource.invalid("name", name.as_str(), &problem);
        }
        if !seen.insert(name.clone()) {
            resource.invalid("name", name.as_str(), "duplicate extender managed resource name");
        }
        let ignored_by_scheduler = resource.flag("ignoredByScheduler").unwrap_or(false);
        resource.finish();
        managed.push(ManagedResource { name, ignored_by_scheduler });
    }
    managed
}

impl Extender {
    /// The extender as an `extenders` entry.
    pub(crate) fn to_json(&self) -> Value {
        let managed_resources: Vec<_> = self.managed_resources.iter().map(ManagedResource::to_json).collect();
        let mut entry = json!({
            "urlPrefix": self.url_prefix,
            "filterVerb": self.filter_verb,
            "preemptVerb": self.preempt_verb,
            "prioritizeVerb": self.prioritize_verb,
            "weight": self.weight,
            "bindVerb": self.bind_verb,
            "enableHTTPS": self.enable_https,
            "httpTimeout": render_duration(self.http_timeout),
            "nodeCacheCapable": self.node_cache_capable,
            "managedResources": managed_resources,
            "ignorable": self.ignorable,
        });
        if let (Some(tls), Some(entry)) = (&self.tls_config, entry.as_object_mut()) {
            entry.insert("tlsConfig".to_owned(), tls.to_json());
        }
        entry
    }
}

impl ExtenderTls {
    fn to_json(&self) -> Value {
        let texts = [
            ("serverName", &self.server_name),
            ("certFile", &self.cert_file),
            ("keyFile", &self.key_file),
            ("caFile", &self.ca_file),
            ("certData", &self.cert_data),
            ("keyData", &self.key_data),
            ("caData", &self.ca_data),
        ];
        let given = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let mut tls: Map<_, _> = given.map(|(name, text)| (name.to_owned(), json!(text))).collect();
        tls.insert("insecure".to_owned(), self.insecure.into());
        tls.into()
    }
}

impl ManagedResource {
    fn to_json(&self) -> Value {
        json!({ "name": self.name, "ignoredByScheduler": self.ignored_by_scheduler })
    }
}
