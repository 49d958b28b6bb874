//! The settings of probes, which environment variables select.
//!
//! | variable | meaning |
//! |---|---|
//! | `MARGAY_PROBE` | a probe file, or the name of a shipped one |
//! | `MARGAY_PROBE_DIR` | the folder that gets the folder of results; the default is `trace` |
//! | `MARGAY_PROBE_KERNELS` | texts with colons between them: only kernels with one of them in the name are probed |
//! | `MARGAY_PROBE_KERNELS_EXCLUDED` | the same, for kernels that are not probed |
//! | `MARGAY_PROBE_CALLBACK` | a Python program that reads each result file |
//! | `MARGAY_PROBE_PYTHON` | the Python interpreter; the default is `python3` |
//! | `MARGAY_PROBE_MODE` | `results`, `benchmark` or `memory` |
//! | `MARGAY_PROBE_QUIRKS` | `substring`, `base` and `behind` with commas between them: traits of the original engine |
//! | `MARGAY_PROBE_COMPAT` | 1: all of the original engine's behaviour |

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use margay_probe::{Addresses, AfterTransfer, Faults, Matching, Options, ProbeFile, Selection};

/// What probed launches are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Each launch writes a result file.
    #[default]
    Results,
    /// Each launch also runs without probes, and the times of both go into the log. No result file is written.
    Benchmark,
    /// The log contains the sizes of the maps, and the launches run without probes.
    Memory,
}

/// A program that reads each result file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Callback {
    /// A file.
    File(PathBuf),
    /// The name and the text of a shipped program.
    Shipped(&'static str, &'static str),
}

/// The settings of probes.
pub struct Settings {
    pub(super) file: ProbeFile,
    pub(super) parent: PathBuf,
    pub(super) selection: Selection,
    pub(super) callback: Option<Callback>,
    pub(super) python: OsString,
    pub(super) mode: Mode,
    pub(super) compat: bool,
    pub(super) options: Options,
}

impl Settings {
    /// Reads the settings from variables; `variable` returns the value of one. Returns `None` if no probe file is
    /// named.
    ///
    /// # Errors
    ///
    /// Describes the first variable with an invalid value, or the first error in the probe file.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Settings>, String> {
        let Some(probe) = variable("MARGAY_PROBE") else {
            return Ok(None);
        };
        let text = |name: &str| {
            let value = variable(name).unwrap_or_default();
            let value = value.into_string();
            value.map_err(|value| format!("{name}={}: not UTF-8", value.display()))
        };
        let compat = text("MARGAY_PROBE_COMPAT")? == "1";
        let path = Path::new(&probe);
        let file = load(path, compat)?;
        let mode = mode(&text("MARGAY_PROBE_MODE")?)?;
        if compat && mode == Mode::Benchmark && file.is_dynamic() {
            return Err(
                "dynamic maps cannot be measured in the original engine's manner".to_owned(),
            );
        }
        let options = match compat {
            true => Options {
                matching: Matching::Substring,
                addresses: Addresses::Base,
                after_transfer: AfterTransfer::Behind,
            },
            false => options(&text("MARGAY_PROBE_QUIRKS")?)?,
        };
        let selection = Selection::new(
            &text("MARGAY_PROBE_KERNELS")?,
            &text("MARGAY_PROBE_KERNELS_EXCLUDED")?,
        );
        Ok(Some(Settings {
            callback: callback(variable("MARGAY_PROBE_CALLBACK"), &file, path)?,
            parent: variable("MARGAY_PROBE_DIR")
                .unwrap_or_else(|| "trace".into())
                .into(),
            python: variable("MARGAY_PROBE_PYTHON").unwrap_or_else(|| "python3".into()),
            file,
            selection,
            mode,
            compat,
            options,
        }))
    }
}

