#!/usr/bin/env python3
"""Generates the bindings in the SDKs for C and Go. The SDKs contain bindings of the whole contract, and no generator.

usage: bindings.py WIT_BINDGEN GOFMT   writes c/bindings, go/bindings and bindings.wit.sha256

WIT_BINDGEN is the program of wit-bindgen-cli, at the version below. Run this script after a change of a file in wit/: a test in
tests/languages compares the digest of these files with bindings.wit.sha256. A plugin exports only some interfaces of the contract.
Therefore the code for each exported interface is separate: in C between `#ifdef BERTH_EXPORTS_...`, in Go in a file of its own.
"""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

VERSION = "0.63.0"
SDKS = pathlib.Path(__file__).resolve().parent
CONTRACT = SDKS.parent / "wit"
# The Go module that an SDK's build makes, and the package that replaces the generator's own runtime in it.
GO_MODULE = "wit_component"
GO_RUNTIME = f"{GO_MODULE}/abi"


def interfaces():
    """The interfaces that a plugin may export, in the contract's order."""
    text = (CONTRACT / "worlds.wit").read_text()
    everything = text[text.index("world all") :]
    return re.findall(r"^ *export ([a-z-]+);", everything[: everything.index("\n}")], re.MULTILINE)


def contract_digest():
    digest = hashlib.sha256()
    for file in sorted(CONTRACT.glob("*.wit")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def write_world(folder):
    """A world that exports all interfaces. It has the name of a plugin's world, because C names types after the world."""
    deps = folder / "deps/berth"
    deps.mkdir(parents=True)
    for file in CONTRACT.glob("*.wit"):
        shutil.copy(file, deps)
    exports = "".join(f"    export berth:scheduler/{name}@0.2.0;\n" for name in interfaces())
    world = f"package local:plugin;\n\nworld plugin {{\n    import berth:scheduler/host@0.2.0;\n{exports}}}\n"
    (folder / "plugin.wit").write_text(world)


def in_ifdef(name, text):
    symbol = "BERTH_EXPORTS_" + name.upper().replace("-", "_")
    return f"#ifdef {symbol}\n\n{text.strip()}\n\n#endif // {symbol}\n\n"


def parted_c(text):
    """Puts the code for each exported interface in plugin.c between `#ifdef` and `#endif`. Removes the reference to the object file
    with the component's type, because `wasm-tools component embed` adds the type."""
    text = text[: text.index("// Ensure that the *_component_type.o object is linked in")]
    head, adapters = text.split("// Component Adapters\n", 1)
    start = head.index("// Exported Functions from")
    end = head.index("// Canonical ABI intrinsics")
    posts = re.split(r"(?=// Exported Functions from `)", head[start:end])[1:]
    head = head[:start] + "".join(in_ifdef(named_c(part), part) for part in posts) + head[end:]
    parts = re.split(r'(?=^__attribute__\(\(__export_name__\("berth:)', adapters, flags=re.MULTILINE)
    return head + "// Component Adapters\n" + parts[0] + "".join(in_ifdef(named_c(part), part) for part in parts[1:])


def named_c(part):
    return re.search(r"berth:scheduler/([a-z-]+)@", part).group(1)


def write_c(generated, _gofmt):
    folder = fresh(SDKS / "c/bindings")
    (folder / "plugin.c").write_text(parted_c((generated / "plugin.c").read_text()).rstrip() + "\n")
    (folder / "plugin.h").write_text(stripped((generated / "plugin.h").read_text()))


def used_imports(imports, body):
    """The lines of an import block for packages that the body names."""
    lines = []
    for line in imports:
        alias, path = re.fullmatch(r'(\w+ )?"(.*)"', line.strip()).groups()
        name = alias.strip() if alias else path.rpartition("/")[2]
        if re.search(rf"\b{name}\.", body):
            lines.append(f'\t{alias or ""}"{path}"')
    return "import (\n" + "\n".join(lines) + "\n)\n" if lines else ""


def write_go(generated, gofmt):
    folder = fresh(SDKS / "go/bindings")
    for file in generated.glob("berth_scheduler_*/*.go"):
        target = folder / file.relative_to(generated)
        target.parent.mkdir(exist_ok=True)
        target.write_text(with_runtime(file.read_text()))
    text = with_runtime((generated / "wit_exports.go").read_text())
    head, imports, body = re.fullmatch(r"(.*?)import \(\n(.*?)\n\)\n(.*)", text, re.DOTALL).groups()
    imports = imports.splitlines()
    body, end = body.split("// Unused, but present to make the compiler happy\n")
    shared, *parts = re.split(r"(?=^//go:wasmexport )", body, flags=re.MULTILINE)
    shared += "// The linker asks for it.\n" + end
    (folder / "main.go").write_text(f"{head}{used_imports(imports, shared)}{shared}")
    by_interface = {}
    for part in parts:
        name = re.search(r"berth:scheduler/([a-z-]+)@", part).group(1)
        by_interface[name] = by_interface.get(name, "") + part
    for name, part in by_interface.items():
        (folder / f"{name.replace('-', '_')}.go").write_text(f"{head}{used_imports(imports, part)}\n{part}")
    subprocess.run([gofmt, "-w", folder], check=True)


def with_runtime(text):
    text = re.sub(r'"go\.bytecodealliance\.org/pkg/wit/\w+"', f'"{GO_RUNTIME}"', text)
    return stripped(text)


def stripped(text):
    """The text without blanks at the ends of lines."""
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def main():
    program, gofmt = sys.argv[1:]
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    if VERSION not in said:
        sys.exit(f"{program} is {said.strip()}, not {VERSION}")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        write_world(scratch / "wit")
        for language, write in (("c", write_c), ("go", write_go)):
            out = scratch / language
            command = [program, language, scratch / "wit", "--world", "plugin", "--out-dir", out]
            subprocess.run(command, check=True, capture_output=True)
            write(out, gofmt)
    (SDKS / "bindings.wit.sha256").write_text(contract_digest() + "\n")


main()
