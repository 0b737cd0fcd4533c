#!/bin/sh
# Builds the plugin in a folder: its plugin.js or plugin.ts with all imports, with this SDK, for the world in its
# plugin.wit.
#
# usage: build.sh FOLDER NAME   writes FOLDER/build/NAME.wasm
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tools=$("$here/toolchain.sh" --paths)
eval "$tools"
exec node "$here/build.mjs" "$js_home" "$1" "$2"
