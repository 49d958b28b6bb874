//! Tests `margay bench --baseline` with this program as both builds.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(["bench", "--check"])
        .args(arguments)
        .env("MARGAY_WORKERS", "1")
        .output()
        .unwrap()
}

#[test]
fn a_program_is_compared_with_itself() {
    let this = env!("CARGO_BIN_EXE_margay");
    let output = bench(&["--baseline", this, "saxpy, in L2"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with("| saxpy, in L2"));
    let cells: Vec<&str> = row.expect(&text).split(" | ").collect();
    let [ours, baseline, speed] = [2, 3, 4].map(|i| cells[i].trim_matches('*').parse::<f64>());
    assert!(ours.unwrap() > 0.0 && baseline.unwrap() > 0.0, "{row:?}");
    assert!((0.01..100.0).contains(&speed.unwrap()), "{row:?}");
    assert!(!text.contains("C, clang"), "{text}");
}

#[test]
fn a_program_that_is_no_baseline_is_an_error() {
    for file in ["/bin/true", "/nowhere/margay"] {
        let output = bench(&["--baseline", file, "saxpy, in L2"]);
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(file), "{error}");
    }
}
