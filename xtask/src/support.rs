//! `cargo xtask support [--check]`: the support tables in `docs/`, written by `margay support`.
//!
//! The tables come from the program itself, so they say what it does; this command only puts them into
//! files and, with `--check`, sees that the files are up to date.

use std::fs;
use std::process::Command;

use crate::{Outcome, exec};

/// Each file in `docs/`, and the subject that `margay support --markdown` prints for it.
const TABLES: &[(&str, &str)] = &[("support-driver.md", "driver")];

pub(crate) fn run(args: &[String]) -> Outcome {
    let check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err("the only option is --check".to_owned()),
    };
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
