//! `cargo xtask import-conformance [FOLDER]`: converts conformance data and writes it to
//! `tests/data/conformance`.
//!
//! FOLDER (by default `../shared/conformance`) contains CSV tables and one file for each program. The command writes
//! one compressed file of JSON lines for each set; each line contains the text of a program and data about the program.
//! `margay_tests::conformance` reads these files. The files do not contain the error messages of
//! other compilers, because tests compare only the lines and kinds of errors.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use crate::{Outcome, exec};

pub(crate) fn run(args: &[String]) -> Outcome {
    let from = args.first().map_or_else(
        || exec::root().join("../shared/conformance"),
        |a| Path::new(a).to_owned(),
    );
    let to = exec::root().join("tests/data/conformance");
    fs::create_dir_all(&to).map_err(|e| e.to_string())?;
    write(&to.join("forms.jsonl.gz"), forms(&from)?)?;
    write(&to.join("rejected.jsonl.gz"), rejected(&from)?)?;
    write(&to.join("modules.jsonl.gz"), modules(&from)?)
}

/// One line of a written file: the text of a program and data about the program.
type Record = Map<String, Value>;

fn forms(from: &Path) -> Result<Vec<Record>, String> {
    let table = read_gz(&from.join("forms-public.csv.gz"))?;
    let mut facts: HashMap<String, HashMap<String, String>> = csv(&table)?
        .into_iter()
        .map(|row| (row["id"].clone(), row))
        .collect();
    let lines = read_gz(&from.join("forms-public-kernels.jsonl.gz"))?;
    let mut records = Vec::new();
    for line in lines.lines() {
        let mut record: Record = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let id = record["id"].as_str().unwrap_or_default().to_owned();
        let row = facts
            .remove(&id)
            .ok_or_else(|| format!("form {id} has no row in the table"))?;
        record.insert("category".to_owned(), json!(row["category"]));
        record.insert("uses".to_owned(), json!(number(&row["uses"])?));
        record.insert("files".to_owned(), json!(number(&row["files"])?));
        records.push(record);
    }
    Ok(records)
}

fn rejected(from: &Path) -> Result<Vec<Record>, String> {
    let table = fs::read_to_string(from.join("rejected-public.csv")).map_err(|e| e.to_string())?;
    let pack = |row: &HashMap<String, String>| {
        Ok(json!({
            "file": row["file"], "class": row["class"], "line": number(&row["line"])?,
            "errors": number(&row["n_errors"])?, "other_lines": lines_in(&row["other_errors"]),
            "offending": row["offending"], "text": text(&from.join("rejected-public"), &row["file"])?,
        }))
    };
    objects(&table, pack)
}

fn modules(from: &Path) -> Result<Vec<Record>, String> {
    let table = fs::read_to_string(from.join("modules-public.csv")).map_err(|e| e.to_string())?;
    let pack = |row: &HashMap<String, String>| {
        let messages = row["messages"]
            .split("||")
            .filter(|m| !m.contains("warning"));
        let lines: Vec<u64> = messages
            .filter_map(|m| leading_number(m.trim().strip_prefix("line ")?))
            .collect();
        Ok(json!({
            "file": row["file"], "category": row["category"], "name": row["name"], "arch": row["arch"],
            "relocatable": row["flags"] == "-c", "accepted": row["accepted"] == "1", "error_lines": lines,
            "text": text(&from.join("modules-public"), &row["file"])?,
        }))
    };
    objects(&table, pack)
}

/// Reads the CSV table `table` and returns one record for each row, which `pack` creates.
fn objects(
    table: &str,
    pack: impl Fn(&HashMap<String, String>) -> Result<Value, String>,
) -> Result<Vec<Record>, String> {
    let record = |row| match pack(&row)? {
        Value::Object(map) => Ok(map),
        _ => Err("a record is an object".to_owned()),
    };
    csv(table)?.into_iter().map(record).collect()
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|e| format!("'{text}': {e}"))
}

/// Returns the number at the beginning of a text.
fn leading_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Returns the line numbers in a text such as "21: something || 30: something else".
fn lines_in(text: &str) -> Vec<u64> {
    text.split("||")
        .filter_map(|part| leading_number(part.trim()))
        .collect()
}

fn text(folder: &Path, file: &str) -> Result<String, String> {
    let bytes = fs::read(folder.join(file)).map_err(|e| format!("{file}: {e}"))?;
    String::from_utf8(bytes).map_err(|e| format!("{file}: {e}"))
}

pub(crate) fn read_gz(path: &Path) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut GzDecoder::new(file), &mut text)
        .map_err(|e| e.to_string())?;
    Ok(text)
}

/// Writes a compressed file with one line for each record, and prints the size of the file.
fn write(path: &Path, records: Vec<Record>) -> Outcome {
    let count = records.len();
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    for record in records {
        serde_json::to_writer(&mut out, &record).map_err(|e| e.to_string())?;
        out.write_all(b"\n").map_err(|e| e.to_string())?;
    }
    let bytes = out.finish().map_err(|e| e.to_string())?;
    println!("{}: {count} records, {} bytes", path.display(), bytes.len());
    fs::write(path, bytes).map_err(|e| e.to_string())
}

/// Parses a CSV text with a header line; fields in double quotes may contain commas and doubled quotes, and no field
/// contains a line break.
fn csv(text: &str) -> Result<Vec<HashMap<String, String>>, String> {
    let mut lines = BufReader::new(text.as_bytes()).lines();
    let header = lines
        .next()
        .ok_or("an empty table")?
        .map_err(|e| e.to_string())?;
    let names = fields(&header);
    let mut rows = Vec::new();
    for line in lines {
        let line = line.map_err(|e| e.to_string())?;
        let values = fields(&line);
        if values.len() != names.len() {
            return Err(format!(
                "{} fields instead of {} in: {line}",
                values.len(),
                names.len()
            ));
        }
        rows.push(names.iter().cloned().zip(values).collect());
    }
    Ok(rows)
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.trim_end_matches('\r').chars().peekable();
    while let Some(c) = chars.next() {
        let last = fields.last_mut().expect("never empty");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => last.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => last.push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes() {
        let rows = csv("a,b,c\n1,\"x, \"\"y\"\"\",\n").expect("reads");
        assert_eq!(
            (
                rows[0]["a"].as_str(),
                rows[0]["b"].as_str(),
                rows[0]["c"].as_str()
            ),
            ("1", "x, \"y\"", "")
        );
        assert!(csv("a,b\n1\n").is_err());
    }

    #[test]
    fn lines_of_messages() {
        assert_eq!(lines_in("21: one || 30: two"), [21, 30]);
        assert_eq!(lines_in(""), [0u64; 0]);
        assert_eq!(leading_number("6; warning"), Some(6));
    }
}
