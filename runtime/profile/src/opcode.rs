//! Classes of PTX instructions, and the number of floating-point operations that each performs.
//!
//! The input is an opcode with its modifiers as the PTX text spells it, such as `fma.rn.f32`.

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Arithmetic on floating-point numbers.
    Float,
    /// Matrix products (`mma`, `wmma.mma`, `wgmma.mma_async`).
    Matrix,
    /// Arithmetic and logic on integers and predicates.
    Integer,
    /// Conversions between types (`cvt`).
    Conversion,
    /// Comparisons (`setp`, `set`).
    Comparison,
    /// Copies of registers, selections and conversions of addresses (`mov`, `selp`, `cvta`).
    Move,
    /// Loads, including matrix loads and textures.
    Load,
    /// Stores.
    Store,
    /// Atomic operations and reductions in memory (`atom`, `red`).
    Atomic,
    /// Asynchronous copies (`cp.async`).
    Copy,
    /// Branches, calls, returns and exits.
    Control,
    /// Barriers, fences and operations on mbarriers.
    Synchronisation,
    /// Exchanges between the lanes of a warp (`shfl`, `vote`, `match`, `redux`).
    Warp,
    /// All other instructions.
    Other,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 14] = [
        Class::Float,
        Class::Matrix,
        Class::Integer,
        Class::Conversion,
        Class::Comparison,
        Class::Move,
        Class::Load,
        Class::Store,
        Class::Atomic,
        Class::Copy,
        Class::Control,
        Class::Synchronisation,
        Class::Warp,
        Class::Other,
    ];

    /// Returns the name of the class, for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Float => "float",
            Class::Matrix => "matrix",
            Class::Integer => "integer",
            Class::Conversion => "conversion",
            Class::Comparison => "comparison",
            Class::Move => "move",
            Class::Load => "load",
            Class::Store => "store",
            Class::Atomic => "atomic",
            Class::Copy => "copy",
            Class::Control => "control",
            Class::Synchronisation => "synchronisation",
            Class::Warp => "warp",
            Class::Other => "other",
        }
    }

    /// Returns the class of an opcode.
    pub fn of(opcode: &str) -> Class {
        let mut parts = opcode.split('.');
        let name = parts.next().unwrap_or_default();
        match name {
            "mma" | "wgmma" if has(opcode, "fence") || has(opcode, "commit_group") => {
                Class::Synchronisation
            }
            "wgmma" if has(opcode, "wait_group") => Class::Synchronisation,
            "mma" | "wgmma" => Class::Matrix,
            "wmma" if has(opcode, "load") => Class::Load,
            "wmma" if has(opcode, "store") => Class::Store,
            "wmma" => Class::Matrix,
            "cvt" | "cvt_pack" => Class::Conversion,
            "setp" | "set" | "testp" => Class::Comparison,
            "mov" | "movmatrix" | "selp" | "slct" | "cvta" | "isspacep" | "mapa" | "getctarank"
            | "prmt" | "istypep" | "createpolicy" => Class::Move,
            "ld" | "ldu" | "ldmatrix" | "tex" | "tld4" | "suld" | "txq" | "suq" => Class::Load,
            "st" | "stmatrix" | "sust" => Class::Store,
            "atom" | "red" | "sured" | "multimem" => Class::Atomic,
            "cp" if has(opcode, "commit_group")
                || has(opcode, "wait_group")
                || has(opcode, "wait_all") =>
            {
                Class::Synchronisation
            }
            "cp" if has(opcode, "mbarrier") => Class::Synchronisation,
            "cp" => Class::Copy,
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" => Class::Control,
            "bar" | "barrier" | "membar" | "fence" | "mbarrier" | "griddepcontrol"
            | "nanosleep" => Class::Synchronisation,
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => Class::Warp,
            "copysign" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" => {
                Class::Float
            }
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "abs" | "neg" | "min" | "max" => {
                match precision(opcode) {
                    Some(_) => Class::Float,
                    None => Class::Integer,
                }
            }
            "addc" | "subc" | "madc" | "mul24" | "mad24" | "sad" | "rem" | "popc" | "clz"
            | "bfind" | "fns" | "brev" | "bfe" | "bfi" | "szext" | "bmsk" | "dp4a" | "dp2a"
            | "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shf" | "shl" | "shr" => {
                Class::Integer
            }
            video if video.starts_with('v') => Class::Integer,
            _ => Class::Other,
        }
    }
}

/// The precision of floating-point operations: the type of the operands, for matrix products that of the factors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Precision {
    /// Formats of fewer than 16 bits.
    Small,
    /// `f16`.
    F16,
    /// `bf16`.
    Bf16,
    /// `tf32`, in matrix products only.
    Tf32,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Precision; 6] = [
        Precision::Small,
        Precision::F16,
        Precision::Bf16,
        Precision::Tf32,
        Precision::F32,
        Precision::F64,
    ];

    /// Returns the name of the precision, for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Small => "fp8",
            Precision::F16 => "f16",
            Precision::Bf16 => "bf16",
            Precision::Tf32 => "tf32",
            Precision::F32 => "f32",
            Precision::F64 => "f64",
        }
    }

    /// Returns the precision that a type modifier names, and the number of elements of the type.
    fn of(part: &str) -> Option<(Precision, u64)> {
        Some(match part {
            "f16" => (Precision::F16, 1),
            "f16x2" => (Precision::F16, 2),
            "bf16" => (Precision::Bf16, 1),
            "bf16x2" => (Precision::Bf16, 2),
            "tf32" => (Precision::Tf32, 1),
            "f32" => (Precision::F32, 1),
            "f32x2" => (Precision::F32, 2),
            "f64" => (Precision::F64, 1),
            "e4m3" | "e5m2" | "e3m2" | "e2m3" | "e2m1" => (Precision::Small, 1),
            _ => return None,
        })
    }
}

