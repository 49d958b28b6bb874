//! Checks that lowering the functions of a module one by one on demand gives the same IR as
//! lowering all functions at once.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use margay_frontend::resolve::resolve;
use margay_frontend::{LazyModule, SourceFile, lower, parse};
use margay_ir::entity::FuncId;
use margay_ir::module::Module;

fn lazy(text: &str) -> LazyModule {
    let parsed = parse(SourceFile::new("lazy.ptx", text));
    assert!(!parsed.has_errors(), "{:?}", parsed.diagnostics);
    let resolution = resolve(&parsed);
    LazyModule::new(parsed, resolution).expect("the heads are right")
}

/// Returns the names of the functions that have a body.
fn bodies(module: &Module) -> Vec<&str> {
    let functions = module.functions.values().filter(|f| f.has_body());
    functions.map(|f| f.name.as_str()).collect()
}

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Returns a module of kernels. `a` calls `inner`, `b` may call any function, and `c` and `d` call no function. The
/// text of `d` is long.
fn four_kernels() -> String {
    let long = "add.u32 r, r, 1;\n".repeat(200);
    format!(
        "{HEADER}
.func (.reg .b32 o) inner(.reg .b32 i) {{ mov.b32 o, i; ret; }}
.func (.reg .b32 o) other(.reg .b32 i) {{ mov.b32 o, i; ret; }}
.entry a() {{ .reg .b32 r; mov.b32 r, 1; call (r), inner, (r); ret; }}
.entry b() {{
    .reg .b32 r; .reg .b64 f;
    mov.b32 r, 1; mov.b64 f, 0;
    P: .callprototype (.reg .b32 _) _ (.reg .b32 _);
    call (r), f, (r), P;
    ret;
}}
.entry c() {{ .shared .b32 s[4]; .reg .b32 r; mov.b32 r, s; ret; }}
.entry d() {{ .reg .b32 r; mov.b32 r, 1; {long} ret; }}
"
    )
}

#[test]
fn a_function_comes_with_what_it_may_call() {
    let mut lazy = lazy(&four_kernels());
    assert_eq!(bodies(lazy.module()), [""; 0]);
    let id = |lazy: &LazyModule, name: &str| lazy.module().by_name[name];
    let a = id(&lazy, "a");
    assert_eq!(lazy.lower(a), Ok(true));
    assert_eq!(bodies(lazy.module()), ["inner", "a"]);
    assert_eq!(lazy.lower(a), Ok(false), "it is there");
    let b = id(&lazy, "b");
    assert_eq!(lazy.lower(b), Ok(true));
    assert!(bodies(lazy.module()).contains(&"other"), "through a handle");
}

#[test]
fn who_asks_for_much_gets_more() {
    let mut lazy = lazy(&four_kernels());
    let id = |lazy: &LazyModule, name: &str| lazy.module().by_name[name];
    let c = id(&lazy, "c");
    assert_eq!(lazy.lower(c), Ok(true));
    assert_eq!(bodies(lazy.module()), ["c"]);
    assert!(!lazy.is_whole());
    // Lowering `d` also lowers other functions, until their text is as long as that of `c`. The text of `inner` is
    // shorter than that of `c`, so `other` is lowered too.
    let d = id(&lazy, "d");
    assert_eq!(lazy.lower(d), Ok(true));
    assert_eq!(bodies(lazy.module()), ["inner", "other", "c", "d"]);
}

#[test]
fn variables_of_functions_are_there_before_their_bodies() {
    let mut lazy = lazy(&format!(
        "{HEADER}.entry k() {{ .global .b32 g[2] = {{1, 2}}; .shared .b32 s; .reg .b64 r; mov.b64 r, g; ret; }}"
    ));
    let contents = lazy.take_contents();
    let symbols: Vec<_> = contents
        .values()
        .map(|s| (s.name.as_str(), s.init.clone()))
        .collect();
    assert_eq!(
        symbols,
        [("g", vec![1, 0, 0, 0, 2, 0, 0, 0]), ("s", vec![])]
    );
    let k = lazy.module().by_name["k"];
    assert_eq!(contents.values().next().and_then(|s| s.owner), Some(k));
    assert_eq!(lazy.lower(k), Ok(true));
    assert_eq!(lazy.module().symbols.len(), 2);
}

