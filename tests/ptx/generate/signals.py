"""Asynchronous stores, reductions and bulk copies, and the mbarriers that they signal: PTX ISA 9.7.9.27, 9.7.13.15."""

import exact
from emit import File, INTEGERS, access, floats, pick
from exact import BF16, F16, F32, F64, FORMATS
from memory import MEM32, MEM64, integer_update, numbers_of, size

REGS = ".reg .b32 %m; .reg .b32 %n; .reg .b32 %o; .reg .b64 %g; .reg .b64 %s; .reg .pred %ok;"
ROOM = ".shared .align 16 .b8 to[256]; .shared .align 16 .b8 from[256]; .shared .align 8 .b8 bars[128];"
PLACES = ("mov.u32 %m, to; mad.lo.u32 %m, %t, 16, %m; mov.u32 %o, from; mad.lo.u32 %o, %t, 16, %o;\n"
          "mov.u32 %n, bars; mad.lo.u32 %n, %t, 8, %n;")
SIGNALS = "shared::cluster.mbarrier::complete_tx::bytes"
INTEGER_OPS = (("add", ["u32", "s32", "u64"]), ("inc", ["u32"]), ("dec", ["u32"]), ("min", ["u32", "s32"]),
               ("max", ["u32", "s32"]), ("and", ["b32"]), ("or", ["b32"]), ("xor", ["b32"]))


def expecting(count):
    return f"mbarrier.init.shared.b64 [%n], 1; mbarrier.arrive.expect_tx.shared.b64 %s, [%n], {count};"


# Whether the phase is complete, behind the operation that completes it.
DONE = "mbarrier.test_wait.shared.b64 %q, [%n], %s;"


def integer_rows(name, op, t):
    edges = INTEGERS[8 * size(t)]
    return [(a, b, integer_update(op, t, a, b)) for a, b in pick(name, [edges, edges], 6)]


def stores(f):
    for t in MEM32 + MEM64:
        for count in [1, 2, 4] if size(t) == 4 else [1, 2]:
            fmt = FORMATS.get(t)
            edges = numbers_of(fmt) if fmt else INTEGERS[8 * size(t)]
            vector = f".v{count}" if count > 1 else ""
            data = "%a" if count == 1 else "{" + ", ".join(["%a"] * count) + "}"
            last = (count - 1) * size(t)
            weak = ".weak" if count == 2 else ""
            f.table(f"st.async{vector}.{t}", [t], [t, "pred"],
                    f"{PLACES} {expecting(size(t) * count)}\n"
                    f"st.async{weak}.{SIGNALS}{vector}.{t} [%m], {data}, [%n];\n"
                    f"ld.shared.{access(t)} %d, [%m+{last}]; {DONE}",
                    [((a,), (a, 1)) for (a,) in pick(f"st.async{count}{t}", [edges], 4)], regs=REGS, decls=ROOM)
    f.table("st.async.b128", ["b128"], ["b128", "pred"],
            f"{PLACES} {expecting(16)}\nst.async.{SIGNALS}.b128 [%m], %a, [%n];\nld.shared.b128 %d, [%m]; {DONE}",
            [((a,), (a, 1)) for a in (1 << 127, 0x0123456789abcdef0011223344556677)], regs=REGS, decls=ROOM)


def reductions(f):
    for op, types in INTEGER_OPS:
        for t in types + (["s64"] if op == "add" else []):
            f.table(f"red.async.{op}.{t}", [t, t], [t, "pred"],
                    f"{PLACES} {expecting(size(t))}\nst.shared.{access(t)} [%m], %a;\n"
                    f"red.async.relaxed.cluster.{SIGNALS}.{op}.{t} [%m], %b, [%n];\n"
                    f"ld.shared.{access(t)} %d, [%m]; {DONE}",
                    [(r[:2], (r[2], 1)) for r in integer_rows(f"red.async.shared{op}{t}", op, t)], regs=REGS, decls=ROOM)


def fill(place, register, t, space="shared"):
    return " ".join(f"st.{space}.{access(t)} [{place}+{i}], {register};" for i in range(0, 16, size(t)))


