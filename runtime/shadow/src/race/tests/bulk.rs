//! Bulk copies: mbarriers, groups, and fences between the proxies.

use super::*;

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
