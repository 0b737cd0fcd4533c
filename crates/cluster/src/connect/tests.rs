//! Valid and invalid kubeconfigs, and one real HTTP server.

use std::{fs, future::IntoFuture, io::Write as _};

use axum::{Json, Router, body::Body, extract::Request, routing::post};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{PodRef, Writer};

use super::*;

/// A kubeconfig for `server`, with `user` as the fields of its only user.
fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts: [{{name: here, context: {{cluster: c, user: u}}}}, {{name: there, context: {{cluster: lost}}}}]\n\
         clusters: [{{name: c, cluster: {{server: {server:?}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    )
}

fn file(dir: &TempDir, text: &str) -> PathBuf {
    let path = dir.path().join("config");
    fs::write(&path, text).unwrap();
    path
}

fn at(path: &Path) -> ConnectOptions {
    ConnectOptions { kubeconfig: Some(path.to_owned()), user_agent: "berth/1".into(), ..ConnectOptions::default() }
}

/// The error for a kubeconfig, without the folder's name.
async fn error(text: &str, context: Option<&str>) -> String {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, text);
    let options = ConnectOptions { context: context.map(str::to_owned), ..at(&path) };
    let error = connect_in(&options, Environment::default()).await.unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error.replace(dir.path().to_str().unwrap(), "DIR")
}

#[tokio::test]
async fn another_server_is_asked_as_the_user_who_is_found() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, &kubeconfig("https://k:6443", "token: t"));
    let found = || Environment { kubeconfig: Some(path.clone().into()), ..Environment::default() };
    let options =
        ConnectOptions { other_server: Some("https://scheduler:10259".to_owned()), ..ConnectOptions::default() };
    let connection = connect_in(&options, found()).await.unwrap();
    assert_eq!(connection.server, "https://scheduler:10259/");
    assert!(matches!(connection.origin, Origin::KubeconfigVariable(_)), "{:?}", connection.origin);
    let without_user = connect_in(&options, Environment::default()).await.unwrap_err();
    assert!(matches!(without_user, ConnectError::NoCluster), "{without_user}");
}

#[tokio::test]
async fn mistakes_are_told_with_file_and_field() {
    let good = kubeconfig("https://k:6443", "token: t");
    assert_eq!(
        error(&good, Some("nowhere")).await,
        "kubeconfig DIR/config has no context \"nowhere\"; it has here, there"
    );
    assert_eq!(error(&good, Some("there")).await, "kubeconfig DIR/config has no cluster \"lost\"; it has c");
    assert_eq!(
        error(&good.replace("user: u}", "user: x}"), None).await,
        "kubeconfig DIR/config has no user \"x\"; it has u"
    );
    assert_eq!(
        error(&good.replace("current-context: here\n", ""), None).await,
        "kubeconfig DIR/config has no current-context; name a context, or set one with `kubectl config use-context`"
    );
    assert_eq!(
        error(&kubeconfig("", "token: t"), None).await,
        "kubeconfig DIR/config: invalid clusters[c].cluster.server \"\": expected https://host:port"
    );
    assert_eq!(
        error(&kubeconfig("https://k:6443", "client-certificate: lost.crt"), None).await,
        "kubeconfig DIR/config: users[u].user.client-certificate: cannot read DIR/lost.crt: No such file or directory \
         (os error 2); correct the path or its permissions"
    );
}

#[tokio::test]
async fn malformed_files_are_told_in_one_line() {
    let told = error("contexts: [", None).await;
    assert!(told.starts_with("kubeconfig DIR/config is malformed: "), "{told}");
    let told = error(&kubeconfig("https://k:6443", "client-certificate-data: '!', client-key-data: '!'"), None).await;
    assert!(told.starts_with("kubeconfig DIR/config cannot be used: "), "{told}");
}

#[tokio::test]
async fn a_credential_plugin_that_cannot_run_is_named() {
    let plugin = "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./lost, interactiveMode: Never}";
    let told = error(&kubeconfig("https://k:6443", plugin), None).await;
    let expected = "kubeconfig DIR/config cannot be used: credential plugin DIR/./lost: ";
    assert!(told.starts_with(expected), "{told}");
}

