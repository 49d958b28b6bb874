//! Each operation of the IR in each lane, with its types and modifiers, and vectors, scalars and constants as operands.

#[path = "../../../../ir/ops/tests/support/mod.rs"]
mod table;

use std::collections::BTreeSet;

use margay_ir::entity::Value;
use margay_ir::verify;
use margay_ops::meaning::{Bits, Desc, Meaning, mask};
use margay_ops::mods::{FieldValues, Half, Mods, Rounding};
use margay_ops::ops::{Opcode, Pattern};
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;

use crate::native::Program;
use crate::support::{Machine, Numbers, checked, equal, interpreted};

/// An operation with the types of its operands and results.
#[derive(Clone)]
pub(crate) struct Form {
    pub(crate) desc: Desc,
    pub(crate) operands: Vec<Type>,
    pub(crate) results: Vec<Type>,
}

/// Returns the type that a letter of an op's shape stands for (see `margay_ops::ops::Shape`).
fn held(desc: &Desc, letter: char) -> Type {
    let is_mixed = desc.src != OpType::None;
    match letter {
        's' | 'S' => desc.src.held(),
        'm' if is_mixed => desc.src.held(),
        'w' if desc.mods.half() == Half::Wide => desc.ty.widened().held(),
        'p' | 'c' => Type::PRED,
        'b' => Type::B32,
        'q' => Type::B64,
        _ => desc.ty.held(),
    }
}

/// Returns the possible lists of types that letters stand for.
fn lists(desc: &Desc, letters: &str) -> Vec<Vec<Type>> {
    let mut lists = vec![Vec::new()];
    let mut letters = letters.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_optional = letters.next_if_eq(&'?').is_some();
        if letter == 'c' && !desc.mods.carry_out() {
            continue;
        }
        let shorter = lists.clone();
        for list in &mut lists {
            list.push(held(desc, letter));
        }
        if is_optional {
            lists.extend(shorter);
        }
    }
    lists
}

fn operand_lists(desc: &Desc) -> Vec<Vec<Type>> {
    match desc.opcode.shape().operands {
        Pattern::Letters(letters) => lists(desc, letters),
        Pattern::Converted => {
            let values = match desc.src.elements() > 1 {
                true => 1,
                false => desc.ty.elements(),
            };
            let mut list = vec![desc.src.held(); values as usize];
            list.extend((desc.mods.rounding() == Rounding::Rs).then_some(Type::B32));
            vec![list]
        }
        Pattern::Parts => {
            let count = desc.ty.bits().checked_div(desc.src.bits()).unwrap_or(0);
            vec![vec![desc.src.held(); count as usize]]
        }
        _ => Vec::new(),
    }
}

fn result_lists(desc: &Desc) -> Vec<Vec<Type>> {
    match desc.opcode.shape().results {
        Pattern::Letters(letters) => lists(desc, letters),
        Pattern::Parts => {
            let count = desc.src.bits().checked_div(desc.ty.bits()).unwrap_or(0);
            vec![vec![desc.ty.held(); count as usize]]
        }
        _ => Vec::new(),
    }
}

/// Returns the forms of an operation that the verifier accepts.
fn forms_of(desc: Desc) -> Vec<Form> {
    let mut forms = Vec::new();
    for operands in operand_lists(&desc) {
        for results in result_lists(&desc) {
            if !results.is_empty() && verify::operation(desc, &operands, &results).is_none() {
                forms.push(Form {
                    desc,
                    operands: operands.clone(),
                    results,
                });
            }
        }
    }
    forms
}

/// Returns modifiers that an op may have: none, each value of each field alone, and some of the pairs.
fn modifiers(opcode: Opcode, numbers: &mut Numbers) -> Vec<Mods> {
    let names = opcode.shape().mods;
    let is_used = |field: &&margay_ops::mods::Field| names.contains(&field.name);
    let mut single = Vec::new();
    for field in Mods::FIELDS.iter().filter(is_used) {
        let last = match field.values {
            FieldValues::Words(words) => words.len() as u64 - 1,
            FieldValues::Flag => 1,
            FieldValues::Number => 3,
        };
        single.extend((1..=last).map(|value| (field, value)));
    }
    let mut all = vec![Mods::NONE];
    for (index, (field, value)) in single.iter().enumerate() {
        let first = field.set(Mods::NONE, *value).unwrap();
        all.push(first);
        for (other, value) in &single[index + 1..] {
            if other.name != field.name && numbers.below(3) == 0 {
                all.push(other.set(first, *value).unwrap());
            }
        }
    }
    all
}

