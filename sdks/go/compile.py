"""Compiles the module that the build made, and names the plugin's files in Go's errors as they lie in its folder.

usage: compile.py GO FOLDER MODULE OUTPUT   compiles MODULE, which lies in the plugin's FOLDER, to OUTPUT
"""

import pathlib
import re
import subprocess
import sys


def in_own_terms(said, folder):
    """What Go says: it writes `../../plugin.go:29:33`, or the whole path if that is as short."""
    said = re.sub(r"^# .*\n", "", said, flags=re.MULTILINE)
    return re.sub(rf"^(?:\.\./\.\./|{re.escape(str(folder))}/)(?=\S+\.(?:go|mod):\d)", "", said, flags=re.MULTILINE)


def main():
    go, folder, module, output = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    command = [go, "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", output, "."]
    ended = subprocess.run(command, cwd=module, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(in_own_terms(ended.stderr, folder))
    sys.exit(ended.returncode)


main()
