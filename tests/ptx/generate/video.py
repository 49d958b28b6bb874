"""Video instructions: PTX ISA 9.7.18 (pseudo-code of 9.7.18.1 and 9.7.18.2)."""

from emit import File, identifier, pick
from exact import signed

WORDS = [0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x12345678,
         0xdeadbeef, 0x80ff7f01, 0xff00ff00]
M = 0xffffffff
SELECT = {"": (0, 32), ".b0": (0, 8), ".b1": (8, 8), ".b2": (16, 8), ".b3": (24, 8), ".h0": (0, 16), ".h1": (16, 16)}


def part(v, selector, is_signed):
    at, n = SELECT[selector]
    v = v >> at & (1 << n) - 1
    return signed(v, n) if is_signed else v


def saturate(v, sat, is_signed, selector):
    if not sat:
        return v
    n = SELECT[selector][1]
    low, high = (-(1 << n - 1), (1 << n - 1) - 1) if is_signed else (0, (1 << n) - 1)
    return max(low, min(high, v))


def merge(v, selector, c):
    at, n = SELECT[selector]
    hole = ((1 << n) - 1) << at
    return (c & ~hole | (v << at) & hole) & M


def second(op, v, c, is_signed):
    """None where an intermediate result beyond 32 bits would matter."""
    if op == "add":
        return (v + c) & M
    low, high = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, M)
    if not low <= v <= high:
        return None
    c = signed(c, 32) if is_signed else c
    return (min if op == "min" else max)(v, c) & M


PRIMARY = {
    "vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min, "vmax": max,
}
SIGNS = [(d, a, b) for d in "us" for a in "us" for b in "us"]


def scalar(f, head, compute, types, always, last=None):
    """All shapes of one instruction: plain, with selectors, with a secondary operation, merged."""
    d, a_type, b_type = types
    kinds = f".{d}32.{a_type}32.{b_type}32"
    selectors = [("", ""), (".b0", ".b3"), (".h1", ".b1"), (".h0", ".h1"), (".b2", ".h0")]
    sources = lambda x, y, sa, sb: compute(part(x, sa, a_type == "s"), part(y, sb, b_type == "s"))
    turn = SIGNS.index(types)
    for number, sat in enumerate(("", ".sat")):
        for sa, sb in selectors[:1] + [selectors[1 + (turn + number) % 4]]:
            rows = pick(f"{head}{kinds}{sat}{sa}{sb}", [WORDS, last or WORDS], 8, always)
            f.table(identifier(f"{head}{kinds}{sat}"), ["b32", "b32"], ["b32"],
                    f"{head}{kinds}{sat} %d, %a{sa}, %b{sb};",
                    [(r, (saturate(sources(*r, sa, sb), sat, d == "s", "") & M,)) for r in rows])
        for op in [("add", "min", "max")[(turn + number) % 3]]:
            sa, sb = selectors[1 if op == "add" else 3]
            rows = pick(f"{head}{kinds}{sat}{op}", [WORDS, last or WORDS, WORDS], 40, [x + (5,) for x in always])
            f.table(identifier(f"{head}{kinds}{sat}.{op}"), ["b32"] * 3, ["b32"],
                    f"{head}{kinds}{sat}.{op} %d, %a{sa}, %b{sb}, %c;",
                    [(r, (second(op, saturate(sources(r[0], r[1], sa, sb), sat, d == "s", ""), r[2], d == "s"),))
                     for r in rows], most=8)
        for sd in [list(SELECT)[1 + (turn + number) % 6]]:
            rows = pick(f"{head}{kinds}{sat}{sd}", [WORDS, last or WORDS, [0x11223344, M, 0]], 5)
            f.table(identifier(f"{head}{kinds}{sat}_merged"), ["b32"] * 3, ["b32"],
                    f"{head}{kinds}{sat} %d{sd}, %a, %b, %c;",
                    [(r, (merge(saturate(sources(r[0], r[1], "", ""), sat, d == "s", sd), sd, r[2]),)) for r in rows])


