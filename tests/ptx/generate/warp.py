"""Warp collectives and barriers: PTX ISA 9.7.9.6, 9.7.13.1 to 9.7.13.14. A row is a lane."""

import exact
from emit import File, INTEGERS, floats, identifier, pick, rng
from exact import F32, signed
from memory import integer_update

FULL = 0xffffffff


def shuffle(mode, lane, b, c):
    """The lane read and whether it is in range: the pseudo-code of PTX ISA 9.7.9.6."""
    offset, clamp, segment = b & 31, c & 31, c >> 8 & 31
    last = lane & segment | clamp & ~segment & 31
    first = lane & segment
    source, inside = {
        "up": (lane - offset, lane - offset >= last),
        "down": (lane + offset, lane + offset <= last),
        "bfly": (lane ^ offset, lane ^ offset <= last),
        "idx": (first | offset & ~segment & 31, (first | offset & ~segment & 31) <= last),
    }[mode]
    return (source, 1) if inside else (lane, 0)


def lanes(f, name, ins, outs, body, rows, **more):
    assert len(rows) == 32, name
    f.table(identifier(name), ins, outs, body, rows, **more)


CHOICES = [("up", 1, 0), ("up", 2, 0x1c00), ("up", 0, 0), ("up", 5, 0x1000), ("down", 1, 0x1f), ("down", 3, 0x1807),
           ("down", 16, 0x1f), ("down", 33, 0xff), ("bfly", 1, 0x1f), ("bfly", 31, 0x1f), ("bfly", 4, 0x1c03),
           ("bfly", 16, 0x101f), ("idx", 0, 0x1f), ("idx", 31, 0x1f), ("idx", 5, 0x1807), ("idx", 9, 0x1f),
           ("idx", 20, 0xf), ("idx", 3, 0x1e01)]


def shuffles(f, old):
    sync, mask = ("", "") if old else (".sync", ", -1")
    for mode, b, c in CHOICES:
        values = [rng(mode, b, lane).getrandbits(32) for lane in range(32)]
        rows = []
        for lane in range(32):
            source, inside = shuffle(mode, lane, b, c)
            rows.append(((values[lane],), (values[source], inside)))
        lanes(f, f"shfl{sync}.{mode}_{b}_{c:x}", ["b32"], ["b32", "pred"],
              f"shfl{sync}.{mode}.b32 %d|%q, %a, {b}, 0x{c:x}{mask};", rows)
    # Operands that differ from lane to lane, and no predicate.
    for mode in ("up", "down", "bfly", "idx"):
        r = rng("varying", mode)
        values = [r.getrandbits(32) for _ in range(32)]
        bs, cs = [r.randrange(32) for _ in range(32)], [r.choice([0, 0x1f, 0x1807, 0x101f]) for _ in range(32)]
        rows = [((values[i], bs[i], cs[i]), (values[shuffle(mode, i, bs[i], cs[i])[0]],)) for i in range(32)]
        lanes(f, f"shfl{sync}.{mode}_varying", ["b32"] * 3, ["b32"], f"shfl{sync}.{mode}.b32 %d, %a, %b, %c{mask};", rows)


def bits_of(pattern):
    return [pattern >> lane & 1 for lane in range(32)]


PATTERNS = [0, FULL, 0x80000000, 1, 0xaaaaaaaa, 0x7fffffff]
VOTES = {"all": lambda bits: int(all(bits)), "any": lambda bits: int(any(bits)), "uni": lambda bits: int(len(set(bits)) == 1)}


def votes(f, old):
    sync, mask = ("", "") if old else (".sync", ", -1")
    for pattern in PATTERNS:
        bits = bits_of(pattern)
        for mode, answer in VOTES.items():
            for bang, seen in (("", bits), ("!", [1 - b for b in bits])):
                rows = [((b,), (answer(seen),)) for b in bits]
                lanes(f, f"vote{sync}.{mode}_{pattern:x}{'_not' if bang else ''}", ["pred"], ["pred"],
                      f"vote{sync}.{mode}.pred %d, {bang}%a{mask};", rows)
        rows = [((b,), (pattern,)) for b in bits]
        lanes(f, f"vote{sync}.ballot_{pattern:x}", ["pred"], ["b32"], f"vote{sync}.ballot.b32 %d, %a{mask};", rows)


# Which lanes take part, by a predicate on the lane; the others go another way with a mask of their own.
GROUPS = [("lower", "setp.lt.u32 %in, %t, 16;", 0x0000ffff), ("odd", "and.b32 %x, %t, 1; setp.ne.u32 %in, %x, 0;", 0xaaaaaaaa),
          ("one", "setp.eq.u32 %in, %t, 31;", 0x80000000)]


def split(instruction):
    """The instruction once for each group, in different branches."""
    return (f"{{test}}\n@%in bra IN_{{name}};\n{instruction.format(mask='{out}')}\nbra.uni END_{{name}};\n"
            f"IN_{{name}}:\n{instruction.format(mask='{in_}')}\nEND_{{name}}:")


