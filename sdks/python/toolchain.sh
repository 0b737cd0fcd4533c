#!/bin/sh
# Fetches the tools for plugins in Python from PyPI, without root. They are prebuilt, with the versions and digests in
# tools.txt. They are stored in $BERTH_TOOLCHAINS (~/.cache/berth/toolchains).
#
# usage: toolchain.sh          fetch what is missing
#        toolchain.sh --paths  do so, and print where each tool is, for a shell
#        toolchain.sh --check  succeed only if nothing is missing, and fetch nothing
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 > /dev/null || {
    echo "python3 is missing: plugins in Python are built with tools from PyPI. Install the packages python3 and python3-pip." >&2
    exit 1
}
# The file is copied together with the SDK. Berth's own repository has it beside the SDKs.
fetch=$here/fetch.py
[ -f "$fetch" ] || fetch=$here/../fetch.py
exec python3 "$fetch" "$here/tools.txt" "$@"
