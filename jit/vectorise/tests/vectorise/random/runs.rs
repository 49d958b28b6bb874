//! Random kernels whose CTAs may run together.

use margay_ir::builder::{FunctionBuilder, Variable};
use margay_ir::function::Function;
use margay_ir::pass::simplify;
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};
use margay_vectorise::runs_several_ctas;

use super::{COMMON, FLOATS, Generator, INTEGERS, LOW, OWN, Random, WIDE, desc};

/// Grids and blocks with whole chunks in each row.
pub(super) const SHAPES: [([u32; 3], [u32; 3], u32); 6] = [
    ([5, 1, 1], [8, 1, 1], 8),
    ([3, 2, 1], [16, 2, 1], 16),
    ([4, 1, 2], [24, 1, 1], 8),
    ([1, 3, 1], [32, 2, 2], 16),
    ([6, 1, 1], [32, 1, 1], 32),
    ([2, 2, 1], [64, 1, 2], 16),
];

/// Returns a random kernel whose CTAs may run together. It has one dimension of blocks besides x.
pub(super) fn kernel(mut b: FunctionBuilder, random: Random) -> Function {
    use SpecialReg as R;
    let [x, columns, cta, ctas] = [R::TidX, R::NtidX, R::CtaidX, R::NctaidX].map(|r| b.sreg(r));
    let mad = desc(Opcode::Mad, OpType::S32, LOW);
    let mul = desc(Opcode::Mul, OpType::S32, LOW);
    let column = b.op(mad, &[cta, columns, x], Type::B32);
    let width = b.op(mul, &[ctas, columns], Type::B32);
    // The index of the row of threads. The first row of each block is a multiple of the number of its rows.
    let mut row = b.constant(Type::B32, 0);
    for (size, next) in [
        (R::NctaidZ, R::CtaidZ),
        (R::NctaidY, R::CtaidY),
        (R::NtidZ, R::TidZ),
        (R::NtidY, R::TidY),
    ] {
        let [size, next] = [size, next].map(|r| b.sreg(r));
        row = b.op(mad, &[row, size, next], Type::B32);
    }
    let thread = b.op(mad, &[row, width, column], Type::B32);
    let at = b.payload(Opcode::ParamAddr, OpType::U64, 0, Type::B64);
    let param = Mods::NONE.with_space(StateSpace::Param);
    let memory = b.op(desc(Opcode::Ld, OpType::U64, param), &[at], Type::B64);
    let bytes = b.constant(Type::B32, u64::from(4 * OWN));
    let wide = desc(Opcode::Mul, OpType::S32, WIDE);
    let offset = b.op(wide, &[thread, bytes], Type::B64);
    let start = b.constant(Type::B64, u64::from(4 * COMMON));
    let own = b.simple(Opcode::Add, OpType::S64, &[memory, start]);
    let own = b.simple(Opcode::Add, OpType::S64, &[own, offset]);
    let integers: Vec<Variable> = (0..INTEGERS).map(|_| b.declare(Type::B32)).collect();
    let floats: Vec<Variable> = (0..FLOATS).map(|_| b.declare(Type::F32)).collect();
    let three = b.constant(Type::B32, 3);
    let least = b.constant(Type::B32, 0x8000_0002);
    let wrapping = b.simple(Opcode::Sub, OpType::U32, &[column, least]);
    for (&variable, value) in integers
        .iter()
        .zip([column, row, thread, width, three, wrapping])
    {
        b.write(variable, value);
    }
    let mut generator = Generator {
        b,
        random,
        integers,
        floats,
        loops: Vec::new(),
        thread,
        memory,
        own,
        local: own,
        has_generic: false,
        waits: false,
        is_free: true,
        cta,
        in_cta: thread,
        threads: width,
        budget: 40,
    };
    for _ in 0..5 {
        generator.statements(4);
        generator.store();
    }
    generator.b.end(Opcode::Exit, &[]);
    let mut function = generator.b.finish();
    simplify::run(&mut function);
    assert!(runs_several_ctas(&function));
    function
}
