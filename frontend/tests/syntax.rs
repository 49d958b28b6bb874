//! Tests of the parser: the syntax tree of each PTX construct, and the code and position of each syntax error.

use margay_frontend::ast::{
    Attribute, Constant, DirectiveKind, DwarfLine, DwarfValue, FunctionKind, InitializerKind,
    Instruction, Item, Linkage, Module, Operand, OperandKind, Prefix, PropertyValue, ScalarType,
    StateSpace, Statement, Variable, VectorSize,
};
use margay_frontend::{Parsed, SourceFile, parse};

const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

fn parse_text(text: &str) -> Parsed {
    parse(SourceFile::new("t", text))
}

/// Parses a module that consists of a header of three lines and `items` at module scope. Panics if
/// there is an error.
fn items(items: &str) -> Parsed {
    let parsed = parse_text(&format!("{HEAD}{items}"));
    assert!(
        parsed.diagnostics.is_empty(),
        "{items}: {:?}",
        parsed.diagnostics
    );
    parsed
}

/// Parses a module with a kernel whose body contains `statements`. The statements begin on line 5.
/// Panics if there is an error.
fn body(statements: &str) -> Parsed {
    items(&format!(".entry k()\n{{ {statements} }}\n"))
}

/// Returns the code, the line and the column of each syntax error in `text`, such as `E0001 5:9`.
fn problems_of(text: &str) -> Vec<String> {
    let parsed = parse_text(text);
    let show = |d: &margay_frontend::Diagnostic| {
        let at = d.position(&parsed.source);
        format!("{} {}:{}", d.code, at.line, at.column)
    };
    parsed.diagnostics.iter().map(show).collect()
}

fn item_problems(items: &str) -> Vec<String> {
    problems_of(&format!("{HEAD}{items}\n"))
}

fn body_problems(statements: &str) -> Vec<String> {
    item_problems(&format!(".entry k() {{\n{statements}\n}}"))
}

fn statements(parsed: &Parsed) -> &[Statement] {
    let function = parsed.module.functions().next().expect("a function").1;
    &parsed.module[function.body.expect("a body")]
}

fn instruction(parsed: &Parsed) -> &Instruction {
    let found = statements(parsed)
        .iter()
        .find_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        });
    found.expect("an instruction")
}

/// Returns an operand in a notation that shows its structure, for comparison with expected texts.
fn show(module: &Module, operand: &Operand) -> String {
    let text = |name| module.text(name);
    let list = |list: margay_frontend::ast::List<Operand>| {
        let parts: Vec<_> = module[list].iter().map(|o| show(module, o)).collect();
        parts.join(" ")
    };
    match operand.kind {
        OperandKind::Name(name) => text(name).to_owned(),
        OperandKind::Component { base, selector } => format!("{}.{}", text(base), text(selector)),
        OperandKind::Prefixed {
            prefix,
            base,
            selector,
        } => format!(
            "{}{}{}",
            if prefix == Prefix::Not {
                "not "
            } else {
                "minus "
            },
            text(base),
            selector.map_or(String::new(), |s| format!(".{}", text(s)))
        ),
        OperandKind::Sink => "sink".to_owned(),
        OperandKind::Constant(Constant::Int { bits, .. }) => (bits as i64).to_string(),
        OperandKind::Constant(constant) => format!("{:?}", constant.as_f64().expect("a float")),
        OperandKind::Offset { base, offset } => format!("{}+{offset}", text(base)),
        OperandKind::Element {
            base,
            register,
            offset,
        } => {
            let register = register.map_or("", text);
            format!("{}[{register}+{offset}]", text(base))
        }
        OperandKind::Memory { base, offset } => format!("[{}+{offset}]", text(base)),
        OperandKind::MemoryAt(address) => format!("[{address}]"),
        OperandKind::MemoryTuple(members) => format!("[tuple {}]", list(members)),
        OperandKind::Vector(members) => format!("{{{}}}", list(members)),
        OperandKind::Pair(members) => format!("pair({})", list(members)),
        OperandKind::Group(members) => format!("group({})", list(members)),
    }
}

