#!/bin/sh
# Builds build/NodeMetadata.wasm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../sdks/c/build.sh" "$here" NodeMetadata
