"""Comparison and selection: PTX ISA 9.7.6 and 9.7.7."""

from emit import File, INTEGERS, floats, identifier, pick
from exact import BF16, F16, F32, F64, FORMATS, NAN, signed

ORDER = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
BOOL = {"and": lambda x, c: x & c, "or": lambda x, c: x | c, "xor": lambda x, c: x ^ c}
INTEGER_TYPES = ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"]


def comparisons(t):
    if t[0] == "b" and t != "bf16":
        return ["eq", "ne"]
    if t[0] == "s":
        return list(ORDER)
    if t[0] == "u":
        return list(ORDER) + list(UNSIGNED)
    return list(ORDER) + ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]


def compare(cmp, t, a, b, ftz=False):
    if t in FORMATS:
        fmt = FORMATS[t]
        if ftz:
            a, b = fmt.flush(a), fmt.flush(b)
        x, y = fmt.value(a), fmt.value(b)
        nan = NAN in (x, y)
        if cmp in ("num", "nan"):
            return int(nan == (cmp == "nan"))
        if nan:
            return int(cmp.endswith("u"))
        return int(ORDER[cmp[:2]](x, y))
    if t[0] == "s":
        bits = int(t[1:])
        a, b = signed(a, bits), signed(b, bits)
    return int(ORDER[UNSIGNED.get(cmp, cmp)](a, b))


def edges(t):
    return floats(FORMATS[t]) if t in FORMATS else INTEGERS[int(t[1:])]


def rows_of(name, t, count, extra=()):
    e = edges(t)
    always = [(e[1], e[1]), (e[1], e[2]), (e[2], e[1]), (e[-1], e[1]), (e[-1], e[-1])]
    if t in FORMATS:
        s = FORMATS[t].sign
        always += [(0, s), (1, 0), (1 | s, 2), (FORMATS[t].inf, FORMATS[t].inf | s), (e[1], e[1] | s)]
    else:
        top = 1 << int(t[1:]) - 1
        always += [(top, 1), (1, top), (2 * top - 1, 0), (0, 2 * top - 1)]
    rows = pick(name, [e, e], count, always)
    return [r + x for r in rows for x in extra] if extra else rows


def setp(f, t, ftz, booleans):
    more = ".ftz" if ftz else ""
    for cmp in comparisons(t):
        rows = rows_of(f"setp{t}{cmp}{more}", t, 14)
        if t in ("f16", "bf16"):
            f.table(identifier(f"setp.{cmp}{more}.{t}"), [t, t], ["pred"], f"setp.{cmp}{more}.{t} %d, %a, %b;",
                    [(r, (compare(cmp, t, *r, ftz),)) for r in rows])
        else:
            f.table(identifier(f"setp.{cmp}{more}.{t}"), [t, t], ["pred", "pred"],
                    f"setp.{cmp}{more}.{t} %d|%q, %a, %b;",
                    [(r, (compare(cmp, t, *r, ftz), 1 - compare(cmp, t, *r, ftz))) for r in rows])
    for cmp, name in booleans:
        m = BOOL[name]
        rows = rows_of(f"setp{t}{cmp}{name}{more}", t, 8, [(0,), (1,)])
        if t in ("f16", "bf16"):
            f.table(identifier(f"setp.{cmp}.{name}{more}.{t}"), [t, t, "pred"], ["pred"],
                    f"setp.{cmp}.{name}{more}.{t} %d, %a, %b, !%c;",
                    [(r, (m(compare(cmp, t, r[0], r[1], ftz), 1 - r[2]),)) for r in rows])
            continue
        f.table(identifier(f"setp.{cmp}.{name}{more}.{t}"), [t, t, "pred"], ["pred", "pred"],
                f"setp.{cmp}.{name}{more}.{t} %d|%q, %a, %b, %c;",
                [(r, (m(compare(cmp, t, r[0], r[1], ftz), r[2]),
                      m(1 - compare(cmp, t, r[0], r[1], ftz), r[2]))) for r in rows])


