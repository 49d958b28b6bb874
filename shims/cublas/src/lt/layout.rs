//! Descriptors of matrices in memory (`cublasLtMatrixLayout_t`).

use std::ffi::c_void;

use crate::lt::descriptor::{self, descriptor};
use crate::status::{Outcome, Status, need};

descriptor! {
    /// The layout of a matrix, in the size of CUDA 12. That of CUDA 13 has a `Grouped` behind it.
    Layout 0x6d4c_6179 8;
    /// The type of the elements (`cudaDataType`).
    kind: i32 = 0;
    /// The order of the elements (`cublasLtOrder_t`).
    order: i32 = 0;
    batch_count: i32 = 1;
    rows: u64 = 0;
    columns: u64 = 0;
    ld: i64 = 0;
    batch_stride: i64 = 0;
    plane: i64 = 0;
    /// `cublasLtBatchMode_t`.
    batch_mode: u32 = 0;
    /// Whether there is a `Grouped` behind the layout.
    extended: u32 = 0;
    {
        0 kind;
        1 order;
        2 rows;
        3 columns;
        4 ld;
        5 batch_count;
        6 batch_stride;
        7 plane;
        8 batch_mode;
    }
}

descriptor! {
    /// A layout with the attributes of grouped matrices (CUDA 13). It begins with the fields of [`Layout`].
    Extended 0x6d4c_6179 14;
    kind: i32 = 0;
    order: i32 = 0;
    batch_count: i32 = 1;
    rows: u64 = 0;
    columns: u64 = 0;
    ld: i64 = 0;
    batch_stride: i64 = 0;
    plane: i64 = 0;
    batch_mode: u32 = 0;
    extended: u32 = 1;
    rows_array: u64 = 0;
    columns_array: u64 = 0;
    ld_array: u64 = 0;
    width: i32 = 0;
    ld_width: i32 = 0;
    {
        0 kind;
        1 order;
        2 rows;
        3 columns;
        4 ld;
        5 batch_count;
        6 batch_stride;
        7 plane;
        8 batch_mode;
        9 rows_array;
        10 columns_array;
        11 ld_array;
        12 width;
        13 ld_width;
    }
}

/// `CUBLASLT_BATCH_MODE_GROUPED`.
const GROUPED: u32 = 2;

fn described(kind: i32, rows: u64, columns: u64, ld: i64) -> Extended {
    Extended {
        kind,
        rows,
        columns,
        ld,
        ..Extended::default()
    }
}

/// `cublasLtMatrixLayoutInit`.
///
/// # Safety
/// None: addresses may be wrong. The same holds for the other functions of descriptors.
pub(crate) unsafe fn init(
    address: usize,
    size: usize,
    kind: i32,
    rows: u64,
    columns: u64,
    ld: i64,
) -> Outcome {
    if size >= size_of::<Extended>() {
        return descriptor::init(address, size, described(kind, rows, columns, ld));
    }
    let layout = Layout {
        kind,
        rows,
        columns,
        ld,
        ..Layout::default()
    };
    descriptor::init(address, size, layout)
}

/// `cublasLtMatrixLayoutCreate`.
pub(crate) unsafe fn create(
    place: *mut usize,
    kind: i32,
    rows: u64,
    columns: u64,
    ld: i64,
) -> Outcome {
    descriptor::create(place, described(kind, rows, columns, ld))
}

/// `cublasLtMatrixLayoutDestroy`.
pub(crate) unsafe fn destroy(address: usize) -> Outcome {
    descriptor::destroy::<Extended>(address)
}

/// Whether the layout at an address has the attributes of grouped matrices.
fn is_extended(address: usize) -> Result<bool, Status> {
    Ok(descriptor::load::<Layout>(address)?.extended == 1)
}

/// `cublasLtMatrixLayoutSetAttribute`.
pub(crate) unsafe fn set(
    address: usize,
    number: i32,
    value: *const c_void,
    size: usize,
) -> Outcome {
    match is_extended(address)? {
        true => descriptor::set::<Extended>(address, number, value, size),
        false => descriptor::set::<Layout>(address, number, value, size),
    }
}

/// `cublasLtMatrixLayoutGetAttribute`.
pub(crate) unsafe fn get(
    address: usize,
    number: i32,
    value: *mut c_void,
    size: usize,
    written: *mut usize,
) -> Outcome {
    match is_extended(address)? {
        true => descriptor::get::<Extended>(address, number, value, size, written),
        false => descriptor::get::<Layout>(address, number, value, size, written),
    }
}

fn grouped(
    kind: i32,
    count: i32,
    rows: *const c_void,
    columns: *const c_void,
    ld: *const c_void,
) -> Extended {
    Extended {
        kind,
        batch_count: count,
        batch_mode: GROUPED,
        rows_array: rows.addr() as u64,
        columns_array: columns.addr() as u64,
        ld_array: ld.addr() as u64,
        ..Extended::default()
    }
}

/// `cublasLtGroupedMatrixLayoutInit`.
pub(crate) unsafe fn init_grouped(
    address: usize,
    size: usize,
    kind: i32,
    count: i32,
    rows: *const c_void,
    columns: *const c_void,
    ld: *const c_void,
) -> Outcome {
    descriptor::init(address, size, grouped(kind, count, rows, columns, ld))
}

/// `cublasLtGroupedMatrixLayoutCreate`.
pub(crate) unsafe fn create_grouped(
    place: *mut usize,
    kind: i32,
    count: i32,
    rows: *const c_void,
    columns: *const c_void,
    ld: *const c_void,
) -> Outcome {
    descriptor::create(place, grouped(kind, count, rows, columns, ld))
}

/// Returns the layout at an address.
pub(crate) fn load(address: usize) -> Result<Layout, Status> {
    descriptor::load(address)
}

/// `CUBLASLT_BATCH_MODE_GROUPED` in all of the layouts, or in none of them.
///
/// # Errors
/// `INVALID_VALUE` if only some layouts have groups, or if one is in the size of CUDA 12, which has no arrays.
pub(crate) fn load_groups(addresses: [usize; 4]) -> Result<Option<[Extended; 4]>, Status> {
    let mut groups = [Extended::default(); 4];
    let mut found = 0;
    for (group, address) in groups.iter_mut().zip(addresses) {
        if load(address)?.batch_mode == GROUPED {
            let is_extended = is_extended(address)?;
            need(is_extended, 0).map_err(|failure| failure.status)?;
            *group = descriptor::load(address)?;
            found += 1;
        }
    }
    match found {
        0 => Ok(None),
        4 => Ok(Some(groups)),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Loads a layout that may be missing.
pub(crate) fn load_optional(address: usize) -> Result<Option<Layout>, Status> {
    match address {
        0 => Ok(None),
        address => load(address).map(Some),
    }
}

/// Checks a number of groups or items.
pub(crate) fn count(value: i32) -> Result<usize, Status> {
    need(value >= 1, 0).map_err(|failure| failure.status)?;
    Ok(value as usize)
}
