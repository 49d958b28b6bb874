//! Tests of checks on whole modules. Each test case states the code and the position of every
//! expected problem.

use super::check;
use crate::{SourceFile, parse};

const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// Returns the code, line and column of each problem that resolution finds in `text`, such as
/// `E0101 4:5`. The text must have no syntax errors.
fn problems_of(text: &str) -> Vec<String> {
    let parsed = parse(SourceFile::new("t", text));
    assert!(
        parsed.diagnostics.is_empty(),
        "{text}: {:?}",
        parsed.diagnostics
    );
    check(&parsed)
        .iter()
        .map(|d| {
            let at = d.position(&parsed.source);
            format!("{} {}:{}", d.code, at.line, at.column)
        })
        .collect()
}

/// Returns the code, line and column of each problem in a module that contains `items` at module
/// scope. The items start on line 4, after the header.
fn problems(items: &str) -> Vec<String> {
    problems_of(&format!("{HEAD}{items}\n"))
}

/// Returns the code, line and column of each problem in a kernel whose body contains `statements`.
/// The statements start on line 6 of the text.
fn body_problems(statements: &str) -> Vec<String> {
    problems(&format!(
        ".func fn() {{ ret; }}\n.entry k(.param .b32 n) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>;\n{statements}\n}}"
    ))
}

const NONE: [&str; 0] = [];

#[test]
fn names() {
    assert_eq!(body_problems("add.s32 %r1, %r2, %r9;"), ["E0100 6:19"]);
    assert_eq!(
        body_problems("ld.global.b32 %r1, [ %rdx+4];"),
        ["E0100 6:22"]
    );
    assert_eq!(body_problems("@!q ret;"), ["E0100 6:3"]);
    assert_eq!(body_problems("mov.b64 {%r1, x}, %rd1;"), ["E0100 6:15"]);
    assert_eq!(body_problems("bra L; { L: ret; }"), ["E0102 6:5"]);
    assert_eq!(body_problems("{ bra L; } L: ret;"), NONE);
    assert_eq!(body_problems("mov.b32 x, 1; .reg .b32 x;"), ["E0100 6:9"]);
    assert_eq!(body_problems(".reg .b32 n;"), ["E0101 6:11"]);
    assert_eq!(body_problems("L: ret; L: ret;"), ["E0101 6:9"]);
    assert_eq!(
        body_problems("{ .reg .b64 %r<3>; mov.b64 %r2, 1; mov.b32 %r3, 1; }"),
        NONE
    );
}

#[test]
fn target_lists() {
    assert_eq!(
        body_problems("t: .branchtargets A, B; brx.idx %r1, t; A:"),
        ["E0102 6:22"]
    );
    assert_eq!(
        body_problems("t: .branchtargets A<2>; brx.idx %r1, t; A0: A1:"),
        NONE
    );
    assert_eq!(
        body_problems("t: .branchtargets A<900000000000>; A0:"),
        ["E0102 6:19"]
    );
    assert_eq!(body_problems("t: .branchtargets %r1;"), ["E0103 6:19"]);
    assert_eq!(body_problems("t: .calltargets fn, k;"), ["E0103 6:21"]);
}

#[test]
fn items_of_one_name() {
    assert_eq!(problems(".global .b32 x; .global .b32 x;"), ["E0101 4:30"]);
    assert_eq!(
        problems(".func x() { ret; } .global .b32 x;"),
        ["E0101 4:33"]
    );
    assert_eq!(
        problems(".extern .global .b32 x; .visible .global .b32 x;"),
        NONE
    );
    assert_eq!(
        problems(".extern .global .b32 x; .global .b32 x;"),
        ["E0207 4:38"]
    );
    assert_eq!(
        problems(".extern .global .b32 x; .visible .global .b64 x;"),
        ["E0104 4:47"]
    );
    assert_eq!(
        problems(".extern .global .b32 x[]; .visible .global .b32 x[4];"),
        NONE
    );
    assert_eq!(problems(".func f(); .func f() { ret; }"), NONE);
    assert_eq!(problems(".func f() { ret; } .func f();"), ["E0101 4:26"]);
    assert_eq!(problems(".extern .func f() { ret; }"), ["E0207 4:15"]);
    assert_eq!(problems(".func f(); .visible .func f();"), ["E0207 4:27"]);
    assert_eq!(
        problems(".func f(.reg .b32 a); .func f(.reg .u32 a);"),
        ["E0104 4:29"]
    );
    assert_eq!(problems(".func f(.reg .b32 a); .func f();"), ["E0104 4:29"]);
    assert_eq!(problems(".func f(); .entry f() { ret; }"), ["E0104 4:19"]);
    assert_eq!(problems(".global .b32 %tid;"), ["E0101 4:14"]);
    assert_eq!(
        problems(".func f(.reg .b32 a) { .reg .b32 a; }"),
        ["E0101 4:34"]
    );
    assert_eq!(problems(".file 1 \"a\"\n.file 1 \"b\""), ["E0101 5:1"]);
}

