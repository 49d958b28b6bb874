//! Several PTX texts linked into one module, where declarations and definitions differ.

use margay::{Error, Image, LaunchConfig, LoadOptions, Runtime};

const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

/// Runs a kernel that stores `%r1`, which is 7 unless `call` changes it. `callee` is the text that defines the called
/// function. Returns the stored value.
fn run(declaration: &str, call: &str, callee: &str) -> Result<u32, Error> {
    let caller = format!(
        "{HEAD}{declaration}
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, 7;
    mov.u32 %r2, 0x40490fdb;
    {{ {call} }}
    st.global.u32 [%rd1], %r1;
    ret;
}}
"
    );
    let callee = format!("{HEAD}{callee}");
    let texts = [caller.as_bytes(), callee.as_bytes()];
    let rt = Runtime::new()?;
    let module = rt.load_image(Image::Linked(&texts), &LoadOptions::default())?;
    let out = rt.upload(&[0u32])?;
    rt.launch(&module.kernel("k")?, LaunchConfig::linear(1, 1), (&out,))?;
    Ok(out.to_vec()?[0])
}

#[test]
fn a_result_that_the_definition_does_not_give_is_zero() {
    let got = run(
        ".extern .func (.param .b64 r) consume(.param .b32 x);",
        ".param .b32 p; .param .b64 q; st.param.b32 [p], %r2; call.uni (q), consume, (p);
         ld.param.b64 %rd2, [q]; cvt.u32.u64 %r3, %rd2; add.u32 %r1, %r1, %r3;",
        ".visible .func consume(.param .b32 x) { ret; }",
    );
    assert_eq!(got.unwrap(), 7);
}

#[test]
fn a_result_that_the_declaration_does_not_know_is_dropped() {
    let got = run(
        ".extern .func give(.param .b32 x);",
        ".param .b32 p; st.param.b32 [p], %r2; call.uni give, (p);",
        ".visible .func (.param .b32 r) give(.param .b32 x)
         { .reg .b32 %r<2>; ld.param.b32 %r1, [x]; st.param.b32 [r], %r1; ret; }",
    );
    assert_eq!(got.unwrap(), 7);
}

#[test]
fn values_of_one_size_keep_their_bits() {
    let got = run(
        ".extern .func (.param .b32 r) half(.param .b32 x);",
        ".param .b32 p; .param .b32 q; st.param.b32 [p], %r2; call.uni (q), half, (p); ld.param.b32 %r1, [q];",
        ".visible .func (.param .f32 r) half(.param .f32 x)
         { .reg .f32 %f<3>; ld.param.f32 %f1, [x]; mul.f32 %f2, %f1, 0f3f000000; st.param.f32 [r], %f2; ret; }",
    );
    // The result is half of 0x40490fdb (pi): its exponent is smaller by one.
    assert_eq!(got.unwrap(), 0x3fc9_0fdb);
}

#[test]
fn other_parameters_are_an_error_that_names_the_function() {
    for callee in [
        ".visible .func (.param .b32 r) sum(.param .b32 x, .param .b32 y) { ret; }",
        ".visible .func (.param .b32 r) sum(.param .b64 x) { ret; }",
    ] {
        let got = run(
            ".extern .func (.param .b32 r) sum(.param .b32 x);",
            ".param .b32 p; .param .b32 q; st.param.b32 [p], %r2; call.uni (q), sum, (p); ld.param.b32 %r1, [q];",
            callee,
        );
        let said = got.unwrap_err().to_string();
        assert!(said.contains("`sum`"), "{said}");
    }
}

#[test]
fn linked_modules_share_the_64_kib_of_constant_memory() {
    let load = |first: u32, second: u32| {
        let texts = [("a", first), ("b", second)]
            .map(|(name, bytes)| format!("{HEAD}.visible .const .align 1 .b8 {name}[{bytes}];\n"));
        let rt = Runtime::new()?;
        let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        rt.load_image(Image::Linked(&parts), &LoadOptions::default())
            .map(|_| ())
    };
    load(40_000, 25_536).expect("64 KiB in all");
    let error = load(40_000, 25_537).expect_err("a byte more");
    assert!(matches!(error, Error::InvalidPtx { .. }), "{error}");
    let error = load(65_537, 1).expect_err("one is too large alone");
    assert!(matches!(error, Error::InvalidPtx { .. }), "{error}");
}

