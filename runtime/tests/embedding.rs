//! Tests of a Rust program that embeds the runtime.

use margay::{DeviceBuffer, LaunchConfig, Runtime};

const SAXPY: &str = r"
.version 7.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u32 %r2, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra $done;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    cvta.to.global.u64 %rd6, %rd2;
    add.s64 %rd7, %rd6, %rd4;
    ld.global.f32 %f2, [%rd5];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd7], %f4;
$done:
    ret;
}
.visible .entry reverse(.param .u64 data)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    shl.b32 %r3, %r1, 2;
    mov.u32 %r4, tile;
    add.s32 %r5, %r4, %r3;
    st.shared.u32 [%r5], %r2;
    bar.sync 0;
    sub.s32 %r5, 252, %r3;
    add.s32 %r5, %r4, %r5;
    ld.shared.u32 %r2, [%r5];
    st.global.u32 [%rd3], %r2;
    ret;
}
";

#[test]
fn saxpy_over_a_buffer() {
    let rt = Runtime::new().unwrap();
    let module = rt.load_ptx(SAXPY).unwrap();
    let n = 1000u32;
    let x: DeviceBuffer<f32> = rt
        .upload(&(0..n).map(|i| i as f32).collect::<Vec<_>>())
        .unwrap();
    let mut y: DeviceBuffer<f32> = rt.upload(&vec![1.0f32; n as usize]).unwrap();
    rt.launch(
        &module.kernel("saxpy").unwrap(),
        LaunchConfig::linear(n, 256),
        (n, 2.0f32, &x, &mut y),
    )
    .unwrap();
    let result = y.to_vec().unwrap();
    assert!(
        result
            .iter()
            .enumerate()
            .all(|(i, &v)| v == 2.0 * i as f32 + 1.0)
    );
}

#[test]
fn threads_of_a_block_exchange_through_shared_memory() {
    let rt = Runtime::new().unwrap();
    let module = rt.load_ptx(SAXPY).unwrap();
    let mut data: DeviceBuffer<u32> = rt.upload(&(0..64).collect::<Vec<u32>>()).unwrap();
    rt.launch(
        &module.kernel("reverse").unwrap(),
        LaunchConfig::linear(64, 64),
        (&mut data,),
    )
    .unwrap();
    assert_eq!(data.to_vec().unwrap(), (0..64).rev().collect::<Vec<u32>>());
}
