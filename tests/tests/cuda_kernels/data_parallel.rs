//! Tests kernels whose threads do not synchronise.

use margay::LaunchConfig;

use crate::{Random, on_machines, read, same};

#[test]
fn vector_add() {
    let n = 10_007;
    let a: Vec<f32> = Random(1)
        .list(n, 1000)
        .iter()
        .map(|&v| v as f32 / 7.0)
        .collect();
    let b: Vec<f32> = (0..n).map(|i| i as f32 * 0.25).collect();
    let want: Vec<f32> = a.iter().zip(&b).map(|(x, y)| x + y).collect();
    on_machines("vector_add", |gpu| {
        let (a, b, c) = (gpu.upload(&a), gpu.upload(&b), gpu.output::<f32>(n));
        let config = LaunchConfig::linear(n as u32, 256);
        gpu.launch("vector_add", config, (&a, &b, &c, n as i32));
        same("c", &read(&c), &want);
    });
}

#[test]
fn saxpy() {
    let n = 5_000;
    let factor = 2.703_1_f32;
    let x: Vec<f32> = Random(2)
        .list(n, 1000)
        .iter()
        .map(|&v| v as f32 / 3.0)
        .collect();
    let y: Vec<f32> = (0..n).map(|i| i as f32 * 0.1).collect();
    let want: Vec<f32> = x
        .iter()
        .zip(&y)
        .map(|(x, y)| factor.mul_add(*x, *y))
        .collect();
    on_machines("saxpy", |gpu| {
        let (x, y) = (gpu.upload(&x), gpu.upload(&y));
        gpu.launch(
            "saxpy",
            LaunchConfig::new(5, 96),
            (n as i32, factor, &x, &y),
        );
        same("y", &read(&y), &want);
    });
}

#[test]
fn mandelbrot() {
    const LIMIT: u8 = 100;
    let (width, height) = (70, 45);
    let turns = |px: i32, py: i32| {
        let cx = (px as f32).mul_add(3.0 / 128.0, -2.0);
        let cy = (py as f32).mul_add(2.0 / 64.0, -1.0);
        let (mut x, mut y) = (0.0_f32, 0.0_f32);
        (0..LIMIT)
            .find(|_| {
                if x * x + y * y > 4.0 {
                    return true;
                }
                (x, y) = (x * x - y * y + cx, x * y + x * y + cy);
                false
            })
            .unwrap_or(LIMIT)
    };
    let want: Vec<u8> = (0..height)
        .flat_map(|py| (0..width).map(move |px| turns(px, py)))
        .collect();
    on_machines("mandelbrot", |gpu| {
        let out = gpu.output::<u8>(want.len());
        let config = LaunchConfig::new((3, 6), (32, 8));
        gpu.launch("mandelbrot", config, (&out, width, height));
        same("turns", &read(&out), &want);
    });
}

/// A sparse matrix: the start of each row, the columns and the values.
struct Sparse {
    starts: Vec<i32>,
    columns: Vec<i32>,
    values: Vec<f64>,
}

fn sparse(rows: usize, columns: u32, random: &mut Random) -> Sparse {
    let mut matrix = Sparse {
        starts: vec![0],
        columns: Vec::new(),
        values: Vec::new(),
    };
    for row in 0..rows {
        let filled = if row % 50 == 0 { 90 } else { random.below(9) };
        for _ in 0..filled {
            matrix.columns.push(random.below(columns) as i32);
            matrix.values.push(f64::from(random.below(19)) - 9.0);
        }
        matrix.starts.push(matrix.columns.len() as i32);
    }
    matrix
}

#[test]
fn sparse_matrix_times_vector() {
    let rows = 150;
    let mut random = Random(11);
    let matrix = sparse(rows, 60, &mut random);
    let x: Vec<f64> = random
        .list(60, 19)
        .iter()
        .map(|&v| f64::from(v) - 9.0)
        .collect();
    let want: Vec<f64> = matrix
        .starts
        .windows(2)
        .map(|row| {
            (row[0] as usize..row[1] as usize)
                .map(|k| matrix.values[k] * x[matrix.columns[k] as usize])
                .sum()
        })
        .collect();
    on_machines("spmv", |gpu| {
        let starts = gpu.upload(&matrix.starts);
        let columns = gpu.upload(&matrix.columns);
        let values = gpu.upload(&matrix.values);
        let x = gpu.upload(&x);
        for (kernel, threads) in [("spmv_scalar", rows), ("spmv_warp", rows * 32)] {
            let y = gpu.output::<f64>(rows);
            let config = LaunchConfig::linear(threads as u32, 128);
            let args = (rows as i32, &starts, &columns, &values, &x, &y);
            gpu.launch(kernel, config, args);
            same(kernel, &read(&y), &want);
        }
    });
}

#[test]
fn stencil_in_three_dimensions() {
    let (nx, ny, nz) = (19_usize, 13, 7);
    let grid: Vec<f32> = Random(8)
        .list(nx * ny * nz, 256)
        .iter()
        .map(|&v| v as f32)
        .collect();
    let at = |x: usize, y: usize, z: usize| grid[(z * ny + y) * nx + x];
    let mut want = Vec::new();
    for z in 0..nz {
        for y in 0..ny {
            for x in 0..nx {
                let around = at(x.saturating_sub(1), y, z)
                    + at((x + 1).min(nx - 1), y, z)
                    + at(x, y.saturating_sub(1), z)
                    + at(x, (y + 1).min(ny - 1), z)
                    + at(x, y, z.saturating_sub(1))
                    + at(x, y, (z + 1).min(nz - 1));
                want.push(0.25 * at(x, y, z) + 0.125 * around);
            }
        }
    }
    on_machines("stencil", |gpu| {
        let (input, out) = (gpu.upload(&grid), gpu.output::<f32>(grid.len()));
        let config = LaunchConfig::new((2, 2), (16, 8));
        let args = (&input, &out, nx as i32, ny as i32, nz as i32);
        gpu.launch("stencil_3d", config, args);
        same("out", &read(&out), &want);
    });
}

#[test]
fn breadth_first_levels() {
    let nodes = 200_usize;
    let mut random = Random(12);
    let mut starts = vec![0];
    let mut edges = Vec::new();
    for node in 0..nodes as u32 {
        for _ in 0..random.below(5) {
            edges.push(((node + random.below(30)) % nodes as u32) as i32);
        }
        starts.push(edges.len() as i32);
    }
    let mut want = vec![-1; nodes];
    want[17] = 0;
    let mut queue = std::collections::VecDeque::from([17_usize]);
    while let Some(node) = queue.pop_front() {
        for &next in &edges[starts[node] as usize..starts[node + 1] as usize] {
            if want[next as usize] < 0 {
                want[next as usize] = want[node] + 1;
                queue.push_back(next as usize);
            }
        }
    }
    let mut initial = vec![-1; nodes];
    initial[17] = 0;
    on_machines("bfs", |gpu| {
        let (starts, edges) = (gpu.upload(&starts), gpu.upload(&edges));
        let levels = gpu.upload(&initial);
        for level in 0..nodes as i32 {
            let changed = gpu.upload(&[0]);
            let config = LaunchConfig::linear(nodes as u32, 64);
            let args = (nodes as i32, &starts, &edges, &levels, level, &changed);
            gpu.launch("bfs_level", config, args);
            if read(&changed) == [0] {
                break;
            }
        }
        same("levels", &read(&levels), &want);
    });
}
