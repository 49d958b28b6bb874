//! Images: arrangements of texels in memory. An image consists of mipmap levels, a level consists
//! of slices, and a slice consists of rows.

use super::{Format, Memory};
use crate::fault::FaultKind;

/// The kind of memory that contains the texels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// An array that the driver allocated.
    Array,
    /// A linear buffer: a single row. Texels beyond the end of the buffer are 0.
    Linear,
    /// A buffer of rows with a fixed distance (pitch) between the starts of rows.
    Pitch,
}

/// One mipmap level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Address of the level's first texel.
    pub address: u64,
    /// Number of texels in a row.
    pub width: u32,
    /// Number of rows; 1 for one-dimensional images.
    pub height: u32,
    /// Number of slices, which may be layers or cube faces; 1 if the image has neither layers nor
    /// cube faces.
    pub depth: u32,
    /// Distance in bytes between the starts of adjacent rows.
    pub pitch: u64,
    /// Distance in bytes between the starts of adjacent slices.
    pub slice: u64,
}

impl Level {
    /// Returns the address of a texel; `None` if the texel is outside the level.
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

/// The texels of a texture or surface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// The kind of memory that contains the texels.
    pub layout: Layout,
    /// The format of the texels.
    pub format: Format,
    /// Number of dimensions, 1 to 3. Layers and faces do not count.
    pub dimensions: u8,
    /// Whether the slices of a level are layers.
    pub layered: bool,
    /// Whether groups of six slices are the faces of cubes.
    pub cube: bool,
    /// The mipmap levels, with the largest first. There is at least one level.
    pub levels: Vec<Level>,
    /// The number of the format in the driver API, which queries return.
    pub format_number: u32,
}

impl Image {
    /// Returns the number of layers, or 0 if the image is not layered. A layer of a cube map has six faces.
    pub fn layers(&self) -> u32 {
        let depth = self.level(0).map_or(1, |level| level.depth);
        match (self.layered, self.cube) {
            (true, true) => depth / 6,
            (true, false) => depth,
            (false, _) => 0,
        }
    }

    /// Returns the mipmap level with index `number`; `None` if it does not exist.
    pub fn level(&self, number: usize) -> Option<&Level> {
        self.levels.get(number)
    }

    /// Returns the components of a texel as [`Format::unpack`] does. For a texel outside the level, all components are
    /// 0.
    ///
    /// # Errors
    /// Returns a fault if the memory is no longer mapped.
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
