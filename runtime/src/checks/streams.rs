//! Races between work of different streams: races of launches with copies and fills of the host,
//! and races between copies and fills.

use std::sync::Arc;

use super::finding::{Access, Finding, Other};
use super::kind::Kind;
use super::shadow::SiteInfo;
use super::{Place, ThreadPlace};

/// The bytes that a copy or a fill reads or writes. The bytes form rows of equal width at equal
/// distances. Rows form slices, which are also at equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rows {
    /// The address of the first byte.
    pub(crate) start: u64,
    /// Number of bytes of a row.
    pub(crate) width: u64,
    /// Number of rows of a slice.
    pub(crate) height: u64,
    /// Number of bytes from the start of a row to the start of the next row.
    pub(crate) pitch: u64,
    /// Number of slices.
    pub(crate) depth: u64,
    /// Number of bytes from the start of a slice to the start of the next slice.
    pub(crate) slice: u64,
}

impl Rows {
    /// Returns one row of `bytes` bytes at `start`.
    pub(crate) fn of(start: u64, bytes: u64) -> Rows {
        Rows {
            start,
            width: bytes,
            height: 1,
            pitch: bytes,
            depth: 1,
            slice: 0,
        }
    }

    /// Returns the address and the length of each row. Contiguous rows are returned as one row.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u64, u64)> {
        let rows = *self;
        let (width, height) = match rows.pitch == rows.width || rows.height == 1 {
            true => (rows.width * rows.height, 1),
            false => (rows.width, rows.height),
        };
        (0..rows.depth).flat_map(move |slice| {
            let start = rows.start + slice * rows.slice;
            (0..height).map(move |row| (start + row * rows.pitch, width))
        })
    }

    /// Returns the address after the last byte.
    pub(crate) fn end(&self) -> u64 {
        let slices = self.depth.saturating_sub(1) * self.slice;
        let rows = self.height.saturating_sub(1) * self.pitch;
        self.start + slices + rows + self.width
    }

    /// Returns the address of the first byte that is both in a row and in the range of `bytes` bytes at `address`.
    pub(crate) fn first_common(&self, address: u64, bytes: u64) -> Option<u64> {
        let end = address + bytes;
        (0..self.depth).find_map(|slice| {
            let start = self.start + slice * self.slice;
            let pitch = self.pitch.max(1);
            // The last row that starts at or before the address, and the next row.
            let row = (address.saturating_sub(start) / pitch).min(self.height.saturating_sub(1));
            [row, row + 1].into_iter().find_map(|row| {
                let from = start + row * self.pitch;
                let first = address.max(from);
                let is_row = row < self.height;
                (is_row && first < end && first < from + self.width).then_some(first)
            })
        })
    }
}

/// An access of a copy, a fill or a native kernel.
#[derive(Clone, Debug)]
pub(crate) struct HostAccess {
    /// The ID of the copy or fill.
    pub(crate) work: u32,
    /// The bytes.
    pub(crate) rows: Rows,
    /// Whether the copy or fill writes the bytes.
    pub(crate) writes: bool,
    /// The name of this kind of operation in reports.
    pub(crate) what: &'static str,
    /// The name of the native kernel; `None` for copies and fills.
    pub(crate) kernel: Option<Arc<str>>,
}

impl HostAccess {
    fn access(&self) -> Access {
        match self.writes {
            true => Access::Write,
            false => Access::Read,
        }
    }

    /// Returns the finding about a race between this copy or fill and the access of `thread` by the
    /// instruction `site`. `address` is the first common byte.
    pub(crate) fn race_with(
        &self,
        site: &SiteInfo,
        thread: ThreadPlace,
        (address, allocation): (u64, Option<String>),
    ) -> Finding {
        let access = Access::of(site.access.mode);
        let mut finding = self.race(access, address, allocation);
        finding.kernel = Some(site.kernel.to_string());
        finding.place = site.place.clone();
        finding.size = Some(u64::from(site.access.bytes));
        finding.thread = Some(thread);
        finding
    }

    /// Returns the finding about a race between this copy or fill and the copy or fill `other`.
    /// `address` is the first common byte.
    pub(crate) fn race_with_host(
        &self,
        other: &HostAccess,
        (address, allocation): (u64, Option<String>),
    ) -> Finding {
        let mut finding = self.race(other.access(), address, allocation);
        finding.kernel = other.kernel.as_deref().map(str::to_owned);
        finding
    }

    fn race(&self, access: Access, address: u64, allocation: Option<String>) -> Finding {
        let text = format!(
            "Race reported between {} access and {} access to __global__ memory",
            access.title(),
            self.access().title()
        );
        let mut finding = Finding::new(Kind::Race, text);
        let kernel = self.kernel.as_deref();
        let name = kernel.map_or_else(String::new, |name| format!(" {name}"));
        finding.explanation = Some(format!("the other access belongs to {}{name}", self.what));
        finding.access = Some(access);
        finding.space = Some("__global__");
        finding.address = Some(address);
        finding.allocation = allocation;
        finding.other = Some(Box::new(Other {
            kernel: kernel.map(str::to_owned),
            place: Place::default(),
            access: self.access(),
            thread: None,
        }));
        finding.missing = Some("stream order");
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_contain_no_bytes_between_them() {
        let rows = Rows {
            start: 100,
            width: 4,
            height: 3,
            pitch: 16,
            depth: 2,
            slice: 100,
        };
        assert_eq!(rows.each().count(), 6);
        assert_eq!(rows.end(), 236);
        assert_eq!(rows.first_common(90, 10), None);
        assert_eq!(rows.first_common(90, 11), Some(100));
        assert_eq!(rows.first_common(104, 12), None);
        assert_eq!(rows.first_common(104, 13), Some(116));
        assert_eq!(rows.first_common(136, 10), None);
        assert_eq!(rows.first_common(136, 100), Some(200));
        assert_eq!(rows.first_common(500, 8), None);
    }

    #[test]
    fn rows_side_by_side_are_one() {
        let rows = Rows {
            start: 100,
            width: 16,
            height: 3,
            pitch: 16,
            depth: 1,
            slice: 48,
        };
        assert_eq!(rows.each().collect::<Vec<_>>(), [(100, 48)]);
        assert_eq!(rows.first_common(120, 8), Some(120));
    }
}
