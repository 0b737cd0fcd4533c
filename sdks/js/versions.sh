# Where the tools for JavaScript plugins are kept; read by toolchain.sh and build.sh. package.json pins them.
toolchains=${BERTH_TOOLCHAINS:-${XDG_CACHE_HOME:-$HOME/.cache}/berth/toolchains}
js_home=$toolchains/js-$(cksum < "$here/package.json" | cut -d ' ' -f 1)
