//! Decodes machine code with another tool, and checks what it consists of.

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction, OpKind, Register};
use margay_x64::code::{Cause, MemoryOperand};
use margay_x64::{Code, Features};

/// Returns the feature of a target to which a feature of the decoder belongs; `None` if all processors have it.
fn feature(feature: CpuidFeature) -> Option<Features> {
    use CpuidFeature as F;
    Some(match feature {
        F::INTEL8086
        | F::INTEL386
        | F::INTEL486
        | F::X64
        | F::CMOV
        | F::MULTIBYTENOP
        | F::SSE
        | F::SSE2
        | F::INTEL186
        | F::INTEL286 => return None,
        F::AVX | F::AVX2 | F::FMA | F::F16C | F::BMI1 | F::BMI2 | F::LZCNT | F::POPCNT => {
            Features::AVX2
        }
        F::AVX512F | F::AVX512CD | F::AVX512BW | F::AVX512DQ | F::AVX512VL => Features::AVX512,
        F::AVX512_VBMI => Features::VBMI,
        F::AVX512_VBMI2 => Features::VBMI2,
        F::AVX512_BITALG => Features::BITALG,
        F::AVX512_VPOPCNTDQ => Features::VPOPCNTDQ,
        F::AVX512_VNNI => Features::VNNI,
        other => panic!("unexpected feature {other:?}"),
    })
}

fn number(register: Register) -> Option<u8> {
    (register != Register::None).then(|| register.number() as u8)
}

/// Returns the memory operand of an instruction.
fn operand(inst: &Instruction) -> MemoryOperand {
    let is_relative = inst.is_ip_rel_memory_operand();
    MemoryOperand {
        base: if is_relative {
            None
        } else {
            number(inst.memory_base())
        },
        index: number(inst.memory_index()),
        is_vector_index: inst.is_vsib(),
        scale: inst.memory_index_scale() as u8,
        displacement: inst.memory_displacement64() as i32,
        mask: number(inst.op_mask()),
    }
}

/// Checks that code consists of valid instructions, which processors with these features have, and that its places are
/// instructions with the operands that they state.
pub(crate) fn check(code: &Code, features: Features) {
    let bytes = &code.bytes[..code.instructions as usize];
    let mut places = code.places.iter().peekable();
    for inst in Decoder::new(64, bytes, DecoderOptions::NONE) {
        assert!(
            !inst.is_invalid(),
            "invalid instruction at {:#x}",
            inst.ip()
        );
        for &required in inst.cpuid_features() {
            let present = feature(required).is_none_or(|required| features.contains(required));
            assert!(present, "{inst} requires {required:?}");
        }
        while let Some(place) = places.next_if(|place| u64::from(place.offset) == inst.ip()) {
            match place.cause {
                Cause::Trap(_) => assert_eq!(inst.mnemonic(), iced_x86::Mnemonic::Ud2),
                Cause::Access {
                    operand: stated, ..
                }
                | Cause::Loop {
                    operand: stated, ..
                }
                | Cause::Rows {
                    operand: stated, ..
                } => {
                    assert!(
                        (0..inst.op_count()).any(|n| inst.op_kind(n) == OpKind::Memory),
                        "{inst} accesses no memory"
                    );
                    assert_eq!(stated, operand(&inst), "{inst}");
                }
            }
        }
    }
    assert!(places.next().is_none(), "a place is at no instruction");
}
