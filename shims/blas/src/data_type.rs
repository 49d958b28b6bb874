//! The types of elements in memory, numbered as in `cudaDataType_t`.

/// The type of the elements of a vector or matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DataType {
    /// `f32`.
    R32F = 0,
    /// `f64`.
    R64F = 1,
    /// IEEE half precision.
    R16F = 2,
    /// `i8`.
    R8I = 3,
    /// Complex `f32`.
    C32F = 4,
    /// Complex `f64`.
    C64F = 5,
    /// Complex half precision.
    C16F = 6,
    /// Complex `i8`.
    C8I = 7,
    /// `u8`.
    R8U = 8,
    /// `i32`.
    R32I = 10,
    /// Brain floating point.
    R16BF = 14,
    /// Complex brain floating point.
    C16BF = 15,
    /// 8-bit floating point with 4 bits of exponent.
    E4M3 = 28,
    /// 8-bit floating point with 5 bits of exponent.
    E5M2 = 29,
    /// 4-bit floating point with 2 bits of exponent. A byte contains two elements, the first one in its low bits.
    E2M1 = 33,
}

impl DataType {
    /// The type with this number in `cudaDataType_t`, if the routines of this crate know it.
    pub fn from_cuda(number: u32) -> Option<DataType> {
        use DataType::*;
        [
            R32F, R64F, R16F, R8I, C32F, C64F, C16F, C8I, R8U, R32I, R16BF, C16BF, E4M3, E5M2, E2M1,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == number)
    }

    /// Bytes of an element; 1 for E2M1, of which two elements share a byte.
    pub fn size(self) -> usize {
        use DataType::*;
        match self {
            R8I | R8U | E4M3 | E5M2 | E2M1 => 1,
            R16F | R16BF | C8I => 2,
            R32F | R32I | C16F | C16BF => 4,
            R64F | C32F => 8,
            C64F => 16,
        }
    }

    /// The type of a real part.
    pub fn real(self) -> DataType {
        use DataType::*;
        match self {
            C32F => R32F,
            C64F => R64F,
            C16F => R16F,
            C16BF => R16BF,
            C8I => R8I,
            kind => kind,
        }
    }

    /// Whether elements have an imaginary part.
    pub fn is_complex(self) -> bool {
        use DataType::*;
        matches!(self, C32F | C64F | C16F | C16BF | C8I)
    }
}
