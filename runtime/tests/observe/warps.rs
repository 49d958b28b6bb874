//! Tests of records of whole warps.

use margay::{EngineChoice, LaunchConfig, Runtime};

use super::kernels::{BARRIERS, DIVERGENT, FIRST, MEMORY, module};
use super::{Collector, observe, observe_with};

/// Tests the records of a kernel with 32 lanes. Lanes with `i % 4 == 0` execute the body of the
/// loop twice, and the other lanes execute it once. Then all lanes reconverge.
#[test]
fn lanes_meet_where_branches_join() {
    let text = module(
        "    and.b32 %a, %t, 3;
    setp.eq.u32 %p, %a, 0;
    selp.u32 %c, 2, 1, %p;
LOOP:
    ld.global.u32 %b, [%own];
    sub.u32 %c, %c, 1;
    setp.ne.u32 %q, %c, 0;
    @%q bra LOOP;
    st.global.u32 [%own], %b;
    @%p st.global.u32 [%own], %c;",
    );
    for engine in [EngineChoice::Native, EngineChoice::Interpreter] {
        let builder = Runtime::builder().engine(engine);
        let ran = observe(&text, builder, true, LaunchConfig::new(1, 32));
        let warp = &ran.warps[&(0, 0)];
        let steps: Vec<_> = warp
            .iter()
            .map(|(line, mask, _)| (line - FIRST, *mask))
            .collect();
        let fours = 0x1111_1111;
        let expected = [(4, u32::MAX), (4, fours), (8, u32::MAX), (9, fours)];
        assert_eq!(steps, expected, "{engine:?}");
    }
}

/// Returns a tool that collects all events, with records of whole warps.
fn all() -> Collector {
    Collector {
        all: true,
        whole_warps: true,
        ..Collector::default()
    }
}

/// Tests that the interpreter and native code for chunks of 32 lanes record the same sequence of
/// events for each warp.
#[test]
fn engines_record_the_same_sequence_for_each_warp() {
    for body in [DIVERGENT, BARRIERS, MEMORY] {
        let text = module(body);
        for config in [LaunchConfig::new(3, 64), LaunchConfig::new(2, (20, 5))] {
            let builder = Runtime::builder().workers(1);
            let builder = builder.engine(EngineChoice::Interpreter);
            let expected = observe_with(all(), &text, builder, config);
            let builder = Runtime::builder().engine(EngineChoice::Native);
            let got = observe_with(all(), &text, builder, config);
            assert!(got.threads == expected.threads);
            for (warp, steps) in &expected.steps {
                assert_eq!(got.steps[warp], *steps, "{warp:?}");
            }
            assert_eq!(got.steps.len(), expected.steps.len());
        }
    }
}

/// Tests that the interpreter runs certain kernels if a tool observes whole warps: kernels in which
/// threads end before a barrier, and launches with clusters. Native code would run the lanes of a
/// warp one after the other in these cases.
#[test]
fn other_kernels_run_in_the_interpreter() {
    let text = module(
        "    setp.ge.u32 %p, %t, 40;
    @%p bra DONE;
    bar.sync 0;
    st.global.u32 [%own], %t;
DONE:",
    );
    let plain = LaunchConfig::new(2, 64);
    for config in [plain, plain.with_cluster(2)] {
        let ran = observe(&text, Runtime::builder(), true, config);
        let masks = ran.warps.iter().map(|(at, all)| (*at, all.len(), all[0].1));
        let expected = [
            ((0, 0), 1, u32::MAX),
            ((0, 1), 1, 0xff),
            ((1, 0), 1, u32::MAX),
            ((1, 1), 1, 0xff),
        ];
        assert_eq!(masks.collect::<Vec<_>>(), expected);
    }
    let native = Runtime::builder().engine(EngineChoice::Native);
    let tool = super::Collector {
        whole_warps: true,
        ..super::Collector::default()
    };
    let runtime = native
        .tool(std::sync::Arc::new(tool))
        .build()
        .expect("built");
    let kernel = runtime.load_ptx(&text).expect("loads").kernel("kernel");
    let mut buffer = runtime.alloc::<u32>(128).expect("room");
    let launched = runtime.launch(&kernel.expect("known"), plain, (&mut buffer,));
    let error = launched.expect_err("native code is refused").to_string();
    assert!(error.contains("observation of whole warps"), "{error}");
}
