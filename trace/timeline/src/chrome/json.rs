//! JSON text, appended member by member.

use std::io::Write as _;

use crate::event::{Arg, MAX_DEPTH, TOO_DEEP, Value};
use crate::text::bounded;

/// An object that is being appended.
#[derive(Debug)]
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Object<'o> {
    pub(super) fn begin(out: &'o mut Vec<u8>) -> Object<'o> {
        out.push(b'{');
        Object {
            out,
            is_empty: true,
        }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        self.name(name);
        text(self.out, value);
    }

    pub(super) fn uint(&mut self, name: &'static str, value: u64) {
        self.name(name);
        uint(self.out, value);
    }

    pub(super) fn int(&mut self, name: &'static str, value: i64) {
        self.name(name);
        int(self.out, value);
    }

    pub(super) fn hexadecimal(&mut self, name: &'static str, value: u64) {
        self.name(name);
        hexadecimal(self.out, value);
    }

    /// Appends a time or a duration of `nanoseconds` in microseconds.
    pub(super) fn microseconds(&mut self, name: &'static str, is_negative: bool, nanoseconds: u64) {
        self.name(name);
        if is_negative {
            self.out.push(b'-');
        }
        uint(self.out, nanoseconds / 1000);
        let rest = (nanoseconds % 1000) as u16;
        let digit = |value: u16| b'0' + (value % 10) as u8;
        self.out
            .extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }

    pub(super) fn object(&mut self, name: &'static str, write: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        let mut object = Object::begin(self.out);
        write(&mut object);
        object.end();
    }

    /// Appends a value whose name may be any text.
    pub(super) fn value(&mut self, name: &str, value: &Value<'_>, depth: usize) {
        self.comma();
        text(self.out, name);
        self.out.push(b':');
        append(self.out, value, depth);
    }

    /// Appends a name in which nothing must be escaped.
    fn name(&mut self, name: &'static str) {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
    }
}

fn append(out: &mut Vec<u8>, value: &Value<'_>, depth: usize) {
    match *value {
        Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Value::Int(value) => int(out, value),
        Value::Uint(value) => uint(out, value),
        Value::Float(value) => float(out, value),
        Value::Address(value) => hexadecimal(out, value),
        Value::Text(value) => text(out, value),
        Value::Group(_) | Value::List(_) if depth == MAX_DEPTH => text(out, TOO_DEEP),
        Value::Group(args) => group(out, args, depth + 1),
        Value::List(values) => list(out, values, depth + 1),
    }
}

fn group(out: &mut Vec<u8>, args: &[Arg<'_>], depth: usize) {
    let mut object = Object::begin(out);
    for arg in args {
        object.value(arg.name, &arg.value, depth);
    }
    object.end();
}

fn list(out: &mut Vec<u8>, values: &[Value<'_>], depth: usize) {
    out.push(b'[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        append(out, value, depth);
    }
    out.push(b']');
}

fn uint(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn float(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        // Writing to a vector does not fail, nor does a finite number.
        let _ = serde_json::to_writer(out, &value);
    } else {
        text(out, &value.to_string());
    }
}

fn hexadecimal(out: &mut Vec<u8>, value: u64) {
    let _ = write!(out, "\"{value:#x}\"");
}

/// Appends a string with what must be escaped in it: quotes, backslashes, control characters.
fn text(out: &mut Vec<u8>, value: &str) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    let value = bounded(value);
    if value.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    } else {
        let _ = serde_json::to_writer(out, &*value);
    }
}
