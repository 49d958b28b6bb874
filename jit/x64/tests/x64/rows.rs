//! Loads of fields of rows.

use margay_ir::entity::Value;
use margay_ir::parse::{cursor::Cursor, desc};
use margay_ops::meaning::Bits;
use margay_ops::types::{OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::data::Access;
use margay_vir::function::Function;
use margay_vir::interpreter::Cause as InterpreterCause;
use margay_vir::meaning::Lanes;
use margay_vir::ops::Op;
use margay_vir::verify;
use margay_x64::code::Cause;
use margay_x64::faults::faulting_group_access;
use smallvec::smallvec;

use crate::native::{Guarded, Loaded, Memory, check_for, interpreted_in_zeros, parsed, targets};
use crate::operations::Random;

/// The number of bytes of the memory of random functions. The bases are around the middle.
const BYTES: usize = 1 << 15;

/// Returns a random function with loads of fields. Its parameters are two bases and a mask, and it returns all loaded values.
fn random_rows(random: &mut Random) -> Function {
    let lanes = 2 << random.below(6);
    let vector = |ty: OpType| Type::vector(ty.held().kind(), lanes).expect("the lanes of a type");
    let types = [OpType::B32, OpType::F32, OpType::B64, OpType::F64];
    let main = types[random.below(4)];
    let bytes = i64::from(main.bits() / 8);
    let stride = [3, 9, 2, 4, 6, 7, 12, 16, -3, -5, 1, 0][random.below(12)] * bytes;
    let mut function = Function {
        name: "rows".into(),
        ..Function::default()
    };
    let mask = vector(OpType::Pred);
    function.signature.params = vec![Type::B64, Type::B64, mask];
    let mut b = Builder::new(&mut function);
    let params = b.params();
    let mut bases: Vec<Value> = params[..2].to_vec();
    let mut loaded = Vec::new();
    for place in 1..=random.below(14) as u64 + 2 {
        b.at(place);
        let ty = match random.below(8) {
            0 => types[random.below(4)],
            _ => main,
        };
        let access = Access {
            memory: ty,
            stride: match random.below(8) {
                0 => [1, 4, 8, 24][random.below(4)],
                _ => stride,
            },
            displacement: (random.below(12) as i64 * bytes) as i32,
        };
        let base = bases[random.below(bases.len())];
        let is_masked = random.below(16) == 0;
        match random.below(20) {
            0 => {
                let distance = b.constant(Type::B64, 8 * random.below(4) as u64);
                let add = desc(&mut Cursor::new("add.u64")).expect("an operation");
                bases.push(b.map(add, Type::B64, &[base, distance]));
            }
            1 => {
                let Some(&value) = loaded.iter().find(|&&v| b.function.ty(v) == vector(ty)) else {
                    continue;
                };
                b.store(Op::Store, vector(ty), access, &[base, value]);
            }
            2 => loaded.push(b.load(Op::Load, Type::scalar(ty.held().kind()), access, &[base])),
            _ => {
                let args = [base, params[2]];
                let args = if is_masked { &args[..] } else { &args[..1] };
                loaded.push(b.load(Op::Load, vector(ty), access, args));
            }
        }
    }
    b.ret(&loaded);
    function.signature.returns = loaded.iter().map(|&value| function.ty(value)).collect();
    let problems = verify::function(&function);
    assert!(problems.is_empty(), "{problems:?}\n{function}");
    function
}

#[test]
fn random_rows_are_what_the_interpreter_loads() {
    let targets = targets();
    let mut memory = Memory::new((0..BYTES).map(|n| (n * 7 + n / 256) as u8).collect());
    let mut groups = 0;
    for seed in 0..400 {
        let mut random = Random(seed);
        let function = random_rows(&mut random);
        let middle = memory.address() + BYTES as u64 / 2;
        let lanes = function.signature.params[2].lanes();
        let args: Vec<Lanes> = vec![
            smallvec![Bits::from(middle)],
            smallvec![Bits::from(middle + 8 * random.below(64) as u64)],
            (0..lanes).map(|_| random.below(2) as Bits).collect(),
        ];
        for target in &targets {
            groups += margay_x64::compile(&function, &target.1)
                .unwrap()
                .groups
                .len();
        }
        if let Some(target) = targets.get(seed as usize % targets.len().max(1)) {
            check_for(target, &function, &[args], &mut memory);
        }
    }
    assert!(targets.len() < 3 || groups > 400, "{groups} groups");
}

#[test]
fn the_first_access_that_faults_is_found() {
    let guarded = Guarded::new();
    let (start, end) = (guarded.start(), guarded.end());
    let targets = targets();
    let Some(target) = targets
        .first()
        .filter(|(name, _)| name.starts_with("avx512"))
    else {
        return;
    };
    let (mut of_rows, mut of_others) = (0, 0);
    for seed in 0..600 {
        let mut random = Random(seed);
        let function = random_rows(&mut random);
        let lanes = function.signature.params[2].lanes();
        let mut base = || {
            let near = [start, end][random.below(2)].wrapping_sub(1200);
            Bits::from(near + 8 * random.below(300) as u64)
        };
        let args: Vec<Lanes> = vec![
            smallvec![base()],
            smallvec![base()],
            (0..lanes).map(|_| 1).collect(),
        ];
        let expected = interpreted_in_zeros(&function, &args, (start, (end - start) as usize));
        let loaded = Loaded::new(&function, &target.1);
        let found = loaded.fault(&function.signature, &args);
        let (expected, found) = match (expected, found) {
            (Ok(_), None) => continue,
            (Err(expected), Some(found)) => (expected, found),
            (expected, found) => panic!("{function}\n{expected:?} {}", found.is_some()),
        };
        let Cause::Rows { group, .. } = found.place.cause else {
            assert_eq!(found.place.place, expected.place, "{function}");
            of_others += 1;
            continue;
        };
        of_rows += 1;
        let accesses = &loaded.code().groups[group as usize];
        let (number, access) = faulting_group_access(
            (&found.place.cause, accesses.iter()),
            &found.registers,
            Some(found.address),
            |byte| (start..end).contains(&byte),
        )
        .expect("an access faults");
        let place = accesses[number].place;
        let lane = access.lane.unwrap_or(0);
        assert_eq!((place, lane), (expected.place, expected.lane), "{function}");
        let InterpreterCause::Memory { address, .. } = expected.cause else {
            panic!("{expected:?}");
        };
        assert_eq!(access.address, Some(address));
    }
    assert!(of_rows > 100 && of_others > 30, "{of_rows} {of_others}");
}

/// Returns a function that loads fields at these displacements.
fn fields(ty: &str, lanes: u32, stride: i64, displacements: &[i32]) -> Function {
    use std::fmt::Write;
    let loads = displacements
        .iter()
        .enumerate()
        .fold(String::new(), |mut text, (n, at)| {
            let number = n + 1;
            writeln!(
                text,
                "  v{number}: {ty}x{lanes} = load.{ty}x{lanes}{{{ty} {stride} {at:+}}} v0  ; {number}"
            )
            .expect("a string");
            text
        });
    parsed(&format!(
        "func @fields(b64) -> () {{\nblock0(v0: b64):\n{loads}  ret\n}}\n"
    ))
}

#[test]
fn rows_do_not_access_other_memory() {
    let guarded = Guarded::new();
    for (ty, bytes) in [("f32", 4), ("b64", 8)] {
        for lanes in [2, 4, 8, 16, 32, 64] {
            for elements in [3i64, 4, 5, 9, 16, -3, -9] {
                for fields_at in [
                    &[0, 1, 2][..],
                    &[0, 1],
                    &[1, 2],
                    &[0, 2],
                    &[0, 3, 6],
                    &[2, 7, 4],
                ] {
                    let stride = elements * bytes;
                    let displacements: Vec<i32> =
                        fields_at.iter().map(|&n| n * bytes as i32).collect();
                    let function = fields(ty, lanes, stride, &displacements);
                    let reach = stride * i64::from(lanes - 1);
                    let last = fields_at.iter().max().map_or(0, |&n| i64::from(n)) * bytes;
                    let first = fields_at.iter().min().map_or(0, |&n| i64::from(n)) * bytes;
                    // The rows begin where the accessible memory begins, or end where it ends.
                    let begins = guarded.start() as i64 - first - reach.min(0);
                    let ends = guarded.end() as i64 - last - bytes - reach.max(0);
                    for (_, target) in targets() {
                        let loaded = Loaded::new(&function, &target);
                        for base in [begins, ends] {
                            let args: Vec<Lanes> = vec![smallvec![Bits::from(base as u64)]];
                            loaded.run(&function.signature, &args);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn groups_contain_the_accesses_in_the_order_of_the_program() {
    let text = "func @groups(b64, b64) -> () {
block0(v0: b64, v1: b64):
  v2: b64x16 = load.b64x16{b64 72 +8} v0  ; 1
  v3: b64x16 = load.b64x16{b64 72} v1  ; 2
  v4: f32x16 = load.f32x16{f32 4} v1  ; 3
  v5: b64x16 = load.b64x16{b64 72} v0  ; 4
  v6: b64x16 = load.b64x16{b64 72 +48} v1  ; 5
  v7: b64x16 = load.b64x16{b64 72 +16} v0  ; 6
  store.b64x16{b64 72} v1, v2  ; 7
  v8: b64x16 = load.b64x16{b64 72 +24} v1  ; 8
  ret
}
";
    let function = parsed(text);
    for (_, target) in targets().into_iter().take(1) {
        if !target.features.contains(margay_x64::Features::AVX512) {
            continue;
        }
        let code = margay_x64::compile(&function, &target).unwrap();
        let groups: Vec<Vec<(u64, u8)>> = code
            .groups
            .iter()
            .map(|group| {
                group
                    .iter()
                    .map(|access| (access.place, access.base))
                    .collect()
            })
            .collect();
        assert_eq!(
            groups,
            [
                vec![(1, 0), (2, 1), (3, 1), (4, 0), (5, 1), (6, 0)],
                vec![(2, 0), (3, 0), (5, 0)],
            ]
        );
        let rows = code
            .places
            .iter()
            .filter(|p| matches!(p.cause, Cause::Rows { .. }));
        assert_eq!(rows.count(), 32);
    }
}

#[test]
fn halves_of_elements_are_split_and_joined() {
    for lanes in [2u32, 8, 16, 32, 64] {
        for (shift, by) in [("shr.u64", 32), ("shr.s64", 32), ("shr.u64", 31)] {
            let text = format!(
                "func @halves(b64x{lanes}, b32x{lanes}, b32x{lanes}) -> (b32x{lanes}, b32x{lanes}, b64x{lanes}, b64x{lanes}) {{
block0(v0: b64x{lanes}, v1: b32x{lanes}, v2: b32x{lanes}):
  v3: b32 = const.b32{{{by:#x}}}
  v4: b32x{lanes} = map.b32x{lanes}{{cvt.u32.u64}} v0
  v5: b64x{lanes} = map.b64x{lanes}{{{shift}}} v0, v3
  v6: b32x{lanes} = map.b32x{lanes}{{cvt.u32.u64}} v5
  v7: b64x{lanes} = map.b64x{lanes}{{cvt.u64.u32}} v1
  v8: b64x{lanes} = map.b64x{lanes}{{cvt.u64.u32}} v2
  v9: b64x{lanes} = map.b64x{lanes}{{shl.b64}} v8, v3
  v10: b64x{lanes} = map.b64x{lanes}{{or.b64}} v7, v9
  v11: b64x{lanes} = map.b64x{lanes}{{or.b64}} v9, v5
  v12: b64x{lanes} = map.b64x{lanes}{{or.b64}} v9, v7
  v13: b64x{lanes} = map.b64x{lanes}{{xor.b64}} v11, v12
  ret v4, v6, v10, v13
}}
"
            );
            let function = parsed(&text);
            let mut random = Random(u64::from(lanes));
            let args = random.operands(&function);
            crate::native::check(&function, &args, &mut Memory::new(vec![0; 64]));
        }
    }
}
