//! Generates loads, stores and atomics.
//!
//! A load can read any element of the inputs. A store writes only cells that belong to the thread.
//! The results of the atomics do not depend on their order. Addresses are computed in various ways
//! that real programs use. In some of these ways, intermediate values wrap.

use super::layout::{ACCUMULATORS, INPUT_SECTION, Layout, REDUCTIONS, Section, WIDE_REDUCTIONS};
use super::numbers::Random;
use super::templates::{Operands, register, source};

/// The memory that a generated kernel accesses.
pub(super) struct Memory<'a> {
    /// The layout of the kernel's results.
    pub(super) layout: &'a Layout,
    /// Number of threads of the launch.
    pub(super) all_threads: u32,
}

/// A type of memory access: the suffix of the `ld` instruction, the number of bytes, the first
/// letter of its registers' names, and the section of the inputs.
type Access = (&'static str, u32, char, u32);

const INTEGERS: [Access; 11] = [
    ("u32", 4, 'r', 0),
    ("s32", 4, 'r', 0),
    ("b32", 4, 'r', 0),
    ("u8", 1, 'r', 0),
    ("s8", 1, 'r', 0),
    ("u16", 2, 'r', 0),
    ("s16", 2, 'r', 0),
    ("u64", 8, 'd', 0),
    ("s32", 4, 'd', 0),
    ("b16", 2, 'h', 0),
    ("u8", 1, 'h', 0),
];
const FLOATS: [Access; 3] = [("f32", 4, 'f', 1), ("f64", 8, 'e', 2), ("b16", 2, 'g', 3)];

fn access(random: &mut Random) -> Access {
    if random.chance(60) {
        *random.pick(&INTEGERS)
    } else {
        *random.pick(&FLOATS)
    }
}

/// Generates a load from the inputs.
pub(super) fn load(random: &mut Random, operands: &Operands<'_>) -> String {
    let (ty, bytes, letter, section) = access(random);
    let vector = if random.chance(15) && bytes >= 4 {
        2
    } else {
        1
    };
    let step = bytes * vector;
    let (index, bound) = index(random, operands);
    let elements = INPUT_SECTION / step;
    let mut text = index;
    if bound >= elements {
        text += &format!("and.b32 %t0, %t0, {}; ", elements - 1);
    }
    let (address, offset) = address(random, "%in", section * INPUT_SECTION, step, bound);
    text += &address;
    let space = *random.pick(&[".global", ".global", ".global", ".global.nc", ""]);
    if vector == 2 {
        let first = register(letter, random);
        let mut second = register(letter, random);
        while second == first {
            second = register(letter, random);
        }
        return format!("{text}ld{space}.v2.{ty} {{{first}, {second}}}, [%u0+{offset}];");
    }
    let target = register(letter, random);
    format!("{text}ld{space}.{ty} {target}, [%u0+{offset}];")
}

/// Generates instructions that write an index to `%t0`, and returns an upper bound of the index.
fn index(random: &mut Random, operands: &Operands<'_>) -> (String, u32) {
    let c = random.below(200);
    let r = source('r', random, operands);
    match random.below(12) {
        0 | 1 => (format!("add.u32 %t0, %gid, {c}; "), 1536 + 200),
        2 => (format!("add.u32 %t0, %lin, {c}; "), 1024 + 200),
        3 => {
            let stride = 2 + random.below(6);
            (format!("mad.lo.u32 %t0, %lin, {stride}, {c}; "), u32::MAX)
        }
        4 => (format!("sub.u32 %t0, {}, %lin; ", 1023 + c), 1024 + 200),
        5 => (format!("shr.u32 %t0, %gid, {}; ", random.below(6)), 1536),
        6 => (format!("xor.b32 %t0, %gid, {}; ", random.below(32)), 1600),
        7 => (format!("mov.u32 %t0, {c}; "), 200),
        8 => ("mov.u32 %t0, %w0; ".to_owned(), u32::MAX),
        9 => (
            "mad.lo.u32 %t0, %ty, %nx, %tx; mad.lo.u32 %t0, %tz, %lane, %t0; ".to_owned(),
            u32::MAX,
        ),
        10 => (format!("sub.u32 %t0, %gid, {c}; "), u32::MAX),
        _ => (format!("mov.u32 %t0, {r}; "), u32::MAX),
    }
}

/// Generates instructions that write an address to `%u0`, and returns an immediate offset. The sum
/// of the address and the offset is `base + index * step + from` or, only if `bound` is less than
/// `u32::MAX`, the address of another element of the input section that begins at `base + from`.
/// `bound` is an upper bound of the index, as [`index`] returned it.
fn address(random: &mut Random, base: &str, from: u32, step: u32, bound: u32) -> (String, i64) {
    let shift = step.trailing_zeros();
    let from = i64::from(from);
    let detour = 4 * i64::from(random.below(4096));
    match random.below(8) {
        0 | 1 => (
            format!("mul.wide.u32 %u0, %t0, {step}; add.s64 %u0, {base}, %u0; "),
            from,
        ),
        2 => (format!("mad.wide.s32 %u0, %t0, {step}, {base}; "), from),
        3 => (
            format!(
                "cvt.u64.u32 %u0, %t0; shl.b64 %u0, %u0, {shift}; add.u64 %u0, %u0, {base}; add.u64 %u0, %u0, {};",
                from + detour
            ),
            -detour,
        ),
        4 => (
            format!(
                "shl.b32 %t1, %t0, {shift}; sub.u32 %t1, %t1, {detour}; cvt.s64.s32 %u0, %t1; add.s64 %u0, {base}, %u0; "
            ),
            from + detour,
        ),
        // The offset wraps for the first threads, so accesses are not provably contiguous.
        5 if bound < u32::MAX => (
            format!(
                "shl.b32 %t1, %t0, {shift}; sub.u32 %t1, %t1, {detour}; cvt.u64.u32 %u0, %t1; and.b64 %u0, %u0, {}; add.s64 %u0, {base}, %u0; ",
                INPUT_SECTION - step.max(4)
            ),
            from,
        ),
        6 => (
            format!(
                "mul.lo.u32 %t1, %t0, {step}; add.u32 %t1, %t1, 0x80000000; add.u32 %t1, %t1, 0x80000000; cvt.u64.u32 %u0, %t1; add.s64 %u0, %u0, {base}; "
            ),
            from,
        ),
        _ => (
            format!(
                "mul.wide.u32 %u0, %t0, {step}; sub.s64 %u0, %u0, {detour}; add.s64 %u0, {base}, %u0; "
            ),
            from + detour,
        ),
    }
}

/// Generates a load from constant memory or from a parameter. The address is equal for all threads
/// or, for a table in constant memory, different.
pub(super) fn constant_load(random: &mut Random, operands: &Operands<'_>) -> String {
    let target = register('r', random);
    let r = source('r', random, operands);
    match random.below(4) {
        0 => format!("ld.const.u32 {target}, [table+{}];", 4 * random.below(64)),
        1 => format!("ld.param.u32 {target}, [s];"),
        2 => format!("ld.param.f32 {}, [x];", register('f', random)),
        _ => format!(
            "and.b32 %t0, {r}, 63; shl.b32 %t0, %t0, 2; cvt.u64.u32 %u0, %t0; mov.u64 %u1, table; add.u64 %u0, %u0, %u1; ld.const.u32 {target}, [%u0];"
        ),
    }
}

impl Memory<'_> {
    /// Generates a load or store of a cell in the results that belongs to the thread.
    pub(super) fn own(&self, random: &mut Random, operands: &Operands<'_>) -> String {
        let side_by_side: [(&Section, u32, char, &str, u32); 4] = [
            (&self.layout.words, 4, 'r', "b32", 4),
            (&self.layout.floats, 4, 'f', "f32", 4),
            (&self.layout.doubles, 8, 'e', "f64", 2),
            (&self.layout.halves, 2, 'g', "b16", 4),
        ];
        let (text, ty, letter, offset) = match random.below(3) {
            0 => self.integers(random, operands),
            1 => {
                let slot = self.slot(random, operands, 4);
                let offset = i64::from(self.layout.quads.offset);
                let text = format!(
                    "{slot}shl.b32 %t0, %t0, 2; mad.lo.u32 %t0, %gid, 16, %t0; cvt.u64.u32 %u0, %t0; add.s64 %u0, %u0, %out; "
                );
                (text, "f32", 'f', offset)
            }
            _ => {
                let (section, bytes, letter, ty, slots) = *random.pick(&side_by_side);
                let slot = self.slot(random, operands, slots);
                let literal = self.all_threads.to_string();
                let threads = *random.pick(&[literal.as_str(), "%n"]);
                let (address, offset) = address(random, "%out", section.offset, bytes, u32::MAX);
                let text = format!("{slot}mad.lo.u32 %t0, %t0, {threads}, %gid; {address}");
                (text, ty, letter, offset)
            }
        };
        let space = *random.pick(&[".global", ".global", ""]);
        if random.chance(60) {
            let value = match letter {
                'r' => source('r', random, operands),
                _ => register(letter, random),
            };
            format!("{text}st{space}.{ty} [%u0+{offset}], {value};")
        } else {
            let target = register(letter, random);
            format!("{text}ld{space}.{ty} {target}, [%u0+{offset}];")
        }
    }

    /// Generates instructions that write a number below `slots` to `%t0`.
    fn slot(&self, random: &mut Random, operands: &Operands<'_>, slots: u32) -> String {
        if random.chance(60) {
            format!("mov.u32 %t0, {}; ", random.below(slots))
        } else {
            let r = source('r', random, operands);
            format!("and.b32 %t0, {r}, {}; ", slots - 1)
        }
    }

    /// Generates an address in the thread's 32 bytes for integers.
    fn integers(
        &self,
        random: &mut Random,
        operands: &Operands<'_>,
    ) -> (String, &'static str, char, i64) {
        let (ty, bytes, letter, _) = *random.pick(&INTEGERS);
        // A load or store of `s32` with a 64-bit register would convert the value, so a 32-bit register is used.
        let (ty, letter) = match (ty, letter) {
            ("s32", 'd') => ("s32", 'r'),
            other => other,
        };
        let slot = self.slot(random, operands, 32 / bytes);
        let text = format!(
            "{slot}mad.lo.u32 %t0, %t0, {bytes}, 0; mad.lo.u32 %t0, %gid, 32, %t0; cvt.u64.u32 %u0, %t0; add.s64 %u0, %u0, %out; "
        );
        (text, ty, letter, i64::from(self.layout.integers.offset))
    }

    /// Generates an atomic operation on an accumulator that all threads of the grid share.
    pub(super) fn reduce(&self, random: &mut Random, operands: &Operands<'_>) -> String {
        let cell = match random.below(4) {
            0 => format!("mov.u32 %t0, {}; ", random.below(ACCUMULATORS)),
            1 => "and.b32 %t0, %lane, 15; ".to_owned(),
            2 => "and.b32 %t0, %w0, 15; ".to_owned(),
            _ => format!("and.b32 %t0, {}, 15; ", source('r', random, operands)),
        };
        let wide = random.chance(25);
        let (count, bytes, section) = if wide {
            (WIDE_REDUCTIONS.len(), 8, &self.layout.wide_accumulators)
        } else {
            (REDUCTIONS.len(), 4, &self.layout.accumulators)
        };
        let which = random.below(count as u32);
        let from = section.offset + which * ACCUMULATORS * bytes;
        let (operation, ty) = if wide {
            WIDE_REDUCTIONS[which as usize]
        } else {
            REDUCTIONS[which as usize]
        };
        let value = match (wide, random.chance(20)) {
            (_, true) => "1".to_owned(),
            (true, _) => register('d', random),
            (false, _) => source('r', random, operands),
        };
        let scope = *random.pick(&["", ".gpu", ".sys"]);
        let order = if scope.is_empty() { "" } else { ".relaxed" };
        let place = format!(
            "{cell}mad.lo.u32 %t0, %t0, {bytes}, {from}; cvt.u64.u32 %u0, %t0; add.s64 %u0, %u0, %out; "
        );
        if random.chance(50) {
            format!("{place}red{order}{scope}.global.{operation}.{ty} [%u0], {value};")
        } else if wide {
            format!("{place}atom{order}{scope}.global.{operation}.{ty} %u1, [%u0], {value};")
        } else {
            format!("{place}atom{order}{scope}.global.{operation}.{ty} %t1, [%u0], {value};")
        }
    }
}

