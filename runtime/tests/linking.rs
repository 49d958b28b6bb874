//! Tests that link several PTX texts into one module, in which a function or variable is declared in
//! one text and defined differently in another, and tests of external variables without a definition.

use margay::{EngineChoice, Error, FaultKind, Image, LaunchConfig, LoadOptions, Runtime};

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

/// Returns the text of a weak function with the name `shared`, which calls `callee` and returns its
/// result.
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

/// Returns the text of a function that returns `value`.
fn constant(linkage: &str, name: &str, value: u32) -> String {
    format!("{linkage} .func (.param .b32 r) {name}() {{ st.param.b32 [r], {value}; ret; }}\n")
}

/// A kernel that calls the function `shared` and stores its result.
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

/// NVIDIA's linker (nvJitLink 13) reports the same pairs.
#[test]
fn variables_of_one_name_have_one_size_and_one_space() {
    let load = |first: &str, second: &str| {
        let texts = [first, second].map(|variable| format!("{HEAD}{variable} ;\n"));
        let rt = Runtime::new().expect("a runtime");
        let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let loaded = rt.load_image(Image::Linked(&parts), &LoadOptions::default());
        loaded.map(|_| ()).map_err(|error| error.to_string())
    };
    let defined = ".visible .global .b8 x[16]";
    for (other, wanted) in [
        (".extern .global .b8 x[16]", None),
        (".extern .global .u32 x[4]", None),
        (".extern .global .b8 x[]", None),
        (
            ".extern .global .b8 x[32]",
            Some("`x` has 16 bytes in one module and 32 in another"),
        ),
        (
            ".extern .global .b8 x[8]",
            Some("`x` has 16 bytes in one module and 8 in another"),
        ),
        (
            ".weak .global .b8 x[32]",
            Some("`x` has 16 bytes in one module and 32 in another"),
        ),
        (
            ".common .global .b8 x[32]",
            Some("`x` has 16 bytes in one module and 32 in another"),
        ),
        (
            ".extern .const .b8 x[16]",
            Some("`x` is in `.global` in one module and in `.const` in another"),
        ),
    ] {
        match (load(defined, other), wanted) {
            (Ok(()), None) => {}
            (Err(said), Some(wanted)) => assert!(said.contains(wanted), "{other}: {said}"),
            (got, _) => panic!("{other}: {got:?}"),
        }
    }
    let unsized_first = ".extern .shared .b8 s[]";
    assert_eq!(load(unsized_first, ".extern .shared .b8 s[16]"), Ok(()));
}

/// A PTX text whose kernel stores the second word of the external variable `there`, plus 100 if the
/// variable's address is not 0.
const USES_THERE: &str = "
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<3>; .reg .b64 %rd<4>; .reg .pred %p;
    ld.param.u64 %rd1, [out];
    mov.u64 %rd2, there;
    ld.global.u32 %r1, [%rd2+4];
    setp.ne.u64 %p, %rd2, 0;
    selp.u32 %r2, 100, 0, %p;
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry other() { ret; }
";

/// Loads an image and runs the kernel of [`USES_THERE`] and the kernel `other`. Returns the value
/// that the first kernel stores, and the result of the launch of the second kernel. If the image
/// cannot be loaded, the first result is the error.
fn run_there(image: Image<'_>) -> (Result<u32, Error>, Result<(), Error>) {
    let rt = Runtime::new().unwrap();
    let module = match rt.load_image(image, &LoadOptions::default()) {
        Ok(module) => module,
        Err(error) => return (Err(error), Ok(())),
    };
    let out = rt.upload(&[0u32]).unwrap();
    let one = LaunchConfig::linear(1, 1);
    let stored = rt
        .launch(&module.kernel("k").unwrap(), one, (&out,))
        .and_then(|_| Ok(out.to_vec()?[0]));
    let other = rt.launch(&module.kernel("other").unwrap(), one, ());
    (stored, other.map(|_| ()))
}

fn text_with(declarations: &str) -> String {
    format!("{HEAD}{declarations}{USES_THERE}")
}

/// If a text contains an external variable that it does not define, NVIDIA's assembler `ptxas`
/// prints: "Unresolved extern variable 'there' in whole program compilation, ignoring extern
/// qualifier".
#[test]
fn an_external_variable_of_a_whole_program_contains_zeros() {
    for space in ["global", "const"] {
        let text = text_with(&format!(".extern .{space} .align 4 .b8 there[16];"));
        let text = text.replace(
            "ld.global.u32 %r1, [%rd2",
            &format!("ld.{space}.u32 %r1, [%rd2"),
        );
        // The offset of a constant variable can be 0.
        let expected = if space == "global" { 100 } else { 0 };
        for image in [Image::Ptx(&text), Image::Bytes(text.as_bytes())] {
            let (stored, other) = run_there(image);
            assert_eq!(stored.unwrap() & expected, expected, "{space}");
            other.unwrap();
        }
    }
}

