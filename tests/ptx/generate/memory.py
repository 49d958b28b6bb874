"""Loads, stores and atomic operations: PTX ISA 9.7.9.8 to 9.7.9.12 and 9.7.13.5, 9.7.13.7."""

import exact
from emit import File, INTEGERS, TYPES, floats, identifier, pick, rng, show
from exact import BF16, F16, F32, F64, FORMATS, signed

SMALL = ["b8", "u8", "s8", "b16", "u16", "s16"]
MEM32 = ["b32", "u32", "s32", "f32"]
MEM64 = ["b64", "u64", "s64", "f64"]
EVERY = SMALL + MEM32 + MEM64 + ["b128"]
THREADS = 5


def size(t):
    return 16 if t == "b128" else TYPES[t][1]


def most(t):
    """Elements of the longest vector of 128 bits."""
    return {1: 8, 2: 8, 4: 4, 8: 2, 16: 1}[size(t)]


def values(t, count, name):
    r = rng(name, t)
    edges = INTEGERS.get(8 * size(t), [1 << 127, (1 << 128) - 1, 0x0123456789abcdef0011223344556677])
    if t in FORMATS:
        edges = [b for b in floats(FORMATS[t]) if not FORMATS[t].is_nan(b)]
    return [r.choice(edges) for _ in range(count)]


def listed(vs, t):
    return " ".join(show(v, t) for v in vs)


def wide(t):
    """The register that a load fills: wider where PTX permits it."""
    if t in ("f32", "f64", "b128"):
        return t
    kind = "s" if t[0] == "s" else "u" if t[0] == "u" else "b"
    return kind + ("32" if size(t) < 4 else "64")


def extended(v, t):
    if t[0] == "s":
        return signed(v, 8 * size(t)) & (1 << 8 * size(wide(t))) - 1
    return v


def access(t):
    return "b128" if t == "b128" else t if t[0] == "f" else f"b{8 * size(t)}"


def vector(names):
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def load(f, head, t, count, space="global", hint=False):
    """Threads load `count` elements each and store them one by one, extended."""
    text = f"{head}{'.v%d' % count if count > 1 else ''}.{t}"
    vs = values(t, THREADS * count, text)
    out, bytes_each = wide(t), size(t) * count
    names = [f"%v{i}" for i in range(count)]
    name = f.name(text)
    policy = ", %pol" if hint else ""
    lines = [f"//@ kernel: {name}", f"//@ block: {THREADS}"]
    if space == "param":
        lines.append(f"//@ scalar: {t} {listed(vs, t)}")
    elif space != "const":
        lines.append(f"//@ buffer: {t} {listed(vs, t)}")
    lines.append(f"//@ buffer: {out} 0*{len(vs)}")
    lines.append(f"//@ expect: {out} {listed([extended(v, t) for v in vs], out)}")
    if space == "const":
        raw = b"".join(v.to_bytes(size(t), "little") for v in vs)
        lines.append(f".const .align 16 .b8 c_{name}[{len(raw)}] = {{{', '.join(map(str, raw))}}};")
        params = ".param .u64 out"
    elif space == "param":
        params = f".param .align 16 .b8 in[{size(t) * len(vs)}], .param .u64 out"
    else:
        params = ".param .u64 in, .param .u64 out"
    lines.append(f".visible .entry {name}({params})\n{{")
    lines.append(f"    .reg .b32 %t, %s; .reg .b64 %p, %pol; .reg .{out} %v<{count}>;")
    if space in ("shared", "local"):
        lines.append(f"    .{space} .align 16 .b8 mem[{bytes_each * THREADS}]; .reg .b8 %byte;")
    lines.append("    mov.u32 %t, %tid.x; mov.b64 %pol, 0;")
    place = "%p"
    if space == "const":
        lines.append(f"    mov.u64 %p, c_{name}; mad.wide.u32 %p, %t, {bytes_each}, %p;")
    elif space == "param":
        lines.append(f"    mov.b64 %p, in; mad.wide.u32 %p, %t, {bytes_each}, %p;")
    else:
        lines.append(f"    ld.param.u64 %p, [in]; mad.wide.u32 %p, %t, {bytes_each}, %p;")
        if space == "generic":
            pass
        elif space in ("shared", "local"):
            # Byte by byte into the thread's part of the variable.
            lines.append(f"    mov.u32 %s, mem; mad.lo.u32 %s, %t, {bytes_each}, %s;")
            for at in range(bytes_each):
                lines.append(f"    ld.global.b8 %byte, [%p+{at}]; st.{space}.b8 [%s+{at}], %byte;")
            place = "%s"
    lines.append(f"    {text} {vector(names)}, [{place}]{policy};")
    lines.append(f"    ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, {size(out) * count}, %p;")
    lines += [f"    st.global.{access(out)} [%p+{size(out) * i}], {n};" for i, n in enumerate(names)]
    lines.append("    ret;\n}")
    f.text("\n".join(lines))


