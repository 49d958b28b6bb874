//! Tests of the race detector. Each test makes the calls that an engine makes for a small program.

mod chunks;
mod edges;

use super::location::MOST_SUSPECTED;
use super::*;

const X: u64 = 0x1000;
const FLAG: u64 = 0x2000;

const ATOMIC: Access = Access {
    reads: true,
    writes: true,
    strong: Some(Scope::Device),
    element: 4,
    window: Window::Global,
    acquires: false,
    releases: false,
    volatile: false,
    asynchronous: false,
    signals: false,
    polls: false,
    swaps: false,
};
const STRONG_WRITE: Access = Access {
    strong: Some(Scope::Device),
    ..Access::WRITE
};
const STRONG_READ: Access = Access {
    strong: Some(Scope::Device),
    ..Access::READ
};

/// A detector with two CTAs of 64 threads, and the races that it has reported.
struct Run {
    detector: Detector,
    races: Vec<Race>,
}

impl Run {
    fn new() -> Run {
        let mut detector = Detector::default();
        assert_eq!(detector.add_cta(0, 0, 0, 64), 0);
        assert_eq!(detector.add_cta(0, 1, 1, 64), 1);
        Run {
            detector,
            races: Vec::new(),
        }
    }

    fn access(&mut self, cta: CtaId, thread: u32, access: Access, address: u64, bytes: u32) {
        // The site is different for each kind of access.
        let site = u32::from(access.writes) + 2 * u32::from(access.strong.is_some());
        let races = &mut self.races;
        self.detector
            .access(cta, thread, (site, access), (address, bytes), |race| {
                races.push(race)
            });
    }

    fn write(&mut self, cta: CtaId, thread: u32) {
        self.access(cta, thread, Access::WRITE, X, 4);
    }

    fn read(&mut self, cta: CtaId, thread: u32) {
        self.access(cta, thread, Access::READ, X, 4);
    }

    fn barrier(&mut self, cta: CtaId) {
        let all = [u32::MAX; 2];
        self.detector.complete_barrier(cta, 0, &all, &all);
    }

    fn missing(&self) -> Vec<Missing> {
        self.races.iter().map(|race| race.missing).collect()
    }
}

#[test]
fn accesses_of_one_thread_are_ordered() {
    let mut run = Run::new();
    run.write(0, 3);
    run.read(0, 3);
    run.write(0, 3);
    assert_eq!(run.races, []);
}

#[test]
fn reads_do_not_race() {
    let mut run = Run::new();
    for thread in 0..64 {
        run.read(0, thread);
        run.read(1, thread);
    }
    assert_eq!(run.races, []);
}

#[test]
fn threads_of_a_warp_race() {
    let mut run = Run::new();
    run.write(0, 1);
    run.read(0, 2);
    assert_eq!(run.missing(), [Missing::WarpBarrier]);
    assert_eq!(run.races[0].earlier, (1, 0, 1));
    assert_eq!(run.races[0].thread, 2);
    assert_eq!(run.races[0].address, X);
}

