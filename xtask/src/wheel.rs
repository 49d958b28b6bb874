//! `cargo xtask wheel [--try]`: builds the wheel in `target/wheels`. The wheel contains the program
//! `margay`, the libraries that programs load under `margay run`, manual pages, and completion
//! scripts for shells.
//!
//! ```text
//! bin/margay
//! lib/margay/libcuda.so  libnvidia_ml.so  libmargay_audit.so  libgpuocelot.so  libcupti_12.so  libcupti_13.so
//! lib/margay/libmargay_nccl.so
//! lib/margay/libmargay_cublas.so  libcublas_12.so  libcublas_13.so  libcublaslt_12.so  libcublaslt_13.so
//! share/man/man1/margay*.1
//! share/bash-completion/completions/margay  share/zsh/site-functions/_margay  share/fish/vendor_completions.d/margay.fish
//! margay/pytest_plugin.py in the folder of Python packages, which pytest loads by its entry point
//! ```
//!
//! maturin builds the wheel from `pyproject.toml` and from the files that [`files`] puts into
//! `margay.data`. The wheel's tag contains the version of the C library that the wheel's files
//! need; [`glibc`] determines this version from the files. With `--try`, the command installs the
//! wheel into a new virtual environment and runs programs with it ([`trial`]).

mod files;
mod glibc;
mod trial;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, exec};

const MATURIN: &str = "maturin==1.16.0";

/// Python interpreters in order of preference.
pub(crate) const PYTHONS: &[&str] = &["python3.11", "python3"];

pub(crate) fn run(args: &[String]) -> Outcome {
    let try_it = match args {
        [] => false,
        [flag] if flag == "--try" => true,
        _ => return Err("the only option is --try".to_owned()),
    };
    let wheel = build()?;
    println!("{}", wheel.display());
    match try_it {
        true => trial::run(&wheel),
        false => Ok(()),
    }
}

/// Builds the wheel.
fn build() -> Result<PathBuf, String> {
    let maturin = maturin()?;
    exec::build_programs()?;
    let data = files::Data::make(&exec::root())?;
    let needed = data
        .libraries()
        .iter()
        .chain([&exec::release_dir().join("margay")])
        .map(|file| glibc::needed_by(file))
        .collect::<Result<Vec<_>, _>>()?;
    let newest = needed.into_iter().max().ok_or("no files")?;
    let tag = format!("manylinux_{}_{}", newest.0, newest.1);
    let folder = exec::release_dir().join("../wheels");
    let _ = std::fs::remove_dir_all(&folder);
    exec::run(
        Command::new(maturin)
            .args(["build", "--release", "--no-default-features"])
            .args(["--compatibility", &tag, "--out"])
            .arg(&folder)
            .current_dir(exec::root()),
    )?;
    drop(data);
    let wheel = exec::entries(&folder)?
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "whl"));
    let wheel = wheel.ok_or("maturin wrote no wheel")?;
    std::fs::canonicalize(&wheel).map_err(|e| format!("{}: {e}", wheel.display()))
}

/// Returns the path of the program maturin. If it is not installed, installs it first.
fn maturin() -> Result<PathBuf, String> {
    let venv = exec::root().join(".cache/maturin");
    let program = venv.join("bin/maturin");
    let stamp = venv.join("margay-version.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == MATURIN) {
        return Ok(program);
    }
    environment(&venv, &[MATURIN])?;
    std::fs::write(&stamp, MATURIN).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(program)
}

/// Creates a new virtual environment in `folder` and installs packages into it; `install` contains
/// the arguments for pip.
fn environment(folder: &Path, install: &[&str]) -> Outcome {
    let works = |python: &&&str| exec::output(Command::new(python).arg("--version")).is_ok();
    let python = PYTHONS.iter().find(works).ok_or("Python 3 is needed")?;
    exec::run(
        Command::new(python)
            .args(["-m", "venv", "--clear"])
            .arg(folder),
    )?;
    exec::run(
        Command::new(folder.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet"])
            .arg("--disable-pip-version-check")
            .args(install),
    )
}
