//! Elections with an API server that the test plays. Time is paused, so waiting costs nothing.

use serde_json::{Value, json};

use crate::test_server::{self, Call, Server, Stream};

use super::*;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const EVENTS: &str = "/api/v1/namespaces/kube-system/events";

struct Bench {
    server: Server,
    elector: Elector,
}

fn start() -> Bench {
    start_with(None)
}

fn start_with(coordination: Option<Coordination>) -> Bench {
    let (client, server) = test_server::server();
    let settings = ElectionSettings {
        namespace: "kube-system".into(),
        name: "kube-scheduler".into(),
        identity: "vm_1".into(),
        component: "default-scheduler".into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        coordination,
    };
    Bench { server, elector: Elector::spawn(client, settings, async {}) }
}

fn lease(version: &str, holder: &str, renewed: &str) -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system", "uid": "7", "resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": "2026-11-21T03:11:57.276967Z",
            "renewTime": renewed, "leaseTransitions": 3, "strategy": "OldestEmulationVersion"},
    })
}

/// The request body in the form in which the API server would return it.
fn stored(call: &Call, version: &str) -> Value {
    let mut lease = call.body.clone();
    lease["metadata"]["resourceVersion"] = json!(version);
    lease["metadata"]["uid"] = json!("7");
    lease
}

impl Bench {
    /// The next request about the Lease. Events are answered on the way.
    async fn next(&mut self) -> Call {
        loop {
            let call = self.server.next().await;
            if call.path == EVENTS {
                let event = call.body.clone();
                call.answer(201, &event);
                continue;
            }
            assert!(call.has("timeout=5s"), "{}", call.query);
            return call;
        }
    }

    /// Wins a Lease that did not exist.
    async fn win(&mut self) {
        let call = self.next().await;
        assert_eq!(call.line(), format!("GET {LEASE}"));
        call.refuse(404, "NotFound", "no lease");
        let call = self.next().await;
        assert_eq!(call.line(), format!("POST {LEASES}"));
        let lease = stored(&call, "1");
        call.answer(201, &lease);
        self.elector.leadership().won().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_there_is_created_and_renewed() {
    let mut bench = start();
    bench.next().await.refuse(404, "NotFound", "no lease");
    let call = bench.next().await;
    let spec = &call.body["spec"];
    assert_eq!(spec["holderIdentity"], "vm_1");
    assert_eq!((&spec["leaseDurationSeconds"], &spec["leaseTransitions"]), (&json!(15), &json!(0)));
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    assert!(!bench.elector.leadership().is_leading());
    let lease = stored(&call, "1");
    call.answer(201, &lease);
    bench.elector.leadership().won().await;
    let event = bench.server.next().await;
    assert_eq!(event.line(), format!("POST {EVENTS}"));
    assert_eq!(event.body["message"], "vm_1 became leader");
    assert_eq!(
        (&event.body["reason"], &event.body["source"]),
        (&json!("LeaderElection"), &json!({"component": "default-scheduler"}))
    );
    let involved = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "namespace": "kube-system",
        "name": "kube-scheduler", "uid": "7", "resourceVersion": "1"});
    assert_eq!(event.body["involvedObject"], involved);
    event.answer(201, &json!({}));
    let renewal = bench.next().await;
    assert_eq!(renewal.line(), format!("PUT {LEASE}"));
    assert_eq!(renewal.body["metadata"]["resourceVersion"], "1");
    assert_eq!(renewal.body["spec"]["acquireTime"], lease["spec"]["acquireTime"]);
}

