//! Tests blocks that use shared memory and barriers.

use margay::LaunchConfig;

use crate::{Gpu, Random, on_machines, read, same};

#[test]
fn matrix_multiply_in_tiles() {
    let (rows, inner, columns) = (50_usize, 37_usize, 61_usize);
    let mut random = Random(3);
    let mut small = |len| -> Vec<f32> {
        let list = random.list(len, 17);
        list.iter().map(|&v| v as f32 - 8.0).collect()
    };
    let (a, b) = (small(rows * inner), small(inner * columns));
    let cell = |r: usize, c: usize| -> f32 {
        (0..inner)
            .map(|k| a[r * inner + k] * b[k * columns + c])
            .sum()
    };
    let want: Vec<f32> = (0..rows * columns)
        .map(|i| cell(i / columns, i % columns))
        .collect();
    on_machines("matmul_tiled", |gpu| {
        let (a, b, c) = (
            gpu.upload(&a),
            gpu.upload(&b),
            gpu.output::<f32>(want.len()),
        );
        let config = LaunchConfig::new((4, 4), (16, 16));
        let args = (&a, &b, &c, rows as i32, inner as i32, columns as i32);
        gpu.launch("matmul_tiled", config, args);
        same("c", &read(&c), &want);
    });
}

#[test]
fn reductions() {
    let n = 5_011;
    let input: Vec<i32> = Random(4)
        .list(n, 2001)
        .iter()
        .map(|&v| v as i32 - 1000)
        .collect();
    let want = [input.iter().sum::<i32>()];
    let blocks = 5;
    on_machines("reduction", |gpu| {
        let input = gpu.upload(&input);
        for kernel in [
            "reduce_tree",
            "reduce_interleaved",
            "reduce_volatile",
            "reduce_shuffle",
            "reduce_groups",
        ] {
            let (partial, out) = (gpu.output::<i32>(blocks), gpu.output::<i32>(1));
            let config = LaunchConfig::new(blocks as u32, 256);
            gpu.launch(kernel, config, (&input, &partial, n as i32));
            let last = LaunchConfig::new(1, 256);
            gpu.launch(kernel, last, (&partial, &out, blocks as i32));
            same(kernel, &read(&out), &want);
        }
        for round in ["first", "second"] {
            let (partial, out) = (gpu.output::<i32>(blocks), gpu.output::<i32>(1));
            let config = LaunchConfig::new(blocks as u32, 256);
            gpu.launch(
                "reduce_last_block",
                config,
                (&input, &partial, &out, n as i32),
            );
            same(round, &read(&out), &want);
        }
        let out = gpu.upload(&[0]);
        gpu.launch(
            "reduce_atomic",
            LaunchConfig::new(blocks as u32, 256),
            (&input, &out, n as i32),
        );
        same("reduce_atomic", &read(&out), &want);
    });
}

/// Returns the exclusive prefix sums of the values, and the sum of all values.
fn exclusive(values: &[u32]) -> (Vec<u32>, u32) {
    let mut sum = 0;
    let before = values
        .iter()
        .map(|v| {
            let before = sum;
            sum += v;
            before
        })
        .collect();
    (before, sum)
}

#[test]
fn scans() {
    const THREADS: usize = 128;
    let n = 1_777;
    let input = Random(5).list(n, 1000);
    let (before, total) = exclusive(&input);
    let through: Vec<u32> = before.iter().zip(&input).map(|(b, v)| b + v).collect();
    on_machines("scan", |gpu| {
        let values = gpu.upload(&input);
        let small = gpu.output::<u32>(100);
        let one = LaunchConfig::new(1, THREADS as u32);
        gpu.launch("scan_hillis_steele", one, (&values, &small, 100));
        same("hillis-steele", &read(&small), &through[..100]);

        let blocks = n.div_ceil(2 * THREADS);
        let many = LaunchConfig::new(blocks as u32, THREADS as u32);
        let out = gpu.output::<u32>(n);
        let (totals, offsets) = (gpu.output::<u32>(blocks), gpu.output::<u32>(blocks));
        let all = gpu.output::<u32>(1);
        gpu.launch("scan_blelloch", many, (&values, &out, &totals, n as i32));
        gpu.launch(
            "scan_blelloch",
            one,
            (&totals, &offsets, &all, blocks as i32),
        );
        gpu.launch("add_totals", many, (&out, &offsets, n as i32));
        same("blelloch", &read(&out), &before);
        same("total", &read(&all), &[total]);

        let tiles = n.div_ceil(THREADS);
        let (single, states) = (gpu.output::<u32>(n), gpu.upload(&vec![0_u64; tiles]));
        let config = LaunchConfig::new(tiles as u32, THREADS as u32);
        gpu.launch(
            "scan_look_back",
            config,
            (&values, &single, &states, n as i32),
        );
        same("look-back", &read(&single), &through);
    });
}

#[test]
fn transposes() {
    let (width, height) = (75_usize, 101_usize);
    let input: Vec<f32> = (0..width * height).map(|i| i as f32).collect();
    let want: Vec<f32> = (0..width * height)
        .map(|i| ((i % height) * width + i / height) as f32)
        .collect();
    on_machines("transpose", |gpu| {
        let input = gpu.upload(&input);
        for (kernel, config) in [
            ("transpose_naive", LaunchConfig::new((5, 7), (16, 16))),
            ("transpose_tiled", LaunchConfig::new((3, 4), (32, 8))),
        ] {
            let out = gpu.output::<f32>(want.len());
            gpu.launch(kernel, config, (&input, &out, width as i32, height as i32));
            same(kernel, &read(&out), &want);
        }
    });
}

