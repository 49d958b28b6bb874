//! Locks, and the order of updates of one location.

use super::*;

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
