//! Loads, stores, atomic operations, fences and asynchronous copies.

use margay::observe::TextOperandKind;

use super::Subject;
use super::opcode::{Class, Type, Words};
use super::step::{Memory, Step, Steps, Uses, access, bare, nothing, one, step, words};

/// Returns the lines of an instruction that accesses memory or orders accesses.
pub(super) fn steps(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    Some(match op.head {
        "ld" | "ldu" => load(op),
        "st" if op.has("async") => return None,
        "st" => store(op),
        "atom" => atomic(subject),
        "red" if op.has("async") => return None,
        "red" => Steps::from_iter([reduction(op)]),
        "cp" => return copy(subject),
        "mbarrier" => mbarrier(op),
        "membar" | "fence" => fence(op),
        "prefetch" | "prefetchu" | "discard" | "applypriority" => bare("CCTL"),
        "ldmatrix" => ldmatrix(subject),
        "stmatrix" => matrices(op, "STS", false),
        _ => return None,
    })
}

/// The space that an instruction names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Constant,
    Parameter,
}

fn space(op: &Words<'_>) -> Space {
    for word in op.all() {
        let name = word.split("::").next().unwrap_or("");
        match name {
            "global" => return Space::Global,
            "shared" => return Space::Shared,
            "local" => return Space::Local,
            "const" => return Space::Constant,
            "param" => return Space::Parameter,
            _ => {}
        }
    }
    Space::Generic
}

/// The words that state the width of an access of one lane; empty for 32 bits.
fn width(ty: Type, elements: u32) -> &'static str {
    match (ty.bits * elements, ty.class) {
        (..=8, Class::Signed) => ".S8",
        (..=8, _) => ".U8",
        (16, Class::Signed) => ".S16",
        (16, _) => ".U16",
        (..=32, _) => "",
        (64, _) => ".64",
        (128, _) => ".128",
        _ => ".256",
    }
}

