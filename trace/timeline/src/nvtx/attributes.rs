//! The attributes of an NVTX event: a structure of 48 bytes.

use thiserror::Error;

use crate::event::{Arg, Value};

/// The attributes of a mark or a range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attributes {
    /// The category, which [`Registry::category`](super::Registry::category) may have a name for. 0 means none.
    pub category: u32,
    /// The colour.
    pub colour: Colour,
    /// A number that belongs to the event.
    pub payload: Payload,
    /// Where the text is.
    pub message: Message,
}

/// The colour of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    /// No colour.
    None,
    /// Opacity, red, green and blue, 8 bits each, from the most significant.
    Argb(u32),
    /// A type that NVTX 3 does not define.
    Unknown {
        /// The type.
        kind: i32,
        /// The value.
        bits: u32,
    },
}

/// The payload of an event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Payload {
    /// No payload.
    None,
    /// An unsigned integer of 32 or 64 bits.
    Uint(u64),
    /// A signed integer of 32 or 64 bits.
    Int(i64),
    /// A number of single or double precision.
    Float(f64),
    /// A type that NVTX 3 does not define.
    Unknown {
        /// The type.
        kind: i32,
        /// The value.
        bits: u64,
    },
}

/// Where the text of an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The event has no text.
    None,
    /// The address of bytes that end with 0.
    Bytes(u64),
    /// The address of wide characters that end with 0.
    Wide(u64),
    /// The handle of a registered string.
    Registered(u64),
    /// A type that NVTX 3 does not define.
    Unknown {
        /// The type.
        kind: i32,
        /// The value.
        bits: u64,
    },
}

/// Attributes that cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum AttributeError {
    /// The structure has the layout of another major version.
    #[error("NVTX attributes have version {0}, not version 3")]
    Version(u16),
    /// The structure is too small.
    #[error("NVTX attributes have {0} bytes, not at least 48")]
    Size(u16),
}

impl Attributes {
    /// The number of bytes of the structure.
    pub const SIZE: usize = 48;

    /// Decodes the structure.
    ///
    /// Offsets: 0 version (u16), 2 size (u16), 4 category (u32), 8 type of the colour (i32), 12 colour (u32), 16 type of
    /// the payload (i32), 24 payload (8 bytes), 32 type of the message (i32), 40 message (address or handle).
    pub fn decode(bytes: &[u8; Attributes::SIZE]) -> Result<Attributes, AttributeError> {
        let version = u16::from_le_bytes(field(bytes, 0));
        if version != 3 {
            return Err(AttributeError::Version(version));
        }
        let size = u16::from_le_bytes(field(bytes, 2));
        if usize::from(size) < Attributes::SIZE {
            return Err(AttributeError::Size(size));
        }
        Ok(Attributes {
            category: u32::from_le_bytes(field(bytes, 4)),
            colour: colour(int(bytes, 8), u32::from_le_bytes(field(bytes, 12))),
            payload: payload(int(bytes, 16), field(bytes, 24)),
            message: message(int(bytes, 32), u64::from_le_bytes(field(bytes, 40))),
        })
    }

    /// Returns the category, the payload and the colour as arguments of an event. `category_name` is the name of the
    /// category, if it has one.
    pub fn args<'a>(&self, category_name: Option<&'a str>) -> Args<'a> {
        let mut args = Args::default();
        match category_name {
            Some(name) => args.push("category", Value::Text(name)),
            None if self.category != 0 => args.push("category", Value::Uint(self.category.into())),
            None => {}
        }
        match self.payload {
            Payload::None => {}
            Payload::Uint(value) | Payload::Unknown { bits: value, .. } => {
                args.push("payload", Value::Uint(value))
            }
            Payload::Int(value) => args.push("payload", Value::Int(value)),
            Payload::Float(value) => args.push("payload", Value::Float(value)),
        }
        if let Payload::Unknown { kind, .. } = self.payload {
            args.push("unknown payload type", Value::Int(kind.into()));
        }
        match self.colour {
            Colour::None => {}
            Colour::Argb(value) => args.push("colour", Value::Address(value.into())),
            Colour::Unknown { kind, .. } => {
                args.push("unknown colour type", Value::Int(kind.into()))
            }
        }
        args
    }
}

/// Arguments that attributes become.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    args: [Arg<'a>; 4],
    count: usize,
}

impl Default for Args<'_> {
    fn default() -> Self {
        let none = Arg {
            name: "",
            value: Value::Bool(false),
        };
        Args {
            args: [none; 4],
            count: 0,
        }
    }
}

impl<'a> Args<'a> {
    /// Returns the arguments.
    pub fn as_slice(&self) -> &[Arg<'a>] {
        &self.args[..self.count]
    }