#[test]
fn histograms() {
    let n = 8_001;
    let input: Vec<u8> = Random(6).list(n, 256).iter().map(|&v| v as u8).collect();
    let mut want = vec![0_u32; 256];
    input.iter().for_each(|&v| want[usize::from(v)] += 1);
    on_machines("histogram", |gpu| {
        let input = gpu.upload(&input);
        for kernel in ["histogram_global", "histogram_shared"] {
            let bins = gpu.upload(&[0_u32; 256]);
            let config = LaunchConfig::new(6, 192);
            gpu.launch(kernel, config, (&input, &bins, n as i32));
            same(kernel, &read(&bins), &want);
        }
    });
}

#[test]
fn bitonic_sort() {
    const CHUNK: u32 = 256;
    let n = 1024_u32;
    let keys = Random(7).list(n as usize, 100_000);
    let mut want = keys.clone();
    want.sort_unstable();
    on_machines("bitonic_sort", |gpu| {
        let data = gpu.upload(&keys);
        let config = LaunchConfig::new(n / CHUNK, CHUNK / 2);
        gpu.launch("bitonic_shared", config, (&data, 2_u32, CHUNK));
        let mut size = 2 * CHUNK;
        while size <= n {
            let mut stride = size / 2;
            while stride >= CHUNK {
                gpu.launch("bitonic_global", config, (&data, size, stride));
                stride /= 2;
            }
            gpu.launch("bitonic_shared", config, (&data, size, size));
            size *= 2;
        }
        same("keys", &read(&data), &want);
    });
}

#[test]
fn dynamic_shared_memory() {
    let n = 77_usize;
    let input: Vec<i32> = (0..n as i32).map(|i| i * 5 - 100).collect();
    let want: Vec<f64> = (0..n)
        .map(|i| {
            f64::from(input[n - 1 - i]) * 0.5
                + f64::from(input[(i + 1) % n])
                + f64::from(input[(i + 2) % n] as u8)
                + (i % 32 * 1000) as f64
        })
        .collect();
    on_machines("dynamic_shared", |gpu| {
        let (input, out) = (gpu.upload(&input), gpu.output::<f64>(n));
        let config = LaunchConfig::new(1, 96).with_shared(n as u32 * 13);
        gpu.launch("carve", config, (&input, &out, n as i32));
        same("carve", &read(&out), &want);

        let ends = gpu.output::<i32>(3);
        let config = LaunchConfig::new(2, 32).with_shared(16 << 10);
        gpu.launch("touch_ends", config, (&ends, (16 << 10) / 4));
        same("touch_ends", &read(&ends), &[11, 22, 16 << 10]);
    });
}

/// Checks that a barrier does not wait for threads that returned before it, if `n` of 64 threads remain.
fn return_before_barrier(gpu: &Gpu, input: &[i32], n: usize) {
    const SENTINEL: i32 = i32::from_ne_bytes([0xA5; 4]);
    let (values, out) = (gpu.upload(input), gpu.output::<i32>(input.len()));
    gpu.launch(
        "early_return",
        LaunchConfig::new(3, 64),
        (&values, &out, n as i32),
    );
    let want: Vec<i32> = (0..input.len())
        .map(|i| match i % 64 {
            t if t < n => (input[i / 64 * 64 + n - 1 - (t + 1) % n] + 1) * 10,
            _ => SENTINEL,
        })
        .collect();
    same(&format!("{n} threads"), &read(&out), &want);
}

#[test]
fn early_returns() {
    let input: Vec<i32> = (0..3 * 64).map(|i| i * i % 1009).collect();
    on_machines("early_return", |gpu| {
        for n in [1, 20, 32, 33, 50, 63, 64] {
            return_before_barrier(gpu, &input, n);
        }
        let turns = gpu.output::<i32>(64);
        gpu.launch("leave_one_by_one", LaunchConfig::new(1, 64), (&turns,));
        let want: Vec<i32> = (0..64).rev().collect();
        same("turns", &read(&turns), &want);
    });
}

#[test]
fn monte_carlo_pi() {
    const DRAWS: usize = 64;
    let hits = |thread: u64| -> u32 {
        let mut state =
            0x853c_49e6_748f_ea9b_u64.wrapping_add(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let mixed = (((state >> 18) ^ state) >> 27) as u32;
            u64::from(mixed.rotate_right((state >> 59) as u32) >> 8)
        };
        (0..DRAWS)
            .filter(|_| {
                let (x, y) = (draw(), draw());
                x * x + y * y < 1 << 48
            })
            .count() as u32
    };
    let want: Vec<u32> = (0..5 * 128).map(hits).collect();
    on_machines("monte_carlo_pi", |gpu| {
        let (total, by_thread) = (gpu.upload(&[0_u64]), gpu.output::<u32>(want.len()));
        gpu.launch(
            "monte_carlo_pi",
            LaunchConfig::new(5, 128),
            (&total, &by_thread),
        );
        same("hits", &read(&by_thread), &want);
        same(
            "total",
            &read(&total),
            &[want.iter().map(|&h| u64::from(h)).sum()],
        );
    });
}
