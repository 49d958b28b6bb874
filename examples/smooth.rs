//! Runs a kernel that `nvcc` compiled beforehand, with shared memory, a barrier and a structure among its parameters.
//!
//! The CUDA source is `kernels/smooth.cu`; this program includes its PTX, `kernels/smooth.ptx`, so it needs neither
//! `nvcc` nor a GPU.
//!
//! ```sh
//! cargo run --release -p margay --example smooth
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use margay::{Bytes, LaunchConfig, Runtime};

const PTX: &str = include_str!("kernels/smooth.ptx");

/// Number of threads in a block, which is `BLOCK` in the CUDA source. The kernel's shared array has two more elements.
const BLOCK: u32 = 128;

/// The structure `Filter` of the CUDA source: 4 + 3 * 4 + 8 bytes, without padding.
struct Filter {
    n: i32,
    weights: [f32; 3],
    scale: f64,
}

impl Filter {
    /// Returns the bytes that the kernel reads from its parameter space.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.n.to_le_bytes().to_vec();
        bytes.extend(self.weights.iter().flat_map(|weight| weight.to_le_bytes()));
        bytes.extend(self.scale.to_le_bytes());
        bytes
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let filter = Filter {
        n: 100_000,
        weights: [0.25, 0.5, 0.25],
        scale: 2.0,
    };
    // The values are small integers and the weights are multiples of 1/4, so all sums are exact and do not depend on
    // the order of addition.
    let input: Vec<f32> = (0..filter.n).map(|i| (i % 23) as f32).collect();

    let runtime = Runtime::new()?;
    let smooth = runtime.load_ptx(PTX)?.kernel("smooth")?;
    for param in smooth.params() {
        println!(
            "parameter of {} bytes at offset {}",
            param.size, param.offset
        );
    }
    let (input_buffer, mut output) = (runtime.upload(&input)?, runtime.alloc::<f32>(input.len())?);
    let config = LaunchConfig::linear(filter.n as u32, BLOCK);
    let packed = filter.bytes();
    runtime.launch(
        &smooth,
        config,
        (&input_buffer, &mut output, Bytes(&packed)),
    )?;

    let output = output.to_vec()?;
    let at = |i: i64| {
        usize::try_from(i)
            .ok()
            .and_then(|i| input.get(i).copied())
            .unwrap_or(0.0)
    };
    for (i, &got) in output.iter().enumerate() {
        let neighbours = [-1, 0, 1].map(|step| at(i as i64 + step));
        let sum: f32 = neighbours
            .iter()
            .zip(filter.weights)
            .map(|(x, weight)| x * weight)
            .sum();
        let expected = (filter.scale * f64::from(sum)) as f32;
        if got != expected {
            return Err(format!("element {i} is {got}, not {expected}").into());
        }
    }
    println!("{} elements are right", output.len());
    Ok(())
}

#[test]
fn the_elements_are_right() {
    main().expect("the example ends without an error");
}
