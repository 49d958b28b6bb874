//! Generates code in which threads synchronise: collectives, barriers, and exchanges of values
//! between threads.

use super::numbers::Random;
use super::program::{Kernel, Leaf, Level};
use super::templates::{Operands, register, source};

fn meeting(level: Level, text: String) -> Leaf {
    Leaf {
        text,
        meets: Some(level),
    }
}

/// Generates a mask of all or some of the active lanes. Returns the instructions that compute the
/// mask, and the operand that contains the mask.
fn mask(random: &mut Random, operands: &Operands<'_>) -> (String, &'static str) {
    let tile = |size: u32| {
        let lanes = (1u64 << size) - 1;
        format!(
            "and.b32 %t6, %lane, {}; mov.u32 %t7, {lanes}; shl.b32 %t7, %t7, %t6; and.b32 %t7, %t7, <M>; ",
            32 - size
        )
    };
    match random.below(8) {
        0 => (tile(8), "%t7"),
        1 => (tile(4), "%t7"),
        2 => (tile(16), "%t7"),
        3 => {
            // The mask contains the lanes with the same key.
            let r = source('r', random, operands);
            let bits = 1 + random.below(3);
            let text = format!("and.b32 %t6, {r}, {bits}; match.any.sync.b32 %t7, %t6, <M>; ");
            (text, "%t7")
        }
        _ => (String::new(), "<M>"),
    }
}

/// Generates a collective in which the active lanes of a warp take part.
pub(super) fn collective(random: &mut Random, operands: &Operands<'_>, full: bool) -> Leaf {
    let (before, mask) = mask(random, operands);
    let r = source('r', random, operands);
    let (to, p) = (register('r', random), register('p', random));
    let q = register('p', random);
    let text = match random.below(10) {
        0 => format!("vote.sync.ballot.b32 {to}, {p}, {mask};"),
        1 => {
            let mode = random.pick(&["all", "any", "uni"]);
            let not = random.pick(&["", "!"]);
            format!("vote.sync.{mode}.pred {q}, {not}{p}, {mask};")
        }
        2 => {
            let operation = random.pick(&[
                "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32",
                "or.b32", "xor.b32",
            ]);
            format!("redux.sync.{operation} {to}, {r}, {mask};")
        }
        3 => format!("match.any.sync.b32 {to}, {r}, {mask};"),
        4 => format!("match.all.sync.b32 {to}|{p}, {r}, {mask};"),
        5 => format!("bar.warp.sync {mask};"),
        _ => shuffle(random, operands, mask, full),
    };
    meeting(Level::Warp, before + &text)
}

/// Generates a shuffle. If the source lane of a lane is inactive, the generated code replaces the
/// result by zero, because PTX does not specify it. If `full` is set and `mask` is `<M>`, all lanes
/// take part, so only the shuffle instruction is generated.
fn shuffle(random: &mut Random, operands: &Operands<'_>, mask: &str, full: bool) -> String {
    let mode = *random.pick(&["bfly", "down", "up", "idx"]);
    let width = *random.pick(&[32u32, 32, 32, 16, 8, 4]);
    let segment = 32 - width;
    let clamp = if mode == "up" { 0 } else { width - 1 };
    let control = segment << 8 | clamp;
    let (letter, value) = match random.below(4) {
        0 => ('f', register('f', random)),
        _ => ('r', source('r', random, operands)),
    };
    let amount = match random.below(3) {
        0 => source('r', random, operands),
        _ => random.below(width).to_string(),
    };
    let (to, p) = (register(letter, random), register('p', random));
    let ty = "b32";
    if full && mask == "<M>" {
        let with = if random.chance(50) {
            format!("|{p}")
        } else {
            String::new()
        };
        return format!("shfl.sync.{mode}.{ty} {to}{with}, {value}, {amount}, {control}, {mask};");
    }
    let source_lane = match mode {
        "bfly" => "xor.b32 %t4, %lane, %t5;".to_owned(),
        "down" => "add.u32 %t4, %lane, %t5;".to_owned(),
        "up" => "sub.u32 %t4, %lane, %t5;".to_owned(),
        _ => format!(
            "and.b32 %t4, %lane, {segment}; and.b32 %t5, %t5, {}; or.b32 %t4, %t4, %t5;",
            width - 1
        ),
    };
    let (other, zero) = match letter {
        'f' => ("%x1", "0f00000000"),
        _ => ("%t3", "0"),
    };
    // `%q1` is true if the source lane is in range but inactive.
    format!(
        "setp.eq.u32 %q0, %lane, %lane; vote.sync.ballot.b32 %t2, %q0, {mask}; \
         and.b32 %t5, {amount}, 31; \
         {source_lane} \
         shfl.sync.{mode}.{ty} {other}|%q0, {value}, %t5, {control}, {mask}; \
         and.b32 %t4, %t4, 31; shr.u32 %t2, %t2, %t4; and.b32 %t2, %t2, 1; \
         setp.eq.and.u32 %q1, %t2, 0, %q0; \
         selp.{ty} {to}, {zero}, {other}, %q1; mov.pred {p}, %q0;"
    )
}

