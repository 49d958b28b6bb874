//! Creates the folder that `margay run` puts in front of all other folders in the search paths. The folder contains
//! links to Margay's libraries under the names that programs load, and replacements of NVIDIA's tools.
//!
//! ```text
//! libcuda.so.1  libcuda.so  libnvidia-ml.so.1  libnvidia-ml.so  libgpuocelot.so    links to Margay's libraries
//! libcupti.so.12  libcupti.so.13                                                   links to Margay's libraries
//! libcublas.so.12  libcublas.so.13  libcublasLt.so.12  libcublasLt.so.13           the same, unless MARGAY_CUBLAS=nvidia
//! libcurand.so.10                                                                  the same, unless MARGAY_CURAND=nvidia
//! libnccl.so.2                                                                     the same, unless MARGAY_NCCL=nvidia
//! bin/ptxas, bin/nvidia-smi                                                        scripts that start this program
//! python/       the Python package that PyTorch and JAX load (`python`)
//! jax/          folders of links that the package makes for JAX (`margay.jax.toolkit`)
//! toolkit/      if a CUDA toolkit is installed: links to its files, except bin/nvcc and bin/ptxas
//! ```
//!
//! Invariants: the folder belongs to the user, and no other user can write to it. Entries are replaced atomically,
//! because another `margay run` may write to the same folder.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// The file names of libraries that are in the same folder as the driver library. Each is listed
/// with the names of the links to it that `margay run` creates.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("libnvidia_ml.so", &["libnvidia-ml.so.1", "libnvidia-ml.so"]),
    ("libgpuocelot.so", &["libgpuocelot.so"]),
    ("libcupti_12.so", &["libcupti.so.12"]),
    ("libcupti_13.so", &["libcupti.so.13"]),
    ("libcublas_12.so", &["libcublas.so.12"]),
    ("libcublas_13.so", &["libcublas.so.13"]),
    ("libcublaslt_12.so", &["libcublasLt.so.12"]),
    ("libcublaslt_13.so", &["libcublasLt.so.13"]),
    ("libcurand_10.so", &["libcurand.so.10"]),
    ("libmargay_nccl.so", &["libnccl.so.2"]),
];

/// Returns the environment variable that selects NVIDIA's libraries instead of a file; `None` if no variable does.
fn selecting_variable(file: &str) -> Option<&'static str> {
    match file {
        "libmargay_nccl.so" => Some("MARGAY_NCCL"),
        _ if file.starts_with("libcublas") => Some("MARGAY_CUBLAS"),
        _ if file.starts_with("libcurand") => Some("MARGAY_CURAND"),
        _ => None,
    }
}

/// Whether the user wants NVIDIA's libraries instead of a file.
fn keeps_nvidias(file: &str) -> bool {
    let value = selecting_variable(file).and_then(std::env::var_os);
    value.is_some_and(|value| value == "nvidia")
}

/// The tools that `margay run` replaces.
const TOOLS: [&str; 2] = ["ptxas", "nvcc"];

/// The folder that `margay run` puts first in the search paths, with links to libraries and scripts
/// that replace tools.
pub(crate) struct Folder {
    path: PathBuf,
    /// The files of absent libraries without which programs load NVIDIA's libraries, although the user has not selected
    /// these.
    pub(crate) missing: Vec<&'static str>,
    /// The path of the mirror of the CUDA toolkit inside the folder; `None` if there is no toolkit.
    pub(crate) toolkit: Option<PathBuf>,
}

impl Folder {
    /// Creates or updates the folder for the driver library at `library` and the toolkit at `toolkit`.
    pub(crate) fn fill(library: &Path, toolkit: Option<&Path>) -> io::Result<Folder> {
        let user = fs::metadata("/proc/self")?.uid();
        let base = base_folder(user);
        own_folder(&base, user)?;
        let program = fs::canonicalize(std::env::current_exe()?)?;
        let mut key = DefaultHasher::new();
        let kept = ["libcublas", "libcurand", "libmargay_nccl.so"].map(keeps_nvidias);
        (library, &program, toolkit, kept).hash(&mut key);
        let path = base.join(format!("{:016x}", key.finish()));
        own_folder(&path, user)?;
        for name in ["libcuda.so.1", "libcuda.so"] {
            link(library, &path.join(name))?;
        }
        let mut missing = Vec::new();
        for (file, names) in LIBRARIES {
            let target = library.with_file_name(file);
            let (exists, wanted) = (target.exists(), !keeps_nvidias(file));
            if wanted && !exists && selecting_variable(file).is_some() {
                missing.push(*file);
            }
            for name in *names {
                place((wanted && exists).then_some(&target), &path.join(name))?;
            }
        }
        let bin = path.join("bin");
        own_folder(&bin, user)?;
        for tool in ["ptxas", "nvidia-smi"] {
            stand_in(&program, tool, &bin.join(tool))?;
        }
        super::python::write(&path.join("python"), user)?;
        let mirrored =
            toolkit.map(|toolkit| mirror(toolkit, &path.join("toolkit"), &program, user));
        Ok(Folder {
            toolkit: mirrored.transpose()?,
            missing,
            path,
        })
    }

