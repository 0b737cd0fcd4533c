#!/bin/sh
# Builds build/Usage.wasm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../../sdks/python/build.sh" "$here" Usage