def store(f, head, t, count, space="global", hint=False):
    """Threads store `count` elements each from registers that may be wider."""
    text = f"{head}{'.v%d' % count if count > 1 else ''}.{t}"
    vs = values(t, THREADS * count, text)
    source, bytes_each = wide(t), size(t) * count
    r = rng(text, "upper")
    above = lambda v: v | (r.getrandbits(64) << 8 * size(t)) & (1 << 8 * size(source)) - 1
    names = [f"%v{i}" for i in range(count)]
    name = f.name(text)
    policy = ", %pol" if hint else ""
    given = [above(v) for v in vs]
    lines = [f"//@ kernel: {name}", f"//@ block: {THREADS}", f"//@ buffer: {source} {listed(given, source)}",
             f"//@ buffer: {t} 0*{len(vs)}", f"//@ expect: {t} {listed(vs, t)}",
             f".visible .entry {name}(.param .u64 in, .param .u64 out)\n{{",
             f"    .reg .b32 %t, %s; .reg .b64 %p, %pol; .reg .{source} %v<{count}>; .reg .b8 %byte;"]
    if space in ("shared", "local"):
        lines.append(f"    .{space} .align 16 .b8 mem[{bytes_each * THREADS}];")
    lines.append("    mov.u32 %t, %tid.x; mov.b64 %pol, 0;")
    lines.append(f"    ld.param.u64 %p, [in]; mad.wide.u32 %p, %t, {size(source) * count}, %p;")
    lines += [f"    ld.global.{access(source)} {n}, [%p+{size(source) * i}];" for i, n in enumerate(names)]
    lines.append(f"    ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, {bytes_each}, %p;")
    if space in ("shared", "local"):
        lines.append(f"    mov.u32 %s, mem; mad.lo.u32 %s, %t, {bytes_each}, %s;")
        lines.append(f"    {text} [%s], {vector(names)};")
        for at in range(bytes_each):
            lines.append(f"    ld.{space}.b8 %byte, [%s+{at}]; st.global.b8 [%p+{at}], %byte;")
    else:
        lines.append(f"    {text} [%p], {vector(names)}{policy};")
    lines.append("    ret;\n}")
    f.text("\n".join(lines))


def turns(items):
    """Each type with its longest vector and with a single element, by turns."""
    for index, t in enumerate(items):
        yield t, most(t) if index % 2 == 0 else 1


