//! Tests that a fault reports the PTX line and the thread. Generated code can end with a fault in
//! three ways: by a signal, by a status that it returns, or by a helper function that fails. Each
//! test runs with native code and with the interpreter.

use margay::{EngineChoice, Error, Fault, FaultKind, LaunchConfig, Runtime};

/// The kernel is declared in line 4, and its body begins in line 6. Only thread 33 of block 1 reaches line 9.
const HEAD: &str = ".version 7.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .pred %p; .reg .b16 %h<3>; .reg .b32 %r<4>; .reg .f32 %f<2>; .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 100, %r1;
    ld.param.u64 %rd1, [p]; setp.ne.u32 %p, %r1, 133; @%p ret;
";

fn fault(text: &str, engine: EngineChoice) -> Fault {
    let runtime = Runtime::builder().workers(1).engine(engine);
    let runtime = runtime.build().expect("built");
    let module = runtime.load_ptx(text).expect("loads");
    let kernel = module.kernel("k").expect("known");
    let config = LaunchConfig::new(2, 64);
    runtime.launch(&kernel, config, (64u64,)).expect("launched");
    match runtime.synchronize() {
        Err(Error::Fault(fault)) => (*fault).clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check(body: &str, kind: FaultKind) {
    let text = format!("{HEAD}{body}\n    ret;\n}}\n");
    for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
        let fault = fault(&text, engine);
        assert_eq!(fault.kind, kind, "{engine:?}: {fault}");
        assert_eq!(fault.cta, Some([1, 0, 0]), "{engine:?}: {fault}");
        assert_eq!(fault.thread, Some([33, 0, 0]), "{engine:?}: {fault}");
        assert_eq!(fault.ptx_line, Some(9), "{engine:?}: {fault}");
    }
}

#[test]
fn traps_and_breakpoints() {
    check("    trap;", FaultKind::LaunchFailed);
    check("    brkpt;", FaultKind::LaunchFailed);
    // The barrier makes the warp form run.
    check("    bar.warp.sync 2; trap;", FaultKind::LaunchFailed);
}

#[test]
fn accesses_of_code_and_of_helpers() {
    check(
        "    ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd1], %r3;",
        FaultKind::IllegalAddress,
    );
    check("    st.global.u16 [%rd1], 1;", FaultKind::IllegalAddress);
    check(
        "    atom.global.add.f32 %f1, [%rd1], 0f3f800000; st.global.f32 [%rd1], %f1;",
        FaultKind::IllegalAddress,
    );
    check(
        "    atom.global.cas.b16 %h1, [%rd1], %h2, %h2; st.global.u16 [%rd1], %h1;",
        FaultKind::IllegalAddress,
    );
}

#[test]
fn accesses_of_local_memory() {
    for access in [
        // Behind the local memory of the thread, at an address that all threads have.
        "add.u64 %rd2, %rd2, 4096; st.local.u32 [%rd2], %r1;",
        // Before it, at an address that depends on the thread.
        "mul.wide.u32 %rd3, %r1, 16; sub.u64 %rd2, %rd2, %rd3; ld.local.u32 %r3, [%rd2]; st.local.u32 [%rd2], %r3;",
        // In the local memory of the thread before, through a generic address.
        "cvta.local.u64 %rd2, %rd2; sub.u64 %rd2, %rd2, 16; st.u32 [%rd2], %r1;",
    ] {
        let array = "    .local .align 16 .b8 array[16]; mov.u64 %rd2, array;";
        check(&format!("{array} {access}"), FaultKind::IllegalAddress);
    }
}

#[test]
fn calls_of_what_is_no_function() {
    check(
        "    proto: .callprototype _ (); mov.u64 %rd2, 12345; call %rd2, (), proto;",
        FaultKind::InvalidPc,
    );
}

/// Tests that a call through a handle faults if its prototype does not match the function. Otherwise the call would
/// read and write the caller's stack.
#[test]
fn calls_with_another_prototype() {
    let heads = [
        ".func (.reg .b64 r0, .reg .b64 r1, .reg .b64 r2) many(.reg .b64 a, .reg .b64 b)",
        ".func (.param .b32 r) again(.param .b32 n)",
    ];
    let functions = format!(
        "
{}
{{ mov.b64 r0, a; mov.b64 r1, b; mov.b64 r2, 3; ret; }}
{}
{{
    .reg .pred %q; .reg .b32 %n;
    ld.param.b32 %n, [n];
    setp.eq.u32 %q, %n, 0;
    @%q ret;
    sub.u32 %n, %n, 1;
    {{ .param .b32 m; .param .b32 q; st.param.b32 [m], %n; call.uni (q), again, (m); }}
    ret;
}}
",
        heads[0], heads[1]
    );
    let declared = format!("{}; {}; .visible .entry", heads[0], heads[1]);
    for (function, prototype, call) in [
        ("many", "_ ()", "call %rd2, (), proto;"),
        (
            "many",
            "(.reg .b64 _) _ (.reg .b64 _)",
            "call (%rd3), %rd2, (%rd1), proto;",
        ),
        (
            "again",
            "(.param .b32 _) _ ()",
            "call (q), %rd2, (), proto;",
        ),
        (
            "again",
            "(.param .b32 _) _ (.param .b64 _)",
            "call (q), %rd2, (m), proto;",
        ),
    ] {
        let body = format!(
            "    proto: .callprototype {prototype}; mov.u64 %rd2, {function}; \
             {{ .param .b64 m; .param .b32 q; {call} }}"
        );
        let text = format!("{HEAD}{body}\n    ret;\n}}\n{functions}");
        let text = text.replace(".visible .entry", &declared);
        for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
            let fault = fault(&text, engine);
            assert_eq!(fault.kind, FaultKind::InvalidPc, "{engine:?}: {fault}");
            assert_eq!(fault.ptx_line, Some(9), "{engine:?}: {fault}");
            assert_eq!(fault.thread, Some([33, 0, 0]), "{engine:?}: {fault}");
            let said = fault.to_string();
            assert!(said.contains("call through 0x"), "{engine:?}: {said}");
        }
    }
}

