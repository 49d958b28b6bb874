//! Textures and surfaces. The simulator reads no addresses of these instructions.

use super::Subject;
use super::opcode::Class;
use super::step::{Steps, one, reading};

/// Returns the lines of an access to a texture or a surface.
pub(super) fn steps(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    let architecture = subject.architecture;
    Some(match op.head {
        // Integer coordinates are not filtered.
        "tex" if op.ty().class == Class::Signed => one("TLD"),
        "tex" => one("TEX"),
        "tld4" => one("TLD4"),
        "txq" => one("TXQ"),
        "suq" if architecture.is_ampere() => one("SUQUERY"),
        "suq" => one("TXQ"),
        "suld" if architecture.is_turing() => one("SULD"),
        "sust" if architecture.is_turing() => reading("SUST"),
        "sured" if architecture.is_turing() => reading("SURED"),
        "suld" => one("TLD"),
        "sust" | "sured" => reading("TLD"),
        _ => return None,
    })
}
