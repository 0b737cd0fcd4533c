#!/bin/sh
# Builds the plugin in a folder: its plugin.py with all imports from the folder, with this SDK, for the world in its
# plugin.wit.
#
# usage: build.sh FOLDER NAME   writes FOLDER/build/NAME.wasm
set -eu
sdk=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
name=$2
tools=$("$sdk/toolchain.sh" --paths)
eval "$tools"

python3 "$sdk/imports.py" "$folder"
python3 "$sdk/members.py" "$folder"
# The file is copied together with the SDK. Berth's own repository has it beside the SDKs.
methods=$sdk/methods.py
[ -f "$methods" ] || methods=$sdk/../methods.py
python3 "$methods" python "$folder" "$name"

build=$folder/build
rm -rf "$build"
mkdir -p "$build/wit/deps/berth"
# The contract is copied together with the SDK. Berth's own repository has it at the root.
contract=$sdk/wit
[ -d "$contract" ] || contract=$sdk/../../wit
cp "$contract"/*.wit "$build/wit/deps/berth/"
cp "$folder/plugin.wit" "$build/wit/"
python3 "$sdk/scores.py" wit "$build/wit/deps/berth"

# The module in which componentize-py finds the classes of the exported interfaces.
mkdir "$build/entry"
exported=$(sed -n 's|^[[:space:]]*export[[:space:]]\{1,\}berth:scheduler/\([a-z-]*\)@.*|\1|p' "$folder/plugin.wit" | paste -s -d ' ' -)
cat > "$build/entry/berth_entry.py" <<ENTRY
import plugin
from berth.exports import *
from berth.guest import guest

guest.exported = "$exported".split()
ENTRY
# componentize-py adds the packages that are installed on this machine, unless the build uses a virtual environment. This
# environment is empty: the component contains only the files of the plugin's folder, and is the same on each machine.
mkdir -p "$build/environment/lib/site-packages"
# The option --stub-wasi is needed, because the scheduler refuses components that import WASI.
VIRTUAL_ENV=$build/environment PYTHONPATH=$componentize_py python3 "$componentize_py/bin/componentize-py" --quiet --wit-path "$build/wit" --world plugin componentize --stub-wasi \
    --python-path "$build/entry" --python-path "$folder" --python-path "$sdk" \
    berth_entry --output "$build/narrow.wasm"
python3 "$sdk/scores.py" widen "$build/narrow.wasm"
mv "$build/narrow.wasm" "$build/$name.wasm"
