#!/bin/sh
# Builds build/Probe.wasm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../../sdks/js/build.sh" "$here" Probe
