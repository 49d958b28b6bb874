//! Loads, stores, gathers and scatters.

use margay_ir::entity::Value;
use margay_ops::meaning::Bits;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::data::Access;
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;
use margay_vir::ops::Op;

use crate::native::{Guarded, Program};
use crate::support::{Machine, Numbers, checked, interpreted, parsed};

/// The types in memory with the kinds of values that they may have.
const ACCESSES: &[(OpType, &[Kind])] = &[
    (
        OpType::U8,
        &[Kind::B8, Kind::B16, Kind::B32, Kind::B64, Kind::B128],
    ),
    (
        OpType::S8,
        &[Kind::B8, Kind::B16, Kind::B32, Kind::B64, Kind::B128],
    ),
    (OpType::B16, &[Kind::B16, Kind::B32, Kind::B64, Kind::B128]),
    (OpType::S16, &[Kind::B16, Kind::B32, Kind::B64, Kind::B128]),
    (OpType::F16x2, &[Kind::B32, Kind::B64]),
    (OpType::S32, &[Kind::B32, Kind::B64, Kind::B128]),
    (OpType::U64, &[Kind::B64, Kind::B128]),
    (OpType::B128, &[Kind::B128]),
    (OpType::F32, &[Kind::F32]),
    (OpType::F64, &[Kind::F64]),
];

/// The size of the memory of a test.
const SIZE: usize = 4096;

/// Returns the programs of an access with a stride: a load and a store, or a gather and a scatter, without and with a
/// mask.
fn program(access: Access, ty: Type, offset: Option<Kind>, is_masked: bool) -> Function {
    let mut function = Function::default();
    let masks = Type::vector(Kind::Pred, ty.lanes()).unwrap();
    function.signature.params = vec![Type::B64, Type::B64, ty, masks];
    let offsets = offset.map(|kind| Type::vector(kind, ty.lanes()).unwrap());
    function.signature.params.extend(offsets);
    function.signature.returns = vec![ty];
    let mut b = Builder::new(&mut function);
    let params = b.params();
    let (from, to, value, mask) = (params[0], params[1], params[2], params[3]);
    let fixed = |address: Value, value: Option<Value>| -> Vec<Value> {
        let mut args = vec![address];
        args.extend(params.get(4));
        args.extend(value);
        args.extend(is_masked.then_some(mask));
        args
    };
    let (load, store) = match offset {
        Some(_) => (Op::Gather, Op::Scatter),
        None => (Op::Load, Op::Store),
    };
    let loaded = b.load(load, ty, access, &fixed(from, None));
    b.store(store, ty, access, &fixed(to, Some(value)));
    b.ret(&[loaded]);
    checked(function)
}

/// Runs a program natively and in the interpreter on equal memory, and compares results and memory.
fn compare(function: &Function, lanes: u32, numbers: &mut Numbers) {
    let native = Program::new(function, &[]);
    for round in 0..3 {
        let mut memory: Vec<u8> = (0..SIZE).map(|_| numbers.next() as u8).collect();
        let base = memory.as_mut_ptr() as u64;
        let middle = Bits::from(base) + SIZE as Bits / 2;
        let params = function.signature.params.iter();
        let mut args: Vec<Lanes> = params.map(|&ty| numbers.lanes(ty)).collect();
        args[0] = [middle + 1].as_slice().into();
        args[1] = [middle - 3].as_slice().into();
        // Masks with tails, with all and with no lanes, and any masks.
        let end = numbers.below(lanes as usize + 1);
        for (lane, on) in args[3].iter_mut().enumerate() {
            *on = match round {
                0 => Bits::from(lane < end),
                1 => Bits::from(lane / 4 % 3 != 1) & (Bits::from(lane % 7 != 5)),
                _ => *on,
            };
        }
        if let Some(offsets) = args.get_mut(4) {
            let ones = margay_ops::meaning::mask(function.signature.params[4].lane_bits());
            for offset in offsets {
                *offset = (*offset % 41).wrapping_sub(20) & ones;
            }
        }
        let mut machine = Machine::new(base, memory.clone());
        let expected = interpreted(function, &args, &mut machine).unwrap();
        let actual = native.run(&args);
        assert_eq!(actual, expected, "{args:x?}\n{function}");
        assert!(memory == machine.bytes, "memory\n{args:x?}\n{function}");
    }
}

