//! How texels are looked up: address modes, filters, level of detail.

/// What becomes of a texel index beyond the edge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AddressMode {
    /// The image is repeated.
    Wrap,
    /// The texel at the edge.
    #[default]
    Clamp,
    /// The image is repeated, every other time mirrored.
    Mirror,
    /// The border's colour.
    Border,
}

impl AddressMode {
    /// Whether the image is repeated.
    pub const fn repeats(self) -> bool {
        matches!(self, AddressMode::Wrap | AddressMode::Mirror)
    }

    /// The index of the texel that stands for index `i` of `size`; `None`: the border.
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

/// Where a repeated image has what it has at a normalised coordinate, between 0 and 2 for those that are 2 or more: indices
/// of texels stay within their type. No number for those that are not finite.
#[inline(always)]
pub(super) fn within_periods(c: f64) -> f64 {
    // Exact: `f32` of that size have no more than 22 bits behind the point.
    let moved = c - 2.0 * (0.5 * c).floor();
    if c.abs() < 2.0 { c } else { moved }
}

/// Whether texels or levels are blended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Filter {
    /// The nearest.
    #[default]
    Point,
    /// The two nearest in each direction, by distance.
    Linear,
}

/// What integer texels are read as.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ReadMode {
    /// Themselves.
    #[default]
    Element,
    /// Fractions of their largest value, where they have 8 or 16 bits.
    Normalized,
}

/// How a texture is looked up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampler {
    /// For each dimension.
    pub address: [AddressMode; 3],
    /// Between texels.
    pub filter: Filter,
    /// Between mipmap levels.
    pub mipmap_filter: Filter,
    /// Of integers.
    pub read: ReadMode,
    /// Coordinates go from 0 to 1.
    pub normalized: bool,
    /// Normalised coordinates are taken as if they were not (`force_unnormalized_coords`).
    pub force_unnormalized: bool,
    /// Colours of 8 bits are sRGB.
    pub srgb: bool,
    /// Filters across the edges of a cube.
    pub seamless: bool,
    /// Longest ratio of an anisotropic footprint, 1 to 16.
    pub max_anisotropy: u32,
    /// Added to levels.
    pub level_bias: f32,
    /// Least level.
    pub min_level: f32,
    /// Greatest level.
    pub max_level: f32,
    /// Colour beyond the edge, as bits: a number for textures that are read as numbers.
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
    /// Whether floating-point coordinates are multiplied by the size.
    pub const fn is_normalized(&self) -> bool {
        self.normalized && !self.force_unnormalized
    }

    /// The address mode of a dimension: without normalised coordinates there is no repeating.
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