/// Returns whether `part` is one of the modifiers of an opcode.
fn has(opcode: &str, part: &str) -> bool {
    opcode.split(['.', ':']).any(|other| other == part)
}

fn precision(opcode: &str) -> Option<(Precision, u64)> {
    opcode.split('.').skip(1).find_map(Precision::of)
}

/// Returns the precision and the number of floating-point operations that an instruction performs in each lane; `None`
/// if it performs none. An addition, subtraction, multiplication, division, root, reciprocal or transcendental function
/// counts as one operation, a fused multiply-add as two. Comparisons, minima, maxima, changes of the sign and
/// conversions do not count.
pub fn lane_operations(opcode: &str) -> Option<(Precision, u64)> {
    if Class::of(opcode) != Class::Float {
        return None;
    }
    let name = opcode.split('.').next()?;
    let count = match name {
        "add" | "sub" | "mul" | "div" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2"
        | "ex2" | "tanh" => 1,
        "fma" | "mad" => 2,
        _ => return None,
    };
    // `fma.rn.f32.f16` computes in the first type.
    let (precision, elements) = precision(opcode)?;
    Some((precision, count * elements))
}

/// Returns the precision and the number of floating-point operations that a matrix product performs in one warp (in one
/// warpgroup for `wgmma`): `2 m n k`, and half as many if one factor is sparse (`.sp`). Returns `None` for other
/// instructions and for matrices of integers.
pub fn warp_operations(opcode: &str) -> Option<(Precision, u64)> {
    if Class::of(opcode) != Class::Matrix {
        return None;
    }
    let [m, n, k] = opcode.split('.').find_map(shape)?;
    // The types are those of D, A, B and C. If A's type is not stated (`wmma`), it is `f16`.
    let types: Vec<Precision> = opcode
        .split('.')
        .filter_map(Precision::of)
        .map(|(precision, _)| precision)
        .collect();
    let precision = match types[..] {
        [] => return None,
        [one] => one,
        [_, _] if opcode.starts_with("wmma") => Precision::F16,
        [_, factor, ..] => factor,
    };
    let operations = 2 * m * n * k;
    Some((
        precision,
        if has(opcode, "sp") {
            operations / 2
        } else {
            operations
        },
    ))
}

/// Returns the dimensions that a modifier such as `m16n8k16` states.
fn shape(part: &str) -> Option<[u64; 3]> {
    let (m, rest) = part.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_decides_between_float_and_integer() {
        assert_eq!(Class::of("add.rn.f32"), Class::Float);
        assert_eq!(Class::of("add.s32"), Class::Integer);
        assert_eq!(Class::of("mul.wide.u32"), Class::Integer);
        assert_eq!(Class::of("max.bf16x2"), Class::Float);
        assert_eq!(Class::of("vadd4.s32.s32.s32"), Class::Integer);
        assert_eq!(Class::of("setp.lt.f64"), Class::Comparison);
    }

    #[test]
    fn memory_and_synchronisation_have_classes() {
        assert_eq!(Class::of("ld.global.nc.v4.f32"), Class::Load);
        assert_eq!(
            Class::of("wmma.load.a.sync.aligned.row.m16n16k16.f16"),
            Class::Load
        );
        assert_eq!(Class::of("atom.global.add.f32"), Class::Atomic);
        assert_eq!(Class::of("cp.async.cg.shared.global"), Class::Copy);
        assert_eq!(Class::of("cp.async.wait_group"), Class::Synchronisation);
        assert_eq!(Class::of("bar.sync"), Class::Synchronisation);
        assert_eq!(Class::of("shfl.sync.down.b32"), Class::Warp);
        assert_eq!(Class::of("bra.uni"), Class::Control);
        assert_eq!(Class::of("pmevent"), Class::Other);
    }

    #[test]
    fn a_fused_operation_counts_twice() {
        assert_eq!(lane_operations("fma.rn.f32"), Some((Precision::F32, 2)));
        assert_eq!(lane_operations("add.rn.f64"), Some((Precision::F64, 1)));
        assert_eq!(lane_operations("fma.rn.bf16x2"), Some((Precision::Bf16, 4)));
        assert_eq!(
            lane_operations("rsqrt.approx.ftz.f32"),
            Some((Precision::F32, 1))
        );
        assert_eq!(lane_operations("max.f32"), None);
        assert_eq!(lane_operations("add.s32"), None);
        assert_eq!(lane_operations("cvt.rn.f32.s32"), None);
    }

    #[test]
    fn matrix_products_count_multiplications_and_additions() {
        let dense = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
        assert_eq!(
            warp_operations(dense),
            Some((Precision::F16, 2 * 16 * 8 * 16))
        );
        let sparse = "mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32";
        assert_eq!(
            warp_operations(sparse),
            Some((Precision::Bf16, 16 * 8 * 32))
        );
        let wmma = "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32";
        assert_eq!(
            warp_operations(wmma),
            Some((Precision::F16, 2 * 16 * 16 * 16))
        );
        let double = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64";
        assert_eq!(
            warp_operations(double),
            Some((Precision::F64, 2 * 8 * 8 * 4))
        );
        let integers = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32";
        assert_eq!(warp_operations(integers), None);
        assert_eq!(warp_operations("fma.rn.f32"), None);
    }
}
