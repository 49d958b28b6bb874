//! Compares the native code of single operations with the reference functions of these operations
//! and with the literal tables of `margay-ops`, which contain operands and expected results that
//! were written by hand. Each head of the tables (an op with types and modifiers) becomes a device
//! function, which the test runs on the table's operands and on random operands. The test covers
//! both fast lowerings and the slow path.
//!
//! All NaNs count as equal: PTX does not define the bits of most NaNs, and fast lowerings return the NaNs that the
//! host's instructions produce.

#[path = "../../ir/ops/tests/support/mod.rs"]
mod support;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use margay_ir::builder::FunctionBuilder;
use margay_ir::function::{Function, Signature};
use margay_ir::module::Module;
use margay_ir::verify::{self, Stage};
use margay_jit::abi::{DeviceFn, Helpers, NativeContext};
use margay_jit::{CompiledKernel, Compiler};
use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::Half;
use margay_ops::ops::{Opcode, Pattern};
use margay_ops::types::{OpType, Type};

/// Lines of the table of literal cases for which the IR verifier refuses the function of the test,
/// because no instruction has their type, or because the type of an operand differs from [`Opcode::shape`]. Builds
/// without debug assertions do not call the verifier, so they run these lines too.
const REFUSED: [&str; 15] = [
    "abs.ue8m0",
    "cvt.pack.sat.s4.s32.b32",
    "cvt.pack.sat.u2.s32.b32",
    "cvt.pack.sat.u8.s32.b32",
    "cvt.rn.bf16x2.s2f6x2",
    "cvt.rn.pred.f32",
    "cvt.rn.satfinite.relu.s2f6x2.f32",
    "cvt.rn.satfinite.s2f6x2.f32",
    "cvt.rn.satfinite.scaled.bf16x2.s2f6x2",
    "cvt.rn.satfinite.scaled.s2f6x2.f32",
    "mad.rn.f32",
    "mad.rn.f64",
    "mad.rz.f32",
    "min.ue8m0",
    "rcp.s32",
];

/// Returns the type that a letter of an op's shape represents. `margay_ops::ops::Shape` lists the letters.
fn held(desc: &Desc, letter: char) -> Type {
    let mixed = desc.src != OpType::None;
    match letter {
        't' | 'x' => desc.ty.held(),
        's' => desc.src.held(),
        'm' if mixed => desc.src.held(),
        'm' => desc.ty.held(),
        'w' if desc.mods.half() == Half::Wide => desc.ty.widened().held(),
        'w' => desc.ty.held(),
        'p' | 'c' => Type::PRED,
        'b' => Type::B32,
        'q' => Type::B64,
        _ => panic!("{letter} stands for no operand of a pure op"),
    }
}

fn letter(letters: &str, index: usize) -> char {
    let mut each = letters.chars().filter(|&letter| letter != '?');
    each.nth(index)
        .expect("the shape has as many letters as the line has values")
}

/// Returns the type that holds operand `index`.
fn operand_type(desc: &Desc, index: usize) -> Type {
    match desc.opcode.shape().operands {
        Pattern::Letters(letters) => held(desc, letter(letters, index)),
        Pattern::Converted => cvt_operand(desc, index),
        _ => desc.src.held(),
    }
}

fn cvt_operand(desc: &Desc, index: usize) -> Type {
    let scalars = if desc.src.elements() < desc.ty.elements() {
        desc.ty.elements()
    } else {
        1
    };
    if index < scalars as usize {
        desc.src.held()
    } else {
        Type::B32
    }
}

/// Returns the type that holds result `index`.
fn result_type(desc: &Desc, index: usize) -> Type {
    match desc.opcode.shape().results {
        Pattern::Letters(letters) => held(desc, letter(letters, index)),
        _ => desc.ty.held(),
    }
}

/// Builds a device function that computes one operation of its parameters. Parameters for which `fixed` returns a value
/// become constants. If debug assertions are on, the verifier checks the function after each pass, and `function_of`
/// returns `None` if the verifier refuses the operation's types or operands.
fn function_of(
    desc: Desc,
    params: &[Type],
    returns: &[Type],
    fixed: impl Fn(usize) -> Option<u64>,
) -> Option<CompiledKernel> {
    let signature = Signature {
        params: params.to_vec(),
        returns: returns.to_vec(),
    };
    let function = Function {
        name: "op".into(),
        signature,
        ..Function::default()
    };
    let mut builder = FunctionBuilder::new(function);
    let entry = builder.function.entry();
    let mut args = builder.function.dfg.blocks[entry].params.clone();
    for (i, arg) in args.iter_mut().enumerate() {
        if let Some(bits) = fixed(i) {
            *arg = builder.constant(params[i], bits);
        }
    }
    let inst = builder.inst(desc, &args, returns);
    let results = builder.function.dfg.results(inst).to_vec();
    builder.end(Opcode::Ret, &results);
    let mut module = Module::default();
    let id = module.add_function(builder.finish());
    let problems = verify::function(&module, &module.functions[id], Stage::Lowered);
    (problems.is_empty() || !cfg!(debug_assertions))
        .then(|| CompiledKernel::new(&module, id).expect("one operation"))
}

