//! Runs three kernels that NVIDIA's compiler compiled and compares their results with those of the same calculation in
//! Rust: the Mandelbrot set (threads with different numbers of loop iterations), a matrix product (shared memory and
//! barriers) and the count of each letter in a text (atomics).
//!
//! ```sh
//! cargo run --release -p margay --example demo
//! ```
#![allow(clippy::print_stdout, reason = "a demonstration shows what it does")]

use std::error::Error;
use std::time::Instant;

use margay::{LaunchConfig, Runtime};

/// The kernels: PTX that `nvcc -ptx -arch=compute_75` wrote for the programs in `tests/cuda`.
const MANDELBROT: &str = include_str!("../tests/cuda/ptx/mandelbrot.ptx");
const MATMUL: &str = include_str!("../tests/cuda/ptx/matmul_tiled.ptx");
const HISTOGRAM: &str = include_str!("../tests/cuda/ptx/histogram.ptx");

/// A text whose letters are counted.
const TEXT: &str = include_str!("../LICENSE-APACHE");

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    println!("{} workers\n", runtime.workers());
    mandelbrot(&runtime)?;
    matrix_product(&runtime)?;
    letters(&runtime)?;
    println!("\nall results verified");
    Ok(())
}

/// Prints a line if the values are equal, and returns an error otherwise.
fn verify<T: PartialEq>(
    what: &str,
    got: &[T],
    want: &[T],
    started: Instant,
) -> Result<(), Box<dyn Error>> {
    let took = started.elapsed().as_secs_f64() * 1e3;
    let wrong = got.iter().zip(want).filter(|(g, w)| g != w).count();
    if got.len() != want.len() || wrong > 0 {
        return Err(format!("{what}: {wrong} of {} values are wrong", want.len()).into());
    }
    println!(
        "{what:<32} {:>7} values equal to Rust's, {took:.1} ms with compiling",
        want.len()
    );
    Ok(())
}

const WIDTH: usize = 128;
const HEIGHT: usize = 64;
const TURNS: u8 = 100;

fn mandelbrot(runtime: &Runtime) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let kernel = runtime.load_ptx(MANDELBROT)?.kernel("mandelbrot")?;
    let turns = runtime.alloc::<u8>(WIDTH * HEIGHT)?;
    let config = LaunchConfig::new((WIDTH as u32 / 32, HEIGHT as u32 / 8), (32, 8));
    runtime.launch(&kernel, config, (&turns, WIDTH as i32, HEIGHT as i32))?;
    let got = turns.to_vec()?;
    let pixels = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| turns_at(x as f32, y as f32)));
    let want: Vec<u8> = pixels.collect();
    for row in got.chunks(WIDTH).step_by(2) {
        let line: String = row.iter().map(|&t| shade(t)).collect();
        println!("{}", line.trim_end());
    }
    verify("Mandelbrot set", &got, &want, started)
}

/// Returns the number of iterations until the value for the pixel (`px`, `py`) leaves the circle of radius 2. The
/// operations and their order are those of the kernel, so the roundings are the same.
fn turns_at(px: f32, py: f32) -> u8 {
    let (cx, cy) = (px.mul_add(3.0 / 128.0, -2.0), py.mul_add(2.0 / 64.0, -1.0));
    let (mut x, mut y) = (0f32, 0f32);
    for turn in 0..TURNS {
        let (xx, yy, xy) = (x * x, y * y, x * y);
        if xx + yy > 4.0 {
            return turn;
        }
        y = xy + xy + cy;
        x = xx - yy + cx;
    }
    TURNS
}

fn shade(turns: u8) -> char {
    match turns {
        TURNS => '#',
        20.. => '+',
        8.. => '-',
        4.. => '.',
        _ => ' ',
    }
}

/// Number of rows of the product, length of the sums, and number of columns of the product. None of them is a multiple
/// of 16, the size of the kernel's tiles.
const SHAPE: [usize; 3] = [300, 250, 310];

fn matrix_product(runtime: &Runtime) -> Result<(), Box<dyn Error>> {
    let [rows, inner, columns] = SHAPE;
    // The values are small integers, so sums have the same bits in every order of addition.
    let value = |i: usize| ((i * 7919) % 17) as f32 - 8.0;
    let a: Vec<f32> = (0..rows * inner).map(value).collect();
    let b: Vec<f32> = (0..inner * columns).map(|i| value(i + 5)).collect();
    let mut want = vec![0f32; rows * columns];
    for row in 0..rows {
        for k in 0..inner {
            for column in 0..columns {
                want[row * columns + column] += a[row * inner + k] * b[k * columns + column];
            }
        }
    }
    let started = Instant::now();
    let kernel = runtime.load_ptx(MATMUL)?.kernel("matmul_tiled")?;
    let (a, b) = (runtime.upload(&a)?, runtime.upload(&b)?);
    let c = runtime.alloc::<f32>(rows * columns)?;
    let grid = (columns.div_ceil(16) as u32, rows.div_ceil(16) as u32);
    let arguments = (&a, &b, &c, rows as i32, inner as i32, columns as i32);
    runtime.launch(&kernel, LaunchConfig::new(grid, (16, 16)), arguments)?;
    verify("matrix product 300x250x310", &c.to_vec()?, &want, started)
}

fn letters(runtime: &Runtime) -> Result<(), Box<dyn Error>> {
    let mut want = vec![0u32; 256];
    for byte in TEXT.bytes() {
        want[usize::from(byte)] += 1;
    }
    let started = Instant::now();
    let kernel = runtime.load_ptx(HISTOGRAM)?.kernel("histogram_shared")?;
    let text = runtime.upload(TEXT.as_bytes())?;
    let bins = runtime.upload(&[0u32; 256])?;
    runtime.launch(
        &kernel,
        LaunchConfig::new(8, 256),
        (&text, &bins, TEXT.len() as i32),
    )?;
    let got = bins.to_vec()?;
    verify("letters of LICENSE-APACHE", &got, &want, started)?;
    let mut letters: Vec<char> = ('a'..='z').collect();
    letters.sort_by_key(|&letter| std::cmp::Reverse(got[letter as usize]));
    let most = letters
        .iter()
        .take(8)
        .map(|&letter| format!("{letter} {}", got[letter as usize]));
    println!("    most frequent: {}", most.collect::<Vec<_>>().join(", "));
    Ok(())
}
