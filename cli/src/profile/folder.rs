//! The folder to which the processes of a program write their profiles.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use margay_profile::Profile;

use crate::check::files;
use crate::output::{Failure, note};

/// A new folder that only this user can read. Dropping this value removes the folder.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> io::Result<Folder> {
        files::new_folder("profile").map(Folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads and merges the profiles of all processes; `None` if there are none.
    pub(super) fn read(&self) -> Result<Option<Profile>, Failure> {
        let failed = |error: io::Error| format!("{}: {error}", self.0.display());
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|end| end == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        let mut all: Option<Profile> = None;
        for path in paths {
            let bytes = fs::read(&path).map_err(failed)?;
            match Profile::from_json(&bytes) {
                Err(error) => note(&format!("margay: a profile is missing: {error}")),
                Ok(profile) => match &mut all {
                    None => all = Some(profile),
                    Some(all) => all.merge(profile),
                },
            }
        }
        Ok(all)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
