"""Integer arithmetic: PTX ISA 9.7.1 and 9.7.2."""

from emit import File, INTEGERS, identifier, pick
from exact import signed

ALL = ["u16", "s16", "u32", "s32", "u64", "s64"]
MASK = lambda bits: (1 << bits) - 1
COUNT = 20


def width(t):
    return int(t[1:])


def read(v, t):
    return signed(v, width(t)) if t[0] == "s" else v & MASK(width(t))


def clamp(v, t):
    bits = width(t)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if t[0] == "s" else (0, MASK(bits))
    return max(low, min(high, v)) & MASK(bits)


def wrap(v, t):
    return v & MASK(width(t))


def edges(t):
    return INTEGERS[width(t)]


def op(file, text, types, out, meaning, always=(), lists=None, count=COUNT):
    """One kernel for `text`, whose inputs have these types."""
    rows = pick(text, lists or [edges(t) for t in types], count, always)
    operands = ", ".join("%" + n for n in ["d"] + ["a", "b", "c", "e"][:len(types)])
    file.table(identifier(text), types, [out], f"{text} {operands};",
               [(row, (meaning(*row),)) for row in rows])


def binary(file, head, types, meaning, **more):
    for t in types:
        op(file, f"{head}.{t}", [t, t], t, lambda a, b, t=t: wrap(meaning(read(a, t), read(b, t)), t), **more)


def quotient(a, b):
    """Rounded toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def packed(a, b, lane, t, meaning, saturate=False):
    """Lane by lane; `t` is a lane's type."""
    out = 0
    for shift in range(0, 32, lane):
        x, y = read(a >> shift & MASK(lane), t), read(b >> shift & MASK(lane), t)
        z = meaning(x, y)
        out |= (clamp(z, t) if saturate else wrap(z, t)) << shift
    return out


PACKED = [0, 0x00010001, 0x7fff8000, 0x8000ffff, 0xffff0001, 0x12345678, 0x80018001, 0xffffffff, 0x7f80ff01,
          0x01020304, 0x80808080, 0x7f7f7f7f, 0xdeadbeef]


def add_sub():
    f = File("integer/add_sub", "add, sub: two's complement, .sat clamps, packed forms lane by lane.")
    minus, plus = (lambda a, b: a - b), (lambda a, b: a + b)
    binary(f, "add", ALL, plus)
    binary(f, "sub", ALL, minus)
    for name, m in (("add", plus), ("sub", minus)):
        always = [(0x7fffffff, 1), (0x80000000, 0xffffffff), (0x80000000, 1), (0, 0x80000000)]
        op(f, f"{name}.sat.s32", ["s32", "s32"], "s32",
           lambda a, b, m=m: clamp(m(read(a, "s32"), read(b, "s32")), "s32"), always=always)
    for t, lane in (("u16x2", "u16"), ("s16x2", "s16")):
        op(f, f"add.{t}", ["b32", "b32"], "b32", lambda a, b, l=lane: packed(a, b, 16, l, plus),
           lists=[PACKED, PACKED])
    f.write()
    f = File("integer/add_sub_packed", "add, sub of bytes and with saturation, new in sm_120f.", "9.3", "sm_120f")
    for name, m in (("add", plus), ("sub", minus)):
        for sat in ("", ".sat"):
            for t, lane in (("u8x4", "u8"), ("s8x4", "s8")):
                op(f, f"{name}{sat}.{t}", ["b32", "b32"], "b32",
                   lambda a, b, l=lane, m=m, s=sat: packed(a, b, 8, l, m, bool(s)), lists=[PACKED, PACKED])
        for t, lane in (("u16x2", "u16"), ("s16x2", "s16")):
            op(f, f"{name}.sat.{t}", ["b32", "b32"], "b32",
               lambda a, b, l=lane, m=m: packed(a, b, 16, l, m, True), lists=[PACKED, PACKED])
        op(f, f"{name}.sat.u32", ["u32", "u32"], "u32", lambda a, b, m=m: clamp(m(a, b), "u32"))
    f.write()


