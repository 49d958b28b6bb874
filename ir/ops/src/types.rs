//! The types of the IR. [`OpType`] is the type in which an operation computes: a PTX type, which
//! specifies signedness and packing. [`Type`] is the type of a register, which has no signedness.
//!
//! Invariant: a value's [`Type`] specifies its number of bits and whether it is in a floating-point
//! register. Everything else (signedness, packing, half-precision format) is a property of the
//! operation. Values of half-precision and smaller formats are in registers of the types `b8`,
//! `b16` or `b32`, because the CPUs for which Margay generates code have no separate registers for
//! these formats.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of a scalar register, or of one lane of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// One truth value.
    Pred,
    /// 8 bits.
    B8,
    /// 16 bits: an integer, or an `f16` or `bf16`.
    B16,
    /// 32 bits: an integer, or two packed values of 16 bits.
    B32,
    /// 64 bits.
    B64,
    /// 128 bits.
    B128,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl Kind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Kind; 8] = [
        Kind::Pred,
        Kind::B8,
        Kind::B16,
        Kind::B32,
        Kind::B64,
        Kind::B128,
        Kind::F32,
        Kind::F64,
    ];

    /// Returns the number of bits of a value of this kind; a predicate has one bit.
    pub const fn bits(self) -> u32 {
        match self {
            Kind::Pred => 1,
            Kind::B8 => 8,
            Kind::B16 => 16,
            Kind::B32 | Kind::F32 => 32,
            Kind::B64 | Kind::F64 => 64,
            Kind::B128 => 128,
        }
    }

    /// Returns the number of bytes of a value of this kind in a frame or in memory; a predicate has
    /// one byte there.
    pub const fn bytes(self) -> u32 {
        match self {
            Kind::Pred => 1,
            _ => self.bits() / 8,
        }
    }

    /// Returns an operation type for values of this kind that has the same number of bits: a
    /// floating-point type for `f32` and `f64`, and an untyped type otherwise.
    pub const fn op_type(self) -> OpType {
        match self {
            Kind::Pred => OpType::Pred,
            Kind::B8 => OpType::B8,
            Kind::B16 => OpType::B16,
            Kind::B32 => OpType::B32,
            Kind::B64 => OpType::B64,
            Kind::B128 => OpType::B128,
            Kind::F32 => OpType::F32,
            Kind::F64 => OpType::F64,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Kind::Pred => "pred",
            Kind::B8 => "b8",
            Kind::B16 => "b16",
            Kind::B32 => "b32",
            Kind::B64 => "b64",
            Kind::B128 => "b128",
            Kind::F32 => "f32",
            Kind::F64 => "f64",
        }
    }
}

/// The type of a value: a [`Kind`] and a number of lanes, which is a power of two and 1 for scalars.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Type(u8);

impl Type {
    /// One truth value.
    pub const PRED: Type = Type::scalar(Kind::Pred);
    /// 8 bits.
    pub const B8: Type = Type::scalar(Kind::B8);
    /// 16 bits.
    pub const B16: Type = Type::scalar(Kind::B16);
    /// 32 bits.
    pub const B32: Type = Type::scalar(Kind::B32);
    /// 64 bits.
    pub const B64: Type = Type::scalar(Kind::B64);
    /// 128 bits.
    pub const B128: Type = Type::scalar(Kind::B128);
    /// binary32.
    pub const F32: Type = Type::scalar(Kind::F32);
    /// binary64.
    pub const F64: Type = Type::scalar(Kind::F64);

    /// Returns the type of a scalar value of this kind.
    pub const fn scalar(kind: Kind) -> Type {
        Type(kind as u8)
    }

    /// Returns the type of a vector of `lanes` values of this kind, or `None` if `lanes` is not a
    /// power of two up to 64.
    pub fn vector(kind: Kind, lanes: u32) -> Option<Type> {
        (lanes.is_power_of_two() && lanes <= 64)
            .then(|| Type(kind as u8 | (lanes.trailing_zeros() as u8) << 4))
    }

    /// Returns the scalar integer type with this number of bits, or `None` if there is no such
    /// type.
    pub const fn bits_of(bits: u32) -> Option<Type> {
        match bits {
            1 => Some(Type::PRED),
            8 => Some(Type::B8),
            16 => Some(Type::B16),
            32 => Some(Type::B32),
            64 => Some(Type::B64),
            128 => Some(Type::B128),
            _ => None,
        }
    }

