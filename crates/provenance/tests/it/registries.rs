//! Tests of pushes, pulls, tokens, mirrors, the cache, and registries that behave wrongly.

use std::{fs, path::Path};

use berth_provenance::{
    Cache, ComponentDescription, Evidence, Policy, PrivateKey, Proxies, Pulled, Puller, Reference, Registries,
    RegistryOptions, Signer, SignerIdentity, Source, SourcePattern, SourceRule, Trust, Unsigned, attach_signature,
    push, simple_signing_payload,
};
use berth_test_registry::TestRegistry;

const LIMIT: u64 = 1 << 20;

fn reference(registry: &TestRegistry, rest: &str) -> Reference {
    format!("{}/{rest}", registry.host()).parse().unwrap()
}

fn options(registry: &TestRegistry) -> RegistryOptions {
    RegistryOptions { host: registry.host(), plain_http: true, ..RegistryOptions::default() }
}

fn puller(options: Vec<RegistryOptions>, cache: Option<&Path>) -> Puller {
    Puller::new(
        Registries::new(options, None, &Proxies::default()).unwrap(),
        cache.map(|dir| Cache::open(dir).unwrap()),
    )
}

async fn pushed(registry: &TestRegistry, name: &str, component: &[u8]) -> berth_model::Digest {
    let registries = Registries::new(vec![options(registry)], None, &Proxies::default()).unwrap();
    push(&registries, &reference(registry, name), component, &ComponentDescription::default()).await.unwrap()
}

async fn pulled(puller: &Puller, reference: &Reference) -> Pulled {
    puller.pull(reference, LIMIT, None).await.unwrap().unwrap()
}

async fn failure(puller: &Puller, reference: &Reference) -> String {
    puller.pull(reference, LIMIT, None).await.unwrap_err().to_string()
}

#[tokio::test]
async fn what_is_pushed_is_pulled_by_tag_and_by_digest() {
    let registry = TestRegistry::start().await.unwrap();
    let manifest = pushed(&registry, "team/zone:1", b"first").await;
    let puller = puller(vec![options(&registry)], None);
    let by_tag = reference(&registry, "team/zone:1");
    let found = pulled(&puller, &by_tag).await;
    assert_eq!((found.component.as_slice(), found.manifest), (&b"first"[..], manifest));
    assert!(puller.pull(&by_tag, LIMIT, Some(manifest)).await.unwrap().is_none(), "nothing changed");
    let newer = pushed(&registry, "team/zone:1", b"second").await;
    let moved = puller.pull(&by_tag, LIMIT, Some(manifest)).await.unwrap().unwrap();
    assert_eq!((moved.component.as_slice(), moved.manifest), (&b"second"[..], newer));
    let by_digest = pulled(&puller, &by_tag.at(manifest)).await;
    assert_eq!(by_digest.component, b"first");
}

#[tokio::test]
async fn a_registry_without_tls_is_reported_with_the_option_for_it() {
    let advice = "; if the registry speaks HTTP, give --plain-http, or set plainHTTP in the registry's entry of \
                  `registries`";
    let registry = TestRegistry::start().await.unwrap();
    let error = failure(&puller(Vec::new(), None), &reference(&registry, "zone:1")).await;
    assert!(error.contains("cannot be queried") && error.ends_with(advice), "{error}");

    // Some servers close the connection without an answer.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name: Reference = format!("{}/zone:1", listener.local_addr().unwrap()).parse().unwrap();
    let closing = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let error = failure(&puller(Vec::new(), None), &name).await;
    assert!(error.ends_with(advice), "{error}");

    closing.abort();
    assert!(closing.await.unwrap_err().is_cancelled());
    let error = failure(&puller(Vec::new(), None), &name).await;
    assert!(error.contains("cannot be queried") && !error.contains("plainHTTP"), "{error}");
}

