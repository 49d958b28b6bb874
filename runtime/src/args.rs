//! Kernel arguments: packs Rust values into the bytes of a kernel's `.param` space.
//!
//! Tuples and slices of arguments are packed according to the parameter layout of the kernel.
//! Invariant: an argument is written only if its size equals the size of the corresponding
//! parameter. A mismatch is therefore an error and never results in a wrong value. Only a `&[u8]`,
//! which contains arguments that are already packed, is copied without this check.

use crate::engine::ParamInfo;
use crate::error::{Error, Result};
use crate::pointer::DevicePtr;

/// One argument of a kernel.
///
/// ```
/// use margay::KernelArg;
///
/// let mut bytes = [0; 4];
/// assert_eq!(3u32.size(), 4);
/// 3u32.write(&mut bytes);
/// assert_eq!(bytes, [3, 0, 0, 0]);
/// ```
pub trait KernelArg {
    /// Returns the number of bytes that the argument takes in the kernel's parameter space.
    fn size(&self) -> usize;
    /// Writes the argument to `out`, which has exactly [`KernelArg::size`] bytes.
    fn write(&self, out: &mut [u8]);
}

/// All arguments of a kernel: a tuple of up to 16 [`KernelArg`] values, a `&[&dyn KernelArg]`, or a `&[u8]` of bytes
/// that are already packed.
///
/// ```
/// use margay::{KernelArgs, ParamInfo};
///
/// let int = |offset| ParamInfo { offset, size: 4, align: 4 };
/// let mut space = [0; 8];
/// (1u32, 2u32).pack(&[int(0), int(4)], &mut space)?;
/// assert_eq!(space, [1, 0, 0, 0, 2, 0, 0, 0]);
/// # Ok::<(), margay::Error>(())
/// ```
pub trait KernelArgs {
    /// Packs the arguments into `out`. `params` describes the kernel's parameters. `out` has the size of the kernel's
    /// parameter space and contains only zeros.
    fn pack(&self, params: &[ParamInfo], out: &mut [u8]) -> Result<()>;
}

macro_rules! scalar_arg {
    ($($t:ty)*) => {$(
        impl KernelArg for $t {
            fn size(&self) -> usize {
                size_of::<$t>()
            }
            fn write(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

scalar_arg!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64);

impl KernelArg for bool {
    fn size(&self) -> usize {
        1
    }
    fn write(&self, out: &mut [u8]) {
        out[0] = u8::from(*self);
    }
}

impl KernelArg for DevicePtr {
    fn size(&self) -> usize {
        8
    }
    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.address().to_le_bytes());
    }
}

/// The bytes of a structure that is passed to a kernel by value.
///
/// ```
/// use margay::{Bytes, KernelArg};
///
/// // struct { int n; float scale; } of the kernel.
/// let bytes = [7i32.to_le_bytes(), 0.5f32.to_le_bytes()].concat();
/// assert_eq!(Bytes(&bytes).size(), 8);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl KernelArg for Bytes<'_> {
    fn size(&self) -> usize {
        self.0.len()
    }
    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(self.0);
    }
}

impl<const N: usize, T: KernelArg> KernelArg for [T; N] {
    fn size(&self) -> usize {
        self.iter().map(KernelArg::size).sum()
    }
    fn write(&self, out: &mut [u8]) {
        let mut at = 0;
        for element in self {
            element.write(&mut out[at..at + element.size()]);
            at += element.size();
        }
    }
}

impl KernelArgs for &[u8] {
    fn pack(&self, _params: &[ParamInfo], out: &mut [u8]) -> Result<()> {
        if self.len() > out.len() {
            return Err(Error::invalid(format!(
                "{} bytes of arguments, the kernel takes {}",
                self.len(),
                out.len()
            )));
        }
        out[..self.len()].copy_from_slice(self);
        Ok(())
    }
}

/// Packs a list of arguments whose types are known only at run time.
impl KernelArgs for &[&dyn KernelArg] {
    fn pack(&self, params: &[ParamInfo], out: &mut [u8]) -> Result<()> {
        check_count(params, self.len())?;
        for (index, arg) in self.iter().enumerate() {
            put(params, out, index, *arg)?;
        }
        Ok(())
    }
}

fn check_count(params: &[ParamInfo], given: usize) -> Result<()> {
    if params.len() == given {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{given} arguments, the kernel takes {}",
        params.len()
    )))
}

fn put(params: &[ParamInfo], out: &mut [u8], index: usize, arg: &dyn KernelArg) -> Result<()> {
    let ParamInfo { offset, size, .. } = params[index];
    if arg.size() != size as usize {
        return Err(Error::invalid(format!(
            "argument {index} has {} bytes, the parameter {size}",
            arg.size()
        )));
    }
    let range = offset as usize..offset as usize + size as usize;
    match out.get_mut(range) {
        Some(place) => arg.write(place),
        None => {
            return Err(Error::Internal(
                "parameter outside the parameter buffer".into(),
            ));
        }
    }
    Ok(())
}

impl KernelArgs for () {
    fn pack(&self, params: &[ParamInfo], _out: &mut [u8]) -> Result<()> {
        check_count(params, 0)
    }
}

macro_rules! tuple_args {
    ($($name:ident $index:tt),+) => {
        impl<$($name: KernelArg),+> KernelArgs for ($($name,)+) {
            fn pack(&self, params: &[ParamInfo], out: &mut [u8]) -> Result<()> {
                check_count(params, [$($index),+].len())?;
                $(put(params, out, $index, &self.$index)?;)+
                Ok(())
            }
        }
    };
}

tuple_args!(A 0);
tuple_args!(A 0, B 1);
tuple_args!(A 0, B 1, C 2);
tuple_args!(A 0, B 1, C 2, D 3);
tuple_args!(A 0, B 1, C 2, D 3, E 4);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14);
tuple_args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15);

#[cfg(test)]
mod tests {
    use super::*;

    fn param(offset: u32, size: u32) -> ParamInfo {
        ParamInfo {
            offset,
            size,
            align: size,
        }
    }

    #[test]
    fn packs_by_the_layout() {
        let params = [param(0, 4), param(8, 8), param(16, 1)];
        let mut out = [0u8; 17];
        (0x0403_0201u32, DevicePtr::new(0x1122), true)
            .pack(&params, &mut out)
            .expect("fits");
        assert_eq!(
            out,
            [1, 2, 3, 4, 0, 0, 0, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0, 1]
        );
    }

    #[test]
    fn a_wrong_size_or_count_is_an_error() {
        let params = [param(0, 4), param(8, 8)];
        let mut out = [0u8; 16];
        assert!((1u32,).pack(&params, &mut out).is_err());
        assert!((1u32, 2u32).pack(&params, &mut out).is_err());
        assert_eq!(out[8..], [0; 8], "nothing was written at a wrong size");
    }
}