def grouped(f, name, ins, outs, instruction, per_group, given):
    """`per_group(mask)` gives the outputs of that group's lanes."""
    for group, test, mask in GROUPS:
        other = mask ^ FULL
        label = identifier(f"{name}_{group}")
        body = split(instruction).format(test=test, name=label, in_=f"0x{mask:x}", out=f"0x{other:x}")
        results, found = {}, []
        for m in (mask, other):
            here = per_group(m)
            results.update(here)
            # Only what reads another group is left open.
            if any("_" in values for values in here.values()):
                found.append("//@ finding: AbsentSource")
        lanes(f, f"{name}_{group}", ins, outs, body, [(given[i], results[i]) for i in range(32)],
              regs=".reg .pred %in; .reg .b32 %x;", before=found)


def members(mask):
    return [i for i in range(32) if mask >> i & 1]


def in_groups():
    f = File("warp/masks", "Collectives with partial member masks: two groups of a warp that go different ways.")
    bits = bits_of(0x9248f00f)
    for mode, answer in VOTES.items():
        grouped(f, f"vote_{mode}", ["pred"], ["pred"], f"vote.sync.{mode}.pred %d, %a, {{mask}};",
                lambda m: {i: (answer([bits[j] for j in members(m)]),) for i in members(m)}, [(b,) for b in bits])
    grouped(f, "vote_ballot", ["pred"], ["b32"], "vote.sync.ballot.b32 %d, %a, {mask};",
            lambda m: {i: (sum(bits[j] << j for j in members(m)),) for i in members(m)}, [(b,) for b in bits])
    for t in ("b32", "b64"):
        r = rng("match", t)
        pool = [0, 1, 5, FULL] if t == "b32" else [0, 1, 1 << 32, (1 << 64) - 1]
        values = [r.choice(pool) for _ in range(32)]
        grouped(f, f"match_any_{t}", [t], ["u32"], f"match.any.sync.{t} %d, %a, {{mask}};",
                lambda m: {i: (sum(1 << j for j in members(m) if values[j] == values[i]),) for i in members(m)},
                [(v,) for v in values])
        for same, vs in (("same", [pool[3]] * 32), ("differ", [pool[0]] * 31 + [pool[2]])):
            grouped(f, f"match_all_{t}_{same}", [t], ["u32", "pred"], f"match.all.sync.{t} %d|%q, %a, {{mask}};",
                    lambda m: {i: ((m, 1) if len({vs[j] for j in members(m)}) == 1 else (0, 0)) for i in members(m)},
                    [(v,) for v in vs])
    for op, types in (("add", ["u32", "s32"]), ("min", ["u32", "s32"]), ("max", ["u32", "s32"]),
                      ("and", ["b32"]), ("or", ["b32"]), ("xor", ["b32"])):
        for t in types:
            r = rng("redux", op, t)
            values = [r.choice(INTEGERS[32]) for _ in range(32)]
            def reduced(m):
                total = values[members(m)[0]]
                for j in members(m)[1:]:
                    total = integer_update(op, t, total, values[j])
                return {i: (total,) for i in members(m)}
            grouped(f, f"redux_{op}_{t}", [t], [t], f"redux.sync.{op}.{t} %d, %a, {{mask}};", reduced, [(v,) for v in values])
    for op in ("min", "max"):
        for more in ("", ".abs", ".NaN", ".abs.NaN"):
            r = rng("reduxf", op, more)
            numbers = [v for v in floats(F32) if not F32.is_nan(v)]
            values = [r.choice(numbers) for _ in range(32)]
            values[17] = 0x7fc00000
            values[31] = 0x7fc00000
            def reduced(m):
                seen = [values[j] & (0x7fffffff if "abs" in more else FULL) for j in members(m)]
                if "NaN" in more and any(F32.is_nan(v) for v in seen):
                    total = exact.NAN
                else:
                    seen = [v for v in seen if not F32.is_nan(v)]
                    order = lambda x: (F32.value(x), 0 if x & F32.sign else 1)
                    total = (min if op == "min" else max)(seen, key=order) if seen else exact.NAN
                return {i: (total,) for i in members(m)}
            grouped(f, f"redux_{op}{more}_f32", ["f32"], ["f32"], f"redux.sync.{op}{more}.f32 %d, %a, {{mask}};",
                    reduced, [(v,) for v in values])
    grouped(f, "elect", [], ["b32", "pred"], "elect.sync %d|%q, {mask};",
            lambda m: {i: (members(m)[0], int(i == members(m)[0])) for i in members(m)}, [()] * 32)
    values = [rng("shfl", i).getrandbits(32) for i in range(32)]
    def inside(mode, b, c):
        def per_group(m):
            out = {}
            for i in members(m):
                source, ok = shuffle(mode, i, b, c)
                # Reading a lane of the other group is undefined.
                out[i] = (values[source], ok) if m >> source & 1 else ("_", "_")
            return out
        return per_group
    for mode, b, c in (("up", 2, 0), ("down", 2, 0x1f), ("bfly", 2, 0x1f), ("idx", 13, 0x101f)):
        grouped(f, f"shfl_{mode}", ["b32"], ["b32", "pred"], f"shfl.sync.{mode}.b32 %d|%q, %a, {b}, 0x{c:x}, {{mask}};",
                inside(mode, b, c), [(v,) for v in values])
    f.write()


