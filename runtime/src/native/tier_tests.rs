//! Tests that tier selection takes place for kernels that do not stay in their phases.

use std::sync::Arc;

use margay_jit::Specialisation;

use super::disk::Caching;
use super::image::PtxLoader;
use crate::engine::{EngineChoice, Image, LoadOptions, LoadedImage};
use crate::launch::Dim3;
use crate::{LaunchConfig, Runtime};

const THREADS: u32 = 64;
/// Number of CTAs of a launch.
const CTAS: u32 = 16;
/// Number of iterations of the loop that each thread executes after it has waited.
const ITERATIONS: u32 = 1_000;
/// Limit of the number of launches. The measurement run begins after the kernel has run for a few milliseconds.
const LAUNCHES: u32 = 10_000;

/// Returns a kernel in which all threads wait until thread 63 has written a flag, so that the first warp of each CTA
/// yields.
fn text() -> String {
    format!(
        ".version 7.0 .target sm_80 .address_size 64
        .visible .entry k(.param .u64 to) {{
        .reg .u64 %p, %o; .reg .u32 %t, %v, %i; .reg .pred %c; .shared .align 4 .u32 flag;
        ld.param.u64 %p, [to]; mov.u32 %t, %tid.x;
        setp.eq.u32 %c, %t, 0; @%c st.volatile.shared.u32 [flag], 0;
        bar.sync 0;
        setp.eq.u32 %c, %t, 63; @%c st.volatile.shared.u32 [flag], 1;
        WAIT: ld.volatile.shared.u32 %v, [flag]; setp.eq.u32 %c, %v, 0; @%c bra WAIT;
        mov.u32 %i, 0;
        LOOP: mad.lo.u32 %v, %v, 5, %t; add.u32 %i, %i, 1; setp.lt.u32 %c, %i, {ITERATIONS}; @%c bra LOOP;
        mul.wide.u32 %o, %t, 4; add.u64 %p, %p, %o; st.global.u32 [%p], %v;
        ret; }}"
    )
}

// Regression test: the time of a CTA that left its phases was not recorded, so the kernel's vector code was never tried.
#[test]
fn a_kernel_whose_ctas_yield_gets_vector_code() {
    let loader = Arc::new(PtxLoader::new(EngineChoice::Native).caching(Caching::Off));
    let runtime = Runtime::builder().loader(loader.clone());
    let runtime = runtime.build().expect("a runtime");
    let text = text();
    let module = runtime.load_ptx(&text).expect("loads");
    let kernel = module.kernel("k").expect("is there");
    let words = runtime.upload(&vec![0u32; THREADS as usize]);
    let words = words.expect("uploaded");
    let config = LaunchConfig::new(CTAS, THREADS);
    let launch = || {
        runtime
            .launch(&kernel, config, (&words,))
            .expect("launches");
        words.to_vec().expect("no fault")
    };
    let expected = |t: u32| {
        let step = |v: u32, _| v.wrapping_mul(5).wrapping_add(t);
        (0..ITERATIONS).fold(1, step)
    };
    let expected: Vec<u32> = (0..THREADS).map(expected).collect();
    assert_eq!(launch(), expected);

    let options = LoadOptions {
        capability: runtime.machine().config.capability.number(),
        ..LoadOptions::default()
    };
    let image = loader.open(Image::Ptx(&text), &options).expect("loads");
    assert_eq!(image.kernels().len(), 1);
    let symbols = Arc::new(image.bound_symbols(Vec::new()));
    let source = image.source(0, symbols);
    let code = source.make_ready(Dim3::new(THREADS, 1, 1), EngineChoice::Native);
    let code = code.expect("compiles");
    let native = code.native.as_ref().expect("native code");
    let has = |code: Specialisation| {
        let all = [true, false].map(|trusted| code.trusted(trusted));
        all.into_iter().any(|code| native.has_entry(code))
    };
    assert!(
        has(Specialisation::SINGLE),
        "the launches run another kernel"
    );
    let vector = native.specialisation([THREADS, 1, 1]);
    let launches = (0..LAUNCHES).find(|_| {
        assert_eq!(launch(), expected);
        has(vector)
    });
    assert!(
        launches.is_some(),
        "no vector code after {LAUNCHES} launches"
    );
}