/// Parses a body that contains only the instruction `text`, and returns the text form of each
/// operand.
fn operands(text: &str) -> Vec<String> {
    let parsed = body(text);
    let module = &parsed.module;
    let operands = &module[instruction(&parsed).operands];
    operands
        .iter()
        .map(|operand| show(module, operand))
        .collect()
}

#[test]
fn operand_forms() {
    assert_eq!(operands("mov.b64 %r1, %tid.x;"), ["%r1", "%tid.x"]);
    assert_eq!(
        operands("mov.b64 {a, _, b.x, 1+2}, c;"),
        ["{a sink b.x 3}", "c"]
    );
    assert_eq!(
        operands("setp.eq.s32 p|q, a, !b;"),
        ["pair(p q)", "a", "not b"]
    );
    assert_eq!(
        operands("setp.eq.s32 _|q, a, b;"),
        ["pair(sink q)", "a", "b"]
    );
    assert_eq!(
        operands("vmad.u32 a, -b.h0, -c, d.b3;"),
        ["a", "minus b.h0", "minus c", "d.b3"]
    );
    assert_eq!(operands("atom.add.u32 _, [a], 1;"), ["sink", "[a+0]", "1"]);
    assert_eq!(
        operands("ld.u32 a, [b+-4+8*2];"),
        ["a", "[b+12]"],
        "offsets are expressions"
    );
    assert_eq!(operands("ld.local.u32 a, [16+4];"), ["a", "[20]"]);
    assert_eq!(operands("ld.u32 a, g[i+1];"), ["a", "g[i+1]"]);
    assert_eq!(operands("mov.u64 a, g[-1];"), ["a", "g[+-1]"]);
    assert_eq!(operands("mov.u64 a, g+4+4;"), ["a", "g+8"]);
    assert_eq!(
        operands("mov.f32 a, 0f40490FDB;"),
        ["a", "3.1415927410125732"]
    );
    assert_eq!(operands("mov.f64 a, -.5e1;"), ["a", "-5.0"]);
    assert_eq!(
        operands("tex.1d.v4.f32.s32 {a,b,c,d}|p, [t, s, {x}], {y};"),
        ["pair({a b c d} p)", "[tuple [t+0] s {x}]", "{y}"]
    );
    assert_eq!(operands("ret;"), [""; 0]);
}

#[test]
fn instruction_heads() {
    let parsed = body("@!p ld/*c*/.global .L2::cache_hint.b32 a, [b].unified, c;");
    let module = &parsed.module;
    let found = instruction(&parsed);
    assert_eq!(
        module.spelling(found),
        "ld.global.L2::cache_hint.b32.unified"
    );
    let guard = &module[found.guard.expect("a guard")];
    assert!(guard.negated);
    assert_eq!(module.text(guard.register.name), "p");
    assert_eq!(parsed.source.slice(module.opcode_span(found)), "ld");
    assert_eq!(
        parsed.source.slice(found.span),
        "@!p ld/*c*/.global .L2::cache_hint.b32 a, [b].unified, c"
    );
    let modifier = module[found.modifiers][1];
    assert_eq!(parsed.source.slice(modifier.span), ".L2::cache_hint");
}

#[test]
fn calls() {
    let parts = |text: &str| {
        let parsed = body(text);
        let module = &parsed.module;
        let call = instruction(&parsed).call(module).expect("a call");
        let list = |list| -> Vec<String> {
            let list: &[Operand] = &module[list];
            list.iter().map(|o| show(module, o)).collect()
        };
        let prototype = call.prototype.map_or(String::new(), |o| show(module, &o));
        (
            list(call.returns),
            show(module, &call.target),
            list(call.arguments),
            prototype,
        )
    };
    let none = Vec::<String>::new;
    let some = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
    let plain = String::new;
    assert_eq!(parts("call f;"), (none(), "f".to_owned(), none(), plain()));
    assert_eq!(
        parts("call f, ();"),
        (none(), "f".to_owned(), none(), plain())
    );
    assert_eq!(
        parts("call.uni (_, r), f, (a, 5), proto;"),
        (
            some(&["sink", "r"]),
            "f".to_owned(),
            some(&["a", "5"]),
            "proto".to_owned()
        )
    );
    assert_eq!(
        parts("call f, table;"),
        (none(), "f".to_owned(), none(), "table".to_owned())
    );
}