#[test]
fn calls_need_an_earlier_declaration() {
    let text = ".func a() { call b; ret; }\n.func b() { ret; }";
    assert_eq!(problems(text), ["E0100 4:18"]);
    assert_eq!(problems(&format!(".func b();\n{text}")), NONE);
}

#[test]
fn aliases() {
    let functions =
        ".func a(); .func b() { ret; } .func c(.reg .b32 x) { ret; } .entry k() { ret; }";
    let alias = |alias: &str| problems(&format!("{functions}\n{alias}"));
    assert_eq!(alias(".alias a, b;"), NONE);
    assert_eq!(alias(".alias a, a;"), ["E0211 5:1"]);
    assert_eq!(alias(".alias b, a;"), ["E0211 5:1"]);
    assert_eq!(alias(".alias a, c;"), ["E0211 5:1"]);
    assert_eq!(alias(".alias a, k;"), ["E0211 5:11"]);
    assert_eq!(alias(".alias a, zz;"), ["E0211 5:11"]);
    assert_eq!(alias(".alias a, b; .alias a, b;"), ["E0211 5:14"]);
}

#[test]
fn state_spaces_and_types() {
    assert_eq!(problems(".local .b32 x;"), ["E0206 4:13"]);
    assert_eq!(problems(".reg .b32 x;"), ["E0206 4:11"]);
    assert_eq!(problems(".param .b32 x;"), ["E0206 4:13"]);
    assert_eq!(problems(".tex .u32 x;"), ["E0209 4:11"]);
    assert_eq!(problems(".const[2] .b32 x;"), ["E0209 4:16"]);
    assert_eq!(problems(".global .pred x;"), ["E0206 4:15"]);
    assert_eq!(problems(".global .v4 .b64 x;"), ["E0212 4:18"]);
    assert_eq!(problems(".shared .b32 x[];"), ["E0205 4:14"]);
    assert_eq!(problems(".extern .shared .b32 x[];"), NONE);
    assert_eq!(problems(".global .b32 x[0];"), ["E0205 4:14"]);
    // ptxas accepts global arrays of any size. Loading a module with an array that is too large fails.
    assert_eq!(problems(".global .b64 x[9223372036854775807][9];"), NONE);
    assert_eq!(problems(".global .samplerref s;"), ["E0206 4:21"]);
    assert_eq!(problems(".global .align 3 .b32 x;"), ["E0208 4:1"]);
    assert_eq!(problems(".common .shared .b32 x;"), ["E0207 4:22"]);
    assert_eq!(body_problems(".reg .b32 z[4];"), ["E0206 6:11"]);
    assert_eq!(body_problems(".reg .v2 .pred z;"), ["E0206 6:16"]);
    assert_eq!(body_problems(".global .texref t;"), ["E0206 6:17"]);
    assert_eq!(body_problems(".reg .b32 z<99999999999>;"), ["E0105 6:11"]);
}

#[test]
fn parameters() {
    assert_eq!(problems(".entry x(.reg .b32 a) { ret; }"), ["E0210 4:20"]);
    assert_eq!(problems(".func x(.shared .b32 a) { ret; }"), ["E0210 4:22"]);
    assert_eq!(
        problems(".entry x(.param .b32 a[]) { ret; }"),
        ["E0205 4:22"]
    );
    assert_eq!(problems(".func x(.param .b32 _) { ret; }"), ["E0210 4:21"]);
    assert_eq!(
        problems(".func x(.param .u64 .ptr a) { ret; }"),
        ["E0210 4:26"]
    );
    assert_eq!(
        problems(".entry x(.param .v2 .b32 a) { ret; }"),
        ["E0210 4:26"]
    );
    assert_eq!(problems(".entry x(.param .b8 a[32764]) { ret; }"), NONE);
    assert_eq!(
        problems(".entry x(.param .b8 a[32764], .param .b8 b) { ret; }"),
        ["E0210 4:8"]
    );
}

