"""Floating-point arithmetic: PTX ISA 9.7.3 to 9.7.5."""

import exact
from emit import File, floats, identifier, numbers, pick
from exact import BF16, F16, F32, F64, NAN, finish

MODES = ["rn", "rz", "rm", "rp"]
COUNT = 28


def op(file, text, fmt, types, meaning, always=(), count=COUNT, out=None, lists=None, tolerance=None):
    if lists is None:
        lists = [floats(exact.FORMATS[t]) for t in types]
    rows = pick(text, lists, count, always)
    operands = ", ".join("%" + n for n in ["d"] + ["a", "b", "c"][:len(types)])
    file.table(identifier(text), types, [out or fmt.name], f"{text} {operands};",
               [(row, (meaning(*row),)) for row in rows], tolerance=tolerance)


def pairs(file, text, fmt, count, meaning):
    """A packed form: each lane's result in a column of its own, so that NaN is any NaN."""
    lane, arity = fmt.name, meaning.__code__.co_argcount - len(meaning.__defaults__ or ())
    rows = pick(text, [floats(fmt)] * (2 * arity), count)
    whole, reg = ("b64", "f32") if fmt is F32 else ("b32", "b16")
    names = ["a", "b", "c"][:arity]
    flat = ["a", "b", "c", "e", "f", "g"]
    body = [f"mov.{whole} %x{i}, {{%{flat[2 * i]}, %{flat[2 * i + 1]}}};" for i in range(arity)]
    body.append(f"{text} %y, {', '.join(f'%x{i}' for i in range(arity))};")
    body.append(f"mov.{whole} {{%d, %q}}, %y;")
    out = []
    for row in rows:
        low = meaning(*row[0::2])
        high = meaning(*row[1::2])
        out.append((row, (low, high)))
    file.table(identifier(text), [lane] * (2 * arity), [lane, lane], "\n".join(body), out,
               regs=f".reg .{whole} %x<{arity}>, %y;")


def flags(*choices):
    """Every combination of some modifiers, as text and arguments."""
    found = [("", {})]
    for choice in choices:
        found = [(t + s, {**k, **a}) for t, k in found for s, a in [("", {})] + [choice]]
    return found


FTZ, SAT, RELU = (".ftz", {"ftz": True}), (".sat", {"sat": True}), (".relu", {"relu": True})


def halfway(fmt):
    """Sums and products that lie between two numbers of the format."""
    one = fmt.bias << fmt.frac
    half_ulp = one - ((fmt.frac + 1) << fmt.frac)
    return [(one, half_ulp), (one + 1, half_ulp), (one, half_ulp + 1), (one | fmt.sign, half_ulp | fmt.sign),
            (one + 1, one + 1), (one + 1, half_ulp | fmt.sign), (one, one | fmt.sign), (one | fmt.sign, one),
            (0, fmt.sign), (fmt.sign, fmt.sign), (fmt.inf, fmt.inf | fmt.sign), (0, fmt.inf),
            (fmt.inf - 1, fmt.inf - 1), (fmt.inf - 1 | fmt.sign, fmt.inf - 1), (1, one - (1 << fmt.frac)),
            (1 << fmt.frac, one - (1 << fmt.frac)), ((1 << fmt.frac) + 1, 1 << fmt.frac | fmt.sign)]


