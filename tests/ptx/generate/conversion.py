"""Conversions: PTX ISA 9.7.9.21 (cvt) and 9.7.9.22 (cvt.pack)."""

import exact
from emit import File, INTEGERS, floats, identifier, pick
from exact import (BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, F64, FORMATS, INF, NAN, TF32, convert, signed)
from fractions import Fraction
from floating import FTZ, MODES, RELU, SAT, flags

WHOLE = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
IRND = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
FINITE = (".satfinite", {"satfinite": True})


def bits(t):
    return int(t[1:])


def low_high(t):
    return (-(1 << bits(t) - 1), (1 << bits(t) - 1) - 1) if t[0] == "s" else (0, (1 << bits(t)) - 1)


def read(v, t):
    return signed(v, bits(t)) if t[0] == "s" else v


def one(f, text, d, s, meaning, values, count=20):
    rows = pick(text, [values], count)
    body, regs = f"{text} %d, %a;", ""
    # Between bf16 and 8 bits the register has 8 bits too.
    if s == "bf16" and d in ("u8", "s8"):
        body, regs = f"{text} %x, %a; cvt.u16.u8 %d, %x;", f".reg .{d} %x;"
    if d == "bf16" and s in ("u8", "s8"):
        body, regs = f"cvt.u8.u16 %x, %a; {text} %d, %x;", f".reg .{s} %x;"
    f.table(identifier(text), [s], [d], body, [(r, (meaning(*r),)) for r in rows], regs=regs)


def whole_to_whole():
    f = File("convert/integers", "cvt between whole numbers: extended by the source's sign, cut, or clamped by .sat.")
    for d in WHOLE:
        for s in WHOLE:
            mask = (1 << bits(d)) - 1
            one(f, f"cvt.{d}.{s}", d, s, lambda a: read(a, s) & mask, INTEGERS[bits(s)], 10)
            def clamp(a):
                low, high = low_high(d)
                return max(low, min(high, read(a, s))) & mask
            one(f, f"cvt.sat.{d}.{s}", d, s, clamp, INTEGERS[bits(s)], 10)
    # Narrow results extend into wider registers, narrow sources lie in them.
    rows = [((0x12345680,), (0xffffff80,)), ((0x7f,), (0x7f,)), ((0xff,), (0xffffffff,))]
    f.table("cvt_s8_u32_wide", ["b32"], ["b32"], "cvt.s8.u32 %d, %a;", rows)
    rows = [((0x12345680,), (0x80,)), ((0xffffffff,), (0xff,))]
    f.table("cvt_u8_u32_wide", ["b32"], ["b32"], "cvt.u8.u32 %d, %a;", rows)
    rows = [((0x12345680,), (0xffffffffffffff80,)), ((0xff00,), (0,))]
    f.table("cvt_s64_s8_wide", ["b32"], ["s64"], "cvt.s64.s8 %d, %a;", rows)
    f.write()


def whole_to_float():
    f = File("convert/integer_to_float", "cvt from whole numbers: rounded once; overflow of f16 by the rounding.")
    more = {8: [], 16: [2049, 2051, 65504, 65519, 65520], 32: [16777217, 16777219, 65519, 65520, 65535, 0x7fffffbf, 257, 0xffffff80],
            64: [(1 << 53) + 1, (1 << 53) + 3, (1 << 63) - 1, (1 << 24) + 1, 65520, (1 << 62) + (1 << 8) + 1]}
    for fmt in (F16, F32, F64, BF16):
        for s in WHOLE:
            values = INTEGERS[bits(s)] + more[bits(s)]
            values = values + [-v & (1 << bits(s)) - 1 for v in more[bits(s)]]
            for mode in MODES:
                m = lambda a, mode=mode: fmt.round(Fraction(read(a, s)), mode)
                one(f, f"cvt.{mode}.{fmt.name}.{s}", fmt.name, s, m, values, 12)
            if fmt is not BF16:
                m = lambda a: fmt.exact(Fraction(1)) if read(a, s) >= 1 else 0
                one(f, f"cvt.rn.sat.{fmt.name}.{s}", fmt.name, s, m, values, 6)
            if fmt is F32:
                m = lambda a: fmt.round(Fraction(read(a, s)), "rz")
                one(f, f"cvt.rz.ftz.{fmt.name}.{s}", fmt.name, s, m, values, 6)
    f.write()


