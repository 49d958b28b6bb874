//! Runs loops compiled for the vector instructions of the CPU.
//!
//! The compiler vectorises a [`Task`]'s loop once for each level, because the loop is inlined into a function that
//! enables the level's instructions. Invariant: a level is used only if the CPU has all instructions that the level
//! enables.

use std::sync::OnceLock;

/// Vector instructions, from few to many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What each CPU of the architecture has.
    Base,
    /// AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

/// The level of this CPU.
#[inline]
pub(crate) fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(detect)
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    use std::arch::is_x86_feature_detected as has;
    if !(has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2") && has!("lzcnt")) {
        Level::Base
    } else if !(has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl")) {
        Level::Avx2
    } else if !has!("avx512vnni") {
        Level::Avx512
    } else {
        Level::Avx512Vnni
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Base
}

/// A loop. `run` must be `#[inline(always)]`, as must be the functions that it calls in its inner loop.
pub(crate) trait Task {
    /// What the loop computes.
    type Output;

    /// Runs the loop. `FUSED`: fused multiply-add is one instruction.
    fn run<const FUSED: bool>(self) -> Self::Output;
}

/// Runs the loop with the instructions of this CPU.
#[inline]
pub(crate) fn run<T: Task>(task: T) -> T::Output {
    match level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the CPU has the instructions, because `level` found them.
        Level::Avx512 | Level::Avx512Vnni => unsafe { run_avx512(task) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { run_avx2(task) },
        Level::Base => task.run::<{ cfg!(target_arch = "aarch64") }>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2,lzcnt")]
fn run_avx512<T: Task>(task: T) -> T::Output {
    task.run::<true>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi2,lzcnt")]
fn run_avx2<T: Task>(task: T) -> T::Output {
    task.run::<true>()
}
