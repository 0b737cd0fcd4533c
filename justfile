# Each recipe is a plain command; `just` is a convenience.

# A sandbox, nodes, pods, and where each pod went
demo:
    cargo xtask demo

# All tests
test:
    cargo xtask test

# Formatting, lints, crate directions, tidiness
check:
    cargo xtask check

# Check, then test
ci:
    cargo xtask ci

# The berth binary against a real etcd and kube-apiserver, from the folder that KUBEBUILDER_ASSETS names
e2e:
    cargo xtask e2e

# kube-scheduler and Berth schedule the same pods, and the differences are shown
differential:
    cargo xtask differential

# Golden cases recorded from kube-scheduler 1.36, native and wasm
oracle:
    cargo run --release -p oracle -- tests/oracle/cases

# One scheduling cycle at 100, 1,000 and 5,000 nodes, native beside wasm
bench:
    cargo bench -p berth-host
