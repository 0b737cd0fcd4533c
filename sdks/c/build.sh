#!/bin/sh
# Builds the plugin of a folder: its *.c, with this SDK, for the world in its plugin.wit.
#
# usage: build.sh FOLDER NAME   writes FOLDER/build/NAME.wasm
set -eu
sdk=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
name=$2
"$sdk/toolchain.sh"
. "$sdk/versions.sh"

build=$folder/build
rm -rf "$build"
mkdir -p "$build/wit/deps/berth"
# The contract travels with the SDK; in Berth's own repository it lies at the root.
contract=$sdk/wit
[ -d "$contract" ] || contract=$sdk/../../wit
cp "$contract"/*.wit "$build/wit/deps/berth/"
cp "$folder/plugin.wit" "$build/wit/"

log=$("$wit_bindgen" c "$build/wit" --world plugin --out-dir "$build/bindings" 2>&1) || { echo "$log" >&2; exit 1; }
# `export berth:scheduler/normalize-score@0.1.0;` is what BERTH_EXPORTS_NORMALIZE_SCORE stands for.
exports=$(sed -n 's|^ *export berth:scheduler/\([a-z-]*\)@.*|-DBERTH_EXPORTS_\1|p' "$folder/plugin.wit" | tr 'a-z-' 'A-Z_' |
    sed 's/^_D/-D/')
# The stack is set, since zig's default is 16 MiB.
# shellcheck disable=SC2086
"$zig" cc -target wasm32-wasi -mexec-model=reactor -std=c17 -Os -Wall -Wextra -Wl,--strip-debug -Wl,-z,stack-size=65536 \
    $exports -I "$sdk" -I "$build/bindings" "$folder"/*.c "$sdk"/*.c "$build/bindings/plugin.c" \
    "$build/bindings/plugin_component_type.o" -o "$build/module.wasm"
# Fails if the module imports anything but the scheduler's interface.
"$wasm_tools" component new "$build/module.wasm" -o "$build/$name.wasm"
rm "$build/module.wasm"
