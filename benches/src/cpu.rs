//! Loops in Rust for the machine at hand: each compiled for several instruction sets, the best one run.
//!
//! The workspace is built for any x86-64, but Margay uses what the machine has; a loop without wide vectors and
//! fused multiply-add would be a weaker rival than the compiler can make. Machines other than x86-64 have one
//! version, which has all of that anyway.

/// The instruction sets that loops are compiled for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// x86-64-v4: AVX-512.
    #[cfg(target_arch = "x86_64")]
    V4,
    /// x86-64-v3: AVX2 and fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    V3,
    /// What every machine of this architecture has.
    Base,
}

/// The best level of this machine.
pub(crate) fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! has {
            ($($feature:tt)*) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
        }
        if has!("avx2" "fma" "bmi1" "bmi2" "lzcnt" "popcnt") {
            let wide = has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
            return if wide { Level::V4 } else { Level::V3 };
        }
    }
    Level::Base
}

/// The name of the level that the loops in Rust run with here.
pub fn instruction_set() -> &'static str {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::V4 => "x86-64-v4 (AVX-512)",
        #[cfg(target_arch = "x86_64")]
        Level::V3 => "x86-64-v3 (AVX2)",
        Level::Base => std::env::consts::ARCH,
    }
}

/// Defines a function whose body is compiled for each [`Level`]; a call runs the best one.
macro_rules! for_this_cpu {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
            )]
            fn v4($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
            fn v3($($arg: $ty),*) $(-> $ret)? {
                body($($arg),*)
            }
            match $crate::cpu::level() {
                // SAFETY: `level` found all of these features on this machine.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::Level::V4 => unsafe { v4($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::Level::V3 => unsafe { v3($($arg),*) },
                $crate::cpu::Level::Base => body($($arg),*),
            }
        }
    };
}
pub(crate) use for_this_cpu;