/// Tests that a fault contains the innermost position: the line in the called function.
#[test]
fn traps_in_functions() {
    let function = "
.func deep(.param .b32 n)
{
    .reg .pred %q; .reg .b32 %n;
    ld.param.b32 %n, [n];
    setp.ne.u32 %q, %n, 0;
    @!%q trap;
    sub.u32 %n, %n, 1;
    { .param .b32 m; st.param.b32 [m], %n; call.uni deep, (m); }
    ret;
}
";
    let body = "    { .param .b32 m; st.param.b32 [m], 3; call.uni deep, (m); }";
    let text = format!("{HEAD}{body}\n    ret;\n}}\n{function}");
    // Declares the function before the call, and in the line of the kernel's declaration, so that no line number
    // changes.
    let declared = ".func deep(.param .b32 n); .visible .entry";
    let text = text.replace(".visible .entry", declared);
    for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
        let fault = fault(&text, engine);
        assert_eq!(fault.ptx_line, Some(18), "{engine:?}: {fault}");
        assert_eq!(fault.thread, Some([33, 0, 0]), "{engine:?}: {fault}");
    }
}

/// Tests positions in code that the compiler has inlined at two levels: the report names the user's
/// line first, and then the lines of the inlined functions.
#[test]
fn inlined_code_is_named_from_the_outside_in() {
    let text = ".version 7.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b64 %rd<4>; .reg .b32 %r<4>;
    .loc 1 10 5
    ld.param.u64 %rd1, [p];
    .loc 1 12 9
    .loc 2 5 7, function_name $L__outer, inlined_at 1 12 9
    add.u64 %rd1, %rd1, 0;
    .loc 3 1 1, function_name $L__inner, inlined_at 2 5 7
    st.global.u32 [%rd1], 1;
    .loc 1 14 1
    ret;
}
.visible .entry other(.param .u64 p)
{
    .loc 3 1 1, function_name $L__inner, inlined_at 2 5 7
    ret;
}
.file 1 \"/src/kernel.cu\"
.file 2 \"/inc/group.h\"
.file 3 \"/inc/detail.h\"
.section .debug_str
{
$L__outer:
.b8 111,0
$L__inner:
.b8 105,0
}
";
    for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
        let fault = fault(text, engine);
        let source = fault.source.as_ref().expect("a line");
        assert_eq!((source.file.as_str(), source.line), ("/src/kernel.cu", 12));
        let inlined = [
            ("/inc/group.h".to_owned(), 5),
            ("/inc/detail.h".to_owned(), 1),
        ];
        assert_eq!(source.inlined, inlined);
        let text = "/src/kernel.cu:12 (inlined: /inc/group.h:5, /inc/detail.h:1), PTX line 13";
        assert!(fault.to_string().contains(text), "{engine:?}: {fault}");
    }
}

