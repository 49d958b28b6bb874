//! Writes the findings in the Static Analysis Results Interchange Format, SARIF 2.1.0 (OASIS
//! standard of 2020-03-27), which code hosts and editors show at the lines of the source.

use std::collections::BTreeSet;
use std::path::Path;

use margay::checks::Severity;
use serde::Serialize;
use serde_json::{Value, json};

use super::json::List;
use super::options::Demangle;
use super::record::{Coordinates, Record, Spot};
use super::source::Sources;
use super::words;

/// The SARIF name (`uriBaseId`) of the folder that relative file names refer to.
const ROOT: &str = "SRCROOT";

/// The document.
#[derive(Serialize)]
struct Document<L> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    runs: [Run<L>; 1],
    version: &'static str,
}

/// The only element of the document's member `runs`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<L> {
    column_kind: &'static str,
    original_uri_base_ids: Value,
    results: L,
    tool: Value,
}

/// Returns the report in the format SARIF. To save memory, the entry of a finding is created only
/// when it is written. Names of files inside the folder `root` become relative to this folder.
pub(crate) fn report<'a>(records: &'a [Record], root: &'a Path) -> impl Serialize + use<'a> {
    let kinds: BTreeSet<(&str, &str)> = records.iter().map(kind).collect();
    let kinds: Vec<(&str, &str)> = kinds.into_iter().collect();
    let rules: Vec<Value> = kinds.iter().map(|(kind, tool)| rule(kind, tool)).collect();
    let folder = format!(
        "file://{}/",
        encoded(&root.to_string_lossy()).trim_end_matches('/')
    );
    let writer = Writer {
        root,
        sources: Sources::default(),
    };
    let result = move |record: &Record| {
        let index = kinds.binary_search(&kind(record));
        writer.result(record, index.unwrap_or(0))
    };
    let run = Run {
        column_kind: "unicodeCodePoints",
        original_uri_base_ids: json!({ROOT: {"uri": folder}}),
        results: List(records, result),
        tool: json!({"driver": {
            "name": "Margay",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rules,
        }}),
    };
    Document {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        runs: [run],
        version: "2.1.0",
    }
}

/// Returns the kind of a finding and the tool that found it. The report contains one rule for each such pair.
fn kind(record: &Record) -> (&str, &str) {
    (&record.kind, &record.tool)
}

fn rule(kind: &str, tool: &str) -> Value {
    let words = kind.replace('-', " ");
    json!({
        "id": kind,
        "shortDescription": {"text": words::capital(&words)},
        "properties": {"tags": [tool]},
    })
}

struct Writer<'a> {
    root: &'a Path,
    sources: Sources,
}

