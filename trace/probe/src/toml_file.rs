//! Loads probe files in TOML.
//!
//! Three spellings exist. The current one has tables `[probe.NAME]` and `[map.NAME]`. The documentation's has the
//! same tables with other keys, numbers as strings, and maps without declared fields. The artifact's has one table
//! for each probe at top level, which is also the probe's map. A file with a table `probe` is current or the
//! documentation's. Invariant: probes, maps and fields keep the order of the file.

mod artifact;
mod current;
mod fields;
mod table;

use toml::de::DeTable;

use crate::error::{Error, line_of};
use crate::model::{Map, Packing, Probe, ProbeFile};
use crate::snippet::Save;
use crate::width::Width;
use table::Table;

/// The maximum length of a probe file in bytes.
const MAX_TEXT: usize = 16 << 20;

/// Loads a probe file in TOML. `name` is the file's name for messages.
///
/// # Errors
///
/// Returns the first error in the file.
pub fn load(name: &str, text: &str) -> Result<ProbeFile, Error> {
    if text.len() > MAX_TEXT {
        let message = format!("the probe file has more than {MAX_TEXT} bytes");
        return Err(Error::new(name, 0, message));
    }
    let document = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(0, |span| line_of(text, span.start));
        Error::new(name, line, error.message())
    })?;
    let root = Table::root(name, text, document.get_ref());
    let file = match root.get("probe") {
        Some(_) => current::load(&root)?,
        None => artifact::load(&root)?,
    };
    check(&file)?;
    Ok(file)
}

/// Checks the invariants of the model.
pub(crate) fn check(file: &ProbeFile) -> Result<(), Error> {
    let fail = |line, subject: &str, message: String| {
        Err(Error::new(&file.name, line, message).about(subject))
    };
    if file.registers > ProbeFile::MAX_REGISTERS {
        let message = format!("{} scratch registers are too many", file.registers);
        return Err(Error::new(&file.name, 0, message));
    }
    for map in &file.maps {
        if let Err(message) = check_map(map) {
            return fail(map.line, &map.name, message);
        }
    }
    for probe in &file.probes {
        for snippet in [&probe.before, &probe.after].into_iter().flatten() {
            for (save, line) in snippet.saves() {
                if let Err(message) = check_save(file, probe, save) {
                    return fail(line, &probe.name, message);
                }
            }
        }
    }
    Ok(())
}

fn check_map(map: &Map) -> Result<(), String> {
    if !is_identifier(&map.name) {
        return Err("the name of a map must be an identifier".to_owned());
    }
    if let Some(field) = map.fields.iter().find(|field| !is_identifier(&field.name)) {
        return Err(format!("the field `{}` is not an identifier", field.name));
    }
    let mut names: Vec<&str> = map.fields.iter().map(|field| field.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("the field `{}` is declared twice", pair[0]));
    }
    let record = map.record;
    if record == 0 || !record.is_multiple_of(8) || record > Map::MAX_RECORD {
        return Err(format!(
            "the size of a record is {record} bytes, but must be a multiple of 8 from 8 to {}",
            Map::MAX_RECORD
        ));
    }
    let sum: u64 = map
        .fields
        .iter()
        .map(|field| u64::from(field.width.bytes()))
        .sum();
    let words = map
        .fields
        .iter()
        .filter(|field| field.width == Width::U32)
        .count();
    let is_padded = map.packing == Packing::WideFirst && words % 2 == 1;
    if sum + if is_padded { 4 } else { 0 } != u64::from(record) {
        return Err(format!(
            "the fields have {sum} bytes, but the size of a record is {record} bytes"
        ));
    }
    Ok(())
}

fn check_save(file: &ProbeFile, probe: &Probe, save: &Save) -> Result<(), String> {
    let name = save.map.as_ref().unwrap_or(&probe.name);
    let Some((_, map)) = file.map(name) else {
        return Err(format!("there is no map `{name}`"));
    };
    let wanted = match save.width {
        Some(_) => save.operands.len(),
        None => map.fields.len(),
    };
    if save.operands.len() != wanted {
        return Err(format!(
            "SAVE has {} values, but the map `{name}` has {wanted} fields",
            save.operands.len()
        ));
    }
    Ok(())
}

/// Whether the text is an identifier in PTX and in Python.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    characters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.len() <= 200
        && text.bytes().any(|byte| byte != b'_')
}

/// Splits a tracepoint list at single colons. A double colon is part of a modifier, as in `ld.shared::cta`.
pub(crate) fn split_points(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let is_colon = |index: usize| bytes.get(index) == Some(&b':');
    let mut points = Vec::new();
    let mut start = 0;
    for index in 0..bytes.len() {
        let is_double = is_colon(index + 1) || index.checked_sub(1).is_some_and(is_colon);
        if is_colon(index) && !is_double {
            points.push(text[start..index].trim());
            start = index + 1;
        }
    }
    points.push(text[start..].trim());
    points
}
