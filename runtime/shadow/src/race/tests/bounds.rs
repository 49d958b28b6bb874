//! The detector's time and memory, and the accesses that it drops to bound them.

use super::*;

#[test]
fn counters_take_linear_time() {
    const CTAS: u32 = 2000;
    let mut detector = Detector::default();
    for cta in 0..CTAS {
        let id = detector.add_cta(0, u64::from(cta), u64::from(cta), 32);
        for thread in 0..32 {
            let report = |race| panic!("{race:?}");
            detector.access(id, thread, (1, ATOMIC), (FLAG, 4), report);
        }
    }
    // Otherwise, the clock would contain the accesses of all earlier threads, with an entry for each CTA.
    assert!(detector.locations[&FLAG].suspected.is_none());
}

/// Even if a read need not be recorded, it must be compared with an earlier write. In this test, a
/// write happens before the reads of one warp, but not before the read of another warp. The
/// detector need not record this last read, but it must report its race with the write.
#[test]
fn skipped_reads_do_not_hide_races_with_earlier_writes() {
    let mut detector = Detector::default();
    let id = detector.add_cta(1, 0, 0, 64);
    detector.order_by_barriers_only(id);
    let mut races = Vec::new();
    let mut access = |detector: &mut Detector, first: u32, site: Site, access: Access| {
        let lanes = (u32::MAX, 4, Shape::Uniform);
        detector.access_lanes(
            id,
            first,
            (site, access),
            lanes,
            |_| X,
            |_, race| {
                races.push((race.earlier.0, site));
            },
        );
    };
    detector.access_lanes(
        id,
        0,
        (10, Access::WRITE),
        (1, 4, Shape::Uniform),
        |_| X,
        |_, _| {},
    );
    detector.synchronise_warp(id, 0, u32::MAX, u32::MAX);
    access(&mut detector, 32, 20, Access::READ);
    for site in 11..18 {
        access(&mut detector, 0, site, Access::READ);
    }
    access(&mut detector, 32, 21, Access::READ);
    races.dedup();
    assert_eq!(races, [(10, 20), (10, 21)]);
}

#[test]
fn the_detector_gives_up_before_it_takes_much_memory() {
    let update = Access {
        acquires: true,
        releases: true,
        ..ATOMIC
    };
    let mut detector = Detector::default();
    let ctas: Vec<CtaId> = (0..64)
        .map(|index| detector.add_cta(1, index, index, 256))
        .collect();
    let mut races = 0;
    for _ in 0..2 {
        for &id in &ctas {
            for thread in 0..256 {
                detector.access(id, thread, (0, update), (FLAG, 4), |_| races += 1);
            }
        }
    }
    assert!(detector.has_given_up());
    detector.access(0, 0, (1, Access::WRITE), (X, 4), |_| races += 1);
    detector.access(1, 0, (1, Access::WRITE), (X, 4), |_| races += 1);
    assert_eq!(races, 0);
    detector.clear();
    assert!(!detector.has_given_up());
}

#[test]
fn knowledge_ends_with_its_cta() {
    let update = Access {
        acquires: true,
        releases: true,
        ..ATOMIC
    };
    let mut detector = Detector::default();
    for index in 0..300 {
        let id = detector.add_cta(1, index, index, 256);
        // Each CTA has a flag of its own, as in shared memory.
        let flag = FLAG + 8 * index;
        for thread in (0..256).chain(0..256) {
            detector.access(id, thread, (0, update), (flag, 4), |_| ());
            detector.fence(id, thread, Scope::Device);
        }
        detector.end_cta(id);
        detector.forget(flag, 4);
    }
    assert!(!detector.has_given_up());
    assert_eq!(detector.known, 0);
}

#[test]
fn what_a_thread_knows_of_a_whole_warp_is_kept_in_short() {
    let mut clock = clock::Clock::default();
    for lane in 0..32 {
        let thread = Thread {
            cta: 0,
            index: lane,
        };
        clock.learn_thread(thread, 3 + lane % 2);
    }
    let (few, all) = (clock.size(), 4 + 32);
    assert!(few < all, "{few}");
    let knows = |lane, interval| {
        let time = Time { epoch: 0, interval };
        clock.knows(
            Thread {
                cta: 0,
                index: lane,
            },
            time,
        )
    };
    assert_eq!(
        [knows(0, 3), knows(0, 4), knows(1, 4), knows(1, 5)],
        [true, false, true, false]
    );
    // `learn_thread` must not remove accesses that `learn_warp` has added.
    let mut clock = clock::Clock::default();
    clock.learn_warp(0, 0, 7);
    for index in 0..32 {
        clock.learn_thread(Thread { cta: 0, index }, 3);
    }
    let time = Time {
        epoch: 0,
        interval: 7,
    };
    assert!(clock.knows(Thread { cta: 0, index: 5 }, time));
}

