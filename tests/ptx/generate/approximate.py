"""Approximate functions: true values to 40 digits, and the bounds of PTX ISA 9.7.3 and 9.7.4."""

from decimal import Decimal, getcontext
from fractions import Fraction

from emit import File, floats, identifier, rng
from exact import BF16, F16, F32, F64, INF, NAN

getcontext().prec = 60
# 60 digits, by Machin's formula.
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def dec(v):
    return Decimal(v.numerator) / Decimal(v.denominator)


def sine(x):
    x = x % (2 * PI)
    term, total, n = x, x, 1
    while abs(term) > Decimal(10) ** -50:
        term = -term * x * x / ((n + 1) * (n + 2))
        total += term
        n += 2
    return total


def cosine(x):
    return sine(x + PI / 2)


def hyperbolic(x):
    """The tangent; tiny and large arguments need no exponential."""
    if abs(x) < Decimal("1e-20"):
        return x
    if abs(x) > 100:
        return Decimal(1).copy_sign(x)
    return 1 - 2 / ((2 * x).exp() + 1)


LN2 = Decimal(2).ln()
FUNCTIONS = {
    "rcp": lambda x: 1 / x, "sqrt": lambda x: x.sqrt(), "rsqrt": lambda x: 1 / x.sqrt(), "sin": sine, "cos": cosine,
    "lg2": lambda x: x.ln() / LN2, "ex2": lambda x: (x * LN2).exp(),
    "tanh": hyperbolic,
}


def literal(v):
    """A decimal number that is nearer than any tolerance here."""
    return "0" if v == 0 else f"{v:.20e}"


def random_bits(fmt, low, high, name, count):
    r = rng(name)
    return [fmt.round(Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(r.random())) for _ in range(count)]


def spread(fmt, name, count, lowest=None, highest=None):
    """Positive normal numbers of all sizes."""
    r = rng(name)
    top = (1 << fmt.exp) - 2
    low = 1 if lowest is None else lowest + fmt.bias
    high = top if highest is None else highest + fmt.bias
    return [r.randint(low, high) << fmt.frac | r.getrandbits(fmt.frac) for _ in range(count)]


def table(f, text, fmt, specials, values, tolerance, function, keep=None):
    """Special cases exactly, then values within the bound."""
    if specials:
        f.table(identifier(text + "_special"), [fmt.name], [fmt.name], f"{text} %d, %a;",
                [((a,), (d,)) for a, d in specials])
    rows = []
    for a in values:
        v = dec(fmt.value(a))
        true = function(v)
        if keep is None or keep(true):
            rows.append(((a,), (literal(true),)))
    f.table(identifier(text), [fmt.name], [fmt.name], f"{text} %d, %a;", rows, tolerance=tolerance)


def normal(fmt):
    least, largest = dec(fmt.min_normal), dec(fmt.largest)
    return lambda v: least <= abs(v) <= largest


