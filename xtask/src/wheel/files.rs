//! Collects in the folder `margay.data` all files of the wheel except the program and the Python
//! package. maturin includes a folder with this name (derived from the name of the package) if it
//! is in the folder of `pyproject.toml`.
//!
//! Invariant: the folder is removed after the wheel is built, so that no old file is included in another wheel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, exec};

/// The driver library, and the other libraries that programs under `margay run` load from the same
/// folder.
const LIBRARIES: [&str; 12] = [
    "libcuda.so",
    "libnvidia_ml.so",
    "libmargay_audit.so",
    "libgpuocelot.so",
    "libcupti_12.so",
    "libcupti_13.so",
    "libmargay_nccl.so",
    "libmargay_cublas.so",
    "libcublas_12.so",
    "libcublas_13.so",
    "libcublaslt_12.so",
    "libcublaslt_13.so",
];

/// Each shell, and the path below the folder `share` at which the shell expects Margay's completion
/// script.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/margay"),
    ("zsh", "zsh/site-functions/_margay"),
    ("fish", "fish/vendor_completions.d/margay.fish"),
];

/// The path of the folder `margay.data`. Dropping this value removes the folder.
pub(super) struct Data(PathBuf);

impl Data {
    /// Creates the folder below `root` and copies the files of the last build into it.
    pub(super) fn make(root: &Path) -> Result<Data, String> {
        let data = Data(root.join("margay.data"));
        let _ = fs::remove_dir_all(&data.0);
        data.fill().map_err(|e| format!("margay.data: {e}"))?;
        Ok(data)
    }

    /// Returns the paths of the libraries in the folder.
    pub(super) fn libraries(&self) -> [PathBuf; LIBRARIES.len()] {
        LIBRARIES.map(|name| self.at("lib/margay").join(name))
    }

    /// Returns the folder of `margay.data` whose files are installed in `folder` below the installation's root.
    fn at(&self, folder: &str) -> PathBuf {
        self.0.join("data").join(folder)
    }

    fn fill(&self) -> Outcome {
        let release = exec::release_dir();
        let write = |path: PathBuf, text: String| {
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            made.and_then(|()| fs::write(&path, text))
                .map_err(|e| format!("{}: {e}", path.display()))
        };
        fs::create_dir_all(self.at("lib/margay")).map_err(|e| e.to_string())?;
        for (name, library) in LIBRARIES.into_iter().zip(self.libraries()) {
            fs::copy(release.join(name), &library).map_err(|e| format!("{name}: {e}"))?;
            // Debug information (mostly line tables) takes four fifths of each library's size, so it is removed.
            exec::run(Command::new("strip").arg("--strip-debug").arg(&library))?;
        }
        let margay = release.join("margay");
        let man = self.at("share/man/man1");
        exec::run(Command::new(&margay).args(["man", "--to"]).arg(man))?;
        for (shell, place) in COMPLETIONS {
            let script = exec::output(Command::new(&margay).args(["completions", shell]))?;
            write(self.at("share").join(place), script)?;
        }
        Ok(())
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
