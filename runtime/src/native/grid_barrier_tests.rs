//! Tests of the checks of kernels that call the functions for grid barriers.

use crate::checks::{Tool, Undefined};
use crate::{Image, LaunchConfig, Library, LoadOptions, Runtime};

/// A kernel whose last warp has lanes that exit before the other lanes reach the grid barrier.
const EXITS: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b64 r) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 a);
.extern .func (.param .b32 r) __cuda_syscall_CGS_sync(.param .b64 a, .param .b32 b);
.visible .entry exits(.param .u64 cells)
{
    .reg .b64 %h; .reg .b32 %t; .reg .pred %p;
    .param .b64 p0; .param .b32 q; .param .b32 s; .param .b64 t;
    mov.u32 %t, %tid.x; setp.ge.u32 %p, %t, 40; @%p bra end;
    st.param.b32 [q], 1; call.uni (t), __cuda_syscall_CGS_get_intrinsic_handle, (q); ld.param.b64 %h, [t];
    st.param.b64 [p0], %h; st.param.b32 [q], 0; call.uni (s), __cuda_syscall_CGS_sync, (p0, q);
end:
    ret;
}
";

/// A second PTX text, so that the loader must link two texts.
const OTHER: &str =
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";

/// Runs the kernel in a checking run.
fn run() -> Runtime {
    let runtime = Runtime::builder()
        .check(Tool::Synchronisation)
        .check(Tool::Race)
        .build()
        .expect("a runtime");
    let parts = [EXITS.as_bytes(), OTHER.as_bytes()];
    let library = Library::load(&runtime, Image::Linked(&parts), &LoadOptions::default());
    let context = runtime.device(0).expect("a device").primary_retain();
    let module = library.expect("links").module(&context.expect("a context"));
    let kernel = module.expect("loads").kernel("exits").expect("is there");
    let config = LaunchConfig::new(3, 64).with_cooperative();
    runtime.launch(&kernel, config, (0u64,)).expect("runs");
    runtime.synchronize().expect("no fault");
    runtime
}

/// The check of synchronisation must name the line of the program that calls the runtime, and not a line of the runtime.
#[test]
fn checks_name_the_caller_of_a_grid_barrier() {
    let (findings, _) = run().take_findings();
    let found: Vec<_> = findings
        .iter()
        .map(|finding| (finding.kind, finding.place.ptx_line))
        .collect();
    assert_eq!(found, [(Undefined::LeftBeforeBarrier.into(), Some(13))]);
}

#[test]
fn the_order_of_arrivals_at_a_grid_barrier_has_no_effect() {
    let runtime = run();
    let findings = runtime.machine().findings.as_ref().expect("checks");
    assert!(!findings.ran_in_one_order());
}