def generate():
    f = File("float/approximate", "Approximate functions of f32: special cases exactly, the rest within the bounds of the\n"
             "PTX ISA (9.7.3), against true values.")
    s, inf, one = F32.sign, F32.inf, 0x3f800000
    nan = inf | 1 << 22
    signs = lambda values: [v ^ (s if i % 2 else 0) for i, v in enumerate(values)]
    for ftz in ("", ".ftz"):
        flush = bool(ftz)
        table(f, f"rcp.approx{ftz}.f32", F32,
              [(inf | s, s), (s, inf | s), (0, inf), (inf, 0), (nan, NAN), (one, one), (0x40000000, 0x3f000000)]
              + ([(1, inf), (s | 0x7fffff, inf | s)] if flush else []),
              signs(spread(F32, "rcp" + ftz, 40)), "ulps 1", FUNCTIONS["rcp"], normal(F32))
        table(f, f"sqrt.approx{ftz}.f32", F32,
              [(inf | s, NAN), (s, s), (0, 0), (inf, inf), (nan, NAN), (one | s, NAN), (one, one), (0x40800000, 0x40000000)]
              + ([(1, 0), (s | 1, s)] if flush else []),
              spread(F32, "sqrt" + ftz, 40), "relative 2^-23", FUNCTIONS["sqrt"])
        table(f, f"rsqrt.approx{ftz}.f32", F32,
              [(inf | s, NAN), (s, inf | s), (0, inf), (inf, 0), (nan, NAN), (one | s, NAN), (one, one), (0x40800000, 0x3f000000)]
              + ([(1, inf), (s | 1, inf | s)] if flush else []),
              spread(F32, "rsqrt" + ftz, 40), "relative 2^-22.9", FUNCTIONS["rsqrt"])
        for name in ("sin", "cos"):
            zero = [(0, 0), (s, s)] if name == "sin" else [(0, one), (s, one)]
            table(f, f"{name}.approx{ftz}.f32", F32, zero + [(inf, NAN), (inf | s, NAN), (nan, NAN)]
                  + ([(1, 0), (s | 1, s)] if flush and name == "sin" else []),
                  random_bits(F32, -2 * PI, 2 * PI, name + ftz, 40) + spread(F32, name, 6, -40, -2),
                  "absolute 2^-20.5", FUNCTIONS[name])
            table(f, f"{name}.approx{ftz}.f32", F32, [], random_bits(F32, -100 * PI, 100 * PI, name + ftz + "far", 40),
                  "absolute 2^-14.7", FUNCTIONS[name])
        table(f, f"lg2.approx{ftz}.f32", F32,
              [(inf | s, NAN), (one | s, NAN), (s, inf | s), (0, inf | s), (inf, inf), (nan, NAN), (one, 0)]
              + ([(1, inf | s), (s | 1, inf | s)] if flush else []),
              spread(F32, "lg2" + ftz, 40, None, -2) + spread(F32, "lg2b" + ftz, 20, 1), "relative 2^-22", FUNCTIONS["lg2"])
        table(f, f"lg2.approx{ftz}.f32", F32, [], random_bits(F32, Fraction(1, 2), 2, "lg2" + ftz, 40),
              "absolute 2^-22", FUNCTIONS["lg2"])
        table(f, f"ex2.approx{ftz}.f32", F32,
              [(inf | s, 0), (s, one), (0, one), (inf, inf), (nan, NAN), (one, 0x40000000), (one | s, 0x3f000000),
               (0x43000000, inf), (0xc3200000, 0)] + ([(1, one)] if flush else []),
              random_bits(F32, -126, 128, "ex2" + ftz, 40) + random_bits(F32, -1, 1, "ex2n" + ftz, 20), "ulps 2",
              FUNCTIONS["ex2"])
        for kind in ("approx", "full"):
            special = [(0, one, 0), (one, inf, 0), (one | s, inf, s), (inf, one, inf), (nan, one, NAN), (one, nan, NAN),
                       (0, 0, NAN), (inf, inf, NAN), (one, 0, inf), (one, s, inf | s)]
            if kind == "approx":
                # Divisors over 2^126 in size.
                special += [(one, 0x7f000000, 0), (one | s, 0x7f000000, s), (inf, 0x7f000000, NAN), (0, 0x7f400000, 0)]
            text = f"div.{kind}{ftz}.f32"
            f.table(identifier(text + "_special"), ["f32", "f32"], ["f32"], f"{text} %d, %a, %b;",
                    [((a, b), (d,)) for a, b, d in special])
            rows = []
            high = 125 if kind == "approx" else 127
            for a, b in zip(signs(spread(F32, text, 60, -120, 120)), spread(F32, text + "b", 60, -100, high)):
                v = dec(F32.value(a) / F32.value(b))
                if normal(F32)(v):
                    rows.append(((a, b), (literal(v),)))
            f.table(identifier(text), ["f32", "f32"], ["f32"], f"{text} %d, %a, %b;", rows, tolerance="ulps 2")
    table(f, "tanh.approx.f32", F32, [(inf, one), (inf | s, one | s), (0, 0), (s, s), (nan, NAN), (1, 1), (s | 1, s | 1)],
          random_bits(F32, -4, 4, "tanh", 40) + spread(F32, "tanhs", 10, -30, -2) + spread(F32, "tanhl", 4, 3, 60),
          "relative 2^-11", FUNCTIONS["tanh"])
    f.write()

    f = File("float/approximate_f64", "rcp, rsqrt.approx of f64: the .ftz forms see and give the upper word only.")
    s, inf, one = F64.sign, F64.inf, 0x3ff << 52
    nan64 = 0x7fffffff00000000
    table(f, "rcp.approx.ftz.f64", F64,
          [(inf | s, s), (s, inf | s), (0, inf), (inf, 0), (inf | 1 << 51, nan64), (one, one), (1, inf), (s | 1, inf | s),
           (0x7fe0000000000000, 0)],
          [v & ~0xffffffff for v in spread(F64, "rcp64", 40, -1000, 1000)], "relative 2^-20", FUNCTIONS["rcp"])
    table(f, "rsqrt.approx.ftz.f64", F64,
          [(inf | s, nan64), (s, inf | s), (0, inf), (inf, 0), (inf | 1 << 51, nan64), (one, one), (s | 1 << 32, inf | s),
           (one | s, nan64)],
          [v & ~0xffffffff for v in spread(F64, "rsqrt64f", 40, -1000, 1000)], "relative 2^-20", FUNCTIONS["rsqrt"])
    table(f, "rsqrt.approx.f64", F64, [(inf | s, NAN), (s, inf | s), (0, inf), (inf, 0), (inf | 1, NAN), (one, one)],
          spread(F64, "rsqrt64", 40), "relative 2^-50", FUNCTIONS["rsqrt"])
    f.write()

    f = File("float/approximate_half", "ex2, tanh.approx of f16 and bf16, one and two at once.")
    for fmt, head, bound in ((F16, "ex2.approx.f16", "relative 2^-9.9"), (BF16, "ex2.approx.ftz.bf16", "relative 2^-7"),
                             (F16, "tanh.approx.f16", "absolute 2^-10.987"), (BF16, "tanh.approx.bf16", "absolute 2^-8")):
        s, inf, one = fmt.sign, fmt.inf, fmt.bias << fmt.frac
        name = head[:3] if head[0] == "e" else "tanh"
        nan = inf | 1 << fmt.frac - 1
        if name == "ex2":
            special = [(inf | s, 0), (s, one), (0, one), (inf, inf), (nan, NAN), (one, one + (1 << fmt.frac))]
            reach = 14 if fmt is F16 else 120
        else:
            special = [(inf | s, one | s), (s, s), (0, 0), (inf, one), (nan, NAN)]
            reach = 6
        values = random_bits(fmt, -reach, reach, head, 40)
        table(f, head, fmt, special, values, bound, FUNCTIONS[name])
        pairs = list(zip(values, reversed(values)))
        f.table(identifier(head + "x2"), [fmt.name] * 2, [fmt.name] * 2,
                f"mov.b32 %x, {{%a, %b}};\n{head}x2 %y, %x;\nmov.b32 {{%d, %q}}, %y;",
                [((a, b), tuple(literal(FUNCTIONS[name](dec(fmt.value(v)))) for v in (a, b))) for a, b in pairs],
                regs=".reg .b32 %x, %y;", tolerance=bound)
    f.write()
