//! Writes the libraries that this program embeds to a folder from which the dynamic linker can load them.
//!
//! `cargo install` installs only the program. On first use, each build of the program writes its libraries to a
//! separate folder in the user's cache. Whenever the program creates such a folder, it removes folders of other builds
//! that are over a month old. Invariant: a library gets its final name only when it is complete. Each command that uses
//! the libraries writes those that are missing or do not have the expected size.

use std::arch::global_asm;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::environment::cache;
use super::folder::{base_folder, own_folder};
use crate::output::survive_limits;

/// Age after which the folders of other builds are removed.
const A_MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Embeds the built libraries through the assembler directive `.incbin`. The assembler reads the files, so they must
/// exist when code is generated, but not for `cargo check`.
macro_rules! libraries {
    ($($file:literal $start:ident $end:ident;)*) => {
        $(global_asm!(
            ".pushsection .rodata.margay,\"a\"",
            ".balign 16",
            concat!(".globl ", stringify!($start)),
            concat!(stringify!($start), ":"),
            concat!(".incbin \"", env!("MARGAY_LIBRARIES"), "/", $file, "\""),
            concat!(".globl ", stringify!($end)),
            concat!(stringify!($end), ":"),
            ".popsection",
        );)*

        unsafe extern "C" {
            $(static $start: u8; static $end: u8;)*
        }

        /// Returns the names and contents of the libraries, with the driver library last.
        fn libraries() -> Vec<(&'static str, &'static [u8])> {
            vec![$(($file, {
                let (start, end) = (&raw const $start, &raw const $end);
                // SAFETY: the assembler places the two symbols at the start and at the end of the bytes of one file.
                unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
            })),*]
        }
    };
}

libraries! {
    "libcublas_12.so" margay_held_cublas_12 margay_held_cublas_12_end;
    "libcublas_13.so" margay_held_cublas_13 margay_held_cublas_13_end;
    "libcublaslt_12.so" margay_held_cublaslt_12 margay_held_cublaslt_12_end;
    "libcublaslt_13.so" margay_held_cublaslt_13 margay_held_cublaslt_13_end;
    "libcupti_12.so" margay_held_cupti_12 margay_held_cupti_12_end;
    "libcupti_13.so" margay_held_cupti_13 margay_held_cupti_13_end;
    "libgpuocelot.so" margay_held_ocelot margay_held_ocelot_end;
    "libmargay_cublas.so" margay_held_cublas margay_held_cublas_end;
    "libmargay_nccl.so" margay_held_nccl margay_held_nccl_end;
    "libmargay_audit.so" margay_held_audit margay_held_audit_end;
    "libnvidia_ml.so" margay_held_nvml margay_held_nvml_end;
    "libcuda.so" margay_held_cuda margay_held_cuda_end;
}

/// Writes the libraries that are missing or do not have the expected size, and returns the path of the driver library.
pub(super) fn libcuda(program: &Path) -> io::Result<PathBuf> {
    let user = fs::metadata("/proc/self")?.uid();
    let build = build(program)?;
    let in_cache = cache("libraries").and_then(|folder| written(&folder, &build, user).ok());
    match in_cache {
        Some(library) => Ok(library),
        // The home folder is missing or not writable.
        None => written(&base_folder(user).join("libraries"), &build, user),
    }
}

/// Returns a name for the build of a program, derived from the metadata of its file.
fn build(program: &Path) -> io::Result<String> {
    let file = fs::metadata(program)?;
    let mut key = DefaultHasher::new();
    (
        file.dev(),
        file.ino(),
        file.len(),
        file.mtime(),
        file.mtime_nsec(),
    )
        .hash(&mut key);
    Ok(format!(
        "{}-{:016x}",
        env!("CARGO_PKG_VERSION"),
        key.finish()
    ))
}

fn written(base: &Path, build: &str, user: u32) -> io::Result<PathBuf> {
    if let Some(above) = base.parent() {
        fs::create_dir_all(above)?;
    }
    own_folder(base, user)?;
    let folder = base.join(build);
    let fresh = !folder.exists();
    own_folder(&folder, user)?;
    for (name, bytes) in libraries() {
        let path = folder.join(name);
        if fs::metadata(&path).is_ok_and(|file| file.len() == bytes.len() as u64) {
            continue;
        }
        // Another process may write the same file at the same time, so each process writes to a file of its own and
        // renames it.
        let part = folder.join(format!("{name}.{}", std::process::id()));
        survive_limits()?;
        if let Err(error) = fs::write(&part, bytes).and_then(|()| fs::rename(&part, &path)) {
            let _ = fs::remove_file(&part);
            let text = format!("{}: {error}", path.display());
            return Err(io::Error::new(error.kind(), text));
        }
    }
    if fresh {
        remove_old(base, &folder);
    }
    Ok(folder.join("libcuda.so"))
}

/// Removes old folders of earlier builds. If a folder cannot be removed, continues with the other
/// folders.
fn remove_old(base: &Path, own: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let written = entry.metadata().and_then(|data| data.modified());
        let age = written.ok().and_then(|then| then.elapsed().ok());
        if entry.path() != own && age.is_some_and(|age| age > A_MONTH) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_libraries_are_those_of_this_build() {
        for (name, bytes) in libraries() {
            let built = fs::read(Path::new(env!("MARGAY_LIBRARIES")).join(name)).expect(name);
            assert!(built == bytes, "{name} is from another build");
        }
    }
}