def arithmetic():
    table = (("add", exact.add), ("sub", exact.sub), ("mul", exact.mul))
    for name, meaning in table:
        f = File(f"float/{name}_f32", f"{name}.f32: every rounding, .ftz, .sat. NaN payloads of f32 are open.")
        for mode in [""] + MODES:
            for more, args in flags(FTZ, SAT):
                text = f"{name}{'.' + mode if mode else ''}{more}.f32"
                op(f, text, F32, ["f32"] * 2, lambda a, b, m=mode or "rn", args=args, meaning=meaning:
                   meaning(F32, a, b, m, **args), always=halfway(F32))
        f.write()
        f = File(f"float/{name}_f64", f"{name}.f64: every rounding; subnormal numbers count.")
        for mode in [""] + MODES:
            op(f, f"{name}{'.' + mode if mode else ''}.f64", F64, ["f64"] * 2,
               lambda a, b, m=mode or "rn", meaning=meaning: meaning(F64, a, b, m), always=halfway(F64))
        f.write()
        f = File(f"float/{name}_half", f"{name} of f16, bf16 and packed forms.")
        for fmt, choice in ((F16, flags(FTZ, SAT)), (BF16, flags())):
            for rounding in ("", ".rn"):
                for more, args in choice:
                    m = lambda a, b, args=args, meaning=meaning, fmt=fmt: meaning(fmt, a, b, "rn", **args)
                    op(f, f"{name}{rounding}{more}.{fmt.name}", fmt, [fmt.name] * 2, m, always=halfway(fmt))
                    pairs(f, f"{name}{rounding}{more}.{fmt.name}x2", fmt, 16, m)
        for mode in [""] + MODES:
            for more, args in flags(FTZ):
                pairs(f, f"{name}{'.' + mode if mode else ''}{more}.f32x2", F32, 16,
                      lambda a, b, m=mode or "rn", args=args, meaning=meaning: meaning(F32, a, b, m, **args))
        if name != "mul":
            for narrow in (F16, BF16):
                for mode in [""] + MODES:
                    for more, args in flags(SAT):
                        op(f, f"{name}{'.' + mode if mode else ''}{more}.f32.{narrow.name}", F32,
                           [narrow.name, "f32"], lambda a, b, m=mode or "rn", args=args, n=narrow, meaning=meaning:
                           meaning(F32, a, b, m, narrow=n, **args), count=14)
        f.write()


