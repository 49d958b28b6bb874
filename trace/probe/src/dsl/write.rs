//! Writes a compiled program as a probe file in TOML.

use std::fmt::Write;

use super::{Faults, ProbeItem, Program};

pub(super) fn toml(program: &Program, faults: Faults) -> String {
    let mut text = format!("regs = {}\n", program.needed);
    if let Some(callback) = &program.callback {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "CALLBACK = {}", quoted(callback));
    }
    if program.maps.iter().any(|map| map.capacity.is_none()) {
        text.push_str("dynamic = true\n");
    }
    if faults == Faults::Fixed {
        first_values(program, &mut text);
    }
    for probe in merged(program, faults) {
        let _ = write!(
            text,
            "\n[probe.{}]\npos = {}\nlevel = \"{}\"\n",
            probe.name,
            quoted(&probe.position),
            probe.level.word()
        );
        for (key, snippet) in [("before", &probe.before), ("after", &probe.after)] {
            if let Some(snippet) = snippet {
                let _ = writeln!(text, "{key} = \"\"\"\n{snippet}\"\"\"");
            }
        }
    }
    for map in &program.maps {
        let capacity = map
            .capacity
            .map_or("\"dynamic\"".to_owned(), |capacity| capacity.to_string());
        let _ = write!(
            text,
            "\n[map.{}]\nlevel = \"{}\"\ntype = \"array\"\nsize = {}\ncap = {capacity}\n\n[map.{}.regs]\n",
            map.name,
            map.level.word(),
            map.record,
            map.name
        );
        let mut fields: Vec<&(String, String)> = map.fields.iter().collect();
        if faults == Faults::Original {
            fields.sort_by(|a, b| b.1.cmp(&a.1));
        }
        for (name, width) in fields {
            let _ = writeln!(text, "{name} = [\"{width}\", \"None\"]");
        }
    }
    text
}

/// Adds a probe that sets the registers whose first value is not 0.
fn first_values(program: &Program, text: &mut String) {
    let mut lines = String::new();
    for (number, (_, value)) in program.registers.iter().enumerate() {
        if *value != 0 {
            let suffix = if *value > i64::MAX as u64 { "U" } else { "" };
            let _ = writeln!(lines, "mov.u64 %NR{number}, {value}{suffix};");
        }
    }
    if !lines.is_empty() {
        let _ = write!(
            text,
            "\n[probe.first_values_of_registers]\npos = \"kernel\"\nlevel = \"thread\"\nbefore = \"\"\"\n{lines}\"\"\"\n"
        );
    }
}

/// Merges the probes with equal level and tracepoints, in the order of the program.
fn merged(program: &Program, faults: Faults) -> Vec<ProbeItem> {
    let mut merged: Vec<ProbeItem> = Vec::new();
    for probe in &program.probes {
        let same = merged
            .iter_mut()
            .find(|earlier| earlier.level == probe.level && earlier.position == probe.position);
        match same {
            None => merged.push(ProbeItem {
                name: probe.name.clone(),
                position: probe.position.clone(),
                before: probe.before.clone(),
                after: probe.after.clone(),
                ..*probe
            }),
            Some(earlier) => {
                let _ = write!(earlier.name, "_{}", probe.name);
                earlier.before = joined(&earlier.before, &probe.before, faults);
                earlier.after = joined(&earlier.after, &probe.after, faults);
            }
        }
    }
    merged
}

fn joined(first: &Option<String>, second: &Option<String>, faults: Faults) -> Option<String> {
    let between = match faults {
        Faults::Fixed => "\n",
        Faults::Original => "",
    };
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}{between}{second}")),
        (first, second) => first.clone().or_else(|| second.clone()),
    }
}

/// Returns a TOML string. The text is written with escapes, so that any text is possible.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