#[test]
fn every_pair_of_an_interval_is_reported_in_each_order_of_lanes() {
    // Each of two lanes executes a write and a read of the same address. The reported pairs of instructions must be the
    // same if the lanes run one after the other and if they execute each instruction together.
    let pairs = |order: [(u32, bool); 4]| {
        let mut run = Run::new();
        let mut pairs = Vec::new();
        for (lane, writes) in order {
            let access = if writes { Access::WRITE } else { Access::READ };
            let before = run.races.len();
            run.access(0, lane, access, X, 4);
            for race in &run.races[before..] {
                let mut sites = [race.earlier.0, u32::from(writes)];
                sites.sort_unstable();
                pairs.push(sites);
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    };
    let by_lane = [(0, true), (0, false), (1, true), (1, false)];
    let by_instruction = [(0, true), (1, true), (0, false), (1, false)];
    assert_eq!(pairs(by_lane), [[0, 1], [1, 1]]);
    assert_eq!(pairs(by_instruction), [[0, 1], [1, 1]]);
}

#[test]
fn a_warp_barrier_orders_its_lanes_only() {
    let mut run = Run::new();
    run.write(0, 1);
    run.detector.synchronise_warp(0, 0, 0b110, u32::MAX);
    run.read(0, 2);
    assert_eq!(run.races, []);
    run.read(0, 3);
    assert_eq!(run.missing(), [Missing::WarpBarrier]);
}

#[test]
fn partial_warp_barriers_are_transitive() {
    let mut run = Run::new();
    run.write(0, 1);
    run.detector.synchronise_warp(0, 0, 0b0110, u32::MAX);
    run.detector.synchronise_warp(0, 0, 0b1100, u32::MAX);
    run.read(0, 3);
    assert_eq!(run.races, []);
}

#[test]
fn a_barrier_orders_the_cta_only() {
    let mut run = Run::new();
    run.write(0, 1);
    run.barrier(0);
    run.barrier(1);
    run.write(0, 40);
    assert_eq!(run.races, []);
    run.read(0, 1);
    assert_eq!(run.missing(), [Missing::Barrier]);
    run.read(1, 0);
    assert_eq!(run.missing(), [Missing::Barrier, Missing::GridOrder]);
}

#[test]
fn a_million_barriers_do_not_wrap() {
    let mut run = Run::new();
    for i in 0..1_000_000u32 {
        run.write(0, i % 64);
        run.barrier(0);
    }
    assert_eq!(run.races, []);
    run.write(0, 1);
    run.write(0, 33);
    assert_eq!(run.missing(), [Missing::Barrier]);
}

#[test]
fn neighbouring_bytes_do_not_race() {
    let mut run = Run::new();
    for thread in 0..64 {
        run.access(0, thread, Access::WRITE, X + u64::from(thread), 1);
    }
    assert_eq!(run.races, []);
    run.access(0, 5, Access::READ, X + 4, 2);
    assert_eq!(run.races.len(), 1);
    assert_eq!(run.races[0].earlier.2, 4);
}

#[test]
fn atomics_do_not_race_with_each_other_but_with_weak_accesses() {
    let mut run = Run::new();
    run.access(0, 1, ATOMIC, X, 4);
    run.access(1, 2, ATOMIC, X, 4);
    assert_eq!(run.races, []);
    run.write(1, 3);
    assert_eq!(run.races.len(), 2);
}

#[test]
fn atomics_of_narrow_scope_race_between_ctas() {
    let narrow = Access {
        strong: Some(Scope::Cta),
        ..ATOMIC
    };
    let mut run = Run::new();
    run.access(0, 1, narrow, X, 4);
    run.access(0, 2, narrow, X, 4);
    assert_eq!(run.races, []);
    run.access(1, 2, narrow, X, 4);
    assert_eq!(run.missing()[0], Missing::Scope);
}

/// Performs these accesses: thread 0 of CTA 0 writes X and then a flag; thread 0 of CTA 1 reads the
/// flag and then X. Returns what is missing in each reported race.
fn message(fence: Option<Scope>, releases: bool) -> Vec<Missing> {
    let mut run = Run::new();
    run.write(0, 0);
    if let Some(scope) = fence {
        run.detector.fence(0, 0, scope);
    }
    let write = Access {
        releases,
        ..STRONG_WRITE
    };
    let read = Access {
        acquires: releases,
        ..STRONG_READ
    };
    run.access(0, 0, write, FLAG, 4);
    run.access(1, 0, read, FLAG, 4);
    if let Some(scope) = fence {
        run.detector.fence(1, 0, scope);
    }
    run.read(1, 0);
    run.missing()
}

#[test]
fn a_flag_with_fences_or_release_and_acquire_orders() {
    assert_eq!(message(Some(Scope::Device), false), []);
    assert_eq!(message(None, true), []);
    assert_eq!(message(None, false), [Missing::Fence]);
    assert_eq!(message(Some(Scope::Cta), false).len(), 1);
}

/// Thread 0 of CTA 0 writes X, executes a fence of scope `Device` and writes a flag. The thread `reader` of the CTA
/// `cta` reads the flag and executes the fences `fences`. CTA 1 is in the cluster of CTA 0, and CTA 2 is not.
fn received(cta: CtaId, reader: u32, fences: &[Scope]) -> Run {
    let mut detector = Detector::default();
    for (index, cluster) in [(0, 0), (1, 0), (2, 1)] {
        detector.add_cta(0, index, cluster, 64);
    }
    let mut run = Run {
        detector,
        races: Vec::new(),
    };
    run.write(0, 0);
    run.detector.fence(0, 0, Scope::Device);
    run.access(0, 0, STRONG_WRITE, FLAG, 4);
    run.access(cta, reader, STRONG_READ, FLAG, 4);
    for &scope in fences {
        run.detector.fence(cta, reader, scope);
    }
    run
}

#[test]
fn a_fence_acquires_only_from_threads_in_its_scope() {
    let scopes = [Scope::Cta, Scope::Cluster, Scope::Device];
    for (cta, least) in [(0, Scope::Cta), (1, Scope::Cluster), (2, Scope::Device)] {
        for fence in scopes {
            for access in [Access::READ, Access::WRITE] {
                let mut run = received(cta, 40, &[fence]);
                run.access(cta, 40, access, X, 4);
                match fence >= least {
                    true => assert_eq!(run.races, [], "{cta} {fence:?}"),
                    false => assert_eq!(run.missing(), [Missing::Scope], "{cta} {fence:?}"),
                }
                assert!(run.races.iter().all(|race| race.reader_lacks_fence));
            }
        }
    }
    let mut run = received(2, 40, &[]);
    run.read(2, 40);
    assert_eq!(run.missing(), [Missing::Fence]);
}

/// Thread 7 of CTA 0 writes X and executes a fence. After a barrier, thread 0 increments the counter `FLAG` without a
/// fence of its own. Thread 0 of CTA 1 increments the counter later. After a barrier, thread 40 of
/// CTA 1 executes a fence and accesses X. `fences` states for each of the two fences whether it is
/// a `fence.sc`, and its scope.
fn counted(fences: [(bool, Scope); 2], access: Access, counter: Access) -> Run {
    let mut run = Run::new();
    let fence = |run: &mut Run, cta, thread, (is_sc, scope)| match is_sc {
        true => run.detector.fence_sc(cta, thread, scope),
        false => run.detector.fence(cta, thread, scope),
    };
    run.write(0, 7);
    fence(&mut run, 0, 7, fences[0]);
    run.access(0, 8, Access::WRITE, X + 64, 4);
    run.barrier(0);
    run.access(0, 0, counter, FLAG, 4);
    run.access(1, 0, ATOMIC, FLAG, 4);
    run.barrier(1);
    fence(&mut run, 1, 40, fences[1]);
    run.access(1, 40, access, X, 4);
    run
}

// Regression test: a reduction over the grid in which all threads execute `__threadfence()`, and after a barrier one
// thread increments the counter of CTAs, was reported as a race.
#[test]
fn fences_of_sequential_consistency_order_without_a_fence_beside_the_flag() {
    let sc = (true, Scope::Device);
    for access in [Access::READ, Access::WRITE] {
        for counter in [ATOMIC, STRONG_WRITE] {
            assert_eq!(counted([sc, sc], access, counter).races, []);
        }
        let narrow = Access {
            strong: Some(Scope::Cta),
            ..ATOMIC
        };
        let others = [
            ([(false, Scope::Device), sc], ATOMIC),
            ([sc, (false, Scope::Device)], ATOMIC),
            ([(true, Scope::Cta), sc], ATOMIC),
            ([sc, (true, Scope::Cluster)], ATOMIC),
            ([sc, sc], narrow),
            ([sc, sc], Access::WRITE),
        ];
        for (fences, counter) in others {
            let run = counted(fences, access, counter);
            assert!(!run.races.is_empty(), "{fences:?} {counter:?}");
        }
    }
    // The write of thread 8 follows no fence.
    let mut run = counted([sc, sc], Access::READ, ATOMIC);
    run.access(1, 40, Access::READ, X + 64, 4);
    assert_eq!(run.races.len(), 1);
    // The thread that reads X has executed its fence before the counter was read.
    let mut run = Run::new();
    run.write(0, 7);
    run.detector.fence_sc(0, 7, Scope::Device);
    run.barrier(0);
    run.access(0, 0, ATOMIC, FLAG, 4);
    run.detector.fence_sc(1, 40, Scope::Device);
    run.access(1, 0, ATOMIC, FLAG, 4);
    run.barrier(1);
    run.read(1, 40);
    assert_eq!(run.races.len(), 1);
}

// A store replaces the value of an earlier write to the flag; the order of the writes to one location suffices.
#[test]
fn fences_of_sequential_consistency_order_also_overwritten_values() {
    let mut run = Run::new();
    run.write(0, 7);
    run.detector.fence_sc(0, 7, Scope::Device);
    run.access(0, 7, STRONG_WRITE, FLAG, 4);
    run.access(1, 3, STRONG_WRITE, FLAG, 4);
    run.access(1, 0, STRONG_READ, FLAG, 4);
    run.detector.fence_sc(1, 0, Scope::Device);
    run.read(1, 0);
    assert_eq!(run.races, []);
}

#[test]
fn a_wide_fence_may_follow_a_narrow_one() {
    let mut run = received(2, 40, &[Scope::Cta, Scope::Device]);
    run.read(2, 40);
    assert_eq!(run.races, []);
    // A narrow fence is also too narrow for threads that pass a barrier after it.
    let mut run = received(2, 40, &[Scope::Cta]);
    run.barrier(2);
    run.read(2, 0);
    assert_eq!(run.missing(), [Missing::Scope]);
    assert!(run.races[0].reader_lacks_fence);
}

#[test]
fn a_narrow_fence_acquires_from_its_cta_what_the_writer_has_acquired() {
    // Thread 40 of CTA 1 passes on what it has received, to thread 0 of its CTA.
    for (fence, clean) in [(Scope::Device, true), (Scope::Cta, false)] {
        let mut run = received(1, 40, &[fence]);
        run.access(1, 40, Access::WRITE, X + 4, 4);
        run.detector.fence(1, 40, Scope::Cta);
        run.access(1, 40, ATOMIC, FLAG, 4);
        run.access(1, 0, STRONG_READ, FLAG, 4);
        run.detector.fence(1, 0, Scope::Cta);
        run.access(1, 0, Access::READ, X + 4, 4);
        assert_eq!(run.races, []);
        run.read(1, 0);
        assert_eq!(run.races.is_empty(), clean, "{fence:?}");
    }
}

#[test]
fn a_narrow_fence_that_acquires_nothing_does_not_depend_on_the_schedule() {
    let mut run = received(2, 40, &[]);
    run.access(2, 0, ATOMIC, FLAG, 4);
    run.detector.fence(2, 0, Scope::Cta);
    assert!(!run.detector.depends_on_schedule());
    run.detector.fence(2, 0, Scope::Device);
    assert!(run.detector.depends_on_schedule());
}

#[test]
fn a_later_access_is_not_released() {
    let mut run = Run::new();
    run.detector.fence(0, 0, Scope::Device);
    run.write(0, 0);
    run.access(0, 0, STRONG_WRITE, FLAG, 4);
    run.access(1, 0, STRONG_READ, FLAG, 4);
    run.detector.fence(1, 0, Scope::Device);
    run.read(1, 0);
    assert_eq!(run.missing(), [Missing::Fence]);
}

#[test]
fn barriers_carry_what_one_thread_has_learned() {
    // The program is a reduction over the grid. All threads of a CTA write and pass a barrier; then one thread
    // increments a counter of CTAs. In the last CTA, all threads pass another barrier and read.
    let mut run = Run::new();
    for thread in 0..64 {
        run.access(0, thread, Access::WRITE, X + u64::from(thread) * 4, 4);
    }
    run.barrier(0);
    run.detector.fence(0, 0, Scope::Device);
    run.access(0, 0, ATOMIC, FLAG, 4);
    run.detector.fence(1, 5, Scope::Device);
    run.access(1, 5, ATOMIC, FLAG, 4);
    run.detector.fence(1, 5, Scope::Device);
    run.barrier(1);
    for thread in 0..64 {
        run.access(1, 63 - thread, Access::READ, X + u64::from(thread) * 4, 4);
    }
    assert_eq!(run.races, []);
}

#[test]
fn updates_extend_a_release() {
    let mut run = Run::new();
    run.write(0, 0);
    let release = Access {
        releases: true,
        ..STRONG_WRITE
    };
    run.access(0, 0, release, FLAG, 4);
    run.access(0, 33, ATOMIC, FLAG, 4);
    let acquire = Access {
        acquires: true,
        ..STRONG_READ
    };
    run.access(1, 0, acquire, FLAG, 4);
    run.read(1, 0);
    assert_eq!(run.races, []);
    // A store that releases nothing, between the release and the acquire, ends the release sequence.
    run.access(0, 33, STRONG_WRITE, FLAG, 4);
    run.access(1, 1, acquire, FLAG, 4);
    run.read(1, 1);
    assert_eq!(run.races.len(), 1);
}

#[test]
fn named_barriers_order_those_who_arrive_before_those_who_wait() {
    let mut run = Run::new();
    run.write(0, 3);
    run.detector.arrive(0, 1, 0, u32::MAX);
    run.access(0, 3, Access::WRITE, X + 8, 4);
    run.detector
        .complete_barrier(0, 1, &[0, u32::MAX], &[u32::MAX; 2]);
    run.read(0, 40);
    assert_eq!(run.races, []);
    run.access(0, 40, Access::READ, X + 8, 4);
    assert_eq!(run.missing(), [Missing::Barrier]);
}

#[test]
fn clusters_are_ordered_by_their_barrier() {
    let mut run = Run::new();
    run.write(0, 3);
    run.detector.synchronise_ctas(&[0, 1]);
    run.write(1, 7);
    assert_eq!(run.races, []);
    run.write(0, 3);
    assert_eq!(run.races.len(), 1);
}

#[test]
fn a_write_races_with_all_earlier_readers() {
    let mut run = Run::new();
    for thread in 0..64 {
        run.read(0, thread);
    }
    run.detector.synchronise_warp(0, 1, u32::MAX, u32::MAX);
    run.write(0, 63);
    assert_eq!(run.races.len(), 1);
    assert_eq!(run.races[0].earlier.2, 0);
}

#[test]
fn volatile_accesses_are_reported_apart() {
    let volatile = |access| Access {
        strong: Some(Scope::Device),
        volatile: true,
        ..access
    };
    let mut run = Run::new();
    run.access(0, 0, volatile(Access::READ), X, 4);
    run.access(1, 0, volatile(Access::WRITE), X, 4);
    assert_eq!(run.races.len(), 1);
    assert!(run.races[0].volatile);
    assert!(!run.detector.is_flag(X), "the read came first");
    let poll = Access {
        polls: true,
        ..volatile(Access::READ)
    };
    run.access(0, 0, poll, X, 4);
    assert!(run.detector.is_flag(X));
}

/// A thread that has written a volatile variable must not write it again while another thread reads it.
#[test]
fn a_volatile_variable_that_its_writer_writes_again_races() {
    let volatile = |access| Access {
        strong: Some(Scope::Device),
        volatile: true,
        element: 4,
        ..access
    };
    let mut run = Run::new();
    run.access(0, 40, volatile(Access::WRITE), X, 4);
    run.barrier(0);
    run.access(0, 3, volatile(Access::READ), X, 4);
    run.access(0, 40, volatile(Access::WRITE), X, 4);
    assert_eq!(run.missing(), [Missing::Barrier]);
    assert!(run.races[0].volatile && !run.races[0].both_write);
}

#[test]
fn asynchronous_copies_end_with_a_wait_of_their_thread() {
    let copy = Access {
        asynchronous: true,
        ..Access::WRITE
    };
    let mut run = Run::new();
    run.access(0, 0, copy, X, 4);
    run.detector.commit_copies(0, 0);
    run.access(0, 0, copy, X + 4, 4);
    run.detector.commit_copies(0, 0);
    run.detector.wait_for_copies(0, 0, Some(1));
    run.access(0, 0, Access::READ, X, 4);
    assert_eq!(run.races, [], "the first group is complete");
    run.access(0, 0, Access::READ, X + 4, 4);
    assert_eq!(run.missing(), [Missing::CopyWait]);
    run.races.clear();
    // A thread other than the waiting thread may read only after a barrier that follows the wait.
    run.access(0, 0, copy, X + 8, 4);
    run.barrier(0);
    run.detector.wait_for_copies(0, 0, None);
    run.access(0, 40, Access::READ, X + 8, 4);
    assert_eq!(run.missing(), [Missing::Barrier]);
    run.barrier(0);
    run.access(0, 41, Access::READ, X + 8, 4);
    assert_eq!(run.races.len(), 1);
}

/// Two CTAs increment X under a lock. The first CTA executes a fence of scope `first` after it has
/// taken the lock. If `ends` is true, the first CTA ends before the second CTA takes the lock, and
/// the second CTA also ends.
fn locked(run: &mut Run, first: Option<Scope>, ends: bool) -> Vec<Missing> {
    let swap = Access {
        swaps: true,
        ..ATOMIC
    };
    for (cta, fence) in [(0, first), (1, Some(Scope::Device))] {
        run.access(cta, 0, swap, FLAG, 4);
        if let Some(scope) = fence {
            run.detector.fence(cta, 0, scope);
        }
        run.read(cta, 0);
        run.write(cta, 0);
        run.detector.fence(cta, 0, Scope::Device);
        run.access(cta, 0, ATOMIC, FLAG, 4);
        if ends {
            run.detector.end_cta(cta);
        }
    }
    run.missing()
}

#[test]
fn a_lock_needs_a_fence_in_each_thread() {
    for ends in [false, true] {
        let missing = |first| locked(&mut Run::new(), first, ends);
        assert_eq!(missing(Some(Scope::Device)), []);
        assert_eq!(missing(None), [Missing::Fence; 2]);
        assert_eq!(missing(Some(Scope::Cta)), [Missing::Scope; 2]);
    }
}

#[test]
fn only_locks_without_an_acquire_are_kept() {
    let mut run = Run::new();
    locked(&mut run, Some(Scope::Device), true);
    assert_eq!(run.detector.released.len(), 0);
    let mut run = Run::new();
    locked(&mut run, Some(Scope::Cta), true);
    assert_eq!(run.detector.released.len(), 1);
    run.detector.clear();
    assert_eq!(run.detector.released.len(), 0);
}

#[test]
fn the_last_update_of_a_location_follows_the_others() {
    // The program is a barrier of the grid, in which the last CTA that increments the counter resets it.
    let mut run = Run::new();
    run.access(0, 0, ATOMIC, X, 4);
    run.access(1, 0, ATOMIC, X, 4);
    run.write(1, 0);
    assert_eq!(run.races, []);
    run.access(0, 0, ATOMIC, X, 4);
    assert_eq!(run.races.len(), 1, "the counter is reset without release");
}

#[test]
fn launches_are_ordered() {
    let mut run = Run::new();
    run.write(0, 0);
    let later = run.detector.add_cta(1, 0, 0, 64);
    run.write(later, 5);
    assert_eq!(run.races, []);
}

/// If two launches are ordered, the order of their atomic operations is the same in every schedule.
#[test]
fn ordered_launches_do_not_depend_on_the_schedule() {
    let acquiring = Access {
        acquires: true,
        releases: true,
        ..ATOMIC
    };
    let mut run = Run::new();
    run.access(0, 0, acquiring, X, 4);
    let later = run.detector.add_cta(1, 0, 0, 64);
    run.access(later, 5, acquiring, X, 4);
    assert!(!run.detector.depends_on_schedule());
    let beside = run.detector.add_cta(2, 0, 0, 64);
    run.detector.add_overlaps(1, &[2]);
    run.access(beside, 5, acquiring, X, 4);
    assert!(run.detector.depends_on_schedule());
}

#[test]
fn memory_with_a_new_use_has_no_accesses() {
    let mut run = Run::new();
    run.write(0, 0);
    run.detector.forget(X, 64);
    run.write(1, 0);
    assert_eq!(run.races, []);
}

#[test]
fn atomics_of_different_sizes_race() {
    let wide = Access {
        element: 8,
        ..ATOMIC
    };
    let mut run = Run::new();
    run.access(0, 1, wide, X, 8);
    run.access(1, 2, ATOMIC, X + 4, 4);
    assert_eq!(run.missing(), [Missing::Size]);
    run.races.clear();
    run.access(1, 1, wide, X + 8, 8);
    run.access(0, 2, wide, X + 8, 8);
    assert_eq!(run.races, []);
}

const SIGNAL: Access = Access {
    releases: true,
    signals: true,
    element: 8,
    ..ATOMIC
};
const WAIT: Access = Access {
    acquires: true,
    element: 8,
    ..STRONG_READ
};

#[test]
fn a_bulk_copy_ends_with_a_wait_for_its_mbarrier() {
    let mut run = Run::new();
    run.detector.begin_copy(0, 0, Completion::Object, true);
    run.write(0, 0);
    run.access(0, 0, SIGNAL, FLAG, 8);
    run.detector.end_copy(0, 0);
    run.barrier(0);
    run.read(0, 0);
    run.read(0, 5);
    assert_eq!(run.missing(), [Missing::ObjectWait; 2]);
    run.races.clear();
    run.access(0, 5, WAIT, FLAG, 8);
    run.read(0, 5);
    assert_eq!(run.races, []);
    // The wait of one thread also orders the accesses of other threads with which it synchronises afterwards.
    run.read(0, 40);
    assert_eq!(run.missing(), [Missing::ObjectWait]);
    run.barrier(0);
    run.read(0, 41);
    assert_eq!(run.races.len(), 1);
}

#[test]
fn each_mbarrier_ends_its_own_copies() {
    let mut run = Run::new();
    for (flag, at) in [(FLAG, X), (FLAG + 8, X + 4)] {
        run.detector.begin_copy(0, 0, Completion::Object, true);
        run.access(0, 0, Access::WRITE, at, 4);
        run.access(0, 0, SIGNAL, flag, 8);
        run.detector.end_copy(0, 0);
    }
    run.access(0, 5, WAIT, FLAG, 8);
    run.access(0, 5, Access::READ, X, 4);
    assert_eq!(run.races, []);
    run.access(0, 5, Access::READ, X + 4, 4);
    assert_eq!(run.missing(), [Missing::ObjectWait]);
}

#[test]
fn a_bulk_group_has_two_waits() {
    let mut run = Run::new();
    run.detector.begin_copy(0, 0, Completion::BulkGroup, false);
    run.access(0, 0, Access::READ, X, 4);
    run.access(0, 0, Access::WRITE, FLAG, 4);
    run.detector.end_copy(0, 0);
    run.detector.commit_bulk(0, 0);
    run.write(0, 0);
    assert_eq!(run.missing(), [Missing::BulkWait]);
    run.races.clear();
    run.detector.wait_for_bulk(0, 0, 0, true);
    run.write(0, 0);
    assert_eq!(run.races, [], "the source has been read");
    run.access(0, 0, Access::READ, FLAG, 4);
    assert_eq!(run.missing(), [Missing::BulkWait]);
    run.races.clear();
    run.detector.wait_for_bulk(0, 0, 0, false);
    run.access(0, 0, Access::READ, FLAG, 4);
    assert_eq!(run.races, []);
}

/// Thread 0 writes. After a barrier, thread 40 issues a bulk copy that reads the written memory. `fence` is the thread
/// that performs a fence between the proxies: thread 0 after its write, or thread 40 before the copy.
fn copied_by_proxy(fence: Option<u32>, window: Window) -> Vec<Missing> {
    let shared = |access| Access {
        window: Window::Shared,
        ..access
    };
    let mut run = Run::new();
    run.access(0, 0, shared(Access::WRITE), X, 4);
    if fence == Some(0) {
        run.detector.fence_proxy(0, 0, &[window]);
    }
    run.barrier(0);
    if fence == Some(40) {
        run.detector.fence_proxy(0, 40, &[window]);
    }
    run.detector.begin_copy(0, 40, Completion::BulkGroup, true);
    run.access(0, 40, shared(Access::READ), X, 4);
    run.detector.end_copy(0, 40);
    run.missing()
}

#[test]
fn bulk_copies_need_a_fence_between_the_proxies() {
    assert_eq!(copied_by_proxy(None, Window::Shared), [Missing::ProxyFence]);
    assert_eq!(copied_by_proxy(Some(0), Window::Shared), []);
    assert_eq!(copied_by_proxy(Some(40), Window::Shared), []);
    assert_eq!(
        copied_by_proxy(Some(0), Window::Global),
        [Missing::ProxyFence]
    );
}

/// The first thread of CTA 0 writes before or after it arrives at the barrier of the cluster. CTA 1
/// reads after the barrier.
fn through_cluster(relaxed: bool, before: bool) -> Vec<Missing> {
    let mut run = Run::new();
    if before {
        run.write(0, 0);
    }
    for (cta, warp) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        run.detector.arrive_at_cluster(cta, warp, u32::MAX, relaxed);
    }
    if !before {
        run.write(0, 0);
    }
    let all = || vec![u32::MAX; 2];
    let ctas = [(0, all(), all()), (1, all(), all())];
    run.detector.complete_cluster(&ctas);
    run.read(1, 7);
    run.missing()
}

#[test]
fn relaxed_arrivals_at_a_cluster_release_nothing() {
    assert_eq!(through_cluster(false, true), []);
    assert_eq!(through_cluster(false, false).len(), 1);
    assert_eq!(through_cluster(true, true).len(), 1);
}

#[test]
fn a_fence_releases_before_a_relaxed_arrival() {
    let mut run = Run::new();
    run.write(0, 0);
    run.detector.fence(0, 0, Scope::Cluster);
    for (cta, warp) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        run.detector.arrive_at_cluster(cta, warp, u32::MAX, true);
    }
    // The second CTA waits when the barrier is complete.
    let (all, none) = (|| vec![u32::MAX; 2], || vec![0; 2]);
    run.detector
        .complete_cluster(&[(0, all(), all()), (1, none(), all())]);
    run.detector.wait_at_cluster(1, 0, 0b10);
    run.read(1, 1);
    assert_eq!(run.races, []);
    run.read(1, 2);
    assert_eq!(run.races.len(), 1);
}

