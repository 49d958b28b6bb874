//! The libraries and tools of NVIDIA that Margay replaces under `margay run`.

use std::path::Path;

use crate::run::AUDIT;

/// A library or tool that Margay replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    /// The beginning of the name of NVIDIA's file. A library's name continues with its version or ends.
    name: &'static str,
    /// The file of Margay, beside its driver library, that must exist. `*` stands for the major version of NVIDIA's file.
    file: &'static str,
    /// What is replaced.
    pub(super) note: &'static str,
    /// Whether Margay's file replaces the whole file, so that its device code is not used.
    pub(super) is_whole: bool,
}

const fn replaced(
    name: &'static str,
    file: &'static str,
    note: &'static str,
    is_whole: bool,
) -> Replaced {
    Replaced {
        name,
        file,
        note,
        is_whole,
    }
}

const WHOLE: &str = "replaced by Margay's library";

/// The replaced files. Those whose file of Margay does not exist are not replaced.
const REPLACED: [Replaced; 10] = [
    replaced("libcublas.so", "libcublas_*.so", WHOLE, true),
    replaced("libcublasLt.so", "libcublaslt_*.so", WHOLE, true),
    replaced("libcuda.so", "libcuda.so", WHOLE, true),
    replaced("libcupti.so", "libcupti_*.so", WHOLE, true),
    replaced("libnccl.so", "libmargay_nccl.so", WHOLE, true),
    replaced("libnvidia-ml.so", "libnvidia_ml.so", WHOLE, true),
    replaced(
        "libnvrtc.so",
        AUDIT,
        "its cubins are replaced by PTX",
        false,
    ),
    replaced(
        "libnvJitLink.so",
        AUDIT,
        "its cubins are replaced by PTX",
        false,
    ),
    replaced("ptxas", "", "replaced by Margay's tool", true),
    replaced(
        "nvcc",
        "",
        "started by Margay's tool, which adds PTX",
        false,
    ),
];

/// Returns how `margay run` replaces the file at `path`, if the driver library is in the folder `folder`.
pub(super) fn replacement(path: &Path, folder: &Path) -> Option<&'static Replaced> {
    let name = path.file_name()?.to_str()?;
    REPLACED.iter().find(|replaced| {
        let rest = name.strip_prefix(replaced.name);
        let version = rest.filter(|rest| rest.is_empty() || rest.starts_with('.'));
        version.is_some_and(|version| {
            let major = version.split('.').nth(1).unwrap_or_default();
            let file = replaced.file.replace('*', major);
            file.is_empty() || folder.join(file).exists()
        })
    })
}

/// Returns whether the file is one of NVIDIA's libraries that contain the kernels of cuBLAS.
pub(super) fn is_cublas(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with("libcublas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_replaced_if_the_file_of_margay_exists() {
        let folder = std::env::temp_dir().join(format!("margay-replaced-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for file in ["libcublas_12.so", AUDIT] {
            std::fs::write(folder.join(file), "").unwrap();
        }
        let note = |name: &str| replacement(Path::new(name), &folder).map(|r| r.note);
        assert_eq!(note("/opt/lib/libcublas.so.12"), Some(WHOLE));
        assert_eq!(note("libcublas.so.12.9.3"), Some(WHOLE));
        assert_eq!(note("libcublas.so.13"), None);
        assert_eq!(note("libcublasLt.so.12"), None);
        assert_eq!(
            note("libnvrtc.so.12"),
            Some("its cubins are replaced by PTX")
        );
        assert_eq!(note("libnvrtc-builtins.so.12.9"), None);
        assert_eq!(note("bin/ptxas"), Some("replaced by Margay's tool"));
        assert!(is_cublas(Path::new("a/libcublasLt_static.a")) && !is_cublas(Path::new("cublas")));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
