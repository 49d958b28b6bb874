//! Tests of the public functions of the address space.

use super::*;
use crate::fault::{access, install, lookup_code};

fn space(config: MemoryConfig) -> AddressSpace {
    install().expect("handlers");
    AddressSpace::new(&config).expect("address space")
}

fn small_space() -> AddressSpace {
    space(MemoryConfig {
        device_limit: Some(256 << 20),
        host_limit: Some(256 << 20),
        ..MemoryConfig::default()
    })
}

/// Returns the request for device memory of the first owner.
pub(in crate::memory) fn device(bytes: u64) -> Request {
    Request {
        bytes,
        kind: MemoryKind::Device,
        device: 0,
        owner: 1,
        flags: 0,
    }
}

const DEVICE: &[MemoryKind] = &[MemoryKind::Device];

#[test]
fn allocations_are_aligned_disjoint_and_readable() {
    let space = small_space();
    let sizes = [
        1,
        511,
        512,
        513,
        4096,
        50_000,
        65_536,
        65_537,
        1 << 20,
        3 << 20,
        9_999_999,
    ];
    let mut all = Vec::new();
    for size in sizes.repeat(3) {
        let a = space.alloc(&device(size)).expect("room");
        assert_eq!(a.base % super::super::ALIGNMENT, 0);
        assert!(space.contains(a.base) && a.end() < 1 << 47);
        assert_eq!(access::load8(a.base), Ok(0));
        assert_eq!(access::load8(a.end() - 1), Ok(0));
        all.push(a);
    }
    all.sort_by_key(|a| a.base);
    assert!(all.windows(2).all(|w| w[0].end() <= w[1].base));
    let mut ids: Vec<u64> = all.iter().map(|a| a.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all.len());
    assert_eq!(space.allocations(), all);
}

#[test]
fn guards_catch_accesses_far_beyond_the_end() {
    let space = small_space();
    for size in [1 << 20, 2 << 20, (5 << 20) + 1] {
        let neighbours: Vec<_> = (0..3)
            .map(|_| space.alloc(&device(size)).expect("room"))
            .collect();
        for a in neighbours {
            let mapped_end = (a.end() + 4095) & !4095;
            assert!(access::load8(mapped_end - 1).is_ok());
            for beyond in [0, 1, 4096, (1 << 20) - 1] {
                let fault = access::load8(mapped_end + beyond).expect_err("guard");
                assert_eq!(fault.address, mapped_end + beyond);
            }
            for wild in (0..64).map(|i| a.end() + (1 << 20) - 8192 + i * 1024) {
                assert!(access::load8(wild).is_err(), "{size} bytes");
            }
            for before in [1, 4096, 1 << 16, 1 << 20] {
                assert!(access::load8(a.base - before).is_err());
            }
        }
    }
}

#[test]
fn arrays_of_middle_size_have_narrow_guards() {
    let space = small_space();
    for (size, guard) in [
        (65_537u64, 8 << 10),
        (100 << 10, 8 << 10),
        ((1 << 20) - 1, 64 << 10),
    ] {
        let arrays: Vec<_> = (0..8)
            .map(|_| space.alloc(&device(size)).expect("room"))
            .collect();
        for a in arrays {
            let mapped_end = (a.end() + 4095) & !4095;
            assert!(access::load8(mapped_end - 1).is_ok());
            for beyond in [0, 1, 4096, guard - 1] {
                assert!(access::load8(mapped_end + beyond).is_err());
            }
            for before in [1, 4096, 8 << 10] {
                assert!(access::load8(a.base - before).is_err());
            }
        }
    }
}

/// The addresses of arrays must not all be multiples of a large power of two, because the arrays
/// would then compete for a few sets of the caches and translation buffers.
#[test]
fn arrays_of_middle_size_start_at_different_sets() {
    let space = space(MemoryConfig {
        device_limit: Some(1 << 30),
        ..MemoryConfig::default()
    });
    for size in [100 << 10, (128 << 10) + 1, 1 << 20, 3 << 20] {
        let pages = (0..64).map(|_| space.alloc(&device(size)).expect("room").base / 4096);
        let sets: std::collections::HashSet<u64> = pages.map(|page| page % 64).collect();
        assert!(sets.len() > 56, "{size} bytes: {} sets", sets.len());
    }
    let large = space.alloc(&device(4 << 20)).expect("room");
    assert_eq!(large.base % (2 << 20), 0, "huge pages fit");
}

