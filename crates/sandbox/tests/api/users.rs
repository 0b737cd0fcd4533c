//! The user that a client acts as.

use serde_json::{Value, json};

use crate::{cluster::Cluster, http::send};

/// The answer to a SelfSubjectReview with these headers: its code, and the user or the message.
async fn review(cluster: &Cluster, headers: &[(&str, &str)]) -> (u16, Value) {
    let target = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let headers = [&[("content-type", "application/json")], headers].concat();
    let answer = send(cluster.0.address(), "POST", target, &headers, "{}").await;
    let body = answer.json();
    let told = if answer.status == 201 { &body["status"]["userInfo"] } else { &body["message"] };
    (answer.status, told.clone())
}

#[tokio::test]
async fn a_client_acts_as_the_user_that_it_impersonates() {
    let cluster = Cluster::start().await;
    let user = |name: &str, groups: &[&str]| (201_u16, json!({"username": name, "groups": groups}));
    let admin = user("admin", &["system:masters", "system:authenticated"]);
    assert_eq!(review(&cluster, &[]).await, admin);

    let account = "system:serviceaccount:kube-system:berth";
    let own = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
    assert_eq!(review(&cluster, &[("impersonate-user", account)]).await, user(account, &own));
    let headers = [("impersonate-user", account), ("impersonate-group", "a"), ("impersonate-group", "b")];
    assert_eq!(review(&cluster, &headers).await, user(account, &["a", "b", "system:authenticated"]));
    let anonymous = user("system:anonymous", &["system:unauthenticated"]);
    assert_eq!(review(&cluster, &[("impersonate-user", "system:anonymous")]).await, anonymous);

    let (code, message) = review(&cluster, &[("impersonate-group", "a")]).await;
    assert_eq!((code, message), (400, json!("requested impersonation without impersonating a user name")));
}