/// Generates an atomic operation on an accumulator of the CTA, or a load or store of the thread's own shared or local
/// memory.
pub(super) fn window(random: &mut Random, operands: &Operands<'_>) -> String {
    let r = source('r', random, operands);
    let target = register('r', random);
    let slot = if random.chance(50) {
        format!("mov.u32 %t0, {}; ", random.below(4))
    } else {
        format!("and.b32 %t0, {r}, 3; ")
    };
    let shared = format!(
        "{slot}shl.b32 %t0, %t0, 2; mad.lo.u32 %t0, %lin, 16, %t0; mov.u32 %t1, own; add.u32 %t0, %t0, %t1; "
    );
    let wrapped = format!("{shared}add.u32 %t0, %t0, 0xfffff000; ");
    let local = format!(
        "{slot}mad.lo.u32 %t0, %t0, 4, 0; cvt.u64.u32 %u0, %t0; mov.u64 %u1, mine; add.u64 %u0, %u0, %u1; "
    );
    match random.below(8) {
        0 => format!("{shared}st.shared.b32 [%t0], {r};"),
        1 => format!("{wrapped}st.shared.b32 [%t0+4096], {r};"),
        2 => format!("{shared}ld.shared.u32 {target}, [%t0];"),
        3 => format!("{wrapped}ld.shared.b32 {target}, [%t0+4096];"),
        4 => format!(
            "{shared}cvt.u64.u32 %u0, %t0; cvta.shared.u64 %u0, %u0; ld.u32 {target}, [%u0];"
        ),
        5 => format!("{local}st.local.b32 [%u0], {r};"),
        6 => format!("{local}ld.local.b32 {target}, [%u0];"),
        _ => format!(
            "and.b32 %t0, {r}, 15; shl.b32 %t0, %t0, 2; mov.u32 %t1, sums; add.u32 %t0, %t0, %t1; red.shared.add.u32 [%t0], {};",
            source('r', random, operands)
        ),
    }
}
