//! All kinds of input from outsiders, at the same time as the pods of the soak: claims with device selectors, classes
//! and slices; pods of a plugin that asks for a thousand effects for each pod; clients that send nothing, send slowly
//! or do not receive answers; files that are not plugins; and a registry that misbehaves.

use std::{
    collections::VecDeque,
    fs,
    io::Write as _,
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use berth_cluster::{ConnectOptions, Creator, PodRef, Writer, connect};
use berth_storm::Processes;
use berth_test_guests::{At, WantedEffect, asks_for};
use berth_test_registry::TestRegistry;
use serde_json::{Value, json};

/// The time between two rounds of everything.
const ROUND: Duration = Duration::from_millis(500);

/// The number of the plugin's pods in each round, and the number of rounds after which a pod is deleted.
const LOUD_PODS: usize = 5;
const ROUNDS_OF_A_POD: usize = 20;

/// The final number of claims, classes and slices of each kind.
const OBJECTS: u64 = 200;

/// The number of connections that are held at the same time.
const CONNECTIONS: usize = 400;

/// The requests on connections, by number.
const REQUESTS: [&[u8]; 5] = [
    b"",
    b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-Slow: ",
    b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /metrics/resources HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
];

/// The profiles of the hostile plugins.
pub(crate) const CONFIG: &str = "\
profiles:
- schedulerName: default-scheduler
- schedulerName: loud
  plugins: {multiPoint: {enabled: [{name: Loud}]}}
- schedulerName: pulled
  plugins: {multiPoint: {enabled: [{name: Pulled}]}}
";

/// The outsiders, which act until this value is dropped.
pub(crate) struct Outsiders {
    registry: TestRegistry,
    number: u64,
    connections: VecDeque<TcpStream>,
    pods: VecDeque<PodRef>,
}

impl Outsiders {
    pub(crate) async fn start() -> Result<Self> {
        let registry = TestRegistry::start().await?;
        Ok(Self { registry, number: 0, connections: VecDeque::new(), pods: VecDeque::new() })
    }

    /// Additional parts of the plugins' configuration, after the entries of `plugins`.
    pub(crate) fn rules(&self) -> String {
        let host = self.registry.host();
        format!(
            "- name: Loud\n  grants: {{effects: [bind, nominate, activate, event]}}\n- name: Pulled\n  source: {{oci: \
             '{host}/pulled:1', pullIntervalSeconds: 1}}\nregistries:\n- {{host: '{host}', plainHTTP: true}}\n"
        )
    }

    /// The outsiders continue until this time.
    pub(crate) async fn send_until(mut self, end: Instant, processes: Arc<Processes>) -> Result<()> {
        let options = ConnectOptions { kubeconfig: Some(processes.kubeconfig.clone()), ..ConnectOptions::default() };
        let client = connect(&options).await?.client();
        let (mut creator, writer) = (Creator::new(client.clone()), Writer::new(client));
        fs::write(processes.plugins_dir.join("Loud.wasm"), loud()?)?;
        while Instant::now() < end {
            self.number += 1;
            self.send_objects(&mut creator).await?;
            self.send_pods(&mut creator, &writer).await?;
            self.send_connections(&processes);
            self.send_files(&processes)?;
            self.misbehave();
            tokio::time::sleep(ROUND).await;
        }
        Ok(())
    }

    async fn send_objects(&self, creator: &mut Creator) -> Result<()> {
        if self.number <= OBJECTS {
            for object in objects(self.number) {
                creator.create(&object).await.with_context(|| format!("cannot create {}", object["kind"]))?;
            }
        }
        Ok(())
    }

    async fn send_pods(&mut self, creator: &mut Creator, writer: &Writer) -> Result<()> {
        for index in 0..LOUD_PODS {
            let name = format!("loud-{}-{index}", self.number);
            let created = creator.create(&loud_pod(&name)).await?;
            let uid = created["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            self.pods.push_back(PodRef { namespace: "default".to_owned(), name, uid });
        }
        while self.pods.len() > LOUD_PODS * ROUNDS_OF_A_POD {
            if let Some(pod) = self.pods.pop_front() {
                // A pod that stays a little longer does no harm.
                drop(writer.delete_pod(&pod).await);
            }
        }
        Ok(())
    }

    fn send_connections(&mut self, processes: &Processes) {
        for request in REQUESTS.iter().cycle().take(20) {
            // Connections may be refused or cut off, because that is the purpose of the limit.
            if let Ok(mut stream) = TcpStream::connect(processes.address()) {
                let _ = stream.write_all(request);
                self.connections.push_back(stream);
            }
        }
        let n_over = self.connections.len().saturating_sub(CONNECTIONS);
        self.connections.drain(..n_over);
    }

    fn send_files(&self, processes: &Processes) -> Result<()> {
        let name = format!("Garbage{}.wasm", self.number % 10);
        let bytes = format!("{} is not a component", self.number).repeat(20_000);
        fs::write(processes.plugins_dir.join(name), bytes)?;
        Ok(())
    }

    fn misbehave(&self) {
        let number = self.number;
        self.registry.behave(|it| {
            (it.tampers, it.is_away, it.redirects) =
                (number.is_multiple_of(2), number.is_multiple_of(7), number % 3 == 1);
        });
        let blob = self.registry.put_blob("pulled", number.to_string().repeat(1000).as_bytes());
        let layer = json!({"mediaType": "application/wasm", "digest": blob, "size": 4000});
        let manifest = json!({"schemaVersion": 2, "config": layer, "layers": [layer]}).to_string();
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        self.registry.put_manifest("pulled", "1", media_type, manifest.as_bytes());
    }
}

/// A plugin that asks for effects at Permit which change nothing.
fn loud() -> Result<Vec<u8>> {
    let uid = "no-such-pod".to_owned();
    let effects = [
        WantedEffect::Bind,
        WantedEffect::Nominate([uid.clone(), "no-such-node".to_owned()]),
        WantedEffect::Activate(uid),
        WantedEffect::Event(["Loud", "Shouting", "all the time"].map(str::to_owned)),
    ];
    asks_for("Loud", At::Permit, &effects.map(|effect| vec![effect; 80]).concat())
}

fn loud_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {name: "x".repeat(10_000)}},
        "spec": {
            "schedulerName": "loud",
            "containers": [{"name": "main", "image": name, "resources": {"requests": {"cpu": "1m"}}}],
        },
    })
}

/// A class, a claim for the class with selectors that match nothing, the pod with the claim, and a slice.
fn objects(number: u64) -> [Value; 4] {
    let (class, claim) = (format!("class-{number}"), format!("claim-{number}"));
    let expression = format!("device.driver == \"{}\"", "d".repeat(5_000 + usize::try_from(number).unwrap_or(0)));
    let selectors = vec![json!({"cel": {"expression": expression}}); 8];
    let exactly = json!({"deviceClassName": class, "selectors": selectors});
    let devices: Vec<Value> = (0..32).map(|device| json!({"name": format!("device-{device}")})).collect();
    let slice = json!({
        "driver": format!("driver-{number}.example.com"), "nodeName": "node-00001", "devices": devices,
        "pool": {"name": format!("pool-{number}"), "generation": 1, "resourceSliceCount": 1},
    });
    let mut pod = loud_pod(&format!("claimant-{number}"));
    pod["spec"]["schedulerName"] = "default-scheduler".into();
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": claim}]);
    [
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": class}, "spec": {}}),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": claim},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("slice-{number}")},
            "spec": slice,
        }),
        pod,
    ]
}
