//! Fills of device memory.

use super::{SHORT, inaccessible, overflow, place_of, rows_of, within};
use crate::checks::{self, Rows};
use crate::context::Context;
use crate::divided::{self, Helpers};
use crate::error::{Error, Result};
use crate::fault::access;
use crate::observe::HostEvent;

/// A fill of one or more rows.
///
/// ```
/// use margay::copy::Fill;
///
/// // Four words with the value 7, in one row.
/// let fill = Fill { dst: 0x1000, value: 7, width: 4, count: 4, rows: 1, pitch: 0 };
/// assert_eq!(fill.width as u64 * fill.count, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Address of the first byte that is written.
    pub dst: u64,
    /// The value of each element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub width: u32,
    /// Elements in a row.
    pub count: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of bytes from the start of a row to the start of the next row.
    pub pitch: u64,
}

impl Fill {
    /// Returns the event of the fill for tools that observe the runtime ([`crate::observe`]).
    /// `work` is the number of the work, and `stream` the ID of the fill's stream; `None` for a node of a graph.
    pub(crate) fn event(
        &self,
        work: u64,
        context: &Context,
        stream: Option<u64>,
    ) -> HostEvent<'static> {
        HostEvent::Fill {
            work,
            value: self.value,
            bytes: u64::from(self.width) * self.count * self.rows,
            to: self.dst,
            place: place_of(context, self.dst),
            stream,
            context: context.id(),
            device: context.ordinal(),
        }
    }

    /// Returns an error if the arguments of the fill are invalid, or if the filled memory is not
    /// inside an allocation. Otherwise, returns whether the fill has at least one byte.
    pub(crate) fn check(&self, context: &Context) -> Result<bool> {
        if !matches!(self.width, 1 | 2 | 4) {
            return Err(Error::invalid(format!("element width {}", self.width)));
        }
        let width = u64::from(self.width);
        let row = self.count.checked_mul(width).ok_or_else(overflow)?;
        let several = self.rows > 1;
        if !self.dst.is_multiple_of(width) || (several && !self.pitch.is_multiple_of(width)) {
            return Err(Error::invalid("the fill is not aligned to its element"));
        }
        if several && self.pitch < row {
            return Err(Error::invalid("the pitch is smaller than a row"));
        }
        if row == 0 || self.rows == 0 {
            return Ok(false);
        }
        let last = self.pitch.checked_mul(self.rows - 1);
        let span = last.ok_or_else(overflow)?.checked_add(row);
        within(context, self.dst, span.ok_or_else(overflow)?, true)?;
        Ok(true)
    }

    /// Returns whether the fill has at most [`SHORT`] bytes. Such a fill takes less time than
    /// passing it to another thread.
    pub(crate) fn is_short(&self) -> bool {
        let row = self.count.saturating_mul(u64::from(self.width));
        row.saturating_mul(self.rows) <= SHORT
    }

    /// Returns the bytes that the fill writes.
    pub(crate) fn rows(&self) -> Rows {
        Rows {
            start: self.dst,
            width: self.count * u64::from(self.width),
            height: self.rows,
            pitch: self.pitch,
            depth: 1,
            slice: 0,
        }
    }

    /// Fills the memory. Other threads help with a large fill.
    pub(crate) fn run(self, helpers: Helpers<'_>) -> Result<()> {
        let _unblocked = crate::fault::keep_for_copy();
        let _zones = checks::host::Zones::of([self.dst]);
        let row = self.count * u64::from(self.width);
        divided::perform(helpers, row * self.rows, move |range| {
            for (at, start, bytes) in rows_of(range, row) {
                self.fill(self.dst + at * self.pitch + start, bytes)?;
            }
            Ok(())
        })?;
        for at in 0..self.rows {
            checks::host::written(self.dst + at * self.pitch, row);
        }
        Ok(())
    }

    /// Fills `bytes` bytes at `dst`. Both are multiples of the size of an element.
    fn fill(&self, dst: u64, bytes: u64) -> Result<()> {
        let count = (bytes / u64::from(self.width)) as usize;
        // SAFETY: the range was looked up as memory of this runtime when the fill was submitted. If it has been freed
        // since, the access faults, and the fault is returned as an error.
        let outcome = unsafe {
            match self.width {
                1 => access::fill8(dst, self.value as u8, count),
                2 => access::fill16(dst, self.value as u16, count),
                _ => access::fill32(dst, self.value, count),
            }
        };
        outcome.map_err(inaccessible)
    }
}