def around(fmt, t):
    """Numbers of the format near the ends of a type, and halves."""
    low, high = low_high(t)
    values = [Fraction(n, 2) for n in range(-7, 8)] + [Fraction(n, 4) for n in (-5, -3, -1, 1, 3, 5)]
    for end in (low, high):
        for delta in (-2, -1, Fraction(-1, 2), 0, Fraction(1, 2), 1, 2):
            values.append(end + delta)
    found = [fmt.round(v, "rn", False) for v in values]
    return list(dict.fromkeys(found)) + floats(fmt)


def float_to_whole():
    for fmt in (F32, F64, F16, BF16):
        f = File(f"convert/{fmt.name}_to_integer", f"cvt from {fmt.name} to whole numbers: every rounding; always saturated. A NaN\n"
                 "becomes 0, or the least number for 64 bits and from f64 (PTX ISA 9.7.9.21).")
        for d in WHOLE:
            for mode, how in IRND.items():
                for more, args in flags(FTZ) if fmt is F32 else flags():
                    m = lambda a, how=how, args=args: exact.to_integer(fmt, a, bits(d), d[0] == "s", how, **args)
                    # What a NaN is in 8 and 16 bits of a signed f64 conversion fits no narrower statement.
                    values = [v for v in around(fmt, d) if not (fmt is F64 and bits(d) < 32 and fmt.is_nan(v))]
                    one(f, f"cvt.{mode}{more}.{d}.{fmt.name}", d, fmt.name, m, values, 24)
            if fmt is not BF16:
                m = lambda a: exact.to_integer(fmt, a, bits(d), d[0] == "s", "rz")
                one(f, f"cvt.rzi.sat.{d}.{fmt.name}", d, fmt.name, m, values, 12)
        f.write()


def close(to, source):
    """Numbers of `source` between numbers of `to`."""
    found = list(floats(source))
    s = source.sign
    for v in (to.largest, to.min_normal, Fraction(1), Fraction(3), to.min_normal / 2 ** to.frac):
        q = to.quantum(v)
        for k in (Fraction(-1, 2), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(1, 4), Fraction(3, 4)):
            near = source.round(v + k * q)
            found += [near, near + 1, max(near - 1, 0), near | s, (near + 1) | s]
    return list(dict.fromkeys(found))


def rounded_integral(fmt, a, how, ftz=False, sat=False):
    """To a whole number of the same format."""
    if ftz:
        a = fmt.flush(a)
    v = fmt.value(a)
    if v == NAN:
        return exact.finish(fmt, NAN, sat=sat)
    if v in (INF, -INF):
        return exact.finish(fmt, a, sat=sat)
    whole = exact.round_integer(v, how)
    return exact.finish(fmt, fmt.round(Fraction(whole), "rn", bool(a & fmt.sign)), sat=sat)


