//! `cargo xtask toolchain`: installs NVIDIA's compiler from PyPI wheels into `.cache/cuda`. The
//! command needs neither a GPU nor root privileges.
//!
//! Only the end-to-end tests need the compiler; it is not needed to build Margay and to run the
//! other tests. `MARGAY_CUDA_VENV` names a virtual environment to use instead of `.cache/cuda`. The
//! versions of the wheels are fixed, so that everybody tests with the same compiler.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, exec};

/// The wheels, each with the version with which the tests are known to pass.
const WHEELS: &[&str] = &[
    "nvidia-cuda-nvcc==13.5.37",
    "nvidia-cuda-crt==13.5.37",
    "nvidia-nvvm==13.5.37",
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6",
];

/// Python interpreters in order of preference. The wheels support any Python 3.
const PYTHONS: &[&str] = &["python3.11", "python3"];

/// An installed toolchain.
pub(crate) struct Toolchain {
    /// The folder that contains `bin`, `include` and `lib`.
    pub(crate) root: PathBuf,
}

impl Toolchain {
    /// Returns the toolchain. If it is not installed, installs it first.
    pub(crate) fn get() -> Result<Self, String> {
        let venv = std::env::var_os("MARGAY_CUDA_VENV")
            .map_or_else(|| exec::root().join(".cache/cuda"), PathBuf::from);
        if let Some(found) = Self::find(&venv) {
            return Ok(found);
        }
        install(&venv)?;
        Self::find(&venv)
            .ok_or_else(|| format!("no nvcc in {} after installing the wheels", venv.display()))
    }

    fn find(venv: &Path) -> Option<Self> {
        let pythons = fs::read_dir(venv.join("lib")).ok()?;
        let roots = pythons
            .flatten()
            .map(|python| python.path().join("site-packages/nvidia/cu13"));
        let root = roots
            .into_iter()
            .find(|root| root.join("bin/nvcc").exists())?;
        Some(Toolchain { root })
    }

    /// Returns a command that runs the tool `name` of the folder `bin`. The command sets `PATH` so
    /// that the tools find each other.
    pub(crate) fn tool(&self, name: &str) -> Command {
        let bin = self.root.join("bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::iter::once(bin.clone()).chain(std::env::split_paths(&path));
        let mut command = Command::new(bin.join(name));
        command.env(
            "PATH",
            std::env::join_paths(dirs).expect("PATH was split at its separators"),
        );
        command
    }
}

pub(crate) fn run(_: &[String]) -> Outcome {
    let toolchain = Toolchain::get()?;
    let version = exec::output(toolchain.tool("nvcc").arg("--version"))?;
    println!("{}", version.lines().rev().nth(1).unwrap_or_default());
    for folder in ["bin", "include", "lib"] {
        println!("{folder:<8} {}", toolchain.root.join(folder).display());
    }
    Ok(())
}

fn install(venv: &Path) -> Outcome {
    let works = |python: &&&str| exec::output(Command::new(python).arg("--version")).is_ok();
    let python = PYTHONS
        .iter()
        .find(works)
        .ok_or("Python 3 is needed to install the wheels")?;
    println!(
        "installing NVIDIA's compiler into {} (about 400 MB) ...",
        venv.display()
    );
    exec::run(
        Command::new(python)
            .args(["-m", "venv", "--clear"])
            .arg(venv),
    )?;
    let pip = venv.join("bin/pip");
    exec::run(
        Command::new(pip)
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(WHEELS),
    )?;
    let toolchain = Toolchain::find(venv).ok_or("the wheels contain no nvcc")?;
    link_runtime(&toolchain.root.join("lib"))
}

/// Creates the symbolic link `libcudart.so`, which the linker needs because the wheel contains the
/// library only under its soname.
fn link_runtime(lib: &Path) -> Outcome {
    let plain = lib.join("libcudart.so");
    if plain.exists() {
        return Ok(());
    }
    symlink("libcudart.so.13", &plain).map_err(|e| format!("{}: {e}", plain.display()))
}
