//! Tests of the CTA scheduler with a runner whose threads follow a script.

use margay_ops::mods::Mods;
use margay_ops::types::OpType;

use super::*;
use crate::SyncPointData;

/// A `converge`.
const CONVERGE: SyncPoint = SyncPoint(1);
/// Another `converge`.
const OTHER: SyncPoint = SyncPoint(2);

/// What a runner was asked to run: the warp, the sync point, the lanes, and whether they were all lanes of the warp
/// ([`Runner::run_whole`]).
type Call = (u32, SyncPoint, u32, bool);

/// A runner whose lanes in `exits` exit when they run the first time, and whose other lanes stop at a `converge` and
/// then exit. The lanes in `apart` stop at another `converge` than the rest.
#[derive(Default)]
struct Script {
    exits: u32,
    apart: u32,
    /// Whether the runner runs all lanes of a warp at once.
    runs_whole: bool,
    calls: Vec<Call>,
}

impl Script {
    fn stop(&self, from: SyncPoint, mask: u32, sync_points: &mut [SyncPoint; 32]) {
        for lane in lanes(mask) {
            let is_in = |lanes: u32| lanes >> lane & 1 != 0;
            sync_points[lane as usize] = match from {
                SyncPoint::START if is_in(self.exits) => SyncPoint::EXIT,
                SyncPoint::START if is_in(self.apart) => OTHER,
                SyncPoint::START => CONVERGE,
                _ => SyncPoint::EXIT,
            };
        }
    }
}

impl Runner for Script {
    fn run(
        &mut self,
        warp: u32,
        from: SyncPoint,
        mask: u32,
        sync_points: &mut [SyncPoint; 32],
    ) -> Result<(), Fault> {
        self.calls.push((warp, from, mask, false));
        self.stop(from, mask, sync_points);
        Ok(())
    }

    fn run_whole(
        &mut self,
        warp: u32,
        from: SyncPoint,
        alive: u32,
        sync_points: &mut [SyncPoint; 32],
    ) -> Result<bool, Fault> {
        if self.runs_whole {
            self.calls.push((warp, from, alive, true));
            self.stop(from, alive, sync_points);
        }
        Ok(self.runs_whole)
    }

    fn sync_point_data(&self, _: SyncPoint) -> SyncPointData {
        let mut data = SyncPointData::exit();
        data.desc = Desc {
            opcode: Opcode::Converge,
            ty: OpType::None,
            src: OpType::None,
            mods: Mods::NONE,
        };
        data
    }

    fn operand(&self, _: u32, _: u32, _: SyncPoint, _: usize) -> Bits {
        0
    }

    fn set_result(&mut self, _: u32, _: u32, _: SyncPoint, _: usize, _: Bits) {}
}

fn calls(script: Script) -> Vec<Call> {
    let mut script = script;
    let outcome = CtaState::new(40, Order::Forward).run(&mut script);
    assert_eq!(outcome.unwrap(), CtaOutcome::Done);
    script.calls
}

#[test]
fn all_lanes_of_a_warp_that_have_not_exited_run_as_a_whole() {
    let (all, low) = (u32::MAX, 0xff);
    let whole = Script {
        exits: 0xf0,
        runs_whole: true,
        ..Script::default()
    };
    let expected = [
        (0, SyncPoint::START, all, true),
        (0, CONVERGE, all & !0xf0, true),
        (1, SyncPoint::START, low, true),
        (1, CONVERGE, 0x0f, true),
    ];
    assert_eq!(calls(whole), expected);
}

#[test]
fn a_runner_that_does_not_run_whole_warps_runs_the_same_lanes() {
    let expected = [
        (0, SyncPoint::START, u32::MAX, false),
        (0, CONVERGE, u32::MAX, false),
        (1, SyncPoint::START, 0xff, false),
        (1, CONVERGE, 0xff, false),
    ];
    assert_eq!(calls(Script::default()), expected);
}

#[test]
fn lanes_at_different_sync_points_do_not_run_as_a_whole() {
    let apart = Script {
        apart: 0xffff_0000,
        runs_whole: true,
        ..Script::default()
    };
    let expected = [
        (0, SyncPoint::START, u32::MAX, true),
        (0, CONVERGE, 0xffff, false),
        // The other lanes of the warp have exited.
        (0, OTHER, 0xffff_0000, true),
        (1, SyncPoint::START, 0xff, true),
        (1, CONVERGE, 0xff, true),
    ];
    assert_eq!(calls(apart), expected);
}
