//! Tests linear filtering. The expected results are computed with exact integers from the formulas
//! in the CUDA C++ Programming Guide's appendix on texture fetching: `tex(x) = (1-a)T[i] + aT[i+1]`
//! in each dimension. `i` is the floor of `x N - 1/2`, and `a` is the fraction of `x N - 1/2`,
//! rounded to 8 bits.

#[path = "support/bytes.rs"]
mod bytes;

use bytes::Bytes;
use margay_ops::meaning::Bits;
use margay_ops::texture::lanes::Coordinates;
use margay_ops::texture::sample::{Texture, fetch};
use margay_ops::texture::{
    Access, AddressMode, Channel, Filter, Format, Geometry, Image, Layout, Level, Operation, Plan,
    Sampler, Shape,
};
use margay_ops::types::OpType;
use proptest::prelude::*;

/// Coordinates are integers in units of 1 / `ONE`, so `ONE` represents the coordinate 1.0.
const ONE: i128 = 1 << 16;

#[derive(Clone, Debug)]
struct Case {
    size: [u32; 3],
    dimensions: usize,
    texels: Vec<i32>,
    coords: [i32; 3],
    modes: [AddressMode; 3],
    normalized: bool,
    border: i32,
}

/// Returns the index of the texel that an access with the index `i` reads according to the guide,
/// if the dimension has `n` texels. `None` means the border colour.
fn index(mode: AddressMode, i: i128, n: i128) -> Option<i128> {
    match mode {
        AddressMode::Clamp => Some(if i < 0 {
            0
        } else if i > n - 1 {
            n - 1
        } else {
            i
        }),
        // The guide specifies frac(x) for a normalised coordinate x.
        AddressMode::Wrap => Some(i - n * i.div_euclid(n)),
        // The guide specifies frac(x) if floor(x) is even, and 1 - frac(x) otherwise.
        AddressMode::Mirror => {
            let (whole, part) = (i.div_euclid(n), i.rem_euclid(n));
            Some(if whole % 2 == 0 { part } else { n - 1 - part })
        }
        AddressMode::Border => (0..n).contains(&i).then_some(i),
    }
}

/// Returns the expected result of a fetch, multiplied by 256 to the power of the number of
/// dimensions.
fn expected(case: &Case) -> i128 {
    let mut sum = 0;
    for corner in 0..1usize << case.dimensions {
        let mut weight = 1;
        let mut at = [0i128; 3];
        let mut inside = true;
        for (d, place) in at.iter_mut().enumerate().take(case.dimensions) {
            let n = i128::from(case.size[d]);
            let x = i128::from(case.coords[d]) * if case.normalized { n } else { 1 } - ONE / 2;
            let (whole, part) = (x.div_euclid(ONE), x.rem_euclid(ONE));
            let a = (part * 256 + ONE / 2).div_euclid(ONE);
            let far = corner >> d & 1;
            weight *= if far == 1 { a } else { 256 - a };
            let mode = match case.modes[d] {
                AddressMode::Wrap | AddressMode::Mirror if !case.normalized => AddressMode::Clamp,
                mode => mode,
            };
            match index(mode, whole + far as i128, n) {
                Some(found) => *place = found,
                None => inside = false,
            }
        }
        let [width, height, _] = case.size.map(i128::from);
        let texel = match inside {
            true => case.texels[((at[2] * height + at[1]) * width + at[0]) as usize],
            false => case.border,
        };
        sum += weight * i128::from(texel);
    }
    sum
}

