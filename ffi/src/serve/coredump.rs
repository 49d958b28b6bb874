//! Implements the entry points for settings of core dumps of device code. No such dump is ever
//! written, so a call that enables dumps fails. The other settings are stored and returned by
//! queries.
//!
//! Invariant: if no value of a setting is stored for a context, queries of the context return the
//! global value.

use std::collections::HashMap;
use std::ffi::{c_char, c_uint, c_void};

use parking_lot::Mutex;

use crate::guard::Call;
use crate::handles::current;
use crate::result::{CuResult, Served};
use crate::types::{CUcoredumpCallbackHandle, CUcoredumpStatusCallback};

/// Values of `CUcoredumpSettings`.
const ON_EXCEPTION: c_uint = 1;
const TRIGGER_HOST: c_uint = 2;
const LIGHTWEIGHT: c_uint = 3;
const USER_TRIGGER: c_uint = 4;
const FILE: c_uint = 5;
const PIPE: c_uint = 6;
const FLAGS: c_uint = 7;
/// All defined flags of `CUCoredumpGenerationFlags`.
const KNOWN_FLAGS: u32 = 0x1ff | 1 << 30 | 1 << 31;
/// The maximum number of bytes of a path, including its NUL.
const LONGEST: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Switch(bool),
    Text(String),
    Flags(u32),
}

/// The values of settings. A key consists of a context's id (0 for the global value) and the number
/// of a setting.
type Settings = HashMap<(u64, c_uint), Value>;

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

fn default(setting: c_uint) -> Result<Value, CuResult> {
    let path = |word: &str| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Value::Text(format!(
            "{word}.cuda.{}.{}",
            host.trim(),
            std::process::id()
        ))
    };
    match setting {
        ON_EXCEPTION | LIGHTWEIGHT | USER_TRIGGER => Ok(Value::Switch(false)),
        TRIGGER_HOST => Ok(Value::Switch(true)),
        FILE => Ok(path("core")),
        PIPE => Ok(path("corepipe")),
        FLAGS => Ok(Value::Flags(0)),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

fn value_of(context: u64, setting: c_uint) -> Result<Value, CuResult> {
    let default = default(setting)?;
    let settings = SETTINGS.lock();
    let kept = settings.as_ref();
    let found = kept.and_then(|all| {
        all.get(&(context, setting))
            .or_else(|| all.get(&(0, setting)))
    });
    Ok(found.cloned().unwrap_or(default))
}

/// Writes the value of a setting to `out`, and the size of the value in bytes to `size`. If `out`
/// is null, this function writes only the size.
fn give(value: &Value, out: *mut c_void, size: *mut usize) -> Served {
    if size.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let bytes = match value {
        Value::Switch(on) => vec![u8::from(*on)],
        Value::Flags(flags) => flags.to_ne_bytes().to_vec(),
        Value::Text(text) => text.bytes().chain([0]).collect(),
    };
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let room = unsafe { size.read_unaligned() };
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    unsafe { size.write_unaligned(bytes.len()) };
    if out.is_null() {
        return Ok(());
    }
    if room < bytes.len() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `room` bytes, and `bytes` is not longer.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), bytes.len()) };
    Ok(())
}

/// Reads the new value of a setting, which the program passes.
fn take(setting: c_uint, given: *mut c_void, size: *mut usize) -> Result<Value, CuResult> {
    let kind = default(setting)?;
    if given.is_null() || size.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let size = unsafe { size.read_unaligned() };
    let value = match kind {
        // SAFETY: the caller guarantees `size` bytes.
        Value::Switch(_) if size == 1 => Value::Switch(unsafe { given.cast::<u8>().read() } != 0),
        Value::Flags(_) if size == 4 => {
            // SAFETY: the caller guarantees `size` bytes.
            let flags = unsafe { given.cast::<u32>().read_unaligned() };
            if flags & !KNOWN_FLAGS != 0 {
                return Err(CuResult::INVALID_VALUE);
            }
            Value::Flags(flags)
        }
        Value::Text(_) if (1..=LONGEST).contains(&size) => {
            // SAFETY: the caller guarantees `size` bytes; the text ends there or at a NUL.
            let bytes: Vec<u8> = (0..size)
                .map(|index| unsafe { given.cast::<c_char>().add(index).read() } as u8)
                .take_while(|&byte| byte != 0)
                .collect();
            Value::Text(String::from_utf8(bytes).map_err(|_| CuResult::INVALID_VALUE)?)
        }
        _ => return Err(CuResult::INVALID_VALUE),
    };
    match (setting, &value) {
        // Enabling dumps is an error, because no dump would be written.
        (ON_EXCEPTION | USER_TRIGGER, Value::Switch(true)) => Err(CuResult::NOT_PERMITTED),
        _ => Ok(value),
    }
}

fn keep(context: u64, setting: c_uint, value: Value) {
    let mut settings = SETTINGS.lock();
    let settings = settings.get_or_insert_default();
    settings.insert((context, setting), value);
}

pub(crate) fn coredump_get_attribute(
    _: &Call,
    setting: c_uint,
    out: *mut c_void,
    size: *mut usize,
) -> Served {
    let context = current()?;
    context.status()?;
    give(&value_of(context.id(), setting)?, out, size)
}

pub(crate) fn coredump_get_attribute_global(
    _: &Call,
    setting: c_uint,
    out: *mut c_void,
    size: *mut usize,
) -> Served {
    give(&value_of(0, setting)?, out, size)
}

pub(crate) fn coredump_set_attribute(
    _: &Call,
    setting: c_uint,
    given: *mut c_void,
    size: *mut usize,
) -> Served {
    let context = current()?;
    context.status()?;
    let value = take(setting, given, size)?;
    // The user trigger and its pipe are settings of the whole process, not of a context.
    if matches!(setting, USER_TRIGGER | PIPE) {
        return Err(CuResult::NOT_SUPPORTED);
    }
    keep(context.id(), setting, value);
    Ok(())
}

pub(crate) fn coredump_set_attribute_global(
    _: &Call,
    setting: c_uint,
    given: *mut c_void,
    size: *mut usize,
) -> Served {
    let value = take(setting, given, size)?;
    keep(0, setting, value);
    Ok(())
}

/// Always fails, because no dump ever starts.
pub(crate) fn coredump_register_callback(
    _: &Call,
    callback: CUcoredumpStatusCallback,
    _data: *mut c_void,
    _out: *mut CUcoredumpCallbackHandle,
) -> Served {
    match callback.is_null() {
        true => Err(CuResult::INVALID_VALUE),
        false => Err(CuResult::NOT_PERMITTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_by_their_sizes() {
        let (mut on, mut size) = (1u8, 1usize);
        let place = (&raw mut on).cast();
        assert_eq!(
            take(TRIGGER_HOST, place, &mut size),
            Ok(Value::Switch(true))
        );
        assert_eq!(
            take(ON_EXCEPTION, place, &mut size),
            Err(CuResult::NOT_PERMITTED)
        );
        assert_eq!(take(FLAGS, place, &mut size), Err(CuResult::INVALID_VALUE));
        assert_eq!(take(99, place, &mut size), Err(CuResult::INVALID_VALUE));
        let mut text = *b"core\0rest";
        let mut size = text.len();
        let value = take(FILE, text.as_mut_ptr().cast(), &mut size);
        assert_eq!(value, Ok(Value::Text("core".into())));
    }
}
