//! Copies and fills that device code requests, in one to three dimensions.

use crate::checks;
use crate::error::{Error, Fault, FaultKind, Result};
use crate::fault::{AccessFault, AccessKind, access};
use crate::memory::Visible;

/// The location of a block of bytes in memory. The block consists of slices, and a slice consists
/// of rows. [`Job::extent`] contains the numbers of rows and slices.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PitchedBox {
    pub(crate) start: u64,
    /// Distance in bytes from one row to the next.
    pub(crate) pitch: u64,
    /// Distance in bytes from one slice to the next.
    pub(crate) slice: u64,
}

impl PitchedBox {
    /// Returns the location of a single row that begins at `start`.
    pub(crate) fn row(start: u64) -> PitchedBox {
        PitchedBox {
            start,
            ..PitchedBox::default()
        }
    }

    /// Returns whether rows or slices of this extent overlap. If they do not overlap, a copy copies
    /// at most as many bytes as the address range that contains its rows has, so its running time
    /// is bounded.
    pub(super) fn overlaps(&self, [width, height, depth]: [u64; 3]) -> bool {
        let rows = height > 1 && self.pitch < width;
        let plane = self.pitch.checked_mul(height);
        let least = plane.map(|plane| plane.max(width).max(1));
        rows || depth > 1 && least.is_none_or(|least| self.slice < least)
    }

    fn at(&self, row: u64, slice: u64) -> u64 {
        let rows = row.wrapping_mul(self.pitch);
        let slices = slice.wrapping_mul(self.slice);
        self.start.wrapping_add(rows).wrapping_add(slices)
    }
}

/// The source of a copy, or the value of a fill.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Bytes(PitchedBox),
    Value(u8),
}

/// A copy or fill that device code has requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) to: PitchedBox,
    pub(crate) from: Source,
    /// Extent of the copy or fill: number of bytes in a row, number of rows in a slice, number of
    /// slices.
    pub(crate) extent: [u64; 3],
}

impl Job {
    /// Performs the copy or fill.
    ///
    /// # Errors
    /// If an address cannot be accessed, returns a fault of `kernel` for the first such address.
    pub(crate) fn run(&self, kernel: &str, visible: Option<&Visible>) -> Result<()> {
        let [width, height, depth] = self.extent;
        // If a range is larger than its memory, the first row outside that memory faults and ends the loops. Rows
        // without bytes never fault, so the function returns here.
        if width == 0 || height == 0 || depth == 0 {
            return Ok(());
        }
        let bytes = usize::try_from(width).map_err(|_| Error::invalid("a width of this size"))?;
        for slice in 0..depth {
            for row in 0..height {
                let to = self.to.at(row, slice);
                let may = |address, access| match visible {
                    Some(visible) => visible.check(address, width, access),
                    None => Ok(()),
                };
                may(to, AccessKind::Write).map_err(|fault| failure(kernel, fault))?;
                if let Source::Bytes(from) = self.from {
                    let from = from.at(row, slice);
                    may(from, AccessKind::Read).map_err(|fault| failure(kernel, fault))?;
                }
                // SAFETY: device code chooses the addresses; an access to inaccessible memory faults and is reported.
                let done = unsafe {
                    match self.from {
                        Source::Bytes(from) => access::copy(to, from.at(row, slice), bytes),
                        Source::Value(value) => access::fill8(to, value, bytes),
                    }
                };
                done.map_err(|fault| failure(kernel, fault))?;
                match self.from {
                    Source::Bytes(from) => {
                        checks::host::copied(to, from.at(row, slice), width, false);
                    }
                    Source::Value(_) => checks::host::written(to, width),
                }
            }
        }
        Ok(())
    }
}

fn failure(kernel: &str, access: AccessFault) -> Error {
    let mut fault = Fault::new(FaultKind::IllegalAddress, kernel)
        .with_detail("a copy or fill that device code requested".to_owned());
    fault.address = Some(access.address);
    fault.write = Some(access.access == AccessKind::Write);
    fault.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_slices_overlap_if_their_distance_is_too_small() {
        let overlaps = |pitch, slice, extent| {
            let place = PitchedBox {
                start: 0,
                pitch,
                slice,
            };
            place.overlaps(extent)
        };
        assert!(!overlaps(0, 0, [1000, 1, 1]));
        assert!(!overlaps(10, 0, [10, 5, 1]));
        assert!(overlaps(9, 0, [10, 5, 1]));
        assert!(!overlaps(10, 50, [10, 5, 2]));
        assert!(overlaps(10, 49, [10, 5, 2]));
        assert!(!overlaps(1, 1000, [1000, 1, 10]));
        assert!(
            overlaps(1, 999, [1000, 1, 10]),
            "the row is longer than a slice"
        );
        assert!(overlaps(0, 0, [0, 0, 2]));
        assert!(overlaps(u64::MAX, 0, [1, 2, 2]));
    }

    #[test]
    fn boxes_keep_what_lies_between_their_rows() {
        crate::fault::install().expect("supported");
        let from: Vec<u8> = (0..64).collect();
        let mut to = vec![0xff; 64];
        let job = Job {
            to: PitchedBox {
                start: to.as_mut_ptr() as u64,
                pitch: 8,
                slice: 32,
            },
            from: Source::Bytes(PitchedBox {
                start: from.as_ptr() as u64,
                pitch: 4,
                slice: 16,
            }),
            extent: [3, 2, 2],
        };
        job.run("k", None).expect("readable");
        let mut wanted = vec![0xff; 64];
        for (slice, row, x) in [0, 1].iter().flat_map(|&s| {
            [0, 1]
                .into_iter()
                .flat_map(move |r| (0..3).map(move |x| (s, r, x)))
        }) {
            wanted[slice * 32 + row * 8 + x] = from[slice * 16 + row * 4 + x];
        }
        assert_eq!(to, wanted);
        let fill = Job {
            to: PitchedBox::row(to.as_mut_ptr() as u64),
            from: Source::Value(7),
            extent: [2, 1, 1],
        };
        fill.run("k", None).expect("writable");
        assert_eq!(to[..3], [7, 7, 2]);
        let bad = Job {
            to: PitchedBox::row(16),
            ..fill
        };
        assert!(
            matches!(bad.run("k", None), Err(Error::Fault(fault)) if fault.address == Some(16))
        );
    }
}