/// Lets `THREADS` threads of a CTA access the same four bytes once each. Returns the number of
/// reported races, and the number of accesses that the detector has stored for these bytes.
fn storm(access: Access) -> (usize, usize) {
    const THREADS: u32 = 1024;
    let mut detector = Detector::default();
    let id = detector.add_cta(0, 0, 0, THREADS);
    let mut races = 0;
    for thread in 0..THREADS {
        detector.access(id, thread, (1, access), (X, 4), |_| races += 1);
    }
    let list = detector.cells.cell(X / 4).list();
    let kept = detector.cells.further(list).len();
    // A later access of any warp still races with kept accesses of at least two other warps.
    for thread in [0, 500, 1023] {
        let mut warps = Vec::new();
        detector.access(id, thread, (2, Access::READ), (X, 4), |race| {
            warps.push(race.earlier.2 / 32);
        });
        warps.retain(|&warp| warp != thread / 32);
        warps.dedup();
        assert!(warps.len() >= 2, "{thread}: {warps:?}");
    }
    (races, kept)
}

/// The detector must compare each access with only a few earlier accesses, not with the accesses of
/// all other threads.
#[test]
fn accesses_of_many_threads_to_one_cell_are_compared_with_few() {
    let volatile = Access {
        volatile: true,
        ..STRONG_WRITE
    };
    let (races, kept) = storm(volatile);
    assert!(races <= 1024 * (KEPT + 2), "{races}");
    assert!(kept <= KEPT, "{kept}");
    let (races, kept) = storm(ATOMIC);
    assert_eq!(races, 0);
    assert!(kept <= KEPT, "{kept}");
    let (races, kept) = storm(Access::WRITE);
    assert!(races <= 1024 * (KEPT + 2), "{races}");
    assert!(kept <= KEPT, "{kept}");
}

/// If the threads use only relaxed atomics without fences, the detector's memory must be
/// proportional to the number of threads.
#[test]
fn relaxed_atomics_without_fences_take_linear_memory() {
    const CTAS: u64 = 64;
    let mut detector = Detector::default();
    let ids: Vec<CtaId> = (0..CTAS)
        .map(|index| detector.add_cta(0, index, index, 256))
        .collect();
    for &id in &ids {
        for thread in 0..256 {
            let other = u64::from(id + thread) % CTAS;
            for flag in [other, id.into()] {
                detector.access(id, thread, (1, ATOMIC), (FLAG + 4 * flag, 4), |race| {
                    panic!("{race:?}")
                });
            }
        }
    }
    assert!(!detector.has_given_up());
    let of_thread = detector.known / (CTAS * 256);
    assert!(of_thread < 256, "{of_thread}");
}

/// The last block reads the results of all other blocks. It learns from a counter that the results
/// are complete, but it executes no fence. At least one report must state that a fence is missing,
/// although the detector has dropped most of the clocks that prove this.
#[test]
fn a_fence_is_missing_after_many_updates() {
    const CTAS: u32 = 1000;
    let mut detector = Detector {
        suspected: MOST_SUSPECTED,
        ..Detector::default()
    };
    for cta in 0..CTAS {
        let id = detector.add_cta(0, u64::from(cta), u64::from(cta), 32);
        let own = X + 4 * u64::from(cta);
        detector.access(id, 0, (0, Access::WRITE), (own, 4), |_| ());
        detector.access(id, 0, (1, ATOMIC), (FLAG + (1 << 20), 4), |_| ());
    }
    let mut missing = Vec::new();
    for cta in 0..CTAS - 1 {
        let other = X + 4 * u64::from(cta);
        detector.access(CTAS - 1, 0, (2, Access::READ), (other, 4), |race| {
            missing.push(race.missing);
        });
    }
    assert_eq!(missing.len(), CTAS as usize - 1);
    assert!(missing.contains(&Missing::Fence));
}

/// The detector must keep a recorded weak access even after it records an atomic access that
/// happens after the weak access: a later atomic access of another CTA races only with the weak
/// access.
#[test]
fn an_atomic_access_does_not_hide_an_earlier_weak_access() {
    let wide = Access {
        element: 8,
        ..ATOMIC
    };
    let narrow = Access {
        strong: Some(Scope::Cta),
        ..ATOMIC
    };
    for (first, bytes) in [
        (Access::WRITE, 4),
        (Access::READ, 4),
        (narrow, 4),
        (wide, 8),
    ] {
        for only in [false, true] {
            let mut run = Run::new();
            for id in [0, 1] {
                if only {
                    run.detector.order_by_barriers_only(id);
                }
            }
            run.access(0, 0, first, X, bytes);
            run.barrier(0);
            for thread in [0, 33, 1] {
                run.access(0, thread, ATOMIC, X, 4);
            }
            assert_eq!(run.races, []);
            run.access(1, 0, ATOMIC, X, 4);
            assert_eq!(run.races.len(), 1, "{first:?}, only barriers: {only}");
        }
    }
}
