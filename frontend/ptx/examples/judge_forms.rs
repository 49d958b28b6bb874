//! Checks PTX instructions against the syntax table. Reads lines `target<TAB>version<TAB>text` from standard input, and
//! writes `OK` or an error message for each such line to standard output. Lines with fewer fields are ignored. The
//! output can be compared with the results of another assembler.

#[path = "../tests/judge/mod.rs"]
mod judge;

use judge::{Judge, Verdict};
use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut judge = Judge::default();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut fields = line.splitn(3, '\t');
        let (Some(target), Some(version), Some(text)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        match judge.judge(target, version, text) {
            Verdict::Accepted => writeln!(out, "OK")?,
            Verdict::Rejected(error) => writeln!(out, "{error}")?,
            Verdict::Unreadable(operand) => writeln!(out, "unreadable: {operand}")?,
        }
    }
    Ok(())
}
