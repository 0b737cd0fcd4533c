#!/bin/sh
# Installs what building a plugin in JavaScript or TypeScript takes, each at its pinned version, without root:
# componentize-qjs and esbuild from npm. They stay in $BERTH_TOOLCHAINS (~/.cache/berth/toolchains).
#
# usage: toolchain.sh          install what is missing
#        toolchain.sh --check  succeed only if nothing is missing, and install nothing
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.sh"
[ "${1-}" != --check ] || { [ -f "$js_home/complete" ] && exit 0 || exit 1; }

if [ ! -f "$js_home/complete" ]; then
    mkdir -p "$js_home"
    cp "$here/package.json" "$js_home/"
    (cd "$js_home" && npm install --silent --ignore-scripts --no-audit --no-fund)
    touch "$js_home/complete"
fi
