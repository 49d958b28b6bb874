//! Tests the parser of the IR's text form: the texts that it accepts, and the position of each error that it reports.

use margay_ir::function::{Linkage, ValueDef};
use margay_ir::module::RelocTarget;
use margay_ir::parse;
use margay_ir::verify;
use margay_ops::ops::Opcode;
use margay_ops::types::Type;

const MODULE: &str = r#"
// Everything that the form has.
module version 8.3 target sm_90a debug
file "a \"b\".cu"
loc 0 3:5
loc 0 7:1 inlined 0
sig0 = signature (b32, f64) -> (b32)
sym0 = global @table visible size 24 align 8 managed init "0102ff"
  address at 8 of sym1 generic size 8 shift 8 addend -4
  address at 16 of fn0 size 8
sym1 = shared @"odd name" size 0 align 16 owner fn1

fn0 = func @callee(b32, f64) -> (b32) weak registers 7 {
block0(v0: b32, v1: f64):
  ret v0
}

fn1 = kernel @k visible {
  parameters 16
  parameter @n offset 0 size 4 align 4
  parameter @p offset 8 size 8 align 8
  maxntid 128 2 1
  cluster 2 1 1
  minnctapersm 3
  blocksareclusters
  unsupported 9 "tex.2d"
  slot0 = local 8 align 4 @buffer
  slot1 = local 4 align 4
block0:
  v0: b32 = sreg.u32 %tid.x  ; 12 loc 2
  v1: f64 = const.f64 0x3ff0000000000000
  v9: b64 = symbol.addr.u64 sym0-12
  jump block2(v0)
block2(v3: b32):
  v4: b32, v5: pred = add.u32{cc} v3, v0  ; 13
  v6: b64 = local.addr.u64 slot0
  st.b32{space:local} v6, v4
  v7: b32 = call fn0 v4, v1
  br_table v7, block3, block2(v4)
block3: // the end
  exit
}
"#;

#[test]
fn a_module_with_everything_is_read() {
    let module = parse::module(MODULE).unwrap();
    assert_eq!(module.version, (8, 3));
    assert_eq!((module.target.sm, module.target.suffix), (90, b'a'));
    assert!(module.target.debug);
    assert_eq!(module.files, ["a \"b\".cu"]);
    assert_eq!(module.locs[1].inlined_at, Some(0));
    let table = module.symbols.values().next().unwrap();
    assert_eq!((table.size, table.managed), (24, true));
    assert_eq!(table.init, [1, 2, 0xff]);
    assert_eq!((table.relocs[0].shift, table.relocs[0].addend), (8, -4));
    assert!(matches!(table.relocs[1].target, RelocTarget::Func(f) if f.0 == 0));
    assert!(module.symbols_by_name.contains_key("table"));
    assert!(!module.symbols_by_name.contains_key("odd name"));
    let kernel = &module.functions[module.kernel("k").unwrap()];
    assert_eq!(kernel.linkage, Linkage::Visible);
    let data = kernel.kernel.as_ref().unwrap();
    assert_eq!(data.maxntid, Some([128, 2, 1]));
    assert_eq!((data.param_bytes, data.params[1].offset), (16, 8));
    assert_eq!(kernel.slots.len(), 2);
    let [entry, turn, end] = kernel.blocks() else {
        panic!("three blocks")
    };
    assert_eq!((entry.0, turn.0, end.0), (0, 2, 3));
    let first = kernel.insts(*entry)[0];
    assert_eq!(kernel.dfg.insts[first].opcode, Opcode::SReg);
    assert_eq!(
        (kernel.dfg.locs[first].ptx_line, kernel.dfg.locs[first].loc),
        (12, 2)
    );
    let add = kernel.insts(*turn)[0];
    let [sum, carry] = *kernel.dfg.results(add) else {
        panic!("two results")
    };
    assert_eq!((sum.0, carry.0), (4, 5));
    assert_eq!(kernel.dfg.ty(carry), Type::PRED);
    assert_eq!(kernel.dfg.values[carry].def, ValueDef::Result(add, 1));
    assert!(kernel.dfg.insts[add].mods.carry_out());
    assert_eq!(verify::module(&module), []);
}

#[test]
fn what_is_read_prints_the_same() {
    let printed = parse::module(MODULE).unwrap().to_string();
    assert_eq!(parse::module(&printed).unwrap().to_string(), printed);
    for line in MODULE.lines().filter(|l| !l.contains("//")) {
        assert!(printed.contains(line), "{line}");
    }
}

/// Returns the text of a kernel with the given lines in its only block.
fn in_block(lines: &str) -> String {
    format!("kernel @k {{\nblock0:\n{lines}\n}}")
}