def loads():
    # Variant, space, types, whether it takes a cache policy.
    f = File("memory/ld", "ld: each type and space, extended into wider registers, vectors, cache operators.")
    for head, space in (("ld", "generic"), ("ld.global", "global"), ("ld.const", "const"), ("ld.param", "param"),
                        ("ld.shared", "shared"), ("ld.local", "local"), ("ld.weak.global.ca", "global"),
                        ("ld.global.cg", "global"), ("ld.global.cs", "global"), ("ld.global.lu", "global"),
                        ("ld.global.cv", "global"), ("ld.weak.shared::cta", "shared")):
        full = head in ("ld", "ld.global", "ld.shared", "ld.const")
        for t, count in turns(EVERY if full else EVERY[len(head) % 2::2]):
            load(f, head, t, count, space)
            if head == "ld.global" and most(t) > 2:
                load(f, head, t, 2, space)
            if head == "ld.global" and most(t) > 4:
                load(f, head, t, 4, space)
    f.write()
    f = File("memory/ld_hints", "ld with hints about caches, which change no value.")
    for head, hint in (("ld.global.ca.L2::128B", False), ("ld.global.L2::cache_hint", True),
                       ("ld.global.L1::evict_last.L2::64B", False), ("ld.global.L1::no_allocate.L2::cache_hint", True)):
        for t, count in turns(EVERY):
            load(f, head, t, count, "global", hint)
    for head, hint in (("ld.global.L1::evict_first.L2::evict_last", False), ("ld.global.cg.L2::evict_first.L2::cache_hint", True),
                       ("ld.relaxed.gpu.global.L2::evict_normal", False), ("ld.volatile.global.L2::256B", False),
                       ("ld.global.nc.L1::evict_first.L2::evict_last", False), ("ld.global.nc.cs.L2::evict_last", False)):
        for t in MEM32:
            load(f, head, t, 8, "global", hint)
        for t in MEM64:
            load(f, head, t, 4, "global", hint)
    f.write()
    f = File("memory/ld_order", "ld.relaxed, .acquire, .volatile, .mmio.", "9.3", "sm_100a")
    for head, space in (("ld.relaxed.gpu", "generic"), ("ld.acquire.cta.shared", "shared"), ("ld.volatile", "generic"),
                        ("ld.volatile.shared", "shared")):
        for t, count in turns(EVERY):
            load(f, head, t, count, space)
    for head in ("ld.acquire.sys.global.L1::evict_last", "ld.relaxed.cta.global.L2::128B"):
        for t, count in turns(EVERY):
            load(f, head, t, count)
    for t, count in turns(EVERY):
        load(f, "ld.volatile.global.L2::64B", t, count)
    for head in ("ld.mmio.relaxed.sys.global", "ld.mmio.acquire.sys.global"):
        for t in EVERY:
            load(f, head, t, 1)
    f.write()
    f = File("memory/ld_nc", "ld.global.nc and ldu: read-only data.")
    for head in ("ld.global.nc", "ld.global.nc.L1::evict_last"):
        for t, count in turns(EVERY):
            load(f, head, t, count)
    for t, count in turns(EVERY):
        load(f, "ldu.global", t, min(count, 4))
    f.write()


def stores():
    f = File("memory/st", "st: each type and space, cut from wider registers, vectors, cache operators.")
    for head, space in (("st", "generic"), ("st.global", "global"), ("st.shared", "shared"), ("st.local", "local"),
                        ("st.weak.global.wb", "global"), ("st.global.cg", "global"), ("st.global.cs", "global"),
                        ("st.global.wt", "global"), ("st.weak.shared::cta", "shared")):
        full = head in ("st", "st.global", "st.shared")
        for t, count in turns(EVERY if full else EVERY[len(head) % 2::2]):
            store(f, head, t, count, space)
            if head == "st.global" and most(t) > 2:
                store(f, head, t, 2, space)
    f.write()
    f = File("memory/st_hints", "st with hints about caches, which change no value; 256 bits.")
    for head, hint in (("st.global.cg.L2::cache_hint", True), ("st.global.L1::evict_first", False)):
        for t, count in turns(EVERY):
            store(f, head, t, count, "global", hint)
    for head, hint in (("st.global.L1::evict_last.L2::evict_first", False), ("st.global.cs.L2::evict_last", False),
                       ("st.release.gpu.global.L2::cache_hint", True), ("st.volatile.global", False)):
        for t in MEM32:
            store(f, head, t, 8, "global", hint)
        for t in MEM64:
            store(f, head, t, 4, "global", hint)
    f.write()
    f = File("memory/st_order", "st.relaxed, .release, .volatile, .mmio.", "9.3", "sm_100a")
    for head, space in (("st.relaxed.gpu", "generic"), ("st.release.cta.shared", "shared"), ("st.volatile", "generic"),
                        ("st.volatile.shared", "shared"), ("st.release.sys.global.L1::no_allocate", "global")):
        for t, count in turns(EVERY):
            store(f, head, t, count, space)
    for head in ("st.mmio.relaxed.sys.global", "st.mmio.release.sys.global"):
        for t in EVERY:
            store(f, head, t, 1)
    for head in ("st.async.release.gpu.global", "st.async.mmio.release.sys.global", "st.async.global"):
        for t in EVERY[:-1]:
            store(f, head, t, 1)
    f.write()


