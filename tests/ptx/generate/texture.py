"""Textures: PTX ISA 9.7.10, and what the CUDA C++ Programming Guide says of fetching."""

from fractions import Fraction

from emit import File, rng
from exact import F32
from texels import DIMENSIONS, Texture, face_of, image

TYPES = ["u32", "s32", "f32", "f16"]
# Without `clamp`, fractions of these are exact.
POINTS = [Fraction(n, 16) for n in (-40, -9, -1, 0, 3, 8, 11, 16, 23, 31, 40, 55, 100)]


def vector(names):
    return "{" + ", ".join(names) + "}"


def bits(value, integer):
    return value & 0xffffffff if integer else F32.round(Fraction(value))


class Shape:
    """A geometry: its array, and the coordinates that an instruction takes."""

    def __init__(self, geometry):
        self.geometry = geometry
        self.layered = geometry.startswith("a")
        self.cube = geometry.endswith("cube")
        self.dimensions = DIMENSIONS[geometry]
        size = {"1d": "9", "2d": "5,4", "3d": "4,3,2", "a1d": "6,0,3", "a2d": "4,3,3", "cube": "4,4,6", "acube": "4,4,12"}
        self.size = [int(n) for n in size[geometry].split(",")]
        self.words = " ".join((["layered"] if self.layered else []) + (["cube"] if self.cube else []))
        self.layers = self.size[2] if self.layered and not self.cube else 2 if self.layered else 1

    def texture(self, name, fmt, channels, words="", levels=1):
        doubled = 2 if self.cube else self.dimensions
        size = self.size if levels == 1 else [n * 2 if i < doubled else n for i, n in enumerate(self.size)]
        data = image(rng(name, self.geometry), fmt, channels, size, levels, self.layered or self.cube)
        more = f"levels={levels}" if levels > 1 else ""
        return Texture(fmt, channels, size, data, f"{self.words} {words} {more}")

    @staticmethod
    def operand(names):
        """The coordinates as PTX writes them: layer first, four of three."""
        names = list(names)
        if len(names) == 3:
            names.append(names[-1])
        return vector(names)

    def points(self, name, integer, count, texture):
        """Layer and coordinates."""
        r = rng("points", name, self.geometry)
        size = [len(texture.data[0][0][0]), len(texture.data[0][0]), len(texture.data[0])]
        for _ in range(count):
            layer = r.choice([0, 1, 2, 9, 0xffffffff]) if self.layered else None
            if integer:
                coords = [r.randint(-2, size[i] + 1) for i in range(self.dimensions)]
            elif self.cube:
                big = r.choice([-4, 4])
                coords = [Fraction(r.randint(-15, 15), 4) for _ in range(3)]
                coords[r.randrange(3)] = Fraction(big)
            else:
                coords = [r.choice(POINTS) / (4 if "normalized" in texture.words else 1) for _ in range(self.dimensions)]
            yield layer, coords

    def fetch(self, texture, layer, coords, integer=False, detail=None, offsets=(0, 0, 0)):
        slice_ = 0 if layer is None else min(layer, self.layers - 1)
        dimensions = self.dimensions
        if self.cube:
            face, coords = face_of(coords)
            slice_, dimensions = slice_ * 6 + face, 2
            texture = Texture(texture.fmt, texture.channels, texture.size, texture.data,
                              " ".join(set(texture.words) | {"normalized"}))
        if detail is None:
            return texture.at_level(0, coords, dimensions, slice_, integer, offsets)
        return texture.at_detail(detail, coords, dimensions, slice_, integer, offsets)


NAMES = "abcefghijklm"


