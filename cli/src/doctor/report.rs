//! Describes the device code of packages: tables for people, and a JSON document.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use margay::container::EntryKind;
use serde_json::{Value, json};

use super::packages::Package;
use super::replaced::{Replaced, is_cublas, replacement};
use super::scan::Scanned;
use super::tally::{Count, Tally, dotted};
use crate::output::{Paint, paint};

/// The packages with device code, with replaced files, or with files that could not be read.
pub(super) struct Findings {
    packages: Vec<(Package, Tally)>,
    /// Number of packages and folders that contain none of these.
    ordinary: usize,
    /// The images of all packages that Margay does not replace.
    all: Tally,
    /// The folder of Margay's libraries.
    libraries: PathBuf,
    capability: u32,
}

impl Findings {
    /// Selects from `packages`. `libraries` is the folder of Margay's libraries, `capability` the reported one.
    pub(super) fn of(packages: Vec<Package>, libraries: PathBuf, capability: u32) -> Findings {
        let total = packages.len();
        let mut all = Tally::default();
        let mut selected = Vec::new();
        for mut package in packages {
            package
                .files
                .retain(|file| is_of_interest(file, &libraries));
            if package.files.is_empty() {
                continue;
            }
            let is_whole = |replaced: &Replaced| replaced.is_whole;
            let remains =
                |file: &Scanned| !replacement(&file.path, &libraries).is_some_and(is_whole);
            let tally = package.tally(remains);
            all.merge(&tally);
            selected.push((package, tally));
        }
        Findings {
            ordinary: total - selected.len(),
            packages: selected,
            all,
            libraries,
            capability,
        }
    }

    /// Returns whether there is device code and none of it can run.
    pub(super) fn nothing_runs(&self) -> bool {
        let count = self.all.count();
        count.machine > 0 && count.ptx == 0
    }

