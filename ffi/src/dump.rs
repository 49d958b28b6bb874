//! `MARGAY_DUMP` names a folder. This module writes to this folder every image that the program loads, with the image's
//! PTX and the reasons why code could not be run.
//!
//! Each process writes to a subfolder that is named by the process ID. The subfolder contains `manifest.json` and the
//! files that the manifest names. A user can attach the subfolder to a bug report. An image that is loaded repeatedly
//! is written once, and the manifest counts the loads.
//!
//! Invariants: whenever an entry is added or changed, the whole manifest is written again. The
//! first write error causes a warning; write errors never make a call fail.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use margay::container::select_ptx;
use margay::files::without_write_signals;
use margay::{Error, Image};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client;
use crate::guard::warn;
use crate::images::Images;

/// The maximum number of problems, which are errors of calls, in a manifest.
const MAX_PROBLEMS: usize = 1000;

struct Dump {
    folder: PathBuf,
    program: String,
    images: Vec<Value>,
    /// Maps the digest of an image to the index of the image in `images`.
    known: HashMap<u64, usize>,
    problems: Vec<Value>,
    broken: bool,
}

/// Returns the dump of this process, or `None` if `MARGAY_DUMP` is not set.
fn dump() -> Option<&'static Mutex<Dump>> {
    static DUMP: OnceLock<Option<Mutex<Dump>>> = OnceLock::new();
    let start = || {
        let folder = std::env::var_os("MARGAY_DUMP").filter(|folder| !folder.is_empty())?;
        let folder = PathBuf::from(folder).join(std::process::id().to_string());
        Some(Mutex::new(Dump::new(folder)))
    };
    DUMP.get_or_init(start).as_ref()
}

/// Adds an image that a call loaded to the manifest, and the outcome of the image's first load: the
/// names of its kernels, or the error.
pub(crate) fn image<'e>(
    call: &str,
    images: &Images<'_>,
    capability: u32,
    outcome: impl FnOnce() -> Result<Vec<String>, &'e Error>,
) {
    if let Some(dump) = dump() {
        let parts = parts(&images.image());
        dump.lock().image(call, &parts, capability, &outcome());
    }
}

/// Adds an error of a call to the manifest, unless the manifest contains an error with the same text or already
/// contains [`MAX_PROBLEMS`] errors.
pub(crate) fn problem(error: &Error) {
    if let Some(dump) = dump() {
        dump.lock().problem(error);
    }
}

/// Returns the parts of an image. A linked image has several parts, and every other image has one part.
fn parts<'a>(image: &Image<'a>) -> Vec<&'a [u8]> {
    match *image {
        Image::Ptx(text) => vec![text.as_bytes()],
        Image::Bytes(bytes) => vec![bytes],
        Image::Linked(parts) => parts.to_vec(),
    }
}

impl Dump {
    fn new(folder: PathBuf) -> Dump {
        Dump {
            folder,
            program: client::name(),
            images: Vec::new(),
            known: HashMap::new(),
            problems: Vec::new(),
            broken: false,
        }
    }

    fn image(
        &mut self,
        call: &str,
        parts: &[&[u8]],
        capability: u32,
        outcome: &Result<Vec<String>, &Error>,
    ) {
        let mut digest = DefaultHasher::new();
        parts.hash(&mut digest);
        let digest = digest.finish();
        if let Some(&at) = self.known.get(&digest) {
            let count = self.images[at]["loaded"].as_u64().unwrap_or(0) + 1;
            self.images[at]["loaded"] = json!(count);
        } else {
            let number = self.images.len();
            let files = self.write_parts(number, parts);
            let ptx = self.write_ptx(number, parts, capability);
            self.known.insert(digest, number);
            self.images.push(json!({
                "call": call,
                "loaded": 1,
                "files": files,
                "ptx": ptx,
                "kernels": outcome.as_ref().ok(),
                "error": outcome.as_ref().err().map(ToString::to_string),
                "way_out": match outcome {
                    Err(Error::NoBinary(_)) => client::way_out(),
                    _ => None,
                },
            }));
        }
        self.write_manifest();
    }

