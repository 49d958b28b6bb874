//! Messages between threads: flags, counters and the fences and releases beside them.

use super::*;

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
