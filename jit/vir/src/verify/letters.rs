//! The letters of the op table, which describe the types of operands and results.

use margay_ops::types::{Kind, Type};

/// Returns the type of the only value that `letters` describe, if the type of the instruction determines it.
pub(crate) fn type_of(letters: &str, ty: Type) -> Option<Type> {
    match letters {
        "t" => Some(ty),
        "e" => Some(Type::scalar(ty.kind())),
        "p" => Some(Type::PRED),
        "n" => Some(Type::B32),
        "q" => Some(Type::B64),
        _ => None,
    }
}

/// Returns whether a value that `letter` describes may have the type `actual`, if the instruction has the type `ty`.
fn fits(letter: char, ty: Option<Type>, actual: Type) -> bool {
    match (letter, ty) {
        ('p', _) => actual == Type::PRED,
        ('n', _) => actual == Type::B32,
        ('q', _) => actual == Type::B64,
        ('t', Some(ty)) => actual == ty,
        ('e', Some(ty)) => actual == Type::scalar(ty.kind()),
        ('h', Some(ty)) => Some(actual) == Type::vector(ty.kind(), ty.lanes() / 2),
        ('d', Some(ty)) => Some(actual) == Type::vector(ty.kind(), ty.lanes() * 2),
        ('m', Some(ty)) => (actual.kind(), actual.lanes()) == (Kind::Pred, ty.lanes()),
        ('i', Some(ty)) => (actual.kind(), actual.lanes()) == (Kind::B32, ty.lanes()),
        ('o', Some(ty)) => {
            matches!(actual.kind(), Kind::B32 | Kind::B64) && actual.lanes() == ty.lanes()
        }
        _ => false,
    }
}

/// Checks the types of operands or results against the letters of an op. `*` must be the last letter.
pub(crate) fn check(
    letters: &str,
    ty: Option<Type>,
    actual: &[Type],
    what: &str,
) -> Result<(), String> {
    let mut rest = actual;
    let mut letters = letters.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '*' {
            return Ok(());
        }
        let is_optional = letters.next_if_eq(&'?').is_some();
        match rest {
            [first, others @ ..] if fits(letter, ty, *first) => rest = others,
            [] if is_optional => {}
            [] => return Err(format!("has {} {what}s", actual.len())),
            [first, ..] => return Err(format!("{what} {} is {first}", actual.len() - rest.len())),
        }
    }
    match rest {
        [] => Ok(()),
        _ => Err(format!("has {} {what}s", actual.len())),
    }
}
