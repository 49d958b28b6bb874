//! Scale factors of a product: the modes that are allowed together, and the memory of the factors.
//!
//! The rules are those of the section "Narrow Precision Data Types Usage" of cuBLAS's documentation.

use std::ffi::c_void;

use margay_blas::DataType;
use margay_blas::matmul::{BlockFormat, BlockScales, OutputScales, Scale};

use crate::lt::matmul::refuse;
use crate::lt::matmul_desc::MatmulDesc;
use crate::memory::{Access, Memory, Shape};
use crate::status::{Failure, Outcome, Status, need};

/// `cublasLtMatmulMatrixScale_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One factor for a matrix.
    Scalar,
    /// One factor for each row of `op(A)` or column of `op(B)`.
    Outer,
    /// One factor for each block.
    Blocks(BlockFormat),
    /// One factor for each group.
    PerGroup,
}

impl Mode {
    /// Returns a mode by its number.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for modes that are not implemented, which it names, `INVALID_VALUE` for numbers without a mode.
    pub(crate) fn new(number: i32) -> Result<Mode, Failure> {
        Ok(match number {
            0 => Mode::Scalar,
            1 => Mode::Blocks(BlockFormat::Vector16),
            2 => Mode::Blocks(BlockFormat::Vector32),
            3 => Mode::Outer,
            4 => Mode::Blocks(BlockFormat::Vector128),
            5 => Mode::Blocks(BlockFormat::Square128),
            6 => Mode::PerGroup,
            12 | 13 => {
                refuse(
                    "block scaling with packed exponents (VEC128_MN_K4_UE8M0, VEC32_MN_K4_UE8M0)",
                    true,
                )?;
                Mode::Scalar
            }
            _ => return Err(Status::INVALID_VALUE.into()),
        })
    }
}

/// Whether a type has 8-bit floating-point elements.
pub(crate) fn is_eight_bit(kind: DataType) -> bool {
    matches!(kind, DataType::E4M3 | DataType::E5M2)
}

/// The factors of `A` and `B`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs {
    pub(crate) modes: [Mode; 2],
    pub(crate) addresses: [u64; 2],
}

impl Inputs {
    /// Checks the modes of `A` and `B`. In a search (not `real`), addresses of factors of blocks may be missing.
    pub(crate) fn new(
        desc: &MatmulDesc,
        kinds: [DataType; 2],
        real: bool,
    ) -> Result<Inputs, Failure> {
        use BlockFormat::{Square128, Vector16, Vector32, Vector128};
        let addresses = [desc.a_scale, desc.b_scale];
        let numbers = [desc.a_scale_mode, desc.b_scale_mode];
        let mut modes = [Mode::Scalar; 2];
        for (index, mode) in modes.iter_mut().enumerate() {
            *mode = match addresses[index] {
                0 if numbers[index] == 0 => Mode::Scalar,
                _ => Mode::new(numbers[index])?,
            };
            let has_blocks = matches!(mode, Mode::Blocks(_));
            need(!real || !has_blocks || addresses[index] != 0, 0)?;
        }
        let four_bits = kinds.contains(&DataType::E2M1);
        let eight_bits = kinds.iter().all(|kind| is_eight_bit(*kind));
        let allowed = match modes {
            [Mode::Blocks(Vector16), Mode::Blocks(Vector16)] => four_bits,
            [Mode::Blocks(a), Mode::Blocks(b)] => {
                let pair = [a, b];
                eight_bits
                    && (pair == [Vector32; 2]
                        || (pair.contains(&Vector128)
                            && pair.iter().all(|one| [Vector128, Square128].contains(one))))
            }
            [Mode::Blocks(_), _] | [_, Mode::Blocks(_)] => false,
            _ => !four_bits,
        };
        match allowed {
            true => Ok(Inputs { modes, addresses }),
            false => Err(Status::NOT_SUPPORTED.into()),
        }
    }

    /// The format of blocks of both matrices, if they have factors of blocks.
    pub(crate) fn format(&self) -> Option<BlockFormat> {
        match self.modes {
            [Mode::Blocks(format), _] => Some(format),
            _ => None,
        }
    }