def float_to_float():
    f = File("convert/float", "cvt among f16, f32, f64: exact, to a whole number, or rounded once.")
    for d, s, choice in ((F32, F16, flags(SAT)), (F64, F16, flags(SAT)), (F64, F32, flags(FTZ, SAT))):
        for more, args in choice:
            one(f, f"cvt{more}.{d.name}.{s.name}", d.name, s.name,
                lambda a, args=args: convert(d, s, a, **args), floats(s), 40)
    # .ftz of a wider result flushes subnormal f16 numbers not: they are normal f32 numbers.
    one(f, "cvt.ftz.f32.f16", "f32", "f16", lambda a: convert(F32, F16, a), floats(F16), 24)
    for fmt, choice in ((F32, flags(FTZ, SAT)), (F64, flags(SAT)), (F16, flags(SAT))):
        for more, args in choice:
            values = floats(fmt) + around(fmt, "s8")
            def same(a, args=args):
                a = fmt.flush(a) if args.get("ftz") else a
                return exact.finish(fmt, NAN if fmt.is_nan(a) else a, sat=args.get("sat", False))
            one(f, f"cvt{more}.{fmt.name}.{fmt.name}", fmt.name, fmt.name, same, values, 20)
            for mode, how in IRND.items():
                one(f, f"cvt.{mode}{more}.{fmt.name}.{fmt.name}", fmt.name, fmt.name,
                    lambda a, how=how, args=args: rounded_integral(fmt, a, how, **args), values, 32)
    for d, s, choice in ((F16, F32, flags(FTZ, SAT)), (F32, F64, flags(FTZ, SAT)), (F16, F64, flags(SAT))):
        for mode in MODES:
            for more, args in choice:
                one(f, f"cvt.{mode}{more}.{d.name}.{s.name}", d.name, s.name,
                    lambda a, mode=mode, args=args: convert(d, s, a, mode, **args), close(d, s), 40)
    f.write()
    f = File("convert/bf16", "cvt to and from bf16.")
    for d in (F32, F64):
        for more, args in flags(FTZ, SAT):
            one(f, f"cvt{more}.{d.name}.bf16", d.name, "bf16",
                lambda a, args=args: None if BF16.is_subnormal(a) and args.get("ftz")
                else convert(d, BF16, a, sat=args.get("sat", False)), floats(BF16), 24)
        for mode in MODES:
            one(f, f"cvt.{mode}.{d.name}.bf16", d.name, "bf16", lambda a: convert(d, BF16, a), floats(BF16), 12)
    for mode in [""] + list(IRND):
        how = IRND.get(mode)
        m = lambda a: rounded_integral(BF16, a, how) if how else (NAN if BF16.is_nan(a) else a)
        one(f, f"cvt{'.' + mode if mode else ''}.bf16.bf16", "bf16", "bf16", m, floats(BF16) + around(BF16, "s8"), 32)
    for mode in [""] + MODES:
        for d, s in ((BF16, F16), (F16, BF16)):
            one(f, f"cvt{'.' + mode if mode else ''}.{d.name}.{s.name}", d.name, s.name,
                lambda a: convert(d, s, a, mode or "rn"), close(d, s), 32)
    for mode in MODES:
        one(f, f"cvt.{mode}.bf16.f64", "bf16", "f64", lambda a: convert(BF16, F64, a, mode), close(BF16, F64), 40)
        for more, args in flags(FTZ, SAT):
            def narrow(a, args=args):
                if args.get("ftz") and F32.is_subnormal(a):
                    return None  # bf16 has the same exponents: whether the source is flushed is not said
                r = convert(BF16, F32, a, mode, sat=args.get("sat", False))
                return None if args.get("ftz") and r not in (None, NAN) and BF16.is_subnormal(r) else r
            one(f, f"cvt.{mode}{more}.bf16.f32", "bf16", "f32", narrow, close(BF16, F32), 40)
    f.write()
    f = File("convert/saturated", "cvt with .satfinite and .relu; pairs; tf32.")
    for d in (F16, BF16):
        for mode in ("rn", "rz"):
            for more, args in flags(RELU, FINITE):
                if more:
                    one(f, f"cvt.{mode}{more}.{d.name}.f32", d.name, "f32",
                        lambda a, args=args: convert(d, F32, a, mode, **args), close(d, F32), 40)
                rows = pick(f"{d.name}x2{mode}{more}", [close(d, F32)] * 2, 24)
                # The first source is the upper half.
                f.table(identifier(f"cvt.{mode}{more}.{d.name}x2.f32"), ["f32", "f32"], [d.name] * 2,
                        f"cvt.{mode}{more}.{d.name}x2.f32 %x, %a, %b;\nmov.b32 {{%d, %q}}, %x;",
                        [(r, (convert(d, F32, r[1], mode, **args), convert(d, F32, r[0], mode, **args)))
                         for r in rows], regs=".reg .b32 %x;")
    nan32 = lambda v: "nan" if v == NAN else v
    for mode, choice in (("rna", flags(FINITE)), ("rn", flags(RELU, FINITE)), ("rz", flags(RELU, FINITE))):
        for more, args in choice:
            rows = pick(f"tf32{mode}{more}", [close(TF32, F32)], 40)
            # A tf32 number is an f32 number, so that a NaN can be any.
            f.table(identifier(f"cvt.{mode}{more}.tf32.f32"), ["f32"], ["f32"],
                    f"cvt.{mode}{more}.tf32.f32 %x, %a;\nmov.b32 %d, %x;",
                    [(r, (nan32(convert(TF32, F32, r[0], mode, **args)),)) for r in rows], regs=".reg .b32 %x;")
    f.write()


