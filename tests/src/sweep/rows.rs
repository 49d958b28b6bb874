//! The table of the instructions that sweeps run.

use super::approx::{self, Approximation, Function};
use super::exact::{self, Modifiers, Narrowing};
use super::format::{Format, Mode};
use super::kernel::{Held, Instruction};
use super::oracle::{self, Operation};
use super::tally::{Region, Tally, Unit};
use super::{Check, doubles};

/// The inputs with which a row's instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Every `f32` value. If not all inputs run, the sample also includes the rounding boundaries
    /// of this format.
    Every(Option<Format>),
    /// The rounding boundaries of this format, the limits of ranges, and `f32` values at equal
    /// distances.
    Strided(Option<Format>),
    /// All 16-bit values.
    Halves,
    /// Pairs of 16-bit values. Every value occurs in the lower half and in the upper half.
    HalfPairs,
    /// Pairs of `f32`.
    Pairs,
    /// Pairs of `f32` at the rounding boundaries of a format.
    BoundaryPairs(Format),
    /// Triples of `f32`.
    Triples,
    /// One, two or three `f64` operands, as many as the instruction has.
    Doubles,
}

/// An instruction, its inputs and its checker.
pub struct Row {
    /// The instruction.
    pub instruction: Instruction,
    /// The inputs of the instruction.
    pub inputs: Inputs,
    /// The regions of operands ([`Region`]) with their error bounds; empty if the ISA defines the
    /// exact bits of the results.
    pub regions: &'static [Region],
    /// The checker of the results.
    pub check: Check,
}

impl Row {
    fn new(name: &str, operands: &[Held], result: Held, inputs: Inputs, check: Check) -> Row {
        Row {
            instruction: Instruction {
                name: name.to_owned(),
                operands: operands.to_vec(),
                result,
                target: ("8.8", "sm_100a"),
            },
            inputs,
            regions: &[],
            check,
        }
    }

    fn bounded(mut self, regions: &'static [Region]) -> Row {
        self.regions = regions;
        self
    }

    /// Returns the instruction's name.
    pub fn name(&self) -> &str {
        &self.instruction.name
    }
}

const F32: Held = Held::Float(32);
const F64: Held = Held::Float(64);
const B8: Held = Held::Bits(8);
const B16: Held = Held::Bits(16);
const B32: Held = Held::Bits(32);
const B64: Held = Held::Bits(64);

/// Whether an instruction has the modifier `.ftz`, and the text of this modifier.
const FLUSHING: [(bool, &str); 2] = [(false, ""), (true, ".ftz")];

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    let mut rows = approximate();
    rows.extend(halves());
    rows.extend(starts());
    rows.extend(rounded());
    rows.extend(integers());
    rows.extend(integral());
    rows.extend(narrow());
    rows.extend(small());
    rows.extend(arithmetic());
    rows
}

fn approximate() -> Vec<Row> {
    use approx::{Cos, Ex2, Lg2, Rcp, Rsqrt, Sin, Sqrt, Tanh};
    let mut rows = vec![approximation(Tanh, false)];
    for flush in [false, true] {
        rows.extend([
            approximation(Ex2, flush),
            approximation(Lg2, flush),
            approximation(Sin, flush),
            approximation(Cos, flush),
            approximation(Rcp, flush),
            approximation(Sqrt, flush),
            approximation(Rsqrt, flush),
        ]);
    }
    for (precision, limit) in [("approx", true), ("full", false)] {
        for (ftz, suffix) in FLUSHING {
            let name = format!("div.{precision}{suffix}.f32");
            let check = quotient(ftz, limit);
            let row = Row::new(&name, &[F32, F32], F32, Inputs::Pairs, check);
            rows.push(row.bounded(QUOTIENT));
        }
    }
    rows
}

/// Returns the row of an approximate function of `f32`.
fn approximation<F: Function>(function: F, flush: bool) -> Row {
    let format = Format::F32;
    let suffix = if flush { ".ftz" } else { "" };
    let name = format!("{}.approx{suffix}.f32", F::NAME);
    let check = Approximation {
        function,
        format,
        flush,
    };
    let row = Row::new(&name, &[F32], F32, Inputs::Every(None), check.check());
    row.bounded(approx::regions::<F>(format))
}

const QUOTIENT: &[Region] = &[Region {
    about: "all",
    bound: 2.0,
    unit: Unit::Ulp,
    stated: true,
}];

