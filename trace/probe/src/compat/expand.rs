//! Turns a probe's text into PTX for one line, as the original engine does.

use super::operands::{Operands, operands};
use super::scan::Visit;
use crate::model::{Level, ProbeFile};
use crate::width::Width;

pub(super) fn expand(visit: &Visit, file: &ProbeFile) -> Result<String, String> {
    let probe = &file.probes[visit.probe];
    let snippet = if visit.is_before {
        &probe.before
    } else {
        &probe.after
    };
    let text = snippet.as_ref().map_or("", |snippet| snippet.text.as_str());
    let operands = operands(&visit.line)?;
    let text = substituted(text, &operands)?;
    let guard = match (probe.level, operands.guard.as_str()) {
        (Level::Thread, guard) => guard.to_owned(),
        (Level::Warp, "") => "@%leader ".to_owned(),
        (Level::Warp, _) => {
            let message = "the original engine uses an undeclared predicate for a warp at a predicated instruction";
            return Err(message.to_owned());
        }
    };
    let lines = text.split('\n').map(|line| match line {
        line if line.contains("SAVE") => save(line, &guard, file),
        line if line.contains(".reg") || matches!(line.trim(), "{" | "}") => Ok(line.to_owned()),
        line => Ok(format!("{guard}{line}")),
    });
    Ok(lines.collect::<Result<Vec<_>, String>>()?.join("\n"))
}

fn substituted(text: &str, operands: &Operands) -> Result<String, String> {
    let mut text = text.to_owned();
    let helpers = [
        ("OUT", &operands.out),
        ("IN1", &operands.in1),
        ("IN2", &operands.in2),
        ("IN3", &operands.in3),
    ];
    for (word, value) in helpers {
        text = replaced(text, word, value)?;
    }
    if operands.first.contains("ld") || operands.first.contains("cp.async") {
        text = replaced(text, "ADDR", &operands.in1)?;
    } else if operands.first.contains("st") {
        text = replaced(text, "ADDR", &operands.out)?;
    }
    Ok(match operands.bytes {
        Some(bytes) => text.replace("BYTES", &bytes.to_string()),
        None => text,
    })
}

fn replaced(text: String, word: &str, value: &Option<String>) -> Result<String, String> {
    match value {
        _ if !text.contains(word) => Ok(text),
        Some(value) => Ok(text.replace(word, value)),
        None => Err(format!("{word} has no value at `{}`", text.trim())),
    }
}

fn between(line: &str, open: char, close: char) -> Option<&str> {
    let start = line.find(open)? + 1;
    let end = line.find(close).filter(|end| *end >= start)?;
    Some(&line[start..end])
}

/// Expands a line with `SAVE`. Two 64-bit values, or two or four 32-bit values, are one store.
fn save(line: &str, guard: &str, file: &ProbeFile) -> Result<String, String> {
    let name = between(line, '[', ']').ok_or("`SAVE` names no map")?.trim();
    let (_, map) = file
        .map(name)
        .ok_or_else(|| format!("there is no map `{name}`"))?;
    let values: Vec<&str> = between(line, '{', '}')
        .ok_or("`SAVE` has no values")?
        .split(',')
        .collect();
    if values.len() != map.fields.len() {
        return Err(format!(
            "`SAVE` has {} values for {} fields",
            values.len(),
            map.fields.len()
        ));
    }
    let mut code = Vec::new();
    let (mut wide, mut words) = (Vec::new(), Vec::new());
    for (value, field) in values.into_iter().zip(&map.fields) {
        match field.width {
            Width::U64 => wide.push(value.trim().to_owned()),
            Width::U32 => {
                let word = format!("%{name}_u32_{}", words.len() + 1);
                code.push(format!("{guard}cvt.u32.u64 {word}, {};", value.trim()));
                words.push(word);
            }
        }
    }
    if words.len() % 2 != 0 {
        return Err(format!(
            "the map `{name}` has an odd number of 32-bit fields"
        ));
    }
    let mut store = |values: &[String], width: Width| {
        let list = match values {
            [one] => one.clone(),
            values => format!("{{ {} }}", values.join(", ")),
        };
        let vector = if values.len() > 1 {
            format!(".v{}", values.len())
        } else {
            String::new()
        };
        let bytes = values.len() as u32 * width.bytes();
        code.push(format!(
            "{guard}st.global{vector}.{} [%map_{name}1], {list};",
            width.word()
        ));
        code.push(format!(
            "{guard}add.s64 %map_{name}1, %map_{name}1, {bytes};"
        ));
    };
    wide.chunks(2).for_each(|pair| store(pair, Width::U64));
    words.chunks(4).for_each(|group| store(group, Width::U32));
    Ok(code.join("\n"))
}