#[tokio::test]
async fn the_cache_serves_while_the_registry_is_away() {
    let registry = TestRegistry::start().await.unwrap();
    let manifest = pushed(&registry, "zone:1", b"component").await;
    let dir = tempfile::tempdir().unwrap();
    let puller = puller(vec![options(&registry)], Some(dir.path()));
    let name = reference(&registry, "zone:1");
    assert!(puller.cached(&name, LIMIT).is_none());
    pulled(&puller, &name).await;
    registry.behave(|it| it.is_away = true);
    let error = failure(&puller, &name).await;
    assert!(
        error.contains(&registry.host()) && error.contains("answered 503 to the request for zone:1: away"),
        "{error}"
    );
    let cached = puller.cached(&name, LIMIT).unwrap();
    assert_eq!((cached.component.as_slice(), cached.manifest, cached.host), (&b"component"[..], manifest, None));
    // An attacker changes the content of the cache.
    let blobs = dir.path().join("blobs").join("sha256");
    fs::write(blobs.join(cached.digest.to_string()), b"c0mponent").unwrap();
    assert!(puller.cached(&name, LIMIT).is_none());
}

#[tokio::test]
async fn tampered_and_oversized_components_are_refused() {
    let registry = TestRegistry::start().await.unwrap();
    pushed(&registry, "zone:1", b"component").await;
    let puller = puller(vec![options(&registry)], None);
    let name = reference(&registry, "zone:1");
    let error = puller.pull(&name, 3, None).await.unwrap_err().to_string();
    assert!(error.contains("9 bytes, more than the 3") && error.contains("files.maxSize"), "{error}");
    assert!(!registry.take_requests().iter().any(|request| request.starts_with("GET") && request.contains("/blobs/")));
    registry.behave(|it| it.tampers = true);
    let error = failure(&puller, &name).await;
    assert!(error.contains("sent the wrong bytes for the blob sha256:"), "{error}");
}

#[tokio::test]
async fn a_blob_that_is_larger_than_the_manifest_says_is_cut_off() {
    let registry = TestRegistry::start().await.unwrap();
    let digest = registry.put_blob("zone", &[0; 1000]);
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.wasm.config.v0+json","digest":"{digest}","size":2}},
            "layers":[{{"mediaType":"application/wasm","digest":"{digest}","size":10}}]}}"#
    );
    registry.put_manifest("zone", "1", "application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    let error = failure(&puller(vec![options(&registry)], None), &reference(&registry, "zone:1")).await;
    assert!(error.contains("more than 10 bytes"), "{error}");
}

