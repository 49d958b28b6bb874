//! Random functions: the code of each target computes what the interpreter computes.

use margay_vir::testing::function;

use crate::native::{Memory, check_for, targets};
use crate::operations::Random;

#[test]
fn random_functions_compute_what_the_interpreter_does() {
    let targets = targets();
    let mut memory = Memory::new((0..1024).map(|n| n as u8).collect());
    for seed in 0..120 {
        let mut random = Random(seed);
        let numbers: Vec<u32> = (0..1 + random.below(60))
            .map(|_| random.next() as u32)
            .collect();
        let made = function(&numbers, 2 << random.below(6), memory.address());
        let args = random.operands(&made);
        if let Some(target) = targets.get(seed as usize % targets.len().max(1)) {
            check_for(target, &made, &[args], &mut memory);
        }
    }
}