#[test]
fn slabs_are_guarded() {
    let space = small_space();
    // After these allocations, no further small allocation gets its own pages.
    let own: Vec<_> = (0..SMALL_PIECES)
        .map(|_| space.alloc(&device(100)).expect("room"))
        .collect();
    for size in [100u64, 5000, 60_000] {
        // The allocations need more than two slabs of any class.
        let all: Vec<_> = (0..3000)
            .map(|_| space.alloc(&device(size)).expect("room"))
            .collect();
        assert!(access::load8(all[0].base - 1).is_err(), "first of a slab");
        for a in all {
            assert!(access::load8(a.end() + (1 << 20)).is_err());
            assert!(access::load8(a.base + (1 << 20)).is_err());
            space.free(a.base, DEVICE).expect("live");
        }
    }
    drop(own);
}

/// A small array has its own pages. Accesses after its end fault. Accesses to a freed array also fault, until many
/// other arrays have been freed.
#[test]
fn small_arrays_are_guarded_and_rest() {
    let space = small_space();
    for size in [1u64, 256, 4096, 5000, 65_536] {
        let a = space.alloc(&device(size)).expect("room");
        assert!(access::load8(a.end() - 1).is_ok());
        assert!(access::load8(a.base + size.next_multiple_of(4096)).is_err());
        assert!(access::load8(a.base - 1).is_err());
        space.free(a.base, DEVICE).expect("live");
        for _ in 0..20 {
            let b = space.alloc(&device(size)).expect("room");
            assert_ne!(a.base, b.base);
            space.close_freed();
            assert!(access::load8(a.base).is_err(), "{size} bytes");
            space.free(b.base, DEVICE).expect("live");
        }
    }
}

#[test]
fn all_kinds_of_small_arrays_fault_in_the_end() {
    let space = small_space();
    for size in [100u64, 5000, 60_000] {
        // The allocations need more than two slabs of any class.
        let all: Vec<_> = (0..3000)
            .map(|_| space.alloc(&device(size)).expect("room"))
            .collect();
        assert!(access::load8(all[0].base - 1).is_err(), "the first");
        for a in all {
            space.free(a.base, DEVICE).expect("live");
        }
    }
}

#[test]
fn frees_are_exact_and_happen_once() {
    let space = small_space();
    for size in [100u64, 1 << 20] {
        let a = space.alloc(&device(size)).expect("room");
        assert!(space.free(a.base + 1, DEVICE).is_err());
        assert!(space.free(a.base + 512, DEVICE).is_err());
        assert!(space.free(a.base, &[MemoryKind::Pinned]).is_err());
        assert_eq!(space.free(a.base, DEVICE).expect("live"), a);
        let again = space.free(a.base, DEVICE).expect_err("double free");
        assert!(matches!(again, MemoryError::NotAllocated(at) if at == a.base));
    }
    for wild in [0, 1, 0x1234_5678, u64::MAX, space.range().start] {
        assert!(space.free(wild, DEVICE).is_err());
    }
    assert_eq!(space.info().device, 0);
    assert_eq!(space.info().allocations, 0);
}

#[test]
fn freed_pieces_fault_and_are_reused() {
    let space = small_space();
    let a = space.alloc(&device(1 << 20)).expect("room");
    space.write(a.base, &[7; 64]).expect("open");
    space.free(a.base, DEVICE).expect("live");
    space.close_freed();
    assert!(access::load8(a.base).is_err(), "use after free");
    assert_eq!(space.info().cached, 1 << 20);
    let b = space.alloc(&device((1 << 20) - 100)).expect("room");
    assert_eq!(b.base, a.base);
    assert_ne!(b.id, a.id);
    space.free(b.base, DEVICE).expect("live");
    space.trim();
    assert_eq!(space.info().cached, 0);
    let c = space.alloc(&device(1 << 20)).expect("room");
    assert_eq!(access::load8(c.base), Ok(0));
}

#[test]
fn lookups_know_inside_from_outside() {
    let space = small_space();
    let request = Request {
        kind: MemoryKind::Pinned,
        device: 2,
        owner: 77,
        flags: 5,
        ..device(1000)
    };
    let a = space.alloc(&request).expect("room");
    assert_eq!(space.find(a.base), Some(a));
    assert_eq!(space.find(a.base + 999), Some(a));
    assert_eq!(space.find(a.base + 1000), None);
    assert_eq!(space.find(a.base - 1), None);
    assert_eq!(
        (a.device, a.owner, a.flags, a.kind),
        (2, 77, 5, MemoryKind::Pinned)
    );
    assert!(a.holds(a.base + 1, 999) && !a.holds(a.base + 1, 1000));
    assert!(!a.holds(a.base, u64::MAX));
    assert_eq!(space.find(0), None);
    assert_eq!(space.find(u64::MAX), None);
}

