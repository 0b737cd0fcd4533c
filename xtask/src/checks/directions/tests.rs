//! The complaints about made-up outputs of `cargo tree`.

use super::{Graph, complaints};

fn complaints_about(tree: &str) -> Vec<String> {
    complaints(&Graph::parse(tree).expect("an output of cargo tree"))
}

#[test]
fn what_is_listed_may_be() {
    let tree = "0berth-model v0.1.0 (/r/crates/model)\n1serde v1.0.0\n\n0berth-queue v0.1.0 (/r/crates/queue)\n1berth-model v0.1.0 (/r/crates/model) (*)\n";
    assert_eq!(complaints_about(tree), [""; 0]);
}

#[test]
fn an_edge_that_is_not_listed_is_named() {
    let tree = "0berth-cache v0.1.0 (/r/crates/cache)\n\n0berth-queue v0.1.0 (/r/crates/queue)\n1berth-cache v0.1.0 (/r/crates/cache) (*)\n";
    assert_eq!(complaints_about(tree), ["berth-queue must not depend on berth-cache"]);
}

#[test]
fn a_heavy_crate_is_found_behind_others() {
    let tree = "0berth-model v0.1.0 (/r/crates/model)\n1light v1.0.0\n2tokio v1.0.0\n";
    assert_eq!(complaints_about(tree), ["berth-model must not depend on tokio: berth-model -> light -> tokio"]);
}

#[test]
fn what_stands_below_a_repeated_crate_counts() {
    let tree = "0berth-sandbox v0.1.0 (/r/crates/sandbox)\n1light v1.0.0\n2tokio v1.0.0\n\n0berth-model v0.1.0 (/r/crates/model)\n1light v1.0.0 (*)\n";
    assert_eq!(complaints_about(tree), ["berth-model must not depend on tokio: berth-model -> light -> tokio"]);
}

#[test]
fn a_new_crate_must_be_put_into_the_list() {
    let complaints = complaints_about("0berth-news v0.1.0 (/r/crates/news)\n");
    assert_eq!(complaints, ["berth-news: not in the list of crates and what they may depend on"]);
}

#[test]
fn plugins_may_name_the_sdk_but_nothing_else() {
    let tree = "0berth-sdk v0.1.0 (/r/sdks/rust)\n\n0berth-config v0.1.0 (/r/crates/config)\n\n0berth-node-name v0.1.0 (/r/plugins/node-name)\n1berth-config v0.1.0 (/r/crates/config) (*)\n1berth-sdk v0.1.0 (/r/sdks/rust) (*)\n";
    assert_eq!(complaints_about(tree), ["berth-node-name must not depend on berth-config"]);
}
