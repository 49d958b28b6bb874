//! Products and transforms of cuBLASLt with random descriptors, most of them right, and operands at the ends of memory.

use super::raw::{BYTES, MOST, call, entry};
use super::walk::Random;

fn invoke(name: &str, arguments: &[usize]) -> usize {
    let mut all = [0; MOST];
    all[..arguments.len()].copy_from_slice(arguments);
    call(entry(name), &all, 0.0) & 0xffff_ffff
}

fn at<T>(place: &mut T) -> usize {
    std::hint::black_box((&raw mut *place).expose_provenance())
}

fn create(name: &str, rest: &[usize]) -> usize {
    let mut place = 0_usize;
    let arguments: Vec<usize> = [at(&mut place)].iter().chain(rest).copied().collect();
    let _ = invoke(name, &arguments);
    place
}

/// Sets an attribute, mostly with the right size.
fn set(random: &mut Random, kind: &str, descriptor: usize, attribute: usize, mut value: usize) {
    let size = random.of(&[4, 8, 4, 8, 8, 1, 0, 2, 16, usize::MAX]);
    let name = format!("cublasLt{kind}SetAttribute");
    let readable = size.min(size_of::<usize>());
    let _ = invoke(&name, &[descriptor, attribute, at(&mut value), readable]);
    if size == usize::MAX {
        let _ = invoke(&name, &[descriptor, attribute, 0, size]);
    }
}

/// An address from which there are few bytes to one end of the memory.
fn place(random: &mut Random, memory: usize) -> usize {
    let distance = random.next() % (1 << (random.next() % 12)) / 4 * 4;
    match random.next() % 8 {
        0 => 0,
        1 => memory + distance,
        _ => memory + BYTES - (distance + 4),
    }
}

fn layout(random: &mut Random, kind: usize, rows: usize, columns: usize) -> usize {
    let order = random.of(&[0, 0, 0, 1, 1, 2, 3, 4, 99]);
    let length = if order == 1 { columns } else { rows };
    let ld = match random.next() % 8 {
        0 => random.of(&[0, 1, usize::MAX, 1 << 40]),
        _ => (length + random.next() % 3) * if order == 2 { 32 } else { 1 },
    };
    let layout = create("cublasLtMatrixLayoutCreate", &[kind, rows, columns, ld]);
    set(random, "MatrixLayout", layout, 1, order);
    if random.next().is_multiple_of(3) {
        let (attribute, value) = (
            5 + random.next() % 3,
            random.of(&[0, 1, 2, 3, 16, 256, usize::MAX, 1 << 31]),
        );
        set(random, "MatrixLayout", layout, attribute, value);
    }
    layout
}

fn description(random: &mut Random, memory: usize, kinds: [usize; 2]) -> usize {
    let desc = create("cublasLtMatmulDescCreate", &kinds);
    for attribute in [3, 4] {
        let operation = random.of(&[0, 1, 2, 1, 0, 7]);
        set(random, "MatmulDesc", desc, attribute, operation);
    }
    for _ in 0..random.next() % 6 {
        let attribute = random.next() % 42;
        let value = match attribute {
            2 => random.next() % 5,
            7 => random.of(&[1, 2, 4, 6, 32, 36, 130, 136, 152, 164, 192, 208, 256, 512]),
            8 | 11 | 17..=21 | 23 | 24 | 36 => place(random, memory),
            _ => random.of(&[0, 1, 2, 3, 8, 64, 128, usize::MAX]),
        };
        set(random, "MatmulDesc", desc, attribute, value);
    }
    if random.next().is_multiple_of(4) {
        scales_of_blocks(random, memory, desc);
    }
    desc
}

/// Sets factors of blocks for A, B and mostly D.
fn scales_of_blocks(random: &mut Random, memory: usize, desc: usize) {
    let mode = random.of(&[1, 1, 2, 2, 4, 5]);
    let modes = [mode, random.of(&[mode, mode, 4, 5]), mode];
    let addresses = [0; 3].map(|_| place(random, memory));
    let wanted = 2 + random.next() % 2;
    for index in 0..wanted {
        let attributes = [(17, 31), (18, 32), (36, 37)][index];
        let (mut address, mut mode) = (addresses[index], modes[index] as u32);
        let name = "cublasLtMatmulDescSetAttribute";
        assert_eq!(invoke(name, &[desc, attributes.0, at(&mut address), 8]), 0);
        assert_eq!(invoke(name, &[desc, attributes.1, at(&mut mode), 4]), 0);
    }
}

/// Makes one product or transform.
pub(super) fn walk(random: &mut Random, handle: usize, memory: usize) {
    // The types of A and B, of C and D, of the computation and of the factors.
    let [input, output, compute, scale] = [
        [0, 0, 68, 0],
        [1, 1, 70, 1],
        [2, 2, 68, 0],
        [2, 2, 64, 2],
        [14, 14, 68, 0],
        [14, 0, 68, 0],
        [4, 4, 68, 4],
        [5, 5, 70, 5],
        [3, 10, 72, 10],
        [3, 3, 72, 0],
        [28, 2, 68, 0],
        [29, 14, 68, 0],
        [28, 28, 68, 0],
        [28, 14, 68, 0],
        [33, 14, 68, 0],
        [33, 33, 68, 0],
    ][random.next() % 16];
    let (m, n, k) = (
        random.next() % 9,
        random.next() % 9,
        random.next() % 9 * random.of(&[1, 1, 4]),
    );
    let mut layouts = [(m, k), (k, n), (m, n), (m, n)].map(|(mut rows, mut columns)| {
        if random.next().is_multiple_of(4) {
            (rows, columns) = (columns, rows);
        }
        let kind = if columns == n { output } else { input };
        layout(random, kind, rows, columns)
    });
    if random.next().is_multiple_of(16) {
        let _ = invoke("cublasLtMatrixLayoutDestroy", &[layouts[0]]);
    }
    if random.next().is_multiple_of(3) {
        layouts[3] = layouts[2];
    }
    let [of_a, of_b, of_c, of_d] = layouts;
    let mut places = || place(random, memory);
    let (alpha, a, b, beta, c, d) = (places(), places(), places(), places(), places(), places());
    let desc = description(random, memory, [compute, scale]);
    let preference = create("cublasLtMatmulPreferenceCreate", &[]);
    let (mut found, mut count) = ([0_u64; 24], 0_i32);
    let search = [
        handle,
        desc,
        of_a,
        of_b,
        of_c,
        of_d,
        preference,
        2,
        at(&mut found),
        at(&mut count),
    ];
    let _ = invoke("cublasLtMatmulAlgoGetHeuristic", &search);
    let algorithm = if count > 0 { at(&mut found) } else { 0 };
    let product = [
        handle, desc, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algorithm, 0, 0, 0,
    ];
    let _ = invoke("cublasLtMatmul", &product);
    let transform = create("cublasLtMatrixTransformDescCreate", &[scale]);
    for attribute in 0..4 {
        let value = random.next() % 3;
        set(random, "MatrixTransformDesc", transform, attribute, value);
    }
    let transformed = [handle, transform, alpha, a, of_a, beta, b, of_c, c, of_d, 0];
    let _ = invoke("cublasLtMatrixTransform", &transformed);
    for layout in layouts {
        let _ = invoke("cublasLtMatrixLayoutDestroy", &[layout]);
    }
    let _ = invoke("cublasLtMatmulDescDestroy", &[desc]);
    let _ = invoke("cublasLtMatmulPreferenceDestroy", &[preference]);
    let _ = invoke("cublasLtMatrixTransformDescDestroy", &[transform]);
}
