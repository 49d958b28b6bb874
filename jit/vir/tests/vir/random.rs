//! Random functions: they pass the verifier, their text is complete, and the text computes the same results.

use margay_ops::meaning::mask;
use margay_vir::testing::{function, program};
use margay_vir::{parse, verify};
use proptest::prelude::*;

use crate::support::{BASE, outcome};

proptest! {
    #[test]
    fn random_functions_are_valid_and_survive_their_text(
        numbers in prop::collection::vec(any::<u32>(), 1..60),
        log2 in 1..7u32,
        seed in any::<u32>(),
        is_program in any::<bool>(),
    ) {
        let made = match is_program {
            true => program(&numbers, 1 << log2),
            false => function(&numbers, 1 << log2, BASE),
        };
        let text = made.to_string();
        prop_assert!(verify::function(&made).is_empty(), "{:?}\n{text}", verify::function(&made));
        let parsed = parse::function(&text).unwrap();
        prop_assert_eq!(parsed.to_string(), text);
        let (results, memory, calls) = outcome(&made, seed);
        prop_assert_eq!((results.clone(), memory, calls), outcome(&parsed, seed));
        prop_assert!(is_program || results.is_ok());
        // No lane has bits beyond its type.
        for (lanes, ty) in results.iter().flatten().zip(&made.signature.returns) {
            prop_assert_eq!(lanes.len(), ty.lanes() as usize);
            prop_assert!(lanes.iter().all(|&bits| bits & !mask(ty.lane_bits()) == 0));
        }
    }
}