/// Runs a kernel with the parameter `p`, the address of a buffer of 4 KiB, and returns its fault.
fn fault_in_buffer(body: &str, block: (u32, u32), engine: EngineChoice) -> Fault {
    fault_in_grid(body, ((1, 1), block), engine)
}

/// Does the same for a grid of several blocks.
fn fault_in_grid(
    body: &str,
    (grid, block): ((u32, u32), (u32, u32)),
    engine: EngineChoice,
) -> Fault {
    let text = format!(
        ".version 7.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .pred %p, %q; .reg .b32 %x, %y, %r<4>; .reg .b64 %a, %b, %rd<4>;
    mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; ld.param.u64 %a, [p];
{body}
    ret;
}}
"
    );
    let runtime = Runtime::builder().workers(1).engine(engine);
    let runtime = runtime.build().expect("built");
    let buffer = runtime.upload(&[0u32; 1024]).expect("allocated");
    let module = runtime.load_ptx(&text).expect("loads");
    let kernel = module.kernel("k").expect("known");
    let config = LaunchConfig::new(grid, block);
    runtime
        .launch(&kernel, config, (&buffer,))
        .expect("launched");
    match runtime.synchronize() {
        Err(Error::Fault(fault)) => (*fault).clone(),
        other => panic!("{body}: {other:?}"),
    }
}

/// Tests that a fault names the first thread whose access faults, for each form of the accesses of vector code. Chunks of
/// lanes have at least 32 threads only if the environment variable `MARGAY_LANES` requests them.
#[test]
fn the_first_thread_of_several_is_named() {
    for place in [NULL_PAGE, FAR] {
        check_first_of_several(place);
    }
}

/// The start of code that computes an address that is not accessible, in `%b`: near zero, which code tests before an
/// access, or far behind the buffer, where code does not test addresses that are computed from a pointer parameter.
const NULL_PAGE: &str = "mov.u64 %b, 64;";
const FAR: &str = "add.u64 %b, %a, 137438953472;";