def scalars():
    for head, compute in PRIMARY.items():
        f = File(f"video/{head}", f"{head}: selected parts, 33-bit result, .sat, a second operation or a merge.")
        for types in SIGNS:
            scalar(f, head, compute, types, [(M, 1), (0x80000000, 0x7fffffff)])
        f.write()
    f = File("video/vshl_vshr", "vshl, vshr: the amount clamps at 32 or takes five bits.")
    amounts = [0, 1, 7, 8, 16, 31, 32, 33, 40, 63, 0x1f00, 0xffffffff]
    for head in ("vshl", "vshr"):
        for mode in ("clamp", "wrap"):
            def shift(a, b):
                n = min(b, 32) if mode == "clamp" else b & 31
                return a << n if head == "vshl" else a >> n
            for d, a in ("uu", "us", "su", "ss"):
                kinds = f".{d}32.{a}32.u32"
                for sat in ("", ".sat"):
                    for sa, sb in (("", ""), (".b3", ".b0"), (".h1", ".b1")):
                        rows = pick(f"{head}{kinds}{mode}{sat}{sa}", [WORDS, amounts], 8, [(0x80000000, 31), (1, 32)])
                        f.table(identifier(f"{head}{kinds}{sat}.{mode}"), ["b32", "b32"], ["b32"],
                                f"{head}{kinds}{sat}.{mode} %d, %a{sa}, %b{sb};",
                                [(r, (saturate(shift(part(r[0], sa, a == "s"), part(r[1], sb, False)), sat, d == "s",
                                               "") & M,)) for r in rows])
                    for op in [("add", "min", "max")[len(f.parts) % 3]]:
                        rows = pick(f"{head}{kinds}{mode}{sat}{op}", [WORDS, amounts, WORDS], 40)
                        f.table(identifier(f"{head}{kinds}{sat}.{mode}.{op}"), ["b32"] * 3, ["b32"],
                                f"{head}{kinds}{sat}.{mode}.{op} %d, %a, %b, %c;",
                                [(r, (second(op, saturate(shift(part(r[0], "", a == "s"), r[1]), sat, d == "s", ""),
                                             r[2], d == "s"),)) for r in rows], most=6)
                    for sd in [(".b0", ".h1")[len(f.parts) % 2]]:
                        rows = pick(f"{head}{kinds}{mode}{sat}{sd}", [WORDS, amounts, [0x11223344]], 6)
                        f.table(identifier(f"{head}{kinds}{sat}.{mode}_merged"), ["b32"] * 3, ["b32"],
                                f"{head}{kinds}{sat}.{mode} %d{sd}, %a, %b, %c;",
                                [(r, (merge(saturate(shift(part(r[0], "", a == "s"), r[1]), sat, d == "s", sd), sd,
                                            r[2]),)) for r in rows])
    f.write()


def vmad():
    f = File("video/vmad", "vmad: a 64-bit product with c, scaled, saturated; one of three may be negative or incremented.")
    for d in "us":
        for a in "us":
            for b in "us":
                # The signs of the factors and of c decide how the sum is clamped; d's type says nothing more.
                for scale, shift in (("", 0), (".shr7", 7), (".shr15", 15)):
                    for sat in ("", ".sat"):
                        for note, na, nb, nc, po in (("", "", "", "", ""), ("neg_ab", "-", "", "", ""),
                                                     ("neg_c", "", "", "-", ""), ("po", "", "", "", ".po")):
                            sa, sb = ("", "") if not scale else (".h0", ".h1")
                            kinds = f"vmad.{d}32.{a}32.{b}32{po}{sat}{scale}"
                            is_signed = "s" in a + b or bool(na) != bool(nb) or bool(nc)
                            if (d == "s") != is_signed and (na or nc):
                                continue
                            def compute(x, y, z):
                                t = part(x, sa, a == "s") * part(y, sb, b == "s")
                                if po:
                                    t += 1
                                elif na or nb:
                                    t = -t
                                elif nc:
                                    z = -signed(z, 32) if is_signed else -z
                                c = z if nc else signed(z, 32) if is_signed else z
                                t = (t + c) >> shift
                                if sat:
                                    low, high = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, M)
                                    t = max(low, min(high, t))
                                return t & M
                            rows = pick(kinds + note, [WORDS, WORDS, WORDS], 8)
                            if nc:
                                rows = [r for r in rows if r[2] != 0x80000000]
                            f.table(identifier(kinds) + note, ["b32"] * 3, ["b32"],
                                    f"{kinds} %d, {na}%a{sa}, {nb}%b{sb}, {nc}%c;",
                                    [(r, (compute(*r),)) for r in rows])
    f.write()


ORDER = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
         "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}


def vset():
    f = File("video/vset", "vset: 1 or 0, then the second operation or the merge.")
    for cmp, order in ORDER.items():
        for a in "us":
            for b in "us":
                kinds = f".{a}32.{b}32"
                for sa, sb in (("", ""), (".b0", ".h1")):
                    rows = pick(f"vset{kinds}{cmp}{sa}", [WORDS, WORDS], 8, [(M, 1), (1, M), (5, 5)])
                    f.table(identifier(f"vset{kinds}.{cmp}"), ["b32"] * 2, ["b32"], f"vset{kinds}.{cmp} %d, %a{sa}, %b{sb};",
                            [(r, (int(order(part(r[0], sa, a == "s"), part(r[1], sb, b == "s"))),)) for r in rows])
                for op in [("add", "min", "max")[len(f.parts) % 3]]:
                    rows = pick(f"vset{kinds}{cmp}{op}", [WORDS, WORDS, [0, 1, 7, M]], 6)
                    f.table(identifier(f"vset{kinds}.{cmp}.{op}"), ["b32"] * 3, ["b32"],
                            f"vset{kinds}.{cmp}.{op} %d, %a, %b, %c;",
                            [(r, (second(op, int(order(part(r[0], "", a == "s"), part(r[1], "", b == "s"))), r[2],
                                         False),)) for r in rows])
                rows = pick(f"vset{kinds}{cmp}merged", [WORDS, WORDS, [0x11223344]], 6)
                f.table(identifier(f"vset{kinds}.{cmp}_merged"), ["b32"] * 3, ["b32"],
                        f"vset{kinds}.{cmp} %d.h1, %a, %b, %c;",
                        [(r, (merge(int(order(part(r[0], "", a == "s"), part(r[1], "", b == "s"))), ".h1", r[2]),))
                         for r in rows])
    f.write()


