//! Counts images of device code, and determines for which compute capability most of them contain PTX.
//!
//! An *image* is a fat binary of a library or program, a cubin file or a PTX file: the code of one source file, for
//! one or several architectures. A program registers all its images. Libraries with one image for each architecture
//! choose an image by the compute capability that the device reports.

use std::collections::{BTreeMap, HashMap};

use margay::container::{EntryInfo, EntryKind};
use serde_json::{Value, json};

/// A compute capability above the architectures of all known machine code: a library that has machine code for each
/// architecture, and PTX for the others, then chooses PTX.
const ABOVE_MACHINE_CODE: u32 = 130;

/// The images of a file or package, grouped by their entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    images: HashMap<Vec<EntryInfo>, u64>,
}

/// Numbers of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Images with PTX.
    pub(super) ptx: u64,
    /// Images with machine code and without PTX.
    pub(super) machine: u64,
    /// Images with link-time code or unknown code only.
    pub(super) other: u64,
}

impl Count {
    fn add(&mut self, entries: &[EntryInfo], number: u64) {
        let has = |kind| entries.iter().any(|entry| entry.kind == kind);
        match (has(EntryKind::Ptx), has(EntryKind::Cubin)) {
            (true, _) => self.ptx += number,
            (_, true) => self.machine += number,
            _ => self.other += number,
        }
    }

    /// Returns the number of images with PTX or machine code.
    pub(super) fn code(self) -> u64 {
        self.ptx + self.machine
    }

    /// Returns whether a larger share of the images has PTX than of the images of `other`.
    fn is_better_than(self, other: Count) -> bool {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let (own, others) = (
            product(self.ptx, other.code()),
            product(other.ptx, self.code()),
        );
        own > others || own == others && self.ptx > other.ptx
    }
}

