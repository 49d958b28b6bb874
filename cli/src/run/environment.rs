//! The environment variables that `margay run` sets so that each client produces PTX.
//!
//! Variables that the user has set stay unchanged, with these exceptions: the variables that name Triton's assemblers
//! or a CUDA toolkit are replaced, and `LD_AUDIT`, `GLIBC_TUNABLES` and `PYTHONPATH` get additional entries. Clients get separate
//! folders for caches of compiled code. Runs with Margay and runs on a GPU must not share a cache, because the keys of
//! these caches do not distinguish GPU machine code from the PTX that replaces it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::folder::Folder;
use crate::tools::is_stand_in;

/// The variables in which clients look for a CUDA toolkit.
const TOOLKIT_VARIABLES: [&str; 4] = [
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
];

/// The variable that names a CUDA compiler other than the one on `PATH`.
const COMPILER_VARIABLE: &str = "NVCC";

/// The variables that name the assemblers of Triton.
const TRITON_ASSEMBLERS: [&str; 2] = ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"];

/// The glibc tunable for the size of the memory for thread-local variables of libraries that are loaded at program
/// start. If there is an auditing library, the dynamic linker reserves this memory before it has read the list of these
/// libraries. The default size is then too small for preloaded allocators (glibc's manual, "Dynamic Linking Tunables").
const STATIC_TLS: &str = "glibc.rtld.optional_static_tls";
const STATIC_TLS_BYTES: u32 = 32 << 10;

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Returns Margay's cache folder for a client, inside the user's cache folder.
pub(super) fn cache(client: &str) -> Option<PathBuf> {
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let base = std::env::var_os("XDG_CACHE_HOME").and_then(absolute);
    let base = base.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    Some(base?.join("margay").join(client))
}

/// Returns the root (which contains `bin/nvcc`) of the toolkit that the user's environment names.
pub(crate) fn toolkit() -> Option<PathBuf> {
    let named = TOOLKIT_VARIABLES.iter().filter_map(std::env::var_os);
    let named = named.map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path)
        .filter_map(|folder| Some(folder.parent()?.to_owned()))
        .filter(|root| root.join("bin/nvcc").exists() && !is_stand_in(&root.join("bin/nvcc")))
        .collect();
    let found = named
        .chain(on_path)
        .find(|root| root.join("bin/nvcc").is_file())?;
    // `bin/nvcc` may be a link. The toolkit is then the folder that contains the link's target.
    let nvcc = std::fs::canonicalize(found.join("bin/nvcc")).ok()?;
    let root = nvcc.parent()?.parent()?.to_owned();
    root.join("bin/nvcc").is_file().then_some(root)
}

/// Returns the environment variables for a program that runs with the libraries and tools in `folder`. `toolkit` is the
/// installed toolkit; `audit` is the library that replaces the results of NVIDIA's run-time compilers.
pub(crate) fn variables(
    folder: &Folder,
    toolkit: Option<&Path>,
    audit: Option<&Path>,
) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = Vec::new();
    let python = folder.python();
    variables.push(("PYTHONPATH", joined(python.as_os_str(), "PYTHONPATH")));
    for name in TRITON_ASSEMBLERS {
        variables.push((name, folder.ptxas().into()));
    }
    match cache("triton").filter(|_| !is_set("TRITON_CACHE_DIR")) {
        Some(cache) => variables.push(("TRITON_CACHE_DIR", cache.into())),
        None => variables.push(("TRITON_ALWAYS_COMPILE", "1".into())),
    }
    if !is_set("CUPY_COMPILE_WITH_PTX") {
        variables.push(("CUPY_COMPILE_WITH_PTX", "1".into()));
    }
    if let Some(cache) = cache("cupy").filter(|_| !is_set("CUPY_CACHE_DIR")) {
        variables.push(("CUPY_CACHE_DIR", cache.into()));
    }
    if let (Some(mirror), Some(toolkit)) = (&folder.toolkit, toolkit) {
        variables.push((crate::tools::NVCC_VARIABLE, toolkit.join("bin/nvcc").into()));
        // CuPy searches its packages for a compiler before it searches the toolkit, so the variables of the toolkit are
        // not enough.
        if !is_set(COMPILER_VARIABLE) {
            variables.push((COMPILER_VARIABLE, mirror.join("bin/nvcc").into()));
        }
        for name in TOOLKIT_VARIABLES.into_iter().filter(|name| is_set(name)) {
            variables.push((name, mirror.into()));
        }
    }
    if let Some(audit) = audit {
        variables.push(("LD_AUDIT", joined(audit.as_os_str(), "LD_AUDIT")));
        let tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
        if !tunables.to_string_lossy().contains(STATIC_TLS) {
            let room = format!("{STATIC_TLS}={STATIC_TLS_BYTES}");
            variables.push(("GLIBC_TUNABLES", joined(room.as_ref(), "GLIBC_TUNABLES")));
        }
    }
    variables
}

/// Returns a list that consists of `first` and the entries of `variable`, an environment variable
/// that contains a list.
fn joined(first: &OsStr, variable: &str) -> OsString {
    let mut list = first.to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        list.push(":");
        list.push(rest);
    }
    list
}
