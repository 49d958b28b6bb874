"""Surfaces: PTX ISA 9.7.11; and what textures and surfaces tell of themselves."""

from fractions import Fraction

from emit import File, rng
from exact import F32
from texels import FORMATS, Texture, image

GEOMETRIES = {"1d": ("24", ""), "2d": ("8,3", ""), "3d": ("8,3,2", ""), "a1d": ("8,0,3", "layered"),
              "a2d": ("8,3,2", "layered")}
NAMES = "abcefghijklm"
CLAMPS = ["trap", "clamp", "zero"]
SIZES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}


def surface(name, geometry, fmt, channels):
    size, words = GEOMETRIES[geometry]
    size = [int(n) for n in size.split(",")]
    data = image(rng(name, geometry), fmt, channels, size, 1, bool(words))
    return Texture(fmt, channels, size, data, words)


class Bytes:
    """The memory of a surface: rows of slices."""

    def __init__(self, texture):
        texel = FORMATS[texture.fmt][0] // 8
        planes = texture.data[0]
        self.row = len(planes[0][0]) * texel * texture.channels
        self.size = [self.row, len(planes[0]), len(planes)]
        self.bytes = bytearray()
        for plane in planes:
            for row in plane:
                for t in row:
                    for component in t:
                        self.bytes += component.to_bytes(texel, "little")

    def place(self, at, count, clamp, unit=1):
        """The first byte; None where nothing is there."""
        last = [(self.row - count) // count * count, self.size[1] - 1, self.size[2] - 1]
        at = [at[0] * unit, at[1], at[2]]
        if any(c < 0 or c > l for c, l in zip(at, last)):
            if clamp != "clamp":
                return None
            at = [min(max(c, 0), l) for c, l in zip(at, last)]
        return (at[2] * self.size[1] + at[1]) * self.row + at[0]

    def listed(self):
        return "b8 " + " ".join(str(b) if b < 10 else f"0x{b:x}" for b in self.bytes)


def coordinates(r, geometry, memory, count, clamp, unit=1):
    """Columns of a row, and x, y, z. With `.trap` all are inside."""
    beyond = 0 if clamp == "trap" else 1
    xs = list(range(0, memory.row // unit, max(count // unit, 1)))
    x = r.choice(xs + [-count // unit, memory.row // unit, 1 << 20] * beyond)
    y = r.randint(-beyond, memory.size[1] - 1 + beyond)
    z = r.randint(-beyond, memory.size[2] - 1 + beyond)
    if geometry == "1d":
        return [x], [x, 0, 0]
    if geometry == "2d":
        return [x, y], [x, y, 0]
    if geometry == "3d":
        return [x, y, z], [x, y, z]
    layer = z if z >= 0 else 7
    if geometry == "a1d":
        return [layer, x], [x, 0, layer]
    return [layer, x, y], [x, y, layer]


def operand(geometry, names):
    names = list(names)
    if geometry in ("3d", "a2d"):
        names.append(names[-1])
    return "{" + ", ".join(names) + "}"


def loads():
    f = File("texture/surface_load", "suld: bytes and texels, with all that may happen beyond the edge.")
    number = 0
    for geometry in GEOMETRIES:
        for ty, size in SIZES.items():
            for vec in (1, 2) if ty == "b64" else (1, 2, 4):
                number += 1
                clamp = CLAMPS[number % 3]
                texture = surface(number, geometry, ["u8", "u16", "f32", "s32"][number % 4], [1, 2, 4][number % 3])
                memory = Bytes(texture)
                if size * vec > memory.row:
                    continue
                text = f"suld.b.{geometry}.{f'v{vec}.' if vec > 1 else ''}{ty}.{clamp}"
                rows = []
                r = rng(text)
                for _ in range(8):
                    columns, at = coordinates(r, geometry, memory, size * vec, clamp)
                    start = memory.place(at, size * vec, clamp)
                    part = lambda i: memory.bytes[start + i * size:start + (i + 1) * size]
                    values = [0 if start is None else int.from_bytes(part(i), "little") for i in range(vec)]
                    rows.append((columns, values))
                ins = ["s32"] * len(rows[0][0])
                results = ["%d", "%q", "%r", "%s"][:vec]
                names = ["%" + n for n in NAMES[:len(ins)]]
                to = results[0] if vec == 1 else "{" + ", ".join(results) + "}"
                outs = [{"b8": "u8"}.get(ty, ty)] * vec
                body = f"{text} {to}, [%surf, {operand(geometry, names)}];"
                f.table(text, ins, outs, body, rows, before=[texture.describe(kind="surface")], handles=["surf"])
    for number, (geometry, ty) in enumerate((g, t) for g in ("1d", "2d", "3d") for t in ("b32", "u32", "s32", "f32")):
        fmt = {"b32": "u16", "u32": "u8", "s32": "s16", "f32": ["f16", "f32", "unorm8", "snorm16"][number // 4]}[ty]
        channels = [1, 2, 4][number % 3]
        clamp = CLAMPS[number % 3]
        texture = surface(number, geometry, fmt, channels)
        memory = Bytes(texture)
        texel = FORMATS[fmt][0] // 8 * channels
        text = f"suld.p.{geometry}.v4.{ty}.{clamp}"
        r = rng(text)
        rows = []
        for _ in range(8):
            columns, at = coordinates(r, geometry, memory, texel, clamp, texel)
            start = memory.place(at, texel, clamp, texel)
            if start is None:
                values = [0] * 4
            else:
                size = texel // channels
                words = [int.from_bytes(memory.bytes[start + i * size:start + (i + 1) * size], "little")
                         for i in range(channels)]
                texture.words = ["integer"] if not FORMATS[fmt][3] else []
                values = texture.registers(texture.whole(map(texture.component, words)), "f32")
            rows.append((columns, values))
        ins = ["s32"] * len(rows[0][0])
        names = ["%" + n for n in NAMES[:len(ins)]]
        body = f"{text} {{%d, %q, %r, %s}}, [%surf, {operand(geometry, names)}];"
        texture.words = []
        f.table(text, ins, [ty] * 4, body, rows, before=[texture.describe(kind="surface")], handles=["surf"])
    f.write()


def store_kernel(f, text, texture, memory, ins, geometry, values, rows):
    """A kernel whose threads store; what the surface holds afterwards."""
    names = ["%" + n for n in NAMES[:len(ins)]]
    own = len(ins) - values
    stored = names[own:]
    what = stored[0] if values == 1 else "{" + ", ".join(stored) + "}"
    body = f"{text} [%surf, {operand(geometry, names[:own])}], {what};\nmov.u32 %d, 1;"
    before = [texture.describe(kind="surface"), f"//@ expect: {memory.listed()}"]
    f.table(text, ins, ["u32"], body, [(row, (1,)) for row in rows], before=before, handles=["surf"])


def stores():
    f = File("texture/surface_store", "sust: bytes and texels, converted to the surface's format; beyond the edge nothing is stored with\n"
             ".zero, and the nearest place is written with .clamp.")
    number = 0
    for geometry in GEOMETRIES:
        for ty, size in SIZES.items():
            for vec in (1, 2) if ty == "b64" else (1, 2, 4):
                number += 1
                clamp = ["zero", "trap", "clamp"][number % 3]
                texture = surface(number, geometry, ["u8", "u16", "f32", "s32"][number % 4], [1, 2, 4][number % 3])
                memory = Bytes(texture)
                if size * vec > memory.row:
                    continue
                after = Bytes(texture)
                text = f"sust.b.{geometry}.{f'v{vec}.' if vec > 1 else ''}{ty}.{clamp}"
                r = rng(text)
                rows, seen = [], set()
                for _ in range(10):
                    columns, at = coordinates(r, geometry, memory, size * vec, clamp)
                    start = memory.place(at, size * vec, clamp)
                    if start in seen:
                        continue
                    seen.add(start)
                    values = [r.getrandbits(8 * size) for _ in range(vec)]
                    if start is not None:
                        stored = b"".join(v.to_bytes(size, "little") for v in values)
                        after.bytes[start:start + len(stored)] = stored
                    rows.append(columns + values)
                ins = ["s32"] * (len(rows[0]) - vec) + [{"b8": "u8"}.get(ty, ty)] * vec
                store_kernel(f, text, texture, after, ins, geometry, vec, rows)
    number = 0
    for geometry in GEOMETRIES:
        for ty in ("b32", "u32", "s32", "f32"):
            number += 1
            fmt = {"b32": ["u16", "f32", "s8"][number % 3], "u32": ["u8", "u16"][number % 2],
                   "s32": ["s8", "s16"][number % 2], "f32": ["f16", "unorm8", "snorm8", "unorm16", "f32"][number // 4 % 5]}[ty]
            channels = [1, 2, 4][number % 3]
            clamp = ["zero", "trap", "clamp"][number % 3]
            texture = surface(number, geometry, fmt, channels)
            memory, after = Bytes(texture), Bytes(texture)
            texel = FORMATS[fmt][0] // 8 * channels
            text = f"sust.p.{geometry}.v4.{ty}.{clamp}"
            r = rng(text)
            rows, seen = [], set()
            for _ in range(10):
                columns, at = coordinates(r, geometry, memory, texel, clamp, texel)
                start = memory.place(at, texel, clamp, texel)
                if start in seen:
                    continue
                seen.add(start)
                values = [stored_value(r, ty, fmt) for _ in range(4)]
                if start is not None:
                    size = texel // channels
                    new = b"".join(converted(v, ty, fmt).to_bytes(size, "little") for v in values[:channels])
                    after.bytes[start:start + texel] = new
                rows.append(columns + values)
            ins = ["s32"] * (len(rows[0]) - 4) + [ty] * 4
            store_kernel(f, text, texture, after, ins, geometry, 4, rows)
    f.write()


def stored_value(r, ty, fmt):
    width, signed, form, normalized = FORMATS[fmt]
    if ty == "f32" or ty == "b32" and form is not None:
        return F32.round(Fraction(r.randint(-40, 40), 16))
    if ty == "u32" or ty == "b32" and not signed:
        return r.choice([0, 1, 77, (1 << width) - 1, 1 << width, 0xffffffff])
    return r.choice([0, 1, 77, -1, -77, -(1 << width), (1 << width) + 5]) & 0xffffffff


def converted(bits, ty, fmt):
    """A register's value in a surface's format: within its range, normalised ones to nearest even."""
    width, signed, form, normalized = FORMATS[fmt]
    if form is not None:
        return form.round(Fraction(F32.value(bits)))
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    if normalized:
        value = F32.value(bits) * high
        low = -high if signed else 0
        value = round(value)
    else:
        value = bits - (1 << 32) if (ty == "s32" or ty == "b32" and signed) and bits >> 31 else bits
    return min(max(value, low), high) & ((1 << width) - 1)


def reductions():
    f = File("texture/surface_reduce", "sured: each thread updates one place, as atomic operations do; nothing happens beyond the edge\n"
             "with .zero.")
    ops = [("add", t) for t in ("u32", "s32", "u64")]
    ops += [(o, t) for o in ("min", "max") for t in ("u32", "s32", "u64", "s64")]
    ops += [(o, "b32") for o in ("and", "or")]
    number = 0
    for geometry in ("1d", "2d", "3d"):
        for op, ty in ops:
            number += 1
            reduce_kernel(f, geometry, "b", op, ty, ty, number)
        for op in ("add", "min", "max", "and", "or"):
            number += 1
            reduce_kernel(f, geometry, "p", op, "b32", ["u32", "s32"][number % 2], number)
    for op in ("min", "max"):
        # Two components of 32 bits are one value.
        for geometry in ("1d", "2d", "3d"):
            number += 1
            reduce_kernel(f, geometry, "p", op, "b64", ["u64", "s64"][number % 2], number)
    f.write()


def reduce_kernel(f, geometry, kind, op, ty, meaning, number):
    size = 8 if ty.endswith("64") else 4
    signed = meaning[0] == "s"
    fmt = ("s32" if signed else "u32") if kind == "p" else ["u8", "f32", "u16"][number % 3]
    channels = size // 4 if kind == "p" else 4
    clamp = ["zero", "trap", "clamp"][number % 3]
    texture = surface(number, geometry, fmt, channels)
    memory, after = Bytes(texture), Bytes(texture)
    unit = size if kind == "p" else 1
    text = f"sured.{kind}.{op}.{geometry}.{ty}.{clamp}"
    r = rng(text)
    rows = []
    for _ in range(12):
        columns, at = coordinates(r, geometry, memory, size, clamp, unit)
        start = memory.place(at, size, clamp, unit)
        value = r.getrandbits(8 * size)
        if start is not None:
            top = 1 << (8 * size)
            read = lambda v: v - top if signed and v >= top // 2 else v
            old = int.from_bytes(after.bytes[start:start + size], "little")
            a, b = read(old), read(value)
            new = {"add": a + b, "min": min(a, b), "max": max(a, b), "and": old & value, "or": old | value}[op] % top
            after.bytes[start:start + size] = new.to_bytes(size, "little")
        rows.append(columns + [value])
    ins = ["s32"] * (len(rows[0]) - 1) + [ty]
    store_kernel(f, text, texture, after, ins, geometry, 1, rows)


def queries():
    f = File("texture/queries", "txq, suq, istypep: the driver's number of the format, its components; address modes and filters in the order\n"
             "of the PTX ISA's lists.")
    data = image(rng("queries"), "f32", 2, [8, 4, 3], 2, True)
    texture = Texture("f32", 2, [8, 4, 3], data, "layered levels=2 normalized linear address=wrap,mirror,border")
    answers = {"width": 8, "height": 4, "depth": 0, "channel_data_type": 0x20, "channel_order": 2, "normalized_coords": 1,
               "array_size": 3, "num_mipmap_levels": 2, "num_samples": 1, "force_unnormalized_coords": 0,
               "filter_mode": 1, "addr_mode_0": 0, "addr_mode_1": 1, "addr_mode_2": 4}
    for query, answer in answers.items():
        f.table(f"txq.{query}", [], ["b32"], f"txq.{query}.b32 %d, [%tex];", [((), (answer,))],
                before=[texture.describe()], handles=["tex"])
    for query, sizes in {"width": (8, 4, 0), "height": (4, 2, 0), "depth": (0, 0, 0)}.items():
        f.table(f"txq.level.{query}", ["u32"], ["b32"], f"txq.level.{query}.b32 %d, [%tex], %a;",
                [((level,), (size,)) for level, size in enumerate(sizes)], before=[texture.describe()], handles=["tex"])
    plane = Texture("u16", 4, [6, 5, 4], image(rng("suq"), "u16", 4, [6, 5, 4]), "")
    answers = {"width": 6, "height": 5, "depth": 4, "channel_data_type": 2, "channel_order": 4, "array_size": 0,
               "memory_layout": 0}
    for query, answer in answers.items():
        f.table(f"suq.{query}", [], ["b32"], f"suq.{query}.b32 %d, [%surf];", [((), (answer,))],
                before=[plane.describe(kind="surface")], handles=["surf"])
    rows = [((), (1, 0, 0))]
    body = "\n".join(f"istypep.{word}ref {to}, %tex;" for word, to in (("tex", "%d"), ("surf", "%q"), ("sampler", "%r")))
    f.table("istypep", [], ["pred", "pred", "pred"], body, rows, before=[texture.describe()], handles=["tex"])
    f.write()


def generate():
    loads()
    stores()
    reductions()
    queries()
