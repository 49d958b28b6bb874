//! Tests of the access routines: the copied bytes, the exact address of a fault, and the speed of copies.

use super::*;
use crate::fault::{GuardedStack, install};

/// Accessible memory, directly below which there is inaccessible memory.
struct Fenced {
    stack: GuardedStack,
}

impl Fenced {
    fn new() -> Fenced {
        install().expect("handlers");
        Fenced {
            stack: GuardedStack::new(1 << 20, 1 << 20).expect("mapping"),
        }
    }

    /// Returns the lowest accessible address. Accesses directly below it fault.
    fn start(&self) -> u64 {
        self.stack.bottom()
    }
}

fn bytes(address: u64, n: usize) -> Vec<u8> {
    let mut out = vec![0; n];
    read(&mut out, address).expect("readable");
    out
}

#[test]
fn copies_of_every_length_and_alignment() {
    let fenced = Fenced::new();
    let source: Vec<u8> = (0..9000u32).map(|i| (i * 7 + i / 256) as u8).collect();
    let lengths = (0..200).chain([255, 256, 257, 2047, 2048, 2049, 4096, 5000, 8191]);
    for n in lengths {
        for (to, from) in [(0, 0), (1, 0), (0, 1), (7, 3), (63, 64), (13, 29)] {
            let dst = fenced.start() + 128 + to;
            // SAFETY: only this test uses the fenced memory.
            unsafe {
                fill8(fenced.start(), 0xee, 10_000).expect("writable");
                write(dst, &source[from..from + n]).expect("writable");
            }
            let found = bytes(dst - 32, n + 64);
            assert!(found[..32].iter().all(|&b| b == 0xee), "before, n {n}");
            assert_eq!(&found[32..32 + n], &source[from..from + n], "n {n}");
            assert!(found[32 + n..].iter().all(|&b| b == 0xee), "after, n {n}");
        }
    }
}

#[test]
fn gathers_of_every_width() {
    let fenced = Fenced::new();
    let base = fenced.start();
    let source: Vec<u8> = (0..64u32).map(|i| (i * 37 + 200) as u8).collect();
    // SAFETY: only this test uses the fenced memory.
    unsafe { write(base, &source) }.expect("writable");
    let places = [3u64, 0, 59, 17, 17];
    for n in 0..=places.len() {
        let addresses: Vec<u64> = places[..n].iter().map(|at| base + at - 1).collect();
        for width in [1, 2, 4] {
            let mut out = [7; 5];
            assert_eq!(gather(&addresses, 1, width, &mut out), Ok(()));
            for (i, &found) in out.iter().enumerate() {
                let at = places[i] as usize;
                let bytes = source[at..at + width].iter().rev();
                let wanted = bytes.fold(0, |all, &byte| all << 8 | u32::from(byte));
                assert_eq!(found, if i < n { wanted } else { 7 }, "{n}, {width}, {i}");
            }
        }
    }
    for (width, last) in [
        (1, base - 1),
        (2, base - 2),
        (4, base - 3),
        (4, 0xdead << 48),
    ] {
        let failed = gather(&[base, base + 8, last, base], 0, width, &mut [0; 4]);
        let (lane, fault) = failed.expect_err("nothing is there");
        assert_eq!(lane, 2);
        assert_eq!(fault.access, AccessKind::Read);
    }
}