SMALL = {"e4m3": E4M3, "e5m2": E5M2, "e2m3": E2M3, "e3m2": E3M2, "e2m1": E2M1}


def code(fmt, v, args, mode, source):
    """Bits of a small number; NaN has one form in those that have it."""
    r = convert(fmt, source, v, mode, satfinite=True, **args)
    if r == NAN:
        return 0x7f
    return r


def small_formats():
    targets = (("sm_100a", "8.8", ["rn"]), ("sm_107a", "9.4", ["rz"]))
    for target, version, modes in targets:
        f = File(f"convert/small_{modes[0]}", "cvt to and from 8, 6 and 4 bits: the first source is the upper one.",
                 "9.1" if modes == ["rn"] else version, target)
        for name, fmt in SMALL.items():
            four = name == "e2m1"
            lane = 4 if four else 8
            whole = "b8" if four else "b16"
            for mode in modes:
                for more, args in flags(RELU):
                    rows = pick(f"{name}{mode}{more}", [close(fmt, F32)] * 2, 40)
                    out = []
                    for r in rows:
                        h, l = (code(fmt, x, args, mode, F32) for x in r)
                        out.append((r, (None if None in (h, l) else h << lane | l,)))
                    body = f"cvt.{mode}.satfinite{more}.{name}x2.f32 {'%x' if four else '%d'}, %a, %b;"
                    emit_small(f, f"cvt.{mode}.satfinite{more}.{name}x2.f32", ["f32", "f32"], body, out, four)
                    for source in (F16, BF16):
                        rows = pick(f"{name}{mode}{more}{source.name}", [close(fmt, source)] * 2, 32)
                        out = []
                        for r in rows:
                            l, h = (code(fmt, x, args, mode, source) for x in r)
                            out.append((r, (None if None in (h, l) else h << lane | l,)))
                        text = f"cvt.{mode}.satfinite{more}.{name}x2.{source.name}x2"
                        if mode == "rz" and source is F16 and False:
                            continue
                        body = (f"mov.b32 %w, {{%a, %b}};\n{text} {'%x' if four else '%d'}, %w;")
                        emit_small(f, text, [source.name] * 2, body, out, four, ".reg .b32 %w;")
            if modes == ["rn"]:
                for more, args in flags(RELU):
                    values = list(range(1 << fmt.width))
                    pairs_of = [(values[i], values[(7 * i + 3) % len(values)]) for i in range(len(values))]
                    def wide(b, args=args):
                        v = convert(F16, fmt, b, **args)
                        return v
                    out = [((h << lane | l,), (wide(l), wide(h))) for h, l in pairs_of]
                    text = f"cvt.rn{more}.f16x2.{name}x2"
                    if four:
                        body = f"cvt.u8.u16 %n, %a;\nmov.b16 {{%x, %z}}, %n;\n{text} %w, %x;\nmov.b32 {{%d, %q}}, %w;"
                        f.table(identifier(text), ["b16"], ["f16", "f16"], body, out,
                                regs=".reg .b32 %w; .reg .b16 %n; .reg .b8 %x, %z;")
                    else:
                        f.table(identifier(text), ["b16"], ["f16", "f16"],
                                f"{text} %w, %a;\nmov.b32 {{%d, %q}}, %w;", out, regs=".reg .b32 %w;")
        f.write()


