//! Arguments: the message `DebugAnnotation`.

use super::{Interner, Kind};
use crate::event::{Arg, MAX_DEPTH, TOO_DEEP, Value};
use crate::protobuf::{bytes, double, int, message, uint};
use crate::text::bounded;

/// Field of `TrackEvent`.
const ANNOTATION: u32 = 4;

/// Fields of `DebugAnnotation`.
const NAME: u32 = 1;
const BOOL: u32 = 2;
const UINT: u32 = 3;
const INT: u32 = 4;
const DOUBLE: u32 = 5;
const STRING: u32 = 6;
const POINTER: u32 = 7;
const ENTRIES: u32 = 11;
const ITEMS: u32 = 12;

/// Appends an argument of an event.
pub(super) fn append(out: &mut Vec<u8>, interner: &mut Interner, arg: &Arg<'_>, depth: usize) {
    named(out, interner, ANNOTATION, arg, depth);
}

fn named(out: &mut Vec<u8>, interner: &mut Interner, field: u32, arg: &Arg<'_>, depth: usize) {
    message(out, field, |out| {
        uint(out, NAME, interner.number(Kind::ArgumentName, arg.name));
        value(out, interner, &arg.value, depth);
    });
}

fn value(out: &mut Vec<u8>, interner: &mut Interner, value: &Value<'_>, depth: usize) {
    match *value {
        Value::Bool(value) => uint(out, BOOL, value.into()),
        Value::Int(value) => int(out, INT, value),
        Value::Uint(value) => uint(out, UINT, value),
        Value::Float(value) => double(out, DOUBLE, value),
        Value::Address(value) => uint(out, POINTER, value),
        Value::Text(value) => bytes(out, STRING, bounded(value).as_bytes()),
        Value::Group(_) | Value::List(_) if depth == MAX_DEPTH => {
            bytes(out, STRING, TOO_DEEP.as_bytes())
        }
        // The format has no empty groups.
        Value::Group([]) => bytes(out, STRING, b"{}"),
        Value::List([]) => bytes(out, STRING, b"[]"),
        Value::Group(args) => {
            for arg in args {
                named(out, interner, ENTRIES, arg, depth + 1);
            }
        }
        Value::List(values) => list(out, interner, values, depth + 1),
    }
}

fn list(out: &mut Vec<u8>, interner: &mut Interner, values: &[Value<'_>], depth: usize) {
    for item in values {
        message(out, ITEMS, |out| value(out, interner, item, depth));
    }
}