#[test]
fn addresses_of_retired_memory_rest() {
    let space = small_space();
    for size in [300, 100_000, 5 << 20] {
        let free = space.info().free;
        let old = space.alloc(&device(size)).expect("room").base;
        space.retire(old).expect("allocated");
        assert!(space.retire(old).is_err() && space.free(old, DEVICE).is_err());
        assert_eq!(space.info().free, free, "the memory itself is free");
        let taken: Vec<u64> = (0..8)
            .map(|_| space.alloc(&device(size)).expect("room").base)
            .collect();
        assert!(!taken.contains(&old), "{size} bytes");
        assert!(space.free(old, DEVICE).is_err());
        for base in taken {
            space.free(base, DEVICE).expect("allocated");
        }
        // After enough other allocations have been retired, the addresses are reused.
        let mut retired = std::collections::HashSet::from([old]);
        let again = (0..2 * RESTING).any(|_| {
            let base = space.alloc(&device(size)).expect("room").base;
            space.retire(base).expect("allocated");
            !retired.insert(base)
        });
        assert!(again, "{size} bytes");
    }
}

#[test]
fn retired_memory_does_not_shorten_the_quarantine() {
    let space = space(MemoryConfig {
        red_zone: 256,
        ..MemoryConfig::default()
    });
    let size = 1 << 20;
    let alloc = || space.alloc(&device(size)).expect("room").base;
    let old = alloc();
    let last = alloc();
    space.free(old, DEVICE).expect("allocated");
    for _ in 0..2 * RESTING {
        space.free(alloc(), DEVICE).expect("allocated");
    }
    space.retire(last).expect("allocated");
    assert!((0..8).all(|_| alloc() != old));
}

/// A large piece can be reused for a slightly smaller allocation with the same footprint.
#[test]
fn the_end_of_a_reused_piece_is_released() {
    let space = small_space();
    let (long, short) = (6656 << 10, 5 << 20);
    let base = space.alloc(&device(long)).expect("room").base;
    space.fill8(base, 7, long).expect("accessible");
    space.free(base, DEVICE).expect("allocated");
    space.close_freed();
    assert_eq!(space.alloc(&device(short)).expect("room").base, base);
    space.free(base, DEVICE).expect("allocated");
    space.trim();
    assert_eq!(space.alloc(&device(long)).expect("room").base, base);
    assert_eq!(access::load8(base), Ok(0));
    assert_eq!(access::load8(base + long - 1), Ok(0));
}

#[test]
fn resting_addresses_are_used_when_none_are_left() {
    let space = space(MemoryConfig {
        reserve: 256 << 20,
        device_limit: Some(256 << 20),
        ..MemoryConfig::default()
    });
    let size = 48 << 20;
    for _ in 0..32 {
        let base = space.alloc(&device(size)).expect("room").base;
        assert_eq!(access::load8(base), Ok(0));
        space.retire(base).expect("allocated");
        assert!(access::load8(base).is_err(), "closed");
    }
}

#[test]
fn limits_hold_and_errors_say_what_was_free() {
    let space = small_space();
    assert!(matches!(
        space.alloc(&device(0)),
        Err(MemoryError::InvalidSize(0))
    ));
    for size in [u64::MAX, u64::MAX - 4096, 1 << 63, 1 << 47, (256 << 20) + 1] {
        let error = space.alloc(&device(size)).expect_err("too large");
        assert!(
            matches!(error, MemoryError::OutOfMemory { requested, free }
                if requested == size && free == 256 << 20),
            "{error}"
        );
    }
    let a = space.alloc(&device(200 << 20)).expect("room");
    assert_eq!(space.info().free, 56 << 20);
    assert!(space.alloc(&device(57 << 20)).is_err());
    // Pinned memory does not count as device memory; it has a separate limit.
    let pinned = Request {
        kind: MemoryKind::Pinned,
        ..device(200 << 20)
    };
    let b = space.alloc(&pinned).expect("room");
    assert!(space.alloc(&pinned).is_err());
    assert_eq!(space.info().free, 56 << 20);
    assert_eq!(space.info().pinned, 200 << 20);
    space.free(a.base, DEVICE).expect("live");
    space.free(b.base, &[MemoryKind::Pinned]).expect("live");
    assert_eq!(space.info().free, 256 << 20);
    let all = space.alloc(&device(256 << 20)).expect("all of it");
    assert!(space.alloc(&device(1)).is_err());
    space.free(all.base, DEVICE).expect("live");
}