fn check_first_of_several(place: &str) {
    use FaultKind::{IllegalAddress, LaunchFailed, MisalignedAddress};
    let guard = format!("    setp.lt.u32 %p, %x, 37; @%p ret; {place}");
    let choice = match place {
        FAR => "    setp.eq.u32 %p, %x, 37; selp.b64 %b, 137438953472, 0, %p; add.u64 %b, %b, %a;",
        _ => "    setp.eq.u32 %p, %x, 37; selp.b64 %b, 64, %a, %p;",
    };
    let own = "    mul.wide.u32 %rd1, %x, 4; add.u64 %rd1, %rd1, %b;";
    let cases = [
        // Addresses that differ, of which one is not accessible.
        (
            format!("{choice} ld.global.u32 %r1, [%b]; st.global.u32 [%a], %r1;"),
            IllegalAddress,
        ),
        (format!("{choice} st.global.u32 [%b], %x;"), IllegalAddress),
        (format!("{choice} st.global.u8 [%b], %x;"), IllegalAddress),
        (
            format!("{choice} ld.global.v2.u32 {{%r1, %r2}}, [%b]; st.global.u32 [%a], %r2;"),
            IllegalAddress,
        ),
        // Adjacent elements, of which some lanes access none.
        (
            format!("{guard} {own} ld.global.u32 %r1, [%rd1]; st.global.u32 [%a], %r1;"),
            IllegalAddress,
        ),
        (
            format!("{guard} {own} st.global.u32 [%rd1], %x;"),
            IllegalAddress,
        ),
        (
            format!("{guard} {own} st.global.u16 [%rd1], %x;"),
            IllegalAddress,
        ),
        // One address for all lanes.
        (
            format!("{guard} ld.global.u32 %r1, [%b]; st.global.u32 [%a], %r1;"),
            IllegalAddress,
        ),
        (format!("{guard} st.global.u32 [%b], 1;"), IllegalAddress),
        // Atomics: in all lanes or in some, with and without a result.
        (
            format!("{choice} red.global.add.u32 [%b], %x;"),
            IllegalAddress,
        ),
        (
            format!("{choice} atom.global.min.u32 %r1, [%b], %x; st.global.u32 [%a], %r1;"),
            IllegalAddress,
        ),
        (
            format!("{guard} {own} atom.global.add.u32 %r1, [%rd1], %x; st.global.u32 [%a], %r1;"),
            IllegalAddress,
        ),
        (
            format!("{guard} red.global.max.u32 [%b], %x;"),
            IllegalAddress,
        ),
        (
            format!("{guard} add.u64 %b, %a, 2; red.global.or.b32 [%b], %x;"),
            MisalignedAddress,
        ),
        // Addresses that are not aligned.
        (
            format!("{choice} selp.b64 %b, 2, 0, %p; add.u64 %b, %a, %b; st.global.u32 [%b], %x;"),
            MisalignedAddress,
        ),
        (
            format!("{guard} add.u64 %b, %a, 1; ld.global.u32 %r1, [%b]; st.global.u32 [%a], %r1;"),
            MisalignedAddress,
        ),
        (format!("{guard} trap;"), LaunchFailed),
    ];
    for (body, kind) in cases {
        for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
            let fault = fault_in_buffer(&body, (64, 1), engine);
            assert_eq!(fault.kind, kind, "{engine:?}: {body}: {fault}");
            assert_eq!(
                fault.thread,
                Some([37, 0, 0]),
                "{engine:?}: {body}: {fault}"
            );
        }
    }
}

/// Tests the same in blocks whose rows have 16 threads, several of which vector code runs together.
#[test]
fn the_first_thread_of_a_row_is_named() {
    for place in [NULL_PAGE, FAR] {
        check_first_of_a_row(place);
    }
}

fn check_first_of_a_row(place: &str) {
    let guard =
        format!("    setp.ne.u32 %p, %y, 6; setp.lt.or.u32 %p, %x, 5, %p; @%p ret; {place}");
    let own = "    mul.wide.u32 %rd1, %x, 4; add.u64 %rd1, %rd1, %b;";
    for body in [
        format!("{guard} ld.global.u32 %r1, [%b]; st.global.u32 [%a], %r1;"),
        format!("{guard} {own} ld.global.u32 %r1, [%rd1]; st.global.u32 [%a], %r1;"),
        format!("{guard} {own} st.global.u32 [%rd1], %x;"),
        "    setp.eq.u32 %p, %y, 6; setp.eq.and.u32 %p, %x, 5, %p; selp.b64 %b, 64, %a, %p; st.global.u32 [%b], %x;".to_owned(),
        format!("{guard} trap;"),
    ] {
        for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
            let fault = fault_in_buffer(&body, (16, 8), engine);
            assert_eq!(fault.thread, Some([5, 6, 0]), "{engine:?}: {body}: {fault}");
        }
    }
}