def carries():
    f = File("integer/carries", "add.cc, addc, sub.cc, subc, mad.cc, madc: the carry reaches the next one.")
    for t in ("u32", "s32", "u64", "s64"):
        bits = width(t)
        e = edges(t)
        body = f"add.cc.{t} %d, %a, %c;\naddc.{t} %q, %b, %e;"
        rows = []
        for a, b, c, h in pick(f"addc{t}", [e] * 4, COUNT, [(MASK(bits), 0, 1, 0), (MASK(bits), MASK(bits), 1, 0)]):
            total = (a | b << bits) + (c | h << bits)
            rows.append(((a, b, c, h), (total & MASK(bits), total >> bits & MASK(bits))))
        f.table(f"add_cc_addc_{t}", [t] * 4, [t, t], body, rows)
        body = f"sub.cc.{t} %d, %a, %c;\nsubc.{t} %q, %b, %e;"
        rows = []
        for a, b, c, h in pick(f"subc{t}", [e] * 4, COUNT, [(0, 0, 1, 0), (0, 5, 1, 2)]):
            total = (a | b << bits) - (c | h << bits)
            rows.append(((a, b, c, h), (total & MASK(bits), total >> bits & MASK(bits))))
        f.table(f"sub_cc_subc_{t}", [t] * 4, [t, t], body, rows)
        # The carry out of an addc and the borrow out of a subc, read by one more.
        body = (f"add.cc.{t} %d, %a, %b;\naddc.cc.{t} %d, %a, %b;\naddc.{t} %q, 0, 0;")
        rows = []
        for a, b in pick(f"addccc{t}", [e] * 2, COUNT, [(MASK(bits), MASK(bits)), (MASK(bits), 0), (MASK(bits), 1)]):
            carry = (a + b) >> bits
            total = a + b + carry
            rows.append(((a, b), (total & MASK(bits), total >> bits)))
        f.table(f"addc_cc_{t}", [t] * 2, [t, t], body, rows)
        body = (f"sub.cc.{t} %d, %a, %b;\nsubc.cc.{t} %d, %a, %b;\nsubc.{t} %q, 0, 0;")
        rows = []
        for a, b in pick(f"subccc{t}", [e] * 2, COUNT, [(0, 0), (0, MASK(bits)), (0, 1)]):
            borrow = 1 if a < b else 0
            out = 1 if a < b + borrow else 0
            rows.append(((a, b), ((a - b - borrow) & MASK(bits), -out & MASK(bits))))
        f.table(f"subc_cc_{t}", [t] * 2, [t, t], body, rows)
        for half in ("lo", "hi"):
            part = lambda a, b, t=t, half=half: (read(a, t) * read(b, t) >> (width(t) if half == "hi" else 0))
            for carry_in in ("", "set"):
                # A carry in of 1 comes from adding all ones and one.
                first = f"add.cc.{t} %q, {'-1' if carry_in else '0'}, {'1' if carry_in else '0'};\n"
                body = f"{first}madc.{half}.cc.{t} %d, %a, %b, %c;\naddc.{t} %q, 0, 0;"
                rows = []
                for a, b, c in pick(f"madcc{half}{t}{carry_in}", [e] * 3, COUNT):
                    total = (part(a, b) & MASK(bits)) + c + (1 if carry_in else 0)
                    rows.append(((a, b, c), (total & MASK(bits), total >> bits)))
                f.table(f"madc_{half}_cc_{t}_{carry_in or 'clear'}", [t] * 3, [t, t], body, rows)
            body = f"mad.{half}.cc.{t} %d, %a, %b, %c;\naddc.{t} %q, 0, 0;"
            rows = []
            for a, b, c in pick(f"madcc{half}{t}", [e] * 3, COUNT):
                total = (part(a, b) & MASK(bits)) + c
                rows.append(((a, b, c), (total & MASK(bits), total >> bits)))
            f.table(f"mad_{half}_cc_{t}", [t] * 3, [t, t], body, rows)
    for t in ALL:
        for half in ("lo", "hi"):
            rows = []
            for a, b, c in pick(f"madc{half}{t}", [edges(t)] * 3, COUNT):
                p = read(a, t) * read(b, t) >> (width(t) if half == "hi" else 0)
                rows.append(((a, b, c), (wrap(p + c + 1, t),)))
            f.table(f"madc_{half}_{t}", [t] * 3, [t], f"add.cc.u32 %x, -1, 1;\nmadc.{half}.{t} %d, %a, %b, %c;",
                    rows, regs=".reg .u32 %x;")
            rows = [(i, (wrap(read(i[0], t) * read(i[1], t) >> (width(t) if half == "hi" else 0), t) + i[2]
                         & MASK(width(t)),)) for i, _ in rows]
            f.table(f"madc_{half}_{t}_clear", [t] * 3, [t],
                    f"add.cc.u32 %x, 0, 1;\nmadc.{half}.{t} %d, %a, %b, %c;", rows, regs=".reg .u32 %x;")
    for t in ("u16", "s16"):
        for name, sign in (("addc", 1), ("subc", -1)):
            rows = []
            for a, b in pick(name + t, [edges(t)] * 2, COUNT):
                rows.append(((a, b), (wrap(a + sign * (b + 1), t),)))
            first = "add.cc.u32 %x, -1, 1;" if sign == 1 else "sub.cc.u32 %x, 0, 1;"
            f.table(f"{name}_{t}", [t] * 2, [t], f"{first}\n{name}.{t} %d, %a, %b;", rows, regs=".reg .u32 %x;")
    f.write()