/// The connection knows when its certificate ends, so that it can renew the certificate in time.
#[tokio::test]
async fn the_end_of_a_credential_plugins_certificate_is_known() {
    let mut certificate = rcgen::CertificateParams::new(Vec::new()).unwrap();
    certificate.not_before = rcgen::date_time_ymd(2020, 3, 4);
    certificate.not_after = rcgen::date_time_ymd(2040, 5, 6);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let credential = json!({
        "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"clientCertificateData": certificate.pem(), "clientKeyData": key.serialize_pem()},
    });
    let dir = TempDir::new().unwrap();
    let answer = dir.path().join("credential.json");
    fs::write(&answer, credential.to_string()).unwrap();
    let plugin = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: cat, args: [{answer:?}], interactiveMode: Never}}"
    );
    let path = file(&dir, &kubeconfig("https://k:6443", &plugin));
    let connection = connect_in(&at(&path), Environment::default()).await.unwrap();
    let certificate = connection.transport.certificate().expect("a certificate");
    let validity = [certificate.from, certificate.until].map(|time| time.to_string());
    assert_eq!(validity, ["2020-03-04T00:00:00Z", "2040-05-06T00:00:00Z"]);
}

#[tokio::test]
async fn a_missing_file_is_told() {
    let error = connect_in(&at(Path::new("/nowhere/config")), Environment::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "kubeconfig /nowhere/config cannot be read: No such file or directory (os error 2); check the path and its \
         permissions"
    );
    let error = connect_in(&ConnectOptions::default(), Environment::default()).await.unwrap_err();
    assert_eq!(error, ConnectError::NoCluster);
}

#[test]
fn the_first_place_that_is_there_is_taken() {
    let home = TempDir::new().unwrap();
    let environment = |kubeconfig: Option<&str>, in_cluster| Environment {
        kubeconfig: kubeconfig.map(OsString::from),
        home: Some(home.path().to_owned()),
        in_cluster,
        http2: Http2::default(),
    };
    let any = ConnectOptions::default();
    let named = ConnectOptions { context: Some("x".into()), ..ConnectOptions::default() };

    assert_eq!(find(&at(Path::new("f")), environment(Some("a:b"), true)), Ok(Origin::File("f".into())));
    let files = vec!["a".into(), "b".into()];
    assert_eq!(find(&any, environment(Some("a::b"), true)), Ok(Origin::KubeconfigVariable(files)));
    assert_eq!(find(&any, environment(None, true)), Ok(Origin::InCluster));
    assert_eq!(find(&named, environment(None, true)), Err(ConnectError::NoCluster));

    let path = home.path().join(".kube/config");
    fs::create_dir(home.path().join(".kube")).unwrap();
    fs::write(&path, "").unwrap();
    assert_eq!(find(&any, environment(None, false)), Ok(Origin::Home(path.clone())));
    assert_eq!(find(&named, environment(None, true)), Ok(Origin::Home(path)));
}

#[tokio::test]
async fn a_client_speaks_plain_http_with_token_and_user_agent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let echo = |request: Request| async move {
        let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header("authorization").as_deref(), Some("Bearer secret"));
        assert_eq!(header("user-agent").as_deref(), Some("berth/1"));
        Json::<Value>(json!({"kind": "Status", "status": "Success"}))
    };
    let app = Router::new().route("/api/v1/namespaces/default/pods/a/binding", post(echo));
    tokio::spawn(axum::serve(listener, app).into_future());

    let dir = TempDir::new().unwrap();
    let path = file(&dir, &kubeconfig(&format!("http://{address}"), "token: secret"));
    let connection = connect(&at(&path)).await.unwrap();
    assert_eq!(connection.origin, Origin::File(path));
    assert_eq!(connection.server, format!("http://{address}/"));
    let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "1".into() };
    assert_eq!(Writer::new(connection.client()).bind(&pod, "n1").await, Ok(()));
}

