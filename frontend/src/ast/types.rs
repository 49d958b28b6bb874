//! Types and state spaces as written in declarations.
//!
//! The types in this module represent everything that a declaration specifies, including
//! signedness. The IR has other types, which are simpler.

use std::fmt;

/// The type of a variable's elements, as its declaration names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are PTX's own type names")]
pub enum ScalarType {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    F32,
    F64,
    Pred,
    TexRef,
    SamplerRef,
    SurfRef,
}

impl ScalarType {
    /// Every type with its PTX name (without the dot).
    pub const ALL: [(ScalarType, &'static str); 21] = [
        (ScalarType::B8, "b8"),
        (ScalarType::B16, "b16"),
        (ScalarType::B32, "b32"),
        (ScalarType::B64, "b64"),
        (ScalarType::B128, "b128"),
        (ScalarType::U8, "u8"),
        (ScalarType::U16, "u16"),
        (ScalarType::U32, "u32"),
        (ScalarType::U64, "u64"),
        (ScalarType::S8, "s8"),
        (ScalarType::S16, "s16"),
        (ScalarType::S32, "s32"),
        (ScalarType::S64, "s64"),
        (ScalarType::F16, "f16"),
        (ScalarType::F16x2, "f16x2"),
        (ScalarType::F32, "f32"),
        (ScalarType::F64, "f64"),
        (ScalarType::Pred, "pred"),
        (ScalarType::TexRef, "texref"),
        (ScalarType::SamplerRef, "samplerref"),
        (ScalarType::SurfRef, "surfref"),
    ];

    /// Returns the type with this PTX name (without the dot).
    pub fn from_word(word: &str) -> Option<Self> {
        let row = Self::ALL.iter().find(|row| row.1 == word);
        row.map(|row| row.0)
    }

    /// Returns the name that PTX text uses, without the dot.
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the size in bytes of a value of this type, or `None` for a predicate. The size of an opaque reference is
    /// the size of its 64-bit handle.
    pub fn bytes(self) -> Option<u32> {
        use ScalarType::*;
        match self {
            B8 | U8 | S8 => Some(1),
            B16 | U16 | S16 | F16 => Some(2),
            B32 | U32 | S32 | F16x2 | F32 => Some(4),
            B64 | U64 | S64 | F64 | TexRef | SamplerRef | SurfRef => Some(8),
            B128 => Some(16),
            Pred => None,
        }
    }

    /// Whether the type is `.texref`, `.samplerref` or `.surfref`.
    pub fn is_opaque(self) -> bool {
        self >= ScalarType::TexRef
    }

    /// Whether the type is a floating-point type, or a packed type with floating-point elements.
    pub fn is_float(self) -> bool {
        use ScalarType::*;
        matches!(self, F16 | F16x2 | F32 | F64)
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.word())
    }
}

/// The state space of a declared variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum StateSpace {
    /// Registers.
    Reg,
    /// Constant memory, which kernels can only read. Before PTX 2.2, this state space had numbered banks.
    Const,
    /// Global memory.
    Global,
    /// Local memory, of which each thread has its own.
    Local,
    /// Parameters of kernels and functions.
    Param,
    /// Shared memory, which the threads of one block use together.
    Shared,
    /// The state space of textures before PTX 1.5.
    Tex,
}

impl StateSpace {
    /// Every state space with its PTX name (without the dot).
    pub const ALL: [(StateSpace, &'static str); 7] = [
        (StateSpace::Reg, "reg"),
        (StateSpace::Const, "const"),
        (StateSpace::Global, "global"),
        (StateSpace::Local, "local"),
        (StateSpace::Param, "param"),
        (StateSpace::Shared, "shared"),
        (StateSpace::Tex, "tex"),
    ];

    /// Returns the state space with this PTX name (without the dot).
    pub fn from_word(word: &str) -> Option<Self> {
        let row = Self::ALL.iter().find(|row| row.1 == word);
        row.map(|row| row.0)
    }

    /// Returns the name that PTX text uses, without the dot.
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether each thread or each call has its own instance of a variable in this state space.
    pub fn is_of_thread(self) -> bool {
        matches!(
            self,
            StateSpace::Reg | StateSpace::Param | StateSpace::Local
        )
    }
}

impl fmt::Display for StateSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.word())
    }
}

/// The number of elements of a vector variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub enum VectorSize {
    /// One element; the variable is not a vector.
    #[default]
    Scalar = 1,
    /// `.v2`
    V2 = 2,
    /// `.v4`
    V4 = 4,
}

impl VectorSize {
    /// Returns the number of elements.
    pub const fn count(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_their_own_rows() {
        for (i, (scalar, word)) in ScalarType::ALL.into_iter().enumerate() {
            assert_eq!(scalar as usize, i);
            assert_eq!(ScalarType::from_word(word), Some(scalar));
            assert_eq!(scalar.to_string(), format!(".{word}"));
        }
        for (i, (space, word)) in StateSpace::ALL.into_iter().enumerate() {
            assert_eq!(space as usize, i);
            assert_eq!(StateSpace::from_word(word), Some(space));
        }
    }
}
