//! Finds the packages of a Python environment, and states which known clients of CUDA among them work with Margay.
//!
//! Installers create a folder `NAME-VERSION.dist-info` for each package. This module reads the names of these folders
//! and not their files. Invariant: this module does not start the Python interpreter.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use margay_cli::input;
use serde_json::{Value, json};

use super::packages::normal_name;
use crate::output::{Failure, Paint, paint};

/// A Python package that uses CUDA and whose behaviour with Margay is known.
struct Known {
    /// The package's name, or its beginning before the CUDA version if the name contains one.
    package: &'static str,
    works: Works,
    /// What the client needs, or the reason why it does not work.
    note: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Works {
    Yes,
    /// The client works under `margay run`, but not with the driver library alone.
    UnderRun,
    No,
}

impl Works {
    fn text(self) -> &'static str {
        match self {
            Works::Yes => "works",
            Works::UnderRun => "works under `margay run`",
            Works::No => "does not work",
        }
    }

    fn paint(self) -> Paint {
        match self {
            Works::Yes | Works::UnderRun => Paint::Good,
            Works::No => Paint::Bad,
        }
    }
}

const fn known(package: &'static str, works: Works, note: &'static str) -> Known {
    Known {
        package,
        works,
        note,
    }
}

/// The known clients, sorted by name; `docs/clients.md` lists the tests.
const CLIENTS: &[Known] = &[
    known("cuda-bindings", Works::Yes, ""),
    known(
        "cuda-core",
        Works::UnderRun,
        "compiles to cubins, which Margay replaces by PTX",
    ),
    known(
        "cupy-cuda",
        Works::UnderRun,
        "compiles to cubins, which Margay replaces by PTX",
    ),
    known(
        "halide",
        Works::Yes,
        "with CUDA among the features of the target",
    ),
    known(
        "jax-cuda",
        Works::UnderRun,
        "XLA's kernels run as PTX; without `margay run`, JAX finds no device files of NVIDIA's kernel module \
         (/dev/nvidia*) and silently computes on the CPU: check jax.default_backend()",
    ),
    known(
        "numba-cuda",
        Works::UnderRun,
        "without nvidia-nvjitlink also with the library alone, through the driver's linker",
    ),
    known(
        "nvidia-ml-py",
        Works::UnderRun,
        "libnvidia-ml.so.1 is in the folder of `margay run`",
    ),
    known("openmm", Works::Yes, "with openmm[cuda12] or [cuda13]"),
    known(
        "pycuda",
        Works::UnderRun,
        "SourceModule starts nvcc, which must be installed",
    ),
    known(
        "pykeops",
        Works::No,
        "it silently computes on the CPU if its own search does not find CUDA's libraries and headers: check \
         pykeops.config.gpu_available",
    ),
    known("taichi", Works::Yes, "with arch=ti.cuda"),
    known(
        "tinygrad",
        Works::Yes,
        "with DEV=CUDA:PTX; DEV=CUDA needs libnvrtc.so",
    ),
    known(
        "torch",
        Works::UnderRun,
        "its operators on cuda run its CPU kernels; kernels of torch.compile and of Triton run as PTX",
    ),
    known(
        "torchvision",
        Works::UnderRun,
        "its operators on cuda run its CPU kernels",
    ),
    known(
        "triton",
        Works::UnderRun,
        "its assembler is replaced; the tensors are PyTorch's",
    ),
    known("warp-lang", Works::Yes, ""),
];

/// A package that is installed in an environment.
#[derive(Debug, PartialEq, Eq)]
struct Installed {
    name: String,
    version: String,
}

