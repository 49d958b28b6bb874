//! Checks that the host's own floating-point settings do not affect device code.

#![cfg(target_arch = "x86_64")]

use margay::LaunchConfig;

use super::machines;

const TEXT: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry halve(.param .u64 d) {
    .reg .f32 %a, %b; .reg .f64 %e; .reg .b64 %d;
    ld.param.u64 %d, [d];
    ld.global.f32 %a, [%d]; mul.f32 %b, %a, 0f3F000000; st.global.f32 [%d+4], %b;
    mul.ftz.f32 %b, %a, 0f3F000000; st.global.f32 [%d+8], %b;
    div.rn.f32 %b, 0f3F800000, 0f40400000; st.global.f32 [%d+12], %b;
    ret;
}";

/// Changes the floating-point control word of the calling thread. When this value is dropped, it
/// restores the previous control word.
struct ControlWord(u32);

impl ControlWord {
    fn set(word: u32) -> ControlWord {
        let mut before = 0u32;
        // SAFETY: both instructions access only the words to which the operands point.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &mut before);
            std::arch::asm!("ldmxcsr [{}]", in(reg) &word);
        }
        ControlWord(before)
    }
}

impl Drop for ControlWord {
    fn drop(&mut self) {
        // SAFETY: the instruction accesses only the word of this value, which is the previous control word.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &self.0) };
    }
}

/// Simulates a host program that, before any worker starts, selects a rounding direction other than
/// to nearest, and the replacement of subnormal numbers by zero. A program that is built with
/// -ffast-math can do so.
#[test]
fn flushing_and_rounding_of_the_host() {
    const FLUSH: u32 = 1 << 15 | 1 << 6;
    const UPWARDS: u32 = 2 << 13;
    const MASKED: u32 = 0x1f80;
    let smallest_normal = f32::MIN_POSITIVE;
    // A third in binary is 0.0101...: the result is 0x3eaaaaab if it is rounded to nearest or upwards, and 0x3eaaaaaa
    // if it is rounded downwards.
    for rounding in [UPWARDS, 1 << 13, 3 << 13] {
        let word = ControlWord::set(MASKED | FLUSH | rounding);
        let mut results = Vec::new();
        for machine in machines(&[1, 2]) {
            let runtime = &machine.runtime;
            let module = runtime.load_ptx(TEXT).expect("loads");
            let kernel = module.kernel("halve").expect("known");
            let d = runtime
                .upload(&[smallest_normal.to_bits(), 0, 9, 0])
                .expect("room");
            runtime
                .launch(&kernel, LaunchConfig::new(1, 1), (&d,))
                .expect("launched");
            results.push((machine.label, d.to_vec().expect("complete")));
        }
        drop(word);
        for (label, result) in results {
            assert_eq!(result[1], 0x0040_0000, "subnormal, {label}");
            assert_eq!(result[2], 0, "flushed, {label}");
            assert_eq!(result[3], 0x3eaa_aaab, "to nearest, {label}");
        }
    }
}
