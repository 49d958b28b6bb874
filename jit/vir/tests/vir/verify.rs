//! The verifier: each rule is violated once.

use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::{BlockCall, ValueDef};
use margay_ops::types::{Kind, Type};
use margay_vir::data::Data;
use margay_vir::function::Function;
use margay_vir::ops::Op;
use margay_vir::{parse, verify};

const TEXT: &str = "func @f(b64, b32x4, predx4, pred) -> (b32x4) {
  helper0 = @h (b32) -> (f32)
  slot0 = 64 align 64
block0(v0: b64, v1: b32x4, v2: predx4, v3: pred):
  v4: b32x4 = load.b32x4{u8 1} v0, v2
  v5: b32x4 = map.b32x4{add.u32} v1, v4
  v6: b32 = reduce.b32x4{max.s32} v5
  v7: f32 = call{0} v6
  v8: f32x4 = call.lanes.predx4{0} v2, v5
  v9: b32 = extract.b32x4{3} v5
  v10: b32x8 = join.b32x8 v1, v5
  v11: b32x4 = half.b32x4{1} v10
  v12: b64 = slot.addr.b64{0}
  brif v3, block1(v5), block2
block1(v13: b32x4):
  ret v13
block2:
  trap{1}
}
";

fn problems(function: &Function) -> Vec<String> {
    verify::function(function)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn the_example_has_no_problem() {
    assert_eq!(problems(&parse::function(TEXT).unwrap()), [""; 0]);
}

#[test]
fn wrong_texts_have_one_problem() {
    let examples = [
        (
            "(b64, b32x4, predx4, pred)",
            "(b64, b32x4, predx4)",
            "the parameters of the entry block are not those of the signature",
        ),
        (
            "block1(v5), block2",
            "block0(v0, v1, v2, v3), block2",
            "inst9: branches to block0, which is no target",
        ),
        (
            "block1(v5), block2",
            "block1(v5)",
            "inst9: has 1 branch targets",
        ),
        (
            "block1(v5)",
            "block1(v1, v5)",
            "inst9: passes 2 arguments to block1, which takes 1",
        ),
        (
            "block1(v5)",
            "block1(v10)",
            "inst9: passes v10: b32x8 to block1 for v13: b32x4",
        ),
        ("  trap{1}\n", "", "block2 is empty"),
        (
            "  trap{1}\n",
            "  fence\n",
            "inst11: only the last instruction of block2 must end it",
        ),
        (
            "  brif",
            "  trap{1}\n  brif",
            "inst9: only the last instruction of block0 must end it",
        ),
        (
            "v4: b32x4 = load.b32x4{u8 1} v0, v2",
            "v4: b32x4 = load.b32x4{u8 1} v0, v2, v2",
            "inst0: has 3 operands",
        ),
        (
            "load.b32x4{u8 1} v0, v2",
            "load.b32x4{u8 1} v6, v2",
            "inst0: uses v6, whose definition does not dominate it",
        ),
        (
            "load.b32x4{u8 1} v0, v2",
            "load.b32x4{u8 1} v0, v1",
            "inst0: operand 1 is b32x4",
        ),
        (
            "load.b32x4{u8 1}",
            "load.b32x4{u64 1}",
            "inst0: u64 in memory does not fit b32x4",
        ),
        (
            "load.b32x4{u8 1}",
            "load.b32x4{f32 1}",
            "inst0: f32 in memory does not fit b32x4",
        ),
        (
            "load.b32x4{u8 1}",
            "load.b32x4{u4 1}",
            "inst0: u4 in memory does not fit b32x4",
        ),
        (
            "map.b32x4{add.u32} v1, v4",
            "map.b32x4{add.f32} v1, v4",
            "inst1: operand 0 of `add` is v0: b32, which does not fit",
        ),
        (
            "map.b32x4{add.u32} v1, v4",
            "map.b32x4{add.u32} v1",
            "inst1: `add` has 1 operands",
        ),
        (
            "map.b32x4{add.u32}",
            "map.b32x4{add.u32{rn ftz nan}}",
            "inst1: `add` does not take `nan`",
        ),
        (
            "map.b32x4{add.u32} v1, v4",
            "map.b32x4{ld.u32} v0",
            "inst1: `ld` is no operation of one lane",
        ),
        (
            "reduce.b32x4{max.s32}",
            "reduce.b32x4{not.b32}",
            "inst2: `not` has 2 operands",
        ),
        (
            "call{0} v6",
            "call{1} v6",
            "inst3: calls a helper that does not exist",
        ),
        (
            "call{0} v6",
            "call{0} v3",
            "inst3: does not match the signature of h",
        ),
        (
            "(b32) -> (f32)",
            "(b32x4) -> (f32)",
            "inst3: does not match the signature of h",
        ),
        (
            "call.lanes.predx4{0} v2, v5",
            "call.lanes.predx4{0} v2, v6",
            "inst4: b32 has other lanes than the mask",
        ),
        (
            "call.lanes.predx4{0} v2, v5",
            "call.lanes.predx4{0} v5, v5",
            "inst4: operand 0 is b32x4",
        ),
        (
            "extract.b32x4{3}",
            "extract.b32x4{4}",
            "inst5: 4 is not below 4",
        ),
        (
            "join.b32x8 v1, v5",
            "join.b32x8 v1, v6",
            "inst6: operand 1 is b32",
        ),
        ("half.b32x4{1}", "half.b32x4{2}", "inst7: 2 is not below 2"),
        (
            "slot.addr.b64{0}",
            "slot.addr.b64{1}",
            "inst8: names a slot that does not exist or has no possible alignment",
        ),
        (
            "align 64",
            "align 48",
            "inst8: names a slot that does not exist or has no possible alignment",
        ),
        (
            "ret v13",
            "ret v13, v3",
            "inst10: returns other types than the signature's",
        ),
        ("slot.addr.b64{0}", "const.b64{0x1}", ""),
        (
            "v9: b32 = extract.b32x4{3} v5",
            "v9: b32 = first.b32x4 v5",
            "inst5: `first` has no type Some(b32x4)",
        ),
        (
            "v9: b32 = extract.b32x4{3} v5",
            "v9: b32 = first v5",
            "inst5: `first` has no type None",
        ),
        (
            "v9: b32 = extract.b32x4{3} v5",
            "v9: b16 = const.b16{0x10000}",
            "inst5: 0x10000 does not fit",
        ),
        (
            "v9: b32 = extract.b32x4{3} v5",
            "v9: b64 = const.b32{0x1}",
            "inst5: result 0 is b64",
        ),
        (
            "v9: b32 = extract.b32x4{3} v5",
            "v9: f32x4 = affine.f32x4{1} v7",
            "inst5: `affine` has no type Some(f32x4)",
        ),
        (
            "v9: b32 = extract.b32x4{3} v5",
            "v9: b32x2 = map.b32x2{not.b32} v5",
            "inst5: operands or results have other lanes than the type",
        ),
    ];
    for (from, to, expected) in examples {
        let text = TEXT.replacen(from, to, 1);
        assert_ne!(text, TEXT);
        let found = problems(&parse::function(&text).unwrap());
        let first = found.first().map_or("", String::as_str);
        assert_eq!(first, expected, "{from} -> {to}: {found:?}");
    }
}

/// A change that the text form cannot express.
type Change = fn(&mut Function);

#[test]
fn wrong_references_do_not_make_the_verifier_panic() {
    let changes: [(Change, &str); 8] = [
        (
            |f| f.order.push(Block(90)),
            "block90 does not exist or is in the order twice",
        ),
        (
            |f| f.order.push(Block(1)),
            "block1 does not exist or is in the order twice",
        ),
        (|f| f.order.clear(), "the function has no block"),
        (
            |f| f.body[Block(1)].insert(0, Inst(70)),
            "inst70 does not exist or is in a block twice",
        ),
        (
            |f| f.body[Block(1)].insert(0, Inst(0)),
            "inst0 does not exist or is in a block twice",
        ),
        (
            |f| f.blocks[Block(1)].push(Value(80)),
            "refers to v80, which does not exist",
        ),
        (
            |f| f.insts[Inst(0)].data = Data::Nothing,
            "inst0: `load` has other data",
        ),
        (
            |f| f.values[Value(4)].def = ValueDef::Pending,
            "v4: is Result(inst0, 0) but is recorded as Pending",
        ),
    ];
    for (change, expected) in changes {
        let mut function = parse::function(TEXT).unwrap();
        change(&mut function);
        assert_eq!(problems(&function)[0], expected);
    }
}

#[test]
fn products_have_the_registers_of_their_matrices() {
    let text = |ty: &str, desc: &str, args: &str| {
        format!(
            "func @f({ty}) -> () {{
block0(v0: {ty}):
  v1: {ty}, v2: {ty} = product.{ty}{{{desc}}} {args}
  ret
}}
"
        )
    };
    let bytes = "mma.s32.s8{mode:m8n8k16}";
    for (ty, desc, args, expected) in [
        ("b32x32", bytes, "v0, v0, v0, v0", None),
        (
            "b32x32",
            bytes,
            "v0, v0, v0",
            Some("inst0: the product has 4 operands and 2 results of its type"),
        ),
        (
            "b32x16",
            bytes,
            "v0, v0, v0, v0",
            Some("inst0: registers of the product have 32 lanes of 32 bits"),
        ),
        (
            "b32x32",
            "mma.f64.f64{mode:m8n8k4}",
            "v0, v0, v0, v0",
            Some("inst0: registers of the product have 32 lanes of 64 bits"),
        ),
        (
            "b32x32",
            "mma.s32.s8{mode:m8n8k4}",
            "v0, v0, v0, v0",
            Some("inst0: `mma` is no matrix product"),
        ),
        (
            "b32x32",
            "add.u32",
            "v0, v0, v0, v0",
            Some("inst0: `add` is no matrix product"),
        ),
    ] {
        let function = parse::function(&text(ty, desc, args)).unwrap();
        let found = problems(&function);
        assert_eq!(found, Vec::from_iter(expected), "{ty} {desc} {args}");
    }
}