fn load(path: &Path, compat: bool) -> Result<ProbeFile, String> {
    let name = path.to_string_lossy();
    let faults = match compat {
        true => Faults::Original,
        false => Faults::Fixed,
    };
    let text = match std::fs::read(path) {
        Ok(bytes) => {
            Some(String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8", path.display()))?)
        }
        Err(error) if path.components().count() > 1 => {
            return Err(format!("{}: {error}", path.display()));
        }
        Err(_) => None,
    };
    margay_probe::load(&name, text.as_deref(), faults).map_err(|error| error.to_string())
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "" | "results" => Ok(Mode::Results),
        "benchmark" => Ok(Mode::Benchmark),
        "memory" => Ok(Mode::Memory),
        other => Err(format!(
            "MARGAY_PROBE_MODE={other}: not results, benchmark or memory"
        )),
    }
}

fn options(text: &str) -> Result<Options, String> {
    let mut options = Options::default();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match word {
            "substring" => options.matching = Matching::Substring,
            "base" => options.addresses = Addresses::Base,
            "behind" => options.after_transfer = AfterTransfer::Behind,
            other => {
                return Err(format!(
                    "MARGAY_PROBE_QUIRKS: `{other}` is not substring, base or behind"
                ));
            }
        }
    }
    Ok(options)
}

/// Finds the callback: the file that the user names, or that the probe file names, as it is or beside the probe file;
/// or the shipped one.
fn callback(
    named: Option<OsString>,
    file: &ProbeFile,
    probe: &Path,
) -> Result<Option<Callback>, String> {
    let is_named = named.is_some();
    let Some(name) = named
        .map(PathBuf::from)
        .or(file.callback.as_ref().map(PathBuf::from))
    else {
        return Ok(None);
    };
    if name.extension().is_none_or(|extension| extension != "py") {
        return Err(format!(
            "the callback {} does not end in .py",
            name.display()
        ));
    }
    let beside = probe.parent().map(|folder| folder.join(&name));
    let found = [Some(name.clone()), beside].into_iter().flatten();
    let mut found = found.filter(|path| path.is_file());
    if let Some(path) = found.next() {
        let path = std::path::absolute(&path);
        return path
            .map(|path| Some(Callback::File(path)))
            .map_err(|error| format!("{}: {error}", name.display()));
    }
    let shipped = name.to_str().filter(|_| !is_named);
    match shipped.and_then(margay_probe::callback) {
        Some((name, text)) => Ok(Some(Callback::Shipped(name, text))),
        None => Err(format!("there is no callback {}", name.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        Settings::from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn without_a_probe_file_there_are_no_settings() {
        assert!(
            settings(&[("MARGAY_PROBE_MODE", "memory")])
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn variables_have_their_documented_meaning() {
        let found = settings(&[
            ("MARGAY_PROBE", "dmat"),
            ("MARGAY_PROBE_DIR", "out"),
            ("MARGAY_PROBE_KERNELS", "add:mul"),
            ("MARGAY_PROBE_MODE", "memory"),
            ("MARGAY_PROBE_QUIRKS", "base,substring"),
        ]);
        let found = found.unwrap().unwrap();
        assert_eq!(found.file.maps[0].name, "DMAT");
        assert_eq!(found.parent, Path::new("out"));
        assert_eq!(found.selection.only, ["add", "mul"]);
        assert_eq!(found.mode, Mode::Memory);
        assert_eq!(found.options.addresses, Addresses::Base);
        assert_eq!(found.options.matching, Matching::Substring);
        assert_eq!(found.options.after_transfer, AfterTransfer::InFront);
        assert!(matches!(
            found.callback,
            Some(Callback::Shipped("dmat_callback.py", _))
        ));
    }

    #[test]
    fn wrong_values_are_named() {
        let error = |variables: &[(&str, &str)]| settings(variables).err().unwrap();
        let tool = ("MARGAY_PROBE", "tensorop");
        assert!(error(&[("MARGAY_PROBE", "nothing")]).contains("block_sched"));
        assert!(error(&[("MARGAY_PROBE", "no/file.toml")]).contains("no/file.toml"));
        assert!(error(&[tool, ("MARGAY_PROBE_MODE", "fast")]).contains("fast"));
        assert!(error(&[tool, ("MARGAY_PROBE_QUIRKS", "all")]).contains("all"));
        assert!(error(&[tool, ("MARGAY_PROBE_CALLBACK", "a.sh")]).contains("a.sh"));
        assert!(error(&[tool, ("MARGAY_PROBE_CALLBACK", "missing.py")]).contains("missing.py"));
    }
}
