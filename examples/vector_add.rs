//! Adds two vectors with a kernel written in PTX and checks the result: a minimal complete program.
//!
//! ```sh
//! cargo run --release -p margay --example vector_add
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use margay::{LaunchConfig, Runtime};

/// `c[i] = a[i] + b[i]` for `i < n`.
const PTX: &str = r"
.version 7.0
.target sm_80
.address_size 64

.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %outside;
    .reg .b32 %i, %n, %block, %size;
    .reg .b64 %offset, %a, %b, %c;
    .reg .f32 %x, %y;

    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %i, %tid.x;
    mad.lo.u32 %i, %block, %size, %i;
    ld.param.u32 %n, [n];
    setp.ge.u32 %outside, %i, %n;
    @%outside bra done;

    mul.wide.u32 %offset, %i, 4;
    ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    ld.param.u64 %c, [c];
    add.u64 %a, %a, %offset;
    add.u64 %b, %b, %offset;
    add.u64 %c, %c, %offset;
    ld.global.f32 %x, [%a];
    ld.global.f32 %y, [%b];
    add.rn.f32 %x, %x, %y;
    st.global.f32 [%c], %x;
done:
    ret;
}";

fn main() -> Result<(), Box<dyn Error>> {
    let n = 1_000_003;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| 0.5 * i as f32).collect();

    let runtime = Runtime::new()?;
    let add = runtime.load_ptx(PTX)?.kernel("add")?;
    let (device_a, device_b) = (runtime.upload(&a)?, runtime.upload(&b)?);
    let mut device_c = runtime.alloc::<f32>(n)?;

    // The grid has enough blocks of 256 threads for n elements. The launch does not wait for the kernel; `to_vec` waits
    // for it.
    let config = LaunchConfig::linear(n as u32, 256);
    runtime.launch(
        &add,
        config,
        (&device_a, &device_b, &mut device_c, n as u32),
    )?;
    let c = device_c.to_vec()?;

    for i in 0..n {
        let expected = a[i] + b[i];
        if c[i] != expected {
            return Err(format!("element {i} is {}, not {expected}", c[i]).into());
        }
    }
    println!("{n} sums are right");
    Ok(())
}

#[test]
fn the_sums_are_right() {
    main().expect("the example ends without an error");
}
