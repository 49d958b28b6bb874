"""Moves: PTX ISA 9.7.9.1 to 9.7.9.5."""

from emit import File, INTEGERS, floats, identifier, pick, rng
from exact import F32, F64, FORMATS

TYPES = ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "pred", "b128"]


def edges(t):
    if t == "pred":
        return [0, 1]
    if t in FORMATS:
        return [v for v in floats(FORMATS[t])][:12]
    if t == "b128":
        return [0, 1, 1 << 127, (1 << 128) - 1, 0x0123456789abcdef0011223344556677]
    return INTEGERS[int(t[1:])]


def generate():
    f = File("data/mov", "mov: of every type bit for bit; vectors packed lowest element first and taken apart.")
    for t in TYPES:
        # Moves keep the bits of a NaN.
        rows = [((v,), (v,)) for v in edges(t)]
        f.table(f"mov_{t}", [t], [t], f"mov.{t} %d, %a;", rows)
    for whole, parts, lane in (("b32", 2, 16), ("b64", 2, 32), ("b64", 4, 16), ("b128", 2, 64), ("b128", 4, 32)):
        each = f"b{lane}"
        rows = []
        for row in pick(f"pack{whole}{parts}", [INTEGERS[lane]] * parts, 8):
            rows.append((row, (sum(v << lane * i for i, v in enumerate(row)),)))
        names = ["a", "b", "c", "e"][:parts]
        f.table(f"mov_{whole}_from_{parts}", [each] * parts, [whole],
                f"mov.{whole} %d, {{{', '.join('%' + n for n in names)}}};", rows)
        names = ["d", "q", "r", "s"][:parts]
        f.table(f"mov_{whole}_to_{parts}", [whole], [each] * parts,
                f"mov.{whole} {{{', '.join('%' + n for n in names)}}}, %a;", [((o[0],), i) for i, o in rows])
        sinks = ["_"] * (parts - 1) + ["%d"]
        f.table(f"mov_{whole}_last_of_{parts}", [whole], [each], f"mov.{whole} {{{', '.join(sinks)}}}, %a;",
                [((o[0],), (i[-1],)) for i, o in rows])
    rows = [(row, (sum(v << 8 * i for i, v in enumerate(row)),)) for row in pick("b16from2", [INTEGERS[8]] * 2, 6)]
    take = "cvt.u8.u16 {0}, {1};"
    f.table("mov_b16_from_2", ["b8", "b8"], ["b16"], "cvt.u8.u16 %x, %a; cvt.u8.u16 %y, %b;\nmov.b16 %d, {%x, %y};",
            rows, regs=".reg .b8 %x, %y;")
    f.table("mov_b16_to_2", ["b16"], ["b8", "b8"], "mov.b16 {%x, %y}, %a;\ncvt.u16.u8 %d, %x; cvt.u16.u8 %q, %y;",
            [((o[0],), i) for i, o in rows], regs=".reg .b8 %x, %y;")
    rows = [(row, (sum(v << 8 * i for i, v in enumerate(row)),)) for row in pick("b32from4", [INTEGERS[8]] * 4, 6)]
    f.table("mov_b32_from_4", ["b8"] * 4, ["b32"],
            "cvt.u8.u16 %x0, %a; cvt.u8.u16 %x1, %b; cvt.u8.u16 %x2, %c; cvt.u8.u16 %x3, %e;\n"
            "mov.b32 %d, {%x0, %x1, %x2, %x3};", rows, regs=".reg .b8 %x<4>;")
    f.table("mov_b32_to_4", ["b32"], ["b8"] * 4,
            "mov.b32 {%x0, %x1, %x2, %x3}, %a;\ncvt.u16.u8 %d, %x0; cvt.u16.u8 %q, %x1; cvt.u16.u8 %r, %x2; "
            "cvt.u16.u8 %s, %x3;", [((o[0],), i) for i, o in rows], regs=".reg .b8 %x<4>;")
    # Vectors between vectors and from special registers.
    rows = [((t, t + 7, 9, 0x80000000), (t, t + 7, 9, 0x80000000)) for t in range(5)]
    f.table("mov_v4_b32", ["b32"] * 4, ["b32"] * 4, "mov.v4.b32 {%d, %q, %r, %s}, {%a, %b, %c, %e};", rows)
    f.table("mov_v2_b32", ["b32"] * 2, ["b32"] * 2, "mov.v2.b32 {%d, %q}, {%a, %b};", [(i[:2], o[:2]) for i, o in rows])
    f.table("mov_v4_u32_tid", [], ["u32"] * 4, "mov.v4.u32 {%d, %q, %r, %s}, %tid;", [((), (t, 0, 0, 0)) for t in range(5)])
    f.table("mov_v4_u32_ntid", [], ["u32"] * 4, "mov.v4.u32 {%d, %q, %r, %s}, %ntid;", [((), (5, 1, 1, 0)) for t in range(5)])
    for t in ("b16", "u16", "s16"):
        values = [(INTEGERS[16][i], INTEGERS[16][i + 1]) for i in range(5)]
        f.table(f"mov_v2_{t}", [t] * 2, [t] * 2, f"mov.v2.{t} {{%d, %q}}, {{%a, %b}};", [(v, v) for v in values])
    for t in ("u32", "s32"):
        values = [(INTEGERS[32][i], INTEGERS[32][i + 1]) for i in range(5)]
        f.table(f"mov_v2_{t}", [t] * 2, [t] * 2, f"mov.v2.{t} {{%d, %q}}, {{%a, %b}};", [(v, v) for v in values])
    f.write()
