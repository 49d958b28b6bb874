//! Rays and triangles in a tree of boxes. Each thread follows one ray, with a stack in local memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Element, Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "rays in a tree of boxes",
    size: "16 Ki rays, 16 Ki triangles",
    group: Group::Second,
    sources: sources!("benches/cuda/bvh.ptx", "bvh", c_uneven: true),
    make,
};

const MISS: f32 = 1e30;
/// The largest number of triangles in a leaf.
const LEAF: usize = 4;

type Vector = [f32; 3];

/// A triangle: a corner, and the two edges that begin at this corner.
#[derive(Clone, Copy)]
struct Triangle([Vector; 3]);

impl Triangle {
    fn corners(&self) -> [Vector; 3] {
        let [corner, edge, other] = self.0;
        [corner, plus(corner, edge), plus(corner, other)]
    }

    fn centre(&self, axis: usize) -> f32 {
        self.corners().iter().map(|corner| corner[axis]).sum()
    }
}

/// A node of the tree, with its box. The children of an inner node are `first` and `first + 1`. A leaf has `count`
/// triangles, beginning with `first`.
#[derive(Clone, Copy)]
struct Node {
    low: Vector,
    first: i32,
    high: Vector,
    count: i32,
}

impl Element for Node {
    fn put(self, out: &mut Vec<u8>) {
        self.low.put(out);
        self.first.put(out);
        self.high.put(out);
        self.count.put(out);
    }

    fn get(bytes: &[u8]) -> Node {
        Node {
            low: Vector::get(&bytes[..12]),
            first: i32::get(&bytes[12..16]),
            high: Vector::get(&bytes[16..28]),
            count: i32::get(&bytes[28..32]),
        }
    }
}

fn make(scale: Scale) -> Work {
    let (rays, triangles) = (scale.pick(1 << 14, 500), scale.pick(1 << 14, 300));
    let mut random = Random::new(48);
    let (mut triangles, rays) = scene(&mut random, triangles, rays);
    let nodes = tree(&mut triangles);
    let want: Vec<f32> = rays
        .iter()
        .map(|ray| trace(&nodes, &triangles, ray))
        .collect();
    let n = rays.len();
    let mut work = Work::on(n);
    let nodes = work.input(&nodes);
    let triangles: Vec<[Vector; 3]> = triangles.iter().map(|triangle| triangle.0).collect();
    let (triangles, rays) = (work.input(&triangles), work.input(&rays));
    let distances = work.output::<f32>(n);
    let arguments = args![nodes, triangles, rays, distances, n as i32];
    work.launch("bvh_trace", n.div_ceil(128), 128, arguments);
    work.numbers([n]);
    work.expect(distances, Values::exact(&want));
    work
}

/// Creates triangles in a cube, and rays with their origins and directions.
fn scene(random: &mut Random, triangles: usize, rays: usize) -> (Vec<Triangle>, Vec<[Vector; 2]>) {
    // With this size, the area of all triangles is about that of a side of the cube.
    let size = 12.0 / (triangles as f32).sqrt();
    let mut vector = |size: f32| [(); 3].map(|()| size * (random.unit() - 0.5));
    let triangles = (0..triangles)
        .map(|_| Triangle([vector(4.0), vector(size), vector(size)]))
        .collect();
    let ray = |_| {
        // The ray begins outside the cube, and leads to a point in the cube.
        let (mut origin, to) = (vector(4.0), vector(3.0));
        origin[2] = -4.0;
        [origin, minus(to, origin)]
    };
    (triangles, (0..rays).map(ray).collect())
}

fn plus(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] + b[i])
}

fn minus(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] - b[i])
}

