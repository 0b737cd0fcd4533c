#!/bin/sh
# Installs what building a plugin in Python takes, at its pinned version, without root: componentize-py from PyPI, which
# brings the interpreter that goes into the component. It stays in $BERTH_TOOLCHAINS (~/.cache/berth/toolchains).
#
# usage: toolchain.sh          install what is missing
#        toolchain.sh --check  succeed only if nothing is missing, and install nothing
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.sh"
[ "${1-}" != --check ] || { [ -x "$componentize" ] && exit 0 || exit 1; }

if [ ! -x "$componentize" ]; then
    mkdir -p "$toolchains"
    python3 -m venv "$componentize_home"
    "$componentize_home/bin/pip" install --quiet --disable-pip-version-check "componentize-py==$componentize_version"
fi