#[test]
fn accesses_with_strides() {
    let mut numbers = Numbers(5);
    for &(memory, kinds) in ACCESSES {
        let bytes = i64::from(memory.bits() / 8);
        for &kind in kinds {
            for lanes in [1, 2, 4, 8, 32] {
                for stride in [bytes, 0, 1, -bytes, bytes + 3] {
                    let ty = Type::vector(kind, lanes).unwrap();
                    let is_masked = numbers.below(3) != 0;
                    let is_rare = stride != bytes && numbers.below(3) != 0;
                    if !is_rare {
                        let access = Access {
                            memory,
                            stride,
                            displacement: numbers.below(9) as i32 - 4,
                        };
                        compare(&program(access, ty, None, is_masked), lanes, &mut numbers);
                    }
                }
            }
        }
    }
}

#[test]
fn gathers_and_scatters() {
    let mut numbers = Numbers(6);
    for &(memory, kinds) in ACCESSES {
        for &kind in kinds {
            for (lanes, offset) in [
                (1, Kind::B64),
                (2, Kind::B32),
                (4, Kind::B64),
                (16, Kind::B32),
            ] {
                let stride = [1, 4, -8, 3][numbers.below(4)];
                let ty = Type::vector(kind, lanes).unwrap();
                let is_masked = numbers.below(2) == 0;
                let access = Access {
                    memory,
                    stride,
                    displacement: numbers.below(9) as i32 - 4,
                };
                let function = program(access, ty, Some(offset), is_masked);
                compare(&function, lanes, &mut numbers);
            }
        }
    }
}

#[test]
fn masked_tails_do_not_touch_the_next_page() {
    let mut numbers = Numbers(7);
    for &(memory, kinds) in ACCESSES {
        let bytes = memory.bits() / 8;
        for &kind in kinds {
            for lanes in [2, 4, 16, 64] {
                let ty = Type::vector(kind, lanes).unwrap();
                let stride = i64::from(bytes);
                let function = program(Access::new(memory, stride), ty, None, true);
                let native = Program::new(&function, &[]);
                for active in [0, 1, lanes / 2, lanes - 1, lanes] {
                    let mut guarded = Guarded::new();
                    let address = guarded.end() - u64::from(active * bytes);
                    let base = guarded.bytes().as_ptr() as u64;
                    let mut args = vec![
                        [Bits::from(address)].as_slice().into(),
                        [Bits::from(address)].as_slice().into(),
                        numbers.lanes(ty),
                    ];
                    args.push((0..lanes).map(|n| Bits::from(n < active)).collect());
                    let mut machine = Machine::new(base, guarded.bytes().to_vec());
                    let expected = interpreted(&function, &args, &mut machine).unwrap();
                    assert_eq!(native.run(&args), expected);
                    assert!(
                        guarded.bytes() == machine.bytes,
                        "{active} of {lanes}\n{function}"
                    );
                }
            }
        }
    }
}

#[test]
fn slots_are_memory_at_their_alignment() {
    let function = parsed(
        "func @f(b32x4) -> (b32x4, b64, b64, b32x4) {
  slot0 = 1 align 1
  slot1 = 16 align 128
  slot2 = 16 align 4
block0(v0: b32x4):
  v1: b64 = slot.addr.b64{1}
  v2: b64 = slot.addr.b64{2}
  store.b32x4{b32 4} v1, v0
  v3: b64 = slot.addr.b64{0}
  v4: b8 = const.b8{0x7}
  store.b8{b8 0} v3, v4
  v5: b32x4 = load.b32x4{b32 4} v1
  store.b32x4{b32 4} v2, v5
  fence
  v6: b32x4 = load.b32x4{b32 4} v2
  v7: b64 = const.b64{0x7f}
  v8: b64 = map.b64{and.b64} v1, v7
  v9: b64 = const.b64{0x3}
  v10: b64 = map.b64{and.b64} v2, v9
  ret v5, v8, v10, v6
}
",
    );
    let args: Lanes = [1, 2, 3, 4].as_slice().into();
    let results = Program::new(&function, &[]).run(std::slice::from_ref(&args));
    assert_eq!((&results[0], &results[3]), (&args, &args));
    assert_eq!((results[1][0], results[2][0]), (0, 0));
}

#[test]
fn distances_beyond_32_bits_are_not_truncated() {
    // Lane 1 is 2^40 bytes above lane 0, which is 2^40 bytes below the memory and inactive.
    let function = parsed(
        "func @f(b64, predx2) -> (b32x2) {
block0(v0: b64, v1: predx2):
  v2: b32x2 = load.b32x2{b32 1099511627776} v0, v1
  ret v2
}
",
    );
    let memory = [0x1234_5678u32; 2];
    let address = (memory.as_ptr() as u64).wrapping_sub(1 << 40);
    let args = [
        [Bits::from(address)].as_slice().into(),
        [0, 1].as_slice().into(),
    ];
    let results = Program::new(&function, &[]).run(&args);
    assert_eq!(results[0].as_slice(), [0, 0x1234_5678]);
}
