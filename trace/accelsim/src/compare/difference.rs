//! What differs between two traces, and where.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::addresses::Addresses;
use crate::dim::Dim3;
use crate::grouped::Item;
use crate::header::{Header, LineFormat};
use crate::instruction::Instruction;
use crate::list::Command;

/// The place of a difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The two files.
    pub files: (PathBuf, PathBuf),
    /// The CTA, if the difference is in one.
    pub cta: Option<Dim3>,
    /// The warp, if the difference is in one.
    pub warp: Option<u32>,
    /// The number of the instruction in its warp, from 0.
    pub index: Option<u64>,
    /// The lines of the decompressed text in the two files. 0 if unknown.
    pub lines: (u64, u64),
}

impl Place {
    pub(super) fn new(first: &Path, second: &Path) -> Place {
        Place {
            files: (first.to_owned(), second.to_owned()),
            cta: None,
            warp: None,
            index: None,
            lines: (0, 0),
        }
    }

    /// Goes to the next part of the first file.
    pub(super) fn enter(&mut self, item: &Option<Item>) {
        match item {
            Some(Item::Cta { cta, .. }) => {
                (self.cta, self.warp, self.index) = (Some(*cta), None, None)
            }
            Some(Item::Warp { warp, .. }) => (self.warp, self.index) = (Some(*warp), Some(0)),
            Some(Item::EndCta) => (self.warp, self.index) = (None, None),
            Some(Item::Instruction(_)) => {}
            None => (self.cta, self.warp, self.index) = (None, None, None),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = (self.files.0.display(), self.files.1.display());
        write!(f, "{first}:{} and {second}:{}", self.lines.0, self.lines.1)?;
        if let Some(cta) = self.cta {
            write!(f, ", CTA {cta}")?;
        }
        if let Some(warp) = self.warp {
            write!(f, ", warp {warp}")?;
        }
        if let Some(index) = self.index {
            write!(f, ", instruction {index}")?;
        }
        Ok(())
    }
}

/// The first difference of two traces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Where it is.
    pub place: Place,
    /// What differs, for example `mask`.
    pub what: &'static str,
    /// The value in the first trace.
    pub first: String,
    /// The value in the second trace.
    pub second: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            place,
            what,
            first,
            second,
        } = self;
        write!(f, "{place}: {what}: {first} and {second}")
    }
}

impl Difference {
    pub(super) fn new(
        place: Place,
        what: &'static str,
        first: String,
        second: String,
    ) -> Difference {
        Difference {
            place,
            what,
            first,
            second,
        }
    }

    /// The numbers of kernels differ.
    pub(super) fn count(first: usize, second: usize) -> Difference {
        let place = Place::new(Path::new(""), Path::new(""));
        let (first, second) = (first.to_string(), second.to_string());
        Difference::new(place, "number of kernels", first, second)
    }

    /// The commands of two lists differ.
    pub(super) fn of_lists(
        list: &Path,
        first: Option<&Command>,
        second: Option<&Command>,
    ) -> Difference {
        let text = |command: Option<&Command>| match command {
            Some(command) => format!("{command:?}"),
            None => "nothing".to_owned(),
        };
        let place = Place::new(list, list);
        Difference::new(place, "command", text(first), text(second))
    }
}

/// What differs, and the two values.
pub(super) type Values = (&'static str, String, String);

/// Compares a row of values.
macro_rules! first_difference {
    ($($what:literal: $first:expr, $second:expr;)*) => {{
        $(if $first != $second {
            return Some(($what, format!("{:?}", $first), format!("{:?}", $second)));
        })*
    }};
}

/// Returns the first difference of the headers, without the names and versions of the tracers.
pub(super) fn headers(place: &Place, first: &Header, second: &Header) -> Option<Difference> {
    let (what, first, second) = header_values(first, second)?;
    Some(Difference::new(place.clone(), what, first, second))
}

fn header_values(first: &Header, second: &Header) -> Option<Values> {
    first_difference! {
        "kernel name": first.kernel_name, second.kernel_name;
        "kernel id": first.kernel_id, second.kernel_id;
        "grid": first.grid, second.grid;
        "block": first.block, second.block;
        "shared memory": first.shared_bytes, second.shared_bytes;
        "registers": first.registers, second.registers;
        "binary version": first.binary_version, second.binary_version;
        "stream": first.stream, second.stream;
        "shared base": first.shared_base, second.shared_base;
        "local base": first.local_base, second.local_base;
    }
    None
}

/// Returns the difference of two parts that are not both instructions.
pub(super) fn items(first: &Option<Item>, second: &Option<Item>) -> Option<Values> {
    let is_same = match (first, second) {
        // Only some forms and versions have the cluster.
        (Some(Item::Cta { cta, .. }), Some(Item::Cta { cta: other, .. })) => cta == other,
        _ => first == second,
    };
    let what = match first {
        Some(Item::Warp { .. }) => "warp",
        _ => "CTA",
    };
    (!is_same).then(|| (what, describe(first), describe(second)))
}

fn describe(item: &Option<Item>) -> String {
    match item {
        Some(Item::Cta { cta, .. }) => format!("CTA {cta}"),
        Some(Item::Warp { warp, instructions }) => {
            format!("warp {warp} with {instructions} instructions")
        }
        Some(Item::Instruction(instruction)) => format!("instruction {}", instruction.opcode),
        Some(Item::EndCta) => "the end of the CTA".to_owned(),
        None => "the end of the file".to_owned(),
    }
}

/// Returns the first difference of two instructions as far as both files can express it.
pub(super) fn fields(
    first: &Instruction,
    second: &Instruction,
    formats: (LineFormat, LineFormat),
) -> Option<Values> {
    first_difference! {
        "pc": first.pc, second.pc;
        "mask": first.mask, second.mask;
        "opcode": first.opcode, second.opcode;
        "destination": first.destination, second.destination;
        "sources": first.sources, second.sources;
        "width": first.width, second.width;
    }
    if first.addresses != second.addresses {
        let lanes = (lanes(first), lanes(second));
        if lanes.0 != lanes.1 {
            return Some(("addresses", hex(&lanes.0), hex(&lanes.1)));
        }
    }
    let version = formats.0.version.min(formats.1.version);
    if formats.0.line_numbers && formats.1.line_numbers {
        first_difference! { "source line": first.line, second.line; }
    }
    if version >= 4 {
        first_difference! { "immediate": first.immediate, second.immediate; }
    }
    if version >= 6 {
        first_difference! { "columns of version 6": first.extra, second.extra; }
    }
    None
}

fn lanes(instruction: &Instruction) -> Vec<u64> {
    let addresses = instruction.addresses.as_ref();
    let lanes = addresses.map(|addresses: &Addresses| addresses.lanes(instruction.mask));
    lanes
        .into_iter()
        .flatten()
        .map(|(_, address)| address)
        .collect()
}

fn hex(addresses: &[u64]) -> String {
    let texts: Vec<_> = addresses
        .iter()
        .map(|address| format!("{address:#x}"))
        .collect();
    texts.join(" ")
}
