"""Passes scores between the host and the plugin without a Python object for each score.

usage: scores.py wit FOLDER       changes the copy of the contract in a folder
       scores.py widen COMPONENT  converts a component of the changed contract to the real contract

componentize-py makes a Python object of each element of a list, but accepts `bytes` for a list of 8-bit integers. Therefore the
component is built for a changed contract. In it, scores are `list<s8>`, with eight elements for each score. The conversion writes
`list<s64>` to the component's types again, and wraps each function that has scores, in the module that calls the interpreter. The
wrapper multiplies the length of a list by eight before the call, and divides the length of the result by eight after it.
"""

import pathlib
import sys

# For each exported function, the number of its parameters, and the parameter with the length of scores, or None.
FUNCTIONS = {
    "berth:scheduler/score@0.2.0#score": (3, None),
    "berth:scheduler/normalize-score@0.2.0#normalize-score": (5, 4),
}
# The changed and the real type in the binary format. The contract has no other list of 8-bit integers.
NARROW, WIDE = b"\x70\x7e", b"\x70\x78"

# Sections of a component and of a module.
CORE_MODULE, COMPONENT, TYPES = 1, 4, 7
IMPORTS, FUNCTION_TYPES, EXPORTS, CODE = 2, 3, 7, 10
PREAMBLE = 8


def rewrite_wit(folder):
    for name in ("score", "normalize-score"):
        file = folder / f"{name}.wit"
        text = file.read_text()
        if "list<s64>" not in text:
            sys.exit(f"{file}: scores are no list<s64>; this SDK is for another contract")
        file.write_text(text.replace("list<s64>", "list<s8>"))


def encode(number):
    """Encodes a number as unsigned LEB128."""
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


class Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def take(self, length):
        self.at += length
        return self.data[self.at - length : self.at]

    def text(self):
        return self.take(self.number()).decode()


def sections(binary):
    reader = Reader(binary, PREAMBLE)
    while reader.at < len(binary):
        kind = reader.take(1)[0]
        yield kind, reader.take(reader.number())


def joined(binary, parts):
    return binary[:PREAMBLE] + b"".join(bytes([kind]) + encode(len(content)) + content for kind, content in parts)


def widen(component):
    parts = []
    for kind, content in sections(component):
        if kind == TYPES:
            content = content.replace(NARROW, WIDE)
        elif kind == COMPONENT:
            content = widen(content)
        elif kind == CORE_MODULE and any(name.encode() in content for name in FUNCTIONS):
            content = with_lengths_divided(content)
        parts.append((kind, content))
    return joined(component, parts)


def imported_functions(content):
    reader = Reader(content)
    found = 0
    for _ in range(reader.number()):
        reader.text()
        reader.text()
        kind = reader.number()
        if kind == 0:
            found += 1
            reader.number()
        elif kind == 3:
            reader.take(2)
        else:
            # A memory, or a table, which starts with the type of its elements.
            reader.take(1 if kind == 1 else 0)
            has_most = reader.number() & 1
            reader.number()
            if has_most:
                reader.number()
    return found


def function_around(original, n_parameters, scores):
    """The body of a function that wraps another function. The result of the wrapped function is in memory: whether the function
    failed, the address of the scores, and their number."""
    result = n_parameters
    local_get, local_tee, call, i32_const, i32_shl, i32_shr, load, load_byte, store, is_zero, if_zero, end = (
        b"\x20", b"\x22", b"\x10", b"\x41", b"\x74", b"\x76", b"\x28\x02", b"\x2d\x00", b"\x36\x02", b"\x45", b"\x04\x40", b"\x0b"
    )  # fmt: skip
    code = b""
    for parameter in range(n_parameters):
        code += local_get + encode(parameter)
        if parameter == scores:
            code += i32_const + encode(3) + i32_shl
    code += call + encode(original) + local_tee + encode(result)
    code += load_byte + encode(0) + is_zero + if_zero
    code += local_get + encode(result) + local_get + encode(result) + load + encode(8)
    code += i32_const + encode(3) + i32_shr + store + encode(8) + end
    code += local_get + encode(result) + end
    one_i32 = b"\x01\x01\x7f"
    return one_i32 + code


def with_lengths_divided(module):
    parts = sections(module)
    contents = dict(it for it in parts if it[0] in (IMPORTS, FUNCTION_TYPES, EXPORTS, CODE))
    n_imported = imported_functions(contents[IMPORTS])
    types = Reader(contents[FUNCTION_TYPES])
    types = [types.number() for _ in range(types.number())]
    code = Reader(contents[CODE])
    bodies = [code.take(code.number()) for _ in range(code.number())]
    exports = Reader(contents[EXPORTS])
    lines = [(exports.text(), exports.number(), exports.number()) for _ in range(exports.number())]
    for at, (name, kind, original) in enumerate(lines):
        if name in FUNCTIONS:
            lines[at] = (name, kind, n_imported + len(types))
            types.append(types[original - n_imported])
            bodies.append(function_around(original, *FUNCTIONS[name]))
    contents[FUNCTION_TYPES] = encode(len(types)) + b"".join(map(encode, types))
    contents[CODE] = encode(len(bodies)) + b"".join(encode(len(body)) + body for body in bodies)
    contents[EXPORTS] = encode(len(lines)) + b"".join(
        encode(len(name)) + name.encode() + encode(kind) + encode(index) for name, kind, index in lines
    )
    return joined(module, [(kind, contents.get(kind, content)) for kind, content in sections(module)])


def main():
    what, path = sys.argv[1], pathlib.Path(sys.argv[2])
    if what == "wit":
        rewrite_wit(path)
    else:
        path.write_bytes(widen(path.read_bytes()))


main()