#[test]
fn fills_of_every_length_and_width() {
    let fenced = Fenced::new();
    let base = fenced.start();
    for n in (0..150).chain([511, 512, 513, 2048, 3001]) {
        // SAFETY: only this test uses the fenced memory.
        unsafe {
            fill8(base, 0xee, 16_384).expect("writable");
            fill8(base + 5, 0x5a, n).expect("writable");
        }
        let found = bytes(base, n + 64);
        assert!(found[..5].iter().all(|&b| b == 0xee));
        assert!(found[5..5 + n].iter().all(|&b| b == 0x5a), "n {n}");
        assert!(found[5 + n..].iter().all(|&b| b == 0xee), "n {n}");
        // SAFETY: only this test uses the fenced memory.
        unsafe {
            fill8(base, 0xee, 16_384).expect("writable");
            fill16(base + 2, 0x1234, n).expect("writable");
        }
        let found = bytes(base, 2 * n + 64);
        assert_eq!(found[..2], [0xee, 0xee]);
        let expected: Vec<u8> = [0x34, 0x12].repeat(n);
        assert_eq!(found[2..2 + 2 * n], expected, "n {n}");
        assert!(found[2 + 2 * n..].iter().all(|&b| b == 0xee), "n {n}");
        // SAFETY: only this test uses the fenced memory.
        unsafe {
            fill8(base, 0xee, 16_384).expect("writable");
            fill32(base + 4, 0x1234_5678, n).expect("writable");
        }
        let found = bytes(base, 4 * n + 64);
        let expected: Vec<u8> = [0x78, 0x56, 0x34, 0x12].repeat(n);
        assert_eq!(found[4..4 + 4 * n], expected, "n {n}");
        assert!(found[4 + 4 * n..].iter().all(|&b| b == 0xee), "n {n}");
    }
    // SAFETY: nothing is written.
    let overflow = unsafe { fill32(base, 0, usize::MAX / 2) };
    assert!(overflow.is_err());
}

#[test]
fn copies_stop_at_the_fence_and_name_side_and_address() {
    let fenced = Fenced::new();
    let fence = fenced.start();
    let mut local = vec![1u8; 8192];
    for n in [
        1usize, 2, 3, 4, 7, 8, 15, 16, 31, 33, 64, 65, 500, 2048, 8192,
    ] {
        let fault = read(&mut local[..n], fence - 8192).expect_err("below the fence");
        assert_eq!(fault.access, AccessKind::Read);
        assert_eq!(fault.kind, TrapKind::Protected);
        let within = fault.address.wrapping_sub(fence - 8192);
        assert!(within < n as u64, "n {n}: {fault:?}");
        // SAFETY: the destination is inaccessible memory of this test.
        let fault = unsafe { write(fence - 8192, &local[..n]) }.expect_err("below the fence");
        assert_eq!(fault.access, AccessKind::Write);
        assert!(fault.address.wrapping_sub(fence - 8192) < n as u64);
        // SAFETY: the destination is inaccessible memory of this test.
        let fault = unsafe { fill8(fence - 8192, 1, n) }.expect_err("below the fence");
        assert_eq!(fault.access, AccessKind::Write);
    }
    // SAFETY: nothing is mapped at null, so nothing is written.
    let fault = unsafe { write(0, &local) }.expect_err("null");
    assert_eq!(fault.kind, TrapKind::Unmapped);
    assert!(fault.address < local.len() as u64);
}