// Regression test: every wrong value was reported, and 10 million wrong values took 3.7 GB of memory.
#[test]
fn wrong_values_are_reported_up_to_the_limit() {
    let values = "1,".repeat(1000);
    let found = problems(&format!(".global .f32 x[] = {{{values}1}};"));
    assert_eq!(found.len(), 100);
}

#[test]
fn initial_values() {
    assert_eq!(problems(".global .b32 x[2] = {1, 2, 3};"), ["E0203 4:21"]);
    assert_eq!(problems(".global .b32 x[2] = 5;"), ["E0203 4:21"]);
    assert_eq!(problems(".global .b32 x[2][2] = {{1}, 2};"), ["E0203 4:30"]);
    assert_eq!(problems(".global .b32 x[][2] = {{1}, {1, 2}, {}};"), NONE);
    assert_eq!(
        problems(".global .v4 .b32 x[2] = {{1, 2, 3, 4}, {5}};"),
        ["E0203 4:40"]
    );
    assert_eq!(problems(".global .u32 x = 1.5;"), ["E0203 4:18"]);
    assert_eq!(problems(".global .f32 x = 1;"), ["E0203 4:18"]);
    assert_eq!(problems(".global .b32 x = 0f3F800000;"), NONE);
    assert_eq!(problems(".global .f16 x = 1.0;"), ["E0204 4:18"]);
    assert_eq!(problems(".shared .b32 x = 1;"), ["E0204 4:18"]);
    assert_eq!(problems(".extern .global .b32 x = 1;"), ["E0204 4:26"]);
    assert_eq!(
        problems(".global .u64 g = g; .global .u64 h[2] = {g+8, generic(g)};"),
        NONE
    );
    assert_eq!(
        problems(".global .u64 x = y; .global .b32 y;"),
        ["E0100 4:18"]
    );
    assert_eq!(
        problems(".shared .b32 s; .global .u64 x = s;"),
        ["E0203 4:34"]
    );
    assert_eq!(
        problems(".global .b32 h; .global .b64 x = h;"),
        ["E0203 4:34"]
    );
    assert_eq!(
        problems(".global .b32 h; .global .u8 x[2] = {0xFF(h), 0xFF00(h)};"),
        NONE
    );
    assert_eq!(
        problems(".func f() { ret; } .global .u64 x = f+4;"),
        ["E0203 4:37"]
    );
    assert_eq!(
        problems(".global .texref t = { width = 1, foo = 2 };"),
        ["E0203 4:34"]
    );
    assert_eq!(
        problems(".global .texref t = { filter_mode = sharp };"),
        ["E0203 4:37"]
    );
    assert_eq!(
        problems(".global .texref t = { width = big };"),
        ["E0203 4:31"]
    );
    assert_eq!(body_problems(".reg .b32 z = 5;"), ["E0204 6:15"]);
    assert_eq!(
        body_problems(".pragma \"frequency\"; .pragma \"frequency 5\";"),
        ["E0208 6:10"]
    );
}

#[test]
fn function_directives() {
    let entry = |directives: &str| problems(&format!(".entry x() {directives} {{ ret; }}"));
    assert_eq!(entry(".maxnreg 0"), ["E0208 4:12"]);
    assert_eq!(entry(".maxntid 8, 0"), ["E0208 4:12"]);
    assert_eq!(entry(".maxntid 8 .reqntid 8"), ["E0208 4:23"]);
    assert_eq!(entry(".maxnctapersm 4"), ["E0209 4:12"]);
    assert_eq!(entry(".blocksareclusters"), ["E0208 4:12"]);
    assert_eq!(
        entry(".reqntid 2 .reqnctapercluster 2 .blocksareclusters"),
        NONE
    );
    assert_eq!(
        problems(".func (.reg .b32 r) f() .noreturn;"),
        ["E0014 4:25"]
    );
    assert_eq!(entry(".minnctapersm 2"), ["W0501 4:12"]);
    assert_eq!(entry(".pragma \"frequency 5\";"), ["E0014 4:21"]);
    assert_eq!(entry(".pragma \"nounroll\", \"x\";"), ["W0500 4:33"]);
}

