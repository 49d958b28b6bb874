//! Installs a wheel into a new virtual environment and runs programs there. The programs use
//! Margay's installed files, and no files of Margay from the repository.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::environment;
use crate::{Outcome, exec};

/// Programs of `tests/clients` that the trial runs after it has installed their requirements.
const PROGRAMS: [&str; 1] = ["numba"];

/// Files that the environment must contain after the wheel is installed.
const FILES: [&str; 5] = [
    "bin/margay",
    "lib/margay/libcuda.so",
    "share/man/man1/margay-run.1",
    "share/bash-completion/completions/margay",
    "share/fish/vendor_completions.d/margay.fish",
];

/// A program that prints the entry points through which PyTorch finds the package: the wheel's and, under `margay run`,
/// that of the folder in `PYTHONPATH`. It loads each of them; without PyTorch, the package does nothing.
const ENTRY_POINTS: &str = "from importlib.metadata import entry_points as e; \
                            print(sorted(str(p.dist.name) for p in e(group='torch.backends') if callable(p.load())))";

/// Returns a command that runs the installed program `margay`. The program does not inherit the
/// environment variables of this process.
fn margay(venv: &Path) -> Command {
    let mut margay = Command::new(venv.join("bin/margay"));
    let path = format!("{}/bin:/usr/bin:/bin", venv.display());
    margay.env_clear().env("PATH", path);
    margay
}

pub(super) fn run(wheel: &Path) -> Outcome {
    let venv = exec::root().join(".cache/wheel");
    let started = Instant::now();
    let clients = exec::root().join("tests/clients");
    let mut install = vec![wheel.to_string_lossy().into_owned()];
    for program in PROGRAMS {
        let requirements = clients.join(program).join("requirements.txt");
        install.extend(["-r".into(), requirements.to_string_lossy().into_owned()]);
    }
    environment(
        &venv,
        &install.iter().map(String::as_str).collect::<Vec<_>>(),
    )?;
    println!("installed in {:.0} s", started.elapsed().as_secs_f64());
    if let Some(missing) = FILES.iter().find(|file| !venv.join(file).is_file()) {
        return Err(format!("{missing} is not in {}", venv.display()));
    }
    for program in PROGRAMS {
        let started = Instant::now();
        let script = clients.join(program).join("minimal.py");
        let said = exec::output(margay(&venv).args(["run", "python"]).arg(&script))?;
        let seconds = started.elapsed().as_secs_f64();
        if !said.lines().any(|line| line.starts_with("PASS ")) {
            return Err(format!("{program} does not pass: {said}"));
        }
        println!("{program:<10} ok {seconds:>6.1} s");
    }
    let python = ["run", "python", "-c", ENTRY_POINTS];
    let said = exec::output(margay(&venv).args(python))?;
    if said.trim() != "['margay', 'margay-run']" {
        return Err(format!("PyTorch's entry points are {said}"));
    }
    // Runs the tests of the example for CI (`examples/github`), without and with the plugin for pytest.
    let tests = exec::root().join("examples/github");
    for options in [&["-q"][..], &["-q", "--margay-check"]] {
        let said = exec::output(
            margay(&venv)
                .args(["run", "pytest", "-p", "no:cacheprovider"])
                .args(options)
                .arg(&tests),
        )?;
        println!("{}", said.lines().last().unwrap_or_default());
    }
    let _ = std::fs::remove_dir_all(&venv);
    Ok(())
}
