//! Every op of the vector IR besides `map`, for all kinds and numbers of lanes.

use margay_ir::parse::{cursor::Cursor, desc};
use margay_ops::meaning::Bits;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::data::{Access, Data};
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;
use margay_vir::ops::Op;
use margay_vir::verify;
use smallvec::smallvec;

use crate::native::{Memory, check, check_for, targets};
use crate::operations::Random;

const LANES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Returns a function with one instruction, whose operands are the parameters, and which returns the result.
fn single(op: Op, ty: Type, data: Data, args: &[Type]) -> Function {
    let mut function = Function {
        name: "single".into(),
        ..Function::default()
    };
    function.signature.params = args.into();
    let mut b = Builder::new(&mut function);
    let params = b.params();
    let value = b.value(op, ty, data, &params);
    b.ret(&[value]);
    function.signature.returns = vec![function.ty(value)];
    let problems = verify::function(&function);
    assert!(problems.is_empty(), "{problems:?}\n{function}");
    function
}

fn check_random(function: &Function, random: &mut Random) {
    let mut memory = Memory::new(vec![0; 64]);
    let inputs: Vec<Vec<Lanes>> = (0..3).map(|_| random.operands(function)).collect();
    let targets = targets();
    let Some(first) = targets.first() else {
        return;
    };
    let other = &targets[random.below(targets.len())];
    for target in [first, other] {
        check_for(target, function, &inputs, &mut memory);
    }
}

/// Checks an op for all types; `args` returns its operands.
fn check_all(op: Op, number: impl Fn(u32) -> Vec<Data>, args: impl Fn(Type) -> Vec<Type>) {
    let mut random = Random(op as u64);
    for kind in Kind::ALL {
        for lanes in LANES {
            let ty = Type::vector(kind, lanes).unwrap();
            for data in number(lanes) {
                check_random(&single(op, ty, data, &args(ty)), &mut random);
            }
        }
    }
}

fn of(ty: Type, kind: Kind) -> Type {
    Type::vector(kind, ty.lanes()).unwrap()
}

fn nothing(_: u32) -> Vec<Data> {
    vec![Data::Nothing]
}

#[test]
fn splat() {
    check_all(Op::Splat, nothing, |ty| vec![Type::scalar(ty.kind())]);
}

#[test]
fn extract_and_insert() {
    let lanes = |lanes: u32| {
        [0, 1, lanes / 2, lanes - 1]
            .into_iter()
            .filter(|&n| n < lanes)
            .map(|n| Data::Number(n.into()))
            .collect()
    };
    check_all(Op::Extract, lanes, |ty| vec![ty]);
    check_all(Op::Insert, lanes, |ty| vec![ty, Type::scalar(ty.kind())]);
}

#[test]
fn half_and_join() {
    for kind in Kind::ALL {
        for lanes in [1, 2, 4, 8, 16, 32] {
            let (half, whole) = (
                Type::vector(kind, lanes).unwrap(),
                Type::vector(kind, 2 * lanes).unwrap(),
            );
            let mut random = Random(lanes.into());
            check_random(
                &single(Op::Half, half, Data::Number(0), &[whole]),
                &mut random,
            );
            check_random(
                &single(Op::Half, half, Data::Number(1), &[whole]),
                &mut random,
            );
            check_random(
                &single(Op::Join, whole, Data::Nothing, &[half, half]),
                &mut random,
            );
        }
    }
}

#[test]
fn permutations() {
    check_all(Op::Permute, nothing, |ty| vec![ty, of(ty, Kind::B32)]);
    check_all(Op::Permute2, nothing, |ty| vec![ty, ty, of(ty, Kind::B32)]);
}

#[test]
fn compress_and_expand() {
    check_all(Op::Compress, nothing, |ty| vec![ty, of(ty, Kind::Pred)]);
    check_all(Op::Expand, nothing, |ty| vec![ty, of(ty, Kind::Pred)]);
}

#[test]
fn masks() {
    let mut random = Random(5);
    for lanes in LANES {
        let ty = Type::vector(Kind::Pred, lanes).unwrap();
        for op in [Op::Ballot, Op::Any, Op::All, Op::Count, Op::First] {
            let function = single(op, ty, Data::Nothing, &[ty]);
            let mut memory = Memory::new(vec![0; 64]);
            let all = |bit: Bits| -> Vec<Lanes> { vec![(0..lanes).map(|_| bit).collect()] };
            for args in [all(0), all(1)] {
                check(&function, &args, &mut memory);
            }
            check_random(&function, &mut random);
        }
        check_random(
            &single(Op::Mask, ty, Data::Nothing, &[Type::B64]),
            &mut random,
        );
    }
}

#[test]
fn constants_and_affine() {
    let mut random = Random(5);
    for kind in Kind::ALL {
        for lanes in LANES {
            let ty = Type::vector(kind, lanes).unwrap();
            for bits in [0, 1, random.value(kind) as u64] {
                let bits = bits & margay_ops::meaning::mask(kind.bits()) as u64;
                check_random(&single(Op::Const, ty, Data::Number(bits), &[]), &mut random);
            }
            if !ty.is_float() && (8..=64).contains(&kind.bits()) {
                for stride in [0, 1, 4, u64::MAX, random.next()] {
                    check_random(
                        &single(Op::Affine, ty, Data::Number(stride), &[Type::scalar(kind)]),
                        &mut random,
                    );
                }
            }
        }
    }
}

