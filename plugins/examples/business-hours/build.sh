#!/bin/sh
# Builds build/BusinessHours.wasm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../../../sdks/js/build.sh" "$here" BusinessHours
