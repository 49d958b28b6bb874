//! Tests of the missing operations that races name.

use super::super::*;
use super::{ATOMIC, FLAG, Run, STRONG_READ, STRONG_WRITE, X};

/// Two launches that overlap in time have clusters with the same index.
#[test]
fn a_release_to_a_cluster_does_not_reach_a_cluster_of_another_launch() {
    let strong = |access: Access| Access {
        strong: Some(Scope::Cluster),
        ..access
    };
    for (launch, missing) in [(0, &[][..]), (1, &[Missing::Scope][..])] {
        let mut run = Run {
            detector: Detector::default(),
            races: Vec::new(),
        };
        run.detector.add_cta(0, 0, 0, 64);
        run.detector.add_cta(launch, 1, 0, 64);
        run.detector.add_overlaps(1, &[0]);
        run.write(0, 0);
        run.detector.fence(0, 0, Scope::Cluster);
        run.access(0, 0, strong(Access::WRITE), FLAG, 4);
        run.access(1, 0, strong(Access::READ), FLAG, 4);
        run.detector.fence(1, 0, Scope::Cluster);
        run.races.clear();
        run.read(1, 0);
        assert_eq!(run.missing(), missing, "{launch}");
    }
}

/// A thread increments a counter, and another thread reads it with a weak read after it has also incremented the
/// counter. No fence orders these accesses, but a barrier would. If the first thread then sets a flag that the other
/// thread reads, fences at the flag would order the accesses.
#[test]
fn a_fence_does_not_order_a_read_beside_atomics_of_the_same_word() {
    let missing = |(cta, thread): (CtaId, u32), flag: bool| {
        let mut run = Run::new();
        run.access(0, 0, ATOMIC, X, 4);
        if flag {
            run.access(0, 0, STRONG_WRITE, FLAG, 4);
        }
        run.access(cta, thread, ATOMIC, X, 4);
        if flag {
            run.access(cta, thread, STRONG_READ, FLAG, 4);
        }
        run.read(cta, thread);
        run.missing()
    };
    assert_eq!(missing((1, 0), false), [Missing::GridOrder]);
    assert_eq!(missing((0, 40), false), [Missing::Barrier]);
    assert_eq!(missing((0, 1), false), [Missing::WarpBarrier]);
    assert_eq!(missing((1, 0), true), [Missing::Fence]);
    assert_eq!(missing((0, 40), true), [Missing::Fence]);
    assert_eq!(missing((0, 1), true), [Missing::WarpBarrier]);
}
