//! Converts the numeric values of the driver API's texel formats to [`Format`].

use margay_ops::texture::{Channel, Format};

/// The value and the channel type of each `CU_AD_FORMAT_*` that does not determine the number of
/// components of a texel.
const PLAIN: [(u32, Channel); 8] = [
    (0x01, Channel::U8),
    (0x02, Channel::U16),
    (0x03, Channel::U32),
    (0x08, Channel::S8),
    (0x09, Channel::S16),
    (0x0a, Channel::S32),
    (0x10, Channel::F16),
    (0x20, Channel::F32),
];

/// Values and channel types of the formats of normalised integers. Each value in this table belongs
/// to the format with one component. The following two values (the value plus 1 and plus 2) belong
/// to the formats with two and four components.
const NORMALIZED: [(u32, Channel); 4] = [
    (0xc0, Channel::U8),
    (0xc3, Channel::U16),
    (0xc6, Channel::S8),
    (0xc9, Channel::S16),
];

const COUNTS: [u8; 3] = [1, 2, 4];

/// `CU_AD_FORMAT_UNORM_INT_101010_2`.
const PACKED: u32 = 0x50;

/// Returns the [`Format`] of texels that have `channels` components and the `CUarray_format` with
/// the value `number`. Returns `None` for block-compressed and planar formats, which are not
/// supported, and also if the format does not permit `channels` components.
pub fn format_of(number: u32, channels: u32) -> Option<Format> {
    let count = u8::try_from(channels).ok().filter(|n| COUNTS.contains(n))?;
    if let Some((_, channel)) = PLAIN.iter().find(|(known, _)| *known == number) {
        return Some(Format::new(*channel, count));
    }
    if number == PACKED {
        let packed = Format {
            normalized: true,
            ..Format::new(Channel::Packed10, 4)
        };
        return (count == 4).then_some(packed);
    }
    let (first, channel) = NORMALIZED
        .iter()
        .find(|(first, _)| (*first..first + 3).contains(&number))?;
    let own = COUNTS[(number - first) as usize];
    (own == count).then_some(Format {
        normalized: true,
        ..Format::new(*channel, count)
    })
}

/// Returns the [`Format`] for the `CUresourceViewFormat` with the value `number`, and the `CUarray_format` of its
/// components. Returns `None` for block-compressed formats and invalid values.
pub fn view_format_of(number: u32) -> Option<(Format, u32)> {
    const ORDER: [u32; 8] = [0x01, 0x08, 0x02, 0x09, 0x03, 0x0a, 0x10, 0x20];
    let index = number.checked_sub(1)?;
    let plain = *ORDER.get(index as usize / 3)?;
    let channels = u32::from(COUNTS[index as usize % 3]);
    Some((format_of(plain, channels)?, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        assert_eq!(format_of(0x20, 4), Some(Format::new(Channel::F32, 4)));
        assert_eq!(format_of(0x20, 3), None);
        assert_eq!(format_of(0, 1), None);
        let unorm = format_of(0xc5, 4).expect("UNORM_INT16X4");
        assert_eq!((unorm.channel, unorm.normalized), (Channel::U16, true));
        assert_eq!(format_of(0xc5, 2), None);
        assert_eq!(format_of(0xc6, 1).map(|f| f.channel), Some(Channel::S8));
        assert_eq!(format_of(0xcb, 4).map(|f| f.channel), Some(Channel::S16));
        assert_eq!(format_of(0xb0, 3), None, "NV12");
        assert_eq!(format_of(0x91, 4), None, "BC1");
    }

    #[test]
    fn views_name_formats_in_the_headers_order() {
        let view =
            |number| view_format_of(number).map(|(format, _)| (format.channel, format.count));
        assert_eq!(view(0x00), None);
        assert_eq!(view(0x01), Some((Channel::U8, 1)));
        assert_eq!(view(0x06), Some((Channel::S8, 4)));
        assert_eq!(view(0x08), Some((Channel::U16, 2)));
        assert_eq!(view(0x0d), Some((Channel::U32, 1)));
        assert_eq!(view(0x12), Some((Channel::S32, 4)));
        assert_eq!(view(0x14), Some((Channel::F16, 2)));
        assert_eq!(view(0x18), Some((Channel::F32, 4)));
        assert_eq!(view(0x19), None);
    }
}
