#!/bin/sh
# rustdoc with its unstable options, on the stable toolchain.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