thread_local! {
    /// Number of operations that [`pure_op`] computed.
    static SLOW: Cell<u32> = const { Cell::new(0) };
}

/// The helper that computes pure operations on the slow path, as the runtime's helper does.
unsafe extern "C" fn pure_op(desc: *const Desc, args: *const Bits, out: *mut Bits, counts: u32) {
    let (operands, results) = ((counts & 0xffff) as usize, (counts >> 16) as usize);
    // SAFETY: generated code passes a description that its function owns, and areas with at least the given
    // numbers of cells.
    let (desc, args, out) = unsafe {
        (
            &*desc,
            std::slice::from_raw_parts(args, operands),
            std::slice::from_raw_parts_mut(out, results),
        )
    };
    SLOW.set(SLOW.get() + 1);
    if let Meaning::Pure(meaning) = desc.opcode.meaning() {
        meaning(desc, args, out);
    }
}

unsafe extern "C" fn never() {
    panic!("no single operation needs this helper");
}

fn helpers() -> Helpers {
    let mut helpers = std::mem::MaybeUninit::<Helpers>::uninit();
    let cells = helpers.as_mut_ptr().cast::<unsafe extern "C" fn()>();
    // SAFETY: the table contains only function pointers, and all are set before it is read.
    unsafe {
        for i in 0..size_of::<Helpers>() / size_of::<usize>() {
            cells.add(i).write(never);
        }
        (*helpers.as_mut_ptr()).pure_op = pure_op;
        helpers.assume_init()
    }
}

fn run(kernel: &CompiledKernel, compiler: &Compiler, args: &[Bits], results: usize) -> Vec<Bits> {
    let code = kernel.device(compiler).expect("single operations compile");
    let helpers = helpers();
    // SAFETY: all fields are integers or pointers, for which zero is valid. The code has no memory accesses, calls or
    // special registers, so it reads only the fields that are set here.
    let mut context: NativeContext = unsafe { std::mem::zeroed() };
    context.helpers = &helpers;
    context.local_stride = 1 << 16;
    context.stack_limit = 1 << 16;
    let mut cells = [0 as Bits; 16];
    cells[..args.len()].copy_from_slice(args);
    // SAFETY: the code was compiled for this signature, and the cells contain its operands and take its
    // results.
    let status = unsafe {
        let entry: DeviceFn = std::mem::transmute(code.code.start());
        entry(&mut context, 0, 0, cells.as_mut_ptr())
    };
    assert_eq!(status, 0);
    cells[..results].to_vec()
}

fn is_nan(ty: OpType, bits: Bits) -> bool {
    match ty {
        OpType::F32 | OpType::TF32 => f32::from_bits(bits as u32).is_nan(),
        OpType::F64 => f64::from_bits(bits as u64).is_nan(),
        _ => false,
    }
}

fn low(ty: Type, bits: Bits) -> Bits {
    bits & Bits::MAX >> (128 - ty.lane_bits())
}

/// An operation whose native code is compared with expected results.
struct Case<'a> {
    head: &'a str,
    desc: Desc,
    returns: &'a [Type],
    kernel: &'a CompiledKernel,
    compiler: &'a Compiler,
}

impl Case<'_> {
    /// Runs the code and describes a difference from the expected results, if there is one.
    fn check(&self, args: &[Bits], wanted: &[Bits]) -> Option<String> {
        let got = run(self.kernel, self.compiler, args, wanted.len());
        got.iter()
            .zip(wanted)
            .enumerate()
            .find_map(|(i, (&got, &want))| {
                let got = low(self.returns[i], got);
                let equal = got == want || is_nan(self.desc.ty, got) && is_nan(self.desc.ty, want);
                let difference =
                    || format!("{} {args:x?}: native {got:#x}, want {want:#x}", self.head);
                (!equal).then(difference)
            })
    }
}

/// Returns a random operand. For most types, this function returns boundary values frequently.
fn random_operand(state: &mut u64, ty: Type) -> Bits {
    *state = state
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
    let x = *state ^ (*state >> 33);
    let corners: [u64; 16] = [
        0,
        1,
        2,
        31,
        32,
        33,
        u64::MAX,
        0x8000_0000,
        0x7f80_0000,
        0xffc0_0000,
        0x3f80_0000,
        0x0000_0001,
        0x7ff0_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0x8000_0000_0000_0000,
        0x4f00_0000,
    ];
    let bits = match x % 5 {
        0 => corners[(x >> 8) as usize % 16],
        1 => (x >> 16) & 0x3f,
        2 if ty.lane_bits() == 32 => 0x3f80_0000 + (x >> 40),
        2 => 0x3ff0_0000_0000_0000 + (x >> 12),
        _ => x.rotate_left(17),
    };
    low(ty, bits.into())
}