#[tokio::test]
async fn a_token_is_asked_for_with_the_pull_secret_and_redirects_are_followed() {
    let registry = TestRegistry::start().await.unwrap();
    pushed(&registry, "zone:1", b"component").await;
    registry.behave(|it| {
        it.credentials = Some(("berth".to_owned(), "secret".to_owned()));
        it.redirects = true;
    });
    let name = reference(&registry, "zone:1");
    let error = failure(&puller(vec![options(&registry)], None), &name).await;
    assert!(error.contains("requires credentials") && error.contains("pullSecretFile"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("config.json");
    let with_secret = |password: &str| {
        let text = format!(r#"{{"auths":{{"{}":{{"username":"berth","password":"{password}"}}}}}}"#, registry.host());
        fs::write(&secret, text).unwrap();
        puller(vec![RegistryOptions { pull_secret_file: Some(secret.clone()), ..options(&registry) }], None)
    };
    let error = failure(&with_secret("wrong"), &name).await;
    assert!(error.contains("rejected the credentials of") && error.contains("config.json"), "{error}");
    assert_eq!(pulled(&with_secret("secret"), &name).await.component, b"component");
    let n_tokens = registry.take_requests().iter().filter(|request| request.ends_with("/token")).count();
    assert!((2..=4).contains(&n_tokens), "{n_tokens}");
}

#[tokio::test]
async fn credentials_go_to_the_token_service_that_fits_the_registry() {
    let (registry, other) = (TestRegistry::start().await.unwrap(), TestRegistry::start().await.unwrap());
    pushed(&registry, "zone:1", b"component").await;
    let credentials = Some(("berth".to_owned(), "secret".to_owned()));
    registry.behave(|it| (it.credentials, it.token_service) = (credentials.clone(), Some(other.host())));
    other.behave(|it| it.credentials = credentials);
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("config.json");
    let text = format!(r#"{{"auths":{{"{}":{{"username":"berth","password":"secret"}}}}}}"#, registry.host());
    fs::write(&secret, text).unwrap();
    let with_service = |token_service| {
        let secret = Some(secret.clone());
        puller(vec![RegistryOptions { pull_secret_file: secret, token_service, ..options(&registry) }], None)
    };
    let name = reference(&registry, "zone:1");
    let error = failure(&with_service(None), &name).await;
    for part in [registry.host(), other.host(), "tokenService".to_owned()] {
        assert!(error.contains(&part), "{error}");
    }
    assert_eq!(other.take_requests(), [""; 0], "no other host gets the credentials");
    assert_eq!(pulled(&with_service(Some(other.host())), &name).await.component, b"component");
    // Without credentials, there is nothing to protect.
    failure(&puller(vec![options(&registry)], None), &name).await;
    assert!(other.take_requests().contains(&"GET /token".to_owned()));
}

#[tokio::test]
async fn mirrors_are_asked_first_and_the_registry_when_they_have_nothing() {
    let (registry, mirror) = (TestRegistry::start().await.unwrap(), TestRegistry::start().await.unwrap());
    let name = reference(&registry, "zone:1");
    let of_mirror = options(&mirror);
    let of_registry = RegistryOptions { mirrors: vec![mirror.host()], ..options(&registry) };
    let puller = puller(vec![of_registry, of_mirror], None);
    let error = failure(&puller, &name).await;
    assert!(error.contains(&format!("{} answered 404 to the request for zone:1", mirror.host())), "{error}");
    assert!(error.contains(&format!("{} answered 404 to the request for zone:1", registry.host())), "{error}");
    pushed(&registry, "zone:1", b"component").await;
    assert_eq!(pulled(&puller, &name).await.host, Some(registry.host()));
    mirror.mirror(&registry);
    registry.behave(|it| it.is_away = true);
    assert_eq!(pulled(&puller, &name).await.host, Some(mirror.host()));
}

#[tokio::test]
async fn signatures_that_were_attached_are_pulled_and_count() {
    let registry = TestRegistry::start().await.unwrap();
    let manifest = pushed(&registry, "zone:1", b"component").await;
    let registries = Registries::new(vec![options(&registry)], None, &Proxies::default()).unwrap();
    let name = reference(&registry, "zone:1");
    let keys: Vec<PrivateKey> =
        (0..2).map(|_| PrivateKey::from_pem(&PrivateKey::generate_pem().unwrap()).unwrap()).collect();
    let examine = async |key: &PrivateKey| -> (Policy, Source, Evidence) {
        let signer = Signer { name: "release".to_owned(), identity: SignerIdentity::Key(key.public()) };
        let from = SourcePattern::Registry(registry.host());
        let policy = Policy::new(vec![SourceRule { from, signers: vec![signer], unsigned: Unsigned::Deny }]);
        let found = pulled(&puller(vec![options(&registry)], None), &name).await;
        let source = Source::Registry { reference: name.clone(), manifest: found.manifest };
        let evidence = policy.examine(&source, None, &found.signatures);
        (policy, source, evidence)
    };
    let (policy, source, evidence) = examine(&keys[0]).await;
    assert!(policy.decide(&source, &evidence).unwrap_err().to_string().contains("has no signature"));
    for key in &keys {
        let payload = simple_signing_payload(&name.name(), manifest);
        attach_signature(&registries, &name, manifest, &payload, &key.sign(&payload).unwrap()).await.unwrap();
        let (policy, source, evidence) = examine(key).await;
        assert_eq!(policy.decide(&source, &evidence), Ok(Trust::Signed(vec!["release".to_owned()])));
    }
    let (policy, source, evidence) = examine(&keys[0]).await;
    assert!(policy.decide(&source, &evidence).is_ok(), "the second signature left the first in its place");
}