/// Returns a checker of `div.approx` and `div.full`. If `limit` is true, the result for a finite
/// divisor whose magnitude is greater than 2^126 must be the result for an infinite divisor.
fn quotient(ftz: bool, limit: bool) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let operand = |at: usize| {
            let x = f32::from_bits(inputs[at] as u32);
            if ftz && x.is_subnormal() {
                0f32.copysign(x)
            } else {
                x
            }
        };
        let (a, b) = (operand(0), operand(1));
        let value = f32::from_bits(got as u32);
        let beyond = limit && b.is_finite() && b.abs() > 2f32.powi(126);
        let divisor = if beyond { f32::INFINITY.copysign(b) } else { b };
        let exact = f64::from(a) / f64::from(divisor);
        let least = f64::from(f32::MIN_POSITIVE);
        let special = exact == 0.0 || !exact.is_finite();
        if special || ftz && exact.abs() < least {
            let wanted = if special { exact } else { 0f64.copysign(exact) } as f32;
            let same = wanted.to_bits() == value.to_bits() || wanted.is_nan() && value.is_nan();
            // Near the least normal number, the error of the function can make the result normal.
            let beside = ftz && exact.abs() > least * 0.999_999 && value.abs() == f32::MIN_POSITIVE;
            return tally.expect(same || beside, inputs, got, "a special case");
        }
        let limit = Format::F32.value(Format::F32.end());
        let exact = exact.clamp(-limit, limit);
        let error = Format::F32.signed(got) - exact;
        if ftz && value == 0.0 && exact.abs() < least * 1.000_001 {
            return;
        }
        tally.error(
            0,
            approx::units(Format::F32, error.abs(), exact),
            inputs,
            got,
        );
    })
}

fn halves() -> Vec<Row> {
    use approx::{Ex2, Tanh};
    let mut rows = Vec::new();
    rows.extend(half(|| Ex2, Format::F16, false, "ex2.approx.f16"));
    rows.extend(half(|| Ex2, Format::BF16, true, "ex2.approx.ftz.bf16"));
    rows.extend(half(|| Tanh, Format::F16, false, "tanh.approx.f16"));
    rows.extend(half(|| Tanh, Format::BF16, false, "tanh.approx.bf16"));
    rows
}

/// Returns the rows of a function in a 16-bit format, for single values and for pairs.
fn half<F: Function>(function: fn() -> F, format: Format, flush: bool, name: &str) -> [Row; 2] {
    let regions = approx::regions::<F>(format);
    let approximation = || Approximation {
        function: function(),
        format,
        flush,
    };
    let check = approximation().check();
    let one = Row::new(name, &[B16], B16, Inputs::Halves, check);
    let check = approximation().check_pair();
    let pair = Row::new(&format!("{name}x2"), &[B32], B32, Inputs::HalfPairs, check);
    [one.bounded(regions), pair.bounded(regions)]
}

fn starts() -> Vec<Row> {
    let row = |name: &str, check| Row::new(name, &[F64], F64, Inputs::Doubles, check);
    let upper = doubles::upper_word;
    vec![
        row("rcp.approx.ftz.f64", upper(f64::recip)).bounded(doubles::UPPER),
        row("rsqrt.approx.ftz.f64", upper(|x| x.sqrt().recip())).bounded(doubles::UPPER),
        row("rsqrt.approx.f64", doubles::inverse_root()).bounded(doubles::ROOT),
    ]
}

/// Returns the rows of roots, reciprocals and quotients.
fn rounded() -> Vec<Row> {
    let mut rows = Vec::new();
    for (mode, direction) in Mode::ALL {
        for (ftz, suffix) in FLUSHING {
            let fast = mode == Mode::Nearest;
            let inputs = if fast {
                Inputs::Every(None)
            } else {
                Inputs::Strided(None)
            };
            let root = format!("sqrt.{direction}{suffix}.f32");
            rows.push(Row::new(&root, &[F32], F32, inputs, exact::root(mode, ftz)));
            let name = format!("rcp.{direction}{suffix}.f32");
            let check = exact::reciprocal(mode, ftz);
            rows.push(Row::new(&name, &[F32], F32, inputs, check));
            let name = format!("div.{direction}{suffix}.f32");
            let check = exact::quotient(mode, ftz);
            rows.push(Row::new(&name, &[F32, F32], F32, Inputs::Pairs, check));
        }
        let name = format!("sqrt.{direction}.f64");
        let check = doubles::root(mode);
        rows.push(Row::new(&name, &[F64], F64, Inputs::Doubles, check));
    }
    rows
}