    /// Returns the kind of the type's lanes.
    pub const fn kind(self) -> Kind {
        match self.0 & 15 {
            0 => Kind::Pred,
            1 => Kind::B8,
            2 => Kind::B16,
            3 => Kind::B32,
            4 => Kind::B64,
            5 => Kind::B128,
            6 => Kind::F32,
            _ => Kind::F64,
        }
    }

    /// Returns the number of the type's lanes, which is 1 for scalars.
    pub const fn lanes(self) -> u32 {
        1 << (self.0 >> 4)
    }

    /// Returns whether a value of this type is in a floating-point register.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::F32 | Kind::F64)
    }

    /// Returns the number of bits of one lane.
    pub const fn lane_bits(self) -> u32 {
        self.kind().bits()
    }

    /// Returns the number of bytes of one lane in a frame.
    pub const fn lane_bytes(self) -> u32 {
        self.kind().bytes()
    }

    /// Parses the printed form of a scalar or vector type (`b32`, `f32x16`).
    pub fn parse(text: &str) -> Option<Type> {
        let (base, lanes) = match text.split_once('x') {
            Some((base, lanes)) => (base, lanes.parse().ok()?),
            None => (text, 1),
        };
        let kind = Kind::ALL.into_iter().find(|k| k.name() == base)?;
        Type::vector(kind, lanes)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        match self.lanes() {
            1 => Ok(()),
            n => write!(f, "x{n}"),
        }
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The class of the elements of an [`OpType`], such as signed integer; it does not depend on their
/// width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// The class of [`OpType::None`].
    None,
    /// `.pred`.
    Pred,
    /// Untyped bits.
    Bits,
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed,
    /// Floating-point numbers of any format.
    Float,
}

macro_rules! op_types {
    ($($name:ident $text:literal $class:ident $lane:literal x $lanes:literal in $bits:literal;)*) => {
        /// The type in which an operation computes, which is a type modifier in PTX.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the PTX modifier of the same spelling")]
        pub enum OpType { #[default] None, $($name,)* }

        impl OpType {
            /// Every type except `None`.
            pub const ALL: &'static [OpType] = &[$(OpType::$name,)*];

            /// Returns the name of the type in PTX, without the dot.
            pub const fn name(self) -> &'static str {
                match self { OpType::None => "", $(OpType::$name => $text,)* }
            }

            /// Returns the class of the elements: predicates, untyped bits, unsigned or signed integers, or floating
            /// point. The elements of a packed type have the same class.
            pub const fn class(self) -> Class {
                match self { OpType::None => Class::None, $(OpType::$name => Class::$class,)* }
            }

            /// Returns the number of bits of one element. A packed type has several elements.
            pub const fn element_bits(self) -> u32 {
                match self { OpType::None => 0, $(OpType::$name => $lane,)* }
            }

            /// Returns the number of elements of a value: 1 for scalar types, more for packed
            /// types.
            pub const fn elements(self) -> u32 {
                match self { OpType::None => 0, $(OpType::$name => $lanes,)* }
            }

            /// Returns the number of bits of a value of this type.
            pub const fn bits(self) -> u32 {
                match self { OpType::None => 0, $(OpType::$name => $bits,)* }
            }

            /// Returns the type with this name in PTX (without the dot), or `None` if there is
            /// none.
            pub fn from_name(text: &str) -> Option<OpType> {
                match text { $($text => Some(OpType::$name),)* _ => None }
            }
        }
    };
}

