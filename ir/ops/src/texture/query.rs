//! The reference functions of `txq` and `suq`, which return properties of textures and surfaces.
//!
//! A query returns an address mode as a number in the order of the PTX ISA: wrap, mirror,
//! clamp_ogl, clamp_to_edge, clamp_to_border. It returns a filter as a number in the order nearest,
//! linear. The channel data type is the format's number in the driver API; the channel order is the
//! number of components.

use super::{Access, AddressMode, Filter, Image, Layout, Query, Sampler};

/// Returns the property of a sampler that `access` names, or 0 if samplers do not have this
/// property.
pub fn of_sampler(access: &Access, sampler: &Sampler) -> u32 {
    let mode = |dimension: usize| match sampler.address[dimension] {
        AddressMode::Wrap => 0,
        AddressMode::Mirror => 1,
        AddressMode::Clamp => 3,
        AddressMode::Border => 4,
    };
    match access.query {
        Query::NormalizedCoords => sampler.normalized.into(),
        Query::ForceUnnormalizedCoords => sampler.force_unnormalized.into(),
        Query::FilterMode => (sampler.filter == Filter::Linear).into(),
        Query::AddrMode0 => mode(0),
        Query::AddrMode1 => mode(1),
        Query::AddrMode2 => mode(2),
        _ => 0,
    }
}

/// Returns the property of a texture, a surface or the texture's sampler that `access` names, or 0
/// if they do not have this property.
pub fn answer(access: &Access, image: &Image, sampler: Option<&Sampler>, level: u32) -> u32 {
    let size = image.level(level as usize);
    match access.query {
        Query::Width => size.map_or(0, |size| size.width),
        Query::Height if image.dimensions < 2 => 0,
        Query::Height => size.map_or(0, |size| size.height),
        Query::Depth if image.dimensions < 3 => 0,
        Query::Depth => size.map_or(0, |size| size.depth),
        Query::ChannelDataType => image.format_number,
        Query::ChannelOrder => image.format.count.into(),
        Query::ArraySize => image.layers(),
        Query::NumMipmapLevels => image.levels.len() as u32,
        Query::NumSamples => 1,
        Query::MemoryLayout => (image.layout != Layout::Array).into(),
        _ => sampler.map_or(0, |sampler| of_sampler(access, sampler)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Channel, Format, Level};
    use super::*;

    #[test]
    fn answers() {
        let level = |width, height| Level {
            address: 0,
            width,
            height,
            depth: 6,
            pitch: 0,
            slice: 0,
        };
        let image = Image {
            layout: Layout::Array,
            format: Format::new(Channel::U8, 2),
            dimensions: 2,
            layered: true,
            cube: false,
            levels: vec![level(9, 7), level(4, 3)],
            format_number: 1,
        };
        let sampler = Sampler {
            address: [AddressMode::Border, AddressMode::Wrap, AddressMode::Mirror],
            normalized: true,
            ..Sampler::default()
        };
        let ask = |query, level| {
            let access = Access {
                query,
                ..Access::default()
            };
            answer(&access, &image, Some(&sampler), level)
        };
        assert_eq!((ask(Query::Width, 0), ask(Query::Height, 0)), (9, 7));
        assert_eq!((ask(Query::Width, 1), ask(Query::Width, 2)), (4, 0));
        assert_eq!(ask(Query::Depth, 0), 0, "layers are no depth");
        assert_eq!(ask(Query::ArraySize, 0), 6);
        assert_eq!(ask(Query::NumMipmapLevels, 0), 2);
        let modes = [Query::AddrMode0, Query::AddrMode1, Query::AddrMode2];
        assert_eq!(modes.map(|query| ask(query, 0)), [4, 0, 1]);
        assert_eq!(ask(Query::NormalizedCoords, 0), 1);
    }
}