/// Operands and results of one line of a literal table.
type Line = (Vec<Bits>, Vec<Bits>);

/// Returns the lines of the literal tables for pure ops, grouped by head (an op with types and
/// modifiers).
fn heads() -> BTreeMap<&'static str, (Desc, Vec<Line>)> {
    let mut heads: BTreeMap<&str, (Desc, Vec<Line>)> = BTreeMap::new();
    let pure = |case: &support::Case| matches!(case.desc.opcode.meaning(), Meaning::Pure(_));
    for case in support::cases().filter(pure) {
        let lines = heads.entry(case.head).or_insert((case.desc, Vec::new()));
        let line = (
            support::values(&case.operands),
            support::values(&case.results),
        );
        lines.1.push(line);
    }
    heads
}

/// Returns the types that hold the operands and results of a line.
fn shape(desc: &Desc, (args, wanted): &Line) -> (Vec<Type>, Vec<Type>) {
    let params = (0..args.len()).map(|i| operand_type(desc, i)).collect();
    let returns = (0..wanted.len()).map(|i| result_type(desc, i)).collect();
    (params, returns)
}

#[test]
fn native_code_computes_what_tables_and_meanings_say() {
    let compiler = &Compiler::new().expect("a code generator for this machine");
    let mut state = 1;
    let mut differences = Vec::new();
    let mut refused = BTreeSet::new();
    for (head, (desc, lines)) in &heads() {
        let desc = *desc;
        let Meaning::Pure(meaning) = desc.opcode.meaning() else {
            panic!("{head} is no computation")
        };
        let mut shapes: Vec<_> = lines.iter().map(|line| shape(&desc, line)).collect();
        shapes.sort_unstable();
        shapes.dedup();
        for (params, returns) in &shapes {
            let Some(kernel) = &function_of(desc, params, returns, |_| None) else {
                refused.insert(*head);
                continue;
            };
            let case = Case {
                head,
                desc,
                returns,
                kernel,
                compiler,
            };
            let fits = |line: &&Line| (line.0.len(), line.1.len()) == (params.len(), returns.len());
            let written = lines.iter().filter(fits);
            let first = written
                .clone()
                .find_map(|(args, wanted)| case.check(args, wanted));
            let random = || {
                let args: Vec<Bits> = params
                    .iter()
                    .map(|&ty| random_operand(&mut state, ty))
                    .collect();
                let mut wanted = vec![0; returns.len()];
                meaning(&desc, &args, &mut wanted);
                case.check(&args, &wanted)
            };
            let mut randoms = std::iter::repeat_with(random).take(200).flatten();
            differences.extend(first.or_else(|| randoms.next()));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let expected = if cfg!(debug_assertions) {
        &REFUSED[..]
    } else {
        &[]
    };
    assert_eq!(Vec::from_iter(refused), expected);
}

/// Tests native code in which all operands except the first are constants, because this code differs from the code for
/// variable operands. In most programs, shift amounts, truth tables and selectors are constants.
#[test]
fn constant_operands_give_the_same_results() {
    let compiler = &Compiler::new().expect("a code generator for this machine");
    let mut differences = Vec::new();
    let mut refused = BTreeSet::new();
    for (head, (desc, lines)) in &heads() {
        let desc = *desc;
        for line in lines {
            let (params, returns) = &shape(&desc, line);
            let (args, wanted) = line;
            let fixed = |i: usize| {
                if i == 0 {
                    None
                } else {
                    u64::try_from(args[i]).ok()
                }
            };
            let Some(kernel) = &function_of(desc, params, returns, fixed) else {
                refused.insert(*head);
                continue;
            };
            let case = Case {
                head,
                desc,
                returns,
                kernel,
                compiler,
            };
            differences.extend(case.check(args, wanted));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let expected = if cfg!(debug_assertions) {
        &REFUSED[..]
    } else {
        &[]
    };
    assert_eq!(Vec::from_iter(refused), expected);
}

/// Sorts of CUB compute a mask for each key, so a call of a helper for each mask took a quarter of their time.
#[test]
fn masks_and_extensions_are_computed_without_a_helper() {
    let compiler = &Compiler::new().expect("a code generator for this machine");
    let mut tried = Vec::new();
    for (head, (desc, lines)) in heads() {
        if !matches!(desc.opcode, Opcode::Bmsk | Opcode::Szext) {
            continue;
        }
        let (args, wanted) = &lines[0];
        let (params, returns) = shape(&desc, &lines[0]);
        let kernel = function_of(desc, &params, &returns, |_| None).expect("a valid operation");
        assert_eq!(&run(&kernel, compiler, args, 1), wanted, "{head}");
        assert_eq!(SLOW.get(), 0, "{head}");
        tried.push(head);
    }
    let expected = [
        "bmsk.clamp.b32",
        "bmsk.wrap.b32",
        "szext.clamp.s32",
        "szext.clamp.u32",
        "szext.wrap.s32",
    ];
    assert_eq!(tried, expected);
}
