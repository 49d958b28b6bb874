//! Insertions into a text.

use std::ops::Range;

/// Who causes an insertion, for messages about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    /// The index of the kernel among the module's functions.
    pub(super) function: usize,
    /// The index of the probe, or `None` for the code that all probes need.
    pub(super) probe: Option<usize>,
    /// The byte offset in the original text of the instruction, or of the kernel's name.
    pub(super) place: u32,
}

/// Texts to insert, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct Edits {
    list: Vec<(u32, String, Origin)>,
}

impl Edits {
    /// Inserts `text` in front of the byte at `offset`, behind everything that was inserted there before.
    pub(super) fn insert(&mut self, offset: u32, text: impl Into<String>, origin: Origin) {
        self.list.push((offset, text.into(), origin));
    }

    /// Removes what was added after the list had `len` insertions.
    pub(super) fn truncate(&mut self, len: usize) {
        self.list.truncate(len);
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the text with all insertions, and the range of each insertion in the new text.
    pub(super) fn apply(&self, text: &str) -> (String, Vec<(Range<usize>, Origin)>) {
        let mut order: Vec<&(u32, String, Origin)> = self.list.iter().collect();
        order.sort_by_key(|(offset, ..)| *offset);
        let added: usize = order.iter().map(|(_, text, _)| text.len()).sum();
        let mut out = String::with_capacity(text.len() + added);
        let mut ranges = Vec::with_capacity(order.len());
        let mut done = 0;
        for (offset, inserted, origin) in order {
            let offset = *offset as usize;
            out.push_str(text.get(done..offset).unwrap_or_default());
            done = done.max(offset);
            let start = out.len();
            out.push_str(inserted);
            ranges.push((start..out.len(), *origin));
        }
        out.push_str(text.get(done..).unwrap_or_default());
        (out, ranges)
    }
}