/// Builds the tree, and sorts the triangles so that the triangles of each leaf are neighbours.
fn tree(triangles: &mut [Triangle]) -> Vec<Node> {
    let mut nodes = vec![bounds(triangles, 0)];
    let mut waiting = vec![(0, 0, triangles.len())];
    while let Some((node, first, end)) = waiting.pop() {
        if end - first <= LEAF {
            continue;
        }
        let here = &mut nodes[node];
        let extent = minus(here.high, here.low);
        let axis = (0..3).fold(0, |a, b| if extent[b] > extent[a] { b } else { a });
        let middle = (end - first) / 2;
        let by_centre = |a: &Triangle, b: &Triangle| a.centre(axis).total_cmp(&b.centre(axis));
        triangles[first..end].select_nth_unstable_by(middle, by_centre);
        let middle = first + middle;
        let children = nodes.len();
        nodes[node].first = children as i32;
        nodes[node].count = 0;
        for (child, (first, end)) in [(first, middle), (middle, end)].into_iter().enumerate() {
            nodes.push(bounds(&triangles[first..end], first));
            waiting.push((children + child, first, end));
        }
    }
    nodes
}

/// Returns a leaf with these triangles, which begin at index `first`. The box is slightly larger than the triangles, so
/// that rounding errors do not exclude a triangle that a ray hits.
fn bounds(triangles: &[Triangle], first: usize) -> Node {
    let corners = || triangles.iter().flat_map(Triangle::corners);
    let side = |pick: fn(f32, f32) -> f32, start: f32, margin: f32| -> Vector {
        std::array::from_fn(|axis| corners().map(|c| c[axis]).fold(start, pick) + margin)
    };
    Node {
        low: side(f32::min, f32::INFINITY, -1e-3),
        first: first as i32,
        high: side(f32::max, f32::NEG_INFINITY, 1e-3),
        count: triangles.len() as i32,
    }
}

/// Returns the distance at which a ray hits the nearest triangle, or [`MISS`].
fn trace(nodes: &[Node], triangles: &[Triangle], ray: &[Vector; 2]) -> f32 {
    let inverse = ray[1].map(|d| 1.0 / d);
    let (mut nearest, mut waiting) = (MISS, vec![0]);
    while let Some(at) = waiting.pop() {
        let node = &nodes[at as usize];
        if !reaches(node, ray[0], inverse, nearest) {
            continue;
        }
        if node.count == 0 {
            waiting.extend([node.first, node.first + 1]);
        }
        for triangle in &triangles[node.first as usize..][..node.count as usize] {
            nearest = hit(triangle, ray, nearest);
        }
    }
    nearest
}

/// Returns whether the ray is in the box at a distance between 0 and `nearest`.
fn reaches(node: &Node, origin: Vector, inverse: Vector, nearest: f32) -> bool {
    let (mut from, mut to) = (0.0f32, nearest);
    for axis in 0..3 {
        let sides = [node.low[axis], node.high[axis]];
        let [a, b] = sides.map(|side| (side - origin[axis]) * inverse[axis]);
        from = from.max(a.min(b));
        to = to.min(a.max(b));
    }
    from <= to
}

fn dot(a: Vector, b: Vector) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Vector, b: Vector) -> Vector {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

/// Returns the distance to the triangle if it is nearer than `nearest`, otherwise `nearest` (Möller and Trumbore).
fn hit(triangle: &Triangle, [origin, direction]: &[Vector; 2], nearest: f32) -> f32 {
    let [corner, edge, other] = triangle.0;
    let p = cross(*direction, other);
    let scale = 1.0 / dot(edge, p);
    let away = minus(*origin, corner);
    let u = dot(away, p) * scale;
    let q = cross(away, edge);
    let v = dot(*direction, q) * scale;
    let t = dot(other, q) * scale;
    let inside = u >= 0.0 && v >= 0.0 && u + v <= 1.0;
    if inside && t > 0.0 && t < nearest {
        t
    } else {
        nearest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_finds_what_all_triangles_give() {
        let (mut triangles, rays) = scene(&mut Random::new(1), 200, 300);
        let nodes = tree(&mut triangles);
        let found = rays.iter().map(|ray| trace(&nodes, &triangles, ray));
        let found: Vec<f32> = found.collect();
        let by_all = |ray| {
            triangles
                .iter()
                .fold(MISS, |nearest, t| hit(t, ray, nearest))
        };
        assert_eq!(found, rays.iter().map(by_all).collect::<Vec<_>>());
        let hits = found.iter().filter(|distance| **distance < MISS).count();
        assert!(hits > 50 && hits < 300, "{hits}");
    }
}
