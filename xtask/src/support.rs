//! `cargo xtask support [--check]`: writes the support tables in `docs/`, which `margay support` prints.
//!
//! The program `margay` generates the tables, so they match its behaviour. This command writes them to files or, with
//! `--check`, checks that the files are up to date. Before this step, the command runs the tests
//! that write or check the underlying data (`docs/support-*.csv`), because only these tests have
//! access to the tables inside the libraries.

use std::fs;
use std::process::Command;

use crate::{Outcome, exec};

/// Each table: its file in `docs/`, and the argument with which `margay support --markdown` prints
/// it.
const TABLES: &[(&str, &str)] = &[("support-driver.md", "driver"), ("support-ptx.md", "ptx")];

/// The arguments for the tests that check whether the underlying data is up to date. With `BLESS=1`, these tests write
/// the data. Cargo builds the whole workspace for them, so that it does not compile dependencies again with other
/// features.
const DATA: &[&str] = &[
    "test",
    "--release",
    "--workspace",
    "--test",
    "support_table",
    "--test",
    "support_ptx",
    "--",
    "up_to_date",
];

pub(crate) fn run(args: &[String]) -> Outcome {
    let check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err("the only option is --check".to_owned()),
    };
    let mut data = exec::cargo();
    data.args(DATA);
    if !check {
        data.env("BLESS", "1");
    }
    exec::run(&mut data)?;
    exec::build_programs()?;
    for (file, subject) in TABLES {
        let mut program = Command::new(exec::release_dir().join("margay"));
        let text = exec::output(program.args(["support", "--markdown", subject]))?;
        let path = exec::root().join("docs").join(file);
        if !check {
            fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        } else if fs::read_to_string(&path).ok().as_deref() != Some(text.as_str()) {
            return Err(format!("docs/{file} is stale; run cargo xtask support"));
        }
    }
    Ok(())
}
