//! The page over HTTPS, with the rights of the user of the browser's token, and over HTTP on loopback.

use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::{Client, Config, client::Body};

use crate::{
    cluster::{Cluster, pod},
    explain::{Bench, json_of},
    process::{DEADLINE, Process},
};

const FORM: &str = "application/x-www-form-urlencoded";

/// A browser that does not store cookies.
struct Browser(Client);

impl Browser {
    fn new(bench: &Bench) -> Self {
        let mut config = Config::new(format!("https://127.0.0.1:{}", bench.port).parse().expect("an address"));
        config.accept_invalid_certs = true;
        config.default_retry = false;
        Self(Client::try_from(config).expect("a client"))
    }

    async fn send(&self, request: http::request::Builder, body: &str) -> (StatusCode, http::HeaderMap, String) {
        let request = request.body(Body::from(body.as_bytes().to_vec())).expect("a request");
        let (parts, body) = self.0.send(request).await.expect("an answer").into_parts();
        let text = body.collect().await.expect("a body").to_bytes();
        (parts.status, parts.headers, String::from_utf8(text.to_vec()).expect("text"))
    }

    async fn get(&self, path: &str, cookie: &str) -> (StatusCode, String) {
        let (status, headers, text) = self.send(Request::get(path).header(header::COOKIE, cookie), "").await;
        let location = headers.get(header::LOCATION).map(|place| place.to_str().expect("text").to_owned());
        (status, location.unwrap_or(text))
    }

    /// Asks again until the page has the text.
    async fn until(&self, path: &str, part: &str) {
        let look = async || {
            let (status, text) = self.get(path, "").await;
            Ok((status == StatusCode::OK && text.contains(part)).then_some(()))
        };
        berth_test_processes::until(part, look).await.expect(path);
    }

