#!/bin/sh
# Fetches the tools for plugins in JavaScript and TypeScript from npm, without root. They are prebuilt, with the
# versions and digests in package-lock.json. They are stored in $BERTH_TOOLCHAINS (~/.cache/berth/toolchains), in a
# folder that gets its final name when it is complete.
#
# usage: toolchain.sh          fetch what is missing
#        toolchain.sh --paths  do so, and print where it is, for a shell
#        toolchain.sh --check  succeed only if nothing is missing, and fetch nothing
set -eu
here=$(cd "$(dirname "$0")" && pwd)
toolchains=${BERTH_TOOLCHAINS:-${XDG_CACHE_HOME:-${HOME:?is not set: set BERTH_TOOLCHAINS}/.cache}/berth/toolchains}
home=$toolchains/npm-$(cksum < "$here/package-lock.json" | cut -d ' ' -f 1)

if [ "${1-}" = --check ]; then [ -d "$home" ] && exit 0 || exit 1; fi
for program in node npm; do
    command -v "$program" > /dev/null || {
        echo "$program is missing: plugins in JavaScript are built with tools from npm. Install the packages nodejs and npm." >&2
        exit 1
    }
done
if [ ! -d "$home" ]; then
    tools=$(sed -n 's/^    "\(.*\)": "\(.*\)".*/\1 \2/p' "$here/package.json" | paste -s -d , - | sed 's/,/, /g')
    echo "fetching $tools from npm (30 MB) ..." >&2
    part=$home.$$.part
    mkdir -p "$part"
    trap 'rm -rf "$part"' EXIT
    cp "$here/package.json" "$here/package-lock.json" "$part/"
    # `npm ci` is not used, because it needs digests of packages for machines that npm does not support yet.
    (cd "$part" && npm install --loglevel=error --ignore-scripts --no-audit --no-fund > /dev/null) || {
        echo "$tools cannot be had from npm. Behind a proxy set HTTPS_PROXY; for a mirror set npm_config_registry; without a" >&2
        echo "network copy $home from a machine that has it." >&2
        exit 1
    }
    # Another build may have started at the same time.
    [ -d "$home" ] || mv "$part" "$home"
fi
if [ "${1-}" = --paths ]; then printf "js_home='%s'\n" "$home"; fi