impl Tally {
    pub(super) fn add(&mut self, mut entries: Vec<EntryInfo>) {
        entries.sort_by_key(|entry| (entry.sm, entry.target(), entry.kind != EntryKind::Ptx));
        *self.images.entry(entries).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        for (entries, number) in &other.images {
            *self.images.entry(entries.clone()).or_default() += number;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    pub(super) fn count(&self) -> Count {
        let mut count = Count::default();
        for (entries, &number) in &self.images {
            count.add(entries, number);
        }
        count
    }

    /// Counts the images that a program uses on a device with the compute capability `capability` (86 means 8.6): those
    /// that the device accepts, and images of machine code for several older architectures, for which the program has no
    /// replacement. An image with PTX counts as one with PTX even if the device would prefer its machine code, because
    /// Margay compiles the PTX.
    pub(super) fn at(&self, capability: u32) -> Count {
        let mut count = Count::default();
        let accepted = |entries: &[EntryInfo]| entries.iter().any(|e| e.runs_on(capability));
        let is_old = |entries: &[EntryInfo]| {
            let sms = || entries.iter().map(|entry| entry.sm);
            sms().max() != sms().min() && sms().max() < Some(capability)
        };
        let used = |entries: &[EntryInfo]| accepted(entries) || is_old(entries);
        for (entries, &number) in self.images.iter().filter(|(entries, _)| used(entries)) {
            count.add(entries, number);
        }
        count
    }

    /// Returns the compute capability from `capability` for which the largest share of the used images contains PTX, with
    /// the counts for it. Prefers lower ones. (Devices with a capability below the reported one lack features that the
    /// program may need.) Returns `None` if no image contains PTX.
    pub(super) fn best(&self, capability: u32) -> Option<(u32, Count)> {
        let entries = self.images.keys().flatten();
        let mut candidates: Vec<u32> = entries.map(|entry| entry.sm).collect();
        candidates.extend([capability, ABOVE_MACHINE_CODE]);
        candidates.retain(|&candidate| candidate >= capability);
        candidates.sort_unstable();
        candidates.dedup();
        let mut best: Option<(u32, Count)> = None;
        for candidate in candidates {
            let count = self.at(candidate);
            let is_better = best.is_none_or(|(_, best)| count.is_better_than(best));
            if count.ptx > 0 && is_better {
                best = Some((candidate, count));
            }
        }
        best
    }

    /// Returns for each target of entries of the kind `kind` the number of images that contain such an entry.
    pub(super) fn targets(&self, kind: EntryKind) -> BTreeMap<(u32, String), u64> {
        let mut targets = BTreeMap::new();
        for (entries, &number) in &self.images {
            let of_kind = entries.iter().filter(|entry| entry.kind == kind);
            let mut names: Vec<(u32, String)> = of_kind.map(|e| (e.sm, e.target())).collect();
            names.dedup();
            for name in names {
                *targets.entry(name).or_default() += number;
            }
        }
        targets
    }

    /// Returns the targets of the kind `kind` as text, with the number of images for each.
    pub(super) fn targets_text(&self, kind: EntryKind) -> String {
        let targets = self.targets(kind);
        let words = targets
            .iter()
            .map(|((_, name), number)| format!("{name} {number}"));
        words.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn to_json(&self, capability: u32) -> Value {
        let targets = |kind| -> serde_json::Map<String, Value> {
            let targets = self.targets(kind).into_iter();
            targets
                .map(|((_, name), number)| (name, json!(number)))
                .collect()
        };
        let count = self.count();
        json!({
            "images": count.code() + count.other,
            "with_ptx": count.ptx,
            "machine_code_only": count.machine,
            "other": count.other,
            "ptx": targets(EntryKind::Ptx),
            "machine_code": targets(EntryKind::Cubin),
            "link_time_code": targets(EntryKind::Lto),
            "at": at_json(capability, self.at(capability)),
            "best": self.best(capability).map(|(capability, count)| at_json(capability, count)),
        })
    }
}

fn at_json(capability: u32, count: Count) -> Value {
    json!({
        "capability": dotted(capability),
        "with_ptx": count.ptx,
        "machine_code_only": count.machine,
    })
}

/// Returns a compute capability as `margay run --capability` accepts it.
pub(super) fn dotted(capability: u32) -> String {
    format!("{}.{}", capability / 10, capability % 10)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use margay::container::EntryFlags;

    pub(in crate::doctor) fn entry(kind: EntryKind, sm: u32, flags: u64) -> EntryInfo {
        EntryInfo {
            kind,
            sm,
            version: (1, 0),
            flags: EntryFlags(flags),
            source_name: None,
            options: None,
        }
    }

    fn ptx(sm: u32) -> EntryInfo {
        entry(EntryKind::Ptx, sm, 0)
    }

    fn cubin(sm: u32) -> EntryInfo {
        entry(EntryKind::Cubin, sm, 0)
    }

    const fn counted(ptx: u64, machine: u64) -> Count {
        Count {
            ptx,
            machine,
            other: 0,
        }
    }

    #[test]
    fn a_library_with_an_image_for_each_architecture() {
        let mut tally = Tally::default();
        // The machine code of one architecture in each image, and PTX for the newest: cuRAND 13 has this form.
        for sm in [75, 80, 86, 90, 120] {
            tally.add(vec![cubin(sm)]);
        }
        tally.add(vec![ptx(75)]);
        tally.add(vec![ptx(90)]);
        assert_eq!(tally.count(), counted(2, 5));
        assert_eq!(tally.at(86), counted(1, 2));
        assert_eq!(tally.at(89), counted(1, 2));
        assert_eq!(tally.at(90), counted(2, 1));
        assert_eq!(tally.at(70), counted(0, 0));
        assert_eq!(tally.best(86), Some((130, counted(2, 0))));
    }

    #[test]
    fn the_reported_capability_is_kept_if_none_is_better() {
        let mut tally = Tally::default();
        tally.add(vec![cubin(80), cubin(90), ptx(90), cubin(120)]);
        assert_eq!(
            tally.at(86),
            counted(1, 0),
            "its PTX replaces the machine code"
        );
        assert_eq!(tally.best(86), Some((86, counted(1, 0))));
        tally.add(vec![cubin(80)]);
        assert_eq!(tally.at(86), counted(1, 1));
        assert_eq!(tally.best(86), Some((90, counted(1, 0))));
        let mut machine = Tally::default();
        machine.add(vec![cubin(80), cubin(90)]);
        assert_eq!(machine.best(86), None);
        assert_eq!(machine.at(75), counted(0, 0));
        assert_eq!(
            machine.at(130),
            counted(0, 1),
            "the program has no other image"
        );
    }

    #[test]
    fn code_of_one_architecture_or_family_is_accepted_there_only() {
        const ARCHITECTURE: u64 = 0x10_0000;
        const FAMILY: u64 = 0x20_0000;
        let accepts = |entry: EntryInfo| {
            let all = [80, 86, 90, 100, 103, 110, 120];
            all.into_iter()
                .filter(|&c| entry.runs_on(c))
                .collect::<Vec<_>>()
        };
        assert_eq!(accepts(cubin(80)), [80, 86]);
        assert_eq!(accepts(ptx(90)), [90, 100, 103, 110, 120]);
        assert_eq!(accepts(entry(EntryKind::Cubin, 90, ARCHITECTURE)), [90]);
        assert_eq!(accepts(entry(EntryKind::Ptx, 90, ARCHITECTURE)), [90]);
        assert_eq!(accepts(entry(EntryKind::Ptx, 100, FAMILY)), [100, 103]);
    }

    #[test]
    fn targets_are_counted_once_an_image() {
        let mut tally = Tally::default();
        tally.add(vec![cubin(120), ptx(120), cubin(80)]);
        tally.add(vec![cubin(80), entry(EntryKind::Cubin, 90, 0x10_0000)]);
        tally.add(vec![entry(EntryKind::Lto, 80, 0)]);
        assert_eq!(
            tally.targets_text(EntryKind::Cubin),
            "sm_80 2, sm_90a 1, sm_120 1"
        );
        assert_eq!(tally.targets_text(EntryKind::Ptx), "sm_120 1");
        assert_eq!(tally.count().other, 1);
        assert_eq!(tally.to_json(86)["images"], 3);
    }
}
