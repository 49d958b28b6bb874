//! Tests of events other than accesses.

use margay::observe::{BarrierKind, CopyOperation, MemoryOrder, MemoryScope, SyncOperation};
use margay::{LaunchConfig, Runtime};

use super::kernels::{FIRST, module};
use super::{Collector, Other, observe_with};

/// Returns the events of thread `thread` at the lines of `body`, with lines counted from 0.
fn events_of(body: &str, thread: u32) -> Vec<(u32, Other)> {
    let tool = Collector {
        all: true,
        ..Collector::default()
    };
    let config = LaunchConfig::new(1, 64);
    let mut ran = observe_with(tool, &module(body), Runtime::builder(), config);
    let events = ran.others.remove(&(0, thread)).expect("known");
    let own = events.into_iter().filter(|(line, _)| *line >= FIRST);
    own.map(|(line, event)| (line - FIRST, event)).collect()
}

/// Returns the events that [`events_of`] returns, except [`Other::Instruction`].
fn without_instructions(body: &str, thread: u32) -> Vec<(u32, Other)> {
    let mut events = events_of(body, thread);
    events.retain(|(_, event)| !matches!(event, Other::Instruction(..)));
    events
}

#[test]
fn barriers_collectives_and_fences() {
    let events = without_instructions(
        "    bar.sync 0;
    barrier.sync 1, 64;
    bar.red.popc.u32 %a, 2, %p;
    mov.u32 %n, 3;
    bar.arrive %n, 128;
    shfl.sync.idx.b32 %a, %t, 0, 31, -1;
    vote.sync.any.pred %p, %q, 0xffffffff;
    bar.warp.sync 0xffffffff;
    membar.gl;
    fence.acq_rel.cta;",
        40,
    );
    let barrier = |number, threads, kind| {
        Other::Synchronisation(SyncOperation::Barrier {
            number,
            threads,
            kind,
        })
    };
    let collective = |name| {
        Other::Synchronisation(SyncOperation::Collective {
            name,
            members: Some(u32::MAX),
        })
    };
    let expected = [
        (0, barrier(0, None, BarrierKind::Sync)),
        (1, barrier(1, Some(64), BarrierKind::Sync)),
        (2, barrier(2, None, BarrierKind::Reduce)),
        (4, barrier(3, Some(128), BarrierKind::Arrive)),
        (5, collective("shfl")),
        (6, collective("vote")),
        (7, collective("bar.warp.sync")),
        (
            8,
            Other::Fence(MemoryOrder::SequentiallyConsistent, MemoryScope::Gpu),
        ),
        (
            9,
            Other::Fence(MemoryOrder::AcquireRelease, MemoryScope::Cta),
        ),
    ];
    assert_eq!(events, expected);
}

#[test]
fn groups_of_asynchronous_copies() {
    let events = without_instructions(
        "    mov.u32 %n, s;
    cp.async.ca.shared.global [%n], [%own], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
    cp.async.wait_all;",
        0,
    );
    let expected = [
        (2, Other::Copy(CopyOperation::Commit)),
        (3, Other::Copy(CopyOperation::Wait(1))),
        (4, Other::Copy(CopyOperation::WaitAll)),
    ];
    assert_eq!(events, expected);
}

/// Tests the events of a branch that thread 3 takes and thread 2 does not take. In thread 3, the
/// guards of some other instructions are false.
#[test]
fn instructions_and_branches() {
    let body = "    setp.gt.u32 %p, %t, 2;
    @!%p add.u32 %a, %a, 1;
    @!%p st.global.u32 [%own], %a;
    @%p bra SKIP;
    mov.u32 %b, %a;
SKIP:
    bra END;
END:";
    let named = |opcode: &str, executes: bool, index: u32| {
        Other::Instruction(opcode.into(), index, executes)
    };
    for (thread, greater) in [(2, false), (3, true)] {
        let events = events_of(body, thread);
        let first = match events[0].1 {
            Other::Instruction(_, index, _) => index,
            _ => panic!("an instruction is first"),
        };
        let mut expected = vec![
            (0, named("setp.gt.u32", true, first)),
            (1, named("add.u32", !greater, first + 1)),
            (2, named("st.global.u32", !greater, first + 2)),
            (3, named("bra", greater, first + 3)),
            (3, Other::Branch(greater)),
        ];
        if !greater {
            expected.push((4, named("mov.u32", true, first + 4)));
        }
        expected.push((6, named("bra", true, first + 5)));
        expected.push((6, Other::Branch(true)));
        expected.push((8, named("ret", true, first + 6)));
        assert_eq!(events, expected);
        // 11 instructions precede the body.
        assert_eq!(first, 11);
    }
}