/// Rounding directions of conversions to integers.
const INTEGRAL: [(Mode, &str); 4] = [
    (Mode::Nearest, "rni"),
    (Mode::Zero, "rzi"),
    (Mode::Down, "rmi"),
    (Mode::Up, "rpi"),
];

fn integers() -> Vec<Row> {
    let mut rows = Vec::new();
    for width in [8, 16, 32, 64] {
        for (signed, letter) in [(true, "s"), (false, "u")] {
            for (mode, direction) in INTEGRAL {
                for (ftz, suffix) in FLUSHING {
                    let name = format!("cvt.{direction}{suffix}.{letter}{width}.f32");
                    let held = if width == 64 { B64 } else { B32 };
                    let register = if width == 64 { 64 } else { 32 };
                    let check = exact::integer(width, signed, register, mode, ftz);
                    let common = matches!(mode, Mode::Nearest | Mode::Zero);
                    let inputs = match width >= 32 && !ftz && common {
                        true => Inputs::Every(None),
                        false => Inputs::Strided(None),
                    };
                    rows.push(Row::new(&name, &[F32], held, inputs, check));
                }
            }
        }
    }
    rows
}

/// Returns all combinations of `.ftz` and `.sat`, each with its text in the instruction's name.
fn clamping() -> Vec<(Modifiers, &'static str)> {
    let modifiers = |ftz, sat| Modifiers {
        ftz,
        sat,
        ..Modifiers::default()
    };
    vec![
        (modifiers(false, false), ""),
        (modifiers(true, false), ".ftz"),
        (modifiers(false, true), ".sat"),
        (modifiers(true, true), ".ftz.sat"),
    ]
}

fn integral() -> Vec<Row> {
    let mut rows = Vec::new();
    for (modifiers, text) in clamping() {
        let inputs = match text {
            "" => Inputs::Every(None),
            _ => Inputs::Strided(None),
        };
        for (mode, direction) in INTEGRAL {
            let name = format!("cvt.{direction}{text}.f32.f32");
            let check = exact::integral(mode, modifiers);
            rows.push(Row::new(&name, &[F32], F32, inputs, check));
        }
        let check = exact::same(modifiers);
        let name = format!("cvt{text}.f32.f32");
        rows.push(Row::new(&name, &[F32], F32, inputs, check));
        let check = exact::widened(modifiers);
        let name = format!("cvt{text}.f64.f32");
        rows.push(Row::new(&name, &[F32], F64, inputs, check));
    }
    rows
}

/// Returns the rows of conversions to 16 bits and to `tf32`.
fn narrow() -> Vec<Row> {
    let mut rows = Vec::new();
    for (format, ty) in [(Format::F16, "f16"), (Format::BF16, "bf16")] {
        let mut add = |name: String, mode, modifiers: Modifiers| {
            let narrowing = Narrowing {
                format,
                mode,
                modifiers,
            };
            let plain = Modifiers {
                ftz: false,
                ..modifiers
            };
            let fast = mode == Mode::Nearest && !(plain.sat || plain.relu || plain.satfinite);
            let inputs = match fast {
                true => Inputs::Every(Some(format)),
                false => Inputs::Strided(Some(format)),
            };
            rows.push(Row::new(&name, &[F32], B16, inputs, narrowing.check(0)));
        };
        for (mode, direction) in Mode::ALL {
            for (modifiers, text) in clamping() {
                add(format!("cvt.{direction}{text}.{ty}.f32"), mode, modifiers);
            }
        }
        for (modifiers, text) in finite() {
            for (mode, direction) in [(Mode::Nearest, "rn"), (Mode::Zero, "rz")] {
                add(format!("cvt.{direction}{text}.{ty}.f32"), mode, modifiers);
            }
        }
        for (mode, direction) in [(Mode::Nearest, "rn"), (Mode::Zero, "rz")] {
            let narrowing = Narrowing {
                format,
                mode,
                modifiers: Modifiers::default(),
            };
            let name = format!("cvt.{direction}.{ty}x2.f32");
            let inputs = Inputs::BoundaryPairs(format);
            rows.push(Row::new(
                &name,
                &[F32, F32],
                B32,
                inputs,
                narrowing.check_pair(16),
            ));
        }
    }
    for (mode, direction) in [
        (Mode::Away, "rna"),
        (Mode::Nearest, "rn"),
        (Mode::Zero, "rz"),
    ] {
        for satfinite in [false, true] {
            let narrowing = Narrowing {
                format: Format::TF32,
                mode,
                modifiers: Modifiers {
                    satfinite,
                    ..Modifiers::default()
                },
            };
            let text = if satfinite { ".satfinite" } else { "" };
            let name = format!("cvt.{direction}{text}.tf32.f32");
            let inputs = Inputs::Strided(Some(Format::BF16));
            rows.push(Row::new(&name, &[F32], B32, inputs, narrowing.check(13)));
        }
    }
    rows
}