/// Generates instructions that write the number of a thread, usually of another thread, to `%t1`; this number is less
/// than `%t6`.
fn other_thread(random: &mut Random, operands: &Operands<'_>) -> String {
    match random.below(5) {
        0 => format!(
            "add.u32 %t1, %lin, {}; rem.u32 %t1, %t1, %t6;",
            1 + random.below(40)
        ),
        1 => "sub.u32 %t1, %t6, %lin; sub.u32 %t1, %t1, 1;".to_owned(),
        2 => format!(
            "xor.b32 %t1, %lin, {}; rem.u32 %t1, %t1, %t6;",
            1 << random.below(6)
        ),
        3 => format!("mov.u32 %t1, {}; rem.u32 %t1, %t1, %t6;", random.below(64)),
        _ => format!("rem.u32 %t1, {}, %t6;", source('r', random, operands)),
    }
}

/// Generates a barrier of the CTA.
fn barrier(random: &mut Random) -> String {
    match random.below(6) {
        0 => "barrier.sync 0;".to_owned(),
        1 => format!("bar.sync {}<COUNT>;", random.below(16)),
        2 => format!("barrier.sync.aligned {}<COUNT>;", random.below(16)),
        _ => "bar.sync 0;".to_owned(),
    }
}

/// Generates an exchange of values between all threads of a CTA.
pub(super) fn exchange(random: &mut Random, operands: &Operands<'_>, kernel: &Kernel) -> Leaf {
    let (first, second) = (barrier(random), barrier(random));
    let r = source('r', random, operands);
    let to = register('r', random);
    let threads = kernel.threads();
    let other = other_thread(random, operands);
    let own = "mov.u32 %t0, cells; mad.lo.u32 %t0, %lin, 4, %t0;";
    let text = match random.below(8) {
        0 => {
            let p = register('p', random);
            let popc = random.chance(50);
            let operation = *random.pick(&["and", "or"]);
            if popc {
                format!("bar.red.popc.u32 {to}, 0, {p};")
            } else {
                format!(
                    "bar.red.{operation}.pred {}, 0, {p};",
                    register('p', random)
                )
            }
        }
        1 => tree(random, threads, &r, &to, &first),
        2 => {
            let (value, target) = (register('e', random), register('e', random));
            format!(
                "{first} mov.u32 %t6, {threads}; {other} mov.u32 %t0, wide; mad.lo.u32 %t2, %lin, 8, %t0; st.shared.f64 [%t2], {value}; {second} mad.lo.u32 %t2, %t1, 8, %t0; ld.shared.f64 {target}, [%t2]; {first}"
            )
        }
        _ => format!(
            "{first} mov.u32 %t6, {threads}; {other} {own} st.shared.u32 [%t0], {r}; {second} mov.u32 %t0, cells; mad.lo.u32 %t0, %t1, 4, %t0; ld.shared.u32 {to}, [%t0];"
        ),
    };
    meeting(Level::Cta, text)
}

/// Generates a reduction of the values of the CTA's threads in shared memory. The number of values
/// halves in each step, and a barrier follows each step.
fn tree(random: &mut Random, threads: u32, value: &str, to: &str, barrier: &str) -> String {
    let start = threads.next_power_of_two() / 2;
    let operation = random.pick(&["add.u32", "max.s32", "xor.b32"]);
    format!(
        "bar.sync 0; mov.u32 %t0, cells; mad.lo.u32 %t0, %lin, 4, %t0; st.shared.u32 [%t0], {value}; {barrier}\n\
         mov.u32 %t1, {start};\n\
         tree<L>: setp.eq.u32 %q0, %t1, 0; @%q0 bra treeend<L>;\n\
         add.u32 %t2, %lin, %t1; setp.lt.u32 %q0, %lin, %t1; setp.lt.and.u32 %q0, %t2, {threads}, %q0; @!%q0 bra treenext<L>;\n\
         mad.lo.u32 %t2, %t1, 4, %t0; ld.shared.u32 %t2, [%t2]; ld.shared.u32 %t3, [%t0]; {operation} %t3, %t3, %t2; st.shared.u32 [%t0], %t3;\n\
         treenext<L>: {barrier} shr.u32 %t1, %t1, 1; bra treeshared<L>;\n\
         treeshared<L>: bra tree<L>;\n\
         treeend<L>: ld.shared.u32 {to}, [cells];"
    )
}

/// Generates an exchange of values between all lanes of a warp through shared memory.
pub(super) fn warp_exchange(random: &mut Random, operands: &Operands<'_>) -> Leaf {
    let r = source('r', random, operands);
    let to = register('r', random);
    let lane = match random.below(3) {
        0 => format!("xor.b32 %t1, %lane, {};", 1 + random.below(31)),
        1 => format!(
            "add.u32 %t1, %lane, {}; and.b32 %t1, %t1, 31;",
            1 + random.below(31)
        ),
        _ => format!("and.b32 %t1, {}, 31;", source('r', random, operands)),
    };
    let text = format!(
        "bar.warp.sync <M>; {lane} mov.u32 %t0, warpcells; mad.lo.u32 %t2, %lin, 4, %t0; st.shared.u32 [%t2], {r}; bar.warp.sync <M>; \
         and.b32 %t2, %lin, 0xffffffe0; add.u32 %t1, %t1, %t2; mad.lo.u32 %t0, %t1, 4, %t0; ld.shared.u32 {to}, [%t0];"
    );
    meeting(Level::Warp, text)
}