def fetches(f, head, shape, texture, ty, integer, count=8, detail=None, gradient=None, offset=False, resident=False,
            vec=None):
    """A kernel of one `tex`: layer, coordinates, level or gradients are columns."""
    coords_type = "s32" if integer else "f32"
    vec = vec or (2 if ty == "f16x2" else 4)
    text = f"{head}.{shape.geometry}.v{vec}.{ty}.{coords_type}"
    ins = (["u32"] if shape.layered else []) + [coords_type] * shape.dimensions
    rows = []
    r = rng(text, "offsets")
    offsets = [r.randint(-3, 3) for _ in range(shape.dimensions)] if offset else [0, 0, 0]
    points = shape.points(text, integer, count, texture)
    for n, (layer, coords) in enumerate(points):
        row = ([layer] if shape.layered else []) + [bits(c, integer) for c in coords]
        level = None
        if detail is not None:
            level = detail[n % len(detail)]
            row.append(bits(level if not integer else int(level), integer))
            level = Fraction(level) if not integer else Fraction(int(level))
        if gradient is not None:
            level, dx, dy = gradient(n, texture, integer)
            row += [F32.round(Fraction(c)) for c in dx + dy]
        found = shape.fetch(texture, layer, coords, integer, level, offsets + [0, 0])
        rows.append((row, texture.registers(found, ty)[:vec]))
    if detail is not None:
        ins.append(coords_type)
    if gradient is not None:
        ins += ["f32"] * (2 * shape.dimensions)
    outs = [{"f16x2": "b32"}.get(ty, ty)] * vec
    names = ["%" + n for n in NAMES[:len(ins)]]
    own = shape.dimensions + shape.layered
    operands = [f"[%tex, {shape.operand(names[:own])}]"]
    if detail is not None:
        operands.append(names[own])
    if gradient is not None:
        d = shape.dimensions
        operands += [Shape.operand(names[own:own + d]), Shape.operand(names[own + d:])]
    if offset:
        spelled = [str(o) for o in offsets]
        operands.append(Shape.operand(spelled) if len(spelled) > 1 else spelled[0])
    results = vector(["%d", "%q", "%r", "%s"][:vec])
    regs = ""
    body = f"{text} {results}{'|%ok' if resident else ''}, {', '.join(operands)};"
    if resident:
        regs = ".reg .pred %ok;"
        body += "\n@!%ok trap;"
    if len(texture.data) > 1 and detail is None and gradient is None:
        body = "// The base level.\n" + body
    f.table(text, ins, outs, body, rows, regs=regs, before=[texture.describe()], handles=["tex"])


def sampler_words(geometry, number):
    """Words of samplers, so that each is tried somewhere."""
    modes = ["wrap", "clamp", "mirror", "border", "wrap,mirror,border", "border,clamp,wrap"][number % 6]
    words = f"address={modes}"
    if "border" in modes:
        words += " border=0.5,-1.25,2,3"
    return words


