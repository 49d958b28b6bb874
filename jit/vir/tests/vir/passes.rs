//! Random functions have the same results before and after each pass, and after all passes.

mod address;
mod forward;
mod memory;
mod place;
mod simplify;
mod time;
mod unroll;

use margay_vir::passes::{Options, PASSES, optimise, optimise_watched};
use margay_vir::testing::program;
use margay_vir::verify;
use proptest::prelude::*;

use crate::support::{outcome, parsed};

/// Returns the text of a function after the passes with these names.
pub(crate) fn after(passes: &str, text: &str) -> String {
    let mut function = parsed(text);
    for name in passes.split(' ') {
        let pass = PASSES.iter().find(|pass| pass.name == name).unwrap();
        (pass.run)(&mut function, &Options::default());
        let problems = verify::function(&function);
        assert!(problems.is_empty(), "{name}: {problems:?}\n{function}");
    }
    function.to_string()
}

/// Returns the instructions of a function with one block after `simplify` and `dead`, separated by ` | `. The values are
/// numbered in the order of their definitions.
fn simplified(params: &str, text: &str) -> String {
    let names = params.split(", ").enumerate();
    let list: Vec<String> = names.map(|(n, ty)| format!("v{n}: {ty}")).collect();
    let lines: Vec<&str> = text.split('|').map(str::trim).collect();
    let returned = lines.last().unwrap().trim_start_matches("ret ");
    let is_returned = |line: &&&str| line.starts_with(&format!("{returned}: "));
    let ty = match lines.iter().find(is_returned) {
        Some(line) => line.split([' ']).nth(1).unwrap(),
        None => params
            .split(", ")
            .nth(returned[1..].parse().unwrap())
            .unwrap(),
    };
    let body = lines.join("\n  ");
    let text = format!(
        "func @f({params}) -> ({ty}) {{\nblock0({}):\n  {body}\n}}\n",
        list.join(", ")
    );
    let text = after("simplify dead", &text);
    let mut lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    for number in list.len()..lines.len() {
        let Some(old) = lines[2..]
            .iter()
            .filter_map(|line| line.split_once(": "))
            .nth(number - list.len())
        else {
            break;
        };
        let (old, new) = (old.0.to_owned(), format!("w{number}"));
        for line in &mut lines[2..] {
            *line = replaced(line, &old, &new);
        }
    }
    let lines = &lines[2..lines.len() - 1];
    lines.join(" | ").replace('w', "v")
}

/// Replaces the word `old`.
fn replaced(line: &str, old: &str, new: &str) -> String {
    let words = line.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words
        .map(|word| match word.strip_prefix(old) {
            Some(rest)
                if rest.len() <= 1 && !rest.starts_with(|c: char| c.is_ascii_alphanumeric()) =>
            {
                format!("{new}{rest}")
            }
            _ => word.to_owned(),
        })
        .collect()
}

#[test]
fn all_passes_run_and_are_watched() {
    let mut names = Vec::new();
    let mut function = program(&[1, 2, 3], 4);
    optimise_watched(&mut function, &Options::default(), |pass, _, _| {
        names.push(pass.name)
    });
    let expected: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
    assert_eq!(names, expected);
}

proptest! {
    #[test]
    fn passes_keep_results_memory_and_faults(
        numbers in prop::collection::vec(any::<u32>(), 1..80),
        log2 in 1..7u32,
        seed in any::<u32>(),
    ) {
        let made = program(&numbers, 1 << log2);
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