#[test]
fn headers() {
    let header = |text: &str| problems_of(text);
    assert_eq!(header(".version 9.6\n.target sm_80"), ["E0200 1:1"]);
    assert_eq!(header(".version 8.10\n.target sm_80"), NONE);
    assert_eq!(header(".version 7.0\n.target sm_90"), ["E0202 2:9"]);
    assert_eq!(header(".version 8.0\n.target sm_999"), ["E0201 2:9"]);
    assert_eq!(header(".version 8.0\n.target sm_80, foo"), ["E0201 2:16"]);
    assert_eq!(
        header(".version 8.0\n.target texmode_unified"),
        ["E0201 2:9"]
    );
    assert_eq!(header(".version 8.0\n.target sm_80, debug"), ["E0214 2:1"]);
    let both = ".version 8.0\n.target sm_80, texmode_unified, texmode_independent";
    assert_eq!(header(both), ["E0208 2:33"]);
    assert_eq!(
        header(".version 2.2\n.target sm_20\n.address_size 64"),
        ["E0213 3:1"]
    );
    let old = ".version 1.4\n.target sm_10\n.reg .b32 r; .tex .u32 t; .const[0] .b32 c;";
    assert_eq!(header(old), ["E0206 3:41"; 0]);
}

#[test]
fn many_problems_are_cut_off() {
    let text = "mov.b32 x, 1;\n".repeat(100_000);
    let found = body_problems(&text);
    assert!((100..200).contains(&found.len()), "{}", found.len());
}

/// Returns the code, line and column of each problem in `statements`, for which variables in every
/// state space are declared. As in [`body_problems`], the statements start on line 6. The results
/// that the tests expect are those of ptxas 13.5.
fn address_problems(statements: &str) -> Vec<String> {
    problems(&format!(
        ".global .b32 g[8]; .global .b32 one; .const .b32 c[8]; .shared .b32 s[8];\n\
         .entry k() {{ .local .b32 l[4]; .reg .b16 %h; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<3>; .reg .v2 .b32 %v; .reg .u32 %u<3>; .reg .pred %p;\n\
         {statements}\n}}"
    ))
}

#[test]
fn elements_of_arrays_have_addresses() {
    for statement in [
        "mov.u64 %rd1, g[1];",
        "mov.u64 %rd1, l[0];",
        "mov.u64 %rd1, s[%r1+2];",
        "mov.u64 %rd1, g[%h];",
        "mov.u64 %rd1, g[%rd2];",
        "mov.u32 %r1, s[2];",
        "cvta.global.u64 %rd1, g[1];",
        "ld.shared.u32 %r1, s[%r2];",
        "st.global.v2.u32 g[2], {%r1, %r2};",
        "ldu.global.u32 %r1, g[1];",
    ] {
        assert_eq!(address_problems(statement), NONE, "{statement}");
    }
    for (statement, column) in [
        ("mov.u64 %rd1, one[1];", 15),
        ("mov.u64 %rd1, g[%f1];", 15),
        ("ld.global.u32 %r1, one[0];", 20),
    ] {
        let expected = [format!("E0306 6:{column}")];
        assert_eq!(address_problems(statement), expected, "{statement}");
    }
    for (statement, column) in [
        ("add.u64 %rd1, g[1], 4;", 15),
        ("cvt.u64.u64 %rd1, g[1];", 19),
        ("atom.global.add.u32 %r1, g[1], %r2;", 26),
        ("red.global.add.u32 g[1], %r2;", 20),
        ("prefetch.global.L1 g[1];", 20),
        ("st.global.u32 g[1], g[1];", 21),
        ("ld.shared.u32 %r1, s;", 20),
    ] {
        let expected = [format!("E0305 6:{column}")];
        assert_eq!(address_problems(statement), expected, "{statement}");
    }
}