def barriers():
    f = File("warp/barriers", "bar and barrier in all their forms: 96 threads turn a shared array round.")
    def exchange(name, wait, decls=""):
        n = f.name(name)
        f.text(f"""//@ kernel: {n}
//@ block: 96
//@ buffer: u32 0*96
//@ expect: u32 {' '.join(str(3 * (95 - i) + 1) for i in range(96))}
.visible .entry {n}(.param .u64 out)
{{
    .reg .b32 %t, %a, %v, %n; .reg .b64 %p; .reg .pred %e, %set; .shared .u32 mem[96];
    mov.u32 %t, %tid.x; mov.u32 %n, 96; setp.eq.u32 %set, %t, %t;
    mov.u32 %a, mem; mad.lo.u32 %a, %t, 4, %a; mad.lo.u32 %v, %t, 3, 1; st.shared.u32 [%a], %v;
    {wait}
    sub.u32 %v, 95, %t; mov.u32 %a, mem; mad.lo.u32 %a, %v, 4, %a; ld.shared.u32 %v, [%a];
    ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, 4, %p; st.global.u32 [%p], %v;
    ret;
}}""")
    def reduce(name, op, text, t):
        n = f.name(name)
        # Threads 0, 3, 6, ... set their predicate: 32 of 96.
        value = {"popc": "32", "and": "0", "or": "1"}[op]
        d, back = ("%d", "") if t == "u32" else ("%r", "selp.u32 %d, 1, 0, %r; ")
        f.text(f"""//@ kernel: {n}
//@ block: 96
//@ buffer: u32 0*96
//@ expect: u32 {value}*96
//@ buffer: u32 0*96
//@ expect: u32 {dict(popc='64', **{'and': '0', 'or': '1'})[op]}*96
.visible .entry {n}(.param .u64 out, .param .u64 negated)
{{
    .reg .b32 %t, %d, %x; .reg .b64 %p; .reg .pred %s, %r;
    mov.u32 %t, %tid.x; rem.u32 %x, %t, 3; setp.eq.u32 %s, %x, 0;
    {text} {d}, 0, %s; {back}ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, 4, %p; st.global.u32 [%p], %d;
    {text} {d}, 1, 96, !%s; {back}ld.param.u64 %p, [negated]; mad.wide.u32 %p, %t, 4, %p; st.global.u32 [%p], %d;
    ret;
}}""")
    for head in ("bar", "bar.cta", "barrier", "barrier.cta"):
        for aligned in [""] + ([".aligned"] if head.startswith("barrier") else []):
            exchange(f"{head}.sync{aligned}", f"{head}.sync{aligned} 0;")
            exchange(f"{head}.sync{aligned}_count", f"{head}.sync{aligned} 3, 96; {head}.sync{aligned} %n, %n;"
                     .replace("%n, %n", "15, %n"))
            for op, t in (("popc", "u32"), ("and", "pred"), ("or", "pred")):
                reduce(f"{head}.red.{op}{aligned}", op, f"{head}.red.{op}{aligned}.{t}", t)
            n = f.name(f"{head}.arrive{aligned}")
            # The first warp makes values for the second, which alone waits.
            f.text(f"""//@ kernel: {n}
//@ block: 64
//@ buffer: u32 0*32
//@ expect: u32 100..131
.visible .entry {n}(.param .u64 out)
{{
    .reg .b32 %t, %a, %v; .reg .b64 %p; .reg .pred %first; .shared .u32 mem[32];
    mov.u32 %t, %tid.x; setp.lt.u32 %first, %t, 32; and.b32 %v, %t, 31; mov.u32 %a, mem; mad.lo.u32 %a, %v, 4, %a;
    @!%first bra SECOND;
    add.u32 %v, %v, 100; st.shared.u32 [%a], %v;
    {head}.arrive{aligned} 2, 64;
    ret;
SECOND:
    {head}.sync{aligned} 2, 64;
    ld.shared.u32 %v, [%a]; sub.u32 %t, %t, 32;
    ld.param.u64 %p, [out]; mad.wide.u32 %p, %t, 4, %p; st.global.u32 [%p], %v;
    ret;
}}""")
    f.write()


def generate():
    f = File("warp/shfl", "shfl.sync: segments, clamps, lanes out of range keep their own value and clear the predicate.")
    shuffles(f, False)
    f.write()
    f = File("warp/vote", "vote.sync with all lanes, also of negated predicates.")
    votes(f, False)
    f.write()
    f = File("warp/before_sync", "shfl and vote as before sm_70: among the lanes that execute them together.", "6.0", "sm_60")
    shuffles(f, True)
    votes(f, True)
    f.write()
    in_groups()
    barriers()