def forms():
    f = File("texture/fetch", "tex: every geometry, type and kind of coordinates; point and linear filters, address modes,\n"
             "layers, offsets, residency.")
    number = 0
    for head in ("tex", "tex.base"):
        for geometry in DIMENSIONS:
            shape = Shape(geometry)
            for ty in TYPES + ["f16x2"]:
                for integer in (True, False):
                    if integer and shape.cube:
                        continue
                    number += 1
                    words = sampler_words(geometry, number)
                    if not integer:
                        words += ["", " linear", " normalized", " linear normalized"][number // 2 % 4]
                    if shape.cube:
                        words = ["", "linear address=clamp"][number % 2]
                    fmt, channels = [("f32", 4), ("f32", 1), ("f32", 2), ("f16", 4)][number % 4]
                    if ty in ("u32", "s32"):
                        fmt = [f"{ty[0]}8", f"{ty[0]}16", ty][number % 3]
                        words += " integer"
                    texture = shape.texture(number, fmt, channels, words)
                    fetches(f, head, shape, texture, ty, integer, offset=number % 3 == 0 and not shape.cube,
                            resident=number % 5 == 0)
    f.write()


def levels():
    f = File("texture/levels", "tex.level and tex.grad: mipmaps with point and linear filters, bias and clamps.")
    details = [Fraction(n, 8) for n in (-9, 0, 3, 4, 5, 8, 13, 16, 40)]
    number = 0
    for geometry in DIMENSIONS:
        shape = Shape(geometry)
        for ty in TYPES + ["f16x2"]:
            for integer in (True, False):
                if integer and shape.cube:
                    continue
                number += 1
                words = ["", "trilinear", "linear", "linear trilinear bias=0.5 clamp=0.25,1.75"][number % 4]
                if not shape.cube and number % 2:
                    words += " normalized address=wrap,mirror,border"
                fmt = "f32"
                if ty in ("u32", "s32"):
                    fmt, words = f"{ty[0]}16", words + " integer"
                texture = shape.texture(number, fmt, 2, words, levels=3)
                fetches(f, "tex.level", shape, texture, ty, integer, detail=details, vec=None if ty == "f16x2" else 4)
                fetches(f, "tex.grad", shape, texture, ty, integer, gradient=gradients(shape))
    f.write()


def gradients(shape):
    """Gradients along one axis whose length is a power of two, so that the level is a whole number."""
    def of(n, texture, integer):
        d = shape.dimensions
        if shape.cube:
            # No gradient: the lowest level.
            return Fraction(-1000), [0] * d, [0] * d
        length = [1, 2, 4, 8][n % 4]
        axis = n % d
        size = [len(texture.data[0][0][0]), len(texture.data[0][0]), len(texture.data[0])]
        scaled = "normalized" in texture.words and not integer
        long, short = [Fraction(0)] * d, [Fraction(0)] * d
        long[axis] = Fraction(length, size[axis]) if scaled else Fraction(length)
        if scaled and size[axis] & (size[axis] - 1):
            # Not exact in binary.
            long[axis] = Fraction(length)
            length = None
        detail = {1: 0, 2: 1, 4: 2, 8: 3, None: 1000}[length]
        pair = (long, short) if n % 2 else (short, long)
        return Fraction(detail), *pair
    return of


def gather():
    f = File("texture/gather", "tld4: one component of the four texels of a linear footprint.")
    for number, (geometry, ty, component) in enumerate(
            (g, t, c) for g in ("2d", "a2d", "cube", "acube") for t in ("u32", "s32", "f32") for c in "rgba"):
        shape = Shape(geometry)
        fmt, words = ("f32", "") if ty == "f32" else (f"{ty[0]}8", "integer")
        words += " gather" + (["", " normalized address=wrap", " address=border border=1,2,3,4"][number % 3])
        if shape.cube:
            words = words.replace(" address=border border=1,2,3,4", "")
        texture = shape.texture(number, fmt, 4, words)
        text = f"tld4.{component}.{geometry}.v4.{ty}.f32"
        rows = []
        for layer, coords in shape.points(text, False, 8, texture):
            slice_ = 0 if layer is None else min(layer, shape.layers - 1)
            row = ([layer] if shape.layered else []) + [F32.round(c) for c in coords]
            source = texture
            if shape.cube:
                face, coords = face_of(coords)
                slice_ = slice_ * 6 + face
                source = Texture(texture.fmt, texture.channels, texture.size, texture.data,
                                 " ".join([w for w in texture.words if "wrap" not in w] + ["normalized"]))
            found = source.gather("rgba".index(component), coords)(slice_)
            rows.append((row, texture.registers(found, ty)))
        ins = (["u32"] if shape.layered else []) + ["f32"] * shape.dimensions
        names = ["%" + n for n in NAMES[:len(ins)]]
        body = f"{text} {{%d, %q, %r, %s}}, [%tex, {shape.operand(names)}];"
        if shape.cube:
            texture.words = [w for w in texture.words if "address" not in w]
        f.table(text, ins, [ty] * 4, body, rows, before=[texture.describe()], handles=["tex"])
    f.write()


def formats():
    f = File("texture/formats", "Texel formats: integers as fractions or as they are, halves, normalised formats, missing components;\n"
             "linear and pitched memory, where what is beyond a buffer's end is 0.")
    shape = Shape("2d")
    for number, (fmt, channels) in enumerate((fm, c) for fm in ("u8", "s8", "u16", "s16", "f16", "f32", "unorm8", "snorm8",
                                                               "unorm16", "snorm16") for c in (1, 2, 4)):
        texture = shape.texture(number, fmt, channels, ["", "linear"][number % 2])
        fetches(f, "tex", shape, texture, "f32", False, count=6)
    line = Shape("1d")
    for number, (fmt, channels) in enumerate((fm, c) for fm in ("u32", "s32", "u8", "f32") for c in (1, 2, 4)):
        words = "buffer linear address=wrap" + (" integer" if fmt != "f32" else "")
        texture = line.texture(number, fmt, channels, words)
        fetches(f, "tex", line, texture, "f32" if fmt == "f32" else "u32", True, count=12)
    f.write()


def generate():
    forms()
    levels()
    gather()
    formats()