    /// Returns the path of the folder to add to `LD_LIBRARY_PATH`.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.path.clone()
    }

    /// Returns the folders to add to `PATH`: first the folder with the toolkit's tools, and then
    /// the folder with the replacements of tools.
    pub(crate) fn tools(&self) -> Vec<PathBuf> {
        let toolkit = self.toolkit.iter().map(|toolkit| toolkit.join("bin"));
        toolkit.chain([self.path.join("bin")]).collect()
    }

    /// Returns the path of the folder to add to `PYTHONPATH`.
    pub(crate) fn python(&self) -> PathBuf {
        self.path.join("python")
    }

    /// Returns the path of the script that replaces NVIDIA's assembler.
    pub(crate) fn ptxas(&self) -> PathBuf {
        self.path.join("bin/ptxas")
    }
}

/// Returns the path of Margay's folder for temporary files: inside the folder that
/// `XDG_RUNTIME_DIR` names or, if this variable is not usable, inside the system's temporary
/// folder.
pub(super) fn base_folder(user: u32) -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        Some(runtime) if Path::new(&runtime).is_dir() => PathBuf::from(runtime).join("margay"),
        _ => std::env::temp_dir().join(format!("margay-{user}")),
    }
}

/// Creates a folder to which no other user can write, or checks that an existing folder is such a folder.
pub(super) fn own_folder(path: &Path, user: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    // If another user could write to the folder, a library of that user could run with this user's rights.
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "is not a folder of this user alone",
        ));
    }
    Ok(())
}

/// Makes `at` a link to `target`.
fn link(target: &Path, at: &Path) -> io::Result<()> {
    if fs::read_link(at).ok().as_deref() == Some(target) {
        return Ok(());
    }
    // The link is created under a temporary name and then renamed, so that it is replaced atomically.
    let fresh = at.with_file_name(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    symlink(target, &fresh)?;
    fs::rename(&fresh, at)
}

/// Makes `at` a script that starts `program` instead of `tool`.
fn stand_in(program: &Path, tool: &str, at: &Path) -> io::Result<()> {
    let text = crate::tools::script(program, tool).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the program's path is not UTF-8",
        )
    })?;
    write(&text, at, 0o700)
}

/// Makes `at` a file that contains `text`. If it does not, the file is replaced atomically by one with the mode `mode`.
pub(super) fn write(text: &str, at: &Path, mode: u32) -> io::Result<()> {
    if fs::read_to_string(at).is_ok_and(|found| found == text) && !at.is_symlink() {
        return Ok(());
    }
    let fresh = at.with_file_name(format!("new-{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&fresh)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    fs::rename(&fresh, at)
}

/// Makes `at` a link to `target`, or removes `at` if there is no target.
fn place(target: Option<&PathBuf>, at: &Path) -> io::Result<()> {
    match target {
        Some(target) => link(target, at),
        None => match fs::remove_file(at) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        },
    }
}

/// Creates the mirror of a toolkit: links to its files and folders, and replacement scripts for the tools in [`TOOLS`].
fn mirror(toolkit: &Path, at: &Path, program: &Path, user: u32) -> io::Result<PathBuf> {
    own_folder(at, user)?;
    let bin = at.join("bin");
    own_folder(&bin, user)?;
    for entry in fs::read_dir(toolkit)?.flatten() {
        if entry.file_name() != "bin" {
            link(&entry.path(), &at.join(entry.file_name()))?;
        }
    }
    for entry in fs::read_dir(toolkit.join("bin"))?.flatten() {
        let name = entry.file_name();
        match TOOLS.iter().find(|tool| name == **tool) {
            Some(tool) => stand_in(program, tool, &bin.join(name))?,
            None => link(&entry.path(), &bin.join(name))?,
        }
    }
    Ok(at.to_owned())
}
