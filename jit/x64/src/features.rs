//! The processor for which code is generated, and its instruction set extensions.

use crate::asm;

bitflags::bitflags! {
    /// Instruction set extensions of a processor.
    ///
    /// Code has one of two levels. [`Features::AVX512`] stands for the subsets F, CD, BW, DQ and VL together, and
    /// [`Features::AVX2`] for AVX2, FMA, F16C, BMI1, BMI2, LZCNT and POPCNT together. The other features are single
    /// subsets, which code uses only at the level of AVX-512.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct Features: u32 {
        /// AVX, AVX2, FMA, F16C, BMI1, BMI2, LZCNT and POPCNT.
        const AVX2 = 1;
        /// AVX-512 F, CD, BW, DQ and VL.
        const AVX512 = 1 << 1;
        /// AVX-512 VBMI: permutations of bytes.
        const VBMI = 1 << 2;
        /// AVX-512 VBMI2: compression of bytes and words, funnel shifts.
        const VBMI2 = 1 << 3;
        /// AVX-512 BITALG: bit counts of bytes and words.
        const BITALG = 1 << 4;
        /// AVX-512 VPOPCNTDQ: bit counts of 32 and 64 bits.
        const VPOPCNTDQ = 1 << 5;
        /// AVX-512 VNNI: dot products of bytes.
        const VNNI = 1 << 6;
    }
}

impl Features {
    /// The features that code at the level of AVX2 uses.
    pub const LEVEL_AVX2: Features = Features::AVX2;
    /// The features that all code at the level of AVX-512 may use.
    pub const LEVEL_AVX512: Features = Features::AVX2.union(Features::AVX512);

    /// Returns the encoder's features.
    pub(crate) fn encoder(self) -> asm::Features {
        let rows = [
            (Features::AVX2, asm::Features::BASE_AVX2),
            (Features::AVX512, asm::Features::BASE_AVX512),
            (Features::VBMI, asm::Features::AVX512VBMI),
            (Features::VBMI2, asm::Features::AVX512VBMI2),
            (Features::BITALG, asm::Features::AVX512BITALG),
            (Features::VPOPCNTDQ, asm::Features::AVX512VPOPCNTDQ),
            (Features::VNNI, asm::Features::AVX512VNNI),
        ];
        let present = rows
            .into_iter()
            .filter(|&(feature, _)| self.contains(feature));
        present.fold(asm::Features::NONE, |all, (_, features)| all.with(features))
    }

    /// Returns the features of this host that the operating system supports; none if the host is not an x86-64
    /// processor.
    pub fn host() -> Features {
        #[cfg(target_arch = "x86_64")]
        {
            host()
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            Features::empty()
        }
    }
}

/// The processor for which code is generated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The features of the processor.
    pub features: Features,
    /// Whether code uses vector registers of 256 bits even if there are wider ones.
    pub prefers_256_bits: bool,
}

impl Target {
    /// Returns the target for this host.
    pub fn host() -> Target {
        Target {
            features: Features::host(),
            prefers_256_bits: false,
        }
    }

    /// Returns whether [`crate::compile`] generates code for the target.
    pub fn is_supported(&self) -> bool {
        self.features.contains(Features::LEVEL_AVX2)
    }
}

#[cfg(target_arch = "x86_64")]
fn host() -> Features {
    macro_rules! has {
        ($($name:tt)*) => { true $(&& std::arch::is_x86_feature_detected!($name))* };
    }
    if !has!("avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt") {
        return Features::empty();
    }
    if !has!("avx512f" "avx512cd" "avx512bw" "avx512dq" "avx512vl") {
        return Features::AVX2;
    }
    let subsets = [
        (Features::VBMI, has!("avx512vbmi")),
        (Features::VBMI2, has!("avx512vbmi2")),
        (Features::BITALG, has!("avx512bitalg")),
        (Features::VPOPCNTDQ, has!("avx512vpopcntdq")),
        (Features::VNNI, has!("avx512vnni")),
    ];
    let present = subsets.into_iter().filter(|&(_, is_present)| is_present);
    present.fold(Features::LEVEL_AVX512, |all, (feature, _)| all | feature)
}
