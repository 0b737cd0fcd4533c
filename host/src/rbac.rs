//! `berth rbac`: the roles that a setup needs, and no more, as manifests to apply.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
};

use anyhow::Result;
use berth_cluster::ResourceAccess;
use berth_plugin_host::{Plugins, Rules, settings_file};
use berth_runtime::{configuration, rights::Rights};
use berth_wasm_host::FaultSink;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tracing::warn;

use crate::options::{RightsOptions, Scheduling};

const EXAMPLES: &str = "\
Pass the same options as to `berth run`, and apply the printed roles. The rights depend on the plugins that the profiles enable, on the
objects that these plugins read, and on the grants in --plugin-config. Print the roles again after a change of any of these.

Examples:
  berth rbac --config scheduler.yaml --plugins-dir plugins --plugin-config plugin-host.yaml | kubectl apply -f -
  berth rbac --https --coordinated-leader-election --name kube-scheduler
  berth rbac --config scheduler.yaml --name second-scheduler --namespace scheduling -o json";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rbac {
    /// The service account that gets the rights; roles and bindings have the same name
    #[arg(long, value_name = "NAME", default_value = "berth")]
    name: String,
    /// Namespace of the service account
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    namespace: String,
    #[command(flatten)]
    options: RightsOptions,
    /// Format of the manifests
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    #[command(flatten)]
    scheduling: Scheduling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

/// The subject that gets the rights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
}

pub(crate) fn run(rbac: Rbac) -> Result<()> {
    let rights = rights(&rbac)?;
    for kind in rights.guessed() {
        let (kind, group, guess) = (&kind.kind, &kind.group, kind.likely_plural());
        warn!("the resource name of {kind} in {group} is unknown; using {guess}: check it against the API server");
    }
    for (plugin, rule) in rights.unbounded() {
        warn!(
            "{plugin} is granted {rule}. In Berth, `*` does not include Secrets and some other kinds; a role of the API server cannot leave \
             kinds out. Name the groups and kinds in --plugin-config, or write these rights by hand"
        );
    }
    let manifests = manifests(&rights, Account { name: &rbac.name, namespace: &rbac.namespace });
    let mut out = io::stdout().lock();
    match rbac.output {
        Format::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
            serde_json::to_writer_pretty(&mut out, &list)?;
            writeln!(out)?;
        }
        Format::Yaml => {
            let documents: Result<Vec<String>, _> = manifests.iter().map(serde_saphyr::to_string).collect();
            write!(out, "{}", documents?.join("---\n"))?;
        }
    }
    Ok(())
}

fn rights(rbac: &Rbac) -> Result<Rights> {
    let scheduling = &rbac.scheduling;
    let options = scheduling.plugin_host();
    let mut rules = Rules::of_options(&options);
    if let Some(file) = &scheduling.plugin_config {
        let read = settings_file::read(file)?;
        (rules.settings, rules.provenance) = (read.settings, read.provenance);
    }
    let (mut plugins, unusable) = Plugins::inspect(rules, &options.sources(), FaultSink::default())?;
    for (file, reason) in unusable {
        warn!("the roles contain no rights for {}: the file {reason}", file.display());
    }
    let overrides = rbac.options.overrides();
    let settings = configuration::read(scheduling.config.as_deref(), &overrides, &plugins.inventory)?;
    for name in settings.profiles.iter().flat_map(|profile| profile.plugins.named()).collect::<BTreeSet<_>>() {
        if plugins.inventory.manifest(name).is_none() {
            warn!("the roles contain no rights for {name}: a profile enables it, but the plugin was not found");
        }
    }
    let operation = rbac.options.operation();
    Ok(match &scheduling.emulated_version {
        Some(_) => Rights::of_setup(&settings, &plugins.inventory, operation),
        None => Rights::of_any_release(&settings, &mut plugins.inventory, operation),
    })
}

/// The ServiceAccount, a ClusterRole, a Role in each namespace where a right is needed only there, and a binding for
/// each role.
pub(crate) fn manifests(rights: &Rights, account: Account<'_>) -> Vec<Value> {
    let mut by_namespace: BTreeMap<&str, Vec<&ResourceAccess>> = BTreeMap::from([("", Vec::new())]);
    for (access, _) in rights.iter() {
        by_namespace.entry(&access.namespace).or_default().push(access);
    }
    let of_account = json!({"name": account.name, "namespace": account.namespace});
    let mut manifests = vec![json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": of_account})];
    let subject = json!({"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace});
    for (namespace, accesses) in by_namespace {
        let (role, metadata) = match namespace {
            "" => ("ClusterRole", json!({"name": account.name})),
            namespace => ("Role", json!({"name": account.name, "namespace": namespace})),
        };
        let group = "rbac.authorization.k8s.io";
        let api_version = format!("{group}/v1");
        manifests.push(
            json!({"apiVersion": api_version, "kind": role, "metadata": metadata, "rules": policy_rules(&accesses)}),
        );
        manifests.push(json!({
            "apiVersion": api_version,
            "kind": format!("{role}Binding"),
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": role, "name": account.name},
            "subjects": [subject],
        }));
    }
    manifests
}

/// The smallest set of rules that grants exactly these accesses: resources of one group that need the same verbs share
/// a rule.
fn policy_rules(accesses: &[&ResourceAccess]) -> Vec<Value> {
    let mut verbs: BTreeMap<(&str, String, &str), BTreeSet<&str>> = BTreeMap::new();
    for access in accesses {
        let slash = if access.subresource.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{}", access.resource, access.subresource);
        verbs.entry((&access.group, resource, &access.name)).or_default().insert(&access.verb);
    }
    let mut resources: BTreeMap<(&str, &str, BTreeSet<&str>), Vec<String>> = BTreeMap::new();
    for ((group, resource, name), verbs) in verbs {
        resources.entry((group, name, verbs)).or_default().push(resource);
    }
    let rule = |((group, name, verbs), resources): ((&str, &str, BTreeSet<&str>), Vec<String>)| {
        let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        if !name.is_empty() {
            rule["resourceNames"] = json!([name]);
        }
        rule
    };
    resources.into_iter().map(rule).collect()
}