def fused():
    def always(fmt):
        one, s = fmt.bias << fmt.frac, fmt.sign
        square = fmt.round(fmt.value(one + 1) ** 2)
        return [(one + 1, one + 1, square | s),  # what a product rounded first would lose
                (one, one, one | s), (one | s, one, one), (0, fmt.inf, one), (fmt.inf, one, fmt.inf | s),
                (0, s, 0), (0, s, s), (s, one, s), (fmt.inf - 1, one + (1 << fmt.frac), fmt.inf - 1 | s),
                (fmt.inf - 1, fmt.inf - 1, fmt.inf | s), (one, one, 1), (one, one, 1 | s),
                (1, one >> 1, 1), (1 << fmt.frac, one - (1 << fmt.frac), 0)]
    for head in ("fma", "mad"):
        f = File(f"float/{head}_f32", f"{head}.f32: one rounding, .ftz, .sat.")
        for mode in MODES:
            for more, args in flags(FTZ, SAT):
                op(f, f"{head}.{mode}{more}.f32", F32, ["f32"] * 3,
                   lambda a, b, c, m=mode, args=args: exact.fma(F32, a, b, c, m, **args), always=always(F32),
                   count=32 if head == "fma" else 16)
            op(f, f"{head}.{mode}.f64", F64, ["f64"] * 3, lambda a, b, c, m=mode: exact.fma(F64, a, b, c, m),
               always=always(F64), count=32 if head == "fma" else 16)
        f.write()
    f = File("float/fma_half", "fma of f16, bf16, packed and mixed forms; .relu clamps negative results and keeps NaN.")
    for fmt, choice in ((F16, flags(FTZ, SAT) + flags(FTZ, RELU)[2:]), (BF16, flags(RELU))):
        for more, args in choice:
            m = lambda a, b, c, args=args, fmt=fmt: exact.fma(fmt, a, b, c, "rn", **args)
            op(f, f"fma.rn{more}.{fmt.name}", fmt, [fmt.name] * 3, m, always=always(fmt))
            pairs(f, f"fma.rn{more}.{fmt.name}x2", fmt, 16, m)
    for mode in MODES[1:]:
        for more, args in flags(RELU):
            op(f, f"fma.{mode}{more}.bf16", BF16, ["bf16"] * 3,
               lambda a, b, c, m=mode, args=args: exact.fma(BF16, a, b, c, m, **args), always=always(BF16))
    # .oob differs for a certain NaN only, which the PTX ISA does not spell out: numbers are as always.
    def with_oob(fmt, text, args, mode="rn"):
        m = lambda a, b, c: exact.fma(fmt, a, b, c, mode, **args)
        op(f, f"{text}.{fmt.name}", fmt, [fmt.name] * 3, m, lists=[numbers(fmt)] * 3, count=12)
        rows = pick(text + fmt.name, [numbers(fmt)] * 6, 12)
        body = "".join(f"mov.b32 %x{i}, {{%{x}, %{y}}};\n" for i, (x, y) in enumerate(("ab", "ce", "fg")))
        f.table(identifier(f"{text}.{fmt.name}x2"), [fmt.name] * 6, [fmt.name] * 2,
                body + f"{text}.{fmt.name}x2 %y, %x0, %x1, %x2;\nmov.b32 {{%d, %q}}, %y;",
                [(r, (m(*r[0::2]), m(*r[1::2]))) for r in rows], regs=".reg .b32 %x<3>, %y;")
    for more, args in flags(RELU) + flags(SAT)[1:]:
        with_oob(F16, f"fma.rn{more}.oob", args)
    for mode in MODES:
        for more, args in flags(RELU):
            with_oob(BF16, f"fma.{mode}{more}.oob", args, mode)
    for mode in MODES:
        for more, args in flags(FTZ):
            pairs(f, f"fma.{mode}{more}.f32x2", F32, 16,
                  lambda a, b, c, m=mode, args=args: exact.fma(F32, a, b, c, m, **args))
        for narrow in (F16, BF16):
            for more, args in flags(SAT):
                op(f, f"fma.{mode}{more}.f32.{narrow.name}", F32, [narrow.name, narrow.name, "f32"],
                   lambda a, b, c, m=mode, args=args, n=narrow: exact.fma(F32, a, b, c, m, narrow=n, **args),
                   count=14)
    f.write()


def division():
    f = File("float/div_f32", "div.f32: correctly rounded, every rounding, .ftz.")
    def always(fmt):
        one, s = fmt.bias << fmt.frac, fmt.sign
        three = one + (1 << fmt.frac) + (1 << fmt.frac - 1)
        return [(one, three), (one | s, three), (0, 0), (one, 0), (one, s), (fmt.inf, fmt.inf), (s, one),
                (one, fmt.inf), (1, three), (fmt.inf - 1, 1), (1, fmt.inf - 1), (one + 1, one - 1),
                ((1 << fmt.frac) + 1, one + 1)]
    for mode in MODES:
        for more, args in flags(FTZ):
            op(f, f"div.{mode}{more}.f32", F32, ["f32"] * 2,
               lambda a, b, m=mode, args=args: exact.div(F32, a, b, m, **args), always=always(F32))
    f.write()
    f = File("float/div_f64", "div.f64: correctly rounded, every rounding.")
    for mode in MODES:
        op(f, f"div.{mode}.f64", F64, ["f64"] * 2, lambda a, b, m=mode: exact.div(F64, a, b, m), always=always(F64))
    f.write()
    f = File("float/rcp_sqrt", "rcp, sqrt: correctly rounded, every rounding, .ftz for f32.")
    for name, meaning in (("rcp", exact.rcp), ("sqrt", exact.sqrt)):
        for mode in MODES:
            for more, args in flags(FTZ):
                op(f, f"{name}.{mode}{more}.f32", F32, ["f32"],
                   lambda a, m=mode, args=args, meaning=meaning: meaning(F32, a, m, **args), count=48)
            op(f, f"{name}.{mode}.f64", F64, ["f64"],
               lambda a, m=mode, meaning=meaning: meaning(F64, a, m), count=48)
    f.write()