#[test]
fn a_hundred_thousand_cycles_do_not_grow() {
    let space = small_space();
    let addresses = |space: &AddressSpace| space.books.lock().pages.free_addresses();
    let before = addresses(&space);
    let mut live = std::collections::VecDeque::new();
    let mut seed = 1u64;
    let mut highest = 0;
    for cycle in 0..100_000u32 {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let size = match seed >> 60 {
            0 => 65_537 + (seed >> 40) % 3_000_000,
            1..=3 => 1 + (seed >> 40) % 65_536,
            _ => 1 + (seed >> 40) % 2000,
        };
        let a = space.alloc(&device(size)).expect("room");
        live.push_back(a.base);
        if live.len() > 20 {
            let base = live.pop_front().expect("one");
            space.free(base, DEVICE).expect("live");
        }
        if cycle < 20_000 {
            highest = highest.max(a.end());
        }
        assert!(a.end() <= highest + (64 << 20), "cycle {cycle}");
    }
    assert_eq!(space.free_owned(1), live.len());
    let info = space.info();
    assert_eq!((info.device, info.allocations), (0, 0));
    space.trim();
    // At most one empty slab of each class is kept.
    let kept = before - addresses(&space);
    assert!(kept <= slab::CLASSES.len() as u64 * (5 << 19), "{kept}");
}

#[test]
fn many_small_allocations_need_few_mappings() {
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
        maps.lines().count()
    };
    let space = small_space();
    let before = mappings();
    let all: Vec<_> = (0..50_000)
        .map(|_| space.alloc(&device(400)).expect("room").base)
        .collect();
    // Each allocation with its own pages needs two mappings. The other allocations are in 41 slabs. Tests that run at
    // the same time also map memory.
    assert!(mappings() < before + 2 * SMALL_PIECES + 1000);
    for base in all.into_iter().rev() {
        space.free(base, DEVICE).expect("live");
    }
    assert_eq!(space.info().device, 0);
}

#[test]
fn owners_go_with_all_they_have() {
    let space = small_space();
    let host = [0u8; 100];
    for owner in [5, 6] {
        for kind in [MemoryKind::Device, MemoryKind::Managed, MemoryKind::Pool] {
            let request = Request {
                kind,
                owner,
                ..device(70_000)
            };
            space.alloc(&request).expect("room");
        }
    }
    space
        .register(host.as_ptr() as u64, 100, 0, 5, 0)
        .expect("mapped");
    assert_eq!(space.free_owned(5), 4);
    assert_eq!(space.free_owned(5), 0);
    assert_eq!(space.info().allocations, 3);
    assert!(space.allocations().iter().all(|a| a.owner == 6));
}

#[test]
fn freed_memory_is_not_registered() {
    let space = small_space();
    let pinned = Request {
        kind: MemoryKind::Pinned,
        ..device(70_000)
    };
    let base = space.alloc(&pinned).expect("room").base;
    space.free(base, &[MemoryKind::Pinned]).expect("pinned");
    let before = space.range().start - 8;
    for start in [base, base + 4096, before] {
        assert!(matches!(
            space.register(start, 4096, 0, 1, 0),
            Err(MemoryError::NotMapped(_))
        ));
    }
}

#[test]
fn registrations_do_not_overlap() {
    let space = small_space();
    let host = vec![1u8; 10_000];
    let base = host.as_ptr() as u64;
    let a = space.register(base + 100, 5000, 0, 1, 3).expect("mapped");
    assert_eq!((a.base, a.size, a.flags), (base + 100, 5000, 3));
    assert_eq!(space.find(base + 100), Some(a));
    assert_eq!(space.find(base + 99), None);
    for (start, len) in [(0, 101), (100, 1), (4000, 6000), (0, 10_000), (5099, 1)] {
        let error = space
            .register(base + start, len, 0, 1, 0)
            .expect_err("overlap");
        assert!(
            matches!(error, MemoryError::AlreadyRegistered(_)),
            "{error}"
        );
    }
    space.register(base, 100, 0, 1, 0).expect("beside");
    space.register(base + 5100, 100, 0, 1, 0).expect("beside");
    assert!(space.unregister(base + 101).is_err());
    space.unregister(base + 100).expect("registered");
    assert!(matches!(
        space.unregister(base + 100),
        Err(MemoryError::NotRegistered(_))
    ));
    assert!(space.free(base, DEVICE).is_err(), "not ours to free");
    assert!(space.register(base, 0, 0, 1, 0).is_err());
    assert!(space.register(0, 8, 0, 1, 0).is_err());
    assert!(space.register(0x1000, 8, 0, 1, 0).is_err(), "not mapped");
    assert!(space.register(u64::MAX - 4, 8, 0, 1, 0).is_err());
    let pinned = Request {
        kind: MemoryKind::Pinned,
        ..device(4096)
    };
    let p = space.alloc(&pinned).expect("room");
    let error = space.register(p.base, 10, 0, 1, 0).expect_err("pinned");
    assert!(matches!(error, MemoryError::AlreadyRegistered(_)));
    assert_eq!(host[0], 1);
}