/// An external array in shared memory with a size is static shared memory; the dynamic shared memory
/// of the launch does not contain it. Taichi declares its shared arrays in this way.
#[test]
fn an_external_shared_array_with_a_size_is_static() {
    let text = format!(
        "{HEAD}.extern .shared .align 4 .b8 own[512];
.extern .shared .align 4 .b8 dynamic[];
.visible .entry reverse(.param .u64 out) {{
    .reg .b32 %t, %o, %r, %d; .reg .b64 %p;
    ld.param.u64 %p, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %o, own;
    mad.lo.u32 %o, %t, 4, %o;
    mov.u32 %d, dynamic;
    mad.lo.u32 %d, %t, 4, %d;
    st.shared.u32 [%o], %t;
    st.shared.u32 [%d], 1000;
    bar.sync 0;
    mov.u32 %o, own;
    sub.u32 %r, 127, %t;
    mad.lo.u32 %o, %r, 4, %o;
    ld.shared.u32 %r, [%o];
    mad.wide.u32 %p, %t, 4, %p;
    st.global.u32 [%p], %r;
    ret;
}}"
    );
    let runtime = Runtime::new().expect("built");
    let module = runtime.load_ptx(&text).expect("loads");
    let kernel = module.kernel("reverse").expect("known");
    let out = runtime.alloc::<u32>(128).expect("room");
    let config = LaunchConfig::new(1, 128).with_shared(512);
    runtime.launch(&kernel, config, (&out,)).expect("launched");
    let expected: Vec<u32> = (0..128).rev().collect();
    assert_eq!(out.to_vec().expect("complete"), expected);
}

/// If a text contains an external variable without a size, NVIDIA's assembler `ptxas` returns an
/// error: "Unresolved extern variable 'there'".
#[test]
fn an_external_variable_without_size_is_an_error() {
    let text = text_with(".extern .global .align 4 .b8 there[];");
    let said = run_there(Image::Ptx(&text)).0.unwrap_err().to_string();
    assert!(said.contains("`there`, whose size is unknown"), "{said}");
}

#[test]
fn a_kernel_with_an_undefined_variable_of_linked_modules_cannot_be_launched() {
    let undefined = text_with(".extern .global .align 4 .b8 there[16];");
    let unrelated = format!("{HEAD}.visible .global .u32 elsewhere = 1;");
    let texts = [undefined.as_bytes(), unrelated.as_bytes()];
    for images in [&texts[..1], &texts[..]] {
        let (stored, other) = run_there(Image::Linked(images));
        assert!(
            matches!(&stored, Err(Error::UnresolvedSymbol(name)) if name == "there"),
            "{stored:?}"
        );
        other.unwrap();
    }
    let defined = format!("{HEAD}.visible .global .align 4 .u32 there[4] = {{1, 23, 4, 5}};");
    let texts = [undefined.as_bytes(), defined.as_bytes()];
    assert_eq!(run_there(Image::Linked(&texts)).0.unwrap(), 123);
}

#[test]
fn initial_contents_cannot_be_the_address_of_an_undefined_variable() {
    let undefined = text_with(".extern .global .align 4 .b8 there[16]; .global .u64 at = there;");
    let loaded = run_there(Image::Linked(&[undefined.as_bytes()])).0;
    assert!(
        matches!(&loaded, Err(Error::UnresolvedSymbol(name)) if name == "there"),
        "{loaded:?}"
    );
}

/// Returns the text of a module with two kernels and a function that returns `value`. The kernel
/// `take` writes the address of the function to `out`, and the kernel `call` calls the function
/// whose address is in `out`.
fn with_pointer(value: u32) -> String {
    format!(
        "{HEAD}
.func (.param .b32 r) f(.param .b32 x)
{{ .reg .b32 %r<3>; ld.param.b32 %r1, [x]; add.u32 %r2, %r1, {value}; st.param.b32 [r], %r2; ret; }}
.visible .global .u64 table = f;
.visible .entry take(.param .u64 out)
{{
    .reg .b64 %p<3>;
    ld.param.u64 %p1, [out]; mov.u64 %p2, f; st.global.u64 [%p1], %p2;
    mov.u64 %p2, table; ld.global.u64 %p2, [%p2]; st.global.u64 [%p1+8], %p2;
    ret;
}}
.visible .entry call(.param .u64 out)
{{
    .reg .b64 %p<3>; .reg .b32 %r<3>;
    ld.param.u64 %p1, [out]; ld.global.u64 %p2, [%p1]; mov.u32 %r1, 1;
    shape: .callprototype (.param .b32 _) _ (.param .b32 _);
    {{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), %p2, (p), shape; ld.param.b32 %r2, [q]; }}
    st.global.u32 [%p1], %r2;
    ret;
}}
"
    )
}

/// Tests that a kernel cannot call a function of another module: function pointers of different
/// modules differ. A call through a function pointer of another module is therefore an error and
/// does not call a function of the calling module.
#[test]
fn a_function_of_another_module_is_not_called() {
    for engine in [EngineChoice::Native, EngineChoice::Interpreter] {
        let rt = Runtime::builder().engine(engine).build().expect("starts");
        let [a, b] = [40, 50].map(|value| rt.load_ptx(&with_pointer(value)).expect("valid"));
        let out = rt.upload(&[0u64; 2]).expect("room");
        let run = |kernel| rt.launch(&kernel, LaunchConfig::linear(1, 1), (&out,));
        let called = |module: &margay::Module| {
            run(module.kernel("take")?)?;
            let [own, in_table] = out.to_vec()?[..] else {
                panic!("two values");
            };
            assert_eq!(own, in_table);
            run(module.kernel("call")?)?;
            Ok::<u64, Error>(out.to_vec()?[0] & 0xffff_ffff)
        };
        assert_eq!(called(&a).expect("own function"), 41);
        assert_eq!(called(&b).expect("own function"), 51);
        run(a.kernel("take").expect("exists")).expect("runs");
        let ended = run(b.kernel("call").expect("exists")).and_then(|()| rt.synchronize());
        match ended {
            Err(Error::Fault(fault)) => assert_eq!(fault.kind, FaultKind::InvalidPc, "{fault}"),
            other => panic!("{engine:?}: {other:?}"),
        }
    }
}