#[test]
fn an_alias_has_the_body_of_its_target() {
    let mut lazy = lazy(&format!(
        "{HEADER}
.func (.reg .b32 o) target(.reg .b32 i) {{ add.u32 o, i, 1; ret; }}
.func (.reg .b32 o) again(.reg .b32 i);
.alias again, target;
.entry k() {{ .reg .b32 r; mov.b32 r, 1; call (r), again, (r); ret; }}"
    ));
    let k = lazy.module().by_name["k"];
    assert_eq!(lazy.lower(k), Ok(true));
    let mut names = bodies(lazy.module());
    names.sort_unstable();
    assert_eq!(names, ["again", "k", "target"]);
}

fn text_of(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|e| e == "gz") {
        let mut text = String::new();
        let mut decoder = flate2::read::GzDecoder::new(&bytes[..]);
        decoder.read_to_string(&mut text).unwrap();
        return text;
    }
    String::from_utf8(bytes).unwrap()
}

/// Returns the text of a function's IR. Each signature index is replaced by the signature, because the indices depend
/// on the order of lowering.
fn printed(module: &Module, id: FuncId) -> String {
    let mut text = module.functions[id].to_string();
    for (sig, signature) in module
        .signatures
        .iter()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let number = format!("call.indirect sig{} ", sig.0);
        text = text.replace(&number, &format!("call.indirect {signature:?} "));
    }
    text
}

/// Returns the names and the owners of a module's variables.
fn symbols(module: &Module) -> Vec<(&str, Option<FuncId>)> {
    let symbols = module.symbols.values();
    symbols.map(|s| (s.name.as_str(), s.owner)).collect()
}

fn outline(text: &str) -> LazyModule {
    let source = Arc::new(SourceFile::new("lazy.ptx", text));
    let (module, warnings) = LazyModule::outline(source).expect("the heads are right");
    assert!(warnings.is_empty(), "{warnings:?}");
    module
}

/// Function bodies in which it is difficult to find the end or the variables of the module.
const DIFFICULT: &str = r#"
.visible .entry braces(.param .u64 p) {
    // } not the end
    /* } { " */ .reg .b32 %r<4>; .reg .b64 %d;
    .pragma "nounroll }";
    { .shared .align 16 .b8 s1[32]; { .reg .b32 t; mov.b32 t, s1; } }
    mov.b64 {%r1, %r2}, %d;
    mov.b64 %d, {%r1, %r2};
    L: .shared .v2 .b32 s2[4], s3;
    mov.b32 %r0, s2; mov.b32 %r1, s3;
    ret;
}
.func first() {.global .b32 g[2] = {1, 2}; .reg .b64 r; mov.b64 r, g; ret;}
.entry second() { .const .b32 c = 7; .reg .b32 r; ld.const.b32 r, [c]; call first; ret; }
.entry third() { .align 8 .shared .b32 s1; .reg .b32 r; mov.b32 r, s1; ret; }
.entry fourth() { .local .align 4 .b8 l[4]; .reg .b64 r; .reg .b32 n; ld.global.b32 n, [r]; mov.b64 r, l; ret; } // }
.entry fifth() { ret; }
.file 1 "lines.cu"
.entry sixth() {
    .reg .b32 r;
    .loc 1 12 0
    .shared .align 4 .b8 s4[16]; .reg .b64 d;
    .loc 1 13 5 /* where */ ld.shared.b32 r, [s4];
    .loc 1 14 5
    L: .loc 1 15 5
    .shared .b32 s5;
    mov.b32 r, s5;
    ret;
}
"#;