# Atomic operations: new content from the old one and the operands.

def integer_update(op, t, old, b, c=None):
    n = 8 * size(t)
    mask = (1 << n) - 1
    x, y = (signed(old, n), signed(b, n)) if t[0] == "s" else (old, b)
    return {
        "add": lambda: old + b & mask, "inc": lambda: 0 if old >= b else old + 1,
        "dec": lambda: b if old == 0 or old > b else old - 1,
        "min": lambda: min(x, y) & mask, "max": lambda: max(x, y) & mask,
        "and": lambda: old & b, "or": lambda: old | b, "xor": lambda: old ^ b,
        "exch": lambda: b, "cas": lambda: c if old == b else old,
    }[op]()


WHOLE = [("add", ["u32", "s32", "u64"]), ("inc", ["u32"]), ("dec", ["u32"]),
         ("min", ["u32", "s32", "u64", "s64"]), ("max", ["u32", "s32", "u64", "s64"]),
         ("and", ["b32", "b64"]), ("or", ["b32", "b64"]), ("xor", ["b32", "b64"])]
SPACES = ["", ".global", ".shared"]
ORDERS = ["", ".relaxed.gpu", ".acq_rel.cta", ".acquire.sys", ".release.gpu"]


def setup(space, t, place="q"):
    """Moves the old content to where the operation finds it; its address is in %m."""
    n = size(t)
    if space == ".shared":
        return (f".shared .align 16 .b8 mem[{n * 64}];\nmov.u32 %m, mem; mad.lo.u32 %m, %t, {n}, %m;\n"
                f"st.shared.b{8 * n} [%m], %a;\n", f"ld.shared.b{8 * n} %{place}, [%m];", ".reg .b32 %m;")
    return (f"ld.param.u64 %m, [{place}]; mad.wide.u32 %m, %t, {n}, %m;\nst.global.b{8 * n} [%m], %a;\n",
            f"ld.global.b{8 * n} %{place}, [%m];", ".reg .b64 %m;")


def update(f, head, space, op, t, rows, extra=0):
    """Rows: old content, operands, new content. `red` has no result."""
    is_red = head.startswith("red")
    column = t if t in TYPES else "b32"
    words = head.split("|")
    text = f"{words[0]}{words[1] if len(words) > 1 else ''}{space}.{op}.{t}"
    before, after, regs = setup(space, column, "d" if is_red else "q")
    operands = "%b" + (", %c" if extra else "")
    if is_red:
        f.table(identifier(text), [column] * (2 + extra), [column], f"{before}{text} [%m], {operands};\n{after}",
                [(r[:-1], (r[-1],)) for r in rows if r[-1] is not None], regs=regs)
    else:
        f.table(identifier(text), [column] * (2 + extra), [column] * 2, f"{before}{text} %d, [%m], {operands};\n{after}",
                [(r[:-1], (r[0], r[-1])) for r in rows if r[-1] is not None], regs=regs)