/// Returns the operations of the table of literal cases, and a selection of those that the op table permits.
pub(crate) fn forms() -> Vec<Form> {
    let mut numbers = Numbers(1);
    let mut descs: Vec<Desc> = table::cases().map(|case| case.desc).collect();
    for &opcode in Opcode::ALL {
        let shape = opcode.shape();
        let or_none = |types: &[OpType]| match types {
            [] => vec![OpType::None],
            types => [types, &[OpType::None]].concat(),
        };
        for ty in or_none(shape.types) {
            for src in or_none(shape.sources) {
                for mods in modifiers(opcode, &mut numbers) {
                    let is_video = opcode.name().starts_with('v');
                    if mods == Mods::NONE || numbers.below(if is_video { 100 } else { 12 }) == 0 {
                        descs.push(Desc {
                            opcode,
                            ty,
                            src,
                            mods,
                        });
                    }
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    descs
        .into_iter()
        .filter(|desc| matches!(desc.opcode.meaning(), Meaning::Pure(_)))
        .filter(|desc| desc.opcode != Opcode::Bitcast || desc.ty.bits() == desc.src.bits())
        .filter(|desc| seen.insert((desc.opcode, desc.ty, desc.src, desc.mods.0)))
        .flat_map(forms_of)
        .collect()
}

/// Adds a value of a type to the function: a parameter, a constant or a scalar parameter.
fn operand(b: &mut Builder<'_>, lanes: u32, scalar: Type, numbers: &mut Numbers) -> Value {
    let vector = Type::vector(scalar.kind(), lanes).unwrap();
    let ty = match numbers.below(4) {
        0 => scalar,
        _ => vector,
    };
    let is_small = scalar.lane_bits() <= 64;
    if is_small && numbers.below(4) == 0 {
        // Small constants are the interesting positions, shift amounts and tables.
        let bits = match numbers.below(2) {
            0 => numbers.below(70) as Bits,
            _ => numbers.value(scalar.kind()),
        };
        return b.constant(ty, (bits & mask(scalar.lane_bits())) as u64);
    }
    b.function.signature.params.push(ty);
    let entry = b.function.entry();
    b.function.append_param(entry, ty)
}

/// Returns a function that applies operations, and the operation types and kinds of its results.
fn program(forms: &[Form], lanes: u32, numbers: &mut Numbers) -> (Function, Vec<(OpType, Kind)>) {
    let mut function = Function {
        name: "maps".into(),
        ..Function::default()
    };
    let mut b = Builder::new(&mut function);
    let (mut returned, mut types) = (Vec::new(), Vec::new());
    for form in forms {
        let args: Vec<Value> = form
            .operands
            .iter()
            .map(|&ty| operand(&mut b, lanes, ty, numbers))
            .collect();
        let kinds: Vec<Kind> = form.results.iter().map(|ty| ty.kind()).collect();
        let results = b.map_all(form.desc, lanes, &args, &kinds);
        returned.extend_from_slice(&results);
        types.extend(kinds.iter().map(|&kind| (form.desc.ty, kind)));
    }
    b.ret(&returned);
    function.signature.returns = returned.iter().map(|&value| function.ty(value)).collect();
    (checked(function), types)
}

/// Compares a compiled function with the interpreter, for several arguments.
fn compare(
    function: &Function,
    native: &Program,
    types: &[(OpType, Kind)],
    numbers: &mut Numbers,
) -> Result<(), String> {
    for _ in 0..4 {
        let params = &function.signature.params;
        let args: Vec<Lanes> = params.iter().map(|&ty| numbers.lanes(ty)).collect();
        let mut machine = Machine::new(0, Vec::new());
        let expected = interpreted(function, &args, &mut machine).unwrap();
        let actual = native.run(&args);
        for (index, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
            let (ty, kind) = types[index];
            let mut pairs = expected.iter().zip(actual);
            if !pairs.all(|(&a, &b)| equal(ty, kind, a, b)) {
                return Err(format!(
                    "result {index}: {actual:x?}, expected {expected:x?}\nof {args:x?}\n{function}"
                ));
            }
        }
    }
    Ok(())
}

const WIDTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

#[test]
fn operations_in_lanes_have_the_results_of_the_reference_functions() {
    let forms = forms();
    assert!(forms.len() > 2000, "{} forms", forms.len());
    let mut numbers = Numbers(2);
    let mut failures = Vec::new();
    for (index, forms) in forms.chunks(6).enumerate() {
        // Most operations have the same code for all numbers of groups.
        for lanes in [
            WIDTHS[index % 3],
            WIDTHS[3 + index / 3 % if index % 8 == 0 { 4 } else { 1 }],
        ] {
            let (function, types) = program(forms, lanes, &mut numbers);
            let level = if index % 2 == 0 { "none" } else { "speed" };
            let native = Program::with(&function, &[], (index % 5 != 0, level));
            failures.extend(compare(&function, &native, &types, &mut numbers).err());
        }
    }
    let count = failures.len();
    failures.truncate(10);
    assert!(
        count == 0,
        "{count} programs differ:\n{}",
        failures.join("\n")
    );
}

/// Returns the form of a literal case.
fn form_of(case: &table::Case) -> Option<Form> {
    let mut forms = forms_of(case.desc).into_iter();
    forms.find(|form| {
        form.operands.len() == case.operands.len() && form.results.len() == case.results.len()
    })
}

/// Returns a function of vectors of 16 lanes that applies one operation to its parameters.
fn single(form: &Form) -> Function {
    let mut function = Function::default();
    let vector = |ty: &Type| Type::vector(ty.kind(), 16).unwrap();
    function.signature.params = form.operands.iter().map(vector).collect();
    function.signature.returns = form.results.iter().map(vector).collect();
    let mut b = Builder::new(&mut function);
    let params = b.params();
    let kinds: Vec<Kind> = form.results.iter().map(|ty| ty.kind()).collect();
    let results = b.map_all(form.desc, 16, &params, &kinds);
    b.ret(&results);
    checked(function)
}

#[test]
fn operations_in_lanes_have_the_literal_results() {
    let cases: Vec<table::Case> = table::cases()
        .filter(|case| matches!(case.desc.opcode.meaning(), Meaning::Pure(_)))
        .collect();
    let mut tested = 0;
    for same in cases.chunk_by(|a, b| a.head == b.head) {
        let mut groups: Vec<(Form, Vec<&table::Case>)> = Vec::new();
        for case in same {
            let Some(form) = form_of(case) else { continue };
            let is_like = |known: &&mut (Form, Vec<&table::Case>)| {
                known.0.operands == form.operands && known.0.results == form.results
            };
            match groups.iter_mut().find(is_like) {
                Some((_, cases)) => cases.push(case),
                None => groups.push((form, vec![case])),
            }
        }
        for (form, cases) in groups {
            let native = Program::new(&single(&form), &[]);
            for cases in cases.chunks(16) {
                // Lanes without a case repeat the first one.
                let case = |lane: usize| *cases.get(lane).unwrap_or(&cases[0]);
                let args: Vec<Lanes> = (0..form.operands.len())
                    .map(|index| {
                        let ones = mask(form.operands[index].lane_bits());
                        let bits = |lane| table::parse_value(case(lane).operands[index]) & ones;
                        (0..16).map(bits).collect()
                    })
                    .collect();
                let results = native.run(&args);
                for (lane, case) in cases.iter().enumerate() {
                    let expected = table::values(&case.results);
                    for (index, &expected) in expected.iter().enumerate() {
                        let actual = results[index][lane];
                        let kind = form.results[index].kind();
                        let is_equal = equal(form.desc.ty, kind, actual, expected);
                        assert!(is_equal, "{}: {actual:x}, expected {expected:x}", case.line);
                    }
                    tested += 1;
                }
            }
        }
    }
    assert!(tested > 800, "{tested} cases");
}