/// Tests accesses that only one of several rows makes, to a place that all rows would share.
#[test]
fn a_row_that_runs_alone_is_tested() {
    let guard = "    setp.ne.u32 %p, %y, 6; setp.lt.or.u32 %p, %x, 5, %p; @%p ret;";
    let own = "mul.wide.u32 %rd1, %x, 4; add.u64 %rd1, %rd1, %b;";
    let of_host = [0u32; 16];
    let of_host = of_host.as_ptr() as u64;
    for (place, kind) in [
        ("or.b64 %b, %a, 1;".to_owned(), FaultKind::MisalignedAddress),
        (
            format!("mov.u32 %r2, %nctaid.x; cvt.u64.u32 %b, %r2; mul.lo.u64 %b, %b, {of_host};"),
            FaultKind::IllegalAddress,
        ),
    ] {
        let body =
            format!("{guard} {place} {own} ld.global.u32 %r1, [%rd1]; st.global.u32 [%a], %r1;");
        for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
            let fault = fault_in_buffer(&body, (16, 8), engine);
            assert_eq!(fault.kind, kind, "{engine:?}: {body}: {fault}");
            assert_eq!(fault.thread, Some([5, 6, 0]), "{engine:?}: {body}: {fault}");
        }
    }
}

/// Tests that a fault names its block and its thread if vector code runs several blocks of a row of the grid together.
#[test]
fn the_block_of_several_that_run_together_is_named() {
    let index = "    .reg .b32 %g<3>; .reg .b32 %h<3>;
    mov.u32 %g1, %ctaid.x; mov.u32 %g2, %ntid.x; mad.lo.u32 %x, %g1, %g2, %x;
    mov.u32 %h1, %ctaid.y; mov.u32 %h2, %ntid.y; mad.lo.u32 %y, %h1, %h2, %y;";
    let own = "mul.wide.u32 %rd1, %x, 4; add.u64 %rd1, %rd1, %b;";
    let access = "ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1], %r1;";
    // The only thread, or the first of several in a row of the grid, is at 167 and 5.
    for guard in [
        "setp.ne.u32 %p, %x, 167; setp.ne.or.u32 %p, %y, 5, %p; @%p ret;",
        "setp.lt.u32 %p, %x, 167; setp.ne.or.u32 %p, %y, 5, %p; @%p ret;",
        "setp.ne.u32 %p, %y, 5; @%p ret; setp.lt.s32 %p, %x, 167; @%p ret;",
    ] {
        for (body, kind) in [
            ("trap;".to_owned(), FaultKind::LaunchFailed),
            (
                format!("or.b64 %b, %a, 1; {own} {access}"),
                FaultKind::MisalignedAddress,
            ),
            (
                format!("{NULL_PAGE} {own} {access}"),
                FaultKind::IllegalAddress,
            ),
            (format!("{FAR} {own} {access}"), FaultKind::IllegalAddress),
            (
                format!("{FAR} ld.global.u32 %r1, [%b]; st.global.u32 [%a], %r1;"),
                FaultKind::IllegalAddress,
            ),
        ] {
            let body = format!("{index}\n    {guard} {body}");
            for shape in [((6, 2), (32, 4)), ((7, 8), (32, 1)), ((2, 4), (96, 2))] {
                for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
                    let fault = fault_in_grid(&body, shape, engine);
                    let ((_, _), (columns, rows)) = shape;
                    let place = format!("{engine:?}: {shape:?}: {body}: {fault}");
                    assert_eq!(fault.kind, kind, "{place}");
                    assert_eq!(fault.cta, Some([167 / columns, 5 / rows, 0]), "{place}");
                    assert_eq!(fault.thread, Some([167 % columns, 5 % rows, 0]), "{place}");
                }
            }
        }
    }
}
