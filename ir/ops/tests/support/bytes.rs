//! An implementation of [`Memory`] for tests of texture fetches.

use margay_ops::fault::FaultKind;
use margay_ops::meaning::Bits;
use margay_ops::texture::Memory;

/// The memory of a test: bytes that begin at the address `base`. An access outside these bytes
/// returns a fault.
pub(crate) struct Bytes<'a> {
    pub(crate) base: u64,
    pub(crate) bytes: &'a [u8],
}

impl Memory for Bytes<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), FaultKind> {
        let start = address.wrapping_sub(self.base) as usize;
        let end = start.wrapping_add(bytes.len());
        let found = self
            .bytes
            .get(start..end)
            .ok_or(FaultKind::IllegalAddress {
                address: Some(address),
                write: None,
            })?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), FaultKind> {
        panic!("a fetch does not write")
    }

    fn update(&mut self, _: u64, _: u32, _: &mut dyn FnMut(Bits) -> Bits) -> Result<(), FaultKind> {
        panic!("a fetch does not write")
    }
}
