//! Fills (`cuMemset*`).

use margay::{DevicePtr, PointerKind, Runtime, Stream};

use super::pointer::is_synchronous;
use crate::checking;
use crate::guard::Call;
use crate::handles::stream;
use crate::result::{CuResult, Served};
use crate::types::CUstream;

/// A fill of one or more rows.
#[derive(Clone, Copy)]
struct Fill {
    dst: u64,
    pitch: usize,
    value: u32,
    element: u32,
    count: usize,
    rows: usize,
}

impl Fill {
    /// Returns a fill of a single row: `count` elements of `element` bytes.
    fn linear(dst: u64, value: u32, element: u32, count: usize) -> Fill {
        Fill {
            dst,
            pitch: 0,
            value,
            element,
            count,
            rows: 1,
        }
    }

    fn run(self, stream: &Stream) -> Served {
        if self.count == 0 || self.rows == 0 {
            return Ok(());
        }
        let row = self.count.checked_mul(self.element as usize);
        let row = row.ok_or(CuResult::INVALID_VALUE)?;
        if self.rows > 1 && self.pitch < row {
            return Err(CuResult::INVALID_VALUE);
        }
        let (rows, pitch) = (self.rows as u64, self.pitch.max(row) as u64);
        let last = pitch.checked_mul(rows - 1);
        checking::fill(self.dst, last.and_then(|last| last.checked_add(row as u64)))?;
        stream.fill(
            DevicePtr::new(self.dst),
            self.value,
            self.element,
            self.count as u64,
            rows,
            pitch,
        )?;
        Ok(())
    }

    /// Submits the fill to the default stream of the entry point. If the memory is managed, pinned
    /// or registered memory, or if the program has set `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`, waits until the fill is
    /// complete.
    fn run_here(self, call: &Call) -> Served {
        let stream = stream(CUstream(0), call)?;
        self.run(&stream)?;
        let info = Runtime::global()?.pointer_info(self.dst);
        let is_device = info.is_none_or(|info| info.kind == PointerKind::Device);
        if !is_device || is_synchronous(self.dst) {
            stream.synchronize()?;
        }
        Ok(())
    }
}

macro_rules! fills {
    ($($sync:ident $async:ident $sync_2d:ident $async_2d:ident $value:ty;)*) => {$(
        pub(crate) fn $sync(call: &Call, dst: u64, value: $value, count: usize) -> Served {
            const ELEMENT: u32 = size_of::<$value>() as u32;
            Fill::linear(dst, u32::from(value), ELEMENT, count).run_here(call)
        }

        pub(crate) fn $async(
            _: &Call,
            dst: u64,
            value: $value,
            count: usize,
            stream: Stream,
        ) -> Served {
            const ELEMENT: u32 = size_of::<$value>() as u32;
            Fill::linear(dst, u32::from(value), ELEMENT, count).run(&stream)
        }

        pub(crate) fn $sync_2d(
            call: &Call,
            dst: u64,
            pitch: usize,
            value: $value,
            width: usize,
            height: usize,
        ) -> Served {
            const ELEMENT: u32 = size_of::<$value>() as u32;
            let row = Fill::linear(dst, u32::from(value), ELEMENT, width);
            Fill { pitch, rows: height, ..row }.run_here(call)
        }

        pub(crate) fn $async_2d(
            _: &Call,
            dst: u64,
            pitch: usize,
            value: $value,
            width: usize,
            height: usize,
            stream: Stream,
        ) -> Served {
            const ELEMENT: u32 = size_of::<$value>() as u32;
            let row = Fill::linear(dst, u32::from(value), ELEMENT, width);
            Fill { pitch, rows: height, ..row }.run(&stream)
        }
    )*};
}

fills! {
    memset_d8 memset_d8_async memset_2d_d8 memset_2d_d8_async u8;
    memset_d16 memset_d16_async memset_2d_d16 memset_2d_d16_async u16;
    memset_d32 memset_d32_async memset_2d_d32 memset_2d_d32_async u32;
}
