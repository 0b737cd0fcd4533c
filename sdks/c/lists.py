"""Refuses lists of a plugin in C whose end is missing. It finds lists whose entries the source shows. build.sh runs this script.

usage: lists.py FOLDER   prints the lists and exits with 1 if there are any

Without its end, a list continues into the memory after it. The content of that memory differs from build to build.
"""

import pathlib
import re
import sys

# The lists among the members of berth_plugin, with their last entries. The list that pre_filter stores ends like the lists of keys.
ENDS = {"label_keys": "NULL", "annotation_keys": "NULL", "objects": "{0}", "events_to_register": "{0}"}

ENTRIES = r"\{(?P<entries>(?:[^{}]|\{[^{}]*\})*)\}"
# A last entry that is a text, or that starts with a text.
NO_END = re.compile(r'("|\{\s*"[^{}]*\})\s*,?\s*$')


def without_comments(text):
    """The source with each comment replaced by spaces. Each line keeps its number."""

    def without(found):
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*[\s\S]*?\*/', without, text)


TEXT_OR_NAME = re.compile(r'"(?:\\.|[^"\\\n])*"|\b[A-Za-z_]\w*')


def constants(text):
    """The names of the source that stand for other text, each with this text: macros without parameters, and arrays with a
    text."""
    macros = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.*?)[ \t]*$", text, re.MULTILINE)
    return dict(macros + re.findall(r'\bchar\s+(\w+)\s*\[\w*\]\s*=\s*("(?:\\.|[^"\\\n])*")', text))


def written_out(entries, known):
    """The entries with the text that their names stand for. A name that the source does not define stays."""
    # A macro may name others, and one that names itself must not go on for ever.
    for _ in range(9):
        entries = TEXT_OR_NAME.sub(lambda found: known.get(found[0], found[0]), entries)
    return entries


def is_ended(found, known):
    """Whether the list has its end, as far as the source shows it. An array that is longer than its entries ends in zeroes."""
    entries = written_out(found["entries"], known)
    if not NO_END.search(entries):
        return True
    size = found.groupdict().get("size") or ""
    size = known.get(size, size)
    n_entries = len([entry for entry in re.sub(r'"(?:\\.|[^"\\\n])*"|\{[^{}]*\}', "0", entries).split(",") if entry.strip()])
    return size != "" and (not size.isdigit() or int(size) > n_entries)


def array(text, name):
    """All arrays of this name, with their entries."""
    return list(re.finditer(rf"\b{name}\s*\[(?P<size>\w*)\]\s*=\s*{ENTRIES}", text))


def stored(text):
    """The lists that are stored through a parameter such as pre_filter's nodes: the parameter's name and the list."""
    for parameter in sorted(set(re.findall(r"\bconst\s+char\s*\*\s*const\s*\*\s*\*\s*(\w+)", text))):
        for found in re.finditer(rf"(?<![\w)])\*\s*{parameter}\s*=\s*(?:(?P<name>\w+)\s*;|\([^()]*\)\s*{ENTRIES})", text):
            if not found["name"]:
                yield f"*{parameter}", found
                continue
            # Two functions may have arrays of the same name. The nearest array before the assignment is the function's own.
            before = [it for it in array(text, found["name"]) if it.start() < found.start()]
            if before:
                yield f"*{parameter}", before[-1]


def unended(text, known):
    """The name of each list without its end, its last entry, and the line where the list begins."""
    lists = list(stored(text))
    for member in ENDS:
        found = re.search(rf"\.{member}\s*=\s*(?:(?P<name>\w+)|\([^()]*\)\s*{ENTRIES})", text)
        if found and found["name"]:
            found = next(iter(array(text, found["name"])), None)
        if found:
            lists.append((member, found))
    for name, found in lists:
        if not is_ended(found, known):
            yield name, ENDS.get(name, "NULL"), text.count("\n", 0, found.start()) + 1


def main():
    folder = pathlib.Path(sys.argv[1])
    errors = []
    files = [*sorted(folder.glob("*.h")), *sorted(folder.glob("*.c"))]
    sources = {path: without_comments(path.read_text(encoding="utf-8")) for path in files}
    known = {name: value for text in sources.values() for name, value in constants(text).items()}
    for path, text in sources.items():
        for name, end, line in unended(text, known):
            errors.append(f"error: {path.name}:{line}: the list {name} has no end: write {end} as its last entry")
    for error in errors:
        print(error, file=sys.stderr)
    sys.exit(1 if errors else 0)


main()