fn variables(parsed: &Parsed) -> Vec<&Variable> {
    parsed
        .module
        .variables()
        .map(|(_, variable)| variable)
        .collect()
}

#[test]
fn variable_declarations() {
    let parsed = items(".visible .align 16 .global .attribute(.managed) .v4 .f32 a[][3], b<4>, c;");
    let module = &parsed.module;
    let found = variables(&parsed);
    assert_eq!(found.len(), 3);
    let a = found[0];
    assert_eq!(module.text(a.name.name), "a");
    assert_eq!(
        (a.linkage, a.space, a.align, a.vector, a.scalar),
        (
            Linkage::Visible,
            StateSpace::Global,
            Some(16),
            VectorSize::V4,
            ScalarType::F32
        )
    );
    assert_eq!(module[a.attributes], [Attribute::Managed]);
    let lengths: Vec<_> = module[a.dimensions].iter().map(|d| d.length).collect();
    assert_eq!(lengths, [None, Some(3)]);
    assert_eq!((found[1].range, found[2].range), (Some(4), None));
    assert_eq!(variables(&items(".global .f32; .global .b8 x;")).len(), 1);
    assert_eq!(
        variables(&items(".extern .const[2] .b8 x[];"))[0].bank,
        Some(2)
    );
}

#[test]
fn initializers() {
    let value = |text: &str| {
        let parsed = items(text);
        let variable = *variables(&parsed).last().expect("a variable");
        parsed.module[variable.initializer.expect("a value")].kind
    };
    let address = |text: &str| match value(text) {
        InitializerKind::Address {
            offset,
            generic,
            byte,
            ..
        } => (offset, generic, byte),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        value(".global .u32 x = (1+2)*3;"),
        InitializerKind::Constant(Constant::signed(9))
    );
    assert_eq!(address(".global .u64 x = h;"), (0, false, None));
    assert_eq!(address(".global .u64 x = h+8*2;"), (16, false, None));
    assert_eq!(address(".global .u64 x = generic(h)+-4;"), (-4, true, None));
    assert_eq!(
        address(".global .u8 x = 0xFF00(generic(h)+4);"),
        (4, true, Some(1))
    );
    assert_eq!(
        address(".global .u8 x = 0xFF00000000000000(h);"),
        (0, false, Some(7))
    );
    assert_eq!(
        address(".global .b32 generic; .global .u64 x = generic+1;"),
        (1, false, None)
    );
    let parsed = items(".global .b32 x[2][2] = {{1, 2}, {}};");
    let module = &parsed.module;
    let InitializerKind::List(outer) =
        module[variables(&parsed)[0].initializer.expect("a value")].kind
    else {
        panic!("a list");
    };
    let lengths: Vec<usize> = module
        .values(outer)
        .map(|inner| match inner.kind {
            InitializerKind::List(list) => list.len(),
            _ => panic!("a list"),
        })
        .collect();
    assert_eq!(lengths, [2, 0]);
}

#[test]
fn opaque_variables_have_properties() {
    let parsed = items(".global .texref t = { width = 16, filter_mode = linear };");
    let module = &parsed.module;
    let InitializerKind::Properties(list) =
        module[variables(&parsed)[0].initializer.expect("a value")].kind
    else {
        panic!("properties");
    };
    let properties = &module[list];
    assert_eq!(module.text(properties[0].key.name), "width");
    assert_eq!(
        properties[0].value,
        PropertyValue::Constant(Constant::signed(16))
    );
    assert!(
        matches!(properties[1].value, PropertyValue::Word(word) if module.text(word.name) == "linear")
    );
}

