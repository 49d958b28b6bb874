//! Copies of vectors and matrices between the host and the device (`cublasSetVector` and its like).

use std::ffi::c_void;

use crate::driver::{Copy2d, driver, status_of};
use crate::host;
use crate::status::{Failure, Outcome, Status, need};

/// A copy of `height` pieces of `width` bytes. The distances of pieces are in bytes.
struct Copy {
    target: usize,
    target_step: usize,
    source: usize,
    source_step: usize,
    width: usize,
    height: usize,
}

/// When the copy happens.
#[derive(Clone, Copy)]
enum When {
    /// Before the call returns.
    Now,
    /// In the order of a stream.
    In(usize),
}

/// Returns the product of two positive numbers.
fn bytes(count: i64, size: i64) -> Result<usize, Failure> {
    let product = count
        .checked_mul(size)
        .and_then(|bytes| usize::try_from(bytes).ok());
    product.ok_or(Status::INVALID_VALUE.into())
}

impl Copy {
    /// Returns the copy of `n` elements; `None` if there are none.
    fn vector(
        n: i64,
        size: i64,
        (source, source_step): (*const c_void, i64),
        (target, target_step): (*mut c_void, i64),
    ) -> Result<Option<Copy>, Failure> {
        need(size > 0, 0)?;
        need(source_step > 0 && target_step > 0, 0)?;
        if n <= 0 {
            return Ok(None);
        }
        let mut copy = Copy {
            target: target.addr(),
            target_step: bytes(target_step, size)?,
            source: source.addr(),
            source_step: bytes(source_step, size)?,
            width: size as usize,
            height: n as usize,
        };
        bytes(n, target_step.max(source_step)).and_then(|n| bytes(n as i64, size))?;
        if source_step == 1 && target_step == 1 {
            (copy.width, copy.height) = (bytes(n, size)?, 1);
        }
        Ok(Some(copy))
    }

    /// Returns the copy of a matrix; `None` if it has no elements.
    fn matrix(
        [rows, columns, size]: [i64; 3],
        (source, lda): (*const c_void, i64),
        (target, ldb): (*mut c_void, i64),
    ) -> Result<Option<Copy>, Failure> {
        need(rows >= 0 && columns >= 0, 0)?;
        need(size > 0 && lda > 0 && ldb > 0, 0)?;
        if rows == 0 || columns == 0 {
            return Ok(None);
        }
        need(lda >= rows && ldb >= rows, 0)?;
        bytes(columns, lda.max(ldb)).and_then(|n| bytes(n as i64, size))?;
        let mut copy = Copy {
            target: target.addr(),
            target_step: bytes(ldb, size)?,
            source: source.addr(),
            source_step: bytes(lda, size)?,
            width: bytes(rows, size)?,
            height: columns as usize,
        };
        if lda == rows && ldb == rows {
            (copy.width, copy.height) = (copy.width * copy.height, 1);
        }
        Ok(Some(copy))
    }

    /// Whether the first and the last byte of the source and of the target are readable. (Device memory is memory of the
    /// process.)
    fn is_mapped(&self) -> bool {
        let ends = |start: usize, step: usize| {
            let last = start.wrapping_add((self.height - 1) * step + self.width - 1);
            [start, last].map(|place| host::read(place as *const u8).is_some())
        };
        let target = ends(self.target, self.target_step);
        ends(self.source, self.source_step) == [true; 2] && target == [true; 2]
    }

    fn run(self, when: When) -> Outcome {
        if self.source == 0 || self.target == 0 {
            return Err(Status::MAPPING_ERROR.into());
        }
        let driver = driver()?;
        driver.enter(0)?;
        let is_captured = |when| match when {
            When::Now => false,
            When::In(stream) => driver.is_capturing(stream),
        };
        if !self.is_mapped() && !is_captured(when) {
            return Err(Status::MAPPING_ERROR.into());
        }
        let code = if self.height == 1 {
            match when {
                // SAFETY: the driver checks the addresses.
                When::Now => unsafe { (driver.copy)(self.target, self.source, self.width) },
                // SAFETY: as above.
                When::In(stream) => unsafe {
                    (driver.copy_async)(self.target, self.source, self.width, stream)
                },
            }
        } else {
            let copy = Copy2d::new(
                (self.target, self.target_step),
                (self.source, self.source_step),
                self.width,
                self.height,
            );
            match when {
                // SAFETY: the structure is valid, and the driver checks the addresses.
                When::Now => unsafe { (driver.copy_2d)(&raw const copy) },
                // SAFETY: as above.
                When::In(stream) => unsafe { (driver.copy_2d_async)(&raw const copy, stream) },
            }
        };
        status_of(code).map_err(|_| Status::MAPPING_ERROR.into())
    }
}

fn run(copy: Option<Copy>, when: When) -> Outcome {
    match copy {
        Some(copy) => copy.run(when),
        None => Ok(()),
    }
}

macro_rules! vectors {
    ($($now:ident $later:ident;)*) => {$(
        /// Copies a vector.
        ///
        /// # Safety
        /// The vectors have the stated sizes.
        pub(crate) unsafe fn $now(
            n: i64,
            size: i64,
            x: *const c_void,
            incx: i64,
            y: *mut c_void,
            incy: i64,
        ) -> Outcome {
            run(Copy::vector(n, size, (x, incx), (y, incy))?, When::Now)
        }

        /// Copies a vector in the order of a stream.
        ///
        /// # Safety
        /// The vectors have the stated sizes until the copy has ended.
        pub(crate) unsafe fn $later(
            n: i64,
            size: i64,
            x: *const c_void,
            incx: i64,
            y: *mut c_void,
            incy: i64,
            stream: usize,
        ) -> Outcome {
            run(Copy::vector(n, size, (x, incx), (y, incy))?, When::In(stream))
        }
    )*};
}

vectors! {
    set_vector set_vector_async;
    get_vector get_vector_async;
}

macro_rules! matrices {
    ($($now:ident $later:ident;)*) => {$(
        /// Copies a matrix.
        ///
        /// # Safety
        /// The matrices have the stated sizes.
        pub(crate) unsafe fn $now(
            rows: i64,
            columns: i64,
            size: i64,
            a: *const c_void,
            lda: i64,
            b: *mut c_void,
            ldb: i64,
        ) -> Outcome {
            run(Copy::matrix([rows, columns, size], (a, lda), (b, ldb))?, When::Now)
        }

        /// Copies a matrix in the order of a stream.
        ///
        /// # Safety
        /// The matrices have the stated sizes until the copy has ended.
        pub(crate) unsafe fn $later(
            rows: i64,
            columns: i64,
            size: i64,
            a: *const c_void,
            lda: i64,
            b: *mut c_void,
            ldb: i64,
            stream: usize,
        ) -> Outcome {
            let copy = Copy::matrix([rows, columns, size], (a, lda), (b, ldb))?;
            run(copy, When::In(stream))
        }
    )*};
}

matrices! {
    set_matrix set_matrix_async;
    get_matrix get_matrix_async;
}