def atomics():
    for kind in ("atom", "red"):
        f = File(f"memory/{kind}", f"{kind}: each operation, type and space; " + ("the old content comes back."
                 if kind == "atom" else "only memory changes."))
        turn = 0
        for op, types in WHOLE:
            for t in types:
                for space in SPACES:
                    order = ORDERS[turn % (5 if kind == "atom" else 2)]
                    turn += 1
                    edges = INTEGERS[8 * size(t)]
                    always = [(5, 5), (4, 5), (6, 5), (0, 5)] if op in ("inc", "dec") else [(0, edges[-1]), (edges[-1], 1)]
                    rows = [(a, b, integer_update(op, t, a, b))
                            for a, b in pick(f"{kind}{op}{t}{space}", [edges, edges], 12, always)]
                    update(f, f"{kind}|{order}", space, op, t, rows)
        if kind == "atom":
            for t in ("b32", "b64", "b128"):
                for space in SPACES:
                    edges = values(t, 8, "exch")
                    rows = [(a, b, b) for a, b in pick(f"exch{t}{space}", [edges, edges], 6)]
                    update(f, "atom", space, "exch", t, rows)
            for t in ("b16", "b32", "b64", "b128"):
                for space in SPACES:
                    edges = values(t, 8, "cas")
                    always = [(edges[0], edges[0], edges[1]), (edges[1], edges[1] ^ 1, edges[2])]
                    rows = [(a, b, c, integer_update("cas", t, a, b, c))
                            for a, b, c in pick(f"cas{t}{space}", [edges] * 3, 8, always)]
                    update(f, "atom", space, "cas", t, rows, extra=1)
        for fmt in (F32, F64):
            for space in SPACES:
                # f32 in global memory is flushed, in shared memory it is not; a generic address may be either.
                edges = [b for b in floats(fmt) if space != "" or not fmt.is_subnormal(b)]
                rows = []
                for a, b in pick(f"{kind}add{fmt.name}{space}", [edges, edges], 24):
                    if fmt.is_nan(a):
                        continue
                    new = exact.add(fmt, a, b, ftz=fmt is F32 and space == ".global")
                    if space == "" and new not in (None, exact.NAN) and fmt.is_subnormal(new):
                        continue
                    rows.append((a, b, new))
                update(f, kind, space, "add", fmt.name, rows)
        for fmt in (F16, BF16):
            for space in SPACES:
                rows = [(a, b, exact.add(fmt, a, b)) for a, b in
                        pick(f"{kind}add{fmt.name}{space}", [numbers_of(fmt), floats(fmt)], 16)]
                update(f, kind, space, "add.noftz", fmt.name, rows)
                edges = numbers_of(fmt)
                rows = []
                for a, b, c, d in pick(f"{kind}add{fmt.name}x2{space}", [edges] * 4, 24):
                    new = (exact.add(fmt, a, c), exact.add(fmt, b, d))
                    if exact.NAN not in new:
                        rows.append((a | b << 16, c | d << 16, new[0] | new[1] << 16))
                update(f, kind, space, "add.noftz", fmt.name + "x2", rows)
        f.write()
        vectors(kind)
    f = File("memory/atom_noftz_f32", "atom, red.add.noftz.f32: subnormal numbers count also in global memory.", "9.4", "sm_100a")
    for kind in ("atom", "red"):
        for space in SPACES:
            rows = [(a, b, exact.add(F32, a, b)) for a, b in
                    pick(f"{kind}noftz{space}", [numbers_of(F32), floats(F32)], 16, [(1, 1), (1, 0x80000001)])]
            update(f, kind, space, "add.noftz", "f32", rows)
    f.write()
    f = File("memory/red_async", "red.async to global memory.", "8.8", "sm_100a")
    for op, types in (("add", ["u32", "s32", "u64", "s64"]), ("inc", ["u32"]), ("dec", ["u32"]), ("min", ["u32", "s32"]),
                      ("max", ["u32", "s32"]), ("and", ["b32"]), ("or", ["b32"]), ("xor", ["b32"])):
        for index, t in enumerate(types):
            edges = INTEGERS[8 * size(t)]
            rows = [(a, b, integer_update(op, t, a, b)) for a, b in pick(f"red.async{op}{t}", [edges, edges], 8)]
            update(f, "red.async|" + (".mmio.release.sys" if index else ".release.gpu"), ".global", op, t, rows)
    f.write()


