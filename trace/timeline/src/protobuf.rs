//! The wire format of protocol buffers, as far as a trace needs it: varints, 64-bit values, and length-delimited bytes.
//!
//! These functions append fields to a vector. A library with message types would build each message as values with
//! allocated strings; a slice is encoded in less time than that takes.

/// The wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

#[inline]
fn varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        long_varint(out, value);
    }
}

fn long_varint(out: &mut Vec<u8>, mut value: u64) {
    let mut bytes = [0; 10];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    out.extend_from_slice(&bytes[..=length]);
}

#[inline]
fn tag(out: &mut Vec<u8>, field: u32, wire_type: u32) {
    varint(out, u64::from(field << 3 | wire_type));
}

/// Appends a field of type `uint32`, `uint64`, `bool` or an enumeration.
#[inline]
pub(crate) fn uint(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, VARINT);
    varint(out, value);
}

/// Appends a field of type `int32` or `int64`: a negative number takes ten bytes.
pub(crate) fn int(out: &mut Vec<u8>, field: u32, value: i64) {
    uint(out, field, value as u64);
}

/// Appends a field of type `fixed64`.
pub(crate) fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field of type `double`.
pub(crate) fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    fixed64(out, field, value.to_bits());
}

/// Appends a field of type `string` or `bytes`, or a message that is already encoded.
#[inline]
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(out, field, LENGTH_DELIMITED);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a field that is the message that `write` appends.
pub(crate) fn message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    tag(out, field, LENGTH_DELIMITED);
    // Most messages have fewer than 128 bytes, so that their length is one byte. The contents of others move.
    let length_at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - length_at - 1;
    if length < 0x80 {
        out[length_at] = length as u8;
        return;
    }
    let end = out.len();
    varint(out, length as u64);
    let length_size = out.len() - end;
    out.copy_within(length_at + 1..end, length_at + length_size);
    write_length(&mut out[length_at..length_at + length_size], length as u64);
    out.truncate(length_at + length_size + length);
}

/// Writes a varint that fills `out`.
fn write_length(out: &mut [u8], length: u64) {
    let last = out.len() - 1;
    for (index, byte) in out.iter_mut().enumerate() {
        let more = if index < last { 0x80 } else { 0 };
        *byte = (length >> (7 * index)) as u8 & 0x7f | more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    /// The examples of the documentation of protocol buffers ("Encoding").
    #[test]
    fn published_examples() {
        assert_eq!(encoded(|out| uint(out, 1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(
            encoded(|out| bytes(out, 2, b"testing")),
            [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]
        );
        assert_eq!(
            encoded(|out| message(out, 3, |out| uint(out, 1, 150))),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        let minus_two = [
            0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ];
        assert_eq!(encoded(|out| int(out, 1, -2)), minus_two);
    }

    #[test]
    fn fixed_values_are_little_endian() {
        assert_eq!(
            encoded(|out| fixed64(out, 1, 0x0102)),
            [0x09, 2, 1, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            encoded(|out| double(out, 1, 1.0)),
            [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]
        );
    }

    #[test]
    fn lengths_of_long_messages_have_the_shortest_form() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 100_000] {
            let contents: Vec<u8> = (0..length).map(|index| index as u8).collect();
            let as_message = encoded(|out| {
                out.push(0xee);
                message(out, 7, |out| out.extend_from_slice(&contents));
            });
            let as_bytes = encoded(|out| {
                out.push(0xee);
                bytes(out, 7, &contents);
            });
            assert_eq!(as_message, as_bytes, "{length}");
        }
    }
}
