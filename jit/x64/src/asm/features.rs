//! Subsets of the instruction set.

use super::register::Width;

/// A set of CPU features.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(u32);

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        #[derive(Clone, Copy)]
        #[allow(clippy::upper_case_acronyms, reason = "the vendors' names of the features")]
        enum Bit { $($name,)* }

        #[allow(non_upper_case_globals, reason = "the vendors' names of the features")]
        impl Features {
            $($(#[$doc])* pub const $name: Features = Features(1 << Bit::$name as u32);)*

            /// Each feature and its name.
            pub const NAMES: &'static [(Features, &'static str)] = &[$((Features::$name, $text),)*];
        }
    };
}

features! {
    /// 128-bit and 256-bit vectors of floats.
    AVX "avx";
    /// 256-bit vectors of integers.
    AVX2 "avx2";
    /// Fused multiply-add.
    FMA "fma";
    /// Conversion of half-precision floats.
    F16C "f16c";
    /// `andn`, `bextr`, `blsi`, `blsmsk`, `blsr`, `tzcnt`.
    BMI1 "bmi1";
    /// `bzhi`, `mulx`, `pdep`, `pext` and shifts that keep the flags.
    BMI2 "bmi2";
    /// `lzcnt`.
    LZCNT "lzcnt";
    /// `popcnt`.
    POPCNT "popcnt";
    /// `cmpxchg16b`.
    CX16 "cx16";
    /// `prefetchw`.
    PREFETCHW "prefetchw";
    /// AVX-512: 512-bit vectors of 32-bit and 64-bit elements, masks, and 32 vector registers.
    AVX512F "avx512f";
    /// AVX-512 conflict detection and leading zeros.
    AVX512CD "avx512cd";
    /// AVX-512 on bytes and words.
    AVX512BW "avx512bw";
    /// AVX-512: further instructions for doublewords and quadwords.
    AVX512DQ "avx512dq";
    /// AVX-512 on 128-bit and 256-bit vectors.
    AVX512VL "avx512vl";
    /// AVX-512 permutations of bytes.
    AVX512VBMI "avx512vbmi";
    /// AVX-512 compression of bytes and words, and funnel shifts.
    AVX512VBMI2 "avx512vbmi2";
    /// AVX-512 population counts of bytes and words.
    AVX512BITALG "avx512bitalg";
    /// AVX-512 population counts of doublewords and quadwords.
    AVX512VPOPCNTDQ "avx512vpopcntdq";
    /// AVX-512 dot products of bytes and words.
    AVX512VNNI "avx512vnni";
    /// AVX-512 multiply-add of 52-bit integers.
    AVX512IFMA "avx512ifma";
    /// Dot products of bytes and words without AVX-512.
    AVXVNNI "avxvnni";
    /// Arithmetic in the Galois field of 256 elements.
    GFNI "gfni";
}

impl Features {
    /// No features: the base of x86-64 with SSE2.
    pub const NONE: Features = Features(0);
    /// All features that the tables name.
    pub const ALL: Features = Features((1 << Features::NAMES.len()) - 1);
    /// What the AVX2 code of the back end relies on.
    pub const BASE_AVX2: Features = Features::NONE
        .with(Features::AVX)
        .with(Features::AVX2)
        .with(Features::FMA)
        .with(Features::F16C)
        .with(Features::BMI1)
        .with(Features::BMI2)
        .with(Features::LZCNT)
        .with(Features::POPCNT)
        .with(Features::CX16)
        .with(Features::PREFETCHW);
    /// What the AVX-512 code of the back end relies on.
    pub const BASE_AVX512: Features = Features::BASE_AVX2
        .with(Features::AVX512F)
        .with(Features::AVX512CD)
        .with(Features::AVX512BW)
        .with(Features::AVX512DQ)
        .with(Features::AVX512VL);

    /// The union of two sets.
    pub const fn with(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }

    /// The features of this set that `other` does not contain.
    pub const fn without(self, other: Features) -> Features {
        Features(self.0 & !other.0)
    }

    /// Whether the set contains all features of `other`.
    pub const fn contains(self, other: Features) -> bool {
        other.0 & !self.0 == 0
    }

    /// The set as bits, for the keys of caches. A bit keeps its meaning within one build only.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl std::fmt::Debug for Features {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = Features::NAMES.iter().filter(|&&(x, _)| self.contains(x));
        let names: Vec<&str> = names.map(|&(_, name)| name).collect();
        f.write_str(&names.join(" "))
    }
}

/// What a row of the table requires of the CPU. [`Cpu::features`] turns it into features.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Cpu {
    Base,
    Avx,
    Avx2,
    /// AVX for 128 bits, AVX2 for 256 bits.
    AvxInt,
    Fma,
    F16c,
    Bmi1,
    Bmi2,
    Lzcnt,
    Popcnt,
    Cx16,
    Prefetchw,
    F,
    Cd,
    Bw,
    Dq,
    Vbmi,
    Vbmi2,
    Bitalg,
    Vpopcntdq,
    Vnni,
    AvxVnni,
    Ifma,
    Gfni,
}

impl Cpu {
    /// The features for vectors of a width, without AVX-512VL.
    pub(super) const fn features(self, width: Width) -> Features {
        match self {
            Cpu::Base => Features::NONE,
            Cpu::Avx => Features::AVX,
            Cpu::AvxInt if matches!(width, Width::L128) => Features::AVX,
            Cpu::Avx2 | Cpu::AvxInt => Features::AVX2,
            Cpu::Fma => Features::FMA,
            Cpu::F16c => Features::F16C,
            Cpu::Bmi1 => Features::BMI1,
            Cpu::Bmi2 => Features::BMI2,
            Cpu::Lzcnt => Features::LZCNT,
            Cpu::Popcnt => Features::POPCNT,
            Cpu::Cx16 => Features::CX16,
            Cpu::Prefetchw => Features::PREFETCHW,
            Cpu::F => Features::AVX512F,
            Cpu::Cd => Features::AVX512CD,
            Cpu::Bw => Features::AVX512BW,
            Cpu::Dq => Features::AVX512DQ,
            Cpu::Vbmi => Features::AVX512VBMI,
            Cpu::Vbmi2 => Features::AVX512VBMI2,
            Cpu::Bitalg => Features::AVX512BITALG,
            Cpu::Vpopcntdq => Features::AVX512VPOPCNTDQ,
            Cpu::Vnni => Features::AVX512VNNI,
            Cpu::AvxVnni => Features::AVXVNNI,
            Cpu::Ifma => Features::AVX512IFMA,
            Cpu::Gfni => Features::GFNI,
        }
    }
}
