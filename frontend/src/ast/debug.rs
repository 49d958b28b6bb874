//! Debugging information: source files, locations and DWARF sections.

use super::{Id, Ident, List, Name};
use crate::source::Span;

/// `.file index "name" , timestamp, size`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileEntry {
    /// The index that `.loc` uses for the file.
    pub index: u64,
    /// The file's name without its quotes.
    pub name: Ident,
    /// Time of the last modification.
    pub timestamp: Option<u64>,
    /// Size of the file in bytes.
    pub size: Option<u64>,
    /// The whole directive.
    pub span: Span,
}

/// A position in the source file that was compiled to PTX.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SourcePosition {
    /// The index of the file, which its `.file` directive declares.
    pub file: u32,
    /// Line, from one.
    pub line: u32,
    /// Column; zero if unknown.
    pub column: u32,
}

/// The name of an inlined function, as a position in the section `.debug_str`: a label plus an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocationFunction {
    /// The label.
    pub label: Name,
    /// Offset in bytes from the label.
    pub offset: i64,
}

/// A `.loc` directive: the source position of the instructions after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The source position.
    pub position: SourcePosition,
    /// `function_name label + offset`: the position of the inlined function's name in `.debug_str`.
    pub function: Option<LocationFunction>,
    /// `inlined_at file line column`: the source position of the call that was inlined. An earlier `.loc` should have
    /// the same position; see `caller`.
    pub inlined_at: Option<SourcePosition>,
    /// The most recent earlier `.loc` in the same PTX function whose position is `inlined_at`, if there is one. That
    /// `.loc` can be inlined code too, so these references form a chain of callers.
    pub caller: Option<Id<Location>>,
    /// The whole directive.
    pub span: Span,
}

/// `.section name { ... }`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Section {
    /// The name with its dot, such as `.debug_str`.
    pub name: Ident,
    /// The lines in order.
    pub lines: List<DwarfLine>,
    /// The whole directive.
    pub span: Span,
}

/// One line of a DWARF section or of `@@dwarf`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DwarfLine {
    /// `label:`
    Label(Ident),
    /// Values of one size.
    Data {
        /// Bytes per value: 1, 2, 4 or 8.
        bytes: u8,
        /// The values.
        values: List<DwarfValue>,
    },
    /// `@@dwarf .section .name, "flags", @progbits`. The field contains the name, the flags and the word `progbits`.
    Words(List<Ident>),
}

/// One value in a DWARF section.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DwarfValue {
    /// An integer.
    Int(u64),
    /// An address plus an offset. The name is a label, or a section's name with its dot.
    Address(Name, i64),
    /// `end - start`, where both names are labels.
    Difference(Name, Name),
}
