//! The used memory depends on the present cluster, and not on earlier states of the cluster.

use serde_json::{Value, json};

use super::{
    follow::catch_up,
    kit::{Bench, assigned, bind_finished, binds, pod_maker},
};
use crate::{ClusterView, Event, PodView};

/// A pod with an image whose name has 900 kB.
fn with_long_image(name: &str, scheduler_name: &str, node: &str) -> berth_model::api::Pod {
    let mut pod = pod_maker(name, 1).label("app", name).on(node).json();
    pod["spec"]["schedulerName"] = scheduler_name.into();
    pod["spec"]["containers"][0]["image"] = format!("{name}{}", "x".repeat(900_000)).into();
    serde_json::from_value(pod).expect("a pod")
}

impl Bench {
    fn n_symbols(&self) -> usize {
        self.scheduler.cache().table().symbols.len()
    }

    fn n_text_bytes(&self) -> usize {
        self.scheduler.cache().table().symbols.since(0).iter().map(|(_, text)| text.len()).sum()
    }

    fn delete(&mut self, name: &str) {
        let (namespace, name, uid) = ("default".to_owned(), name.to_owned(), format!("uid-{name}"));
        self.event(Event::PodDeleted { namespace, name, uid });
    }
}

#[test]
fn of_pods_that_nobody_here_places_little_is_kept() {
    let mut bench = Bench::with_nodes(1, 4);
    let before = bench.n_symbols();
    for index in 0..50 {
        bench.apply(with_long_image(&format!("foreign-{index}"), "another-scheduler", ""));
    }
    assert_eq!(bench.n_symbols(), before, "a pending pod of another scheduler is not kept");
    for index in 0..2 {
        bench.apply(with_long_image(&format!("placed-{index}"), "another-scheduler", "n0"));
        bench.apply(with_long_image(&format!("own-{index}"), "berth", ""));
    }
    let mut with_usual_image = pod_maker("usual", 0).on("n0").json();
    with_usual_image["spec"]["schedulerName"] = "another-scheduler".into();
    with_usual_image["spec"]["containers"][0]["image"] = "registry/usual:1".into();
    bench.apply(serde_json::from_value(with_usual_image).expect("a pod"));
    let images = bench.scheduler.cache().table().symbols.lookup("registry/usual:1");
    assert_eq!(images, None, "the images of other schedulers' pods are not kept");
    assert!(bench.n_text_bytes() < 2_000, "{} bytes of texts", bench.n_text_bytes());
    assert_eq!(binds(&bench.settle()).len(), 2, "the other scheduler's pods count on their node");
    bench.apply(pod_maker("third", 1).build());
    assert!(binds(&bench.settle()).is_empty());
}

#[test]
fn ever_new_texts_keep_a_flat_memory() {
    let mut bench = Bench::with_nodes(3, 4);
    bench.apply(pod_maker("stays", 1).label("app", "stays").build());
    let mut most = 0;
    for round in 0..20_000 {
        let name = format!("p{round}");
        let mut pod = pod_maker(&name, 1).label("job", &name).label(&format!("key-{round}"), "x").json();
        pod["spec"]["containers"][0]["image"] = format!("registry/{name}:{round}").into();
        pod["spec"]["nodeSelector"] = Value::Null;
        pod["spec"]["tolerations"] = json!([{"key": format!("t{round}"), "operator": "Exists"}]);
        let pod: berth_model::api::Pod = serde_json::from_value(pod).expect("a pod");
        bench.apply(pod);
        let actions = bench.settle();
        let (_, node) = binds(&actions).into_iter().find(|(bound, _)| *bound == name).expect("there is room for it");
        let finished = bind_finished(&actions, &name, Ok(()));
        bench.event(finished);
        bench.apply(assigned(&name, 1, &node));
        bench.delete(&name);
        bench.actions.clear();
        bench.script(|script| script.calls.clear());
        most = most.max(bench.n_symbols());
    }
    assert!(most < 50_000, "{most} symbols for three nodes and two pods");
    let table = bench.scheduler.cache().table();
    let stays = table.symbols.lookup("stays");
    assert!(
        stays.is_some()
            && table.pods().iter().any(|(_, pod, _)| pod.labels.iter().any(|(_, value)| Some(*value) == stays))
    );
    assert_eq!(table.symbols.lookup("registry/p0:0"), None);
}

#[test]
fn limits_of_pods_are_known_as_long_as_the_pods_are() {
    let mut bench = Bench::with_nodes(1, 4);
    let with_limits = |name: &str, node: &str| {
        let mut pod = pod_maker(name, 1).on(node).json();
        pod["spec"]["schedulerName"] = "berth".into();
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "2", "example.com/gpu": "1"});
        serde_json::from_value(pod).expect("a pod")
    };
    bench.apply(with_limits("placed", "n0"));
    bench.apply(with_limits("waits", ""));
    bench.apply(pod_maker("without", 1).build());
    let limits = |bench: &mut Bench| {
        let mut view = ClusterView::default();
        bench.scheduler.end_following();
        catch_up(&mut view, bench);
        let cpu = |pod: PodView<'_>| Some((pod.name().to_owned(), pod.limits().iter().find(|it| it.0 == "cpu")?.1));
        let mut known: Vec<_> = view.pods().filter_map(cpu).collect();
        known.sort();
        (view.pods().count(), known)
    };
    assert_eq!(limits(&mut bench), (3, vec![("placed".to_owned(), 2000), ("waits".to_owned(), 2000)]));
    bench.apply(pod_maker("placed", 1).on("n0").build());
    bench.delete("waits");
    assert_eq!(limits(&mut bench), (2, vec![]));
}