def multiplication():
    f = File("integer/mul", "mul: low and high halves, whole products.")
    binary(f, "mul.lo", ALL, lambda a, b: a * b)
    for t in ALL:
        op(f, f"mul.hi.{t}", [t, t], t,
           lambda a, b, t=t: wrap(read(a, t) * read(b, t) >> width(t), t))
    for t in ("u16", "s16", "u32", "s32"):
        wide = t[0] + str(2 * width(t))
        op(f, f"mul.wide.{t}", [t, t], wide, lambda a, b, t=t, w=wide: wrap(read(a, t) * read(b, t), w))
    f.write()
    f = File("integer/mad", "mad: as mul, and c; .hi.sat.s32 clamps.")
    for t in ALL:
        for half in ("lo", "hi"):
            op(f, f"mad.{half}.{t}", [t, t, t], t, lambda a, b, c, t=t, h=half: wrap(
                (read(a, t) * read(b, t) >> (width(t) if h == "hi" else 0)) + c, t))
    op(f, "mad.hi.sat.s32", ["s32"] * 3, "s32", lambda a, b, c: clamp(
        (read(a, "s32") * read(b, "s32") >> 32) + read(c, "s32"), "s32"),
       always=[(0x80000000, 0x80000000, 0x7fffffff), (0x80000000, 0x7fffffff, 0x80000000)])
    for t in ("u16", "s16", "u32", "s32"):
        wide = t[0] + str(2 * width(t))
        op(f, f"mad.wide.{t}", [t, t, wide], wide,
           lambda a, b, c, t=t, w=wide: wrap(read(a, t) * read(b, t) + c, w))
    f.write()
    f = File("integer/mul24", "mul24, mad24: 24 bits of each factor; .hi is bits 47 to 16 of the product.")
    values = [0, 1, 0xffffff, 0x800000, 0x7fffff, 0xff800000, 0xff000001, 0x12345678, 0xffffffff, 0x00123456,
              0x80000001]
    part = lambda v, t: signed(v & 0xffffff, 24) if t[0] == "s" else v & 0xffffff
    for t in ("u32", "s32"):
        for half, shift in (("lo", 0), ("hi", 16)):
            op(f, f"mul24.{half}.{t}", [t, t], t,
               lambda a, b, t=t, s=shift: wrap(part(a, t) * part(b, t) >> s, t), lists=[values] * 2)
            op(f, f"mad24.{half}.{t}", [t, t, t], t, lambda a, b, c, t=t, s=shift: wrap(
                (part(a, t) * part(b, t) >> s) + c, t), lists=[values, values, edges(t)])
    op(f, "mad24.hi.sat.s32", ["s32"] * 3, "s32", lambda a, b, c: clamp(
        signed(part(a, "s32") * part(b, "s32") >> 16, 32) + read(c, "s32"), "s32"),
       lists=[values, values, edges("s32")], always=[(0x7fffff, 0x7fffff, 0x7fffffff), (0x800000, 0x7fffff, 0x80000000)])
    f.write()


def division():
    f = File("integer/div_rem", "div, rem: toward zero, the remainder has the dividend's sign. Division by zero\n"
             "is left to the machine by PTX ISA 9.7.1.9 and not in the tables, INT_MIN by -1 wraps.")
    for t in ALL:
        least = 1 << width(t) - 1
        divisors = [v for v in edges(t) if v]
        for name, m in (("div", quotient), ("rem", lambda a, b: a - b * quotient(a, b))):
            if name == "div" and t[0] == "s":
                always = [(least, MASK(width(t)))]
            else:
                always = [(least, MASK(width(t)))]
            op(f, f"{name}.{t}", [t, t], t, lambda a, b, t=t, m=m: wrap(m(read(a, t), read(b, t)), t),
               lists=[edges(t), divisors], always=always)
    f.write()