fn found(case: &Case) -> f32 {
    let [width, height, depth] = case.size;
    let level = Level {
        address: 0,
        width,
        height,
        depth,
        pitch: u64::from(width) * 4,
        slice: u64::from(width * height) * 4,
    };
    let image = Image {
        layout: Layout::Array,
        format: Format::new(Channel::F32, 1),
        dimensions: case.dimensions as u8,
        layered: false,
        cube: false,
        levels: vec![level],
        format_number: 0x20,
    };
    let sampler = Sampler {
        address: case.modes,
        filter: Filter::Linear,
        normalized: case.normalized,
        border: [(case.border as f32).to_bits(); 4],
        ..Sampler::default()
    };
    let access = Access {
        operation: Operation::Tex,
        geometry: [Geometry::D1, Geometry::D2, Geometry::D3][case.dimensions - 1],
        count_log2: 2,
        ty: OpType::F32,
        coords: OpType::F32,
        ..Access::default()
    };
    let bytes = case.texels.iter().flat_map(|&t| (t as f32).to_le_bytes());
    let bytes: Vec<u8> = bytes.collect();
    let mut memory = Bytes {
        base: 0,
        bytes: &bytes,
    };
    let coords = case.coords.map(|c| (c as f32 / ONE as f32).to_bits());
    let args: Vec<Bits> = coords[..case.dimensions]
        .iter()
        .map(|&c| Bits::from(c))
        .collect();
    let texture = Texture {
        image: &image,
        sampler: &sampler,
    };
    let found = fetch(&access, &texture, &args, &mut memory).expect("the texels are there");
    let plan = Plan::of(&image, &sampler).expect("a plain texture has a plan");
    let shape = Shape::of_payload(access.payload()).expect("a plain fetch has a shape");
    // There are three lanes. The first lane is inactive, and the test checks only the result of the second lane.
    let coordinates = Coordinates {
        layer: [0; 3],
        at: coords.map(|c| [f32::NAN.to_bits(), c, 1f32.to_bits()]),
    };
    let mut quick = [[0; 3]; 4];
    let done = plan.fetch(shape, &coordinates, 0b110, &mut memory, &mut quick);
    done.expect("the texels are there");
    assert_eq!(
        quick.map(|lanes| Bits::from(lanes[1])),
        found[..4],
        "the short way is the long one"
    );
    f32::from_bits(found[0] as u32)
}

fn case() -> impl Strategy<Value = Case> {
    let mode = prop_oneof![
        Just(AddressMode::Clamp),
        Just(AddressMode::Wrap),
        Just(AddressMode::Mirror),
        Just(AddressMode::Border),
    ];
    let shape = (1usize..=3, [1u32..7, 1u32..6, 1u32..5]).prop_map(|(dimensions, size)| {
        let kept = |d: usize| if d < dimensions { size[d] } else { 1 };
        (dimensions, [0, 1, 2].map(kept))
    });
    (shape, [mode.clone(), mode.clone(), mode], any::<bool>()).prop_flat_map(
        |((dimensions, size), modes, normalized)| {
            let count = size.iter().product::<u32>() as usize;
            let reach = if normalized { 3 << 16 } else { 12 << 16 };
            let coordinate = -reach..reach;
            (
                proptest::collection::vec(-65_536i32..65_536, count),
                [coordinate.clone(), coordinate.clone(), coordinate],
                -1000i32..1000,
            )
                .prop_map(move |(texels, coords, border)| Case {
                    size,
                    dimensions,
                    texels,
                    coords,
                    modes,
                    normalized,
                    border,
                })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn linear_filtering_is_the_guides_formula(case in case()) {
        // Numerator and denominator are exact in binary64, and so is the quotient; only the conversion to `f32`
        // rounds.
        let scale = f64::from(1u32 << (8 * case.dimensions));
        let wanted = (expected(&case) as f64 / scale) as f32;
        prop_assert_eq!(found(&case).to_bits(), (wanted + 0.0).to_bits());
    }
}

/// Tests special cases that the guide describes: weights are exact at the centre of a texel and
/// halfway between two texels, and a weight can be 1.
#[test]
fn weights_have_eight_bits() {
    let at = |x: f64| {
        found(&Case {
            size: [2, 1, 1],
            dimensions: 1,
            texels: vec![0, 256],
            coords: [(x * 65_536.0) as i32, 0, 0],
            modes: [AddressMode::Clamp; 3],
            normalized: false,
            border: 0,
        })
    };
    assert_eq!(at(0.5), 0.0);
    assert_eq!(at(1.0), 128.0);
    assert_eq!(at(1.5), 256.0);
    assert_eq!(at(0.5 + 1.0 / 256.0), 1.0);
    assert_eq!(at(0.5 + 1.0 / 512.0), 1.0, "ties go up");
    assert_eq!(at(0.5 + 1.0 / 1024.0), 0.0);
    assert_eq!(at(1.5 - 1.0 / 1024.0), 256.0, "a weight of 1");
}
