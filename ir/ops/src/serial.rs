//! Serialisation of the enums of the op table and the type table: an opcode or type is its number in the table, so that
//! neither table needs generated code for serialisation. The number is valid only within one build.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ops::Opcode;
use crate::types::OpType;

impl Serialize for Opcode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(*self as u16)
    }
}

impl<'de> Deserialize<'de> for Opcode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Opcode, D::Error> {
        let number = u16::deserialize(deserializer)?;
        let found = Opcode::ALL.get(usize::from(number)).copied();
        found.ok_or_else(|| D::Error::custom("an unknown opcode"))
    }
}

impl Serialize for OpType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

impl<'de> Deserialize<'de> for OpType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OpType, D::Error> {
        match u8::deserialize(deserializer)? {
            0 => Ok(OpType::None),
            number => {
                let found = OpType::ALL.get(usize::from(number) - 1).copied();
                found.ok_or_else(|| D::Error::custom("an unknown type"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error as ValueError, U8Deserializer, U16Deserializer};

    use super::*;

    #[test]
    fn a_number_names_the_row_of_the_table() {
        for (number, &opcode) in Opcode::ALL.iter().enumerate() {
            assert_eq!(opcode as usize, number);
            let input: U16Deserializer<ValueError> = (number as u16).into_deserializer();
            assert_eq!(Opcode::deserialize(input), Ok(opcode));
        }
        let types = [OpType::None]
            .into_iter()
            .chain(OpType::ALL.iter().copied());
        for (number, ty) in types.enumerate() {
            assert_eq!(ty as usize, number);
            let input: U8Deserializer<ValueError> = (number as u8).into_deserializer();
            assert_eq!(OpType::deserialize(input), Ok(ty));
        }
    }

    #[test]
    fn other_numbers_are_errors() {
        let input: U16Deserializer<ValueError> = (Opcode::ALL.len() as u16).into_deserializer();
        assert!(Opcode::deserialize(input).is_err());
        let first = OpType::ALL.len() as u8 + 1;
        let input: U8Deserializer<ValueError> = first.into_deserializer();
        assert!(OpType::deserialize(input).is_err());
    }
}