#[test]
fn a_builder_makes_valid_functions() {
    let mut function = Function {
        name: "f".into(),
        ..Function::default()
    };
    function.signature.params = vec![Type::B32];
    function.signature.returns = vec![Type::B32];
    let mut b = margay_vir::builder::Builder::new(&mut function);
    let n = b.params()[0];
    let four = Type::vector(Kind::B32, 4).unwrap();
    let lanes = b.value(Op::Affine, four, Data::Number(2), &[n]);
    b.at(12);
    let sum =
        margay_ir::parse::desc(&mut margay_ir::parse::cursor::Cursor::new("add.u32")).unwrap();
    let sum = b.value(Op::Reduce, four, Data::Lane(sum), &[lanes]);
    let end = b.block(&[Type::B32]);
    b.jump(end, &[sum]);
    b.switch_to(end);
    let param = b.params()[0];
    b.ret(&[param]);
    assert_eq!(problems(&function), [""; 0]);
    assert_eq!(
        function.successors(function.entry()),
        [BlockCall {
            block: end,
            args: vec![sum].into()
        }]
    );
    let text = "func @f(b32) -> (b32) {
block0(v0: b32):
  v1: b32x4 = affine.b32x4{2} v0
  v2: b32 = reduce.b32x4{add.u32} v1  ; 12
  jump block1(v2)  ; 12
block1(v3: b32):
  ret v3  ; 12
}
";
    assert_eq!(function.to_string(), text);
}