op_types! {
    Pred "pred" Pred 1 x 1 in 1;
    B1 "b1" Bits 1 x 1 in 1;
    U2 "u2" Unsigned 2 x 1 in 2;
    S2 "s2" Signed 2 x 1 in 2;
    B4 "b4" Bits 4 x 1 in 4;
    U4 "u4" Unsigned 4 x 1 in 4;
    S4 "s4" Signed 4 x 1 in 4;
    B8 "b8" Bits 8 x 1 in 8;
    B16 "b16" Bits 16 x 1 in 16;
    B32 "b32" Bits 32 x 1 in 32;
    B64 "b64" Bits 64 x 1 in 64;
    B128 "b128" Bits 128 x 1 in 128;
    U8 "u8" Unsigned 8 x 1 in 8;
    U16 "u16" Unsigned 16 x 1 in 16;
    U32 "u32" Unsigned 32 x 1 in 32;
    U64 "u64" Unsigned 64 x 1 in 64;
    S8 "s8" Signed 8 x 1 in 8;
    S16 "s16" Signed 16 x 1 in 16;
    S32 "s32" Signed 32 x 1 in 32;
    S64 "s64" Signed 64 x 1 in 64;
    U8x4 "u8x4" Unsigned 8 x 4 in 32;
    S8x4 "s8x4" Signed 8 x 4 in 32;
    U16x2 "u16x2" Unsigned 16 x 2 in 32;
    S16x2 "s16x2" Signed 16 x 2 in 32;
    F16 "f16" Float 16 x 1 in 16;
    F16x2 "f16x2" Float 16 x 2 in 32;
    BF16 "bf16" Float 16 x 1 in 16;
    BF16x2 "bf16x2" Float 16 x 2 in 32;
    TF32 "tf32" Float 32 x 1 in 32;
    F32 "f32" Float 32 x 1 in 32;
    F32x2 "f32x2" Float 32 x 2 in 64;
    F64 "f64" Float 64 x 1 in 64;
    E4M3 "e4m3" Float 8 x 1 in 8;
    E5M2 "e5m2" Float 8 x 1 in 8;
    E4M3x2 "e4m3x2" Float 8 x 2 in 16;
    E5M2x2 "e5m2x2" Float 8 x 2 in 16;
    E4M3x4 "e4m3x4" Float 8 x 4 in 32;
    E5M2x4 "e5m2x4" Float 8 x 4 in 32;
    E3M2 "e3m2" Float 6 x 1 in 8;
    E2M3 "e2m3" Float 6 x 1 in 8;
    E2M1 "e2m1" Float 4 x 1 in 4;
    E3M2x2 "e3m2x2" Float 6 x 2 in 16;
    E2M3x2 "e2m3x2" Float 6 x 2 in 16;
    E3M2x4 "e3m2x4" Float 6 x 4 in 32;
    E2M3x4 "e2m3x4" Float 6 x 4 in 32;
    E2M1x2 "e2m1x2" Float 4 x 2 in 8;
    E2M1x4 "e2m1x4" Float 4 x 4 in 16;
    UE8M0 "ue8m0" Float 8 x 1 in 8;
    UE8M0x2 "ue8m0x2" Float 8 x 2 in 16;
    UE4M3 "ue4m3" Float 8 x 1 in 8;
    S2F6x2 "s2f6x2" Float 8 x 2 in 16;
}

impl OpType {
    /// Returns whether the elements of the type are integers or untyped bits.
    pub const fn is_integer(self) -> bool {
        matches!(self.class(), Class::Unsigned | Class::Signed | Class::Bits)
    }

    /// Returns whether the elements of the type are floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// Returns whether the elements of the type are signed integers.
    pub const fn is_signed(self) -> bool {
        matches!(self.class(), Class::Signed)
    }

    /// Returns the type of the register that contains a value of this type: a floating-point
    /// register for `f32` and `f64`, a predicate register for predicates, and an integer register
    /// of at least 8 bits for all other types.
    pub const fn held(self) -> Type {
        match self {
            OpType::F32 => Type::F32,
            OpType::F64 => Type::F64,
            OpType::Pred => Type::PRED,
            _ => match self.bits() {
                0..=8 => Type::B8,
                9..=16 => Type::B16,
                17..=32 => Type::B32,
                33..=64 => Type::B64,
                _ => Type::B128,
            },
        }
    }

    /// Returns the type of the same class with twice the number of bits, which is the type of the result of an
    /// operation with `.wide`. Returns other types unchanged.
    pub const fn widened(self) -> OpType {
        match self {
            OpType::U8 => OpType::U16,
            OpType::S8 => OpType::S16,
            OpType::U16 => OpType::U32,
            OpType::S16 => OpType::S32,
            OpType::U32 => OpType::U64,
            OpType::S32 => OpType::S64,
            OpType::B32 => OpType::B64,
            other => other,
        }
    }
}

impl fmt::Display for OpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_types_parse_back() {
        for kind in Kind::ALL {
            for lanes in [1, 2, 8, 64] {
                let ty = Type::vector(kind, lanes).unwrap();
                assert_eq!(Type::parse(&ty.to_string()), Some(ty));
            }
        }
        assert_eq!(Type::parse("b32x3"), None);
    }

    #[test]
    fn packed_types_fill_their_register() {
        assert_eq!(OpType::F16x2.held(), Type::B32);
        assert_eq!(OpType::F32x2.held(), Type::B64);
        assert_eq!(OpType::E2M1x2.held(), Type::B8);
        assert_eq!(OpType::from_name("bf16x2"), Some(OpType::BF16x2));
    }
}