    fn replacement(&self, file: &Scanned) -> Option<&'static Replaced> {
        replacement(&file.path, &self.libraries)
    }

    /// Returns how the device code of a package runs.
    fn verdict(&self, package: &Package, tally: &Tally) -> (String, Paint) {
        let (all, here) = (tally.count(), tally.at(self.capability));
        let replaced = package.files.iter().find_map(|file| self.replacement(file));
        let (text, is_good) = match (all.ptx, all.machine) {
            (0, 0) if all.other > 0 => ("link-time code, which nvJitLink compiles", true),
            (0, 0) => replaced.map_or(("see below", false), |replaced| (replaced.note, true)),
            (0, _) => ("machine code only, which does not run", false),
            (_, 0) => ("runs from its PTX", true),
            _ if here.ptx > 0 && here.machine == 0 => ("runs from its PTX", true),
            _ if here.ptx == 0 => ("machine code only for this capability", false),
            _ => ("images with PTX run, others do not", false),
        };
        let colour = if is_good { Paint::Good } else { Paint::Bad };
        (text.to_owned(), colour)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let here = format!("at {}", dotted(self.capability));
        let head = row("device code of", ["images", "PTX", &here, "best"], "result");
        if !self.packages.is_empty() {
            let _ = writeln!(text, "{}", paint(head.trim_end(), Paint::Heading));
        }
        for (package, tally) in &self.packages {
            self.describe(&mut text, package, tally);
        }
        let _ = match (self.packages.len(), self.ordinary) {
            (0, _) => writeln!(text, "no device code here"),
            (_, 0) => Ok(()),
            (_, 1) => writeln!(text, "1 other package or folder has no device code"),
            (_, more) => writeln!(text, "{more} other packages or folders have no device code"),
        };
        if let Some(advice) = self.advice() {
            let _ = writeln!(text, "{advice}");
        }
        text
    }

    fn describe(&self, text: &mut String, package: &Package, tally: &Tally) {
        let (verdict, colour) = self.verdict(package, tally);
        let count = tally.count();
        let best = tally.best(self.capability);
        let best = best.map_or_else(|| "-".to_owned(), |(capability, _)| dotted(capability));
        let at = share(tally.at(self.capability));
        let images = (count.code() + count.other).to_string();
        let numbers = [images.as_str(), &count.ptx.to_string(), &at, &best];
        let line = match tally.is_empty() {
            true => row(&package.title(), ["-", "-", "-", "-"], ""),
            false => row(&package.title(), numbers, ""),
        };
        let _ = writeln!(text, "{line}{}", paint(&verdict, colour));
        let kinds = [
            ("PTX", EntryKind::Ptx),
            ("machine code", EntryKind::Cubin),
            ("link-time code", EntryKind::Lto),
        ];
        for (name, kind) in kinds {
            let targets = tally.targets_text(kind);
            if !targets.is_empty() {
                let _ = writeln!(text, "    {name}: {targets}");
            }
        }
        for file in &package.files {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            for note in self.notes(file) {
                let _ = writeln!(text, "    {name}: {note}");
            }
        }
    }

    fn notes(&self, file: &Scanned) -> Vec<String> {
        let replaced = self
            .replacement(file)
            .map(|replaced| replaced.note.to_owned());
        let copy = has_copy(file).then(|| COPY.to_owned());
        let problem = file.contents.problem.clone();
        replaced.into_iter().chain(copy).chain(problem).collect()
    }

    /// Returns the advice to report another compute capability, if more images then have PTX.
    fn advice(&self) -> Option<String> {
        let (best, there) = self.all.best(self.capability)?;
        let here = self.all.at(self.capability);
        let percent = |count: Count| 100 * count.ptx / count.code().max(1);
        let is_worth_it = percent(there) >= percent(here) + WORTH_IT;
        (best != self.capability && is_worth_it).then(|| {
            format!(
                "with --capability {}, {} of the images that programs use have PTX; with {}, {}",
                dotted(best),
                share(there),
                dotted(self.capability),
                share(here)
            )
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let packages = self.packages.iter().map(|(package, tally)| {
            let files = package.files.iter().map(|file| self.file_json(file));
            json!({
                "package": package.name,
                "version": package.name.as_ref().map(|_| &package.version),
                "folder": package.name.is_none().then(|| package.folder.to_string_lossy()),
                "code": tally.to_json(self.capability),
                "result": self.verdict(package, tally).0,
                "files": files.collect::<Vec<_>>(),
            })
        });
        json!({
            "capability": dotted(self.capability),
            "best_capability": self.all.best(self.capability).map(|(best, _)| dotted(best)),
            "packages": packages.collect::<Vec<_>>(),
            "packages_without_device_code": self.ordinary,
        })
    }

    fn file_json(&self, file: &Scanned) -> Value {
        json!({
            "path": file.path.to_string_lossy(),
            "code": file.contents.tally.to_json(self.capability),
            "replaced": self.replacement(file).map(|replaced| replaced.note),
            "contains_cublas": has_copy(file),
            "problem": file.contents.problem,
        })
    }
}

/// The difference in percent of the images from which another compute capability is advised.
const WORTH_IT: u64 = 5;

const COPY: &str = "contains a copy of cuBLAS, which Margay cannot replace";

fn has_copy(file: &Scanned) -> bool {
    file.contents.has_cublas && !is_cublas(&file.path)
}

fn is_of_interest(file: &Scanned, libraries: &Path) -> bool {
    let contents = &file.contents;
    let has_code = !contents.tally.is_empty() || contents.problem.is_some();
    has_code || replacement(&file.path, libraries).is_some()
}

/// Returns how many of the images with code have PTX.
fn share(count: Count) -> String {
    format!("{}/{}", count.ptx, count.code())
}

fn row(title: &str, [images, ptx, at, best]: [&str; 4], result: &str) -> String {
    format!("{title:<36} {images:>7} {ptx:>6} {at:>12} {best:>5}  {result}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::images::Contents;
    use crate::doctor::tally::tests::entry;

    fn package(name: &str, file: &str, images: &[&[(EntryKind, u32)]]) -> Package {
        let mut contents = Contents::default();
        for image in images {
            let entries = image.iter().map(|&(kind, sm)| entry(kind, sm, 0));
            contents.tally.add(entries.collect());
        }
        let path = PathBuf::from(file);
        Package {
            name: Some(name.to_owned()),
            version: "1.0".to_owned(),
            folder: PathBuf::new(),
            files: vec![Scanned { path, contents }],
        }
    }

    #[test]
    fn packages_are_described() {
        use EntryKind::{Cubin, Ptx};
        let mut copy = package("copy", "libcopy.so", &[&[(Cubin, 80)], &[(Ptx, 90)]]);
        copy.files[0].contents.has_cublas = true;
        let packages = vec![
            copy,
            package("fft", "libcufft.so.11", &[&[(Ptx, 50), (Cubin, 80)]]),
            package("numpy", "_core.so", &[]),
            package("tools", "bin/ptxas", &[]),
            package("torch", "libtorch_cuda.so", &[&[(Cubin, 80), (Cubin, 90)]]),
        ];
        let findings = Findings::of(packages, PathBuf::from("/nowhere"), 86);
        assert!(!findings.nothing_runs());
        let wanted = "\
device code of                        images    PTX       at 8.6  best  result
copy 1.0                                   2      1          0/1   9.0  machine code only for this capability
    PTX: sm_90 1
    machine code: sm_80 1
    libcopy.so: contains a copy of cuBLAS, which Margay cannot replace
fft 1.0                                    1      1          1/1   8.6  runs from its PTX
    PTX: sm_50 1
    machine code: sm_80 1
tools 1.0                                  -      -            -     -  replaced by Margay's tool
    ptxas: replaced by Margay's tool
torch 1.0                                  1      0          0/1     -  machine code only, which does not run
    machine code: sm_80 1, sm_90 1
1 other package or folder has no device code
with --capability 9.0, 2/3 of the images that programs use have PTX; with 8.6, 1/3
";
        assert_eq!(findings.text(), wanted);
        let document = findings.to_json();
        assert_eq!(document["best_capability"], "9.0");
        assert_eq!(document["packages"][3]["code"]["machine_code"]["sm_90"], 1);
        assert_eq!(document["packages"][0]["files"][0]["contains_cublas"], true);
        assert_eq!(document["packages_without_device_code"], 1);
    }

    #[test]
    fn machine_code_alone_is_an_alarm_and_ordinary_programs_are_none() {
        let of = |packages| Findings::of(packages, PathBuf::from("/nowhere"), 86);
        let machine = of(vec![package("torch", "a.so", &[&[(EntryKind::Cubin, 80)]])]);
        assert!(machine.nothing_runs());
        let ordinary = of(vec![package("numpy", "a.so", &[])]);
        assert!(!ordinary.nothing_runs());
        assert_eq!(ordinary.text(), "no device code here\n");
    }
}
