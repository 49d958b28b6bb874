//! Finds all possible mutations of a source text: changes of operators, numbers, conditions, flags
//! and rounding modes.
//!
//! The text is not parsed, so some mutated sources do not compile. If a mutated source does not
//! compile, no test runs for it. Comments, attributes, tests and tables of names are not mutated.
//! Invariant: a mutation changes one place of one line.

use std::fmt;
use std::path::Path;

use regex_lite::Regex;

use crate::exec;

/// A change of one place in a source file.
#[derive(Clone, Debug)]
pub(super) struct Mutation {
    /// The file, relative to the repository's root.
    pub(super) file: String,
    /// The line number. The first line has the number 1.
    pub(super) line: usize,
    /// The original text of the line.
    pub(super) line_text: String,
    /// Offset of the change in the line, in bytes.
    pub(super) at: usize,
    /// The replaced text.
    pub(super) from: String,
    /// The new text.
    pub(super) to: String,
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: `{}` -> `{}` in `{}`",
            self.file,
            self.line,
            self.from.trim(),
            self.to.trim(),
            self.line_text.trim()
        )
    }
}

impl Mutation {
    /// Returns `text`, the contents of the file, with the change.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some(line) = lines.get_mut(self.line - 1) {
            line.replace_range(self.at..self.at + self.from.len(), &self.to);
        }
        lines.join("\n") + "\n"
    }
}

/// Operators, each with the operators by which mutations replace it.
const SWAPS: &[(&str, &[&str])] = &[
    (" + ", &[" - "]),
    (" - ", &[" + "]),
    (" * ", &[" + "]),
    (" / ", &[" * "]),
    (" % ", &[" / "]),
    (" << ", &[" >> "]),
    (" >> ", &[" << "]),
    (" & ", &[" | "]),
    (" | ", &[" & "]),
    (" ^ ", &[" | "]),
    (" && ", &[" || "]),
    (" || ", &[" && "]),
    (" == ", &[" != "]),
    (" != ", &[" == "]),
    (" < ", &[" <= ", " > "]),
    (" <= ", &[" < "]),
    (" > ", &[" >= ", " < "]),
    (" >= ", &[" > "]),
    ("if !", &["if "]),
    (".min(", &[".max("]),
    (".max(", &[".min("]),
    ("::min(", &["::max("]),
    ("::max(", &["::min("]),
    ("wrapping_add", &["wrapping_sub"]),
    ("wrapping_sub", &["wrapping_add"]),
    ("leading_zeros", &["trailing_zeros"]),
    ("trailing_zeros", &["leading_zeros"]),
    ("count_ones", &["count_zeros"]),
    ("is_signed()", &["is_float()"]),
    ("NearestEven", &["TowardZero"]),
    ("TowardZero", &["NearestEven"]),
    ("true", &["false"]),
    ("false", &["true"]),
];

/// Returns all mutations of the files in a folder, sorted by file name.
pub(super) fn all(folder: &Path, shown: &Path) -> Result<Vec<Mutation>, String> {
    let mut found = Vec::new();
    for path in exec::entries(folder)? {
        let shown = shown.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            found.extend(all(&path, &shown)?);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text =
                std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            found.extend(of_text(&shown.display().to_string(), &text));
        }
    }
    Ok(found)
}

/// Returns all mutations of one file.
pub(super) fn of_text(file: &str, text: &str) -> Vec<Mutation> {
    let number = Regex::new(r"\b(0x[0-9a-f_]+|[0-9][0-9_]*)\b").expect("a valid pattern");
    let flag = Regex::new(r"[a-z_.]*mods\.(ftz|sat|satfinite|relu|nan|abs|xorsign_abs|oob|noftz|flag|carry_out|bsigned)\(\)")
        .expect("a valid pattern");
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("#[cfg(test)]") {
            break;
        }
        let skipped = ["//", "#", "use ", "mod ", "pub mod ", "macro_rules!"];
        if skipped.iter().any(|start| trimmed.starts_with(start)) {
            continue;
        }
        let code = line.split("//").next().unwrap_or(line);
        let mut add = |at: usize, from: &str, to: String| {
            found.push(Mutation {
                file: file.to_owned(),
                line: index + 1,
                line_text: line.to_owned(),
                at,
                from: from.to_owned(),
                to,
            });
        };
        for (from, replacements) in SWAPS {
            for (at, _) in code.match_indices(from) {
                for to in *replacements {
                    add(at, from, (*to).to_owned());
                }
            }
        }
        for place in number.find_iter(code) {
            // A number after a dot is a field of a tuple and is not mutated.
            let before = code[..place.start()].chars().next_back();
            if before == Some('.') && !code[..place.start()].ends_with("..") {
                continue;
            }
            if let Some(value) = value_of(place.as_str()) {
                add(
                    place.start(),
                    place.as_str(),
                    value.wrapping_add(1).to_string(),
                );
            }
        }
        for place in flag.find_iter(code) {
            add(place.start(), place.as_str(), "false".to_owned());
        }
    }
    found
}

fn value_of(text: &str) -> Option<u128> {
    let digits = text.replace('_', "");
    match digits.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(line: &str) -> Vec<String> {
        let text = format!("{line}\n");
        let all = of_text("f", &text);
        all.iter()
            .map(|mutation| mutation.apply(&text).trim_end().to_owned())
            .collect()
    }

    #[test]
    fn operators_numbers_and_flags_change_one_at_a_time() {
        assert_eq!(
            changes("a + b << 3"),
            ["a - b << 3", "a + b >> 3", "a + b << 4"]
        );
        assert_eq!(changes("if desc.mods.ftz() {"), ["if false {"]);
        assert_eq!(changes("x.0"), Vec::<String>::new());
        assert_eq!(changes("a < b"), ["a <= b", "a > b"]);
        assert_eq!(changes("0x7f_ff"), ["32768"]);
    }

    #[test]
    fn comments_and_tests_stay() {
        assert_eq!(changes("// a + b"), Vec::<String>::new());
        assert_eq!(changes("a // + 1"), Vec::<String>::new());
        let text = "#[cfg(test)]\nmod tests { 1 + 1 }\n";
        assert!(of_text("f", text).is_empty());
    }
}
