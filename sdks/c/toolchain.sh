#!/bin/sh
# Installs what building a plugin in C takes, each at its pinned version, without root: zig's C compiler from PyPI,
# wit-bindgen and wasm-tools from crates.io. They stay in $BERTH_TOOLCHAINS (~/.cache/berth/toolchains).
#
# usage: toolchain.sh          install what is missing
#        toolchain.sh --check  succeed only if nothing is missing, and install nothing
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.sh"
[ "${1-}" != --check ] || { for tool in "$zig" "$wit_bindgen" "$wasm_tools"; do [ -x "$tool" ] || exit 1; done; exit 0; }

mkdir -p "$toolchains"
if [ ! -x "$zig" ]; then
    python3 -m venv "$zig_home"
    "$zig_home/bin/pip" install --quiet --disable-pip-version-check "ziglang==$zig_version"
fi
[ -x "$wit_bindgen" ] || cargo install --locked --quiet wit-bindgen-cli --version "$wit_bindgen_version" \
    --no-default-features --features c,go --root "$wit_bindgen_home"
[ -x "$wasm_tools" ] || cargo install --locked --quiet wasm-tools --version "$wasm_tools_version" \
    --no-default-features --features component --root "$wasm_tools_home"