#[test]
fn scalars_round_trip_and_fault() {
    let fenced = Fenced::new();
    let at = fenced.start() + 3;
    // SAFETY: only this test uses the fenced memory.
    unsafe {
        store8(at, 0x81).expect("mapped");
        assert_eq!(load8(at), Ok(0x81));
        store16(at, 0x8123).expect("mapped");
        assert_eq!(load16(at), Ok(0x8123));
        store32(at, 0x8123_4567).expect("mapped");
        assert_eq!(load32(at), Ok(0x8123_4567));
        store64(at, 0x8123_4567_89ab_cdef).expect("mapped");
        assert_eq!(load64(at), Ok(0x8123_4567_89ab_cdef));
        assert_eq!(load8(at), Ok(0xef));
        let wide = 0x8123_4567_89ab_cdef_fedc_ba98_7654_3210u128;
        store128(at, wide).expect("mapped");
        assert_eq!(load128(at), Ok(wide));
        assert_eq!(load64(at), Ok(0xfedc_ba98_7654_3210));
    }
    let read_fault = |address| AccessFault {
        address,
        access: AccessKind::Read,
        kind: TrapKind::Unmapped,
    };
    assert_eq!(load8(1), Err(read_fault(1)));
    assert_eq!(load16(2), Err(read_fault(2)));
    assert_eq!(load32(4), Err(read_fault(4)));
    assert_eq!(load64(8), Err(read_fault(8)));
    assert_eq!(load128(16), Err(read_fault(16)));
    let write_fault = |address| AccessFault {
        access: AccessKind::Write,
        ..read_fault(address)
    };
    // SAFETY: nothing is mapped there.
    unsafe {
        assert_eq!(store8(1, 1), Err(write_fault(1)));
        assert_eq!(store16(2, 1), Err(write_fault(2)));
        assert_eq!(store32(4, 1), Err(write_fault(4)));
        assert_eq!(store64(8, 1), Err(write_fault(8)));
        assert_eq!(store128(16, 1), Err(write_fault(16)));
        assert_eq!(cas8(1, 0, 1), Err(write_fault(1)));
        assert_eq!(cas16(2, 0, 1), Err(write_fault(2)));
        assert_eq!(cas32(4, 0, 1), Err(write_fault(4)));
        assert_eq!(cas64(8, 0, 1), Err(write_fault(8)));
        assert_eq!(cas128(16, 0, 1), Err(write_fault(16)));
        assert_eq!(update(64, 4, |v| v + 1).map_err(|f| f.address), Err(64));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn non_canonical_addresses_keep_their_value() {
    install().expect("handlers");
    let wild = 0x1234_5678_9abc_def0u64;
    let fault = load32(wild).expect_err("no address");
    assert_eq!((fault.address, fault.kind), (wild, TrapKind::NonCanonical));
    let mut local = [0u8; 4096];
    for n in [4, 64, 100, 4096] {
        let fault = read(&mut local[..n], wild).expect_err("no address");
        assert_eq!(fault.kind, TrapKind::NonCanonical);
        assert_eq!(fault.access, AccessKind::Read);
        // SAFETY: no memory is mapped there, so nothing is written.
        let fault = unsafe { write(wild, &local[..n]) }.expect_err("no address");
        assert_eq!(fault.access, AccessKind::Write);
    }
}

#[test]
fn compare_and_swap() {
    let fenced = Fenced::new();
    let at = fenced.start();
    // SAFETY: only this test uses the fenced memory.
    unsafe {
        store128(at, 0).expect("mapped");
        assert_eq!(cas8(at, 0, 0xff), Ok(0));
        assert_eq!(cas8(at, 0, 1), Ok(0xff));
        assert_eq!(cas16(at, 0x00ff, 0x8001), Ok(0x00ff));
        assert_eq!(cas32(at, 0x8001, 0x8000_0002), Ok(0x8001));
        assert_eq!(cas64(at, 0x8000_0002, u64::MAX), Ok(0x8000_0002));
        assert_eq!(cas64(at, 0, 1), Ok(u64::MAX));
        assert_eq!(cas128(at, 0, 5), Ok(u128::from(u64::MAX)));
        assert_eq!(
            cas128(at, u128::from(u64::MAX), u128::MAX - 1),
            Ok(u128::from(u64::MAX))
        );
        assert_eq!(load128(at), Ok(u128::MAX - 1));
        let fault = cas32(at + 2, 0, 0).expect_err("misaligned");
        assert_eq!(fault.kind, TrapKind::Misaligned);
        store64(at, 40).expect("mapped");
        assert_eq!(update(at, 2, |v| v + 2), Ok(40));
        assert_eq!(load64(at), Ok(42));
        assert!(update(at, 3, |v| v).is_err());
    }
}

#[test]
fn updates_from_several_threads_add_up() {
    let fenced = Fenced::new();
    let at = fenced.start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                for _ in 0..5000 {
                    // SAFETY: only this test uses the fenced memory.
                    unsafe { update(at, 4, |v| v + 1) }.expect("mapped");
                }
            });
        }
    });
    assert_eq!(load32(at), Ok(20_000));
}

#[test]
fn copies_are_fast() {
    let n = 1 << 20;
    let (source, mut target) = (vec![1u8; n], vec![0u8; n]);
    let mut best = f64::MAX;
    for _ in 0..50 {
        let begin = std::time::Instant::now();
        read(&mut target, source.as_ptr() as u64).expect("mapped");
        best = best.min(begin.elapsed().as_secs_f64());
    }
    let rate = n as f64 / best / 1e9;
    // The limit is far below the routine's usual rate (over 10 GB/s), so that the test passes on a busy machine.
    assert!(rate > 2.0, "{rate:.1} GB/s");
}