#[tokio::test(start_paused = true)]
async fn a_held_lease_is_taken_when_it_has_not_changed_for_its_duration() {
    let mut bench = start();
    let started = Instant::now();
    bench.next().await.answer(200, &lease("5", "other_2", "2026-11-21T03:11:59.000000Z"));
    // The other candidate renews once more. The time on its clock does not matter.
    bench.next().await.answer(200, &lease("6", "other_2", "1999-01-01T00:00:00.000000Z"));
    let seen = Instant::now();
    assert!(seen - started >= Duration::from_secs(2), "candidates wait between attempts");
    let taken = loop {
        let call = bench.next().await;
        if call.method == Method::PUT {
            break call;
        }
        call.answer(200, &lease("6", "other_2", "1999-01-01T00:00:00.000000Z"));
    };
    assert!(seen.elapsed() >= Duration::from_secs(15), "{:?}", seen.elapsed());
    assert!(seen.elapsed() < Duration::from_secs(20), "{:?}", seen.elapsed());
    assert_eq!(taken.body["metadata"]["resourceVersion"], "6");
    assert_eq!(taken.body["spec"]["leaseTransitions"], 4);
    assert_eq!(taken.body["spec"]["strategy"], "OldestEmulationVersion", "the other fields are kept");
    taken.refuse(409, "Conflict", "another candidate was faster");
    bench.next().await.answer(200, &lease("7", "third_3", "2026-11-21T03:12:30.000000Z"));
    assert!(!bench.elector.leadership().is_leading());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_has_lost() {
    let mut bench = start();
    bench.win().await;
    let won = Instant::now();
    let mut leadership = bench.elector.leadership();
    let refusing = async {
        loop {
            bench.next().await.lose();
        }
    };
    let reason = tokio::select! {
        reason = leadership.lost() => reason,
        () = refusing => unreachable!("the server serves for ever"),
    };
    assert_eq!(won.elapsed().as_secs(), 10);
    assert_eq!(reason.to_string(), "the lease kube-system/kube-scheduler was not renewed for 10s");
    assert!(!leadership.is_leading() && !leadership.is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_sees_another_one_has_lost() {
    let mut bench = start();
    bench.win().await;
    bench.next().await.refuse(409, "Conflict", "somebody wrote");
    bench.next().await.answer(200, &lease("9", "other_2", "2026-11-21T03:12:00.000000Z"));
    let mut leadership = bench.elector.leadership();
    let reason = leadership.lost().await;
    assert_eq!(reason.to_string(), "the lease kube-system/kube-scheduler was taken by other_2");
    assert_eq!(leadership.n_slow_renewals(), 1, "the lease was read before it could be written");
}

#[tokio::test(start_paused = true)]
async fn a_leader_gives_the_lease_back() {
    let mut bench = start();
    bench.win().await;
    let Bench { mut server, elector } = bench;
    let releasing = tokio::spawn(elector.release());
    let mut messages = Vec::new();
    loop {
        let call = server.next().await;
        match call.method.as_str() {
            "POST" => {
                messages.push(call.body["message"].clone());
                call.answer(201, &json!({}));
            }
            "GET" => call.answer(200, &lease("9", "vm_1", "2026-11-21T03:12:00.000000Z")),
            _ => {
                let spec = &call.body["spec"];
                assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!(""), &json!(1)));
                assert_eq!((&spec["leaseTransitions"], &spec["acquireTime"]), (&json!(3), &spec["renewTime"]));
                let lease = stored(&call, "10");
                call.answer(200, &lease);
                break;
            }
        }
    }
    releasing.await.expect("no panic");
    assert!(messages.contains(&json!("vm_1 stopped leading")), "{messages:?}");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_stops_writes_nothing() {
    let mut bench = start();
    bench.next().await.answer(200, &lease("5", "other_2", "2026-11-21T03:11:59.000000Z"));
    let Bench { mut server, elector } = bench;
    elector.release().await;
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_asked_again_when_it_says() {
    let mut bench = start();
    bench.next().await.turn_away(1);
    let turned_away = Instant::now();
    assert_eq!(bench.next().await.line(), format!("GET {LEASE}"));
    assert_eq!(turned_away.elapsed().as_secs(), 1, "sooner than the next attempt");
    let mut bench = start();
    bench.win().await;
    for _ in 0..2 {
        let call = bench.next().await;
        assert_eq!(call.line(), format!("PUT {LEASE}"));
        call.turn_away(1);
    }
    let call = bench.next().await;
    assert_eq!(call.line(), format!("PUT {LEASE}"));
    // The server asks for more time than a request has. The next attempt comes at its usual time.
    call.turn_away(30);
    let turned_away = Instant::now();
    assert_eq!(bench.next().await.line(), format!("PUT {LEASE}"));
    assert_eq!(turned_away.elapsed().as_secs(), 2);
    assert!(bench.elector.leadership().is_leading());
}

const CANDIDATES: &str = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates";

/// Requests about LeaseCandidates are answered on the way, and the watch stays open.
struct Coordinated {
    bench: Bench,
    watch: Option<Stream>,
    /// The LeaseCandidate as it was last written.
    candidate: Option<Value>,
    n_writes: u32,
}

impl Coordinated {
    fn start() -> Self {
        let coordination = Coordination { binary_version: "1.37.0".to_owned(), emulation_version: "1.36.0".to_owned() };
        Self { bench: start_with(Some(coordination)), watch: None, candidate: None, n_writes: 0 }
    }

    /// The next request about the Lease.
    async fn next(&mut self) -> Call {
        loop {
            let call = self.bench.server.next().await;
            match (call.method.as_str(), &self.candidate) {
                _ if call.path == EVENTS => call.answer(201, &json!({})),
                _ if call.has("watch=true") => {
                    let mut stream = call.stream();
                    stream.end_list("1").await;
                    self.watch = Some(stream);
                }
                ("GET", None) if call.path.starts_with(CANDIDATES) => call.refuse(404, "NotFound", "no candidate"),
                ("GET", Some(candidate)) if call.path.starts_with(CANDIDATES) => call.answer(200, &candidate.clone()),
                _ if call.path.starts_with(CANDIDATES) => {
                    self.candidate = Some(call.body.clone());
                    self.n_writes += 1;
                    let body = call.body.clone();
                    call.answer(200, &body);
                }
                _ => return call,
            }
        }
    }

    /// Answers requests about the Lease in the same way until `is_enough`.
    async fn until(&mut self, lease: Option<&Value>, is_enough: impl Fn(&Self) -> bool) {
        while !is_enough(self) {
            let call = self.next().await;
            assert_eq!(call.method, Method::GET, "only the coordinator gives the lease away");
            match lease {
                Some(lease) => call.answer(200, lease),
                None => call.refuse(404, "NotFound", "no lease"),
            }
        }
    }

    /// The coordinator gives the Lease to the candidate, which renews it.
    async fn win(&mut self) {
        self.next().await.answer(200, &given("3", None));
        let call = self.next().await;
        assert_eq!(call.line(), format!("PUT {LEASE}"));
        assert_eq!(
            (&call.body["spec"]["leaseTransitions"], &call.body["spec"]["holderIdentity"]),
            (&json!(3), &json!("vm_1"))
        );
        assert_eq!(call.body["spec"]["strategy"], "OldestEmulationVersion");
        let lease = stored(&call, "4");
        call.answer(200, &lease);
        self.bench.elector.leadership().won().await;
    }
}

/// The Lease that the coordinator gave to the candidate.
fn given(version: &str, preferred: Option<&str>) -> Value {
    let mut lease = lease(version, "vm_1", "2026-11-21T03:11:59.000000Z");
    lease["spec"]["preferredHolder"] = json!(preferred);
    lease
}

#[tokio::test(start_paused = true)]
async fn a_coordinated_candidate_offers_itself_and_answers() {
    let mut coordinated = Coordinated::start();
    coordinated.until(None, |it| it.candidate.is_some() && it.watch.is_some()).await;
    let candidate = coordinated.candidate.clone().expect("written");
    assert_eq!(candidate["metadata"], json!({"name": "vm_1", "namespace": "kube-system"}));
    let expected = json!({"leaseName": "kube-scheduler", "binaryVersion": "1.37.0", "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion", "renewTime": candidate["spec"]["renewTime"]});
    assert_eq!(candidate["spec"], expected);
    let other = lease("5", "other_2", "2026-11-21T03:11:59.000000Z");
    coordinated.until(Some(&other), |it| it.bench.elector.leadership().is_candidate() == Some(true)).await;
    assert_eq!(coordinated.n_writes, 1);
    // A ping that is older than the last renewal was answered already.
    for (ping, n_writes) in [("2001-01-01T00:00:00.000000Z", 1), ("2999-01-01T00:00:00.000000Z", 2)] {
        let mut pinged = candidate.clone();
        pinged["metadata"]["resourceVersion"] = json!(format!("{n_writes}0"));
        pinged["metadata"]["uid"] = json!("8");
        pinged["spec"]["pingTime"] = json!(ping);
        coordinated.candidate = Some(pinged.clone());
        coordinated.watch.as_mut().expect("it is open").send("MODIFIED", &pinged).await;
        for _ in 0..3 {
            coordinated.next().await.answer(200, &other);
        }
        assert_eq!(coordinated.n_writes, n_writes, "{ping}");
    }
    let answered = &coordinated.candidate.as_ref().expect("written")["spec"];
    assert_eq!(answered["pingTime"], "2999-01-01T00:00:00.000000Z", "the field of the coordinator is kept");
    assert!(!coordinated.bench.elector.leadership().is_leading());
}

#[tokio::test(start_paused = true)]
async fn a_coordinated_leader_gives_up_for_the_preferred_candidate() {
    let mut coordinated = Coordinated::start();
    coordinated.win().await;
    let call = coordinated.next().await;
    assert_eq!(call.line(), format!("PUT {LEASE}"));
    call.refuse(409, "Conflict", "the coordinator wrote");
    coordinated.next().await.answer(200, &given("9", Some("other_2")));
    let reason = coordinated.bench.elector.leadership().lost().await;
    let expected = "the coordinator prefers other_2 as the holder of the lease kube-system/kube-scheduler";
    assert_eq!(reason.to_string(), expected);
    let LeadershipLost::EndOfTerm { until, .. } = reason else { panic!("{reason}") };
    assert!(until > Instant::now(), "its work may end in good order");
    let Coordinated { bench: Bench { mut server, elector }, .. } = coordinated;
    let releasing = tokio::spawn(elector.release());
    let released = loop {
        let call = server.next().await;
        match call.method.as_str() {
            _ if call.path == EVENTS => call.answer(201, &json!({})),
            "GET" if call.path == LEASE => call.answer(200, &given("9", Some("other_2"))),
            "PUT" if call.path == LEASE => break call,
            _ => call.lose(),
        }
    };
    assert_eq!(released.body["spec"]["holderIdentity"], "");
    assert_eq!(released.body["spec"].get("preferredHolder"), None);
    let lease = stored(&released, "10");
    released.answer(200, &lease);
    drop(server);
    releasing.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn without_its_kind_a_coordinated_candidate_tries_on_and_does_not_lead() {
    let mut bench =
        start_with(Some(Coordination { binary_version: "1.37.0".into(), emulation_version: "1.36.0".into() }));
    let mut n_tries = 0;
    while n_tries < 3 {
        let call = bench.server.next().await;
        n_tries += u32::from(call.method == Method::POST);
        call.refuse(404, "NotFound", "the server could not find the requested resource");
    }
    let leadership = bench.elector.leadership();
    assert_eq!((leadership.is_leading(), leadership.is_candidate()), (false, Some(false)));
}

#[test]
fn the_guide_lists_the_event_about_the_lease() {
    let guide = include_str!("../../../../docs/src/running.md");
    let section = guide.split("\n### Events about the Lease\n").nth(1).and_then(|rest| rest.split("\n### ").next());
    let rows = section.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| `"));
    let reasons: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert_eq!(reasons, [EVENT_REASON]);
}
