//! Tests of copies and fills.

use super::*;
use crate::Runtime;

#[test]
fn ranges_are_divided_at_the_ends_of_rows() {
    let rows = |range, width| rows_of(range, width).collect::<Vec<_>>();
    assert_eq!(rows(0..10, 10), [(0, 0, 10)]);
    assert_eq!(rows(3..25, 10), [(0, 3, 7), (1, 0, 10), (2, 0, 5)]);
    assert_eq!(rows(20..30, 10), [(2, 0, 10)]);
    assert_eq!(rows(12..15, 10), [(1, 2, 3)]);
    assert!(rows(0..0, 0).is_empty());
}

/// Copies and fills that are so large that other threads help, with rows and without.
#[test]
fn large_copies_and_fills_write_each_byte() {
    const WIDTH: usize = 1000;
    const ROWS: usize = 3000;
    let runtime = Runtime::builder().workers(3).build().expect("a runtime");
    let stream = runtime.context().expect("a context").legacy_stream();
    let host: Vec<u8> = (0..WIDTH * ROWS).map(|i| (i % 251) as u8).collect();
    let linear = runtime.upload(&host).expect("room");
    assert_eq!(linear.to_vec().expect("readable"), host);
    let pitched = runtime.alloc::<u8>(2 * WIDTH * ROWS).expect("room");
    let fill = |value, width, count, rows, pitch| {
        let filled = stream.fill(pitched.ptr(), value, width, count, rows, pitch);
        filled.expect("inside");
    };
    let (width, rows) = (WIDTH as u64, ROWS as u64);
    fill(0x0304, 2, width * rows, 1, 0);
    let mut transfer = Transfer::on_device(pitched.ptr(), linear.ptr(), width);
    (transfer.height, transfer.dst_pitch) = (rows, 2 * width);
    // SAFETY: no host memory takes part.
    unsafe { stream.copy(transfer) }.expect("inside");
    let copied = pitched.to_vec().expect("readable");
    for (row, bytes) in copied.chunks_exact(2 * WIDTH).enumerate() {
        assert_eq!(bytes[..WIDTH], host[row * WIDTH..][..WIDTH]);
        assert!(bytes[WIDTH..].chunks_exact(2).all(|pair| pair == [4, 3]));
    }
    fill(0x0102_0304, 4, width / 4, rows, 2 * width);
    let filled = pitched.to_vec().expect("readable");
    for bytes in filled.chunks_exact(2 * WIDTH) {
        let (front, back) = bytes.split_at(WIDTH);
        assert!(front.chunks_exact(4).all(|word| word == [4, 3, 2, 1]));
        assert!(back.chunks_exact(2).all(|pair| pair == [4, 3]));
    }
}

#[test]
fn host_memory_must_end_before_the_last_address() {
    let runtime = Runtime::new().expect("a runtime");
    let buffer = runtime.upload(&[0u32; 16]).expect("room");
    let context = runtime.context().expect("a context");
    let check = |distance: u64| {
        let source = distance.wrapping_neg() as *const u8;
        Transfer::to_device(buffer.ptr(), source, 64).check(&context)
    };
    assert!(matches!(check(65), Ok(true)));
    let error = check(64).expect_err("past the last address");
    assert_eq!(error.to_string(), overflow().to_string());
}
