//! Tests of grid barriers, at which all threads of a grid wait. The kernels call the functions for
//! these barriers that NVIDIA's device runtime requires from a driver.

use margay::{DeviceBuffer, Image, LaunchConfig, Library, LoadOptions, Runtime};

/// A kernel that calls the functions for grid barriers directly.
const KERNEL: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .func (.param .b64 r) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 a);
.extern .func (.param .b32 r) __cuda_syscall_CGS_sync(.param .b64 a, .param .b32 b);
.extern .func (.param .b32 r) __cuda_syscall_CGS_get_size(.param .b64 a, .param .b64 b, .param .b64 c);
.extern .func (.param .b32 r) __cuda_syscall_CGS_get_rank(.param .b64 a, .param .b64 b, .param .b64 c);
// Each round adds what the next thread of the grid had in the round before.
.visible .entry rounds(.param .u64 cells, .param .u64 sizes)
{
    .reg .b64 %cells; .reg .b64 %sizes; .reg .b64 %h; .reg .b64 %a; .reg .b64 %at; .reg .b64 %next;
    .reg .b32 %rank; .reg .b32 %n; .reg .b32 %i; .reg .b32 %v; .reg .b32 %w; .reg .b32 %r; .reg .pred %p;
    .param .b64 p0; .param .b64 p1; .param .b64 p2; .param .b32 q; .param .b32 s; .param .b64 t;
    .local .align 4 .b32 own[2];
    ld.param.u64 %cells, [cells]; ld.param.u64 %sizes, [sizes];
    st.param.b32 [q], 1; call.uni (t), __cuda_syscall_CGS_get_intrinsic_handle, (q); ld.param.b64 %h, [t];
    cvta.local.u64 %a, own;
    st.param.b64 [p0], %a; st.param.b64 [p1], 0; st.param.b64 [p2], %h;
    call.uni (s), __cuda_syscall_CGS_get_rank, (p0, p1, p2); ld.u32 %rank, [%a];
    add.u64 %next, %a, 4;
    st.param.b64 [p0], %a; st.param.b64 [p1], %next; st.param.b64 [p2], %h;
    call.uni (s), __cuda_syscall_CGS_get_size, (p0, p1, p2); ld.u32 %n, [%a]; ld.u32 %v, [%next];
    st.global.u32 [%sizes], %n; st.global.u32 [%sizes+4], %v;
    mad.wide.u32 %at, %rank, 4, %cells; st.global.u32 [%at], %rank;
    add.u32 %r, %rank, 1; rem.u32 %r, %r, %n; mad.wide.u32 %next, %r, 4, %cells;
    mov.u32 %i, 0;
round:
    st.param.b64 [p0], %h; st.param.b32 [q], 0; call.uni (s), __cuda_syscall_CGS_sync, (p0, q);
    ld.global.u32 %v, [%next]; ld.global.u32 %w, [%at]; add.u32 %w, %w, %v;
    st.param.b64 [p0], %h; st.param.b32 [q], 0; call.uni (s), __cuda_syscall_CGS_sync, (p0, q);
    st.global.u32 [%at], %w;
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 4; @%p bra round;
    ret;
}
";

/// A second PTX text, so that the loader must link two texts.
const OTHER: &str =
    ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";

#[test]
fn all_threads_of_the_grid_meet() {
    let runtime = Runtime::new().expect("a runtime");
    let parts = [KERNEL.as_bytes(), OTHER.as_bytes()];
    let library = Library::load(&runtime, Image::Linked(&parts), &LoadOptions::default());
    let library = library.expect("links");
    let context = runtime.device(0).expect("a device").primary_retain();
    let context = context.expect("a context");
    let module = library.module(&context).expect("loads");
    let kernel = module.kernel("rounds").expect("is there");
    const THREADS: usize = 5 * 48;
    let cells: DeviceBuffer<u32> = runtime.alloc(THREADS).expect("memory");
    let sizes: DeviceBuffer<u32> = runtime.alloc(2).expect("memory");
    let config = LaunchConfig::new(5, 48).with_cooperative();
    runtime
        .launch(&kernel, config, (&cells, &sizes))
        .expect("runs");
    let mut wanted: Vec<u32> = (0..THREADS as u32).collect();
    for _ in 0..4 {
        let before = wanted.clone();
        for (i, cell) in wanted.iter_mut().enumerate() {
            *cell += before[(i + 1) % THREADS];
        }
    }
    assert_eq!(cells.to_vec().expect("runs"), wanted);
    assert_eq!(sizes.to_vec().expect("runs"), [THREADS as u32, 1]);
}
