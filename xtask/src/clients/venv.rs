//! Creates Python virtual environments with the wheels of a client. Also downloads the source code
//! of test suites, if the wheels do not contain it.
//!
//! Invariant: an environment contains the packages that its requirements file lists. If the file
//! changes, this module creates the environment again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::manifest::Client;
use crate::{Outcome, exec};

/// Python interpreters in order of preference. Python 3.11 is first, because all wheels support it.
const PYTHONS: &[&str] = &["python3.11", "python3"];

/// Returns the folder that contains all environments and all downloaded source code.
fn folder() -> PathBuf {
    std::env::var_os("MARGAY_CLIENTS")
        .map_or_else(|| exec::root().join(".cache/clients"), PathBuf::from)
}

/// A virtual environment.
pub(super) struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// Returns the virtual environment of a client. If it does not exist, creates it first.
    pub(super) fn get(client: &Client, manifest: &Path) -> Result<Venv, String> {
        let here = manifest.join(&client.name);
        let program = client.install.as_ref().map(|program| here.join(program));
        Venv::of(&client.name, &here.join("requirements.txt"), program)
    }

    /// Returns the virtual environment with the packages of a requirements file. If it does not exist, creates it
    /// first, and runs a program with its interpreter.
    pub(super) fn of(
        name: &str,
        requirements: &Path,
        program: Option<PathBuf>,
    ) -> Result<Venv, String> {
        let venv = Venv {
            folder: folder().join(name),
        };
        let wanted = fs::read_to_string(requirements)
            .map_err(|e| format!("{}: {e}", requirements.display()))?;
        let stamp = venv.folder.join("margay-requirements.txt");
        if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(venv);
        }
        println!("{name:<18} installing into {} ...", venv.folder.display());
        venv.install(requirements)?;
        if let Some(program) = program {
            exec::run(Command::new(venv.python()).arg(program))?;
        }
        fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
        Ok(venv)
    }

    fn install(&self, requirements: &Path) -> Outcome {
        let works = |python: &&&str| exec::output(Command::new(python).arg("--version")).is_ok();
        let python = PYTHONS.iter().find(works).ok_or("Python 3 is needed")?;
        exec::run(
            Command::new(python)
                .args(["-m", "venv", "--clear"])
                .arg(&self.folder),
        )?;
        exec::run(
            Command::new(self.python())
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "-r",
                ])
                .arg(requirements),
        )
    }

    /// Returns the folder of the environment.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the environment's interpreter.
    pub(super) fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// Returns the folder of the environment's packages.
    pub(super) fn packages(&self) -> Result<String, String> {
        let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let path = exec::output(Command::new(self.python()).args(["-c", script]))?;
        Ok(path.trim().to_owned())
    }

    /// Returns the version of a package that is installed in the environment.
    pub(super) fn version(&self, package: &str) -> Result<String, String> {
        let script = format!("import importlib.metadata as m; print(m.version('{package}'))");
        let version = exec::output(Command::new(self.python()).args(["-c", &script]))?;
        Ok(version.trim().to_owned())
    }
}

/// Returns a folder that contains the files of a repository at a tag or a commit. If the folder
/// does not exist, downloads the files first.
pub(super) fn sources(repository: &str, revision: &str) -> Result<PathBuf, String> {
    let name = format!("{}-{revision}", repository.replace('/', "-"));
    let path = folder().join("sources").join(&name);
    if path.exists() {
        return Ok(path);
    }
    let half = folder().join("sources").join(format!("{name}.part"));
    let _ = fs::remove_dir_all(&half);
    fs::create_dir_all(&half).map_err(|e| format!("{}: {e}", half.display()))?;
    let url = format!("https://github.com/{repository}");
    for step in [
        &["init", "--quiet"][..],
        &["fetch", "--quiet", "--depth", "1", &url, revision],
        &["checkout", "--quiet", "FETCH_HEAD"],
    ] {
        exec::run(Command::new("git").arg("-C").arg(&half).args(step))?;
    }
    fs::rename(&half, &path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}
