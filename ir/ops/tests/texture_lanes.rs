//! Tests that fetches with a plan return the same bits as fetches without a plan, for every format,
//! filter, address mode and shape, with active and inactive lanes.

#[path = "support/bytes.rs"]
mod bytes;

use bytes::Bytes;
use margay_ops::meaning::Bits;
use margay_ops::texture::lanes::Coordinates;
use margay_ops::texture::sample::{Texture, fetch};
use margay_ops::texture::{
    Access, AddressMode, Channel, Filter, Format, Geometry, Image, Layout, Level, Operation, Plan,
    ReadMode, Sampler, Shape,
};
use margay_ops::types::OpType;
use proptest::prelude::*;

/// The address of the image's first byte.
const BASE: u64 = 0x1000;
const LANES: usize = 8;

#[derive(Clone, Debug)]
struct Case {
    image: Image,
    sampler: Sampler,
    access: Access,
    bytes: Vec<u8>,
    layer: [u32; LANES],
    at: [[u32; LANES]; 3],
    live: u32,
}

fn channel() -> impl Strategy<Value = Channel> {
    use Channel as C;
    proptest::sample::select(vec![
        C::F32,
        C::F32,
        C::U8,
        C::U16,
        C::U32,
        C::S8,
        C::S16,
        C::S32,
        C::F16,
    ])
}

fn mode() -> impl Strategy<Value = AddressMode> {
    use AddressMode as M;
    proptest::sample::select(vec![M::Clamp, M::Wrap, M::Mirror, M::Border])
}

fn sampler() -> impl Strategy<Value = Sampler> {
    let flags = any::<[bool; 5]>();
    let border = any::<[u32; 4]>();
    ([mode(), mode(), mode()], flags, border).prop_map(|(address, flags, border)| {
        let [linear, fractions, normalized, force_unnormalized, srgb] = flags;
        Sampler {
            address,
            filter: if linear {
                Filter::Linear
            } else {
                Filter::Point
            },
            read: if fractions {
                ReadMode::Normalized
            } else {
                ReadMode::Element
            },
            normalized,
            force_unnormalized: force_unnormalized && !normalized,
            srgb,
            border,
            ..Sampler::default()
        }
    })
}

/// Generates random images with padding after rows and slices.
fn image() -> impl Strategy<Value = (Image, Geometry)> {
    use Geometry as G;
    let geometry = proptest::sample::select(vec![G::D1, G::D2, G::D3, G::A1, G::A2]);
    let format = (channel(), proptest::sample::select(vec![1u8, 2, 4]));
    let size = [1u32..9, 1u32..6, 1u32..4];
    (geometry, format, size, any::<[bool; 2]>()).prop_map(
        |(geometry, (channel, count), size, [buffer, fractions])| {
            let layered = geometry.is_layered();
            let [width, height, depth] = match geometry.dimensions() {
                1 => [size[0], 1, if layered { size[2] } else { 1 }],
                2 if !layered => [size[0], size[1], 1],
                _ => size,
            };
            let whole = channel.is_float() || channel.bytes() == 4;
            let format = Format {
                normalized: fractions && !whole,
                ..Format::new(channel, count)
            };
            let pitch = u64::from(width) * format.bytes() as u64 + 3;
            let level = Level {
                address: BASE,
                width,
                height,
                depth,
                pitch,
                slice: pitch * u64::from(height) + 5,
            };
            let buffer = buffer && geometry == G::D1;
            let image = Image {
                layout: if buffer {
                    Layout::Linear
                } else {
                    Layout::Array
                },
                format,
                dimensions: geometry.dimensions() as u8,
                layered,
                cube: false,
                levels: vec![level],
                format_number: 0,
            };
            (image, geometry)
        },
    )
}

/// Generates random coordinates, most of them inside the image or near it.
fn coordinate(float: bool) -> BoxedStrategy<u32> {
    match float {
        true => prop_oneof![
            12 => (-12.0f32..12.0).prop_map(f32::to_bits),
            4 => (-24i32..24).prop_map(|c| (c as f32 / 2.0).to_bits()),
            4 => (-2.0f32..2.0).prop_map(f32::to_bits),
            1 => any::<u32>(),
            1 => proptest::sample::select(vec![
                f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2_147_483_648.0, -2_147_483_648.0, -0.0, 1e-30, -1e-30,
            ])
            .prop_map(f32::to_bits),
        ]
        .boxed(),
        false => prop_oneof![
            12 => (-12i32..12).prop_map(|c| c as u32),
            1 => any::<u32>(),
        ]
        .boxed(),
    }
}

fn lanes<T: std::fmt::Debug + Copy>(
    each: impl Strategy<Value = T>,
) -> impl Strategy<Value = [T; LANES]> {
    proptest::collection::vec(each, LANES).prop_map(|all| std::array::from_fn(|i| all[i]))
}

