//! Number of times that threads poll before the thread that they wait for runs.
//!
//! The tests count polls and measure no time. They run with one worker and with both engines.

use margay::{EngineChoice, LaunchConfig, Module, Runtime};

const HEADER: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

fn with_both_engines(test: impl Fn(&Runtime)) {
    for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
        let builder = Runtime::builder().workers(1).engine(engine);
        test(&builder.build().expect("built"));
    }
}

fn load(runtime: &Runtime, body: &str) -> Module {
    runtime.load_ptx(&format!("{HEADER}{body}")).expect("loads")
}

/// Thread 32 copies `BYTES` bytes with `cp.async.bulk` after the other lanes of its warp have started to poll the
/// mbarrier of the copy. Both addresses of the copy are in one shared array, so the lane may have to wait for its warp
/// before each part of the copy. The number of polls must not be proportional to the number of bytes.
#[test]
fn polls_for_a_bulk_copy() {
    const MOST: u32 = 4096;
    with_both_engines(|runtime| {
        let module = load(
            runtime,
            r"
.visible .entry copy(.param .u64 data) {
    .reg .pred %q; .reg .b32 %t, %d, %s, %b, %count; .reg .b64 %p, %state;
    .shared .align 128 .b8 memory[32768];
    .shared .align 8 .b64 bar;
    ld.param.u64 %p, [data];
    mov.u32 %t, %tid.x;
    mov.u32 %b, bar;
    mov.u32 %count, 0;
    setp.ne.u32 %q, %t, 0;
    @%q bra ready;
    mbarrier.init.shared.b64 [%b], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%b], 16384;
ready:
    bar.sync 0;
    setp.eq.u32 %q, %t, 32;
    @%q bra issue;
again:
    add.u32 %count, %count, 1;
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0;
    @!%q bra again;
    red.global.max.u32 [%p], %count;
    ret;
issue:
    mov.u32 %s, memory;
    mov.u32 %d, %ctaid.x;
    add.u32 %d, %d, 16384;
    add.u32 %d, %d, %s;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%d], [%s], 16384, [%b];
    bra again;
}
",
        );
        let kernel = module.kernel("copy").expect("known");
        let data = runtime.upload(&[0u32]).expect("room");
        let config = LaunchConfig::new(1, 64);
        runtime.launch(&kernel, config, (&data,)).expect("launched");
        let count = data.to_vec().expect("complete")[0];
        assert!((1..=MOST).contains(&count), "{count} polls");
    });
}

/// Loops that poll a flag with weak loads yield after as few iterations as loops that poll with
/// volatile loads. Therefore, a loop that computes for a long time in each iteration does not delay
/// the block that sets the flag.
#[test]
fn weak_polls_yield_after_few_iterations() {
    const MOST: u32 = 1000;
    with_both_engines(|runtime| {
        let module = load(
            runtime,
            r"
.func (.reg .u32 %x) flag_at(.reg .u64 %p, .reg .u32 %depth) {
    .reg .pred %q; .reg .u32 %less;
    setp.eq.u32 %q, %depth, 0;
    @%q bra read;
    sub.u32 %less, %depth, 1;
    call (%x), flag_at, (%p, %less);
    ret;
read:
    ld.global.u32 %x, [%p];
    ret;
}
.func (.reg .u32 %x) flag_of(.reg .u64 %p, .reg .u32 %unused) {
    ld.global.u32 %x, [%p];
    ret;
}
.visible .entry poll(.param .u64 data, .param .u32 way) {
    .reg .pred %q; .reg .b32 %x, %way, %count, %s, %n; .reg .b64 %p, %f;
    proto: .callprototype (.reg .u32 _) _ (.reg .u64 _, .reg .u32 _);
    ld.param.u64 %p, [data];
    ld.param.u32 %way, [way];
    mov.u32 %x, %ctaid.x;
    setp.eq.u32 %q, %x, 1;
    @%q bra set;
    mov.u32 %count, 0;
    mov.u32 %s, %tid.x;
    setp.eq.u32 %q, %way, 1;
    @%q bra function;
    setp.eq.u32 %q, %way, 2;
    @%q bra pointer;
again:
    add.u32 %count, %count, 1;
    mov.u32 %n, 0;
work:
    mad.lo.u32 %s, %s, 1664525, 1013904223;
    add.u32 %n, %n, 1;
    setp.lt.u32 %q, %n, 20;
    @%q bra work;
    ld.global.cv.u32 %x, [%p];
    setp.eq.u32 %q, %x, 0;
    @%q bra again;
    bra end;
function:
    add.u32 %count, %count, 1;
    call (%x), flag_at, (%p, 3);
    setp.eq.u32 %q, %x, 0;
    @%q bra function;
    bra end;
pointer:
    add.u32 %count, %count, 1;
    mov.u64 %f, flag_of;
    call (%x), %f, (%p, 0), proto;
    setp.eq.u32 %q, %x, 0;
    @%q bra pointer;
end:
    red.global.max.u32 [%p+4], %count;
    st.global.u32 [%p+8], %s;
    ret;
set:
    st.global.u32 [%p], 1;
    ret;
}
",
        );
        let poll = module.kernel("poll").expect("known");
        for way in 0u32..3 {
            let data = runtime.upload(&[0u32; 3]).expect("room");
            let config = LaunchConfig::new(2, 32);
            runtime
                .launch(&poll, config, (&data, way))
                .expect("launched");
            let count = data.to_vec().expect("complete")[1];
            assert!(count <= MOST, "way {way}: {count} iterations");
        }
    });
}