#[test]
fn launches_that_may_overlap_race() {
    let mut run = Run::new();
    run.write(0, 0);
    let later = run.detector.add_cta(7, 0, 0, 64);
    run.detector.add_overlaps(0, &[7]);
    run.write(later, 5);
    assert_eq!(run.missing(), [Missing::StreamOrder]);
    let mut found = Vec::new();
    run.detector.add_overlaps(9, &[7]);
    run.detector
        .conflicts(9, (X + 1, 2), false, |conflict| found.push(conflict));
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].cta, found[0].thread, found[0].address),
        (later, 5, X + 1)
    );
    found.clear();
    run.detector
        .conflicts(9, (X + 4, 4), true, |conflict| found.push(conflict));
    assert_eq!(found, []);
}

#[test]
fn locks_depend_on_the_schedule_and_barriers_do_not() {
    let mut run = Run::new();
    run.write(0, 0);
    run.barrier(0);
    run.access(0, 1, ATOMIC, X + 8, 4);
    run.access(0, 2, ATOMIC, X + 8, 4);
    run.access(0, 1, SIGNAL, X + 16, 8);
    run.access(0, 2, WAIT, X + 16, 8);
    assert!(!run.detector.depends_on_schedule());
    // A lock with fences.
    run.detector.fence(0, 0, Scope::Device);
    run.access(0, 0, ATOMIC, FLAG, 4);
    run.access(1, 0, ATOMIC, FLAG, 4);
    assert!(!run.detector.depends_on_schedule());
    run.detector.fence(1, 0, Scope::Device);
    assert!(run.detector.depends_on_schedule());
}

#[test]
fn polling_loops_depend_on_the_schedule() {
    let mut run = Run::new();
    let release = Access {
        releases: true,
        ..STRONG_WRITE
    };
    let poll = Access {
        acquires: true,
        polls: true,
        ..STRONG_READ
    };
    run.access(1, 0, poll, FLAG, 4);
    assert!(!run.detector.depends_on_schedule());
    run.access(0, 0, release, FLAG, 4);
    run.access(1, 0, poll, FLAG, 4);
    assert!(run.detector.depends_on_schedule());
}

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
