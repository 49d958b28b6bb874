//! The current grammar, and the spelling of the documentation.

use toml::de::DeValue;

use super::fields::{infer, scratch_registers};
use super::table::{Entry, Table};
use crate::error::Error;
use crate::model::{Capacity, Field, Map, Packing, Probe, ProbeFile};
use crate::snippet::Snippet;
use crate::width::Width;

pub(super) fn load(root: &Table) -> Result<ProbeFile, Error> {
    let probes = probes(root)?;
    let Some(maps) = root.get("map") else {
        return Err(root.error(0, "there is no table `map`"));
    };
    let maps = root.table(maps)?;
    let maps: Vec<Map> = maps
        .entries()
        .into_iter()
        .map(|entry| map(maps.table(entry)?, &probes))
        .collect::<Result<_, _>>()?;
    if probes.is_empty() || maps.is_empty() {
        return Err(root.error(0, "a probe file needs at least one probe and one map"));
    }
    let declared = match root.get("regs") {
        Some(entry) => root.number(entry)?,
        None => 0,
    };
    let callback = root
        .any(&["CALLBACK", "callback"])
        .map(|entry| root.string(entry))
        .transpose()?;
    Ok(ProbeFile {
        name: root.file.to_owned(),
        registers: declared.max(scratch_registers(&probes)),
        probes,
        maps,
        callback: callback.map(str::to_owned),
        text: root.text.to_owned(),
    })
}

fn probes(root: &Table) -> Result<Vec<Probe>, Error> {
    let probes = root.required(&["probe"])?;
    let probes = root.table(probes)?;
    probes
        .entries()
        .into_iter()
        .map(|entry| probe(probes.table(entry)?))
        .collect()
}

fn probe(table: Table) -> Result<Probe, Error> {
    let (before, after) = table.snippets()?;
    let snippets = [&before, &after].into_iter().flatten();
    let old = snippets
        .flat_map(Snippet::saves)
        .find(|(save, _)| save.map.is_none());
    if let Some((_, line)) = old {
        let message =
            "`SAVE.u32` and `SAVE.u64` need a probe with `datamodel`; write `SAVE [ map ] { ... }`";
        return Err(table.error(line, message));
    }
    Ok(Probe {
        name: table.name.to_owned(),
        level: table.level()?,
        position: table.position()?.to_owned(),
        points: table.points()?,
        before,
        after,
        ignores_predicate: table.flag("no_pred")?,
        line: table.line,
    })
}

fn map(table: Table, probes: &[Probe]) -> Result<Map, Error> {
    let kind = table.required(&["type"])?;
    if table.string(kind)? != "array" {
        return Err(table.error(kind.line, "the type of a map must be `array`"));
    }
    let record = table.required(&["size"])?;
    let cap = table.required(&["cap"])?;
    let capacity = match cap.value {
        DeValue::String(text) if text.as_ref() == "dynamic" => Capacity::Dynamic,
        _ => Capacity::Records(table.number(cap)?),
    };
    let fields = match table.get("regs") {
        Some(entry) => fields(&table, entry)?,
        None => infer(&table, probes)?,
    };
    Ok(Map {
        name: table.name.to_owned(),
        level: table.level()?,
        record: table.number(record)?,
        capacity,
        fields,
        packing: Packing::WideFirst,
        line: table.line,
    })
}

fn fields(table: &Table, entry: Entry) -> Result<Vec<Field>, Error> {
    let regs = table.table(entry)?;
    let field = |entry: Entry| {
        // The second element of the list, an initial value, has no effect.
        let word = match entry.value {
            DeValue::String(text) => Some(text.as_ref()),
            DeValue::Array(list) => list
                .iter()
                .next()
                .and_then(|first| first.get_ref().as_str()),
            _ => None,
        };
        let width = match word {
            Some("u32") => Width::U32,
            Some("u64") => Width::U64,
            _ => {
                let message = format!(
                    "the field `{}` must have the type `u32` or `u64`",
                    entry.key
                );
                return Err(table.error(entry.line, message));
            }
        };
        Ok(Field {
            name: entry.key.to_owned(),
            width,
        })
    };
    regs.entries().into_iter().map(field).collect()
}