/// Returns the path of the Python interpreter that runs `program`. `program` can be an interpreter, a script whose
/// first line names an interpreter, or a file `*.py` without such a line, which the `python3` on `PATH` runs. For other
/// programs, returns `None`.
pub(super) fn interpreter(program: &Path) -> Option<PathBuf> {
    let name = program.file_name()?.to_str()?;
    if is_python(name) {
        return find(name, program);
    }
    let first = beginning(program)?;
    let first = first.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(first);
    if let Some(line) = line.strip_prefix("#!") {
        let word = line.split_whitespace().find(|word| {
            let file = word.rsplit('/').next().unwrap_or(word);
            is_python(file)
        })?;
        return find(word.rsplit('/').next()?, Path::new(word));
    }
    let script = program
        .extension()
        .is_some_and(|extension| extension == "py");
    script
        .then(|| find("python3", Path::new("python3")))
        .flatten()
}

/// Returns the first 4096 bytes of the file at `path`, or the whole file if it is shorter; `None`
/// if it is not a regular file or cannot be read.
fn beginning(path: &Path) -> Option<Vec<u8>> {
    /// Number of bytes to read. This is enough for the first line of every script that Linux can run, because Linux
    /// looks for the interpreter in the first 256 bytes of a script.
    const ENOUGH: u64 = 4096;
    input::read_start(path, ENOUGH).ok()
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python")
        .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// If `path` contains a folder, returns `path` if it exists. If `path` is a bare name, searches the folders of `PATH`
/// for `name`.
fn find(name: &str, path: &Path) -> Option<PathBuf> {
    if path.components().count() > 1 {
        return path.exists().then(|| path.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|file| file.exists())
}

/// Returns the folders of an interpreter's packages: those of its virtual environment and, if the environment includes
/// the system's packages, those of the installation. Without a virtual environment, returns only the folders of the
/// installation.
pub(super) fn package_folders(interpreter: &Path) -> Vec<PathBuf> {
    let real = fs::canonicalize(interpreter).unwrap_or_else(|_| interpreter.to_owned());
    let of = |program: &Path| Some(program.parent()?.parent()?.to_owned());
    let Some(prefix) = of(interpreter) else {
        return Vec::new();
    };
    let environment = input::read_regular(&prefix.join("pyvenv.cfg"), input::MAX_FILE);
    let environment = environment
        .ok()
        .and_then(|text| String::from_utf8(text).ok());
    let with_system = environment.as_ref().is_none_or(|text| {
        text.lines()
            .any(|line| line.replace(' ', "") == "include-system-site-packages=true")
    });
    let system = of(&real).filter(|real| with_system && *real != prefix);
    let folders = [Some(prefix), system].into_iter().flatten();
    folders
        .flat_map(|prefix| {
            let versions = fs::read_dir(prefix.join("lib"))
                .into_iter()
                .flatten()
                .flatten();
            versions.flat_map(|version| {
                ["site-packages", "dist-packages"].map(|name| version.path().join(name))
            })
        })
        .filter(|folder| folder.is_dir())
        .collect()
}

/// Returns the packages that have a `.dist-info` folder in one of `folders`.
fn installed(folders: &[PathBuf]) -> Vec<Installed> {
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    let names = entries.flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (name, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
        Some(Installed {
            name: normal_name(name),
            version: version.to_owned(),
        })
    });
    let mut packages: Vec<Installed> = names.collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    packages.dedup_by(|a, b| a.name == b.name);
    packages
}

/// Returns the entry of [`CLIENTS`] for the package called `name`.
fn known_client(name: &str) -> Option<&'static Known> {
    CLIENTS.iter().find(|client| {
        let rest = name.strip_prefix(client.package);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Returns the interpreter of the environment that `path` names: an interpreter, or the folder of an environment.
pub(super) fn environment(path: &Path) -> Result<PathBuf, Failure> {
    let bin = path.join("bin");
    let found = match path.is_dir() {
        true => ["python", "python3"]
            .map(|name| bin.join(name))
            .into_iter()
            .find(|file| file.exists()),
        false => interpreter(path),
    };
    found.ok_or_else(|| {
        format!(
            "{} is neither a Python interpreter nor an environment",
            path.display()
        )
        .into()
    })
}

/// The known clients of an environment.
pub(super) struct Clients {
    interpreter: PathBuf,
    clients: Vec<(Installed, &'static Known)>,
}

impl Clients {
    /// Reads the packages in the folders of an interpreter.
    pub(super) fn read(interpreter: &Path, folders: &[PathBuf]) -> Clients {
        let packages = installed(folders).into_iter();
        let clients = packages.filter_map(|package| {
            let known = known_client(&package.name)?;
            Some((package, known))
        });
        Clients {
            interpreter: interpreter.to_owned(),
            clients: clients.collect(),
        }
    }

    /// Returns whether there are clients and none of them works.
    pub(super) fn none_works(&self) -> bool {
        let works = |(_, known): &(_, &Known)| known.works != Works::No;
        !self.clients.is_empty() && !self.clients.iter().any(works)
    }

    pub(super) fn to_json(&self) -> Value {
        document(&self.interpreter, &self.clients)
    }

    pub(super) fn text(&self) -> String {
        page(&self.interpreter, &self.clients)
    }
}

fn document(interpreter: &Path, clients: &[(Installed, &Known)]) -> Value {
    let clients = clients.iter().map(|(package, known)| {
        json!({
            "package": package.name,
            "version": package.version,
            "works": known.works.text(),
            "note": known.note,
        })
    });
    json!({
        "interpreter": interpreter.to_string_lossy(),
        "clients": clients.collect::<Vec<_>>(),
    })
}

fn page(interpreter: &Path, clients: &[(Installed, &Known)]) -> String {
    let head = paint("interpreter", Paint::Heading);
    let mut text = format!("{head} {}\n", interpreter.display());
    for (package, known) in clients {
        let name = format!("{} {}", package.name, package.version);
        let works = paint(known.works.text(), known.works.paint());
        let comma = if known.note.is_empty() { "" } else { "; " };
        let _ = writeln!(text, "{name:<28} {works}{comma}{}", known.note);
    }
    if clients.is_empty() {
        text.push_str("no package here is known to use CUDA\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_their_packages() {
        let works = |name| known_client(name).map(|known| known.works.text());
        assert_eq!(works("cupy-cuda13x"), Some("works under `margay run`"));
        assert_eq!(works("torch"), Some("works under `margay run`"));
        assert_eq!(works("torch-geometric"), None);
        assert_eq!(works("jax-cuda12-plugin"), Some("works under `margay run`"));
        assert_eq!(works("numpy"), None);
    }

    #[test]
    fn an_environment_is_read_without_its_interpreter() {
        let folder = std::env::temp_dir().join(format!("margay-doctor-{}", std::process::id()));
        let packages = folder.join("lib/python3.11/site-packages");
        for name in [
            "warp_lang-1.19.0.dist-info",
            "numpy-2.4.6.dist-info",
            "warp",
        ] {
            fs::create_dir_all(packages.join(name)).unwrap();
        }
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/python"), "").unwrap();
        fs::write(
            folder.join("pyvenv.cfg"),
            "include-system-site-packages = false\n",
        )
        .unwrap();
        let script = folder.join("simulate");
        fs::write(&script, format!("#!{}/bin/python\n", folder.display())).unwrap();
        let interpreter = interpreter(&script).unwrap();
        assert_eq!(interpreter, folder.join("bin/python"));
        assert_eq!(environment(&folder).unwrap(), interpreter);
        assert!(environment(&packages).is_err());
        let clients = Clients::read(&interpreter, &package_folders(&interpreter));
        assert!(!clients.none_works());
        let document = clients.to_json();
        assert_eq!(document["clients"].as_array().unwrap().len(), 1);
        assert_eq!(document["clients"][0]["package"], "warp-lang");
        assert_eq!(document["clients"][0]["version"], "1.19.0");
        fs::remove_dir_all(folder).unwrap();
    }
}
