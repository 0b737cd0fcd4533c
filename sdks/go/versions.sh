# The tools for Go plugins and where they are kept; read by toolchain.sh and build.sh.
go_version=1.27.1
wit_bindgen_version=0.63.0
wasm_tools_version=1.263.0

toolchains=${BERTH_TOOLCHAINS:-${XDG_CACHE_HOME:-$HOME/.cache}/berth/toolchains}
go_home=$toolchains/go-$go_version
go=$go_home/bin/go
# The Go module that the bindings need, as wit-bindgen's own crate ships it.
go_runtime=$toolchains/wit-bindgen-go-$wit_bindgen_version
wit_bindgen_home=$toolchains/wit-bindgen-$wit_bindgen_version
wit_bindgen=$wit_bindgen_home/bin/wit-bindgen
wasm_tools_home=$toolchains/wasm-tools-$wasm_tools_version
wasm_tools=$wasm_tools_home/bin/wasm-tools