/// Links PTX texts, runs the kernel `k` with one thread and returns the word that the kernel stores.
fn linked(texts: &[String]) -> Result<u32, Error> {
    let rt = Runtime::new()?;
    let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let module = rt.load_image(Image::Linked(&parts), &LoadOptions::default())?;
    let out = rt.upload(&[0u32])?;
    rt.launch(&module.kernel("k")?, LaunchConfig::linear(1, 1), (&out,))?;
    Ok(out.to_vec()?[0])
}

/// Returns a weak function with the name `shared`. It returns the result of `callee`.
fn weak(callee: &str) -> String {
    format!(
        ".weak .func (.param .b32 r) shared()
{{
    .reg .b32 %r<2>; .param .b32 q;
    call.uni (q), {callee}, (); ld.param.b32 %r1, [q]; st.param.b32 [r], %r1; ret;
}}
"
    )
}

/// Returns a function that returns a constant.
fn constant(linkage: &str, name: &str, value: u32) -> String {
    format!("{linkage} .func (.param .b32 r) {name}() {{ st.param.b32 [r], {value}; ret; }}\n")
}

/// A kernel that stores the result of `shared`.
const STORES_SHARED: &str = ".visible .entry k(.param .u64 out)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>; .param .b32 q;
    ld.param.u64 %rd1, [out];
    call.uni (q), shared, (); ld.param.b32 %r1, [q];
    st.global.u32 [%rd1], %r1; ret;
}
";

#[test]
fn of_weak_functions_the_first_is_used_with_what_it_calls() {
    // Both texts define their own function `own`, and the functions have different indices in their modules.
    let first = [constant("", "own", 3), weak("own"), STORES_SHARED.into()];
    let fill = ["a", "b", "c"].map(|name| constant("", name, 100));
    let second = [
        fill.concat(),
        constant("", "own", 4),
        weak("own"),
        fill.concat().replace("() {", "2() {"),
    ];
    let text = |parts: &[String]| format!("{HEAD}{}", parts.concat());
    let (first, second) = (text(&first), text(&second));
    assert_eq!(linked(&[first.clone(), second.clone()]).unwrap(), 3);
    assert_eq!(linked(&[second, first]).unwrap(), 4);
}

#[test]
fn a_strong_function_replaces_a_weak_one() {
    let weak = format!(
        "{HEAD}{}{}{STORES_SHARED}",
        constant("", "own", 3),
        weak("own")
    );
    let strong = format!("{HEAD}{}", constant(".visible", "shared", 5));
    assert_eq!(linked(&[weak.clone(), strong.clone()]).unwrap(), 5);
    assert_eq!(linked(&[strong.clone(), weak]).unwrap(), 5);
    let again = strong.replace('5', "6");
    let said = linked(&[strong, again]).unwrap_err().to_string();
    assert!(said.contains("`shared`"), "{said}");
}

#[test]
fn of_weak_variables_the_first_is_used_with_what_it_points_to() {
    // `chosen` holds the address of `own`, a variable that each text defines for itself.
    let text = |before: &str, value: u32, kernel: &str| {
        format!(
            "{HEAD}{before}.global .u32 own = {value};
.weak .global .u64 chosen = own;
{kernel}"
        )
    };
    let kernel = ".visible .entry k(.param .u64 out)
{
    .reg .b32 %r<2>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out]; ld.global.u64 %rd2, [chosen];
    ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1; ret;
}
";
    let first = text("", 3, kernel);
    let second = text(".global .u32 a = 8; .global .u32 b = 9;\n", 4, "");
    assert_eq!(linked(&[first.clone(), second.clone()]).unwrap(), 3);
    assert_eq!(linked(&[second, first]).unwrap(), 4);
}

#[test]
fn of_common_variables_the_largest_is_used() {
    let kernel = "{HEAD}.common .global .align 4 .b8 room[4];
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    st.global.u32 [room+60], 7; ld.global.u32 %r1, [room+60];
    st.global.u32 [%rd1], %r1; ret;
}
"
    .replace("{HEAD}", HEAD);
    let larger = format!("{HEAD}.common .global .align 4 .b8 room[64];\n");
    assert_eq!(linked(&[kernel.clone(), larger.clone()]).unwrap(), 7);
    assert_eq!(linked(&[larger, kernel]).unwrap(), 7);
}
