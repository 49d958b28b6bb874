//! Floating-point arithmetic.

use super::Subject;
use super::integer::slct;
use super::opcode::{Class, Type, Words};
use super::step::{Architecture, Steps, chain, one, words};

/// Returns the lines of an instruction on floating-point numbers; `None` for others.
pub(super) fn steps(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    // The last type is that of the inputs. `selp` and `slct` name the type of the compared number last, too.
    let ty = op.ty();
    match (ty.class, ty.bits) {
        (Class::Float, 64) if !ty.is_packed => double(op),
        (Class::Float, _) => single(op, ty),
        (Class::Half, _) => half(op, subject.architecture, false),
        (Class::BFloat, _) => half(op, subject.architecture, true),
        _ => None,
    }
}

fn single(op: &Words<'_>, ty: Type) -> Option<Steps> {
    // `f32x2` has two numbers in a pair of registers.
    let count = ty.words();
    let all = |name: &'static str| words(count, &[name]);
    Some(match op.head {
        "add" | "sub" | "neg" | "abs" => all("FADD"),
        "mul" => all("FMUL"),
        "fma" | "mad" => all("FFMA"),
        "min" | "max" => all("FMNMX"),
        "setp" => one("FSETP"),
        "testp" => one("FSETP"),
        "set" => one("FSET.BF"),
        "selp" => one("FSEL"),
        "slct" => match op.types().next() {
            Some(result) if result.class == Class::Float && result.bits == 32 => {
                chain(&["FSETP", "FSEL"])
            }
            Some(result) => slct(result.words(), "FSETP"),
            None => slct(1, "FSETP"),
        },
        "copysign" => one("LOP3.LUT"),
        "rcp" if op.has("approx") => one("MUFU.RCP"),
        "rcp" => chain(&["MUFU.RCP", "FFMA", "FFMA"]),
        "sqrt" if op.has("approx") => one("MUFU.SQRT"),
        "sqrt" => chain(&["MUFU.RSQ", "FMUL", "FMUL", "FFMA", "FFMA"]),
        "rsqrt" => one("MUFU.RSQ"),
        "sin" => chain(&["FMUL", "MUFU.SIN"]),
        "cos" => chain(&["FMUL", "MUFU.COS"]),
        "ex2" => one("MUFU.EX2"),
        "lg2" => one("MUFU.LG2"),
        "tanh" => one("MUFU.TANH"),
        "div" if op.has_any(&["approx", "full"]) => chain(&["MUFU.RCP", "FMUL"]),
        "div" => quotient(),
        _ => return None,
    })
}

/// A division with correct rounding. The branch leads to a slow path, which the model never takes.
fn quotient() -> Steps {
    let mut steps = chain(&[
        "FCHK", "MUFU.RCP", "FFMA", "FFMA", "FFMA", "FFMA", "FFMA", "FFMA", "BRA",
    ]);
    steps[0].writes = false;
    steps[8].writes = false;
    steps[7].uses = super::Uses::Link {
        is_last: true,
        number: 7,
    };
    steps
}

fn double(op: &Words<'_>) -> Option<Steps> {
    let series = |first: &'static str| {
        let mut names = vec![first];
        names.extend(["DFMA"; 8]);
        chain(&names)
    };
    Some(match op.head {
        "add" | "sub" | "neg" | "abs" => one("DADD"),
        "mul" => one("DMUL"),
        "fma" | "mad" => one("DFMA"),
        "setp" | "testp" => one("DSETP"),
        "set" => chain(&["DSETP", "SEL"]),
        "min" | "max" => chain(&["DSETP", "FSEL", "FSEL"]),
        "selp" => words(2, &["FSEL"]),
        "copysign" => one("LOP3.LUT"),
        "rcp" if op.has("approx") => one("MUFU.RCP64H"),
        "rsqrt" if op.has("approx") => one("MUFU.RSQ64H"),
        "rcp" | "div" => series("MUFU.RCP64H"),
        "sqrt" | "rsqrt" => series("MUFU.RSQ64H"),
        _ => return None,
    })
}

fn half(op: &Words<'_>, architecture: Architecture, is_bfloat: bool) -> Option<Steps> {
    let bfloat = match (is_bfloat, architecture.is_ampere()) {
        (false, _) => None,
        (true, true) => Some("HFMA2.BF16_V2"),
        (true, false) => Some("HFMA2"),
    };
    // The types of `add.f32.bf16` and the like are those of the result and of an input.
    let is_mixed = op.types().any(|ty| ty.class == Class::Float);
    Some(match op.head {
        "add" | "sub" if is_mixed => one("FADD"),
        "fma" if is_mixed => one("FFMA"),
        "add" | "sub" => one(bfloat.unwrap_or("HADD2")),
        "mul" => one(bfloat.unwrap_or("HMUL2")),
        "fma" | "mad" => one(bfloat.unwrap_or("HFMA2")),
        "neg" | "abs" => one(bfloat.unwrap_or("HADD2")),
        "min" | "max" if architecture.is_ampere() => one("HMNMX2"),
        "min" | "max" => chain(&["HSETP2", "SEL"]),
        "setp" | "testp" => one("HSETP2"),
        "set" => one("HSET2"),
        "selp" => one("SEL"),
        "ex2" => one("MUFU.EX2"),
        "tanh" => one("MUFU.TANH"),
        _ => return None,
    })
}
