//! `cuGetProcAddress`: finds the address of an export by name, version and flags.
//!
//! The search considers those exports of a symbol whose version is at most the requested version and at most the
//! driver's own version. It returns the newest of these exports that uses the legacy default stream. With the flag for
//! per-thread default streams, it returns the variant of this export that uses the per-thread default stream, if the
//! variant exists. Without this flag, it never returns such a variant. All data comes from the table of [`super`].

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::{ApiRow, api_rows};
use crate::convert::{OptOut, Out, Text};
use crate::guard::Call;
use crate::result::{CuResult, Served};
use crate::serve::reported_version;

/// `CU_GET_PROC_ADDRESS_DEFAULT`.
pub(crate) const FLAG_DEFAULT: u64 = 0;
/// `CU_GET_PROC_ADDRESS_LEGACY_STREAM`.
pub(crate) const FLAG_LEGACY_STREAM: u64 = 1;
/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
pub(crate) const FLAG_PER_THREAD_STREAM: u64 = 2;

/// `CUdriverProcAddressQueryResult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SymbolStatus {
    Success = 0,
    NotFound = 1,
    VersionNotSufficient = 2,
}

/// What `cuGetProcAddress` returns for a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) address: *const c_void,
    pub(crate) status: SymbolStatus,
    pub(crate) result: Result<(), CuResult>,
}

pub(crate) fn get_proc_address_v1(
    call: &Call,
    symbol: Text,
    address: Out<*mut c_void>,
    version: c_int,
    flags: u64,
) -> Served {
    get_proc_address(call, symbol, address, version, flags).1
}

pub(crate) fn get_proc_address_v2(
    call: &Call,
    symbol: Text,
    address: Out<*mut c_void>,
    version: c_int,
    flags: u64,
    status: OptOut<c_uint>,
) -> Served {
    let (found, served) = get_proc_address(call, symbol, address, version, flags);
    status.set(found);
    served
}

fn get_proc_address(
    _: &Call,
    symbol: Text,
    address: Out<*mut c_void>,
    version: c_int,
    flags: u64,
) -> (c_uint, Served) {
    let found = look_up(&symbol.0, version, flags, reported_version());
    address.set(found.address.cast_mut());
    (found.status as c_uint, found.result)
}

/// Finds the export that `cuGetProcAddress` returns for `symbol`, the requested version `version`,
/// `flags`, and the driver's own version `driver_version`.
fn look_up(symbol: &str, version: i32, flags: u64, driver_version: i32) -> Found {
    let per_thread = match flags {
        FLAG_DEFAULT | FLAG_LEGACY_STREAM => false,
        FLAG_PER_THREAD_STREAM => true,
        _ => return nothing(SymbolStatus::NotFound, CuResult::INVALID_VALUE),
    };
    let Some(rows) = by_symbol().get(symbol) else {
        return nothing(SymbolStatus::NotFound, CuResult::NOT_FOUND);
    };
    let limit = u32::try_from(version.min(driver_version)).unwrap_or(0);
    match newest(rows, limit, per_thread) {
        Some(row) => Found {
            address: row.address(),
            status: SymbolStatus::Success,
            result: Ok(()),
        },
        None => nothing(SymbolStatus::VersionNotSufficient, CuResult::NOT_FOUND),
    }
}

fn nothing(status: SymbolStatus, code: CuResult) -> Found {
    Found {
        address: std::ptr::null(),
        status,
        result: Err(code),
    }
}

/// Returns the newest of `rows` whose version is at most `limit`, or the variant of this row for
/// per-thread default streams if `per_thread` is set and the variant exists.
///
/// The version of the plain export decides which row is newest. The version of the per-thread variant must not exceed
/// `limit`.
fn newest(rows: &[&'static ApiRow], limit: u32, per_thread: bool) -> Option<&'static ApiRow> {
    let plain = rows
        .iter()
        .filter(|row| row.stream_suffix.is_empty() && row.since <= limit)
        .max_by_key(|row| row.since)?;
    if !per_thread {
        return Some(plain);
    }
    let variant = rows.iter().find(|row| {
        !row.stream_suffix.is_empty() && row.since <= limit && is_variant_of(row, plain)
    });
    Some(variant.unwrap_or(plain))
}

fn is_variant_of(variant: &ApiRow, plain: &ApiRow) -> bool {
    variant
        .export
        .strip_prefix(plain.export)
        .and_then(|rest| rest.strip_prefix('_'))
        == Some(variant.stream_suffix)
}

fn by_symbol() -> &'static HashMap<&'static str, Vec<&'static ApiRow>> {
    static MAP: OnceLock<HashMap<&'static str, Vec<&'static ApiRow>>> = OnceLock::new();
    MAP.get_or_init(|| {
        let mut map: HashMap<_, Vec<_>> = HashMap::new();
        for row in api_rows() {
            map.entry(row.symbol()).or_default().push(row);
        }
        map
    })
}