def simple():
    f = File("integer/abs_neg_min_max_sad", "abs, neg, min, max, sad: the least number is its own absolute value.")
    for t in ("s16", "s32", "s64"):
        op(f, f"abs.{t}", [t], t, lambda a, t=t: wrap(abs(read(a, t)), t))
        op(f, f"neg.{t}", [t], t, lambda a, t=t: wrap(-a, t))
    for name, m in (("min", min), ("max", max)):
        binary(f, name, ALL, m)
        op(f, f"{name}.relu.s32", ["s32", "s32"], "s32",
           lambda a, b, m=m: wrap(max(0, m(read(a, "s32"), read(b, "s32"))), "s32"))
        op(f, f"{name}.u16x2", ["b32", "b32"], "b32", lambda a, b, m=m: packed(a, b, 16, "u16", m),
           lists=[PACKED, PACKED])
        op(f, f"{name}.s16x2", ["b32", "b32"], "b32", lambda a, b, m=m: packed(a, b, 16, "s16", m),
           lists=[PACKED, PACKED])
        op(f, f"{name}.relu.s16x2", ["b32", "b32"], "b32",
           lambda a, b, m=m: packed(a, b, 16, "s16", lambda x, y: max(0, m(x, y))), lists=[PACKED, PACKED])
    for t in ALL:
        op(f, f"sad.{t}", [t] * 3, t, lambda a, b, c, t=t: wrap(abs(read(a, t) - read(b, t)) + c, t))
    f.write()
    f = File("integer/bytes", "neg, min, max of bytes, new in sm_120f.", "9.3", "sm_120f")
    op(f, "neg.s8x4", ["b32"], "b32", lambda a: packed(a, 0, 8, "s8", lambda x, _: -x), lists=[PACKED])
    for name, m in (("min", min), ("max", max)):
        for t in ("u8", "s8"):
            op(f, f"{name}.{t}x4", ["b32", "b32"], "b32", lambda a, b, t=t, m=m: packed(a, b, 8, t, m),
               lists=[PACKED, PACKED])
        op(f, f"{name}.relu.s8x4", ["b32", "b32"], "b32",
           lambda a, b, m=m: packed(a, b, 8, "s8", lambda x, y: max(0, m(x, y))), lists=[PACKED, PACKED])
    f.write()


def dots():
    f = File("integer/dot", "dp4a, dp2a: dot products of bytes, each side signed or not.")
    values = [0, 0x01020304, 0x80ff7f01, 0xffffffff, 0x80808080, 0x7f7f7f7f, 0x00ff00ff, 0x12345678]
    byte = lambda v, i, t: signed(v >> 8 * i & 0xff, 8) if t[0] == "s" else v >> 8 * i & 0xff
    word = lambda v, i, t: signed(v >> 16 * i & 0xffff, 16) if t[0] == "s" else v >> 16 * i & 0xffff
    c = [0, 1, 0x7fffffff, 0x80000000, 0xffffffff]
    for ta in ("u32", "s32"):
        for tb in ("u32", "s32"):
            op(f, f"dp4a.{ta}.{tb}", ["b32", "b32", "s32"], "s32", lambda a, b, c, ta=ta, tb=tb: (
                sum(byte(a, i, ta) * byte(b, i, tb) for i in range(4)) + c) & MASK(32),
               lists=[values, values, c])
            for half, base in (("lo", 0), ("hi", 2)):
                op(f, f"dp2a.{half}.{ta}.{tb}", ["b32", "b32", "s32"], "s32",
                   lambda a, b, c, ta=ta, tb=tb, n=base: (
                       sum(word(a, i, ta) * byte(b, n + i, tb) for i in range(2)) + c) & MASK(32),
                   lists=[values, values, c])
    f.write()


