//! Determines the oldest version of the C library with which a file runs. This is the newest of all
//! versions of the C library's symbols that the file needs. PEP 600 requires this version in the
//! tag of a wheel.

use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};

type Elf = FileHeader64<object::Endianness>;

/// Libraries that, according to PEP 600, every system has. A file of the wheel must not need any
/// other library.
const ALLOWED: [&str; 7] = [
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
];

/// Returns the oldest version of the C library with which a file runs, such as (2, 34).
pub(super) fn needed_by(path: &Path) -> Result<(u32, u32), String> {
    let problem = |what: &str| format!("{}: {what}", path.display());
    let bytes = std::fs::read(path).map_err(|e| problem(&e.to_string()))?;
    let needs = needs(&bytes).map_err(|e| problem(&e.to_string()))?;
    if let Some((library, _)) = needs.iter().find(|(name, _)| !ALLOWED.contains(&&**name)) {
        return Err(problem(&format!(
            "needs {library}, which not every system has"
        )));
    }
    let versions = needs.iter().filter_map(|(_, version)| number(version));
    versions
        .max()
        .ok_or_else(|| problem("requires no version of the C library"))
}

/// Parses `GLIBC_2.34`; returns `None` for other names (`GCC_3.0`).
fn number(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.strip_prefix("GLIBC_")?.split_once('.')?;
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the libraries and symbol versions that the file's section of needed versions (`.gnu.version_r`) lists.
fn needs(bytes: &[u8]) -> object::Result<Vec<(String, String)>> {
    let header = Elf::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut found = Vec::new();
    let Some((mut files, strings)) = sections.gnu_verneed(endian, bytes)? else {
        return Ok(found);
    };
    let strings = sections
        .section(strings)?
        .strings(endian, bytes)?
        .unwrap_or_default();
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    while let Some((file, mut versions)) = files.next()? {
        let library = text(file.file(endian, strings)?);
        while let Some(version) = versions.next()? {
            found.push((library.clone(), text(version.name(endian, strings)?)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(number("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(number("GLIBC_2.34"), Some((2, 34)));
        assert_eq!(number("GCC_3.0"), None);
        assert!(number("GLIBC_2.9") < number("GLIBC_2.34"));
    }

    /// Tests [`needed_by`] with the executable of this test, which was linked with this machine's C
    /// library.
    #[test]
    fn a_program_needs_no_newer_library_than_it_runs_with() {
        let own = std::env::current_exe().unwrap();
        let (major, minor) = needed_by(&own).unwrap();
        assert_eq!(major, 2);
        assert!((17..100).contains(&minor), "{minor}");
    }
}
