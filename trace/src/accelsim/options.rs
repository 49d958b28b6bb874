//! What is traced, and in which form.

use std::ffi::OsString;
use std::ops::RangeInclusive;

use super::sass::Architecture;

/// The files that a tracer writes for a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forms {
    /// `kernel-N.trace`: lines in order of arrival.
    pub raw: bool,
    /// `kernel-N.traceg`: lines by CTA and warp, which the simulator reads.
    pub grouped: bool,
    /// `kernel-N.tracez`: the compressed container of the simulator's development line.
    pub packed: bool,
}

/// The options of a tracer. The defaults and the environment variables are those of the original tracer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The files to write.
    pub forms: Forms,
    /// The version of the line syntax, 3 to 6.
    pub version: u32,
    /// The architecture whose opcodes the trace contains. `None` chooses it by the target of each module.
    pub architecture: Option<Architecture>,
    /// The instructions to trace, by their number in the code: `INSTR_BEGIN` and `INSTR_END`.
    pub instructions: std::ops::Range<u64>,
    /// Whether lines begin with the number of a source line: `TRACE_LINEINFO`.
    pub line_numbers: bool,
    /// The launches to trace, by their number: `DYNAMIC_KERNEL_LIMIT_START` and `DYNAMIC_KERNEL_LIMIT_END`.
    pub launches: RangeInclusive<u64>,
    /// Whether the process ends before the first launch after the range: `TERMINATE_UPON_LIMIT`.
    pub terminate: bool,
    /// Whether launches are traced before the program calls `cuProfilerStart`: `ACTIVE_FROM_START`. If not,
    /// [`Options::launches`] has no effect.
    pub active_from_start: bool,
    /// Whether addresses are written in their short modes: `TOOL_COMPRESS`.
    pub compress_addresses: bool,
    /// Whether raw traces contain the core and the warp of the core: `TOOL_TRACE_CORE`.
    pub core_columns: bool,
    /// Whether files are compressed with xz: `TRACE_FILE_COMPRESS`.
    pub xz: bool,
    /// Whether a message names each kernel: `TOOL_VERBOSE`.
    pub verbose: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            forms: Forms {
                raw: false,
                grouped: true,
                packed: false,
            },
            version: margay_accelsim::DEFAULT_VERSION,
            architecture: None,
            instructions: 0..u64::from(u32::MAX),
            line_numbers: false,
            launches: 0..=u64::MAX,
            terminate: false,
            active_from_start: true,
            compress_addresses: true,
            core_columns: false,
            xz: false,
            verbose: false,
        }
    }
}

/// The environment variable that lists the files to write: `raw`, `grouped` and `packed`, separated by commas.
const FORMS: &str = "MARGAY_TRACE_FORMS";
/// The environment variable that states the version of the line syntax.
const VERSION: &str = "MARGAY_TRACE_VERSION";
/// The environment variable that states the architecture.
const ARCHITECTURE: &str = "MARGAY_TRACE_ARCHITECTURE";