#[test]
fn reductions() {
    let operations = [
        ("add.u32", Kind::B32),
        ("min.s16", Kind::B16),
        ("add.f32{rn}", Kind::F32),
        ("max.f64", Kind::F64),
        ("xor.b64", Kind::B64),
        ("or.b8", Kind::B8),
        ("and.pred", Kind::Pred),
        ("mul.u64{half:hi}", Kind::B64),
        ("add.f16{rn}", Kind::B16),
    ];
    let mut random = Random(5);
    for (text, kind) in operations {
        let desc = desc(&mut Cursor::new(text)).unwrap();
        for lanes in LANES {
            let ty = Type::vector(kind, lanes).unwrap();
            check_random(
                &single(Op::Reduce, ty, Data::Lane(desc), &[ty]),
                &mut random,
            );
        }
    }
}

/// The types in memory that are accessed as values of a kind.
fn memory_types(kind: Kind) -> Vec<OpType> {
    let all = [
        OpType::U8,
        OpType::S8,
        OpType::U16,
        OpType::S16,
        OpType::B32,
        OpType::S32,
        OpType::B64,
        OpType::S64,
        OpType::B128,
    ];
    match kind {
        Kind::Pred => Vec::new(),
        Kind::F32 => vec![OpType::F32],
        Kind::F64 => vec![OpType::F64],
        kind => all
            .into_iter()
            .filter(|ty| ty.bits() <= kind.bits())
            .collect(),
    }
}

const SIZE: usize = 1 << 17;

/// Checks a load or store for all types in memory and numbers of lanes.
fn check_accesses(op: Op, strides: &[i64], offsets: Option<Kind>) {
    let mut random = Random(op as u64 + 9);
    let mut memory = Memory::new((0..SIZE).map(|_| random.next() as u8).collect());
    let is_load = matches!(op, Op::Load | Op::Gather);
    let targets = targets();
    for kind in Kind::ALL {
        for memory_type in memory_types(kind) {
            for lanes in LANES {
                for &stride in strides {
                    let stride = if stride == 0 {
                        i64::from(memory_type.bits() / 8)
                    } else {
                        stride
                    };
                    let masks = [None, Some(0), Some(1), Some(2)];
                    let chosen = [masks[random.below(2)], masks[2 + random.below(2)]];
                    for mask in chosen {
                        let ty = Type::vector(kind, lanes).unwrap();
                        let access = Access {
                            memory: memory_type,
                            stride,
                            displacement: [0, 24, -40, 56][random.below(4)],
                        };
                        let mut function = Function {
                            name: "access".into(),
                            ..Function::default()
                        };
                        let mut params = vec![Type::B64];
                        params.extend(offsets.map(|kind| of(ty, kind)));
                        params.extend((!is_load).then_some(ty));
                        params.extend(mask.map(|_| of(ty, Kind::Pred)));
                        function.signature.params = params.clone();
                        let mut b = Builder::new(&mut function);
                        let args = b.params();
                        let values = match is_load {
                            true => vec![b.load(op, ty, access, &args)],
                            false => {
                                b.store(op, ty, access, &args);
                                Vec::new()
                            }
                        };
                        b.ret(&values);
                        function.signature.returns =
                            values.iter().map(|&value| function.ty(value)).collect();
                        assert!(verify::function(&function).is_empty());
                        let args: Vec<Lanes> = params
                            .iter()
                            .enumerate()
                            .map(|(index, &ty)| match (index, ty.kind()) {
                                (0, _) => smallvec![Bits::from(memory.address() + SIZE as u64 / 2)],
                                (1, kind) if Some(kind) == offsets => {
                                    let offset =
                                        |r: &mut Random| (r.below(400) as i64 - 200) as u64;
                                    let mask = margay_ops::meaning::mask(kind.bits());
                                    (0..ty.lanes())
                                        .map(|_| Bits::from(offset(&mut random)) & mask)
                                        .collect()
                                }
                                (_, Kind::Pred) => match mask {
                                    Some(0) => (0..ty.lanes()).map(|_| 0).collect(),
                                    Some(1) => {
                                        (0..ty.lanes()).map(|n| (n % 3 != 1).into()).collect()
                                    }
                                    _ => random.lanes(ty),
                                },
                                _ => random.lanes(ty),
                            })
                            .collect();
                        let target = &targets[random.below(targets.len())];
                        check_for(target, &function, &[args], &mut memory);
                    }
                }
            }
        }
    }
}

#[test]
fn loads() {
    if !targets().is_empty() {
        check_accesses(Op::Load, &[0, 1, 12, -4, 1000], None);
    }
}

#[test]
fn stores() {
    if !targets().is_empty() {
        check_accesses(Op::Store, &[0, 1, 12, -4, 1000], None);
    }
}

#[test]
fn gathers() {
    if !targets().is_empty() {
        check_accesses(Op::Gather, &[1, 4, 8, 24, -3], Some(Kind::B32));
        check_accesses(Op::Gather, &[1, 16], Some(Kind::B64));
    }
}

#[test]
fn scatters() {
    if !targets().is_empty() {
        check_accesses(Op::Scatter, &[1, 4, 8, 24, -3], Some(Kind::B32));
        check_accesses(Op::Scatter, &[1, 16], Some(Kind::B64));
    }
}