impl Writer<'_> {
    fn result(&self, record: &Record, rule: usize) -> Value {
        let level = match record.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "note",
        };
        let mut result = json!({
            "ruleId": record.kind,
            "ruleIndex": rule,
            "level": level,
            "message": {"text": message(record)},
            "locations": Vec::from_iter(self.location(record)),
            "partialFingerprints": {"margayPlace/v1": self.fingerprint(record)},
            "occurrenceCount": record.count,
        });
        let related = self.related(record);
        if !related.is_empty() {
            result["relatedLocations"] = related.into();
        }
        result
    }

    /// Returns the location of a finding: the source line in the kernel or, if this is unknown, the
    /// source line of the innermost function on the host's stack whose file is known. If no source line is known, the
    /// location contains only the name of the kernel; without a kernel, there is no location.
    fn location(&self, record: &Record) -> Option<Value> {
        let mut location = json!({});
        if let Some(kernel) = &record.kernel {
            let name = words::kernel_name(kernel, Demangle::Full);
            location["logicalLocations"] = json!([
                {"fullyQualifiedName": name, "decoratedName": kernel, "kind": "function"}
            ]);
        }
        let device = record.spot.stack().into_iter().next();
        let host = || {
            let mut frames = record.host.iter();
            frames.find_map(|frame| Some((frame.file.as_deref()?, frame.line?)))
        };
        if let Some((file, line)) = device.or_else(host) {
            location["physicalLocation"] = self.physical(file, line);
        }
        (location != json!({})).then_some(location)
    }

    /// Returns the related locations of a finding: the other access of a race, the calls of inlined functions, and the
    /// host's stack.
    fn related(&self, record: &Record) -> Vec<Value> {
        let mut places: Vec<(String, &str, u64)> = Vec::new();
        if let Some(other) = &record.other {
            let (access, thread) = (
                words::capital(&other.access),
                who(other.thread, other.block),
            );
            let text = format!("{access} access{thread}");
            let stack = other.spot.stack().into_iter().next();
            places.extend(stack.map(|(file, line)| (text, file, line)));
        }
        let outer = record.spot.stack().into_iter().skip(1);
        places.extend(outer.map(|(file, line)| ("Inlined here".to_owned(), file, line)));
        for frame in &record.host {
            if let (Some(file), Some(line)) = (frame.file.as_deref(), frame.line) {
                places.push((format!("Called by {}", frame.function), file, line));
            }
        }
        let places = places.into_iter().enumerate();
        let location = |(index, (text, file, line)): (usize, (String, &str, u64))| {
            json!({
                "id": index + 1,
                "message": {"text": text},
                "physicalLocation": self.physical(file, line),
            })
        };
        places.map(location).collect()
    }

    fn physical(&self, file: &str, line: u64) -> Value {
        let path = Path::new(file);
        let inside = path.strip_prefix(self.root).unwrap_or(path);
        let artifact = match inside.is_absolute() {
            true => json!({"uri": format!("file://{}", encoded(file))}),
            false => {
                let inside = inside.strip_prefix(".").unwrap_or(inside);
                json!({"uri": encoded(&inside.to_string_lossy()), "uriBaseId": ROOT})
            }
        };
        let mut physical = json!({"artifactLocation": artifact});
        if line > 0 {
            physical["region"] = json!({"startLine": line});
            if let Some(text) = self.sources.line(file, line) {
                physical["region"]["snippet"] = json!({"text": text});
            }
        }
        physical
    }

    /// Returns a hash that identifies the finding in later versions of the source. If the line can be read and is not
    /// blank, the hash depends on its text and not on its number.
    fn fingerprint(&self, record: &Record) -> String {
        let place = |spot: &Spot| {
            let stack = spot.stack();
            let Some((file, line)) = stack.first() else {
                return spot
                    .ptx_line
                    .map_or_else(String::new, |line| line.to_string());
            };
            let name = Path::new(file)
                .file_name()
                .unwrap_or_default()
                .to_string_lossy();
            let text = self.sources.line(file, *line);
            format!("{name}\n{}", text.unwrap_or_else(|| line.to_string()))
        };
        let other = record.other.as_ref().map(|other| place(&other.spot));
        let callers: Vec<&str> = record
            .host
            .iter()
            .map(|frame| frame.function.as_str())
            .collect();
        let parts = [
            record.kind.clone(),
            record.kernel.clone().unwrap_or_default(),
            place(&record.spot),
            other.unwrap_or_default(),
            match record.kernel {
                Some(_) => String::new(),
                None => callers.join("\n"),
            },
        ];
        format!("{:016x}", hash(parts.join("\0").as_bytes()))
    }
}

/// Returns the text that describes the finding.
fn message(record: &Record) -> String {
    let mut text = words::group_bytes(&record.message);
    let mut add = |part: String| {
        text.push_str(&part);
    };
    if let Some(kernel) = &record.kernel {
        add(format!(
            " in kernel {}",
            words::kernel_name(kernel, Demangle::Full)
        ));
    }
    add(who(record.thread, record.block));
    if let Some(line) = record.spot.ptx_line {
        add(format!(", PTX line {line}"));
    }
    if let Some(other) = &record.other {
        // If the source line of the other access is known, it is the first related location.
        let access = match other.spot.stack().is_empty() {
            true => other.access.clone(),
            false => format!("[{}](1)", other.access),
        };
        add(format!("; the other access is a {access}"));
    }
    let memory = words::address_sentences(record).join(" ");
    if !memory.is_empty() {
        text.push_str(&format!(". {memory}"));
    }
    if let Some(missing) = &record.missing {
        text.push_str(&format!(". Missing: {missing}"));
    }
    if !text.ends_with('.') {
        text.push('.');
    }
    text
}

/// Returns the phrase that names a thread and its block, or an empty text if they are unknown.
fn who(thread: Option<Coordinates>, block: Option<Coordinates>) -> String {
    let text = thread.zip(block).map(|(thread, block)| {
        let (thread, block) = (words::coordinates(thread), words::coordinates(block));
        format!(" by thread {thread} in block {block}")
    });
    text.unwrap_or_default()
}

