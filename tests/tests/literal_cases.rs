//! Checks which literal cases of `ir/ops/tests/meanings` can be executed as PTX instructions. The test binary
//! `file_tests` runs these cases.

use std::collections::BTreeSet;

use margay_ops::ops::Opcode;
use margay_tests::literal::{is_plain_instruction, literal_tests};

/// Minimum number of executed cases. If fewer cases are executed, the rules of
/// `margay_tests::literal` exclude cases that they should include.
const LEAST: usize = 700;

#[test]
fn most_cases_are_executed() {
    let tests = literal_tests();
    let count: usize = tests.iter().map(|test| test.cases.len()).sum();
    assert!(count >= LEAST, "{count} cases");
}

#[test]
fn every_plain_instruction_executes_a_case() {
    let tests = literal_tests();
    let executed: BTreeSet<Opcode> = tests
        .iter()
        .flat_map(|test| &test.cases)
        .map(|case| case.opcode)
        .collect();
    let missing: Vec<&str> = Opcode::ALL
        .iter()
        .filter(|&&opcode| is_plain_instruction(opcode) && !executed.contains(&opcode))
        .map(|opcode| opcode.name())
        .collect();
    assert!(missing.is_empty(), "no literal case executes {missing:?}");
}
