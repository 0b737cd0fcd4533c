# The tools for Python plugins and where they are kept; read by toolchain.sh and build.sh.
componentize_version=0.25.0

toolchains=${BERTH_TOOLCHAINS:-${XDG_CACHE_HOME:-$HOME/.cache}/berth/toolchains}
componentize_home=$toolchains/componentize-py-$componentize_version
componentize=$componentize_home/bin/componentize-py