/// Returns all combinations of `.relu` and `.satfinite` that have at least one of them, each with
/// its text in the instruction's name.
fn finite() -> Vec<(Modifiers, &'static str)> {
    let modifiers = |relu, satfinite| Modifiers {
        relu,
        satfinite,
        ..Modifiers::default()
    };
    vec![
        (modifiers(true, false), ".relu"),
        (modifiers(false, true), ".satfinite"),
        (modifiers(true, true), ".relu.satfinite"),
    ]
}

/// Returns the rows of conversions to pairs of 8, 6 and 4 bits.
fn small() -> Vec<Row> {
    let mut rows = Vec::new();
    for (format, ty, width) in [
        (Format::E4M3, "e4m3x2", 8),
        (Format::E5M2, "e5m2x2", 8),
        (Format::E2M3, "e2m3x2", 8),
        (Format::E3M2, "e3m2x2", 8),
        (Format::E2M1, "e2m1x2", 4),
    ] {
        for (mode, direction) in [(Mode::Nearest, "rn"), (Mode::Zero, "rz")] {
            for (relu, text) in [(false, ""), (true, ".relu")] {
                let narrowing = Narrowing {
                    format,
                    mode,
                    modifiers: Modifiers {
                        relu,
                        satfinite: true,
                        ..Modifiers::default()
                    },
                };
                let name = format!("cvt.{direction}.satfinite{text}.{ty}.f32");
                let held = if width == 4 { B8 } else { B16 };
                let inputs = Inputs::BoundaryPairs(format);
                let check = narrowing.check_pair(width);
                let mut row = Row::new(&name, &[F32, F32], held, inputs, check);
                if mode == Mode::Zero {
                    row.instruction.target = ("9.4", "sm_107a");
                }
                rows.push(row);
            }
        }
    }
    rows
}

fn arithmetic() -> Vec<Row> {
    use Operation::{Add, Div, Fma, Mul, Sub};
    let mut rows = Vec::new();
    for (mode, direction) in Mode::ALL {
        for (operation, word) in [(Add, "add"), (Sub, "sub"), (Mul, "mul"), (Fma, "fma")] {
            let fused = operation == Fma;
            for (ftz, suffix) in FLUSHING {
                let name = format!("{word}.{direction}{suffix}.f32");
                let check = oracle::single(operation, mode, ftz);
                let (count, inputs) = match fused {
                    true => (3, Inputs::Triples),
                    false => (2, Inputs::Pairs),
                };
                rows.push(Row::new(&name, &[F32; 3][..count], F32, inputs, check));
            }
        }
        for (operation, word, count) in [
            (Add, "add", 2),
            (Sub, "sub", 2),
            (Mul, "mul", 2),
            (Div, "div", 2),
            (Fma, "fma", 3),
        ] {
            let name = format!("{word}.{direction}.f64");
            let check = oracle::double(operation, mode);
            rows.push(Row::new(
                &name,
                &[F64; 3][..count],
                F64,
                Inputs::Doubles,
                check,
            ));
        }
        let name = format!("rcp.{direction}.f64");
        rows.push(Row::new(
            &name,
            &[F64],
            F64,
            Inputs::Doubles,
            reciprocal(mode),
        ));
    }
    rows
}

/// Returns a checker of `rcp.MODE.f64`. It compares the result with the quotient `1 / x`.
fn reciprocal(mode: Mode) -> Check {
    let quotient = oracle::double(Operation::Div, mode);
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        quotient.one(&[1f64.to_bits(), inputs[0]], got, tally);
    })
}
