//! Debugging information: source files, locations and DWARF sections.

use super::{Id, Ident, List, Name};
use crate::source::Span;

/// The directive `.file index "name" , timestamp, size`, which declares a source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileEntry {
    /// The index that `.loc` uses for the file.
    pub index: u64,
    /// The file's name without its quotes.
    pub name: Ident,
    /// The time at which the source file was last changed.
    pub timestamp: Option<u64>,
    /// The size of the source file in bytes.
    pub size: Option<u64>,
    /// The whole directive.
    pub span: Span,
}

/// A position in the source file that was compiled to PTX.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SourcePosition {
    /// The index of the source file, which a `.file` directive declares.
    pub file: u32,
    /// Line, from one.
    pub line: u32,
    /// The number of the column in the line, or zero if the column is unknown.
    pub column: u32,
}

/// The name of an inlined function, as a position in the section `.debug_str`: a label plus an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocationFunction {
    /// The label.
    pub label: Name,
    /// The distance of the name from the label in bytes.
    pub offset: i64,
}

/// A `.loc` directive: the source position of the instructions after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The source position.
    pub position: SourcePosition,
    /// `function_name label + offset`: the position of the inlined function's name in `.debug_str`.
    pub function: Option<LocationFunction>,
    /// `inlined_at file line column`: the source position of the call that was inlined. An earlier
    /// `.loc` directive should have this source position; see `caller`.
    pub inlined_at: Option<SourcePosition>,
    /// The last `.loc` before this one in the same PTX function whose source position is
    /// `inlined_at`, if there is one. Its position can be in an inlined function too, so these
    /// references form a chain of callers.
    pub caller: Option<Id<Location>>,
    /// The whole directive.
    pub span: Span,
}

/// The directive `.section name { ... }`, which contains a DWARF section.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Section {
    /// The section's name with its dot, such as `.debug_str`.
    pub name: Ident,
    /// The lines of the section, in order.
    pub lines: List<DwarfLine>,
    /// The whole directive.
    pub span: Span,
}

/// One line of a DWARF section or of `@@DWARF`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DwarfLine {
    /// `label:`
    Label(Ident),
    /// A list of values that all have the same size.
    Data {
        /// The number of bytes in each value: 1, 2, 4 or 8.
        bytes: u8,
        /// The values.
        values: List<DwarfValue>,
    },
    /// `@@DWARF .section .name, "flags", @progbits`. The field contains the name, the flags and the word `progbits`.
    Words(List<Ident>),
}

/// One value in a DWARF section.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DwarfValue {
    /// An integer.
    Int(u64),
    /// The address of a label or section, plus an offset in bytes. The field `0` is the label's
    /// name, or the section's name with its dot.
    Address(Name, i64),
    /// The difference `end - start` of two labels' addresses; the fields are the names of the
    /// labels.
    Difference(Name, Name),
}