def emit_small(f, text, ins, body, out, four, regs=""):
    if four:
        body += "\nmov.b16 %d, {%x, 0};"
        body = body.replace("mov.b16 %d, {%x, 0};", "mov.b16 %d, {%x, %zero};")
        body = "mov.b16 {%zero, _}, 0;\n" + body
        regs += " .reg .b8 %x, %zero;"
    f.table(identifier(text), ins, ["b16"], body, out, regs=regs.strip())


def stochastic():
    f = File("convert/stochastic", "cvt.rs: the carry out of the dropped bits and the random ones rounds up. The table keeps to\n"
             "normal results; of four small numbers only truncation (random bits 0) and numbers that need no rounding.",
             "8.8", "sm_100a")
    for d, dropped in ((F16, 13), (BF16, 16)):
        mask = (1 << dropped) - 1
        for more, args in flags(RELU, FINITE):
            def one_of(v, r, args=args):
                x = F32.value(v)
                if x in (NAN, INF, -INF):
                    return convert(d, F32, v, "rz", **args)
                up = (v & mask) + (r & mask) >> dropped
                step = (v & ~mask) + (up << dropped)
                if abs(F32.value(step)) > d.largest:
                    return None
                return convert(d, F32, step, "rz", **args)
            values = [v for v in close(d, F32) if not (0 < abs(F32.value(v) if F32.value(v) != NAN else 1) < d.min_normal)]
            rows = []
            for a, b, r in pick(f"rs{d.name}{more}", [values, values, INTEGERS[32]], 60):
                rows.append(((a, b, r), (one_of(b, r), one_of(a, r >> 16))))
            f.table(identifier(f"cvt.rs{more}.{d.name}x2.f32"), ["f32", "f32", "b32"], [d.name] * 2,
                    f"cvt.rs{more}.{d.name}x2.f32 %x, %a, %b, %c;\nmov.b32 {{%d, %q}}, %x;", rows, regs=".reg .b32 %x;",
                    most=32)
    for name, fmt in SMALL.items():
        lane = 4 if name == "e2m1" else 8
        whole = "b16" if lane == 4 else "b32"
        for more, args in flags(RELU):
            r = pick(f"rs{name}{more}", [close(fmt, F32)] * 4 + [[0]], 24)
            own = [F32.exact(abs(v)) | (F32.sign if v < 0 else 0) for v in (fmt.value(b) for b in range(1 << fmt.width))
                   if v not in (NAN, INF, -INF) and v != 0]
            r += pick(f"rsexact{name}{more}", [own] * 4 + [[0xffffffff, 0x55555555, 0x12345678]], 8)
            rows = []
            for row in r:
                parts = [code(fmt, v, args, "rz", F32) for v in row[:4]]
                out = None if None in parts else sum(p << lane * (3 - i) for i, p in enumerate(parts))
                rows.append((row, (out,)))
            text = f"cvt.rs{more}.satfinite.{name}x4.f32"
            f.table(identifier(text), ["f32"] * 4 + ["b32"], [whole], f"{text} %d, {{%a, %b, %c, %e}}, %f;", rows)
    f.write()


