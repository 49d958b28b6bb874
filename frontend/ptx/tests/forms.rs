//! Compares the syntax table with recorded results of ptxas. One test checks that every recorded
//! instruction that ptxas accepts matches a form at the lowest version and target for which ptxas
//! accepts it. Another test checks that the table accepts the same instructions as ptxas among
//! recorded instructions with random changes. `data/README.md` describes where the results come
//! from.

mod judge;

use flate2::read::GzDecoder;
use judge::{Judge, Verdict};
use std::io::Read;

/// Reads a data file. Returns the result of ptxas, the target, the version and the instruction of each line.
fn judged(name: &str) -> Vec<[String; 4]> {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(path).expect("the test's data");
    let mut text = String::new();
    GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("compressed text");
    text.lines()
        .map(|line| {
            let mut fields = line.splitn(4, '\t').map(str::to_owned);
            std::array::from_fn(|_| fields.next().expect("four fields"))
        })
        .collect()
}

/// Returns the number of lines of a data file, and the lines for which the table and ptxas give different results.
fn differences(name: &str) -> (usize, Vec<String>) {
    let lines = judged(name);
    let mut judge = Judge::default();
    let mut wrong = Vec::new();
    for [expected, target, version, text] in &lines {
        let (accepted, reason) = match judge.judge(target, version, text) {
            Verdict::Accepted => (true, String::new()),
            Verdict::Rejected(error) => (false, error.to_string()),
            Verdict::Unreadable(operand) => (false, format!("cannot read {operand}")),
        };
        if accepted != (expected == "+") {
            wrong.push(format!("{expected} {target} {version} {text} {reason}"));
        }
    }
    (lines.len(), wrong)
}

#[test]
fn every_accepted_form_matches() {
    let (count, wrong) = differences("forms-accepted.tsv.gz");
    assert!(count > 21_000);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn mutations_are_judged_alike() {
    let (count, wrong) = differences("forms-judged.tsv.gz");
    assert!(count > 5_000);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
