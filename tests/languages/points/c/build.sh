#!/bin/sh
# Builds build/Points.wasm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../../sdks/c/build.sh" "$here" Points
