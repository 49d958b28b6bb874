//! Tests of ranges, mappings and rights. The tests access memory through `fault::access`, as the helpers of generated
//! code do.

use super::*;
use crate::fault::{access, install};
use crate::memory::MemoryConfig;

const G: u64 = GRANULARITY;

fn space(devices: usize) -> AddressSpace {
    install().expect("handlers");
    AddressSpace::new(&MemoryConfig {
        devices,
        device_limit: Some(64 * G),
        ..MemoryConfig::default()
    })
    .expect("address space")
}

fn store(address: u64, value: u32) -> Result<(), access::AccessFault> {
    // SAFETY: only this test uses the memory.
    unsafe { access::store32(address, value) }
}

#[test]
fn two_mappings_of_one_allocation_show_the_same_bytes() {
    let space = space(1);
    let base = space.reserve(4 * G, 0, 0).expect("addresses");
    assert_eq!(base % G, 0);
    let physical = space.create_physical(G, 0, false, 0).expect("room");
    space.map(base, G, &physical).expect("mapped");
    space.map(base + 2 * G, G, &physical).expect("mapped twice");
    assert!(access::load32(base).is_err(), "no rights yet");
    for at in [base, base + 2 * G] {
        space
            .set_access(at, G, 0, Access::ReadWrite)
            .expect("rights");
    }
    store(base + 100, 7).expect("open");
    assert_eq!(access::load32(base + 2 * G + 100), Ok(7));
    store(base + 3 * G - 4, 9).expect("open");
    assert_eq!(access::load32(base + G - 4), Ok(9));
    for closed in [base - 1, base + G, base + 2 * G - 4, base + 3 * G] {
        assert!(access::load32(closed).is_err(), "{closed:#x}");
    }
    assert!(space.find(base + G).is_none());
    assert_eq!(
        space.find(base + 5).expect("known").kind,
        MemoryKind::Mapped
    );
}

#[test]
fn rights_are_read_or_both_or_none() {
    let space = space(2);
    let base = space.reserve(G, 0, 0).expect("addresses");
    let physical = space.create_physical(G, 1, false, 0).expect("room");
    space.map(base, G, &physical).expect("mapped");
    space.set_access(base, G, 1, Access::Read).expect("rights");
    assert_eq!(access::load32(base), Ok(0));
    assert!(store(base, 1).is_err());
    assert_eq!(space.access(base + 8, 1), Some(Access::Read));
    assert_eq!(space.access(base + 8, 0), Some(Access::None));
    space
        .set_access(base, G, 0, Access::ReadWrite)
        .expect("rights");
    store(base, 1).expect("one of them may");
    space.set_access(base, G, 0, Access::None).expect("rights");
    assert!(store(base, 1).is_err());
    space.set_access(base, G, 1, Access::None).expect("rights");
    assert!(access::load32(base).is_err());
    assert_eq!(space.access(base + G, 0), None);
    space
        .set_access(base, G, -1, Access::Read)
        .expect("the host");
    assert_eq!(space.access(base, -1), Some(Access::Read));
}

#[test]
fn what_is_unmapped_faults_and_what_is_mapped_again_is_there() {
    let space = space(1);
    let base = space.reserve(3 * G, 0, 0).expect("addresses");
    let physical = space.create_physical(G, 0, false, 0).expect("room");
    for at in [base, base + G] {
        space.map(at, G, &physical).expect("mapped");
    }
    space
        .set_access(base, 2 * G, 0, Access::ReadWrite)
        .expect("both at once");
    store(base, 5).expect("open");
    space.unmap(base, 2 * G).expect("both at once");
    assert!(access::load32(base).is_err());
    assert!(space.find(base).is_none());
    space.map(base + 2 * G, G, &physical).expect("mapped");
    space
        .set_access(base + 2 * G, G, 0, Access::Read)
        .expect("rights");
    assert_eq!(
        access::load32(base + 2 * G),
        Ok(5),
        "the allocation keeps its bytes"
    );
}