def three(t):
    all_of = comparisons(t)
    return [(all_of[i % len(all_of)], name) for i, name in enumerate(BOOL)]


def setp_packed(f, t, ftz):
    more = ".ftz" if ftz else ""
    body = "mov.b32 %x, {%a, %b};\nmov.b32 %y, {%c, %e};\n"
    for cmp in comparisons(t):
        rows = pick(f"setp{t}x2{cmp}{more}", [edges(t)] * 4, 10)
        f.table(identifier(f"setp.{cmp}{more}.{t}x2"), [t] * 4, ["pred", "pred"],
                body + f"setp.{cmp}{more}.{t}x2 %d|%q, %x, %y;",
                [(r, (compare(cmp, t, r[0], r[2], ftz), compare(cmp, t, r[1], r[3], ftz))) for r in rows],
                regs=".reg .b32 %x, %y;")
    for cmp, name in three(t):
        m = BOOL[name]
        rows = pick(f"setp{t}x2{cmp}{name}{more}", [edges(t)] * 4 + [[0, 1]], 10)
        f.table(identifier(f"setp.{cmp}.{name}{more}.{t}x2"), [t] * 4 + ["pred"], ["pred", "pred"],
                body + f"setp.{cmp}.{name}{more}.{t}x2 %d|%q, %x, %y, %f;",
                [(r, (m(compare(cmp, t, r[0], r[2], ftz), r[4]), m(compare(cmp, t, r[1], r[3], ftz), r[4])))
                 for r in rows], regs=".reg .b32 %x, %y;")


def truth(t, yes):
    """The value that `set` writes."""
    if t in FORMATS:
        return FORMATS[t].bias << FORMATS[t].frac if yes else 0
    return (1 << int(t[1:])) - 1 if yes else 0


def set_one(f, d, t, cmp, name, ftz, count=10):
    more = ".ftz" if ftz else ""
    if name is None:
        rows = rows_of(f"set{d}{t}{cmp}{more}", t, count)
        f.table(identifier(f"set.{cmp}{more}.{d}.{t}"), [t, t], [d], f"set.{cmp}{more}.{d}.{t} %d, %a, %b;",
                [(r, (truth(d, compare(cmp, t, *r, ftz)),)) for r in rows])
    else:
        rows = rows_of(f"set{d}{t}{cmp}{name}{more}", t, count, [(0,), (1,)])
        f.table(identifier(f"set.{cmp}.{name}{more}.{d}.{t}"), [t, t, "pred"], [d],
                f"set.{cmp}.{name}{more}.{d}.{t} %d, %a, %b, %c;",
                [(r, (truth(d, BOOL[name](compare(cmp, t, r[0], r[1], ftz), r[2])),)) for r in rows])


def set_all(f, results, sources):
    for d in results:
        for t in sources:
            choice = [False, True] if t in ("f32", "f16") and d != "bf16" else [False]
            for ftz in choice:
                # Every comparison with the first result type, some with the others.
                all_of = comparisons(t)
                first = d == results[0] and not ftz
                some = all_of if first else [all_of[(len(d) + len(t)) % len(all_of)], all_of[-1]]
                for cmp in some:
                    set_one(f, d, t, cmp, None, ftz)
                for cmp, name in three(t) if first else three(t)[:1]:
                    set_one(f, d, t, cmp, name, ftz, 6)


def set_packed(f, d, t, ftz):
    more = ".ftz" if ftz else ""
    for cmp, name in [(c, None) for c in comparisons(t)] + three(t):
        rows = pick(f"set{d}{t}x2{cmp}{name}{more}", [edges(t)] * 4 + ([[0, 1]] if name else []), 8)
        out = []
        for r in rows:
            lanes = [compare(cmp, t, r[0], r[2], ftz), compare(cmp, t, r[1], r[3], ftz)]
            if name:
                lanes = [BOOL[name](x, r[4]) for x in lanes]
            one = truth(t, True) if d == t + "x2" else 0xffff
            out.append((r, (sum(one << 16 * i for i, x in enumerate(lanes) if x),)))
        text = f"set.{cmp}{'.' + name if name else ''}{more}.{d}.{t}x2"
        f.table(identifier(text), [t] * 4 + (["pred"] if name else []), ["b32"],
                "mov.b32 %x, {%a, %b};\nmov.b32 %y, {%c, %e};\n"
                + f"{text} %d, %x, %y{', %f' if name else ''};", out, regs=".reg .b32 %x, %y;")