/// Percent-encodes all bytes of a path except ASCII letters, digits and `/-._~+@,`.
fn encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(byte.into()),
            b'/' | b'-' | b'.' | b'_' | b'~' | b'+' | b'@' | b',' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Returns the 64-bit FNV-1a hash of `bytes`.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{ACCESS, LEAK, RACE, records};
    use super::*;

    fn results(lines: &[&str]) -> Vec<Value> {
        let records = records(lines);
        let report = report(&records, Path::new("/work/my project"));
        let report = serde_json::to_value(report).expect("JSON");
        assert_eq!(report["version"], "2.1.0");
        let run = &report["runs"][0];
        let folder = "file:///work/my%20project/";
        assert_eq!(run["originalUriBaseIds"]["SRCROOT"]["uri"], folder);
        for result in run["results"].as_array().expect("a list") {
            let index = result["ruleIndex"].as_u64().expect("a number") as usize;
            assert_eq!(
                result["ruleId"],
                run["tool"]["driver"]["rules"][index]["id"]
            );
        }
        run["results"].as_array().expect("a list").clone()
    }

    #[test]
    fn a_race_relates_two_places() {
        let race = &results(&[ACCESS, RACE])[1];
        let first = json!([{
            "logicalLocations": [{"fullyQualifiedName": "k", "decoratedName": "k", "kind": "function"}],
            "physicalLocation": {
                "artifactLocation": {"uri": "f.cu", "uriBaseId": "SRCROOT"},
                "region": {"startLine": 51},
            },
        }]);
        assert_eq!(race["locations"], first);
        let second = json!([{
            "id": 1,
            "message": {"text": "Write access by thread (35,0,0) in block (0,0,0)"},
            "physicalLocation": {
                "artifactLocation": {"uri": "f.cu", "uriBaseId": "SRCROOT"},
                "region": {"startLine": 41},
            },
        }]);
        assert_eq!(race["relatedLocations"], second);
        assert_eq!(race["occurrenceCount"], 127);
        assert_eq!(
            race["message"]["text"],
            "Race between a read and a write of __shared__ memory in kernel k by thread (32,0,0) in block (0,0,0), \
             PTX line 40; the other access is a [write](1). Address 0x8c. Missing: barrier."
        );
    }

    #[test]
    fn a_link_leads_to_a_line_of_the_other_access() {
        let line = RACE.replace(r#""file":"f.cu","line":41"#, r#""file":"f.cu","line":null"#);
        let race = &results(&[&line])[0];
        let text = race["message"]["text"].as_str().expect("a text");
        assert!(text.contains("the other access is a write. "), "{text}");
        assert_eq!(race.get("relatedLocations"), None);
        let line = line.replace(r#""file":"f.cu","line":51"#, r#""file":null,"line":null"#);
        let kernel = json!({"fullyQualifiedName": "k", "decoratedName": "k", "kind": "function"});
        let only_kernel = json!([{"logicalLocations": [kernel]}]);
        assert_eq!(results(&[&line])[0]["locations"], only_kernel);
    }

    #[test]
    fn files_are_relative_to_the_folder() {
        let uri = |file: &str| {
            let line = ACCESS.replace("no/such/fill.cu", file);
            results(&[&line])[0]["locations"][0]["physicalLocation"]["artifactLocation"].clone()
        };
        let inside = json!({"uri": "src/a%20b.cu", "uriBaseId": "SRCROOT"});
        assert_eq!(uri("/work/my project/src/a b.cu"), inside);
        assert_eq!(uri("./src/a b.cu"), inside);
        assert_eq!(
            uri("/usr/include/x.h"),
            json!({"uri": "file:///usr/include/x.h"})
        );
    }

    #[test]
    fn calls_have_the_place_of_the_host() {
        let line = LEAK.replace(r#""file":null,"line":null"#, r#""file":"m.cu","line":5"#);
        let leak = &results(&[&line])[0];
        assert_eq!(
            leak["locations"][0]["physicalLocation"]["region"]["startLine"],
            5
        );
        assert_eq!(
            leak["relatedLocations"][0]["message"]["text"],
            "Called by main"
        );
        let nowhere = &results(&[LEAK])[0];
        assert_eq!(nowhere["locations"], json!([]));
        assert_eq!(nowhere["message"]["text"], "Leaked 1,024 bytes at 0x7000.");
    }

    #[test]
    fn fingerprints_do_not_depend_on_the_run() {
        // Test vectors of the FNV specification.
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
        let of = |line: &str| results(&[line])[0]["partialFingerprints"]["margayPlace/v1"].clone();
        let other_run = ACCESS.replace("4096", "8192").replace("[6,0,0]", "[7,0,0]");
        assert_eq!(of(ACCESS), of(&other_run));
        assert_ne!(of(ACCESS), of(&ACCESS.replace("\"line\":7", "\"line\":8")));
        assert_ne!(
            of(ACCESS),
            of(&ACCESS.replace("out-of-bounds", "misaligned"))
        );
    }
}