    /// Refuses factors of blocks for a batch: the places of the factors of its items are not documented.
    pub(crate) fn refuse_batch(&self, batch: usize, is_array: bool) -> Outcome {
        let has_blocks = self.format().is_some();
        refuse(
            "block scaling of a batch",
            has_blocks && (batch > 1 || is_array),
        )?;
        let per_group = self.modes.contains(&Mode::PerGroup);
        refuse("PER_BATCH_SCALAR_32F without groups of matrices", per_group)
    }

    /// Returns the factors of a matrix with these numbers of outer and inner indices (of `op(A)`: rows and columns).
    pub(crate) fn scale(
        &self,
        index: usize,
        (outer, inner): (usize, usize),
        memory: &mut Memory,
    ) -> Result<Scale, Failure> {
        let address = self.addresses[index] as *const f32;
        let (scale, length) = match self.modes[index] {
            Mode::Blocks(format) => {
                let data = address.cast::<c_void>();
                add_blocks(Access::Read, format, data, (outer, inner), memory)?;
                return Ok(Scale::Blocks(BlockScales { data, format }));
            }
            _ if address.is_null() => return Ok(Scale::None),
            Mode::Scalar | Mode::PerGroup => (Scale::Tensor(address), 1),
            Mode::Outer => (Scale::Outer(address), outer),
        };
        memory.add(
            Access::Read,
            address,
            size_of::<f32>(),
            Shape::packed(length),
        );
        Ok(scale)
    }
}

/// Adds the memory of factors of blocks.
fn add_blocks(
    access: Access,
    format: BlockFormat,
    data: *const c_void,
    (outer, inner): (usize, usize),
    memory: &mut Memory,
) -> Outcome {
    let bytes = format.bytes(outer, inner).ok_or(Status::INVALID_VALUE)?;
    match format {
        BlockFormat::Vector16 | BlockFormat::Vector32 => {
            memory.add(access, data, 1, Shape::packed(bytes));
        }
        BlockFormat::Vector128 | BlockFormat::Square128 => {
            let size = size_of::<f32>();
            memory.add(
                access,
                data.cast::<f32>(),
                size,
                Shape::packed(bytes / size),
            );
        }
    }
    Ok(())
}

/// Returns the factor of one matrix, or of an auxiliary matrix.
pub(crate) fn tensor(address: u64, number: i32, memory: &mut Memory) -> Result<Scale, Failure> {
    let data = address as *const f32;
    if data.is_null() {
        return Ok(Scale::None);
    }
    if Mode::new(number)? != Mode::Scalar {
        return Err(Status::NOT_SUPPORTED.into());
    }
    memory.add(Access::Read, data, size_of::<f32>(), Shape::packed(1));
    Ok(Scale::Tensor(data))
}

/// Returns where the factors of the blocks of `D` are stored, a matrix of `m` rows and `n` columns.
///
/// # Errors
/// `INVALID_VALUE` if there is no address although `D` needs factors, or the other way round.
pub(crate) fn output(
    desc: &MatmulDesc,
    kind: DataType,
    inputs: &Inputs,
    (m, n, real): (usize, usize, bool),
    memory: &mut Memory,
) -> Result<Option<OutputScales>, Failure> {
    let format = match inputs.format() {
        Some(format @ BlockFormat::Vector32) if is_eight_bit(kind) => format,
        Some(format @ BlockFormat::Vector16) if kind == DataType::E2M1 => format,
        found => {
            // Factors of other kinds have no results of 4 or 8 bits.
            let is_vector = found.is_some() || inputs.modes.contains(&Mode::Outer);
            if kind == DataType::E2M1 || (is_eight_bit(kind) && is_vector) {
                return Err(Status::NOT_SUPPORTED.into());
            }
            need(desc.d_out_scale == 0, 0)?;
            return Ok(None);
        }
    };
    need(!real || desc.d_out_scale != 0, 0)?;
    need(Mode::new(desc.d_out_scale_mode)? == Mode::Blocks(format), 0)?;
    // Only 4-bit results have another factor.
    need(format == BlockFormat::Vector16 || desc.d_scale == 0, 0)?;
    let data = desc.d_out_scale as *mut c_void;
    add_blocks(Access::Write, format, data, (n, m), memory)?;
    Ok(Some(OutputScales { data, format }))
}
