//! Tests of the race detector. Each test makes the calls that an engine makes for a small program.

mod bounds;
mod bulk;
mod chunks;
mod edges;
mod fences;
mod locks;

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