def bits():
    f = File("integer/bits", "popc, clz, bfind, brev, bfe, bfi, szext, bmsk, fns.")
    for t in ("b32", "b64"):
        n = width(t)
        op(f, f"popc.{t}", [t], "u32", lambda a: bin(a).count("1"))
        op(f, f"clz.{t}", [t], "u32", lambda a, n=n: n - a.bit_length())
        op(f, f"brev.{t}", [t], t, lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2))
    for t in ("u32", "s32", "u64", "s64"):
        n = width(t)
        def find(a, t=t, n=n):
            value = a ^ MASK(n) if t[0] == "s" and a >> n - 1 else a
            return value.bit_length() - 1
        op(f, f"bfind.{t}", [t], "u32", lambda a, find=find: find(a) & MASK(32))
        op(f, f"bfind.shiftamt.{t}", [t], "u32",
           lambda a, find=find, n=n: (n - 1 - find(a) if find(a) >= 0 else -1) & MASK(32))
        places = [0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256, 0x108, 0xffffffff]
        def extract(a, b, c, t=t, n=n):
            place, length = b & 0xff, c & 0xff
            if t[0] == "u" or length == 0:
                sign = 0
            else:
                sign = a >> min(place + length - 1, n - 1) & 1
            out = 0
            for i in range(n):
                bit = a >> place + i & 1 if i < length and place + i < n else sign
                out |= bit << i
            return out
        op(f, f"bfe.{t}", [t, "u32", "u32"], t, extract, lists=[edges(t), places, places], count=32,
           always=[(0x80000000, 28, 4), (0xdeadbeef, 0, n), (0xdeadbeef, 4, 0)])
    for t in ("b32", "b64"):
        n = width(t)
        def insert(a, b, c, d, n=n):
            place, length = c & 0xff, d & 0xff
            out = b
            for i in range(length):
                if place + i < n:
                    out = out & ~(1 << place + i) | (a >> i & 1) << place + i
            return out
        places = [0, 1, 7, 8, 16, 31, 32, 33, 63, 64, 255, 256, 0x104]
        op(f, f"bfi.{t}", [t, t, "u32", "u32"], t, insert, lists=[edges(t), edges(t), places, places], count=32)
    positions = [0, 1, 5, 8, 31, 32, 33, 40, 0xffffffff]
    for mode in ("clamp", "wrap"):
        for t in ("u32", "s32"):
            def extend(a, b, t=t, mode=mode):
                count = min(b, 32) if mode == "clamp" else b & 31
                low = a & MASK(count)
                return signed(low, count) & MASK(32) if t == "s32" and count else low
            op(f, f"szext.{mode}.{t}", [t, "u32"], t, extend, lists=[edges(t), positions], count=32)
        def mask(a, b, mode=mode):
            # b ones, beginning at bit a.
            if mode == "clamp":
                a, b = min(a, 32), min(b, 32)
            else:
                a, b = a & 31, b & 31
            return MASK(b) << a & MASK(32)
        op(f, f"bmsk.{mode}.b32", ["b32", "b32"], "b32", mask, lists=[positions, positions], count=40)
    def nth(mask, base, offset):
        offset = signed(offset, 32)
        if offset == 0:
            return base if mask >> base & 1 else MASK(32)
        step, left, place = (1, offset, base) if offset > 0 else (-1, -offset, base)
        while 0 <= place < 32:
            if mask >> place & 1:
                left -= 1
                if left == 0:
                    return place
            place += step
        return MASK(32)
    op(f, "fns.b32", ["b32", "b32", "s32"], "b32", nth,
       lists=[[0, 1, 0xaaaaaaaa, 0x80000001, 0xffffffff, 0xdeadbeef], [0, 1, 3, 16, 30, 31],
              [0, 1, 2, 5, 32, 33, -1 & MASK(32), -2 & MASK(32), -33 & MASK(32)]], count=48)
    f.write()