#[test]
fn functions() {
    let parsed = items(
        ".visible .entry k(.param .u64 .ptr .global .align 8 p, .param .align 4 .b8 q[12])\n\
         .maxntid 8, 4 .minnctapersm 2 .pragma \"nounroll\"; { ret; }\n\
         .extern .func (.param .b32 r) printf (.param .b64 a)\n;\n\
         .func .attribute(.unified(1, 2)) f() .noreturn .abi_preserve 3;",
    );
    let module = &parsed.module;
    let found: Vec<_> = module.functions().map(|(_, function)| function).collect();
    let k = found[0];
    assert_eq!((k.kind, k.linkage), (FunctionKind::Entry, Linkage::Visible));
    assert!(k.body.is_some());
    let pointer = module[k.parameters][0].pointer.expect("`.ptr`");
    assert_eq!(
        (pointer.space, pointer.align),
        (Some(StateSpace::Global), Some(8))
    );
    let kinds: Vec<_> = module[k.directives].iter().map(|d| d.kind).collect();
    assert_eq!(
        kinds[..2],
        [
            DirectiveKind::MaxThreads([8, 4, 1]),
            DirectiveKind::MinCtasPerSm(2)
        ]
    );
    let printf = found[1];
    assert_eq!(
        (printf.kind, printf.linkage),
        (FunctionKind::Func, Linkage::Extern)
    );
    assert_eq!((printf.returns.len(), printf.parameters.len()), (1, 1));
    assert!(printf.body.is_none());
    assert_eq!(module[found[2].attributes], [Attribute::Unified(1, 2)]);
    assert_eq!(module[found[2].directives].len(), 2);
}

#[test]
fn a_function_may_be_declared_without_semicolon() {
    for text in [
        ".func f() .func g() { ret; }",
        ".func f\n.global .b32 x;",
        ".func f()",
    ] {
        let parsed = items(text);
        let function = parsed.module.functions().next().expect("a function").1;
        assert!(function.body.is_none());
    }
}

#[test]
fn bodies_are_flat() {
    let parsed = body(
        ".reg .b32 %r<3>, x; L: { M: } t: .branchtargets A<2>, B; \
         c: .calltargets f; p: .callprototype (.param .b32 _) _ (.reg .b32 _) .noreturn;\
         .pragma \"nounroll\"; A0: A1: B: ret;",
    );
    let kinds: Vec<&str> = statements(&parsed)
        .iter()
        .map(|statement| match statement {
            Statement::Instruction(_) => "instruction",
            Statement::Label(_) => "label",
            Statement::Variable(_) => "variable",
            Statement::ScopeBegin(_) => "{",
            Statement::ScopeEnd(_) => "}",
            Statement::BranchTargets(_) => "branchtargets",
            Statement::CallTargets(_) => "calltargets",
            Statement::CallPrototype(_) => "callprototype",
            Statement::Pragma(_) => "pragma",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "variable",
            "variable",
            "label",
            "{",
            "label",
            "}",
            "branchtargets",
            "calltargets",
            "callprototype",
            "pragma",
            "label",
            "label",
            "label",
            "instruction"
        ]
    );
}

#[test]
fn locations_hold_until_the_next_one() {
    let parsed = body(
        "ret; .loc 1 20 3\n ret; ret; .loc 2 5 0, function_name $L__info+4, inlined_at 1 20 3\n ret;",
    );
    let module = &parsed.module;
    let lines: Vec<_> = statements(&parsed)
        .iter()
        .filter_map(|statement| match statement {
            Statement::Instruction(found) => Some(found.location.map(|id| module[id])),
            _ => None,
        })
        .collect();
    assert_eq!(lines[0], None);
    assert_eq!(lines[1].map(|l| l.position.line), Some(20));
    assert_eq!(lines[1], lines[2]);
    let last = lines[3].expect("a location");
    assert_eq!((last.position.file, last.position.line), (2, 5));
    assert_eq!(last.function.map(|f| f.offset), Some(4));
    assert_eq!(
        last.inlined_at.map(|p| (p.file, p.line, p.column)),
        Some((1, 20, 3))
    );
}

