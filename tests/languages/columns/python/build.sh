#!/bin/sh
# Builds build/Columns.wasm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../../sdks/python/build.sh" "$here" Columns