    fn problem(&mut self, error: &Error) {
        let text = error.to_string();
        let told = self
            .problems
            .iter()
            .any(|known| known["error"] == text.as_str());
        if told || self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        self.problems.push(json!({ "error": text }));
        self.write_manifest();
    }

    fn write_parts(&mut self, number: usize, parts: &[&[u8]]) -> Vec<String> {
        let mut names = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let ending = match part {
                [0x7f, b'E', b'L', b'F', ..] => "cubin",
                [0x50, 0xed, 0x55, 0xba, ..] => "fatbin",
                _ => "ptx",
            };
            let name = format!("image-{number:04}-{index}.{ending}");
            self.write(&name, part);
            names.push(name);
        }
        names
    }

    /// Writes the PTX that is selected from the image for compilation. Returns the file names.
    fn write_ptx(&mut self, number: usize, parts: &[&[u8]], capability: u32) -> Vec<String> {
        let mut names = Vec::new();
        let Ok(selection) = select_ptx(parts, capability) else {
            return names;
        };
        for (index, text) in selection.texts.iter().enumerate() {
            let name = format!("image-{number:04}-{index}.selected.ptx");
            self.write(&name, text.text.as_bytes());
            names.push(name);
        }
        names
    }

    fn write_manifest(&mut self) {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let wanted = name.starts_with("MARGAY_");
            wanted.then(|| (name, json!(value.to_string_lossy())))
        });
        let manifest = json!({
            "margay": env!("CARGO_PKG_VERSION"),
            "program": self.program,
            "process": std::process::id(),
            "environment": variables.collect::<serde_json::Map<_, _>>(),
            "images": self.images,
            "problems": self.problems,
        });
        let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
        self.write("manifest.json", &text);
    }

    /// Writes a file under a temporary name and renames it, so that no reader sees a partial file.
    fn write(&mut self, name: &str, bytes: &[u8]) {
        if let Err(error) = without_write_signals(|| write_whole(&self.folder, name, bytes))
            && !std::mem::replace(&mut self.broken, true)
        {
            warn(format_args!(
                "MARGAY_DUMP: {}: {error}",
                self.folder.display()
            ));
        }
    }
}

fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let fresh = folder.join(format!("{name}.new"));
    std::fs::write(&fresh, bytes)?;
    std::fs::rename(fresh, folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_images_and_problems() {
        let folder = std::env::temp_dir().join(format!("margay-dump-{}", std::process::id()));
        let mut dump = Dump::new(folder.clone());
        let text = b".version 8.0\n.target sm_80\n";
        let kernels = Ok(vec!["k".to_owned()]);
        dump.image("cuModuleLoad", &[text], 86, &kernels);
        dump.image("cuModuleLoad", &[text], 86, &kernels);
        let error = Error::NoBinary("SASS alone".into());
        dump.image("cuLibraryLoad", &[b"\x7fELF and more"], 86, &Err(&error));
        dump.problem(&error);
        dump.problem(&error);
        let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let [first, second] = manifest["images"].as_array().unwrap().as_slice() else {
            panic!("{manifest}");
        };
        assert_eq!(
            (&first["loaded"], &first["kernels"][0]),
            (&json!(2), &json!("k"))
        );
        let file = |value: &Value| std::fs::read(folder.join(value.as_str().unwrap())).unwrap();
        assert_eq!(file(&first["files"][0]), text);
        assert_eq!(file(&first["ptx"][0]), text);
        assert_eq!(file(&second["files"][0]), b"\x7fELF and more");
        assert_eq!(second["error"], "no PTX in the image: SASS alone");
        assert_eq!(manifest["problems"].as_array().unwrap().len(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
