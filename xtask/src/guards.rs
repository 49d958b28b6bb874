//! `cargo xtask guards [ROUNDS]`: measures the cost of guard pages and fault handling.
//!
//! `tests/abi/guards.c` describes the comparison, whose results are in `BENCHMARKING.md`. The
//! measured times depend more on which physical pages an array uses than on guard pages. The
//! command therefore runs the program several times and reports the medians. The runs alternate:
//! one run first writes memory with guard pages, and the next run first writes memory without guard
//! pages.

use std::process::Command;

use crate::{Outcome, exec};

/// Number of rounds in each process. It is so large that the minimum times are stable even on a
/// machine that is not idle.
const ROUNDS: &str = "25";
/// Number of times that the program runs. The operating system allocates different physical pages
/// for each process.
const PROCESSES: usize = 16;

/// The result of one process for one kind of work: name, milliseconds with guard pages, milliseconds without guard
/// pages.
type Row = (String, f64, f64);

pub(crate) fn run(args: &[String]) -> Outcome {
    exec::build_programs()?;
    let folder = exec::root().join(".cache");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let program = folder.join("guards");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile
        .args(["-std=gnu11", "-O1", "-o"])
        .arg(&program)
        .arg(exec::root().join("tests/abi/guards.c"))
        .arg(exec::release_dir().join("libcuda.so"));
    exec::run(&mut compile)?;
    let rounds = args.first().map_or(ROUNDS, String::as_str);
    let mut processes = Vec::new();
    for process in 0..PROCESSES {
        let mut run = Command::new(exec::release_dir().join("margay"));
        run.args(["run", "--"]).arg(&program).arg(rounds);
        let text = exec::output(run.arg((process % 2).to_string()))?;
        processes.push(text.lines().filter_map(parse).collect::<Vec<Row>>());
    }
    println!(
        "| work | guarded, ms | plain, ms | cost, median of {PROCESSES} | from, to |\n|---|--:|--:|--:|--:|"
    );
    for (index, (name, ..)) in processes[0].iter().enumerate() {
        let rows: Vec<&Row> = processes
            .iter()
            .filter_map(|rows| rows.get(index))
            .collect();
        let guarded = median(rows.iter().map(|row| row.1));
        let plain = median(rows.iter().map(|row| row.2));
        let costs = || rows.iter().map(|row| (row.1 / row.2 - 1.0) * 100.0);
        let (least, most) = costs().fold((f64::MAX, f64::MIN), |(a, b), cost| {
            (a.min(cost), b.max(cost))
        });
        let cost = median(costs());
        println!(
            "| {name} | {guarded:.2} | {plain:.2} | {cost:+.1} % | {least:+.0}, {most:+.0} % |"
        );
    }
    Ok(())
}

/// Parses a row of the program's table; returns `None` for its header.
fn parse(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    Some((
        (*cells.get(1)?).to_owned(),
        cells.get(2)?.parse().ok()?,
        cells.get(3)?.parse().ok()?,
    ))
}

/// Returns the median of `values`: the middle value, or the mean of the two middle values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_the_head_is_not() {
        assert_eq!(
            parse("| tables: 256 | 11.4 | 10.1 | +12.9 % |"),
            Some(("tables: 256".to_owned(), 11.4, 10.1))
        );
        assert_eq!(parse("| work | guarded, ms | plain, ms | cost |"), None);
        assert_eq!(parse("|---|---|---|---|"), None);
        assert_eq!(parse("PASS"), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    }
}