#[test]
fn addresses_have_a_width_and_a_space() {
    for statement in [
        "ld.shared.u32 %r1, [%r2];",
        "ld.const.u32 %r1, [%r2];",
        "ld.u32 %r1, [g];",
        "mov.u32 %r1, s;",
        "mov.u32 %r1, c;",
        "add.u64 %rd1, g+4, 4;",
        "cvta.to.global.u64 %rd1, g+4;",
        "mov.b64 {%r1, %r2}, g;",
    ] {
        assert_eq!(address_problems(statement), NONE, "{statement}");
    }
    for (statement, code, column) in [
        ("ld.global.u32 %r1, [%r2];", "E0305", 20),
        ("ld.u32 %r1, [%u1];", "E0305", 13),
        ("atom.global.add.u32 %r1, [%r2], %r3;", "E0305", 26),
        ("mov.u32 %r1, g;", "E0305", 14),
        ("add.u64 %rd1, g, 4;", "E0305", 15),
        ("cvt.u64.u64 %rd1, g;", "E0305", 19),
        ("cvta.global.u32 %r1, %r2;", "E0307", 12),
        ("cvta.to.global.u32 %r1, %r2;", "E0307", 15),
        ("cvta.u32.global %r1, %r2;", "E0307", 5),
        ("ld.u32 %r1, [c];", "E0308", 13),
        ("st.u32 [c], %r1;", "E0308", 8),
        ("atom.add.u32 %r1, [c], %r2;", "E0308", 19),
    ] {
        let expected = [format!("{code} 6:{column}")];
        assert_eq!(address_problems(statement), expected, "{statement}");
    }
}

#[test]
fn components_are_named_by_place_or_colour() {
    for statement in [
        "mov.u32 %r1, %tid.r;",
        "mov.u32 %r1, %ctaid.g;",
        "mov.u32 %r1, %ntid.b;",
        "mov.u32 %r1, %nctaid.a;",
        "mov.b32 %r1, %v.g;",
        "mov.b32 %v.x, %r1;",
        "mov.b64 %rd1, %v;",
        "ld.global.v2.b32 %v, [%rd1];",
    ] {
        assert_eq!(address_problems(statement), NONE, "{statement}");
    }
    for (statement, column) in [
        ("mov.u32 %r1, %tid.q;", 14),
        ("mov.u32 %r1, %laneid.x;", 14),
        ("mov.b32 %r1, %v.z;", 14),
        ("mov.b32 %v.a, %r1;", 9),
    ] {
        let expected = [format!("E0306 6:{column}")];
        assert_eq!(address_problems(statement), expected, "{statement}");
    }
}

#[test]
fn what_only_some_formats_take() {
    for statement in [
        "ld.global.v2.f32 {%u1, %u2}, [%rd1];",
        "st.global.v2.f32 [%rd1], {%u1, %u2};",
        "set.eq.and.f16.u32 %h, %r1, %r2, 1;",
        "cvt.rzi.u16.bf16 %h, %h;",
        "lop3.b32 _, %r1, %r2, %r3, 5;",
        "vmad.s32.s32.s32 %r1, -%r2, -%r3, -%r1;",
    ] {
        assert_eq!(address_problems(statement), NONE, "{statement}");
    }
    for (statement, code, column) in [
        ("ld.global.f32 %u1, [%rd1];", "E0305", 15),
        ("ld.global.v2.f32 {%u1, %f2}, [%rd1];", "E0305", 18),
        ("set.eq.and.bf16.u32 %h, %r1, %r2, 1;", "E0305", 35),
        ("setp.eq.and.bf16 %p, %h, %h, 1;", "E0305", 30),
        ("cvt.rzi.u16.bf16 %r1, %h;", "E0305", 18),
        ("cvt.rn.bf16.u16 %h, %r1;", "E0305", 21),
        ("vadd2.s32.s32.s32 %r1, 5, %r2, %r3;", "E0305", 24),
        ("vmad.s32.s32.s32 %r1, -%r2, %r3, -%r1;", "E0306", 34),
    ] {
        let expected = [format!("{code} 6:{column}")];
        assert_eq!(address_problems(statement), expected, "{statement}");
    }
    let passed = "call fn2, (_);";
    let declared = ".func fn2(.reg .b32 a) { ret; }\n.entry k() {\n";
    assert_eq!(problems(&format!("{declared}{passed}\n}}")), ["E0309 6:12"]);
}
