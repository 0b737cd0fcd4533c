#!/bin/sh
# Builds build/{{name}}.wasm. Installs what that takes on the first run, without root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/berth/build.sh" "$here" "{{name}}"