/// The user of the options replaces the whole user that the kubeconfig names with `as`.
#[tokio::test]
async fn a_client_acts_as_another_user() {
    let echo = |request: Request| async move {
        let sent = request.headers().iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
        let mut sent: Vec<String> = sent.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        sent.sort();
        sent.join(", ")
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, Router::new().fallback(echo)).into_future());

    let dir = TempDir::new().unwrap();
    let path = file(&dir, &kubeconfig(&server, "token: t, as: old, as-uid: '7', as-groups: [old]"));
    let impersonating = |groups: &[&str]| {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let impersonation = Some(Impersonation { user: "system:serviceaccount:kube-system:berth".to_owned(), groups });
        ConnectOptions { impersonation, ..at(&path) }
    };
    let user = "impersonate-user: system:serviceaccount:kube-system:berth";
    let with_groups = format!("impersonate-group: a, impersonate-group: b, {user}");
    let kubeconfigs = "impersonate-group: old, impersonate-uid: 7, impersonate-user: old";
    let cases =
        [(impersonating(&[]), user), (impersonating(&["a", "b"]), with_groups.as_str()), (at(&path), kubeconfigs)];
    for (options, expected) in cases {
        let client = connect(&options).await.unwrap().client();
        let request = http::Request::get("/version").body(Vec::new()).unwrap();
        assert_eq!(client.request_text(request).await.unwrap(), expected);
    }
    let error = connect(&impersonating(&["a\nb"])).await.unwrap_err().to_string();
    assert_eq!(error, "the user or group \"a\\nb\" cannot be sent in a header, because it has control characters");
}

/// Answers may be compressed as in client-go. The API server compresses only lists, which are long enough.
#[tokio::test]
async fn answers_may_be_compressed_unless_the_kubeconfig_says_no() {
    let answer = |request: Request| async move {
        let accepted = request.headers().get("accept-encoding").map_or("", |value| value.to_str().unwrap());
        if !accepted.contains("gzip") {
            return http::Response::new(Body::from("plain"));
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"compressed").unwrap();
        let body = Body::from(gzip.finish().unwrap());
        http::Response::builder().header("content-encoding", "gzip").body(body).unwrap()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());

    let text = kubeconfig(&server, "token: t");
    let uncompressed = text.replace("cluster: {server", "cluster: {disable-compression: true, server");
    for (text, expected) in [(text, "compressed"), (uncompressed, "plain")] {
        let dir = TempDir::new().unwrap();
        let client = connect(&at(&file(&dir, &text))).await.unwrap().client();
        let request = http::Request::get("/api/v1/nodes").body(Vec::new()).unwrap();
        assert_eq!(client.request_text(request).await.unwrap(), expected);
    }
}

/// A server that answers each request with the request's token, as the status of a pod's binding.
async fn tokens() -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (seen, tokens) = tokio::sync::mpsc::unbounded_channel();
    let answer = move |request: Request| {
        let token = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let token = token.unwrap_or_default();
        let code = if token == "Bearer old" { 401 } else { 201 };
        seen.send(token).unwrap();
        async move { (http::StatusCode::from_u16(code).unwrap(), Json(json!({}))) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
    (server, tokens)
}

#[tokio::test]
async fn a_client_goes_on_with_the_credentials_of_now() {
    let (server, mut seen) = tokens().await;
    let dir = TempDir::new().unwrap();
    let path = file(&dir, &kubeconfig(&server, "token: old"));
    let (connection, renewal) = connect_for_long(&at(&path)).await.unwrap();
    assert_eq!(renewal.files(), std::slice::from_ref(&path));
    let writer = Writer::new(connection.client());
    let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "1".into() };
    writer.bind(&pod, "n1").await.unwrap_err();
    assert_eq!(seen.recv().await.unwrap(), "Bearer old");
    renewal.refused().await;

    file(&dir, "not a kubeconfig: [");
    renewal.renew().await.unwrap_err();
    file(&dir, &kubeconfig("http://127.0.0.1:1", "token: new"));
    let error = renewal.renew().await.unwrap_err().to_string();
    assert!(error.contains("names another API server, http://127.0.0.1:1/ instead of"), "{error}");
    file(&dir, &kubeconfig(&server, "token: new"));
    renewal.renew().await.unwrap();
    writer.bind(&pod, "n1").await.unwrap();
    assert_eq!(seen.recv().await.unwrap(), "Bearer new");
}
