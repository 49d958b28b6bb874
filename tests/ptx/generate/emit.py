"""Writing of file tests: kernels whose threads each run one instruction on one row of a table."""

import os
import random

from exact import NAN

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Column type: register type, bytes in memory, type that the harness reads it as.
TYPES = {
    "u8": ("u16", 1, "u8"), "s8": ("s16", 1, "s8"), "b8": ("b16", 1, "b8"),
    "u16": ("u16", 2, "u16"), "s16": ("s16", 2, "s16"), "b16": ("b16", 2, "b16"),
    "u32": ("u32", 4, "u32"), "s32": ("s32", 4, "s32"), "b32": ("b32", 4, "b32"),
    "u64": ("u64", 8, "u64"), "s64": ("s64", 8, "s64"), "b64": ("b64", 8, "b64"),
    "b128": ("b128", 16, "b128"),
    "f16": ("b16", 2, "f16"), "bf16": ("b16", 2, "bf16"),
    "f32": ("f32", 4, "f32"), "f64": ("f64", 8, "f64"),
    "pred": ("pred", 4, "u32"),
}
INPUTS = ["a", "b", "c", "e", "f", "g", "h", "i", "j", "k", "l", "m"]
OUTPUTS = ["d", "q", "r", "s"]


class File:
    """One file test."""

    written = {}

    def __init__(self, path, about, version="8.8", target="sm_100a"):
        self.path, self.about = path, about
        self.head = f".version {version}\n.target {target}\n.address_size 64\n"
        self.parts = []
        self.names = set()

    def table(self, name, ins, outs, body, rows, regs="", tolerance=None, note=None, decls="", most=None, before=(),
              handles=()):
        """A kernel: `body` uses %a %b %c ... and sets %d %q ...; rows are (inputs, outputs). Directives in `before`
        describe the arguments in front of the columns, of which `handles` are read as registers of those names."""
        rows = [(i, o) for i, o in rows if None not in o][:most]
        assert rows, name
        name = self.name(name)
        lines = [f"// {note}"] if note else []
        lines.append(f"//@ kernel: {name}")
        if tolerance:
            lines.append(f"//@ tolerance: {tolerance}")
        lines += before
        reads = lambda columns: " ".join(TYPES[c][2] for c in columns)
        lines.append(f"//@ cases: {reads(ins)} = {reads(outs)}".replace(":  =", ": ="))
        for inputs, outputs in rows:
            left = " ".join(show(v, t) for v, t in zip(inputs, ins, strict=True))
            right = " ".join(show(v, t) for v, t in zip(outputs, outs, strict=True))
            lines.append(f"//| {left} = {right}")
        columns = [(n, t) for n, t in zip(INPUTS, ins)] + [(n, t) for n, t in zip(OUTPUTS, outs)]
        params = ", ".join([f".param .u64 {n}" for n in handles] + [f".param .u64 {n}" for n, _ in columns])
        lines.append(f".visible .entry {name}({params})\n{{")
        lines.append("    .reg .b32 %t; .reg .b64 %p;" + (f" {regs}" if regs else ""))
        for n, t in columns:
            lines.append(f"    .reg .{TYPES[t][0]} %{n};" + (f" .reg .b32 %{n}_w;" if t == "pred" else ""))
        if decls:
            lines.append(f"    {decls}")
        lines += [f"    .reg .b64 %{n}; ld.param.u64 %{n}, [{n}];" for n in handles]
        lines.append("    mov.u32 %t, %tid.x;")
        for n, t in columns[:len(ins)]:
            lines.append(address(n, t))
            if t == "pred":
                lines.append(f"    ld.global.u32 %{n}_w, [%p]; setp.ne.u32 %{n}, %{n}_w, 0;")
            else:
                lines.append(f"    ld.global.{access(t)} %{n}, [%p];")
        lines += [f"    {line}" for line in body.strip().split("\n")]
        for n, t in columns[len(ins):]:
            lines.append(address(n, t))
            if t == "pred":
                lines.append(f"    selp.u32 %{n}_w, 1, 0, %{n}; st.global.u32 [%p], %{n}_w;")
            else:
                lines.append(f"    st.global.{access(t)} [%p], %{n};")
        lines.append("    ret;\n}")
        self.parts.append("\n".join(lines))

    def name(self, text):
        """A kernel's name that the file does not have yet."""
        base, count = identifier(text), 1
        name = base
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.names.add(name)
        return name

    def text(self, kernel):
        """A part written out."""
        self.parts.append(kernel.strip("\n"))

    def write(self):
        head = "".join(f"// {line}\n" for line in self.about.split("\n"))
        note = "// Written by tests/ptx/generate; do not edit.\n"
        text = head + note + self.head + "\n" + "\n\n".join(self.parts) + "\n"
        File.written[os.path.join(ROOT, self.path + ".ptx")] = text


