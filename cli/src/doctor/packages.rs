//! Assigns files to the packages that installed them.
//!
//! An installer writes the paths of a Python package's files to `RECORD` in the folder `NAME-VERSION.dist-info`. Files
//! that no package lists are grouped by their folder.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};

use margay_cli::input;

use super::scan::Scanned;
use super::tally::Tally;

/// A package, or the files of a folder that belong to no package.
#[derive(Debug, Default)]
pub(super) struct Package {
    /// The name in normal form; `None` for files of a folder.
    pub(super) name: Option<String>,
    pub(super) version: String,
    /// The folder of files without a package.
    pub(super) folder: PathBuf,
    pub(super) files: Vec<Scanned>,
}

impl Package {
    /// Returns the images of all files for which `counts` is true.
    pub(super) fn tally(&self, counts: impl Fn(&Scanned) -> bool) -> Tally {
        let mut tally = Tally::default();
        for file in self.files.iter().filter(|file| counts(file)) {
            tally.merge(&file.contents.tally);
        }
        tally
    }

    /// Returns the package's name and version, or the folder.
    pub(super) fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} {}", self.version),
            None => self.folder.display().to_string(),
        }
    }
}

/// Returns a package's name in the form in which all installers compare names.
pub(super) fn normal_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

/// Maps the paths of files to names and versions of packages.
#[derive(Default)]
pub(super) struct Records(HashMap<PathBuf, (String, String)>);

impl Records {
    /// Reads the records of the packages in `folders`.
    pub(super) fn read(folders: &[PathBuf]) -> Records {
        let mut records = Records::default();
        for folder in folders {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                records.add(folder, &entry.path());
            }
        }
        records
    }

    fn add(&mut self, folder: &Path, metadata: &Path) -> Option<()> {
        let title = metadata.file_name()?.to_str()?.strip_suffix(".dist-info")?;
        let (name, version) = title.split_once('-')?;
        let record = input::read_regular(&metadata.join("RECORD"), input::MAX_FILE).ok()?;
        let owner = (normal_name(name), version.to_owned());
        for line in String::from_utf8_lossy(&record).lines() {
            if let Some(path) = path_of(line) {
                self.0.insert(normal(&folder.join(path)), owner.clone());
            }
        }
        Some(())
    }

    /// Returns the packages of the files, sorted by name, followed by the folders of files without a package.
    pub(super) fn packages(&self, files: Vec<Scanned>) -> Vec<Package> {
        let mut packages: BTreeMap<(bool, String, PathBuf), Package> = BTreeMap::new();
        for file in files {
            let owner = self.0.get(&normal(&file.path)).cloned();
            let folder = match owner {
                Some(_) => PathBuf::new(),
                None => file.path.parent().unwrap_or(Path::new("")).to_owned(),
            };
            let (name, version) = owner.clone().unwrap_or_default();
            let key = (owner.is_none(), name.clone(), folder.clone());
            let package = packages.entry(key).or_insert_with(|| Package {
                name: owner.is_some().then_some(name),
                version,
                folder,
                files: Vec::new(),
            });
            package.files.push(file);
        }
        packages.into_values().collect()
    }
}

/// Returns the path in a line of `RECORD`: the first field, which is quoted if it contains a comma.
fn path_of(line: &str) -> Option<String> {
    match line.strip_prefix('"') {
        None => line
            .split(',')
            .next()
            .filter(|path| !path.is_empty())
            .map(str::to_owned),
        Some(quoted) => {
            let end = quoted.rfind("\",")?;
            Some(quoted.get(..end)?.replace("\"\"", "\""))
        }
    }
}

/// Returns the path without `.` and `..`, as far as the path alone shows it.
fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::images::Contents;

    #[test]
    fn files_belong_to_the_package_that_lists_them() {
        let folder = std::env::temp_dir().join(format!("margay-records-{}", std::process::id()));
        let site = folder.join("lib/python3.11/site-packages");
        let metadata = site.join("Nvidia_cuBLAS.cu12-12.9.3.13.dist-info");
        fs::create_dir_all(&metadata).unwrap();
        let record = "nvidia/cublas/lib/libcublas.so.12,sha256=abc,1\n../../../bin/ptxas,,\n\"odd, name.so\",,3\n\n,,\n";
        fs::write(metadata.join("RECORD"), record).unwrap();
        fs::create_dir_all(site.join("broken-1.dist-info")).unwrap();
        let records = Records::read(&[site.clone(), folder.join("missing")]);
        let file = |path: PathBuf| Scanned {
            path,
            contents: Contents::default(),
        };
        let files = vec![
            file(site.join("own/lib.so")),
            file(site.join("nvidia/cublas/lib/libcublas.so.12")),
            file(folder.join("bin/ptxas")),
            file(site.join("odd, name.so")),
        ];
        let packages = records.packages(files);
        let titles: Vec<String> = packages.iter().map(Package::title).collect();
        let own = site.join("own").display().to_string();
        assert_eq!(titles, ["nvidia-cublas-cu12 12.9.3.13".to_owned(), own]);
        assert_eq!(packages[0].files.len(), 3);
        fs::remove_dir_all(folder).unwrap();
    }
}
