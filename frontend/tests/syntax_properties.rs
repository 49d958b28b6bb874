//! Property tests: for any text, parsing and resolution end without a panic, and the spans of functions, instructions,
//! operands and diagnostics are inside the text.

use margay_frontend::ast::{Instruction, Statement};
use margay_frontend::diagnostic::Style;
use margay_frontend::{Parsed, SourceFile, Span, parse, resolve};
use proptest::collection::vec;
use proptest::prelude::*;

const WORDS: &[&str] = &[
    ".version",
    "8.3",
    ".target",
    "sm_80",
    ".address_size",
    "64",
    ".entry",
    ".func",
    ".visible",
    ".extern",
    ".weak",
    ".global",
    ".shared",
    ".reg",
    ".param",
    ".const",
    ".b32",
    ".u64",
    ".pred",
    ".f32",
    ".v4",
    ".align",
    ".ptr",
    ".texref",
    ".samplerref",
    ".attribute",
    ".managed",
    ".maxntid",
    ".noreturn",
    ".pragma",
    ".alias",
    ".file",
    ".loc",
    ".section",
    ".debug_str",
    "@@DWARF",
    ".branchtargets",
    ".calltargets",
    ".callprototype",
    "function_name",
    "inlined_at",
    "generic",
    "mask",
    "k",
    "x",
    "%r",
    "%r1",
    "%r2",
    "%p1",
    "L",
    "call",
    "bra",
    "add",
    "mov",
    "ld",
    "tex",
    "ret",
    "setp",
    "%tid",
    ".x",
    ".s32",
    ".eq",
    ".1d",
    ".unified",
    "0",
    "1",
    "3",
    "0x1F",
    "089",
    "0f3F800000",
    "0d3FF0000000000000",
    "1.5",
    ".5",
    "1e400",
    "99999999999999999999",
    "0xFF00",
    "WARP_SZ",
    "_",
    "\"s\"",
    "\"",
    "@",
    "!",
    ",",
    ";",
    ":",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "~",
    "?",
    "&",
    "&&",
    "|",
    "||",
    "^",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "<<",
    ">>",
    ".",
    "/*",
    "*/",
    "//",
    "\n",
    "# 1 \"f\"\n",
    "#",
    "$",
    "\0",
    "\u{e9}",
];

const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

fn check(text: &str) {
    let mut parsed = parse(SourceFile::new("t", text));
    let checked = resolve::check(&parsed);
    parsed.diagnostics.extend(checked);
    spans_lie_inside(&parsed);
    for diagnostic in parsed.diagnostics.iter().take(5) {
        assert!(!diagnostic.message.is_empty());
        assert!(!diagnostic.render(&parsed.source, Style::Plain).is_empty());
    }
}

fn spans_lie_inside(parsed: &Parsed) {
    let text = parsed.source.text();
    let inside = |span: Span| {
        assert!(
            text.get(span.range()).is_some(),
            "{span:?} of {}",
            text.len()
        );
    };
    for diagnostic in &parsed.diagnostics {
        inside(diagnostic.span);
        diagnostic
            .related
            .iter()
            .for_each(|label| inside(label.span));
    }
    let module = &parsed.module;
    for (_, function) in module.functions() {
        inside(function.span);
        let mut depth = 0;
        for statement in function.body.iter().flat_map(|&body| &module[body]) {
            match statement {
                Statement::ScopeBegin(_) => depth += 1,
                Statement::ScopeEnd(_) => depth -= 1,
                Statement::Instruction(found) => instruction_lies_inside(parsed, found, &inside),
                _ => {}
            }
            assert!(depth >= 0);
        }
        assert_eq!(depth, 0);
    }
}

fn instruction_lies_inside(parsed: &Parsed, found: &Instruction, inside: &dyn Fn(Span)) {
    let module = &parsed.module;
    inside(found.span);
    for operand in &module[found.operands] {
        inside(operand.span);
        assert!(found.span.start <= operand.span.start && operand.span.end <= found.span.end);
    }
    assert_eq!(
        parsed.source.slice(module.opcode_span(found)),
        module.text(found.opcode)
    );
}

fn words() -> impl Strategy<Value = String> {
    vec(
        (
            prop::sample::select(WORDS),
            prop::sample::select(&[" ", " ", ""][..]),
        ),
        0..80,
    )
    .prop_map(|words| {
        words
            .into_iter()
            .flat_map(|(word, gap)| [word, gap])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..400)) {
        check(SourceFile::from_bytes("t", &bytes).text());
    }

    #[test]
    fn any_words(text in words()) {
        check(&text);
    }

    #[test]
    fn any_words_as_items(text in words()) {
        check(&format!("{HEAD}{text}"));
    }

    #[test]
    fn any_words_in_a_body(text in words()) {
        check(&format!("{HEAD}.entry k(.param .b32 n) {{ .reg .b32 %r<3>; {text} ret; }}"));
    }

    #[test]
    fn any_cut_and_change(at in 0..KERNEL.len(), word in prop::sample::select(WORDS), cut in 0..9_usize) {
        let end = (at + cut).min(KERNEL.len());
        check(&format!("{}{word}{}", &KERNEL[..at], &KERNEL[end..]));
    }
}

const KERNEL: &str = ".version 8.3
.target sm_80
.address_size 64
.file 1 \"a.cu\"
.global .align 8 .u64 t[2] = {generic(g)+4, 0xFF};
.global .b32 g[2][2] = {{1, -2}, {3}};
.extern .func (.param .b32 r) f(.param .align 4 .b64 a);
.func (.param .b32 r) h(.param .b64 a) .noreturn;
.visible .entry k(.param .u64 .ptr .global .align 8 p, .param .u32 n)
.maxntid 128, 1, 1
{
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<3>;
    .loc 1 3 4
    ld.param.u64 %rd1, [p];
    setp.ge.u32 %p1|_, %r1, %tid.x;
    @!%p1 bra L, (1+2*3);
    { .param .b64 a; .param .b32 r; st.param.b64 [a+0], %rd1;
    call.uni (r), h, (a); }
    P: .callprototype (.param .b32 _) _ (.param .b64 _);
L:  vmad.u32.u32.u32 %r1, -%r2.b0, {%r1, _}, [%rd2, {%r1, 0f3F800000}];
    ret;
}
.section .debug_str { L0: .b8 1,2 .b32 L0 + 4 .b64 L1-L0 L1: }
";

#[test]
fn the_kernel_to_be_changed_is_right_but_for_its_types() {
    let parsed = parse(SourceFile::new("t", KERNEL));
    assert_eq!(parsed.diagnostics, []);
}
