//! The grammar of the artifact: each table at top level is a probe, and its `datamodel` is its map.

use toml::de::DeValue;

use super::fields::{field_name, scratch_registers};
use super::table::Table;
use crate::error::Error;
use crate::model::{Capacity, Field, Level, Map, Packing, Probe, ProbeFile};
use crate::snippet::{Snippet, StatementKind};
use crate::width::Width;

/// The tables and keys at top level that are not probes.
const OTHER: [&str; 3] = ["REGS", "regs", "map"];

pub(super) fn load(root: &Table) -> Result<ProbeFile, Error> {
    let mut probes = Vec::new();
    let mut maps = Vec::new();
    for entry in root.entries() {
        if !matches!(entry.value, DeValue::Table(_)) || OTHER.contains(&entry.key) {
            continue;
        }
        let (probe, map) = probe(root.table(entry)?)?;
        probes.push(probe);
        maps.extend(map);
    }
    if probes.is_empty() {
        return Err(root.error(0, "there is no table of a probe"));
    }
    let callback = root.any(&["analyze_hook", "CALLBACK", "callback"]);
    let callback = callback.map(|entry| root.string(entry)).transpose()?;
    Ok(ProbeFile {
        name: root.file.to_owned(),
        registers: scratch_registers(&probes),
        probes,
        maps,
        callback: callback.map(str::to_owned),
        text: root.text.to_owned(),
    })
}

/// What a `datamodel` says.
struct Model {
    level: Level,
    storage: Option<(u32, Capacity)>,
}

fn probe(table: Table) -> Result<(Probe, Option<Map>), Error> {
    let model = model(&table)?;
    let (mut before, mut after) = table.snippets()?;
    let mut fields = Vec::new();
    for snippet in [&mut before, &mut after].into_iter().flatten() {
        number_saves(&table, snippet, &mut fields)?;
    }
    let map = match model.storage {
        Some((record, capacity)) => Some(Map {
            name: table.name.to_owned(),
            level: model.level,
            record,
            capacity,
            fields,
            packing: Packing::AsWritten,
            line: table.line,
        }),
        None if !fields.is_empty() => {
            return Err(table.error(table.line, "the probe saves values, but has no `datamodel`"));
        }
        None => None,
    };
    let probe = Probe {
        name: table.name.to_owned(),
        level: model.level,
        position: table.position()?.to_owned(),
        points: table.points()?,
        before,
        after,
        ignores_predicate: table.flag("no_pred")?,
        line: table.line,
    };
    Ok((probe, map))
}

/// Parses `thread:BYTES`, `warp:BYTES:CAP`. Without a `datamodel`, each thread runs the probe and nothing is stored.
fn model(table: &Table) -> Result<Model, Error> {
    let Some(entry) = table.get("datamodel") else {
        return Ok(Model {
            level: Level::Thread,
            storage: None,
        });
    };
    let text = table.string(entry)?;
    let mut parts = text.split(':').map(str::trim);
    let level = parts.next().and_then(Level::from_word);
    let record = parts.next().map(str::parse);
    let capacity = match parts.next() {
        None => Some(Capacity::Records(1)),
        Some("count") => Some(Capacity::Dynamic),
        Some(number) => number.parse().ok().map(Capacity::Records),
    };
    match (level, record, capacity, parts.next()) {
        (Some(level), None, ..) => Ok(Model {
            level,
            storage: None,
        }),
        (Some(level), Some(Ok(record)), Some(capacity), None) => Ok(Model {
            level,
            storage: (record > 0).then_some((record, capacity)),
        }),
        _ => {
            let message = format!(
                "the datamodel is `{text}`, but must be `thread` or `warp`, the bytes, and a number or `count`"
            );
            Err(table.error(entry.line, message))
        }
    }
}

/// Gives each `SAVE` its place in the record, and adds its fields.
fn number_saves(
    table: &Table,
    snippet: &mut Snippet,
    fields: &mut Vec<Field>,
) -> Result<(), Error> {
    for statement in &mut snippet.statements {
        let StatementKind::Save(save) = &mut statement.kind else {
            continue;
        };
        let Some(width) = save.width else {
            let message =
                "a probe with `datamodel` saves with `SAVE.u32 { ... }` or `SAVE.u64 { ... }`";
            return Err(table.error(statement.line, message));
        };
        save.first_field = fields.len();
        for operand in &save.operands {
            let name = format!("{}{}", field_name(operand), fields.len());
            fields.push(Field { name, width });
        }
        let words = fields[..save.first_field]
            .iter()
            .filter(|field| field.width == Width::U32);
        if width == Width::U64 && words.count() % 2 == 1 {
            let message =
                "`SAVE.u64` follows an odd number of 32-bit values and would not be aligned";
            return Err(table.error(statement.line, message));
        }
    }
    Ok(())
}