#[test]
fn debugging_sections() {
    let parsed = items(
        ".file 1 \"a.cu\", 12, 34\n.section .debug_info\n{\n.b8 1,2,255\nL:\n\
         .b32 .debug_abbrev+4\n.b64 L\n.b64 M-L\n.b64 -1\nM:\n}\n",
    );
    let module = &parsed.module;
    let Item::File(file) = module.items[0] else {
        panic!("a file");
    };
    let file = module[file];
    assert_eq!(module.text(file.name.name), "a.cu");
    assert_eq!((file.timestamp, file.size), (Some(12), Some(34)));
    let Item::Section(section) = module.items[1] else {
        panic!("a section");
    };
    let lines = &module[module[section].lines];
    assert_eq!(lines.len(), 7);
    let values = |line: &DwarfLine| match *line {
        DwarfLine::Data { bytes, values } => (bytes, module[values].to_vec()),
        _ => panic!("data"),
    };
    use DwarfValue::{Address, Difference, Int};
    assert_eq!(values(&lines[0]), (1, vec![Int(1), Int(2), Int(255)]));
    assert!(matches!(values(&lines[2]).1[..], [Address(_, 4)]));
    assert!(matches!(values(&lines[4]).1[..], [Difference(_, _)]));
    assert_eq!(values(&lines[5]), (8, vec![Int(u64::MAX)]));
}

/// Checks that the parser accepts debugging sections in the syntax of PTX 1.5 and earlier versions,
/// in which each line begins with `@@DWARF`.
#[test]
fn old_debugging_sections() {
    const LINES: &str = "@@DWARF .section .debug_info, \"\", @progbits\n@@DWARF .byte 0x01, 0x02\n\
                         @@DWARF .4byte .debug_abbrev\n";
    let read = |version: &str, lines: &str| {
        let head = format!(".version {version}\n.target sm_13\n.entry k() {{ ret; }}\n");
        parse(SourceFile::new("t", head + lines))
    };
    let parsed = read("1.5", LINES);
    assert!(!parsed.has_errors(), "{:?}", parsed.diagnostics);
    let module = &parsed.module;
    let Item::Dwarf(data) = module.items[2] else {
        panic!("data");
    };
    let DwarfLine::Data { bytes: 1, values } = module[data] else {
        panic!("bytes");
    };
    assert_eq!(module[values], [DwarfValue::Int(1), DwarfValue::Int(2)]);
    assert_eq!(module.items.len(), 4);
    assert!(read("2.0", LINES).has_errors());
    assert!(read("1.4", "@@DWARF .byte 1\n").has_errors(), "no section");
}

#[test]
fn mistakes_in_statements() {
    for (text, expected) in [
        (";", "E0001 5:1"),
        ("ret;;", "E0001 5:5"),
        ("{ ret; };", "E0001 5:9"),
        ("@p { ret; }", "E0001 5:4"),
        ("@p L: ret;", "E0001 5:5"),
        ("@p .reg .b32 x;", "E0001 5:4"),
        ("@!!p ret;", "E0001 5:3"),
        ("@5 ret;", "E0001 5:2"),
        ("mov. b32 x, 1;", "E0001 5:4"),
        ("add.s32 , a, b;", "E0001 5:9"),
        ("add.s32 (a), b, c;", "E0001 5:10"),
        ("mov.u32 a = 5;", "E0001 5:11"),
        ("mov.u32 a b;", "E0001 5:11"),
        ("mov.u32 a, b|c;", "E0001 5:13"),
        ("mov.u32 a, _;", "E0001 5:12"),
        ("mov.u32 a, \"s\";", "E0001 5:12"),
        ("mov.u32 a, 089;", "E0001 5:13"),
        ("mov.u32 a, 5L;", "E0001 5:13"),
        ("mov.u32 a, (1+2;", "E0001 5:16"),
        ("mov.u32 a, 1; */", "E0001 5:15"),
        ("mov.u32 a, 'x';", "E0002 5:12"),
        ("mov.u32 %%r, 1;", "E0001 5:9"),
        ("setp.eq.s32 p|, a, b;", "E0001 5:15"),
        ("setp.eq.s32 p|q|r, a, b;", "E0001 5:16"),
        ("ld.u32 a, [];", "E0001 5:12"),
        ("ld.u32 a, [b-4];", "E0001 5:13"),
        ("ld.u32 a, [4+b];", "E0001 5:14"),
        ("ld.u32 a, [b+c];", "E0001 5:14"),
        ("ld.u32 a, [g[2]];", "E0001 5:13"),
        ("ld.u32 a, [b, 4];", "E0001 5:15"),
        ("ld.u32 a, [b+1.5];", "E0008 5:14"),
        ("ld.v2.u32 {a, b, [c];", "E0001 5:18"),
        ("ld.v2.u32 {a,}, [c];", "E0001 5:14"),
        ("ld.reg.u32 a, [b];", "E0001 5:3"),
        ("ld.unified.u32 a, [b];", "E0001 5:3"),
        ("mov.u32 a, b\n.loc 1 1 1\nret;", "E0001 6:1"),
        ("mov.u32 a, b\n.reg .b32 c;", "E0001 6:1"),
        ("call f (a);", "E0001 5:8"),
        ("call (a b), f;", "E0001 5:9"),
        ("call f, (a,);", "E0001 5:12"),
        ("L1:: ret;", "E0001 5:4"),
        ("#pragma once", "E0002 5:1"),
        (".reg b32 z;", "E0001 5:6"),
        (".reg .b32 z<>;", "E0001 5:13"),
        (".reg .b32 z<3;", "E0001 5:14"),
        (".reg .b32 a,;", "E0001 5:13"),
        (".maxntid 16;", "E0014 5:1"),
        (".file 1 \"a\"", "E0014 5:1"),
        (".branchtargets L;", "E0014 5:1"),
        (".foo;", "E0016 5:1"),
        (".loc 1 1 1; ret;", "E0001 5:11"),
        (".loc \"a\" 1 1", "E0001 5:6"),
        (".pragma nounroll;", "E0001 5:9"),
        ("p: .callprototype x ();", "E0001 5:19"),
        ("/* \u{e9} */ ret; \u{e9}", "E0002 5:14"),
    ] {
        assert_eq!(body_problems(text), [expected], "{text}");
    }
}

