//! The kernel files that a path names.

use std::path::{Path, PathBuf};

use crate::error::ReadError;
use crate::form::Form;
use crate::list::CommandList;

/// Returns the kernel files that a path names, in program order: a kernel file itself, the files of a list, or the files of
/// the list in a folder (`kernelslist.g` if it exists, else `kernelslist`).
///
/// # Errors
///
/// Those of [`CommandList::read`].
pub fn kernel_files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    match list_of(path) {
        Some(list) => Ok(CommandList::read(&list)?.kernels().collect()),
        None => Ok(vec![path.to_owned()]),
    }
}

/// Returns the list that a path names, or none if it is a kernel file.
pub(crate) fn list_of(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        let grouped = path.join("kernelslist.g");
        let raw = path.join("kernelslist");
        return Some(if grouped.exists() { grouped } else { raw });
    }
    match Form::of(path) {
        Some(_) => None,
        None => Some(path.to_owned()),
    }
}
