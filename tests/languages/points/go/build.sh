#!/bin/sh
# Builds build/Points.wasm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../../sdks/go/build.sh" "$here" Points