#[test]
fn wrong_ranges_are_refused_and_change_nothing() {
    let space = space(1);
    assert!(space.reserve(0, 0, 0).is_err());
    assert!(space.reserve(G + 4096, 0, 0).is_err());
    assert!(space.reserve(G, 3 * G, 0).is_err());
    for huge in [1 << 63, (1 << 47), !(G - 1)] {
        assert!(space.reserve(huge, 0, 0).is_err());
    }
    assert!(space.reserve(G, 1 << 62, 0).is_err());
    let base = space.reserve(4 * G, 16 * G, 0).expect("addresses");
    assert_eq!(base % (16 * G), 0);
    let physical = space.create_physical(2 * G, 0, false, 0).expect("room");
    for (at, len) in [
        (base + 4096, G),
        (base, G + 4096),
        (base, 4 * G),
        (base, 0),
        (base - G, G),
        (base + 3 * G, 2 * G),
        (base + 4 * G, G),
        (0, G),
        (!(G - 1), G),
    ] {
        assert!(space.map(at, len, &physical).is_err(), "{at:#x} {len:#x}");
    }
    space.map(base + G, 2 * G, &physical).expect("mapped");
    for (at, len) in [(base, 2 * G), (base + G, G), (base + 2 * G, G)] {
        assert!(space.map(at, len, &physical).is_err(), "overlap");
    }
    for (at, len) in [
        (base, 4 * G),
        (base + G, G),
        (base + 2 * G, G),
        (base + G, 3 * G),
        (base, G),
    ] {
        assert!(space.unmap(at, len).is_err(), "no whole mappings");
        assert!(space.set_access(at, len, 0, Access::Read).is_err());
    }
    assert!(space.unreserve(base, 4 * G).is_err(), "something is mapped");
    space.unmap(base + G, 2 * G).expect("whole");
    assert!(space.unreserve(base, 3 * G).is_err(), "another length");
    space.unreserve(base, 4 * G).expect("whole");
    assert!(space.unreserve(base, 4 * G).is_err(), "twice");
    assert!(space.free(base, &[MemoryKind::Mapped]).is_err());
}

#[test]
fn hints_are_taken_when_they_are_free() {
    let space = space(1);
    let first = space.reserve(2 * G, 0, 0).expect("addresses");
    space.unreserve(first, 2 * G).expect("whole");
    let again = space.reserve(G, 0, first + 64 * G).expect("addresses");
    assert_eq!(again, first + 64 * G);
    let other = space.reserve(G, 0, again).expect("addresses");
    assert_ne!(other, again, "in use");
    assert!(space.contains(space.reserve(G, 0, G).expect("anywhere")));
}

#[test]
fn physical_memory_counts_until_its_last_user_is_gone() {
    let space = space(2);
    assert!(space.create_physical(65 * G, 0, false, 0).is_err());
    assert!(space.create_physical(100, 0, false, 0).is_err());
    let physical = space
        .create_physical(64 * G, 0, false, 0)
        .expect("all of it");
    assert_eq!(space.device_info(0).1, 0);
    assert_eq!(space.device_info(1).1, 64 * G);
    let base = space.reserve(G, 0, 0).expect("addresses");
    space.map(base, G, &physical).expect("mapped");
    drop(physical);
    assert_eq!(space.device_info(0).1, 0, "the mapping keeps it");
    assert!(space.physical_at(base + 5).is_some());
    space.unmap(base, G).expect("whole");
    assert_eq!(space.device_info(0).1, 64 * G);
}

#[test]
fn exported_allocations_keep_their_bytes_and_show_them_elsewhere() {
    let space = space(1);
    for size in [100, 60_000, 100 << 10, 5 << 20] {
        let request = crate::memory::Request {
            bytes: size,
            kind: MemoryKind::Device,
            device: 0,
            owner: 1,
            flags: 0,
        };
        let a = space.alloc(&request).expect("room");
        space.fill8(a.base, 3, size).expect("open");
        let export = space.export(a.base).expect("shared");
        assert_eq!(access::load8(a.base), Ok(3));
        assert_eq!(access::load8(a.end() - 1), Ok(3));
        let import = crate::memory::Request {
            kind: MemoryKind::Imported,
            ..request
        };
        let copy = space
            .import(&export.memory, export.offset, &import)
            .expect("mapped");
        assert_ne!(copy.base, a.base);
        assert_eq!(access::load8(copy.end() - 1), Ok(3));
        space.fill8(a.base, 9, size).expect("open");
        assert_eq!(access::load8(copy.base), Ok(9));
        space.free(a.base, &[MemoryKind::Device]).expect("live");
        assert_eq!(access::load8(copy.base), Ok(9), "the importer keeps it");
        space
            .free(copy.base, &[MemoryKind::Imported])
            .expect("live");
        assert!(access::load8(copy.base).is_err());
        let over = space.import(&export.memory, export.memory.bytes() - 1, &import);
        assert!(over.is_err(), "beyond the end");
    }
    assert_eq!(space.info().device, 0);
}