def average(a, b):
    return a + b + (1 if a + b >= 0 else 0) >> 1


def lanes(a, b, which, width, is_signed):
    """The parts that a selector names, lowest lane first."""
    both = b << 32 | a
    found = [both >> width * i & (1 << width) - 1 for i in which]
    return [signed(v, width) if is_signed else v for v in found]


def simd():
    operations = {"vadd": PRIMARY["vadd"], "vsub": PRIMARY["vsub"], "vavrg": average,
                  "vabsdiff": PRIMARY["vabsdiff"], "vmin": min, "vmax": max}
    for count, width in ((2, 16), (4, 8)):
        first, other = ((0, 1), (2, 3)) if count == 2 else ((0, 1, 2, 3), (4, 5, 6, 7))
        letter = "h" if count == 2 else "b"
        written = lambda which: f".{letter}" + "".join(map(str, reversed(which)))
        choices = [(None, None), ((1, 2), (3, 0)) if count == 2 else ((6, 0, 3, 1), (2, 7, 4, 4))]
        masks = [None, (0,), (1,)] if count == 2 else [None, (0,), (3,), (1, 2), (0, 1, 3)]
        for head, compute in operations.items():
            f = File(f"video/{head}{count}", f"{head}{count}: lanes of {width} bits, masked, merged into c or added to it.")
            for d, a, b in SIGNS:
                for more in ("", ".sat", ".add"):
                    for index, mask in list(enumerate(masks))[len(f.parts) % 2::2]:
                        wa, wb = choices[index % 2]
                        text = f"{head}{count}.{d}32.{a}32.{b}32{more}"
                        def run(x, y, c):
                            va = lanes(x, y, wa or first, width, a == "s")
                            vb = lanes(x, y, wb or other, width, b == "s")
                            t = [compute(p, q) for p, q in zip(va, vb)]
                            if more == ".sat":
                                low, high = (-(1 << width - 1), (1 << width - 1) - 1) if d == "s" else (0, (1 << width) - 1)
                                t = [max(low, min(high, v)) for v in t]
                            active = mask if mask is not None else range(count)
                            if more == ".add":
                                return (c + sum(t[i] for i in active)) & M
                            out = c
                            for i in active:
                                hole = ((1 << width) - 1) << width * i
                                out = out & ~hole | t[i] << width * i & hole
                            return out
                        rows = pick(text + str(mask), [WORDS, WORDS, [0, 0x11223344, M]], 6)
                        suffix = written(mask) if mask is not None else ""
                        f.table(identifier(text), ["b32"] * 3, ["b32"],
                                f"{text} %d{suffix}, %a{written(wa) if wa else ''}, %b{written(wb) if wb else ''}, %c;",
                                [(r, (run(*r),)) for r in rows])
            f.write()
        f = File(f"video/vset{count}", f"vset{count}: 1 or 0 in each lane, or their number added to c.")
        for cmp, order in ORDER.items():
            for a in "us":
                for b in "us":
                    for more in ("", ".add"):
                        for index, mask in list(enumerate(masks[:3]))[len(f.parts) % 2::2]:
                            wa, wb = choices[index % 2]
                            text = f"vset{count}.{a}32.{b}32.{cmp}{more}"
                            def run(x, y, c):
                                va = lanes(x, y, wa or first, width, a == "s")
                                vb = lanes(x, y, wb or other, width, b == "s")
                                t = [int(order(p, q)) for p, q in zip(va, vb)]
                                active = mask if mask is not None else range(count)
                                if more:
                                    return (c + sum(t[i] for i in active)) & M
                                out = c
                                for i in active:
                                    hole = ((1 << width) - 1) << width * i
                                    out = out & ~hole | t[i] << width * i
                                return out
                            rows = pick(text + str(mask), [WORDS, WORDS, [0, 0x11223344, M]], 6)
                            suffix = written(mask) if mask is not None else ""
                            f.table(identifier(text), ["b32"] * 3, ["b32"],
                                    f"{text} %d{suffix}, %a{written(wa) if wa else ''}, %b{written(wb) if wb else ''}, %c;",
                                    [(r, (run(*r),)) for r in rows])
        f.write()


def generate():
    scalars()
    vmad()
    vset()
    simd()
