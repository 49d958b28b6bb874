//! What the text of the probes says about registers and fields.

use super::table::Table;
use crate::error::Error;
use crate::model::{Field, Probe};
use crate::snippet::{Piece, Snippet};
use crate::width::Width;

/// Returns the snippets of all probes.
pub(super) fn snippets(probes: &[Probe]) -> impl Iterator<Item = &Snippet> {
    probes
        .iter()
        .flat_map(|probe| [&probe.before, &probe.after].into_iter().flatten())
}

/// Returns the number of scratch registers that the probes use, which can be greater than the number in the file.
pub(crate) fn scratch_registers(probes: &[Probe]) -> u32 {
    snippets(probes)
        .map(Snippet::scratch_registers)
        .max()
        .unwrap_or(0)
}

/// Finds the fields of a map that declares none: the names and widths of the registers that the first `SAVE` stores.
pub(super) fn infer(table: &Table, probes: &[Probe]) -> Result<Vec<Field>, Error> {
    let saves = snippets(probes).flat_map(Snippet::saves);
    let mut saves = saves.filter(|(save, _)| save.map.as_deref() == Some(table.name));
    let Some((save, _)) = saves.next() else {
        return Err(table.error(
            table.line,
            "the map has no `regs`, and no probe saves to it",
        ));
    };
    let field = |(index, operand): (usize, &Vec<Piece>)| Field {
        name: format!("{}{index}", field_name(operand)),
        width: width_of(operand, probes),
    };
    Ok(save.operands.iter().enumerate().map(field).collect())
}

/// Returns the letters of the register's name, so that the field has a name that the probe's writer knows.
pub(super) fn field_name(operand: &[Piece]) -> String {
    let text = match operand {
        [Piece::Name(name), ..] => name.as_str(),
        [Piece::Helper(helper)] => helper.word(),
        _ => "",
    };
    let letters: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
    match letters.trim_start_matches(|c: char| c.is_ascii_digit()) {
        "" => "field".to_owned(),
        letters => format!("{letters}_"),
    }
}

fn width_of(operand: &[Piece], probes: &[Probe]) -> Width {
    let [Piece::Name(name)] = operand else {
        return Width::U64;
    };
    let special = margay_frontend::resolve::special::find(name);
    if special.is_some_and(|special| special.ty.bits() < 64) {
        return Width::U32;
    }
    let mut declared = snippets(probes).flat_map(|snippet| &snippet.declared);
    match declared.find(|declared| declared.declares(name)) {
        Some(declared) if !declared.scalar.ends_with("64") => Width::U32,
        _ => Width::U64,
    }
}
