//! Random functions have the same results before and after each pass, and after all passes.

use margay_vir::passes::{Options, PASSES, optimise};
use margay_vir::verify;
use proptest::prelude::*;

use crate::generate::{function, outcome};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn passes_keep_results_memory_and_faults(
        numbers in prop::collection::vec(any::<u32>(), 1..80),
        log2 in 1..7u32,
        seed in any::<u32>(),
    ) {
        let made = function(&numbers, 1 << log2);
        let expected = outcome(&made, seed);
        let options = Options::default();
        for pass in PASSES {
            let mut changed = made.clone();
            (pass.run)(&mut changed, &options);
            let problems = verify::function(&changed);
            prop_assert!(problems.is_empty(), "{}: {problems:?}\n{made}\n{changed}", pass.name);
            let outcome = outcome(&changed, seed);
            prop_assert!(outcome == expected, "{}: {:?} {:?}\n{made}\n{changed}", pass.name, outcome.0, expected.0);
        }
        let mut changed = made.clone();
        optimise(&mut changed, &options);
        let outcome = outcome(&changed, seed);
        prop_assert!(outcome == expected, "all: {:?} {:?}\n{made}\n{changed}", outcome.0, expected.0);
    }
}