#[test]
fn mistakes_in_items() {
    for (text, expected) in [
        (".global b32 x;", "E0001 4:9"),
        (".global .b33 x;", "E0001 4:9"),
        (".global .v3 .b32 x;", "E0001 4:9"),
        (".global .f32 .v4 x;", "E0001 4:14"),
        (".visible .b32 x;", "E0206 4:10"),
        (".extern .visible .global .b32 x;", "E0001 4:9"),
        (".global .b32 5x;", "E0001 4:14"),
        (".global .b32 x y;", "E0001 4:16"),
        (".global .b32 g[1+1];", "E0001 4:17"),
        (".global .b32 g[-1];", "E0001 4:16"),
        (".global .b32 g[] = {1, 2,};", "E0001 4:26"),
        (".global .b32 g = h-8;", "E0001 4:19"),
        (".global .b32 g = (h);", "E0001 4:19"),
        (".global .u8 g = 0xFFF(h);", "E0203 4:17"),
        (".global .f32 g = 0f3F800000+1.0;", "E0001 4:28"),
        (".global .u32 g = 1/0;", "E0007 4:18"),
        (".global .align -4 .b32 x;", "E0001 4:16"),
        (".entry () { ret; }", "E0001 4:8"),
        (".entry .visible k() { ret; }", "E0001 4:8"),
        (".entry k() .maxntid 3,4,5,6 { ret; }", "E0001 4:26"),
        (".entry k() .maxntid 12;", "E0001 4:23"),
        (".entry k()\n.func f();", "E0001 5:1"),
        (".common .func f();", "E0001 4:9"),
        (".func f(.param .b32) { ret; }", "E0001 4:20"),
        (".func f(.param .b32 x,) { ret; }", "E0001 4:23"),
        (".func f() .noreturn .noreturn { ret; }", "E0015 4:21"),
        (".func f(.reg .b32 y<3>) { ret; }", "E0001 4:20"),
        (".target sm_90", "E0015 4:1"),
        (".version 8.0", "E0015 4:1"),
        (".foo 5", "E0016 4:1"),
        (".loc 1 1 1", "E0014 4:1"),
        ("mov.u32 a, 5;", "E0017 4:1"),
        (".entry k() { ret; };", "E0001 4:20"),
        (".alias a b;", "E0001 4:10"),
        (".pragma \"foo", "E0004 4:9"),
        ("/* foo", "E0003 4:1"),
        (".file -1 \"a\"", "E0001 4:7"),
        (".section .s { .b8 256 }", "E0009 4:19"),
        (".section .s { .b8 1; }", "E0001 4:20"),
        (".section .s { .b64 L-4 }", "E0001 4:22"),
        ("\0", "E0002 4:1"),
    ] {
        assert_eq!(item_problems(text), [expected], "{text}");
    }
    assert_eq!(
        problems_of(&format!("{HEAD}.entry k() {{ ret;")),
        ["E0006 4:18"]
    );
}