def unary():
    f = File("float/abs_neg_copysign_testp", "abs, neg, copysign, testp.")
    def sign(fmt, a, how, ftz=False):
        if fmt.is_nan(a):
            return NAN
        a = fmt.flush(a) if ftz else a
        return a & ~fmt.sign if how == "abs" else a ^ fmt.sign
    for name in ("abs", "neg"):
        for fmt, choice in ((F32, flags(FTZ)), (F64, flags()), (F16, flags(FTZ)), (BF16, flags())):
            for more, args in choice:
                m = lambda a, fmt=fmt, n=name, args=args: sign(fmt, a, n, **args)
                op(f, f"{name}{more}.{fmt.name}", fmt, [fmt.name], m, count=48)
                if fmt in (F16, BF16):
                    pairs(f, f"{name}{more}.{fmt.name}x2", fmt, 16, m)
    for fmt in (F32, F64):
        # The sign of the first operand on the magnitude of the second.
        op(f, f"copysign.{fmt.name}", fmt, [fmt.name] * 2,
           lambda a, b, fmt=fmt: NAN if fmt.is_nan(b) else b & ~fmt.sign | a & fmt.sign)
        tests = {
            "finite": lambda x, fmt: fmt.value(x) not in (NAN, exact.INF, -exact.INF),
            "infinite": lambda x, fmt: fmt.value(x) in (exact.INF, -exact.INF),
            "number": lambda x, fmt: not fmt.is_nan(x),
            "notanumber": lambda x, fmt: fmt.is_nan(x),
            # Zeros count as normal numbers.
            "normal": lambda x, fmt: fmt.value(x) not in (NAN, exact.INF, -exact.INF)
            and not fmt.is_subnormal(x),
            "subnormal": lambda x, fmt: fmt.is_subnormal(x),
        }
        for name, test in tests.items():
            op(f, f"testp.{name}.{fmt.name}", fmt, [fmt.name], lambda a, t=test, fmt=fmt: int(t(a, fmt)),
               out="pred", count=48)
    f.write()


NANF, ABS = (".NaN", {"nan": True}), (".abs", {"take_abs": True})


def extrema():
    for name, greater in (("min", False), ("max", True)):
        f = File(f"float/{name}", f"{name}: a NaN gives way to a number unless .NaN asks for it; -0 is less than +0.")
        for fmt, ftz in ((F32, True), (F64, False), (F16, True), (BF16, False)):
            one, s = fmt.bias << fmt.frac, fmt.sign
            always = [(0, s), (s, 0), (fmt.inf | 1, one), (one, fmt.inf | 1), (fmt.inf | 1, fmt.inf | 1),
                      (1, 2), (1 | s, 0), (fmt.inf, fmt.inf | s), (one, one | s)]
            for more, args in flags(*([FTZ] if ftz else []), *([NANF] if fmt is not F64 else [])):
                kinds = [("", {})]
                if fmt is not F64:
                    kinds.append((".xorsign.abs", {"take_abs": True, "xorsign": True}))
                for kind, extra in kinds:
                    m = lambda a, b, fmt=fmt, args={**args, **extra}: exact.minmax(fmt, [a, b], greater, **args)
                    op(f, f"{name}{more}{kind}.{fmt.name}", fmt, [fmt.name] * 2, m, always=always)
                    if fmt in (F16, BF16):
                        pairs(f, f"{name}{more}{kind}.{fmt.name}x2", fmt, 16, m)
                if fmt is F32:
                    for kind, extra in flags(ABS):
                        op(f, f"{name}{more}{kind}.f32", F32, ["f32"] * 3,
                           lambda a, b, c, args={**args, **extra}: exact.minmax(F32, [a, b, c], greater, **args))
        f.write()


def generate():
    arithmetic()
    fused()
    division()
    unary()
    extrema()