def access(t):
    return t if t in ("u8", "s8", "b8") else {2: "b16", 4: "b32", 8: "b64", 16: "b128"}[TYPES[t][1]] \
        if t not in ("f32", "f64") else t


def address(n, t):
    return f"    ld.param.u64 %p, [{n}]; mad.wide.u32 %p, %t, {TYPES[t][1]}, %p;"


def show(value, t):
    if value == NAN:
        return NAN
    if isinstance(value, str):
        return value
    size = TYPES[t][1]
    if t in ("s8", "s16", "s32", "s64"):
        bits = 8 * size
        value &= (1 << bits) - 1
        return str(value - (1 << bits) if value >> (bits - 1) else value)
    value = int(value)
    assert 0 <= value < 1 << (8 * size), (value, t)
    if t in ("u8", "u16", "u32", "u64", "pred") and value < 1000 or value < 10 and t[0] == "b" and t != "bf16":
        return str(value)
    return f"0x{value:0{2 * size}x}" if t[0] in "fb" else f"0x{value:x}"


def rng(*words):
    return random.Random("/".join(map(str, words)))


def pick(name, lists, count, always=()):
    """Rows of the cross product: those in `always`, then a sample that depends on `name` alone."""
    r = rng(name)
    rows = [tuple(row) for row in always]
    seen = set(rows)
    total = 1
    for values in lists:
        total *= len(set(values))
    tries = 0
    while len(rows) < min(count, total) and tries < 100 * count:
        tries += 1
        row = tuple(r.choice(values) for values in lists)
        if row not in seen:
            seen.add(row)
            rows.append(row)
    return rows


def identifier(text):
    return text.replace("::", "_").replace(".", "_").replace(" ", "_").replace("{", "").replace("}", "")


INTEGERS = {
    16: [0, 1, 2, 3, 7, 0xff, 0x100, 0x7fff, 0x8000, 0x8001, 0xffff, 0xfffe, 0x1234, 0xabcd],
    32: [0, 1, 2, 3, 10, 31, 0xff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff,
         0xfffffffe, 0x12345678, 0xdeadbeef, 0x55555555, 0x00800000, 0xff7fffff],
    64: [0, 1, 2, 3, 10, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000,
         0x8000000000000001, 0xffffffffffffffff, 0xfffffffffffffffe, 0x123456789abcdef0, 0xdeadbeefcafef00d,
         0x5555555555555555, 0x80000000],
    8: [0, 1, 2, 0x7f, 0x80, 0x81, 0xff, 0x55],
}


def floats(fmt):
    """Numbers where formats have their corners."""
    s, one = fmt.sign, fmt.bias << fmt.frac
    least = 1 << fmt.frac
    base = [0, one, one + 1, one - 1, one + least, one - least, 1, 2, least - 1, least, least + 1,
            fmt.inf - 1, fmt.inf, one | 1 << (fmt.frac - 1), one | (1 << fmt.frac) - 1,
            one - fmt.frac * least, one - (fmt.frac + 1) * least, one - (fmt.frac + 1) * least + 1,
            one + (fmt.frac + 1) * least, (one >> 1) | 0x15, fmt.inf - least, least + (one - least) // 2]
    nans = [fmt.inf | 1 << (fmt.frac - 1), fmt.inf | 1]
    return base + [b | s for b in base] + nans + [nans[0] | s]


def numbers(fmt):
    """The same without NaN."""
    return [b for b in floats(fmt) if not fmt.is_nan(b)]
