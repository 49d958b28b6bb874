//! Computations for cube maps: the face and the point of the cube to which a direction points, and
//! the texels on the other side of a face's edge.

/// A point of a face of the cube. Both coordinates are in the range from -1 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct FacePoint {
    /// The index of the face: the faces in the directions +x, -x, +y, -y, +z, -z have the indices 0
    /// to 5.
    pub(super) face: u32,
    pub(super) s: f64,
    pub(super) t: f64,
    /// The component of the direction along the face's axis.
    pub(super) major: f64,
}

/// Converts a direction to the coordinate system of a face. In the result, the third coordinate is
/// along the face's axis. The quotients of the other two coordinates and the third are the
/// coordinates in the face.
pub(super) fn on_face(face: u32, [x, y, z]: [f64; 3]) -> [f64; 3] {
    match face {
        0 => [-z, -y, x],
        1 => [z, -y, -x],
        2 => [x, z, y],
        3 => [x, -z, -y],
        4 => [x, -y, z],
        _ => [-x, -y, -z],
    }
}

/// Returns the direction to the point (`s`, `t`) of a face. This is the inverse of [`on_face`] for
/// a point at the distance 1 along the face's axis.
fn direction(face: u32, s: f64, t: f64) -> [f64; 3] {
    match face {
        0 => [1.0, -t, -s],
        1 => [-1.0, -t, s],
        2 => [s, 1.0, t],
        3 => [s, -1.0, -t],
        4 => [s, -t, 1.0],
        _ => [-s, -t, -1.0],
    }
}

/// Returns the point of the cube to which a direction points. For the direction (0, 0, 0), returns
/// the middle of face 4.
pub(super) fn place(at: [f64; 3]) -> FacePoint {
    let at = at.map(|c| if c.is_nan() { 0.0 } else { c });
    let [x, y, z] = at.map(f64::abs);
    let pair = |axis: u32, c: f64| 2 * axis + u32::from(c.is_sign_negative() && c != 0.0);
    let face = if z >= x && z >= y {
        pair(2, at[2])
    } else if y >= x {
        pair(1, at[1])
    } else {
        pair(0, at[0])
    };
    let [s, t, major] = on_face(face, at);
    let part = |c: f64| {
        // If a component of the direction is infinite, only the signs of the infinite components count.
        if major.is_infinite() {
            if c.is_infinite() { c.signum() } else { 0.0 }
        } else if major == 0.0 {
            0.0
        } else {
            c / major
        }
    };
    FacePoint {
        face,
        s: part(s),
        t: part(t),
        major,
    }
}

/// Returns the texel that is adjacent to `face` across one of its edges: the other face that
/// contains this texel, and the indices of the texel in that face. Faces have `size` by `size`
/// texels. One of the indices `i` and `j` is -1 or `size`, which is just beyond an edge of `face`.
pub(super) fn beside(face: u32, [i, j]: [i64; 2], size: u32) -> (u32, [u32; 2]) {
    let n = f64::from(size.max(1));
    let centre = |i: i64| (2.0 * i as f64 + 1.0 - n) / n;
    let other = place(direction(face, centre(i), centre(j)));
    let index = |c: f64| (((c + 1.0) / 2.0 * n).floor() as i64).clamp(0, n as i64 - 1) as u32;
    (other.face, [index(other.s), index(other.t)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_hit_the_faces_of_the_programming_guide() {
        let hit = |at| {
            let place = place(at);
            (place.face, place.s, place.t)
        };
        assert_eq!(hit([2.0, 1.0, -0.5]), (0, 0.25, -0.5));
        assert_eq!(hit([-2.0, 1.0, -0.5]), (1, -0.25, -0.5));
        assert_eq!(hit([0.5, 4.0, 1.0]), (2, 0.125, 0.25));
        assert_eq!(hit([0.5, -4.0, 1.0]), (3, 0.125, -0.25));
        assert_eq!(hit([1.0, 0.5, 2.0]), (4, 0.5, -0.25));
        assert_eq!(hit([1.0, 0.5, -2.0]), (5, -0.5, -0.25));
        // z takes precedence over y, and y over x.
        assert_eq!(hit([1.0, 1.0, 1.0]).0, 4);
        assert_eq!(hit([1.0, -1.0, 0.0]).0, 3);
        assert_eq!(hit([0.0, 0.0, 0.0]), (4, 0.0, 0.0));
        assert_eq!(hit([f64::NAN, f64::INFINITY, 1.0]), (2, 0.0, 0.0));
    }

    #[test]
    fn beside_an_edge_is_the_neighbour() {
        // Left of face +x is the right edge of face +z; the rows of both faces have the same order.
        assert_eq!(beside(0, [-1, 3], 8), (4, [7, 3]));
        // Right of face +x is the left edge of face -z.
        assert_eq!(beside(0, [8, 5], 8), (5, [0, 5]));
        // Above face +x (t = -1, y = 1) is the edge x = 1 of face +y, along which z = -s.
        assert_eq!(beside(0, [2, -1], 8), (2, [7, 5]));
        for size in [1, 2, 3, 64] {
            for face in 0..6 {
                for j in 0..i64::from(size) {
                    let (other, [i, k]) = beside(face, [-1, j], size);
                    assert_ne!(other, face);
                    let edge = |c: u32| c == 0 || c == size - 1;
                    assert!(edge(i) || edge(k), "{face} {j} of {size}");
                }
            }
        }
    }
}
