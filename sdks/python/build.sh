#!/bin/sh
# Builds the plugin of a folder: its plugin.py, and what that imports from the folder, with this SDK, for the world in
# its plugin.wit.
#
# usage: build.sh FOLDER NAME   writes FOLDER/build/NAME.wasm
set -eu
sdk=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
name=$2
tools=$("$sdk/toolchain.sh" --paths)
eval "$tools"

python3 "$sdk/imports.py" "$folder"
# It travels with the SDK; in Berth's own repository it lies beside the SDKs.
methods=$sdk/methods.py
[ -f "$methods" ] || methods=$sdk/../methods.py
python3 "$methods" python "$folder"

build=$folder/build
rm -rf "$build"
mkdir -p "$build/wit/deps/berth"
# The contract travels with the SDK; in Berth's own repository it lies at the root.
contract=$sdk/wit
[ -d "$contract" ] || contract=$sdk/../../wit
cp "$contract"/*.wit "$build/wit/deps/berth/"
cp "$folder/plugin.wit" "$build/wit/"
python3 "$sdk/scores.py" wit "$build/wit/deps/berth"

# The module whose classes componentize-py takes for the exported interfaces.
mkdir "$build/entry"
exported=$(sed -n 's|^ *export berth:scheduler/\([a-z-]*\)@.*|\1|p' "$folder/plugin.wit" | paste -s -d ' ' -)
cat > "$build/entry/berth_entry.py" <<ENTRY
import plugin
from berth.exports import *
from berth.guest import guest

guest.exported = "$exported".split()
ENTRY
# Without --stub-wasi the component would import WASI, which the scheduler refuses.
PYTHONPATH=$componentize_py python3 "$componentize_py/bin/componentize-py" --quiet --wit-path "$build/wit" --world plugin componentize --stub-wasi \
    --python-path "$build/entry" --python-path "$folder" --python-path "$sdk" \
    berth_entry --output "$build/narrow.wasm"
python3 "$sdk/scores.py" widen "$build/narrow.wasm"
mv "$build/narrow.wasm" "$build/$name.wasm"
