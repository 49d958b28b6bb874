//! Checks that lowering the functions of a module one by one on demand gives the same IR as
//! lowering all functions at once.

use std::io::Read;
use std::path::Path;

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
        let mut lazy = lazy(&text);
        let ids: Vec<FuncId> = whole.functions.keys().collect();
        for &id in ids.iter().rev() {
            lazy.lower(id).expect("lowers");
        }
        for id in ids {
            assert_eq!(printed(lazy.module(), id), printed(&whole, id));
            compared += usize::from(whole.functions[id].has_body());
        }
        assert!(lazy.is_whole());
    }
    assert!(compared > 100, "{compared} functions");
}
