#!/bin/sh
# Builds the plugin of a folder: its Go package, with this SDK, for the world in its plugin.wit.
#
# usage: build.sh FOLDER NAME   writes FOLDER/build/NAME.wasm
set -eu
sdk=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
name=$2
"$sdk/toolchain.sh"
. "$sdk/versions.sh"

# Not the files of tests, which no component holds.
find "$folder" -name build -prune -o -path "$folder/berth" -prune -o -name '*_test.go' -prune -o -name '*.go' \
    -exec awk -f "$sdk/imports.awk" {} + >&2

build=$folder/build
rm -rf "$build"
mkdir -p "$build/wit/deps/berth"
# The contract travels with the SDK; in Berth's own repository it lies at the root.
contract=$sdk/wit
[ -d "$contract" ] || contract=$sdk/../../wit
cp "$contract"/*.wit "$build/wit/deps/berth/"
cp "$folder/plugin.wit" "$build/wit/"

# The main package is the bindings'; they call the SDK's glue, and that calls the plugin.
module=$build/module
log=$("$wit_bindgen" go "$build/wit" --world plugin --out-dir "$module" 2>&1) || { echo "$log" >&2; exit 1; }
cp -R "$sdk/glue/guest" "$module/"
for interface in $(sed -n 's|^ *export berth:scheduler/\([a-z-]*\)@.*|\1|p' "$folder/plugin.wit" | tr - _); do
    cp -R "$sdk/glue/export_berth_scheduler_$interface" "$module/"
done
# What feeds the replica needs the interface sync.
[ -d "$module/berth_scheduler_sync" ] || rm "$module/guest/apply.go"
plugin=$(sed -n 's/^module //p' "$folder/go.mod")
cat > "$module/plugin.go" <<PLUGIN
package main

import _ "$plugin"
PLUGIN
cat > "$module/go.mod" <<MODULE
module wit_component

go $go_version

require (
	berth v0.0.0
	go.bytecodealliance.org/pkg v0.0.0
	$plugin v0.0.0
)

replace (
	berth => "$sdk/berth"
	go.bytecodealliance.org/pkg => "$go_runtime"
	$plugin => "$folder"
)
MODULE
# What else the plugin requires, where its go.sum and go.mod say so.
if [ -f "$folder/go.sum" ]; then cp "$folder/go.sum" "$module/"; fi

# The bindings allocate with runtime.sbrk before the runtime has started, which the linker must be told to allow.
(cd "$module" && GOOS=wasip1 GOARCH=wasm GOTOOLCHAIN=local GOFLAGS=-mod=mod GOWORK=off \
    "$go" build -buildmode=c-shared -trimpath -ldflags="-s -w -checklinkname=0" -o "$build/core.wasm" .)
"$wasm_tools" component embed "$build/wit" --world plugin "$build/core.wasm" -o "$build/embedded.wasm"
# Go's runtime asks WASI for the time and for random numbers; the adapter answers.
"$wasm_tools" component new "$build/embedded.wasm" --adapt "wasi_snapshot_preview1=$sdk/adapter.wat" -o "$build/$name.wasm"
rm "$build/core.wasm" "$build/embedded.wasm"