    /// The cookie that the browser gets for a token.
    async fn sign_in(&self, token: &str) -> String {
        let form = Request::post("/page/sign-in").header(header::CONTENT_TYPE, FORM);
        let (status, headers, text) = self.send(form, &format!("token={token}")).await;
        assert_eq!(
            (status, headers.get(header::LOCATION).map(|it| it.as_bytes())),
            (StatusCode::SEE_OTHER, Some(&b"/page"[..])),
            "{text}"
        );
        let cookie = headers[header::SET_COOKIE].to_str().expect("text");
        assert!(cookie.ends_with("; Path=/page; HttpOnly; Secure; SameSite=Strict"), "{cookie}");
        cookie.split(';').next().expect("a value").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_with_a_token_and_sees_what_its_user_may() {
    let bench = Bench::start().await;
    bench.cluster.create(&pod("huge", "1000", "1Gi")).await;
    bench.cluster.until("huge pending", |seen| seen.messages.contains_key("huge")).await;
    let browser = Browser::new(&bench);
    let to_sign_in = (StatusCode::SEE_OTHER, "/page/sign-in".to_owned());
    assert_eq!(browser.get("/page/pods", "").await, to_sign_in);
    let (status, form) = browser.get("/page/sign-in", "").await;
    assert!(status == StatusCode::OK && form.contains("type=\"password\""), "{form}");
    let refused = (StatusCode::SEE_OTHER, "/page/sign-in?refused".to_owned());
    assert_eq!(browser.get("/page", &browser.sign_in("unknown").await).await, refused);

    let root = browser.sign_in("token-of-root").await;
    for path in
        ["/page", "/page/pods", "/page/nodes", "/page/nodes?pod=default/huge", "/page/pod?pod=huge", "/page/plugins"]
    {
        let (status, text) = browser.get(path, &root).await;
        assert!(status == StatusCode::OK && text.contains("<span>root</span>"), "{path}: {status} {text}");
    }
    let ada = browser.sign_in("token-of-ada").await;
    let (_, text) = browser.get("/page/pods", &ada).await;
    assert!(text.contains("You may not list the pods of all namespaces") && !text.contains("default/huge"), "{text}");
    let (_, text) = browser.get("/page/pods?namespace=default", &ada).await;
    assert!(text.contains("/page/pod?pod=default/huge"), "{text}");
    let (status, text) = browser.get("/page/pod?pod=default/huge", &ada).await;
    assert!(status == StatusCode::OK && text.contains("LargerThanAnyNode"), "{text}");
    for (path, part) in [
        ("/page", "ada may not get the path /metrics"),
        ("/page/nodes", "ada may not list nodes in the cluster"),
        ("/page/plugins", "ada may not get plugins in the cluster"),
        ("/page/pod?pod=infra/x", "ada may not get pods x in namespace infra"),
    ] {
        let (status, text) = browser.get(path, &ada).await;
        assert!(status == StatusCode::FORBIDDEN && text.contains(part), "{path}: {status} {text}");
    }
    let eve = browser.sign_in("token-of-eve").await;
    let (status, text) = browser.get("/page/pod?pod=default/huge", &eve).await;
    assert!(status == StatusCode::FORBIDDEN && !text.contains("LargerThanAnyNode"), "{text}");
}

/// A user with the right to list the pods of one namespace may not list the pods of another namespace. A user with the
/// right to see nodes may not ask which nodes fit a pod.
#[tokio::test(flavor = "multi_thread")]
async fn views_of_some_pods_are_for_those_who_may_see_these() {
    let bench = Bench::start().await;
    let browser = Browser::new(&bench);
    for (user, fine, other, refusal) in [
        (
            "ada",
            "/page/pods?namespace=default",
            "/page/pods?namespace=infra",
            "ada may not list pods in namespace infra",
        ),
        ("ida", "/page/nodes", "/page/nodes?pod=default/web", "ida may not get pods web in namespace default"),
    ] {
        let cookie = browser.sign_in(&format!("token-of-{user}")).await;
        assert_eq!(browser.get(fine, &cookie).await.0, StatusCode::OK, "{fine}");
        let (status, text) = browser.get(other, &cookie).await;
        assert!(status == StatusCode::FORBIDDEN && text.contains(refusal), "{other}: {status} {text}");
    }
}

/// Orders over HTTPS need the right to update the plugin, as `berth plugin` does, and come from the page itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_disabled_in_the_browser_by_who_may() {
    let bench = Bench::start().await;
    let browser = Browser::new(&bench);
    let submit = async |cookie: &str, site: &str| {
        let request = Request::post("/page/order").header(header::COOKIE, cookie).header("sec-fetch-site", site);
        let form = request.header(header::CONTENT_TYPE, FORM);
        browser.send(form, "plugin=NodeName&order=disable&digest=native").await
    };
    let ada = browser.sign_in("token-of-ada").await;
    let (status, _, text) = submit(&ada, "same-origin").await;
    let refusal = "ada may not update plugins NodeName in the cluster";
    assert!(status == StatusCode::FORBIDDEN && text.contains(refusal), "{status} {text}");
    let root = browser.sign_in("token-of-root").await;
    for site in ["cross-site", "none"] {
        assert_eq!(submit(&root, site).await.0, StatusCode::FORBIDDEN, "{site}");
    }
    let (_, text) = browser.get("/page/order?plugin=NodeName&order=disable", &root).await;
    assert!(text.contains("Pods are scheduled as if no profile named NodeName"), "{text}");
    let (status, headers, text) = submit(&root, "same-origin").await;
    assert_eq!(status, StatusCode::SEE_OTHER, "{text}");
    assert_eq!(headers[header::LOCATION], "/page/plugins?name=NodeName");
    let (_, text) = browser.get("/page/plugins?name=NodeName", &root).await;
    assert!(text.contains(">disabled<") && text.contains(">Enable</a>"), "{text}");
}

/// The form of the page asks the same thread as `POST /what-if`, and needs the same rights.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_asks_what_if() {
    let bench = Bench::start().await;
    let browser = Browser::new(&bench);
    let submit = async |cookie: &str, body: &str| {
        let request = Request::post("/page/what-if").header(header::COOKIE, cookie);
        let form = request.header(header::CONTENT_TYPE, FORM).header("sec-fetch-site", "same-origin");
        browser.send(form, body).await
    };
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: huge}\nspec:\n  containers:\n  - {name: c, resources: {requests: {cpu: 1000}}}\n";
    let node = "{apiVersion: v1, kind: Node, metadata: {generateName: large-}, status: {allocatable: {cpu: 2000, memory: 64Gi, pods: 110}}}";
    let form = |pods: &str| {
        let encoded = [pods, node].map(|text| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>());
        format!("pods={}&added=1&node={}&removed=", encoded[0], encoded[1])
    };
    for (user, refusal) in [
        ("ada", "ada may not post the path /what-if"),
        ("ida", "ida may not list pods in the cluster"),
        ("ola", "ola may not list nodes in the cluster"),
    ] {
        let cookie = browser.sign_in(&format!("token-of-{user}")).await;
        let (status, _, text) = submit(&cookie, &form(pod)).await;
        assert!(status == StatusCode::FORBIDDEN && text.contains(refusal), "{status} {text}");
    }
    let root = browser.sign_in("token-of-root").await;
    let (status, _, text) = submit(&root, &form(pod)).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    for part in [
        "The cluster as it is",
        "0 pods get a node, 1 stay pending",
        "Insufficient cpu",
        "The changed cluster",
        "1 pods get a node",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (pods, part) in
        [("kind: [", "pods:1"), ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: 7\n", "pods[0]: Pod")]
    {
        let (status, _, text) = submit(&root, &form(pods)).await;
        assert!(status == StatusCode::BAD_REQUEST && text.contains(part), "{status} {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_is_good_for_the_page_alone_and_not_from_other_sites() {
    let bench = Bench::start().await;
    let browser = Browser::new(&bench);
    let root = browser.sign_in("token-of-root").await;
    for path in ["/admin/plugins", "/metrics", "/explain?namespace=default&name=x"] {
        let (status, text) = browser.get(path, &root).await;
        assert!(status == StatusCode::FORBIDDEN && text.contains("system:anonymous"), "{path}: {status} {text}");
    }
    for request in [Request::get("/page/pods"), Request::post("/page/sign-in"), Request::post("/page/sign-out")] {
        let request = request.header(header::COOKIE, &root).header("sec-fetch-site", "cross-site");
        let (status, _, text) = browser.send(request, "").await;
        assert!(status == StatusCode::FORBIDDEN && text.contains("another site"), "{status} {text}");
    }
    let (status, headers, _) = browser.send(Request::post("/page/sign-out").header(header::COOKIE, &root), "").await;
    let cookie = headers[header::SET_COOKIE].to_str().expect("text");
    assert!(status == StatusCode::SEE_OTHER && cookie.contains("Max-Age=0"), "{status} {cookie}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_has_the_page_on_loopback() {
    let mut cluster = Cluster::start(&["--nodes", "3", "--page", "127.0.0.1:0"]).await;
    let line = cluster.sandbox_says("to see its page").await;
    let address = line.strip_prefix("open ").and_then(|line| line.strip_suffix("/ to see its page"));
    let config = Config::new(address.expect("an address").parse().expect("an address"));
    let browser = Browser(Client::try_from(config).expect("a client"));
    cluster.create(&pod("web", "100m", "64Mi")).await;
    let node = cluster.node_of("web").await;
    // The API server has the binding before the scheduler learns about the binding.
    browser.until("/page/pod?pod=default/web", &format!("it is on node {node}")).await;
    let (_, text) = browser.get("/page/nodes", "").await;
    assert!((0..3).all(|number| text.contains(&format!("node-0000{number}"))), "{text}");
    assert_eq!(browser.get("/", "").await, (StatusCode::SEE_OTHER, "/page".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_the_same_to_who_may_see_it() {
    let bench = Bench::start().await;
    bench.cluster.create(&pod("huge", "1000", "1Gi")).await;
    bench.cluster.until("huge pending", |seen| seen.messages.contains_key("huge")).await;
    for seen in [bench.run(&["top", "-o", "json"]).await, bench.run_as("root", &["top", "-o", "json"]).await] {
        let overview = json_of(&seen);
        assert_eq!((&overview["isLeading"], &overview["nodes"]), (&true.into(), &1.into()), "{overview}");
        let pending = &overview["pending"];
        assert_eq!((&pending["pods"], &pending["oldest"][0]["name"]), (&1.into(), &"huge".into()), "{overview}");
        assert_eq!(pending["reasons"][0]["reason"], "NodeResourcesFit", "{overview}");
    }
    let refused = bench.run_as("ada", &["top", "-o", "json"]).await;
    assert!(refused.err.contains("User \"ada\" cannot get path \"/overview\""), "{}", refused.err);
    let piped = bench.run(&["top"]).await;
    assert!(!piped.status.success() && piped.err.contains("needs a terminal"), "{}", piped.err);
}

/// A browser that asks `berth page`.
struct Visitor(Client);

impl Visitor {
    fn new(address: &str) -> Self {
        let mut config = Config::new(format!("http://{address}").parse().expect("an address"));
        config.default_retry = false;
        Self(Client::try_from(config).expect("a client"))
    }

    async fn send(&self, request: http::request::Builder) -> (StatusCode, http::HeaderMap, String) {
        let (parts, body) =
            self.0.send(request.body(Body::empty()).expect("a request")).await.expect("an answer").into_parts();
        let text = body.collect().await.expect("a body").to_bytes();
        (parts.status, parts.headers, String::from_utf8(text.to_vec()).expect("text"))
    }

    async fn status(&self, request: http::request::Builder) -> StatusCode {
        self.send(request).await.0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn berth_page_shows_the_page_to_the_browser_with_the_secret() {
    let bench = Bench::start().await;
    bench.cluster.create(&pod("huge", "1000", "1Gi")).await;
    bench.cluster.until("huge pending", |seen| seen.messages.contains_key("huge")).await;
    let mut command = Process::berth(["page", "--socket", &bench.socket()]);
    let line = command.line("http://").await;
    let (address, secret) =
        line.trim().strip_prefix("http://").and_then(|it| it.split_once("/?secret=")).expect("an address");
    let visitor = Visitor::new(address);

    assert_eq!(visitor.status(Request::get("/page")).await, StatusCode::FORBIDDEN);
    assert_eq!(visitor.status(Request::get(format!("/?secret={}", "0".repeat(64)))).await, StatusCode::FORBIDDEN);
    let (status, headers, _) = visitor.send(Request::get(format!("/?secret={secret}"))).await;
    assert_eq!((status, headers[header::LOCATION].as_bytes()), (StatusCode::SEE_OTHER, &b"/page"[..]));
    let cookie = headers[header::SET_COOKIE].to_str().expect("text");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a value").to_owned();

    let get = |path: &str| Request::get(path).header(header::COOKIE, &cookie);
    for path in ["/page", "/page/pods", "/page/pod?pod=default/huge", "/page/plugins", "/page/style.css"] {
        assert_eq!(visitor.status(get(path)).await, StatusCode::OK, "{path}");
    }
    let (_, headers, text) = visitor.send(get("/page/pods")).await;
    assert!(text.contains("huge") && headers.contains_key(header::CONTENT_SECURITY_POLICY), "{text}");
    for path in ["/admin/plugins", "/pages", "/explain?namespace=default&name=huge"] {
        assert_eq!(visitor.status(get(path)).await, StatusCode::NOT_FOUND, "{path}");
    }
    for path in ["/page", "/page/plugins"] {
        let post = Request::post(path).header(header::COOKIE, &cookie);
        assert_eq!(visitor.status(post).await, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    let order = |site: &str| {
        let request = Request::post("/page/order").header(header::COOKIE, &cookie).header("sec-fetch-site", site);
        let request = request.header(header::CONTENT_TYPE, FORM);
        let body = Body::from(b"plugin=NodeName&order=disable&digest=native".to_vec());
        visitor.0.send(request.body(body).expect("a request"))
    };
    assert_eq!(order("none").await.expect("an answer").status(), StatusCode::FORBIDDEN);
    assert_eq!(order("same-origin").await.expect("an answer").status(), StatusCode::SEE_OTHER);
    let (_, _, text) = visitor.send(get("/page/plugins?name=NodeName")).await;
    assert!(text.contains("disabled") && text.contains(">Enable</a>"), "{text}");
    // Another site that resolves its name to this address, and a link from another site.
    for (name, value) in [("host", "evil.example"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(visitor.status(get("/page").header(name, value)).await, StatusCode::FORBIDDEN, "{name}: {value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn berth_page_without_a_scheduler_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("none.sock").display().to_string();
    let ended = Process::berth(["page", "--socket", &socket]).ended(DEADLINE).await;
    assert!(!ended.status.success() && ended.err.contains("no scheduler answers at"), "{}", ended.err);
}