fn case() -> impl Strategy<Value = Case> {
    let access = (any::<[bool; 2]>(), 0u8..3);
    (image(), sampler(), access, any::<u8>()).prop_flat_map(
        |((image, geometry), sampler, ([float, signed], count_log2), live)| {
            let level = image.levels[0];
            let size = (level.slice * u64::from(level.depth)) as usize;
            let access = Access {
                operation: Operation::Tex,
                geometry,
                count_log2,
                ty: if signed { OpType::S32 } else { OpType::F32 },
                coords: if float { OpType::F32 } else { OpType::S32 },
                ..Access::default()
            };
            let at = || lanes(coordinate(float));
            (
                proptest::collection::vec(any::<u8>(), size),
                lanes(0u32..6),
                [at(), at(), at()],
            )
                .prop_map(move |(bytes, layer, at)| Case {
                    image: image.clone(),
                    sampler,
                    access,
                    bytes,
                    layer,
                    at,
                    live: u32::from(live).max(1),
                })
        },
    )
}

/// Returns the bits of a result. If `numbers` is set, returns the same bits for all NaNs, because
/// no rule specifies which NaN a fetch returns.
fn same(numbers: bool, bits: u32) -> u32 {
    match numbers && f32::from_bits(bits).is_nan() {
        true => f32::NAN.to_bits(),
        false => bits,
    }
}

fn by_lane(case: &Case, lane: usize) -> Vec<u32> {
    let mut args: Vec<Bits> = Vec::new();
    if case.access.geometry.is_layered() {
        args.push(case.layer[lane].into());
    }
    let dimensions = case.access.geometry.dimensions();
    args.extend(case.at[..dimensions].iter().map(|at| Bits::from(at[lane])));
    let texture = Texture {
        image: &case.image,
        sampler: &case.sampler,
    };
    let found = fetch(
        &case.access,
        &texture,
        &args,
        &mut Bytes {
            base: BASE,
            bytes: &case.bytes,
        },
    );
    let found = found.expect("the texels are there");
    found.into_iter().map(|bits| bits as u32).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    #[test]
    fn the_short_way_is_the_long_one(case in case()) {
        let plan = Plan::of(&case.image, &case.sampler).expect("a plain texture has a plan");
        let shape = Shape::of_payload(case.access.payload()).expect("a plain fetch has a shape");
        prop_assert!(plan.takes(shape));
        let coordinates = Coordinates { layer: case.layer, at: case.at };
        let mut found = [[0; LANES]; 4];
        let done = plan.fetch(shape, &coordinates, case.live, &mut Bytes { base: BASE, bytes: &case.bytes }, &mut found);
        done.expect("the texels are there");
        let format = &case.image.format;
        let numbers = format.channel.is_float() || format.normalized
            || (case.sampler.read == ReadMode::Normalized && format.channel.bytes() < 4);
        for lane in (0..LANES).filter(|lane| case.live >> lane & 1 != 0) {
            for (i, &wanted) in by_lane(&case, lane).iter().enumerate() {
                let (found, wanted) = (same(numbers, found[i][lane]), same(numbers, wanted));
                prop_assert_eq!(found, wanted, "lane {}, element {}", lane, i);
            }
        }
    }
}

/// Checks that inactive lanes access no memory, and that the error of a fetch contains the lane
/// that caused the fault.
#[test]
fn the_lane_of_a_fault() {
    let level = Level {
        address: BASE,
        width: 8,
        height: 2,
        depth: 1,
        pitch: 32,
        slice: 64,
    };
    let image = Image {
        layout: Layout::Array,
        format: Format::new(Channel::F32, 1),
        dimensions: 2,
        layered: false,
        cube: false,
        levels: vec![level],
        format_number: 0,
    };
    let plan = Plan::of(&image, &Sampler::default()).expect("a plain texture has a plan");
    let shape = Shape {
        dimensions: 2,
        layered: false,
        float: false,
        count: 4,
    };
    // The second row is not mapped; lanes 2 and 5 read it.
    let bytes = [1; 32];
    let row = |lane: usize| u32::from(lane == 2 || lane == 5);
    let coordinates = Coordinates {
        layer: [0; LANES],
        at: [[3; LANES], std::array::from_fn(row), [0; LANES]],
    };
    let run = |live: u32| {
        let mut out = [[0; LANES]; 4];
        let done = plan.fetch(
            shape,
            &coordinates,
            live,
            &mut Bytes {
                base: BASE,
                bytes: &bytes,
            },
            &mut out,
        );
        done.map_err(|(lane, _)| lane)
    };
    assert_eq!(run(0xff), Err(2));
    assert_eq!(run(0xfb), Err(5));
    assert_eq!(run(0xdb), Ok(()));
}
