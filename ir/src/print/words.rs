//! The spelling of modifiers, types, linkage and names, for the printer and the parser.

use crate::function::Linkage;
use margay_ops::mods::{Field, FieldValues, Mods};
use margay_ops::types::OpType;

/// Returns the name that is printed before the value of a modifier field; returns an empty string
/// if no other modifier field has the same value names.
fn key(field: &Field) -> &'static str {
    match field.name {
        "rounding" | "precision" => "",
        "bool_op" => "bool",
        "atom_op" => "op",
        "vec_log2" => "vec",
        "carry_out" => "cc",
        name => name,
    }
}

fn word(field: &Field, value: u64) -> Option<String> {
    if value == 0 {
        return None;
    }
    let key = key(field);
    Some(match field.values {
        FieldValues::Flag => key.to_owned(),
        FieldValues::Number => format!("{key}:{value}"),
        FieldValues::Words(words) => match (key, words.get(value as usize)?) {
            ("", word) => (*word).to_owned(),
            (key, word) => format!("{key}:{word}"),
        },
    })
}

/// Returns the words for the modifiers that are set, in the order of the fields.
pub fn modifier_words(mods: Mods) -> Vec<String> {
    let words = Mods::FIELDS.iter();
    words
        .filter_map(|field| word(field, field.get(mods)))
        .collect()
}

/// Returns `mods` with the modifier that a word sets, or `None` if the word names no modifier.
pub(crate) fn with_modifier(mods: Mods, text: &str) -> Option<Mods> {
    let (before, value) = text.split_once(':').unwrap_or(("", text));
    Mods::FIELDS.iter().find_map(|field| {
        let value = match field.values {
            FieldValues::Flag => (before.is_empty() && key(field) == value).then_some(1)?,
            FieldValues::Number => {
                (before == key(field)).then(|| value.parse().ok().filter(|&n| n != 0))??
            }
            FieldValues::Words(words) => {
                let position = words.iter().position(|word| *word == value)?;
                (before == key(field) && position != 0).then_some(position as u64)?
            }
        };
        field.set(mods, value)
    })
}

/// Returns the name of a type. The name of "no type" is `none`; it is printed if an instruction has
/// a second type but no first type.
pub(crate) fn type_word(ty: OpType) -> &'static str {
    match ty {
        OpType::None => "none",
        ty => ty.name(),
    }
}

/// Returns the type with this name.
pub(crate) fn type_of(word: &str) -> Option<OpType> {
    match word {
        "none" => Some(OpType::None),
        word => OpType::from_name(word),
    }
}

/// Returns the word for a linkage, with a space in front; returns an empty string for the default linkage.
pub(crate) fn linkage_word(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Internal => "",
        Linkage::Visible => " visible",
        Linkage::Extern => " extern",
        Linkage::Weak => " weak",
        Linkage::Common => " common",
    }
}

/// Returns the linkage that a word names.
pub(crate) fn linkage_of(word: &str) -> Option<Linkage> {
    Some(match word {
        "visible" => Linkage::Visible,
        "extern" => Linkage::Extern,
        "weak" => Linkage::Weak,
        "common" => Linkage::Common,
        _ => return None,
    })
}

/// Returns whether a word may contain the character `c`.
pub(crate) fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

/// Returns `@name`, with quotes if the name is not a word.
pub fn name(text: &str) -> String {
    if !text.is_empty() && text.chars().all(in_word) {
        format!("@{text}")
    } else {
        format!("@{}", quoted(text))
    }
}

/// Returns the text in quotes; quotes, backslashes and control characters are escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_ops::mods::{CmpOp, Rounding, StateSpace};

    #[test]
    fn modifiers_read_as_they_are_printed() {
        let mods = Mods::NONE
            .with_rounding(Rounding::Rz)
            .with_cmp(CmpOp::Ltu)
            .with_space(StateSpace::SharedCluster)
            .with_vec_log2(2)
            .with_carry_out(true)
            .with_oob(true);
        let words = modifier_words(mods);
        let expected = [
            "rz",
            "cmp:ltu",
            "cc",
            "space:shared::cluster",
            "vec:2",
            "oob",
        ];
        assert_eq!(words, expected);
        let back = words
            .iter()
            .try_fold(Mods::NONE, |m, w| with_modifier(m, w));
        assert_eq!(back, Some(mods));
        for wrong in ["", ":", "cmp:", "cmp:no", "vec:9", "vec:0", "lt", "x:ftz"] {
            assert_eq!(with_modifier(Mods::NONE, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_value_of_every_field_has_a_word_of_its_own() {
        for field in Mods::FIELDS {
            for value in 1..=field.mask() >> field.mask().trailing_zeros() {
                let Some(mods) = field.set(Mods::NONE, value) else {
                    continue;
                };
                let words = modifier_words(mods);
                assert_eq!(words.len(), 1);
                assert_eq!(with_modifier(Mods::NONE, &words[0]), Some(mods));
            }
        }
    }

    #[test]
    fn names_that_are_no_words_are_quoted() {
        assert_eq!(name("_Z3fooPi$1"), "@_Z3fooPi$1");
        assert_eq!(name("a \"b\"\n"), "@\"a \\\"b\\\"\\u{a}\"");
        assert_eq!(name(""), "@\"\"");
    }
}
