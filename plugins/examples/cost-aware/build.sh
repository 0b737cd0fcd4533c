#!/bin/sh
# Builds build/CostAware.wasm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../sdks/python/build.sh" "$here" CostAware
