"""Texels and their filtering, in fractions: the texture fetching appendix of the CUDA C++ Programming Guide, taken literally.

Where it leaves a choice, it is Margay's, as ir/ops/src/texture says: weights of 8 bits are rounded to nearest, levels between two go to
the nearer one or are blended with such weights.
"""

from fractions import Fraction
from math import floor

from exact import F16, F32

# Name: bits of a component, signed, floating point, normalised whatever the texture says.
FORMATS = {
    "u8": (8, False, None, False), "s8": (8, True, None, False), "u16": (16, False, None, False),
    "s16": (16, True, None, False), "u32": (32, False, None, False), "s32": (32, True, None, False),
    "f16": (16, False, F16, False), "f32": (32, False, F32, False), "unorm8": (8, False, None, True),
    "snorm8": (8, True, None, True), "unorm16": (16, False, None, True), "snorm16": (16, True, None, True),
}
DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}


def weight(part):
    """A weight of 8 bits, where 1 is possible."""
    return Fraction(floor(part * 256 + Fraction(1, 2)), 256)


class Texture:
    """Texels with a sampler. `data[level][z][y][x]` is a tuple of the bits of its components."""

    def __init__(self, fmt, channels, size, data, words=""):
        self.fmt, self.channels, self.size, self.data = fmt, channels, size, data
        self.words = words.split()
        self.options = dict(w.split("=") for w in self.words if "=" in w)
        modes = self.options.get("address", "clamp").split(",")
        self.modes = [modes[min(i, len(modes) - 1)] for i in range(3)]
        if "normalized" not in self.words:
            self.modes = [{"wrap": "clamp", "mirror": "clamp"}.get(m, m) for m in self.modes]

    def describe(self, variable=None, kind="texture"):
        """The directive for it."""
        bits = FORMATS[self.fmt][0]
        word = "b%d" % bits
        values = [component for level in self.data for plane in level for row in plane for texel in row
                  for component in texel]
        count = f"x{self.channels}" if self.channels > 1 else ""
        size = ",".join(map(str, self.size))
        name = f"{variable} " if variable else ""
        text = f"//@ {kind}: {name}{self.fmt}{count} {size} {' '.join(self.words)}".rstrip()
        return f"{text} = {word} " + " ".join(f"0x{v:x}" for v in values)

    def is_number(self):
        bits, _, fmt, normalized = FORMATS[self.fmt]
        return fmt is not None or normalized or bits < 32 and "integer" not in self.words

    def component(self, bits):
        """Of a texel: a number, or bits extended to 32."""
        width, signed, fmt, _ = FORMATS[self.fmt]
        if fmt is not None:
            return Fraction(fmt.value(bits))
        value = bits - (1 << width) if signed and bits >> (width - 1) else bits
        if self.is_number():
            top = (1 << (width - 1)) - 1 if signed else (1 << width) - 1
            return max(Fraction(value, top), Fraction(-1))
        return value & 0xffffffff

    def whole(self, components):
        """With the components that the format lacks."""
        zero = Fraction(0) if self.is_number() else 0
        return list(components) + [zero] * (4 - self.channels)

    def border(self):
        given = [Fraction(v) for v in self.options.get("border", "0").split(",")] + [Fraction(0)] * 4
        if self.is_number():
            return self.whole(given[:self.channels])
        return self.whole([F32.round(v) for v in given[:self.channels]])

    def index(self, dimension, i, n):
        mode = self.modes[dimension]
        if mode == "clamp":
            return min(max(i, 0), n - 1)
        if mode == "wrap":
            return i % n
        if mode == "mirror":
            i %= 2 * n
            return i if i < n else 2 * n - 1 - i
        return i if 0 <= i < n else None

    def texel(self, level, at, dimensions, slice_):
        """`at` is x, y, z of texels, perhaps beyond the edge."""
        planes = self.data[level]
        size = [len(planes[0][0]), len(planes[0]), len(planes)]
        if "buffer" in self.words:
            inside = 0 <= at[0] < size[0]
            return self.whole(map(self.component, planes[0][0][at[0]])) if inside else [0] * 3 + [0]
        place = [0, 0, slice_]
        for d in range(dimensions):
            place[d] = self.index(d, at[d], size[d])
            if place[d] is None:
                return self.border()
        x, y, z = place
        return self.whole(map(self.component, planes[z][y][x]))

    def at_level(self, level, coords, dimensions, slice_, integer=False, offsets=(0, 0, 0)):
        """Coordinates are fractions, or indices of texels."""
        planes = self.data[level]
        size = [len(planes[0][0]), len(planes[0]), len(planes)]
        if integer:
            return self.texel(level, [c + o for c, o in zip(coords, offsets)], dimensions, slice_)
        scaled = [c * n if "normalized" in self.words else c for c, n in zip(coords, size)]
        scaled = [c + o for c, o in zip(scaled, offsets)]
        if "linear" not in self.words or not self.is_number():
            return self.texel(level, [floor(c) for c in scaled], dimensions, slice_)
        corners = [([], Fraction(1))]
        for c in scaled[:dimensions]:
            moved = c - Fraction(1, 2)
            first, part = floor(moved), weight(moved - floor(moved))
            corners = [(at + [first + far], w * (part if far else 1 - part)) for at, w in corners for far in (0, 1)]
        total = [Fraction(0)] * 4
        for at, w in corners:
            if w:
                texel = self.texel(level, at + [0, 0], dimensions, slice_)
                total = [t + w * c for t, c in zip(total, texel)]
        return total

    def at_detail(self, detail, coords, dimensions, slice_, integer=False, offsets=(0, 0, 0)):
        """At a level of detail."""
        last = len(self.data) - 1
        low, high = [Fraction(v) for v in self.options.get("clamp", "0,100").split(",")]
        detail = min(max(detail + Fraction(self.options.get("bias", "0")), low), high)
        detail = min(max(detail, 0), last)
        fetch = lambda level: self.at_level(level, coords, dimensions, slice_, integer, offsets)
        if "trilinear" not in self.words:
            return fetch(min(floor(detail + Fraction(1, 2)), last))
        first = floor(detail)
        part = weight(detail - first)
        if part == 0 or not self.is_number():
            return fetch(first)
        pairs = zip(fetch(first), fetch(min(first + 1, last)))
        return [(1 - part) * a + part * b for a, b in pairs]

    def gather(self, component, coords, offsets=(0, 0)):
        """Against the clock, from the lower left."""
        planes = self.data[0]
        size = [len(planes[0][0]), len(planes[0])]
        scaled = [c * n if "normalized" in self.words else c for c, n in zip(coords, size)]
        x, y = [floor(c + o - Fraction(1, 2)) for c, o in zip(scaled, offsets)]
        order = [(0, 1), (1, 1), (1, 0), (0, 0)]
        return lambda slice_: [self.texel(0, [x + i, y + j], 2, slice_)[component] for i, j in order]

    def registers(self, components, ty):
        """What registers of an instruction's type hold: four of 32 or 16 bits, or two of packed halves."""
        number = self.is_number()
        if ty in ("f16", "f16x2"):
            halves = [F16.round(c) if number else c & 0xffff for c in components]
            return halves if ty == "f16" else [halves[0] | halves[1] << 16, halves[2] | halves[3] << 16]
        return [F32.round(c) if number else c for c in components]


def face_of(at):
    """Face, and both coordinates from 0 to 1: the guide's table. z decides before y, y before x."""
    x, y, z = at
    big = max(abs(c) for c in at)
    if abs(z) == big:
        face, s, t = (4, x, -y) if z >= 0 else (5, -x, -y)
    elif abs(y) == big:
        face, s, t = (2, x, z) if y >= 0 else (3, x, -z)
    else:
        face, s, t = (0, -z, -y) if x >= 0 else (1, z, -y)
    return face, [(s / big + 1) / 2, (t / big + 1) / 2]


def image(rng, fmt, channels, size, levels=1, layers=False):
    """Random texels; floating-point ones are small multiples of 1/8."""
    width, height, depth = (list(size) + [0, 0])[:3]
    bits, _, form, _ = FORMATS[fmt]

    def component():
        if form is not None:
            return form.round(Fraction(rng.randint(-200, 200), 8))
        return rng.getrandbits(bits)

    part = lambda n, level: max(n >> level, 1)
    return [[[[tuple(component() for _ in range(channels)) for _ in range(part(width, level))]
              for _ in range(part(height, level))]
             for _ in range(max(depth, 1) if layers else part(depth, level))]
            for level in range(levels)]