def to_shared(f):
    for op, types in INTEGER_OPS:
        for t in types:
            f.table(f"cp.reduce.async.bulk.shared.{op}.{t}", [t, t], [t, "pred"],
                    f"{PLACES} {expecting(16)}\n{fill('%m', '%a', t)}\n{fill('%o', '%b', t)}\n"
                    f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{t} "
                    f"[%m], [%o], 16, [%n];\nld.shared.{access(t)} %d, [%m+{16 - size(t)}]; {DONE}",
                    [(r[:2], (r[2], 1)) for r in integer_rows(f"bulk.shared{op}{t}", op, t)], regs=REGS, decls=ROOM)


def to_global(f):
    def one(words, t, rows):
        f.table(f"cp.reduce.async.bulk.global.{words}.{t}", [t, t], [t],
                f"{PLACES} mov.u64 %g, room; mad.wide.u32 %g, %t, 16, %g;\n"
                f"{fill('%g', '%a', t, 'global')}\n{fill('%o', '%b', t)}\n"
                f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{words}.{t} [%g], [%o], 16;\n"
                f"cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
                f"ld.global.{access(t)} %d, [%g+{16 - size(t)}];",
                [(r[:2], (r[2],)) for r in rows if r[2] is not None], regs=REGS, decls=ROOM)
    wider = {"min": ["u64", "s64"], "max": ["u64", "s64"], "and": ["b64"], "or": ["b64"], "xor": ["b64"]}
    for op, types in INTEGER_OPS:
        for t in types + wider.get(op, []):
            one(op, t, integer_rows(f"bulk.global{op}{t}", op, t))
    for fmt in (F16, BF16, F32, F64):
        # Where subnormal numbers do not count is atom's affair.
        edges = numbers_of(fmt) if fmt in (F16, BF16, F64) else [b for b in floats(fmt) if not fmt.is_nan(b) and not fmt.is_subnormal(b)]
        rows = [(a, b, exact.add(fmt, a, b)) for a, b in pick(f"bulk.add{fmt.name}", [edges, edges], 16)]
        rows = [r for r in rows if r[2] != exact.NAN and not (fmt == F32 and fmt.is_subnormal(r[2]))]
        one("add.noftz" if fmt in (F16, BF16) else "add", fmt.name, rows)
        if fmt == F32:
            one("add.noftz", fmt.name, [(a, b, exact.add(F32, a, b)) for a, b in [(1, 1), (1, 0x80000001), (0x00400000, 0x00400000)]])
        if fmt in (F16, BF16):
            for op in ("min", "max"):
                rows = [(a, b, exact.minmax(fmt, [a, b], op == "max")) for a, b in pick(f"bulk.{op}{fmt.name}", [edges, edges], 6)]
                one(op, fmt.name, rows)


def addresses(f):
    for t in ("u32", "u64"):
        # Generic addresses count from where shared memory begins, of which `u32` has the low half.
        low = "mov.u64 %s, %w" if t == "u64" else "cvt.u32.u64 %s, %w"
        f.table(f"mapa.{t}", [t], [t, "u32"],
                f"mov.u64 %w, memory; cvta.shared.u64 %w, %w; {low}; add.{t} %a, %a, %s; mapa.{t} %d, %a, 0; "
                f"getctarank.{t} %q, %a; sub.{t} %d, %d, %s;",
                [((a,), (a, 0)) for a in INTEGERS[8 * size(t)][:4]],
                regs=f".reg .u64 %w; .reg .{t} %s;", decls=".shared .align 8 .b8 memory[16];")
        f.table(f"mapa.shared.{t}", [t], [t, "u32"],
                f"mapa.shared::cluster.{t} %d, %a, 0; getctarank.shared::cluster.{t} %q, %a;",
                [((a,), (a, 0)) for a in INTEGERS[8 * size(t)][:4]])


def generate():
    f = File("memory/async_signals", "Stores, reductions and bulk reductions that signal an mbarrier, or are waited for in groups.",
             "9.4", "sm_100a")
    f.text(".global .align 16 .b8 room[512];")
    stores(f)
    reductions(f)
    to_shared(f)
    to_global(f)
    addresses(f)
    f.write()