#[test]
fn mistakes_in_headers() {
    for (text, expected) in [
        ("", "E0012 1:1"),
        (".target sm_80\n.version 8.0\n", "E0012 2:1"),
        (".version \"8.0\"\n.target sm_80", "E0001 1:10"),
        (".version 8\n.target sm_80", "E0001 1:10"),
        (".version 8.0;\n.target sm_80", "E0013 1:13"),
        (".version 8.0\n.target\n.entry k() { ret; }", "E0001 3:1"),
        (".version 8.0\n.target sm_80 sm_90\n", "E0017 2:15"),
        (".version 8.0\n.target sm_80\n.address_size 48", "E0208 3:1"),
    ] {
        let found = problems_of(text);
        assert_eq!(
            found.first().map(String::as_str),
            Some(expected),
            "{text}: {found:?}"
        );
    }
    for text in [
        ".version 8.0 .target sm_80 .address_size 64 .entry k(){ret;}",
        "# 1 \"f\"\n.version\t8.0\r\n\x0b.target /*x*/ sm_80 , debug // y",
    ] {
        assert_eq!(problems_of(text), [""; 0], "{text}");
    }
}

#[test]
fn one_run_reports_many_mistakes() {
    let text = "add.s32 a, , b;\nmov.u32 %%r, 1;\nret\n.reg b32 x;\n{ foo }\nret;;\nbar [;";
    let expected = [
        "E0001 5:12",
        "E0001 6:9",
        "E0001 8:1",
        "E0001 8:6",
        "E0001 9:7",
        "E0001 10:5",
        "E0001 11:6",
    ];
    assert_eq!(body_problems(text), expected);
    let text = ".global b32 x;\n.entry k( { ret; }\n.func f() { ret;\n.entry l() { ret; }\n.bar\n.global .b32 y;";
    assert_eq!(
        item_problems(text),
        ["E0001 4:9", "E0001 5:11", "E0014 7:1", "E0016 8:1"]
    );
}

#[test]
fn a_tree_is_there_whatever_is_wrong() {
    let parsed = parse_text(&format!(
        "{HEAD}.entry k() {{ {{ ret; foo [; bar; }} }}\n.global .b32 x;"
    ));
    assert!(parsed.has_errors());
    let begins = statements(&parsed)
        .iter()
        .filter(|s| matches!(s, Statement::ScopeBegin(_)));
    let ends = statements(&parsed)
        .iter()
        .filter(|s| matches!(s, Statement::ScopeEnd(_)));
    assert_eq!(begins.count(), ends.count());
    assert_eq!(parsed.module.variables().count(), 1);
}

#[test]
fn errors_are_cut_off() {
    let found = body_problems(&";\n".repeat(10_000));
    assert_eq!(found.len(), 101);
    assert!(found[100].starts_with("E0011"));
}

#[test]
fn nesting_costs_no_stack() {
    let deep = format!("{}{}", "{".repeat(100_000), "}".repeat(100_000));
    assert!(body_problems(&deep).contains(&"E0005 5:256".to_owned()));
    let deep = format!(".global .b32 x = {};", "{".repeat(100_000));
    assert_eq!(item_problems(&deep), ["E0005 4:118"]);
    let deep = format!("mov.u32 a, {}", "-".repeat(100_000));
    assert_eq!(body_problems(&deep)[0], "E0005 5:112");
}

#[test]
fn a_message_says_what_was_expected() {
    let parsed = parse_text(&format!("{HEAD}.entry k() {{\n  add.s32 %r1, , %r2;\n}}\n"));
    let drawn =
        parsed.diagnostics[0].render(&parsed.source, margay_frontend::diagnostic::Style::Plain);
    let expected = "\
error[E0001]: expected an operand, found `,`
 --> t:5:16
  |
5 |   add.s32 %r1, , %r2;
  |                ^ expected an operand";
    assert_eq!(drawn, expected);
}