#[test]
fn a_body_that_was_skipped_has_the_same_statements() {
    let text = format!("{HEADER}{DIFFICULT}");
    let parsed = parse(SourceFile::new("lazy.ptx", text.as_str()));
    let whole = lower(&parsed, &resolve(&parsed)).expect("lowers");
    let ids: Vec<FuncId> = whole.functions.keys().collect();
    assert_eq!(ids.len(), 7);
    for order in [ids.clone(), ids.iter().rev().copied().collect()] {
        let mut outline = outline(&text);
        let names: Vec<&str> = outline
            .module()
            .symbols
            .values()
            .map(|s| &*s.name)
            .collect();
        assert_eq!(names, ["s1", "s2", "s3", "g", "c", "s1", "s4", "s5"]);
        let contents = outline.take_contents();
        let contents: Vec<&[u8]> = contents.values().map(|s| &*s.init).collect();
        assert_eq!(
            contents[3..5],
            [&[1, 0, 0, 0, 2, 0, 0, 0][..], &[7, 0, 0, 0]]
        );
        for id in order {
            outline.lower(id).expect("lowers");
        }
        for &id in &ids {
            assert_eq!(printed(outline.module(), id), printed(&whole, id));
        }
        assert_eq!(symbols(outline.module()), symbols(&whole));
        assert!(outline.is_whole());
    }
}

#[test]
fn an_error_in_a_body_that_was_skipped_is_reported_when_the_function_is_used() {
    let text = format!(
        "{HEADER}.entry good() {{ ret; }}
.entry unknown() {{ mov.b32 r, 1; ret; }}
.entry early() {{ call late; ret; }}
.func late() {{ ret; }}
.entry syntax() {{ add.u32 ,; }}
.entry calls() {{ call late; ret; }}
"
    );
    let mut outline = outline(&text);
    let id = |name: &str| outline.module().by_name[name];
    let [good, unknown, early, syntax, calls] =
        ["good", "unknown", "early", "syntax", "calls"].map(id);
    assert_eq!(outline.lower(good), Ok(true));
    let mut message = |id| {
        let errors = outline.lower(id).expect_err("an error");
        errors[0].summary(outline.source())
    };
    for _ in 0..2 {
        assert_eq!(
            message(unknown),
            "lazy.ptx:5:28: error[E0100]: `r` is not declared"
        );
        assert!(message(early).contains("`late` is not declared"));
        assert!(message(syntax).starts_with("lazy.ptx:8:27: error[E0001]"));
    }
    assert_eq!(outline.lower(calls), Ok(true));
    assert!(bodies(outline.module()).contains(&"late"));
}

#[test]
fn a_body_without_an_end_is_an_error_of_the_text() {
    for body in ["{ ret;", "{ ret; /* }", "{ .pragma \"x; }", "{ } }"] {
        let text = format!("{HEADER}.entry k() {body}\n");
        let source = Arc::new(SourceFile::new("lazy.ptx", text.as_str()));
        let errors = LazyModule::outline(source).expect_err(body);
        let parsed = parse(SourceFile::new("lazy.ptx", text.as_str()));
        assert_eq!(errors[0].message, parsed.diagnostics[0].message, "{body}");
    }
}

/// Checks that the IR of the functions does not depend on the order in which the functions are
/// lowered.
#[test]
fn any_order_gives_the_same_bodies() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cuda/ptx");
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = text_of(&entry.unwrap().path());
        let parsed = parse(SourceFile::new("lazy.ptx", text.as_str()));
        let whole = lower(&parsed, &resolve(&parsed)).expect("lowers");
        let ids: Vec<FuncId> = whole.functions.keys().collect();
        for mut lazy in [lazy(&text), outline(&text)] {
            for &id in ids.iter().rev() {
                lazy.lower(id).expect("lowers");
            }
            for &id in &ids {
                assert_eq!(printed(lazy.module(), id), printed(&whole, id));
                compared += usize::from(whole.functions[id].has_body());
            }
            assert!(lazy.is_whole());
            assert_eq!(symbols(lazy.module()), symbols(&whole));
        }
    }
    assert!(compared > 100, "{compared} functions");
}
