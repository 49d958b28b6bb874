//! What `margay run` sets so that clients emit PTX, client by client.
//!
//! What the user has set stays, but for the assemblers that Triton is told to use. Caches of compiled code get
//! folders of their own: their keys do not tell machine code for a GPU from the PTX that stands in for it, and a cache
//! that is shared with runs on a GPU would mix them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::folder::Folder;
use crate::tools::is_stand_in;

/// Where a CUDA toolkit is, by the variables that clients read.
const TOOLKIT_VARIABLES: [&str; 4] = [
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
];

/// Names the CUDA compiler to whoever wants another than the one on the path.
const COMPILER_VARIABLE: &str = "NVCC";

/// Assemblers that Triton may be told to use.
const TRITON_ASSEMBLERS: [&str; 2] = ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"];

/// Room for thread-local variables of libraries that a program begins with. With an auditing library the dynamic linker
/// lays them out before it has seen those libraries; its own reserve is too small for allocators that are preloaded
/// (glibc's manual, "Dynamic Linking Tunables").
const STATIC_TLS: &str = "glibc.rtld.optional_static_tls";
const STATIC_TLS_BYTES: u32 = 32 << 10;

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// The user's folder of caches, ours within it.
pub(super) fn cache(client: &str) -> Option<PathBuf> {
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let base = std::env::var_os("XDG_CACHE_HOME").and_then(absolute);
    let base = base.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    Some(base?.join("margay").join(client))
}

/// The toolkit that the user's environment leads to: its root, which holds `bin/nvcc`.
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
    // A link to nvcc from elsewhere: the toolkit is where the file lies.
    let nvcc = std::fs::canonicalize(found.join("bin/nvcc")).ok()?;
    let root = nvcc.parent()?.parent()?.to_owned();
    root.join("bin/nvcc").is_file().then_some(root)
}

/// Variables for a program that runs with `folder` in front. `toolkit` is the one that is installed; `audit` is the
/// library that answers for NVIDIA's run-time compilers.
pub(crate) fn variables(
    folder: &Folder,
    toolkit: Option<&Path>,
    audit: Option<&Path>,
) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = Vec::new();
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
        // CuPy looks for a compiler among its packages before it looks in the toolkit.
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

/// `first` in front of what a variable with a list holds.
fn joined(first: &OsStr, variable: &str) -> OsString {
    let mut list = first.to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        list.push(":");
        list.push(rest);
    }
    list
}
