//! The array sizes that the device's attributes permit.

use crate::device::Device;

/// The kinds of arrays that have different size limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Line,
    Plane,
    Volume,
    Lines,
    Planes,
    Cube,
    Cubes,
}

/// IDs of the attributes `CU_DEVICE_ATTRIBUTE_MAXIMUM_*` that limit the width, the height and the number of slices; 0
/// if no attribute limits the size.
type Rows = [i32; 3];

fn texture(shape: Shape) -> Rows {
    match shape {
        Shape::Line => [21, 0, 0],
        Shape::Plane => [22, 23, 0],
        Shape::Volume => [24, 25, 26],
        Shape::Lines => [42, 0, 43],
        Shape::Planes => [27, 28, 29],
        Shape::Cube => [52, 52, 0],
        Shape::Cubes => [53, 53, 54],
    }
}

fn surface(shape: Shape) -> Rows {
    match shape {
        Shape::Line => [55, 0, 0],
        Shape::Plane => [56, 57, 0],
        Shape::Volume => [58, 59, 60],
        Shape::Lines => [61, 0, 62],
        Shape::Planes => [63, 64, 65],
        Shape::Cube => [66, 66, 0],
        Shape::Cubes => [67, 67, 68],
    }
}

/// Alternative limits of three-dimensional arrays. They permit a greater depth and a smaller width
/// than the usual limits.
const ALTERNATE: Rows = [47, 48, 49];
const GATHERED: Rows = [45, 46, 0];
const MIPMAPPED_LINE: Rows = [77, 0, 0];
const MIPMAPPED_PLANE: Rows = [73, 74, 0];

fn within(device: &Device, rows: Rows, size: [u64; 3]) -> bool {
    rows.into_iter().zip(size).all(|(row, size)| {
        row == 0
            || device
                .attribute(row)
                .is_some_and(|limit| size <= limit as u64)
    })
}

/// How an array may be used; each use has size limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) surface: bool,
    pub(super) gather: bool,
    pub(super) mipmapped: bool,
}

/// Returns whether the attributes of the device permit an array of the size `size`.
pub(super) fn allows(device: &Device, shape: Shape, used: Use, size: [u64; 3]) -> bool {
    let mut fits = within(device, texture(shape), size)
        || (shape == Shape::Volume && within(device, ALTERNATE, size));
    if used.surface {
        fits &= within(device, surface(shape), size);
    }
    if used.gather {
        fits &= within(device, GATHERED, size);
    }
    if used.mipmapped {
        fits &= match shape {
            Shape::Line => within(device, MIPMAPPED_LINE, size),
            Shape::Plane => within(device, MIPMAPPED_PLANE, size),
            _ => true,
        };
    }
    fits
}
