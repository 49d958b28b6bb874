//! Random functions: they pass the verifier, their text is complete, and the text computes the same results.

use margay_ops::meaning::{Bits, mask};
use margay_vir::function::Function;
use margay_vir::interpreter::{Cause, run};
use margay_vir::meaning::Lanes;
use margay_vir::testing::function;
use margay_vir::{parse, verify};
use proptest::prelude::*;

use crate::support::{BASE, Machine};

/// What a function leaves behind: its results or the cause of its end, and the contents of memory.
type Outcome = (Result<Vec<Lanes>, Cause>, Vec<u8>);

fn outcome(function: &Function, seed: u32) -> Outcome {
    let random = |n: usize| {
        Bits::from(seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_right(7 * n as u32)
    };
    let args: Vec<Lanes> = function
        .signature
        .params
        .iter()
        .enumerate()
        .map(|(p, ty)| {
            (0..ty.lanes() as usize)
                .map(|n| random(n + 64 * p) & mask(ty.lane_bits()))
                .collect()
        })
        .collect();
    let mut machine = Machine::new((0..1024).map(|n| n as u8).collect());
    let results = run(function, &args, &mut machine, 10_000);
    (results.map_err(|fault| fault.cause), machine.bytes)
}

proptest! {
    #[test]
    fn random_functions_are_valid_and_survive_their_text(
        numbers in prop::collection::vec(any::<u32>(), 1..60),
        log2 in 1..7u32,
        seed in any::<u32>(),
    ) {
        let made = function(&numbers, 1 << log2, BASE);
        let text = made.to_string();
        prop_assert!(verify::function(&made).is_empty(), "{:?}\n{text}", verify::function(&made));
        let parsed = parse::function(&text).unwrap();
        prop_assert_eq!(parsed.to_string(), text);
        let (results, memory) = outcome(&made, seed);
        prop_assert_eq!((results.clone(), memory), outcome(&parsed, seed));
        // No lane has bits beyond its type.
        for (lanes, ty) in results.unwrap().iter().zip(&made.signature.returns) {
            prop_assert_eq!(lanes.len(), ty.lanes() as usize);
            prop_assert!(lanes.iter().all(|&bits| bits & !mask(ty.lane_bits()) == 0));
        }
    }
}