def logic():
    f = File("logic/logic", "and, or, xor, not, cnot, lop3.")
    for t in ("b16", "b32", "b64"):
        for name, m in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
            op(f, f"{name}.{t}", [t, t], t, m, count=12)
        op(f, f"not.{t}", [t], t, lambda a, t=t: a ^ MASK(width(t)))
        op(f, f"cnot.{t}", [t], t, lambda a: 0 if a else 1)
    for name, m in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
        op(f, f"{name}.pred", ["pred", "pred"], "pred", m, lists=[[0, 1], [0, 1]])
    op(f, "not.pred", ["pred"], "pred", lambda a: 1 - a, lists=[[0, 1]])
    values = [0, 0xffffffff, 0xff00f0f0, 0x12345678, 0xcccccccc, 0xaaaa5555]
    def lut(a, b, c, table):
        out = 0
        for i in range(32):
            out |= (table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i
        return out
    for table in (0, 0xff, 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x96, 0xe8, 0xca, 0x3c, 0xfe):
        rows = pick(f"lop3{table}", [values] * 3, 6, [(0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa)])
        f.table(f"lop3_{table:02x}", ["b32"] * 3, ["b32"], f"lop3.b32 %d, %a, %b, %c, 0x{table:x};",
                [(r, (lut(*r, table),)) for r in rows])
    for name, m in (("or", lambda x, q: x | q), ("and", lambda x, q: x & q)):
        rows = pick(f"lop3{name}", [values, values, values, [0, 1]], 16, [(0, 0, 0, 0), (0, 0, 0, 1)])
        f.table(f"lop3_{name}", ["b32", "b32", "b32", "pred"], ["b32", "pred"],
                f"lop3.{name}.b32 %d|%q, %a, %b, %c, 0xe8, %e;",
                [(r, (lut(*r[:3], 0xe8), m(int(lut(*r[:3], 0xe8) != 0), r[3]))) for r in rows])
        f.table(f"lop3_{name}_sink", ["b32", "b32", "b32", "pred"], ["pred"],
                f"lop3.{name}.b32 _|%d, %a, %b, %c, 0x80, !%e;",
                [(r, (m(int(lut(*r[:3], 0x80) != 0), 1 - r[3]),)) for r in rows])
    f.write()
    f = File("logic/shifts", "shl, shr, shf: amounts over the width clamp; shf.wrap takes five bits.")
    amounts = [0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 0x10000, 0x80000000, 0xffffffff]
    for t in ("b16", "b32", "b64"):
        op(f, f"shl.{t}", [t, "u32"], t,
           lambda a, b, t=t: a << min(b, width(t)) & MASK(width(t)), lists=[edges(t), amounts])
    for t in ("b16", "b32", "b64") + tuple(ALL):
        op(f, f"shr.{t}", [t, "u32"], t,
           lambda a, b, t=t: wrap((read(a, t) if t[0] == "s" else a) >> min(b, width(t)), t),
           lists=[edges(t), amounts])
    for side in ("l", "r"):
        for mode in ("clamp", "wrap"):
            def funnel(a, b, c, side=side, mode=mode):
                n = min(c, 32) if mode == "clamp" else c & 31
                both = b << 32 | a
                return both << n >> 32 & MASK(32) if side == "l" else both >> n & MASK(32)
            op(f, f"shf.{side}.{mode}.b32", ["b32", "b32", "u32"], "b32", funnel,
               lists=[edges("b32"), edges("b32"), amounts])
    f.write()
    f = File("logic/prmt", "prmt: selectors take four bits, the highest replicates the sign; each mode.")
    words = [0x33221100, 0x77665544, 0x80ff7f01, 0xfedcba98]
    bytes_of = lambda a, b: [(b << 32 | a) >> 8 * i & 0xff for i in range(8)]
    def generic(a, b, c):
        out = 0
        for i in range(4):
            s = c >> 4 * i & 15
            v = bytes_of(a, b)[s & 7]
            out |= (0xff if v & 0x80 and s & 8 else 0 if s & 8 else v) << 8 * i
        return out
    op(f, "prmt.b32", ["b32"] * 3, "b32", generic,
       lists=[words, words, [0x3210, 0x7654, 0x0123, 0xfedc, 0xba98, 0x4567, 0x18f7, 0xffff8421, 0x8080]], count=24)
    # Byte i of the result, by the two low bits of c.
    modes = {
        "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        "rc8": [[0] * 4, [1] * 4, [2] * 4, [3] * 4],
        "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
        "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
    }
    for mode, table in modes.items():
        op(f, f"prmt.b32.{mode}", ["b32"] * 3, "b32", lambda a, b, c, table=table: sum(
            bytes_of(a, b)[s] << 8 * i for i, s in enumerate(table[c & 3])),
           lists=[words, words, [0, 1, 2, 3, 4, 0xfffffffd]], count=16)
    f.write()


def generate():
    add_sub()
    carries()
    multiplication()
    division()
    simple()
    dots()
    bits()
    logic()
