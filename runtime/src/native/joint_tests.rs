//! Tests of kernels whose regions are too large as separate functions, so that one function contains all of them.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use margay_jit::Fallback;

use super::disk::Caching;
use super::image::PtxLoader;
use crate::engine::{EngineChoice, Image, LoadOptions, LoadedImage};
use crate::launch::Dim3;
use crate::{LaunchConfig, Runtime};

/// Number of sections of the kernel, each with a shuffle that a warp may skip, and number of arithmetic steps in a
/// section. The code after each shuffle contains all sections, which is more than the limit for separate functions.
const SECTIONS: u32 = 64;
const STEPS: u32 = 34;
/// Number of iterations of the loop over the sections.
const ITERATIONS: u32 = 3;
const THREADS: u32 = 64;

/// Returns the kernel, whose loop has a barrier and a loop of different length for each lane. A thread writes three
/// words of 64 bits.
fn text() -> String {
    let mut sections = String::new();
    for k in 0..SECTIONS {
        let steps = "mad.lo.u32 %v, %v, 5, %w; xor.b32 %w, %w, %v; ".repeat(STEPS as usize);
        write!(
            sections,
            "xor.b32 %x, %warp, %i; mad.lo.u32 %x, %x, {}, {k}; shr.u32 %x, %x, 1; and.b32 %x, %x, 1;
             setp.eq.u32 %c, %x, 0; @%c bra N{k};
             shfl.sync.bfly.b32 %y, %v, {}, 31, 0xffffffff;
             mad.lo.u32 %v, %y, {}, %w;
             mad.lo.u64 %q, %q, 3, {k}; add.f64 %d, %d, %e;
             N{k}: {steps}\n",
            k + 1,
            1 << (k % 5),
            2 * k + 3,
        )
        .expect("text grows");
    }
    format!(
        ".version 7.0 .target sm_80 .address_size 64
        .visible .entry k(.param .u64 to) {{
        .reg .u32 %v, %w, %i, %t, %z, %l, %x, %y, %warp; .reg .u64 %p, %q, %o; .reg .pred %c; .reg .f64 %d, %e;
        ld.param.u64 %p, [to]; mov.u32 %t, %tid.x; mul.lo.u32 %v, %t, 2654435761; mov.u32 %w, %t;
        shr.u32 %warp, %t, 5; and.b32 %l, %t, 7; cvt.u64.u32 %q, %t; cvt.rn.f64.u32 %d, %t;
        mov.f64 %e, 0d3FE0000000000000; mov.u32 %i, 0;
        LOOP:
        mov.u32 %z, 0;
        DIVERGE: add.u32 %v, %v, %z; add.u32 %z, %z, 1; setp.lt.u32 %c, %z, %l; @%c bra DIVERGE;
        {sections}
        bar.sync 0;
        add.u32 %i, %i, 1; setp.lt.u32 %c, %i, {ITERATIONS}; @%c bra LOOP;
        mul.wide.u32 %o, %t, 24; add.u64 %p, %p, %o;
        st.global.v2.u32 [%p], {{%v, %w}}; st.global.u64 [%p+8], %q; st.global.f64 [%p+16], %d;
        ret; }}"
    )
}

/// Returns what the kernel writes.
fn expected() -> Vec<u64> {
    let mut words = vec![0; 3 * THREADS as usize];
    for warp in 0..THREADS / 32 {
        let threads: [u32; 32] = std::array::from_fn(|lane| warp * 32 + lane as u32);
        let mut v = threads.map(|t| t.wrapping_mul(2_654_435_761));
        let mut w = threads;
        let mut q = threads.map(u64::from);
        let mut d = threads.map(f64::from);
        for i in 0..ITERATIONS {
            for (v, t) in v.iter_mut().zip(threads) {
                // The loop adds 0, 1, ... and has at least one iteration.
                *v = (0..(t & 7).max(1)).fold(*v, u32::wrapping_add);
            }
            for k in 0..SECTIONS {
                let shuffles = ((warp ^ i) * (k + 1) + k) >> 1 & 1 == 1;
                let before = v;
                for lane in 0..32 {
                    if shuffles {
                        let y = before[lane ^ (1 << (k % 5))];
                        v[lane] = y.wrapping_mul(2 * k + 3).wrapping_add(w[lane]);
                        q[lane] = q[lane].wrapping_mul(3).wrapping_add(u64::from(k));
                        d[lane] += 0.5;
                    }
                    for _ in 0..STEPS {
                        v[lane] = v[lane].wrapping_mul(5).wrapping_add(w[lane]);
                        w[lane] ^= v[lane];
                    }
                }
            }
        }
        for (lane, t) in threads.iter().enumerate() {
            let at = 3 * *t as usize;
            words[at] = u64::from(v[lane]) | u64::from(w[lane]) << 32;
            words[at + 1] = q[lane];
            words[at + 2] = d[lane].to_bits();
        }
    }
    words
}

#[test]
fn a_large_kernel_runs_as_one_function() {
    for reverse in [false, true] {
        let builder = Runtime::builder().engine(EngineChoice::Native);
        let builder = builder.time_limit(Duration::from_secs(60));
        let builder = match reverse {
            true => builder.reverse(),
            false => builder,
        };
        let runtime = builder.without_disk_cache().build().expect("a runtime");
        let module = runtime.load_ptx(&text()).expect("loads");
        let kernel = module.kernel("k").expect("is there");
        let words = runtime.upload(&vec![0u64; 3 * THREADS as usize]);
        let words = words.expect("uploaded");
        let config = LaunchConfig::new(1, THREADS);
        runtime
            .launch(&kernel, config, (&words,))
            .expect("launches");
        assert_eq!(words.to_vec().expect("no fault"), expected());
    }
}

#[test]
fn the_regions_of_a_large_kernel_are_one_function() {
    let loader = PtxLoader::new(EngineChoice::Native).caching(Caching::Off);
    let image = loader.open(Image::Ptx(&text()), &LoadOptions::default());
    let image = image.expect("loads");
    assert_eq!(image.kernels().len(), 1);
    let symbols = Arc::new(image.bound_symbols(Vec::new()));
    let source = image.source(0, symbols);
    let code = source.make_ready(Dim3::new(THREADS, 1, 1), EngineChoice::Native);
    let code = code.expect("compiles");
    let native = code.native.as_ref().expect("native code");
    let fallbacks = native.fallbacks();
    assert!(
        fallbacks.contains(&(Fallback::JointRegions, 1)),
        "{fallbacks:?}"
    );
}
