//! Accesses beside memory that is not accessible, and the places of instructions that may fault.

use margay_ops::meaning::Bits;
use margay_ops::types::Kind;
use margay_vir::interpreter::Cause;
use margay_vir::meaning::Lanes;
use margay_x64::code::Cause as CodeCause;
use smallvec::smallvec;

use crate::native::{Guarded, Loaded, Memory, interpreted, parsed, targets};

/// Types in memory, and types of the values.
pub(crate) const TYPES: [(&str, &str); 9] = [
    ("u8", "b8"),
    ("s8", "b32"),
    ("u16", "b16"),
    ("u16", "b64"),
    ("b32", "b32"),
    ("f32", "f32"),
    ("s32", "b64"),
    ("f64", "f64"),
    ("b128", "b128"),
];

#[test]
fn lanes_outside_the_mask_do_not_access_memory() {
    for (memory, value) in TYPES {
        let ty = margay_ops::types::OpType::from_name(memory).unwrap();
        let bytes = ty.bits() / 8;
        let text = format!(
            "func @tail(b64, predx64, b32x64) -> () {{
block0(v0: b64, v1: predx64, v2: b32x64):
  v3: {value}x64 = load.{value}x64{{{memory} {bytes}}} v0, v1
  store.{value}x64{{{memory} {bytes}}} v0, v3, v1
  v4: {value}x64 = gather.{value}x64{{{memory} {bytes}}} v0, v2, v1
  scatter.{value}x64{{{memory} {bytes}}} v0, v2, v4, v1
  v5: {value}x64 = load.{value}x64{{{memory} {double}}} v6, v1
  store.{value}x64{{{memory} {double}}} v6, v5, v1
  ret
}}
",
            double = 2 * bytes
        );
        let text = text.replace("block0(v0: b64, v1: predx64, v2: b32x64):\n", "block0(v0: b64, v1: predx64, v2: b32x64):\n  v7: b64 = const.b64{0xffffffffffff0000}\n  v6: b64 = map.b64{add.u64} v0, v8\n");
        let text = text.replace(
            "  v6: b64 = map",
            &format!(
                "  v8: b64 = const.b64{{{:#x}}}\n  v6: b64 = map",
                (u64::from(40 * bytes)).wrapping_neg()
            ),
        );
        let function = parsed(&text);
        let guarded = Guarded::new();
        for (_, target) in targets() {
            let loaded = Loaded::new(&function, &target);
            // 40 lanes end where the accessible memory ends.
            let address = guarded.end() - u64::from(40 * bytes);
            let args: Vec<Lanes> = vec![
                smallvec![Bits::from(address)],
                (0..64).map(|n| Bits::from(n < 40)).collect(),
                (0..64).collect(),
            ];
            loaded.run(&function.signature, &args);
        }
    }
}

#[test]
fn places_name_the_instructions_that_may_fault() {
    let function = parsed(
        "func @places(b64, predx32, pred) -> (f32x32) {
block0(v0: b64, v1: predx32, v2: pred):
  v3: f32x32 = load.f32x32{f32 4} v0, v1  ; 7
  trap.if{3} v2  ; 8
  store.f32x32{f32 4} v0, v3  ; 9
  ret v3
}
",
    );
    for (_, target) in targets() {
        let code = margay_x64::compile(&function, &target).unwrap();
        let found: Vec<_> = code
            .places
            .iter()
            .map(|place| (place.place, place.cause))
            .collect();
        let lanes = |number: u64| -> u32 {
            let of = |&(place, cause): &(u64, CodeCause)| match cause {
                CodeCause::Access {
                    lanes, bytes: 4, ..
                } if place == number => lanes,
                _ => 0,
            };
            found.iter().map(of).sum()
        };
        assert_eq!((lanes(7), lanes(9)), (32, 32));
        assert!(
            found
                .iter()
                .any(|&(place, cause)| (place, cause) == (8, CodeCause::Trap(3)))
        );
        let _ = Kind::F32;
    }
    // The interpreter ends at the same places.
    let mut memory = Memory::new(vec![0; 64]);
    let args: Vec<Lanes> = vec![
        smallvec![Bits::from(memory.address())],
        smallvec![0; 32],
        smallvec![1],
    ];
    let fault = interpreted(&function, &args, &mut memory).unwrap_err();
    assert_eq!((fault.place, fault.cause), (8, Cause::Trap(3)));
}