#[test]
fn fresh_memory_can_be_filled() {
    let space = space(MemoryConfig {
        fresh: Some(0xcd),
        device_limit: Some(64 << 20),
        ..MemoryConfig::default()
    });
    for size in [100u64, 1 << 20] {
        for _ in 0..2 {
            let a = space.alloc(&device(size)).expect("room");
            assert_eq!(access::load8(a.base), Ok(0xcd));
            assert_eq!(access::load8(a.end() - 1), Ok(0xcd));
            space.fill8(a.base, 1, size).expect("open");
            space.free(a.base, DEVICE).expect("live");
        }
    }
}

#[test]
fn writes_stay_in_our_own_memory() {
    let space = small_space();
    let a = space.alloc(&device(1 << 20)).expect("room");
    let mut local = [0u8; 16];
    let local_address = local.as_mut_ptr() as u64;
    assert!(space.write(local_address, &[1; 16]).is_err());
    assert!(space.fill8(local_address, 1, 16).is_err());
    assert!(space.copy(local_address, a.base, 16).is_err());
    assert!(space.write(space.range().end - 8, &[1; 16]).is_err());
    assert!(space.fill32(a.base, 1, u64::MAX / 2).is_err());
    assert_eq!(local, [0; 16]);
    space.fill32(a.base, 0x0102_0304, 4).expect("open");
    space.fill16(a.base + 16, 0x0506, 2).expect("open");
    space.copy(a.base + 20, a.base, 16).expect("open");
    let mut found = [0u8; 24];
    access::read(&mut found, a.base + 12).expect("open");
    assert_eq!(found[..8], [4, 3, 2, 1, 6, 5, 6, 5]);
    assert_eq!(found[8..12], [4, 3, 2, 1]);
    let error = space.write(a.end() - 4, &[1; 16]).expect_err("guard");
    let MemoryError::Access(fault) = error else {
        panic!("{error}");
    };
    assert_eq!(fault.address, a.end());
    assert!(lookup_code(a.base).is_none());
}

#[test]
fn threads_allocate_and_free_together() {
    let space = small_space();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let space = &space;
            scope.spawn(move || {
                for i in 0..2000u64 {
                    let size = if i % 10 == 0 { 100_000 } else { 300 + i };
                    let request = Request {
                        owner: thread,
                        ..device(size)
                    };
                    let a = space.alloc(&request).expect("room");
                    let mark = (thread * 10_000 + i) as u32;
                    space.fill32(a.base, mark, size / 4).expect("open");
                    assert_eq!(space.find(a.base + 4).map(|f| f.id), Some(a.id));
                    assert_eq!(access::load32(a.base + (size / 4 - 1) * 4), Ok(mark));
                    space.free(a.base, DEVICE).expect("live");
                }
            });
        }
    });
    assert_eq!(space.info().device, 0);
}

#[test]
fn zeroed_memory_costs_no_pages() {
    let space = small_space();
    let pages = |a: u64, bytes: u64| {
        let mut resident = vec![0_u8; (bytes / 4096) as usize];
        // SAFETY: the call queries our own memory and writes only to the vector.
        let answer = unsafe { libc::mincore(a as *mut _, bytes as usize, resident.as_mut_ptr()) };
        assert_eq!(answer, 0);
        resident.iter().filter(|&&page| page & 1 == 1).count()
    };
    for size in [100_000, 1 << 20, 3_000_001, 20 << 20] {
        let a = space.alloc(&device(size)).expect("room");
        space.fill8(a.base, 0xaa, size).expect("open");
        space.free(a.base, DEVICE).expect("live");
        let a = space.alloc(&device(size)).expect("room");
        space.zero(a.base, size).expect("open");
        if size >= 1 << 20 {
            assert!(pages(a.base, size & !4095) <= 1, "{size} bytes");
        }
        let mut found = vec![1_u8; size as usize];
        access::read(&mut found, a.base).expect("open");
        assert!(found.iter().all(|&byte| byte == 0), "{size} bytes");
        space.free(a.base, DEVICE).expect("live");
    }
}