#[test]
fn no_write_is_lost_while_memory_becomes_shared() {
    let space = space(1);
    let bytes = 8 << 20;
    let request = crate::memory::Request {
        bytes,
        kind: MemoryKind::Device,
        device: 0,
        owner: 1,
        flags: 0,
    };
    for _ in 0..4 {
        let a = space.alloc(&request).expect("room");
        space.fill8(a.base, 0, bytes).expect("open");
        let stop = std::sync::atomic::AtomicBool::new(false);
        let last = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut count = 0u32;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    count += 1;
                    // Each iteration writes a word in the next page.
                    let at = a.base + u64::from(count) % (bytes / 4096) * 4096;
                    store(at, count).expect("never faults");
                }
                count
            });
            std::thread::sleep(std::time::Duration::from_millis(2));
            space.export(a.base).expect("shared");
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            writer.join().expect("ended")
        });
        let pages = (bytes / 4096) as u32;
        for count in last.saturating_sub(pages - 1).max(1)..=last {
            let at = a.base + u64::from(count % pages) * 4096;
            assert_eq!(access::load32(at), Ok(count));
        }
        space.free(a.base, &[MemoryKind::Device]).expect("live");
    }
}

/// The expected state of a range of eight granules. Each element of `granules` contains the index
/// of the mapped allocation, the index of the granule in this allocation, and the rights.
#[derive(Default)]
struct Model {
    granules: [Option<(usize, u64, Access)>; 8],
    /// Start and length of each mapping, in granules.
    mappings: BTreeMap<usize, usize>,
    /// The first word of each granule of each allocation.
    words: [[u32; 2]; 3],
}

impl Model {
    fn is_whole(&self, from: usize, len: usize) -> bool {
        let mut at = from;
        while at < from + len {
            match self.mappings.get(&at) {
                Some(size) => at += size,
                None => return false,
            }
        }
        len > 0 && at == from + len
    }

    fn check(&self, base: u64) {
        for (index, granule) in self.granules.iter().enumerate() {
            let at = base + index as u64 * G;
            let seen = access::load32(at).ok();
            let wanted = granule.and_then(|(physical, part, rights)| {
                (rights > Access::None).then(|| self.words[physical][part as usize])
            });
            assert_eq!(seen, wanted, "granule {index}");
        }
    }
}

/// Performs random operations (map, unmap, change of rights, write) and compares the results with the model. An
/// operation must fail if and only if the model rejects it.
#[test]
fn random_mappings_look_like_the_model() {
    let mut seed = 12345u64;
    let mut random = move |below: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let space = space(1);
    let base = space.reserve(8 * G, 0, 0).expect("addresses");
    let physicals: Vec<_> = (0..3)
        .map(|_| space.create_physical(2 * G, 0, false, 0).expect("room"))
        .collect();
    let mut model = Model::default();
    for turn in 0..4000u32 {
        let (from, len) = (random(8) as usize, 1 + random(3) as usize);
        let (at, bytes) = (base + from as u64 * G, len as u64 * G);
        let inside = from + len <= 8;
        match random(4) {
            0 => {
                let which = random(3) as usize;
                let free = inside && model.granules[from..from + len].iter().all(Option::is_none);
                let done = space.map(at, bytes, &physicals[which]);
                assert_eq!(done.is_ok(), free && len <= 2, "turn {turn}");
                if done.is_ok() {
                    model.mappings.insert(from, len);
                    for part in 0..len {
                        model.granules[from + part] = Some((which, part as u64, Access::None));
                    }
                }
            }
            1 => {
                let whole = inside && model.is_whole(from, len);
                assert_eq!(space.unmap(at, bytes).is_ok(), whole, "turn {turn}");
                if whole {
                    model
                        .mappings
                        .retain(|start, _| !(from..from + len).contains(start));
                    model.granules[from..from + len].fill(None);
                }
            }
            2 => {
                let rights = [Access::None, Access::Read, Access::ReadWrite][random(3) as usize];
                let whole = inside && model.is_whole(from, len);
                let done = space.set_access(at, bytes, 0, rights);
                assert_eq!(done.is_ok(), whole, "turn {turn}");
                if whole {
                    for granule in model.granules[from..from + len].iter_mut().flatten() {
                        granule.2 = rights;
                    }
                }
            }
            _ => {
                let may = model.granules[from].filter(|granule| granule.2 == Access::ReadWrite);
                assert_eq!(store(at, turn).is_ok(), may.is_some(), "turn {turn}");
                if let Some((physical, part, _)) = may {
                    model.words[physical][part as usize] = turn;
                }
            }
        }
        model.check(base);
    }
}

#[test]
fn rights_that_cannot_be_set_are_not_recorded() {
    let space = space(1);
    let base = space.reserve(G, 0, 0).expect("addresses");
    let physical = space.create_physical(G, 0, false, 0).expect("room");
    space.map(base, G, &physical).expect("mapped");
    // SAFETY: the pages belong to the mapping, and nothing uses them.
    assert_eq!(unsafe { libc::munmap(base as *mut _, G as usize) }, 0);
    assert!(space.set_access(base, G, 0, Access::Read).is_err());
    assert_eq!(space.access(base, 0), Some(Access::None));
    space.unmap(base, G).expect("mapped");
    space.unreserve(base, G).expect("reserved");
}