    fn push(&mut self, name: &'a str, value: Value<'a>) {
        self.args[self.count] = Arg { name, value };
        self.count += 1;
    }
}

fn colour(kind: i32, bits: u32) -> Colour {
    match kind {
        0 => Colour::None,
        1 => Colour::Argb(bits),
        _ => Colour::Unknown { kind, bits },
    }
}

fn payload(kind: i32, bytes: [u8; 8]) -> Payload {
    let bits = u64::from_le_bytes(bytes);
    // The 32-bit types are the first four bytes.
    let low = bits as u32;
    match kind {
        0 => Payload::None,
        1 => Payload::Uint(bits),
        2 => Payload::Int(bits as i64),
        3 => Payload::Float(f64::from_bits(bits)),
        4 => Payload::Uint(low.into()),
        5 => Payload::Int((low as i32).into()),
        6 => Payload::Float(f32::from_bits(low).into()),
        _ => Payload::Unknown { kind, bits },
    }
}

fn message(kind: i32, bits: u64) -> Message {
    match kind {
        0 => Message::None,
        1 => Message::Bytes(bits),
        2 => Message::Wide(bits),
        3 => Message::Registered(bits),
        _ => Message::Unknown { kind, bits },
    }
}

fn int(bytes: &[u8; Attributes::SIZE], offset: usize) -> i32 {
    i32::from_le_bytes(field(bytes, offset))
}

/// Returns the bytes at `offset`; offset and length are constants within the structure.
fn field<const N: usize>(bytes: &[u8; Attributes::SIZE], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[offset + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The structure that a program with NVTX 3.1 headers passes for a push with all attributes.
    fn example(payload_kind: u8, payload: [u8; 8]) -> [u8; 48] {
        let mut bytes = [0; 48];
        bytes[..8].copy_from_slice(&[3, 0, 48, 0, 7, 0, 0, 0]);
        bytes[8..16].copy_from_slice(&[1, 0, 0, 0, 0x00, 0xb9, 0x76, 0xff]);
        bytes[16] = payload_kind;
        bytes[24..32].copy_from_slice(&payload);
        bytes[32] = 3;
        bytes[40..].copy_from_slice(&[0x10, 0x20, 0, 0, 0xff, 0x7f, 0, 0]);
        bytes
    }

    #[test]
    fn all_fields_are_decoded() {
        let attributes = Attributes::decode(&example(2, (-5_i64).to_le_bytes())).unwrap();
        let expected = Attributes {
            category: 7,
            colour: Colour::Argb(0xff76_b900),
            payload: Payload::Int(-5),
            message: Message::Registered(0x7fff_0000_2010),
        };
        assert_eq!(attributes, expected);
    }

    #[test]
    fn payloads_have_six_types() {
        let of = |kind, bytes| Attributes::decode(&example(kind, bytes)).unwrap().payload;
        let low = |bytes: [u8; 4]| {
            [
                bytes[0], bytes[1], bytes[2], bytes[3], 0xaa, 0xaa, 0xaa, 0xaa,
            ]
        };
        assert_eq!(of(0, [1; 8]), Payload::None);
        assert_eq!(of(1, [0xff; 8]), Payload::Uint(u64::MAX));
        assert_eq!(of(3, 0.25_f64.to_le_bytes()), Payload::Float(0.25));
        assert_eq!(of(4, low([0xff; 4])), Payload::Uint(u32::MAX.into()));
        assert_eq!(of(5, low([0xff; 4])), Payload::Int(-1));
        assert_eq!(of(6, low(1.5_f32.to_le_bytes())), Payload::Float(1.5));
        assert_eq!(
            of(9, [1, 0, 0, 0, 0, 0, 0, 0]),
            Payload::Unknown { kind: 9, bits: 1 }
        );
    }

    #[test]
    fn other_versions_and_sizes_are_refused() {
        let mut bytes = example(0, [0; 8]);
        bytes[0] = 2;
        assert_eq!(Attributes::decode(&bytes), Err(AttributeError::Version(2)));
        bytes[0] = 3;
        bytes[2] = 40;
        let error = Attributes::decode(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "NVTX attributes have 40 bytes, not at least 48"
        );
    }

    #[test]
    fn arguments_name_the_category() {
        let attributes = Attributes::decode(&example(9, [1; 8])).unwrap();
        let names = |args: Args<'_>| {
            args.as_slice()
                .iter()
                .map(|arg| arg.name.to_owned())
                .collect::<Vec<_>>()
        };
        let all = ["category", "payload", "unknown payload type", "colour"];
        assert_eq!(names(attributes.args(None)), all);
        let args = attributes.args(Some("io"));
        assert!(matches!(args.as_slice()[0].value, Value::Text("io")));
    }
}