impl Options {
    /// Returns the options that environment variables state: those of `margay trace`, and those of the original tracer.
    ///
    /// # Errors
    /// Returns a message that names a variable with a wrong value.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Options, String> {
        let mut options = Options::default();
        options.read(&variable)?;
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        if let Some(value) = text(FORMS) {
            let words: Vec<&str> = value.split(',').collect();
            let known = ["raw", "grouped", "packed"];
            if words.iter().any(|word| !known.contains(word)) {
                return Err(format!(
                    "{FORMS}={value}: not a list of {}",
                    known.join(", ")
                ));
            }
            options.forms = Forms {
                raw: words.contains(&"raw"),
                grouped: words.contains(&"grouped"),
                packed: words.contains(&"packed"),
            };
        }
        if let Some(value) = text(VERSION) {
            let version = value
                .parse()
                .ok()
                .filter(|version| (3..=6).contains(version));
            options.version =
                version.ok_or_else(|| format!("{VERSION}={value}: not 3, 4, 5 or 6"))?;
        }
        if let Some(value) = text(ARCHITECTURE) {
            let number = value.parse().ok();
            let mut all = Architecture::ALL.into_iter();
            let found = all.find(|architecture| Some(architecture.number()) == number);
            options.architecture =
                Some(found.ok_or_else(|| format!("{ARCHITECTURE}={value}: not 70, 75, 80 or 86"))?);
        }
        Ok(options)
    }

    /// Changes the options that environment variables of the original tracer name. `variable` returns the value of a
    /// variable.
    ///
    /// # Errors
    /// Returns a message that names a variable whose value is not a number.
    fn read(&mut self, variable: impl Fn(&str) -> Option<OsString>) -> Result<(), String> {
        let number = |name: &str| match variable(name) {
            None => Ok(None),
            Some(value) => {
                let value = value.to_string_lossy().into_owned();
                let parsed = value.trim().parse::<u64>();
                parsed
                    .map(Some)
                    .map_err(|_| format!("{name}={value}: not a number"))
            }
        };
        let flag = |name: &str, flag: &mut bool| {
            number(name).map(|value| {
                if let Some(value) = value {
                    *flag = value != 0;
                }
            })
        };
        let begin = number("INSTR_BEGIN")?.unwrap_or(self.instructions.start);
        let end = number("INSTR_END")?.unwrap_or(self.instructions.end);
        self.instructions = begin..end;
        let first = number("DYNAMIC_KERNEL_LIMIT_START")?.unwrap_or(*self.launches.start());
        let last = number("DYNAMIC_KERNEL_LIMIT_END")?.filter(|&last| last != 0);
        self.launches = first..=last.unwrap_or(*self.launches.end());
        flag("TRACE_LINEINFO", &mut self.line_numbers)?;
        flag("TERMINATE_UPON_LIMIT", &mut self.terminate)?;
        flag("ACTIVE_FROM_START", &mut self.active_from_start)?;
        flag("TOOL_COMPRESS", &mut self.compress_addresses)?;
        flag("TOOL_TRACE_CORE", &mut self.core_columns)?;
        flag("TRACE_FILE_COMPRESS", &mut self.xz)?;
        flag("TOOL_VERBOSE", &mut self.verbose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Options, String> {
        Options::from_environment(|name| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn variables_have_the_meaning_of_the_original() {
        assert_eq!(read(&[]), Ok(Options::default()));
        let options = read(&[
            ("DYNAMIC_KERNEL_LIMIT_START", "2"),
            ("DYNAMIC_KERNEL_LIMIT_END", "3"),
            ("TOOL_COMPRESS", "0"),
            ("ACTIVE_FROM_START", "0"),
            ("INSTR_BEGIN", "5"),
        ])
        .unwrap();
        assert_eq!(options.launches, 2..=3);
        assert!(!options.compress_addresses && !options.active_from_start);
        assert_eq!(options.instructions, 5..u64::from(u32::MAX));
        // 0 is no limit.
        let unlimited = read(&[("DYNAMIC_KERNEL_LIMIT_END", "0")]).unwrap();
        assert_eq!(unlimited.launches, 0..=u64::MAX);
        let own = read(&[
            ("MARGAY_TRACE_FORMS", "raw,packed"),
            ("MARGAY_TRACE_ARCHITECTURE", "75"),
        ])
        .unwrap();
        assert!(own.forms.raw && own.forms.packed && !own.forms.grouped);
        assert_eq!(own.architecture, Some(Architecture::Turing75));
        for (name, value) in [("FORMS", "flat"), ("VERSION", "7"), ("ARCHITECTURE", "90")] {
            let name = format!("MARGAY_TRACE_{name}");
            let error = read(&[(&name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value}: ")), "{error}");
        }
        let error = read(&[("TOOL_COMPRESS", "yes")]).unwrap_err();
        assert_eq!(error, "TOOL_COMPRESS=yes: not a number");
    }
}
