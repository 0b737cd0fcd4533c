"""Refuses a module that calls functions which a plugin does not have, such as a clock or files. build.sh runs this script.

usage: imports.py WASM_TOOLS MODULE   prints the calls and exits with 1 if there are any

C's library calls WASI for a clock and files, and the module then imports the functions of WASI. The places of the calls come
from the module's debug information. In it, the plugin's own files have relative paths.
"""

import collections
import re
import subprocess
import sys

# By the first part of an import's name: the feature that a plugin lacks, C functions that need it, and an alternative.
LACKS = {
    "clock_": ("clock", "time", "use berth_now()"),
    "poll_": ("way to wait", "sleep", "hold the pod at permit"),
    "fd_": ("files", "fopen, getchar", "use its arguments, or objects of the cluster"),
    "path_": ("files", "fopen, getchar", "use its arguments, or objects of the cluster"),
    "environ_": ("environment", "getenv", "use its arguments"),
    "random_": ("random numbers", "getentropy", "use rand(), which gives the same numbers in every instance"),
    "sock_": ("network", "send", "use objects of the cluster"),
    "": ("operating system", "sched_yield", "leave the call out"),
}

NAME = r'\$("[^"]*"|[^\s()]+)'
IMPORT = re.compile(rf'\(import "wasi_snapshot_preview1" "(\w+)" \(func {NAME}')
FUNCTION = re.compile(rf"^\(;@\w+ *;\)  \(func {NAME}")
CALL = re.compile(rf"^\(;@(\w+) *;\) +(?:return_)?call {NAME}")
OWN_PLACE = re.compile(r"^@(\w+): .* \./(.+):(\d+):\d+$", re.MULTILINE)

Call = collections.namedtuple("Call", "caller callee address")


def read(text):
    """The function of each import, by the import's name, and the calls, by the called function."""
    imports, calls, function = {}, collections.defaultdict(list), None
    for line in text.splitlines():
        if found := IMPORT.search(line):
            imports[found[1]] = found[2]
        elif found := FUNCTION.match(line):
            function = found[1]
        elif found := CALL.match(line):
            calls[found[2]].append(Call(function, found[2], found[1]))
    return imports, calls


def calls_towards(function, calls):
    """All calls that lead to a function, directly or through other functions."""
    found, left, seen = [], [function], {function}
    while left:
        for call in calls[left.pop()]:
            found.append(call)
            if call.caller not in seen:
                seen.add(call.caller)
                left.append(call.caller)
    return found


def calls_by_lack(wasm_tools, module):
    """For each missing feature, the imports that need it and the calls in the plugin's source that lead to them. Each call has its
    file, its line, the calling function and the called function."""

    def run(*arguments):
        return subprocess.run([wasm_tools, *arguments], check=True, capture_output=True, text=True).stdout

    imports, calls = read(run("print", "--print-offsets", module))
    lacks = {}
    for name, function in imports.items():
        begin = next(begin for begin in LACKS if name.startswith(begin))
        names, places = lacks.setdefault(LACKS[begin], (set(), set()))
        names.add(name)
        towards = calls_towards(function, calls)
        addresses = [f"@{call.address}" for call in towards]
        lines = {address: (file, int(line)) for address, file, line in OWN_PLACE.findall(run("addr2line", module, *addresses))}
        own = [call for call in towards if call.address in lines]
        own_functions = {call.caller for call in own}
        places.update((*lines[call.address], call.caller, call.callee) for call in own if call.callee not in own_functions)
    return lacks


def main():
    lacks = calls_by_lack(*sys.argv[1:])
    for (lack, example, instead), (names, places) in lacks.items():
        told = f"a plugin has no {lack}: {instead}"
        for file, line, caller, callee in sorted(places):
            print(f"error: {file}:{line}: {caller} calls {callee.lstrip('_')}; {told}", file=sys.stderr)
        if not places:
            print(f"error: something calls {example} or the like ({', '.join(sorted(names))}); {told}", file=sys.stderr)
    sys.exit(1 if lacks else 0)


main()