/// The words that state the memory order and the scope of an access.
fn strength(op: &Words<'_>) -> &'static str {
    match () {
        () if op.has_any(&["volatile", "mmio"]) => ".STRONG.SYS",
        () if op.has_any(&["relaxed", "acquire", "release", "acq_rel"]) => match () {
            () if op.has("sys") => ".STRONG.SYS",
            () if op.has("cta") => ".STRONG.SM",
            () => ".STRONG.GPU",
        },
        () => "",
    }
}

fn load(op: &Words<'_>) -> Steps {
    let width = width(op.ty(), op.elements());
    let name = match space(op) {
        Space::Parameter => {
            let count = op.ty().words() * op.elements() as usize;
            return words(count, &["MOV"]);
        }
        Space::Constant => return one(format!("LDC{width}")),
        Space::Global => {
            let is_constant = op.has("nc") || op.head == "ldu";
            let constant = if is_constant { ".CONSTANT" } else { "" };
            format!("LDG.E{width}{constant}{}", strength(op))
        }
        Space::Shared => format!("LDS{width}"),
        Space::Local => format!("LDL{width}"),
        Space::Generic => format!("LD.E{width}{}", strength(op)),
    };
    Steps::from_iter([access(name, Memory::Any, true)])
}

fn store(op: &Words<'_>) -> Steps {
    let width = match width(op.ty(), op.elements()) {
        ".S8" => ".U8",
        ".S16" => ".U16",
        width => width,
    };
    let name = match space(op) {
        Space::Parameter => {
            let count = op.ty().words() * op.elements() as usize;
            return words(count, &["MOV"]);
        }
        Space::Global => format!("STG.E{width}{}", strength(op)),
        Space::Shared => format!("STS{width}"),
        Space::Local => format!("STL{width}"),
        Space::Generic | Space::Constant => format!("ST.E{width}{}", strength(op)),
    };
    Steps::from_iter([access(name, Memory::Any, false)])
}

/// The words that state the operation and the type of an atomic access, such as `.ADD.F32.FTZ.RN`.
fn operation(op: &Words<'_>) -> String {
    const OPERATIONS: [&str; 10] = [
        "add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor",
    ];
    let name = OPERATIONS.iter().find(|name| op.has(name));
    let name = name.map_or(String::new(), |name| format!(".{}", name.to_uppercase()));
    let ty = op.ty();
    let of_type = match (ty.class, ty.bits) {
        (Class::Float, 32) => ".F32.FTZ.RN",
        (Class::Float, _) => ".F64.RN",
        (Class::Half, _) => ".F16x2.RN",
        (Class::BFloat, _) => ".BF16_V2.RN",
        (Class::Signed, 32) => ".S32",
        (Class::Signed, 64) => ".S64",
        (_, 64) => ".64",
        (_, 128) => ".128",
        _ => "",
    };
    format!("{name}{of_type}")
}

fn scope(op: &Words<'_>) -> &'static str {
    match () {
        () if op.has("sys") => ".STRONG.SYS",
        () if op.has("cta") => ".STRONG.SM",
        () => ".STRONG.GPU",
    }
}

fn atomic(subject: &Subject<'_>) -> Steps {
    let op = &subject.words;
    let is_unused = subject
        .operands
        .first()
        .is_none_or(|operand| operand.registers.is_empty());
    if is_unused && space(op) == Space::Global {
        return Steps::from_iter([reduction(op)]);
    }
    let operation = operation(op);
    let name = match space(op) {
        Space::Shared => format!("ATOMS{operation}"),
        Space::Global => format!("ATOMG.E{operation}{}", scope(op)),
        _ => format!("ATOM.E{operation}{}", scope(op)),
    };
    Steps::from_iter([access(name, Memory::Any, true)])
}

fn reduction(op: &Words<'_>) -> Step {
    let operation = operation(op);
    let name = match space(op) {
        Space::Shared => format!("ATOMS{operation}"),
        Space::Global => format!("RED.E{operation}{}", scope(op)),
        _ => format!("ATOM.E{operation}{}", scope(op)),
    };
    access(name, Memory::Any, false)
}

/// Asynchronous copies that are not bulk copies.
fn copy(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    let is_ampere = subject.architecture.is_ampere();
    if op.has_any(&["bulk", "reduce", "reduce_async", "prefetch"]) || op.first() != "async" {
        return None;
    }
    Some(match () {
        () if op.has("mbarrier") => {
            Steps::from_iter([access("ATOMS.ARRIVE.64", Memory::Any, false)])
        }
        () if op.has("commit_group") && is_ampere => bare("LDGDEPBAR"),
        () if op.has_any(&["wait_group", "wait_all"]) && is_ampere => {
            let mut steps = bare("DEPBAR.LE");
            steps[0].has_immediate = true;
            steps
        }
        () if op.has_any(&["commit_group", "wait_group", "wait_all"]) => nothing(),
        () => {
            // The third operand is the number of bytes that each lane copies.
            let bytes = subject.operands.get(2).map(|operand| &operand.kind);
            let width = match bytes {
                Some(TextOperandKind::Constant(8)) => ".64",
                Some(TextOperandKind::Constant(16)) => ".128",
                _ => "",
            };
            let bypass = if op.has("cg") { ".BYPASS" } else { "" };
            match is_ampere {
                true => {
                    let name = format!("LDGSTS.E{bypass}{width}");
                    Steps::from_iter([access(name, Memory::Global, false)])
                }
                false => Steps::from_iter([
                    access(format!("LDG.E{width}"), Memory::Global, false),
                    access(format!("STS{width}"), Memory::Shared, false),
                ]),
            }
        }
    })
}

fn mbarrier(op: &Words<'_>) -> Steps {
    let writes = !op.has_any(&["init", "inval", "expect_tx", "complete_tx"]);
    let name = match op.first() {
        "init" | "inval" => return Steps::from_iter([access("STS.64", Memory::Any, false)]),
        "test_wait" | "try_wait" => return Steps::from_iter([access("LDS.64", Memory::Any, true)]),
        "pending_count" => return one("LOP3.LUT"),
        _ => "ATOMS.ARRIVE.64",
    };
    Steps::from_iter([access(name, Memory::Any, writes)])
}

fn fence(op: &Words<'_>) -> Steps {
    let kind = if op.has("acq_rel") { "ALL" } else { "SC" };
    let scope = match () {
        () if op.has_any(&["sys", "cluster"]) => "SYS",
        () if op.has_any(&["gpu", "gl"]) => "GPU",
        () => "CTA",
    };
    let mut steps = bare(format!("MEMBAR.{kind}.{scope}"));
    if scope != "CTA" {
        steps.push(bare("ERRBAR").remove(0));
    }
    steps
}

fn ldmatrix(subject: &Subject<'_>) -> Steps {
    let op = &subject.words;
    if !subject.architecture.is_turing() {
        return matrices(op, "LDS", true);
    }
    let transposed = if op.has("trans") { "MT88" } else { "M88" };
    let count = match () {
        () if op.has("x4") => ".4",
        () if op.has("x2") => ".2",
        () => "",
    };
    let name = format!("LDSM.16.{transposed}{count}");
    Steps::from_iter([access(name, Memory::Any, true)])
}

/// A line for each matrix.
fn matrices(op: &Words<'_>, name: &'static str, writes: bool) -> Steps {
    let count = match () {
        () if op.has("x4") => 4,
        () if op.has("x2") => 2,
        () => 1,
    };
    let parts = (0..count).map(|number| Step {
        uses: Uses::Word(number),
        memory: Some(Memory::Part { number, count }),
        writes,
        ..step(name)
    });
    parts.collect()
}
