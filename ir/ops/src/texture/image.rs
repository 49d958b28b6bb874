//! Images. In this module, an image is the set of texels of a texture or surface in memory. It
//! consists of mipmap levels, a level consists of slices, and a slice consists of rows.

use super::{Format, Memory};
use crate::fault::FaultKind;

/// The kind of memory that contains the texels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// An array that the driver allocated.
    Array,
    /// A buffer that the program allocated, as a single row of texels. Texels beyond the end of the
    /// buffer are 0.
    Linear,
    /// A buffer that the program allocated, with several rows of texels at a fixed distance
    /// (pitch).
    Pitch,
}

/// One mipmap level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// The host address of the level's first texel.
    pub address: u64,
    /// The number of texels in each row of the level.
    pub width: u32,
    /// The number of rows in each slice of the level; 1 for one-dimensional images.
    pub height: u32,
    /// The number of slices of the level, which are the third dimension, layers or cube faces; 1 if
    /// the image has none of them.
    pub depth: u32,
    /// The distance in bytes between the starts of adjacent rows.
    pub pitch: u64,
    /// The distance in bytes between the starts of adjacent slices.
    pub slice: u64,
}

impl Level {
    /// Returns the host address of the texel with the indices `at`, which has `bytes` bytes, or
    /// `None` if the texel is outside the level.
    pub fn address_of(&self, at: [u32; 3], bytes: usize) -> Option<u64> {
        let [x, y, z] = at;
        if x >= self.width || y >= self.height || z >= self.depth {
            return None;
        }
        let offset = u64::from(z)
            .checked_mul(self.slice)?
            .checked_add(u64::from(y).checked_mul(self.pitch)?)?
            .checked_add(u64::from(x) * bytes as u64)?;
        self.address.checked_add(offset)
    }
}

/// The description of the texels of a texture or surface: their format and their places in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// The kind of memory that contains the texels.
    pub layout: Layout,
    /// The format of the texels.
    pub format: Format,
    /// The number of dimensions of the image, from 1 to 3, without layers and cube faces.
    pub dimensions: u8,
    /// Whether the slices of a level are layers.
    pub layered: bool,
    /// Whether each group of six slices of a level contains the faces of a cube.
    pub cube: bool,
    /// The mipmap levels, with the largest first. There is at least one level.
    pub levels: Vec<Level>,
    /// The number of the format in the driver API. Queries of the format return this number.
    pub format_number: u32,
}

impl Image {
    /// Returns the number of layers, or 0 if the image has no layers. In a cube map with layers,
    /// each layer consists of six faces.
    pub fn layers(&self) -> u32 {
        let depth = self.level(0).map_or(1, |level| level.depth);
        match (self.layered, self.cube) {
            (true, true) => depth / 6,
            (true, false) => depth,
            (false, _) => 0,
        }
    }

    /// Returns the mipmap level with index `number`, or `None` if the image does not have this
    /// level.
    pub fn level(&self, number: usize) -> Option<&Level> {
        self.levels.get(number)
    }

    /// Reads a texel from `memory`, and returns its components in the form that [`Format::unpack`]
    /// returns. For a texel outside the level, all components are 0.
    ///
    /// # Errors
    /// Returns a fault if the program has freed or unmapped the memory of the texel.
    pub fn texel(
        &self,
        memory: &mut impl Memory,
        level: &Level,
        at: [u32; 3],
    ) -> Result<[u32; 4], FaultKind> {
        let size = self.format.bytes();
        let mut bytes = [0u8; 16];
        match level.address_of(at, size) {
            Some(address) => {
                memory.read(address, &mut bytes[..size])?;
                Ok(self.format.unpack(&bytes[..size]))
            }
            None => Ok([0; 4]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_inside() {
        let level = Level {
            address: 0x1000,
            width: 5,
            height: 3,
            depth: 2,
            pitch: 32,
            slice: 96,
        };
        assert_eq!(level.address_of([4, 2, 1], 4), Some(0x1000 + 96 + 64 + 16));
        assert_eq!(level.address_of([5, 0, 0], 4), None);
        assert_eq!(level.address_of([0, 3, 0], 4), None);
        assert_eq!(level.address_of([0, 0, 2], 4), None);
    }
}