def exponents():
    f = File("convert/ue8m0", "cvt to and from ue8m0, a power of two from 2^-127 to 2^127; 0xff is NaN.", "8.8", "sm_100a")
    def power(v, mode, satfinite):
        x = F32.value(v) if isinstance(v, int) else v
        if x == NAN:
            return 0xff
        if x in (INF, -INF):
            return None if x == -INF else (0xfe if satfinite else 0xff if mode == "rp" else None)
        if x <= 0:
            return None if x < 0 else 0
        e = exact.exponent(x)
        if mode == "rp" and x != Fraction(2) ** e:
            e += 1
        if e < -127:
            return 0
        if e > 127:
            return 0xfe if satfinite else None
        return e + 127
    values = [v for v in floats(F32) if F32.value(v) == NAN or F32.value(v) not in (INF, -INF) and F32.value(v) >= 0]
    values += [0x7f000000, 0x7eff_ffff, 0x40400000, 0x00400000, 0x00400001, 0x00200000, 0x3fffffff]
    for mode in ("rz", "rp"):
        for more in ("", ".satfinite"):
            rows = pick(f"ue8m0{mode}{more}", [values] * 2, 32)
            out = []
            for h, l in rows:
                a, b = power(h, mode, bool(more)), power(l, mode, bool(more))
                out.append(((h, l), (None if None in (a, b) else a << 8 | b,)))
            f.table(identifier(f"cvt.{mode}{more}.ue8m0x2.f32"), ["f32", "f32"], ["b16"],
                    f"cvt.{mode}{more}.ue8m0x2.f32 %d, %a, %b;", out)
            halves = [v >> 16 for v in values if v & 0xffff == 0] + [0x7fc0, 0x3f81, 0x40ff]
            rows = pick(f"ue8m0b{mode}{more}", [halves] * 2, 32)
            out = []
            for l, h in rows:
                a, b = power(h << 16, mode, bool(more)), power(l << 16, mode, bool(more))
                out.append(((l, h), (None if None in (a, b) else a << 8 | b,)))
            f.table(identifier(f"cvt.{mode}{more}.ue8m0x2.bf16x2"), ["bf16", "bf16"], ["b16"],
                    f"mov.b32 %w, {{%a, %b}};\ncvt.{mode}{more}.ue8m0x2.bf16x2 %d, %w;", out, regs=".reg .b32 %w;")
    def wide(b):
        return NAN if b == 0xff else BF16.round(Fraction(2) ** (b - 127))
    out = [((h << 8 | l,), (wide(l), wide(h))) for h, l in zip(range(0, 256), reversed(range(0, 256)))]
    f.table("cvt_rn_bf16x2_ue8m0x2", ["b16"], ["bf16", "bf16"],
            "cvt.rn.bf16x2.ue8m0x2 %w, %a;\nmov.b32 {%d, %q}, %w;", out, regs=".reg .b32 %w;")
    f.write()


def packs():
    f = File("convert/pack", "cvt.pack: two saturated numbers into the low bits, c moves up.", "8.8", "sm_100a")
    values = [0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7fffffff, 0x80000000,
              0xffffffff, 0xfffffffe, 0xfffffff8, 0xfffffff7, 0xffffff80, 0xffffff7f, 0xffff8000, 0xffff7fff]
    def clamp(v, t):
        low, high = low_high(t)
        return max(low, min(high, signed(v, 32))) & (1 << bits(t)) - 1
    for t in ("u16", "s16"):
        rows = pick("pack" + t, [values] * 2, 24)
        f.table(f"cvt_pack_{t}", ["s32", "s32"], ["b32"], f"cvt.pack.sat.{t}.s32 %d, %a, %b;",
                [(r, (clamp(r[0], t) << 16 | clamp(r[1], t),)) for r in rows])
    for t in ("u8", "s8", "u4", "s4", "u2", "s2"):
        n = bits(t)
        rows = pick("pack" + t, [values, values, [0, 0x12345678, 0xffffffff, 0xdeadbeef]], 24)
        f.table(f"cvt_pack_{t}", ["s32", "s32", "b32"], ["b32"], f"cvt.pack.sat.{t}.s32.b32 %d, %a, %b, %c;",
                [(r, ((r[2] << 2 * n | clamp(r[0], t) << n | clamp(r[1], t)) & 0xffffffff,)) for r in rows])
    f.write()


def generate():
    whole_to_whole()
    whole_to_float()
    float_to_whole()
    float_to_float()
    small_formats()
    stochastic()
    exponents()
    packs()