def selection():
    f = File("compare/selp_slct", "selp by a predicate; slct by the sign of a number: -0 counts as positive, NaN as negative.")
    types = INTEGER_TYPES + ["f32", "f64"]
    for t in types:
        e = [b for b in edges(t) if t not in FORMATS or not FORMATS[t].is_nan(b)]
        rows = pick(f"selp{t}", [e, e, [0, 1]], 10)
        f.table(f"selp_{t}", [t, t, "pred"], [t], f"selp.{t} %d, %a, %b, %c;",
                [(r, (r[0] if r[2] else r[1],)) for r in rows])
        rows = pick(f"slct{t}", [e, e, INTEGERS[32]], 12, [(e[1], e[2], 0), (e[1], e[2], 0xffffffff)])
        f.table(f"slct_{t}_s32", [t, t, "s32"], [t], f"slct.{t}.s32 %d, %a, %b, %c;",
                [(r, (r[0] if r[2] < 1 << 31 else r[1],)) for r in rows])
        for ftz in (False, True):
            def choose(a, b, c, ftz=ftz):
                c = F32.flush(c) if ftz else c
                v = F32.value(c)
                return b if v == NAN or v < 0 else a
            rows = pick(f"slctf{t}{ftz}", [e, e, floats(F32)], 16,
                        [(e[1], e[2], c) for c in (0, 0x80000000, 0x80000001, 0x7fc00000, 0xffc00000, 1)])
            more = ".ftz" if ftz else ""
            f.table(f"slct{'_ftz' if ftz else ''}_{t}_f32", [t, t, "f32"], [t], f"slct{more}.{t}.f32 %d, %a, %b, %c;",
                    [(r, (choose(*r),)) for r in rows])
    f.write()


def generate():
    f = File("compare/setp_integer", "setp of whole numbers: each comparison, both results, combined with a predicate.")
    for t in INTEGER_TYPES:
        setp(f, t, False, three(t))
    f.write()
    for t, ftz in (("f32", True), ("f64", False)):
        f = File(f"compare/setp_{t}", f"setp.{t}: comparisons of NaN, zeros, subnormal numbers.")
        setp(f, t, False, [(c, n) for c, n in three(t)] + [("nan", "xor"), ("ltu", "or")])
        if ftz:
            setp(f, t, True, three(t))
        f.write()
    f = File("compare/setp_half", "setp of f16 and bf16 and of two at once.")
    for t in ("f16", "bf16"):
        for ftz in [False, True] if t == "f16" else [False]:
            setp(f, t, ftz, three(t))
            setp_packed(f, t, ftz)
    f.write()
    f = File("compare/set_integer", "set of whole numbers into u32, s32, f32, f16, bf16: all ones or 1.0.")
    set_all(f, ["u32", "s32", "f32", "f16", "bf16"], INTEGER_TYPES)
    f.write()
    f = File("compare/set_float", "set of floating-point numbers.")
    set_all(f, ["u32", "s32", "f32", "f16", "bf16"], ["f32", "f64"])
    f.write()
    f = File("compare/set_half", "set of f16 and bf16.")
    set_all(f, ["u16", "s16", "u32", "s32", "f16", "bf16"], ["f16", "bf16"])
    for d in ("f16x2", "u32", "s32"):
        set_packed(f, d, "f16", False)
    set_packed(f, "f16x2", "f16", True)
    for d in ("bf16x2", "u32", "s32"):
        set_packed(f, d, "bf16", False)
    f.write()
    selection()
