//! Tests of the control plane itself: the control plane starts, knows its users, and still has its data after a crash.

use berth_test_control_plane::{Assets, ControlPlane, Options, User};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api,
    api::{ListParams, PostParams},
};

#[tokio::test]
async fn it_starts_and_comes_back_after_a_crash() {
    let Some(assets) = Assets::from_environment().unwrap() else {
        eprintln!("skipped: KUBEBUILDER_ASSETS is not set");
        return;
    };
    let mut control_plane = ControlPlane::start(&assets, Options { audit: true, ..Options::default() }).await.unwrap();
    let admin: Api<Namespace> = Api::all(control_plane.client(User::Admin).await.unwrap());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("here".to_owned());
    admin.create(&PostParams::default(), &namespace).await.unwrap();
    control_plane.kill_api_server();
    control_plane.start_api_server().await.unwrap();
    assert!(admin.get_opt("here").await.unwrap().is_some());

    let scheduler = control_plane.client(User::Scheduler).await.unwrap();
    Api::<Namespace>::all(scheduler.clone()).list(&ListParams::default()).await.unwrap();
    let refused = Api::<Secret>::all(scheduler).list(&ListParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("User \"system:kube-scheduler\" cannot list resource \"secrets\""));
    let asked = control_plane.audit().unwrap();
    let asked: Vec<_> = asked.iter().map(|entry| (entry.resource.as_str(), entry.code)).collect();
    assert_eq!(asked, [("namespaces", 200), ("secrets", 403)]);
}
