//! Tests of TenantQuota, the plugin of the guide's second chapter: its counts follow the pods on nodes.

use anyhow::{Context as _, Result, ensure};
use berth_author::{CaseFile, CaseHost, PluginHarness};
use berth_framework::{Call, Plugin, Status};
use berth_model::{NodeIdx, Pod};
use berth_test_languages::{Language, build, folder, load};
use berth_testing::{PodMaker, node, pod};
use berth_wasm_host::ComponentFactory;

use crate::failed;

const ARGS: &str = r#"{"label": "example.com/tenant", "limit": 2}"#;

pub(crate) fn a_quota_holds(language: Language) -> Result<()> {
    let plugin = folder("plugins/examples").join(format!("tenant-quota-{}", language.folder));
    let factory = load("TenantQuota", build(&plugin, "TenantQuota")?)?;
    let misspelt = r#"{"label": "example.com/tenant", "limit": 2, "limits": 3}"#;
    ensure!(PluginHarness::new(&factory, misspelt).is_err(), "an unknown argument is taken");
    keeps_tenants_within(&factory)
}

pub(crate) fn keeps_tenants_within(factory: &ComponentFactory) -> Result<()> {
    for result in
        CaseFile::read(&folder("plugins/examples/tenant-quota.cases.yaml"))?.run(factory, &CaseHost::default())
    {
        ensure!(result.differences.is_empty(), "{}: {:#?}", result.name, result.differences);
    }
    let mut quota = Quota { harness: PluginHarness::new(factory, ARGS).map_err(anyhow::Error::msg)? };
    quota.harness.set_node(&node("a").build());
    quota.place("red-1", "red")?;
    quota.place("blue-1", "blue")?;
    ensure!(quota.judge("red")? == Status::success());

    // A pod with a reservation counts from Reserve on, and counts only once when it appears on its node.
    let held = quota.harness.intern(&tenant("red-2", "red").build());
    ensure!(
        quota.at_reserve(&held, |plugin, call, node| plugin.reserve().map(|it| it.reserve(call, node)))?.is_success()
    );
    let full = Status::unresolvable("tenant red has 2 of 2 pods");
    ensure!(quota.judge("red")? == full, "{:?}", quota.judge("red"));
    quota.place("red-2", "red")?;
    ensure!(quota.judge("red")? == full, "{:?}", quota.judge("red"));
    ensure!(quota.judge("blue")?.is_success() && quota.judge_without_tenant()?.is_success());

    // Unreserve releases a reservation, and a removed pod no longer counts, even if it was the last pod with the
    // label's value.
    quota.at_reserve(&held, |plugin, call, node| plugin.reserve().map(|it| it.unreserve(call, node)))?;
    ensure!(quota.harness.remove_pod("red-2"));
    ensure!(quota.judge("red")?.is_success(), "{:?}", quota.judge("red"));
    for round in 0..3 {
        for name in ["green-1", "green-2"] {
            quota.place(name, "green")?;
        }
        ensure!(quota.judge("green")? == Status::unresolvable("tenant green has 2 of 2 pods"), "round {round}");
        for name in ["green-1", "green-2"] {
            ensure!(quota.harness.remove_pod(name));
        }
        quota.place("other", &format!("other-{round}"))?;
        ensure!(quota.judge("green")?.is_success(), "round {round}: {:?}", quota.judge("green"));
    }
    Ok(())
}

fn tenant(name: &str, tenant: &str) -> PodMaker {
    pod(name).uid(name).label("example.com/tenant", tenant)
}

struct Quota {
    harness: PluginHarness,
}

impl Quota {
    fn place(&mut self, name: &str, of: &str) -> Result<()> {
        Ok(self.harness.set_pod(&tenant(name, of).on("a").build())?)
    }

    /// The answer of PreFilter about a new pod of the tenant.
    fn judge(&mut self, of: &str) -> Result<Status> {
        let pod = self.harness.intern(&tenant("new", of).build());
        self.judge_pod(&pod)
    }

    fn judge_without_tenant(&mut self) -> Result<Status> {
        let pod = self.harness.intern(&pod("new").build());
        self.judge_pod(&pod)
    }

    fn judge_pod(&mut self, pod: &Pod) -> Result<Status> {
        self.harness.sync().map_err(failed)?;
        let answer = self.harness.in_cycle(pod, |plugin, call| plugin.pre_filter().map(|it| it.pre_filter(call)));
        Ok(answer.context("no PreFilter")?.err().unwrap_or_else(Status::success))
    }

    fn at_reserve<R>(
        &mut self,
        pod: &Pod,
        ask: impl FnOnce(&mut dyn Plugin, &Call<'_>, NodeIdx) -> Option<R>,
    ) -> Result<R> {
        self.harness.sync().map_err(failed)?;
        self.harness.in_cycle(pod, |plugin, call| ask(plugin, call, NodeIdx(0))).context("no Reserve")
    }
}
