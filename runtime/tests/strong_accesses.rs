//! Strong accesses of 128 bits are not torn: a thread that reads while another thread writes gets the bits of one write.
//!
//! The test needs a CPU on which aligned accesses of 16 bytes are atomic (x86-64 with AVX, aarch64 with LSE2).

use margay::{EngineChoice, LaunchConfig, Runtime};

/// Block 0 stores pairs of equal numbers. Block 1 loads the pairs and counts those whose numbers differ.
const TEXT: &str = "
.version 8.3
.target sm_90
.address_size 64
.visible .entry pairs(.param .u64 pair, .param .u64 torn, .param .u32 rounds)
{
    .reg .pred %p; .reg .b32 %i, %n, %count, %c; .reg .b64 %at, %a, %b, %w, %torn; .reg .b128 %q;
    ld.param.u64 %at, [pair]; ld.param.u64 %torn, [torn]; ld.param.u32 %n, [rounds];
    mov.u32 %i, 0; mov.u32 %count, 0; mov.u32 %c, %ctaid.x;
    setp.ne.u32 %p, %c, 0; @%p bra read;
write:
    cvt.u64.u32 %w, %i;
    mov.b128 %q, {%w, %w};
    st.relaxed.gpu.global.b128 [%at], %q;
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra write;
    ret;
read:
    ld.relaxed.gpu.global.b128 %q, [%at];
    mov.b128 {%a, %b}, %q;
    setp.ne.u64 %p, %a, %b; @%p add.u32 %count, %count, 1;
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra read;
    st.global.u32 [%torn], %count;
    ret;
}";

#[test]
fn accesses_of_16_bytes_are_not_torn() {
    let runtime = Runtime::builder()
        .engine(EngineChoice::Native)
        .workers(2)
        .build()
        .expect("a runtime");
    let module = runtime.load_ptx(TEXT).expect("a module");
    let kernel = module.kernel("pairs").expect("a kernel");
    let mut pair = runtime.upload(&[0u64; 2]).expect("memory");
    let mut torn = runtime.upload(&[7u32]).expect("memory");
    runtime
        .launch(
            &kernel,
            LaunchConfig::new(2, 1),
            (&mut pair, &mut torn, 3_000_000u32),
        )
        .expect("a launch");
    assert_eq!(torn.to_vec().expect("a copy"), [0]);
}
