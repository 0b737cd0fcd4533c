# The tools for C plugins and where they are kept; read by toolchain.sh and build.sh.
zig_version=0.16.0
wit_bindgen_version=0.63.0
wasm_tools_version=1.263.0

toolchains=${BERTH_TOOLCHAINS:-${XDG_CACHE_HOME:-$HOME/.cache}/berth/toolchains}
zig_home=$toolchains/ziglang-$zig_version
zig=$zig_home/bin/python-zig
wit_bindgen_home=$toolchains/wit-bindgen-$wit_bindgen_version
wit_bindgen=$wit_bindgen_home/bin/wit-bindgen
wasm_tools_home=$toolchains/wasm-tools-$wasm_tools_version
wasm_tools=$wasm_tools_home/bin/wasm-tools