def numbers_of(fmt):
    return [b for b in floats(fmt) if not fmt.is_nan(b)]


def vectors(kind):
    f = File(f"memory/{kind}_vector", f"{kind} of vectors in global memory: each element by itself.")
    def one(t, fmt, op, noftz, count):
        lanes = 2 if t.endswith("x2") else 1
        n = count * lanes
        name = f.name(f"{kind}.{op}.v{count}.{t}")
        reg, each = ("f32", 4) if t == "f32" else ("b32", 4) if lanes == 2 else ("b16", 2)
        edges = [b for b in numbers_of(fmt) if not fmt.is_subnormal(b)] if not noftz else numbers_of(fmt)
        r = rng(name)
        old = [r.choice(edges) for _ in range(3 * n)]
        by = [r.choice(edges) for _ in range(3 * n)]
        new = []
        for a, b in zip(old, by):
            if op == "add":
                v = exact.add(fmt, a, b)
                new.append("_" if v != exact.NAN and not noftz and fmt.is_subnormal(v) else v)
            else:
                new.append(exact.minmax(fmt, [a, b], op == "max"))
        total = each * count
        read = lambda base: " ".join(f"ld.global.{reg} {base}{i}, [%p+{each * i}];" for i in range(count))
        braces = lambda base: "{" + ", ".join(f"{base}{i}" for i in range(count)) + "}"
        # Between the two scopes and orders that vectors have.
        words = f"{kind}{'.relaxed.gpu' if count == 4 else ''}.global.v{count}.{t}.{op}{'.noftz' if noftz else ''}"
        result = "" if kind == "red" else f"{braces('%o')}, "
        lines = [f"//@ kernel: {name}", "//@ block: 3", f"//@ buffer: {fmt.name} {listed(old, fmt.name)}",
                 f"//@ expect: {fmt.name} {listed(new, fmt.name)}", f"//@ buffer: {fmt.name} {listed(by, fmt.name)}",
                 f"//@ buffer: {fmt.name} 0x0*{len(old)}"]
        if kind == "atom":
            lines.append(f"//@ expect: {fmt.name} {listed(old, fmt.name)}")
        lines += [f".visible .entry {name}(.param .u64 mem, .param .u64 by, .param .u64 old)\n{{",
                  f"    .reg .b32 %t; .reg .b64 %p, %m; .reg .{reg} %b<{count}>, %o<{count}>;",
                  f"    mov.u32 %t, %tid.x; ld.param.u64 %p, [by]; mad.wide.u32 %p, %t, {total}, %p;",
                  f"    {read('%b')}",
                  f"    ld.param.u64 %m, [mem]; mad.wide.u32 %m, %t, {total}, %m;",
                  f"    {words} {result}[%m], {braces('%b')};"]
        if kind == "atom":
            lines.append(f"    ld.param.u64 %p, [old]; mad.wide.u32 %p, %t, {total}, %p;")
            lines += [f"    st.global.{reg} [%p+{each * i}], %o{i};" for i in range(count)]
        lines.append("    ret;\n}")
        f.text("\n".join(lines).replace("ld.global.b16", "ld.global.b16"))
    for count in (2, 4):
        one("f32", F32, "add", False, count)
        for op in ("add", "min", "max"):
            one("f16x2", F16, op, True, count)
            one("bf16x2", BF16, op, True, count)
    for count in (2, 4, 8):
        for op in ("add", "min", "max"):
            one("f16", F16, op, True, count)
            one("bf16", BF16, op, True, count)
    f.write()


def generate():
    loads()
    stores()
    atomics()