#[test]
fn mistakes_are_told_with_their_place() {
    let body = |lines: &str, error: &str| (in_block(lines), error.to_owned());
    let whole = |text: &str, error: &str| (text.to_owned(), error.to_owned());
    for (text, error) in [
        whole(
            "",
            "1:1: `kernel` or `func` is expected, the end of the text is found",
        ),
        whole(
            "kernel k {",
            "1:8: a name with `@` is expected, `k` is found",
        ),
        whole(
            "kernel @k {",
            "1:12: `}` or a block such as `block0:` is expected, the end of the text is found",
        ),
        whole(
            "kernel @k {\n  exit\n}",
            "2:3: a block, a slot, or an attribute of the function is expected, `exit` is found",
        ),
        whole(
            "func @f(b33) -> () {\n}",
            "1:9: a type such as b32, f64 or pred is expected, `b33` is found",
        ),
        whole(
            "kernel @k {\n}\nx",
            "3:1: the end of the text is expected, `x` is found",
        ),
        whole("kernel @\"k {\n}", "1:9: the quote is not closed"),
        whole(
            "kernel @\"\\x\" {\n}",
            "1:11: unknown escape; the escapes are \\\", \\\\ and \\u{...}",
        ),
        body(
            "  frob v1",
            "3:3: an operation with its types is expected, `frob` is found",
        ),
        body(
            "  exit extra",
            "3:8: a value such as `v0` is expected, `extra` is found",
        ),
        body("  exit v0", "3:8: v0 is never defined"),
        body("  jump block7", "3:8: block7 is never defined"),
        body(
            "  v0: b32 = const.b32 0x1\n  v0: b32 = const.b32 0x1",
            "4:3: v0 is defined already",
        ),
        body(
            "  v0: b32 = const.b32 1",
            "3:23: a hexadecimal number of up to 64 bits is expected, `1` is found",
        ),
        body(
            "  v0: b32 = const.b32 0x1ffffffffffffffff",
            "3:23: a hexadecimal number of up to 64 bits is expected, `0x1ffffffffffffffff` is found",
        ),
        body(
            "  v0 b32 = const.b32 0x1",
            "3:6: `:` is expected, `b32` is found",
        ),
        body(
            "  v0: b32 = sreg.u32 %tid.q",
            "3:22: a special register is expected, `%tid.q` is found",
        ),
        body("  fence{order:sc odd}", "3:9: `odd` is not a modifier"),
        body(
            "  fence{order:sc",
            "3:9: a `}` on this line is expected, `order` is found",
        ),
        body(
            "  jump block0, v1",
            "3:16: a block such as `block0` is expected, `v1` is found",
        ),
        body("  exit\nblock0:", "4:1: block0 is defined already"),
        body(
            "  exit ; x",
            "3:10: a line of the PTX text is expected, `x` is found",
        ),
        body(
            "  v4000000000: b32 = const.b32 0x1",
            "3:3: the numbers of values and blocks have too many gaps",
        ),
        body(
            "  exit\nblock4000000000:",
            "4:1: the numbers of values and blocks have too many gaps",
        ),
        body(
            "  v99999999999: b32 = const.b32 0x1",
            "3:3: an operation with its types is expected, `v99999999999` is found",
        ),
    ] {
        let found = parse::function(&text).map(|f| f.to_string());
        assert_eq!(found.map_err(|e| e.to_string()), Err(error), "{text}");
    }
}

#[test]
fn mistakes_of_modules_are_told_with_their_place() {
    let head = "module version 8.0 target sm_80\n";
    for (text, error) in [
        (
            "module version 8 target sm_80",
            "1:16: a version such as 8.0 is expected, `8` is found",
        ),
        (
            "module version 8.0 target sm80",
            "1:27: a target such as sm_80 is expected, `sm80` is found",
        ),
        (
            "module version 8.0 target sm_80\nloc 0 3",
            "2:8: `:` is expected, the end of the text is found",
        ),
        (
            "module version 8.0 target sm_80\nsym1 = global @x size 4 align 4",
            "2:1: `sym0` is expected, `sym1` is found",
        ),
        (
            "module version 8.0 target sm_80\nsym0 = global @x size 4 align 4 init \"0g\"",
            "2:38: bytes in hexadecimal are expected",
        ),
        (
            "module version 8.0 target sm_80\nhello",
            "2:1: `file`, `loc`, `sig0 =`, `sym0 =`, `fn0 =`, `func` or `kernel` is expected, `hello` is found",
        ),
    ] {
        let error_found = parse::module(text).unwrap_err().to_string();
        assert_eq!(error_found, error, "{text}");
    }
    assert!(parse::module(head).is_ok());
}

#[test]
fn every_piece_of_a_text_is_refused_or_read() {
    for end in 0..MODULE.len() {
        if MODULE.is_char_boundary(end) {
            let _ = parse::module(&MODULE[..end]);
            let _ = parse::module(&MODULE[end..]);
        }
    }
}
