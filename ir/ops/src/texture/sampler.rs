//! Samplers: the address modes, the filters and the parameters for the level of detail of a
//! texture.

/// The rule that determines the result of an access to a texel index outside the image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AddressMode {
    /// The access reads the texel that is at this index if copies of the image are repeated without
    /// end.
    Wrap,
    /// The access reads the nearest texel at the edge of the image.
    #[default]
    Clamp,
    /// As `Wrap`, but every second copy of the image is mirrored.
    Mirror,
    /// The access returns the border colour.
    Border,
}

impl AddressMode {
    /// Returns whether the mode repeats the image (`Wrap` or `Mirror`).
    pub const fn repeats(self) -> bool {
        matches!(self, AddressMode::Wrap | AddressMode::Mirror)
    }

    /// Returns the index of the texel that an access with the index `i` reads in a dimension of
    /// `size` texels, or `None` if the access returns the border colour.
    pub fn apply(self, i: i64, size: u32) -> Option<u32> {
        let n = i64::from(size.max(1));
        let at = match self {
            AddressMode::Clamp => i.clamp(0, n - 1),
            AddressMode::Wrap => i.rem_euclid(n),
            AddressMode::Mirror => {
                let i = i.rem_euclid(2 * n);
                if i < n { i } else { 2 * n - 1 - i }
            }
            AddressMode::Border if i < 0 || i >= n => return None,
            AddressMode::Border => i,
        };
        Some(at as u32)
    }
}

/// Maps a normalised coordinate of a repeated image to a small range, so that the texel indices
/// computed from it fit in their type. A coordinate of at least 2 or at most -2 becomes an
/// equivalent coordinate between 0 and 2; all other coordinates do not change. The result is NaN if
/// the coordinate is not finite.
#[inline(always)]
pub(super) fn within_periods(c: f64) -> f64 {
    // This computation is exact, because an `f32` of this magnitude has at most 22 bits after the binary point.
    let moved = c - 2.0 * (0.5 * c).floor();
    if c.abs() < 2.0 { c } else { moved }
}

/// The way in which the result is computed from adjacent texels or from adjacent mipmap levels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Filter {
    /// The result is that of the nearest texel or level.
    #[default]
    Point,
    /// The result is the weighted sum of the two nearest texels in each dimension, or of the two
    /// nearest levels. The weights depend on the distances.
    Linear,
}

/// The meaning of integer texels for a fetch: integers or fractions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ReadMode {
    /// Integer texels represent integers.
    #[default]
    Element,
    /// Integer texels represent fractions of their largest value if their components have 8 or 16
    /// bits.
    Normalized,
}

/// The parameters that determine how the texels of a texture are read and filtered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampler {
    /// The address mode of each dimension.
    pub address: [AddressMode; 3],
    /// The filter that combines adjacent texels.
    pub filter: Filter,
    /// The filter that combines adjacent mipmap levels.
    pub mipmap_filter: Filter,
    /// The meaning of integer texels for a fetch: integers or fractions.
    pub read: ReadMode,
    /// Whether floating-point coordinates are normalised: the range from 0 to 1 is the whole image.
    /// Otherwise, they are in texels.
    pub normalized: bool,
    /// Whether coordinates are in texels even if `normalized` is set (`force_unnormalized_coords`).
    pub force_unnormalized: bool,
    /// Whether the first three components are sRGB values if they have 8 bits.
    pub srgb: bool,
    /// Whether a filter at the edge of a cube face also reads texels of the adjacent face.
    pub seamless: bool,
    /// The maximum ratio, from 1 to 16, of the longer to the shorter side of a footprint: the area
    /// whose texels a fetch combines.
    pub max_anisotropy: u32,
    /// A number that is added to the level of detail.
    pub level_bias: f32,
    /// Minimum level.
    pub min_level: f32,
    /// Maximum level.
    pub max_level: f32,
    /// The bits of the border colour. They encode floating-point numbers if the texture is read as numbers, and
    /// integers otherwise.
    pub border: [u32; 4],
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler {
            address: [AddressMode::Clamp; 3],
            filter: Filter::Point,
            mipmap_filter: Filter::Point,
            read: ReadMode::Element,
            normalized: false,
            force_unnormalized: false,
            srgb: false,
            seamless: false,
            max_anisotropy: 1,
            level_bias: 0.0,
            min_level: 0.0,
            max_level: 0.0,
            border: [0; 4],
        }
    }
}

impl Sampler {
    /// Returns whether floating-point coordinates are normalised: the range from 0 to 1 is the
    /// whole image.
    pub const fn is_normalized(&self) -> bool {
        self.normalized && !self.force_unnormalized
    }

    /// Returns the address mode of a dimension. If coordinates are not normalised, modes that repeat the image become
    /// `Clamp`.
    pub fn address_mode(&self, dimension: usize) -> AddressMode {
        match self.address[dimension.min(2)] {
            mode if mode.repeats() && !self.is_normalized() => AddressMode::Clamp,
            mode => mode,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_beyond_the_edge() {
        let all =
            |mode: AddressMode| -> Vec<Option<u32>> { (-4..8).map(|i| mode.apply(i, 3)).collect() };
        let some = |list: [u32; 12]| list.map(Some).to_vec();
        assert_eq!(
            all(AddressMode::Wrap),
            some([2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1])
        );
        assert_eq!(
            all(AddressMode::Clamp),
            some([0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2])
        );
        assert_eq!(
            all(AddressMode::Mirror),
            some([2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1])
        );
        assert_eq!(AddressMode::Border.apply(-1, 3), None);
        assert_eq!(AddressMode::Border.apply(3, 3), None);
        assert_eq!(AddressMode::Border.apply(2, 3), Some(2));
    }

    #[test]
    fn repeating_needs_normalised_coordinates() {
        let mut sampler = Sampler {
            address: [AddressMode::Wrap, AddressMode::Border, AddressMode::Mirror],
            ..Sampler::default()
        };
        assert_eq!(sampler.address_mode(0), AddressMode::Clamp);
        assert_eq!(sampler.address_mode(1), AddressMode::Border);
        sampler.normalized = true;
        assert_eq!(sampler.address_mode(2), AddressMode::Mirror);
    }
}
