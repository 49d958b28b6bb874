//! Texels in memory: levels of rows of slices.

use super::{Format, Memory};
use crate::fault::FaultKind;

/// What kind of memory holds the texels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// An array of the driver's.
    Array,
    /// A buffer: one row, of which what lies behind the end is 0.
    Linear,
    /// Rows of a buffer.
    Pitch,
}

/// One mipmap level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Address of its first texel.
    pub address: u64,
    /// Texels in a row.
    pub width: u32,
    /// Rows; 1 where there are none.
    pub height: u32,
    /// Slices, layers or faces; 1 where there are none.
    pub depth: u32,
    /// Bytes from row to row.
    pub pitch: u64,
    /// Bytes from slice to slice.
    pub slice: u64,
}

impl Level {
    /// Address of a texel, when it is inside.
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

/// Texels that textures and surfaces look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// Where they are.
    pub layout: Layout,
    /// What they are.
    pub format: Format,
    /// Dimensions: 1 to 3, layers and faces not counted.
    pub dimensions: u8,
    /// Whether slices are layers.
    pub layered: bool,
    /// Whether six slices are the faces of a cube.
    pub cube: bool,
    /// From the largest on; at least one.
    pub levels: Vec<Level>,
    /// What the driver's interface calls the format, for queries.
    pub format_number: u32,
}

impl Image {
    /// Layers: of a cube those of six faces.
    pub fn layers(&self) -> u32 {
        let depth = self.level(0).map_or(1, |level| level.depth);
        match (self.layered, self.cube) {
            (true, true) => depth / 6,
            (true, false) => depth,
            (false, _) => 0,
        }
    }

    /// A level; `None` if there is no such.
    pub fn level(&self, number: usize) -> Option<&Level> {
        self.levels.get(number)
    }

    /// Bits of a texel's components; 0 where it is outside.
    ///
    /// # Errors
    /// Memory that is not there any more.
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
