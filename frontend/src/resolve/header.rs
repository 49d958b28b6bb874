//! Checks `.version` and `.target`: valid values and valid combinations.

use super::check::Sink;
use crate::Parsed;
use crate::ast::{Ident, Version};
use crate::code::Code;
use crate::diagnostic::Diagnostic;

/// For each major version of PTX, its last minor version, as pairs (major, minor).
const LAST_MINOR: [(u32, u32); 9] = [
    (1, 5),
    (2, 3),
    (3, 2),
    (4, 3),
    (5, 1),
    (6, 5),
    (7, 8),
    (8, 8),
    (9, 5),
];

/// The number of each architecture, and the PTX version (major, minor) that introduced it.
const TARGETS: &[(&str, u32, u32)] = &[
    ("10", 1, 0),
    ("11", 1, 0),
    ("12", 1, 2),
    ("13", 1, 2),
    ("20", 2, 0),
    ("21", 2, 0),
    ("30", 3, 0),
    ("32", 4, 0),
    ("35", 3, 1),
    ("37", 4, 1),
    ("50", 4, 0),
    ("52", 4, 1),
    ("53", 4, 2),
    ("60", 5, 0),
    ("61", 5, 0),
    ("62", 5, 0),
    ("70", 5, 1),
    ("72", 6, 1),
    ("75", 6, 3),
    ("80", 7, 0),
    ("82", 6, 2),
    ("86", 7, 1),
    ("87", 7, 4),
    ("88", 9, 0),
    ("89", 7, 8),
    ("90", 7, 8),
    ("90a", 8, 0),
    ("100", 8, 6),
    ("100a", 8, 6),
    ("100f", 8, 8),
    ("101", 8, 6),
    ("101a", 8, 6),
    ("101f", 8, 8),
    ("103", 8, 8),
    ("103a", 8, 8),
    ("103f", 8, 8),
    ("107", 9, 4),
    ("107a", 9, 4),
    ("107f", 9, 4),
    ("110", 9, 0),
    ("110a", 9, 0),
    ("110f", 9, 0),
    ("120", 8, 7),
    ("120a", 8, 7),
    ("120f", 8, 8),
    ("121", 8, 8),
    ("121a", 8, 8),
    ("121f", 8, 8),
];

/// The words of `.target` that are options and not architectures.
const OPTIONS: [&str; 4] = [
    "texmode_unified",
    "texmode_independent",
    "debug",
    "map_f64_to_f32",
];

/// The properties of a module's header that other checks need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The PTX version of the module; the newest version if the header states none.
    pub(super) version: Version,
    /// The number of the target architecture without its suffix letter; the newest architecture if
    /// the header states none.
    pub(super) architecture: u32,
    /// Whether the header has `.target texmode_independent`: in such modules, textures and samplers
    /// are separate variables.
    pub(super) independent_textures: bool,
    /// Whether the header has `.target debug`, so that the module must contain debugging
    /// information.
    pub(super) debug: bool,
}

/// Checks the header of a module, adds the problems to `sink`, and returns the properties of the
/// header.
pub(super) fn check(parsed: &Parsed, sink: &mut Sink) -> Header {
    let module = &parsed.module;
    let mut header = Header {
        version: Version { major: 9, minor: 5 },
        architecture: 121,
        independent_textures: false,
        debug: false,
    };
    if let Some((version, span)) = module.version {
        header.version = version;
        if !is_known(version) {
            let message = format!("PTX {}.{} is not known", version.major, version.minor);
            sink.report(
                Diagnostic::error(Code::UNSUPPORTED_VERSION, span, message)
                    .with_note("the newest version is 9.5"),
            );
        }
    }
    if let Some((_, span)) = module.address_size
        && header.version < (Version { major: 2, minor: 3 })
    {
        sink.report(Diagnostic::error(
            Code::FEATURE_VERSION,
            span,
            "`.address_size` needs PTX 2.3 or later",
        ));
    }
    let mut unified_textures = false;
    let words = module.target.as_ref().map(|t| &module[t.words]);
    for (i, word) in words.unwrap_or_default().iter().enumerate() {
        let text = module.text(word.name);
        match text {
            "texmode_independent" => header.independent_textures = true,
            "texmode_unified" => unified_textures = true,
            "debug" => header.debug = true,
            _ => {}
        }
        if unified_textures && header.independent_textures {
            let message = "`texmode_unified` and `texmode_independent` exclude each other";
            sink.report(Diagnostic::error(Code::DIRECTIVE_VALUE, word.span, message));
            unified_textures = false;
        }
        if !OPTIONS.contains(&text) || i == 0 {
            architecture(text, word, &mut header, sink);
        }
    }
    let mut words = words.unwrap_or_default().iter();
    let mapped = words.find(|word| module.text(word.name) == "map_f64_to_f32");
    if let Some(word) = mapped.filter(|_| header.architecture >= 13) {
        let message = "`map_f64_to_f32` is for targets below `sm_13`";
        sink.report(Diagnostic::error(Code::DIRECTIVE_VALUE, word.span, message));
    }
    header
}

fn is_known(version: Version) -> bool {
    LAST_MINOR
        .iter()
        .any(|&(major, last)| version.major == major && version.minor <= last)
}

fn architecture(text: &str, word: &Ident, header: &mut Header, sink: &mut Sink) {
    let name = text
        .strip_prefix("sm_")
        .or_else(|| text.strip_prefix("compute_"));
    let row = name.and_then(|name| TARGETS.iter().find(|row| row.0 == name));
    let Some(&(name, major, minor)) = row else {
        sink.report(Diagnostic::error(
            Code::UNSUPPORTED_TARGET,
            word.span,
            format!("`{text}` is not a known target"),
        ));
        return;
    };
    header.architecture = name
        .trim_end_matches(['a', 'f'])
        .parse()
        .unwrap_or(header.architecture);
    if header.version < (Version { major, minor }) {
        let message = format!("`{text}` needs PTX {major}.{minor} or later");
        sink.report(Diagnostic::error(
            Code::TARGET_NEEDS_VERSION,
            word.span,
            message,
        ));
    }
}
