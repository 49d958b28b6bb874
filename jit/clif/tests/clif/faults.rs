//! Traps and memory faults: the signal, and the instruction and lane of the machine instruction that raises it.

use margay_ops::meaning::Bits;
use margay_vir::interpreter::{Cause, Fault};
use margay_vir::meaning::Lanes;

use crate::native::{End, Guarded, Program, sum};
use crate::support::{Machine, interpreted, parsed};

/// Returns the place and the lane at which a function ends in the interpreter.
fn expected(text: &str, args: &[Lanes], machine: &mut Machine) -> Fault {
    interpreted(&parsed(text), args, machine).unwrap_err()
}

/// Runs a function natively, and returns the place and the lane of its signal, and the address that it accessed.
fn ended(text: &str, args: &[Lanes]) -> (u64, u32, u64) {
    let function = parsed(text);
    let native = Program::new(&function, &[sum as *const u8]);
    match native.end(args) {
        End::Signal {
            origin: Some(origin),
            address,
            ..
        } => (function.places[origin.inst], origin.lane, address),
        other => panic!("{other:?}\n{text}"),
    }
}

fn args(lanes: &[&[Bits]]) -> Vec<Lanes> {
    lanes.iter().map(|&lanes| lanes.into()).collect()
}

#[test]
fn traps_have_their_place() {
    let text = "func @f(b32) -> () {
block0(v0: b32):
  v1: b32 = const.b32{0x5}
  v2: pred = map.pred{setp.u32{cmp:gt}} v0, v1
  trap.if{3} v2  ; 8
  v3: pred = map.pred{setp.u32{cmp:eq}} v0, v1
  brif v3, block1, block2
block1:
  trap{4}  ; 9
block2:
  ret
}
";
    let function = parsed(text);
    let native = Program::new(&function, &[]);
    assert_eq!(native.end(&args(&[&[4]])), End::Returned);
    for number in [5, 6] {
        let args = args(&[&[number]]);
        let fault = expected(text, &args, &mut Machine::new(0, Vec::new()));
        let (place, lane, _) = ended(text, &args);
        assert_eq!((place, lane), (fault.place, fault.lane));
    }
}

#[test]
fn helpers_end_the_program_at_their_lane() {
    let text = "func @f(b32x8, predx8, b32) -> (b32x8, b32) {
  helper0 = @sum (b32, b32) -> (b32)
block0(v0: b32x8, v1: predx8, v2: b32):
  v5: b32x8 = splat.b32x8 v2
  v3: b32x8 = call.lanes.predx8{0} v1, v0, v5  ; 5
  v4: b32 = call{0} v2, v2  ; 6
  ret v3, v4
}
";
    let lanes: [Bits; 8] = [1, 98, 3, 4, 5, 98, 7, 98];
    for (mask, addend) in [
        ([1, 0, 1, 1, 0, 1, 1, 1], 1),
        ([1, 1, 1, 1, 1, 1, 1, 1], 1),
        ([1, 0, 1, 1, 0, 0, 1, 0], 92),
    ] {
        let args = args(&[&lanes, &mask, &[addend]]);
        let mut machine = Machine::new(0, Vec::new());
        let fault = expected(text, &args, &mut machine);
        let (place, lane, _) = ended(text, &args);
        assert_eq!((place, lane), (fault.place, fault.lane));
    }
}

/// Checks the fault of an access of four lanes of 32 bits, of which those from `first` on are beyond the memory. `merged`
/// states whether one instruction accesses all lanes, whose origin is then the lowest of them.
fn check_fault(text: &str, stride: u64, first: u32, is_merged: bool) {
    let mut guarded = Guarded::new();
    let base = guarded.bytes().as_ptr() as u64;
    let address = guarded.end() - stride * u64::from(first);
    let args = args(&[
        &[Bits::from(address)],
        &[1; 4],
        &[0, 1, 2, 3],
        &[7, 8, 9, 10],
    ]);
    let mut machine = Machine::new(base, guarded.bytes().to_vec());
    let fault = expected(text, &args, &mut machine);
    assert_eq!((fault.lane, fault.place), (first, 21));
    let Cause::Memory { address, .. } = fault.cause else {
        panic!("{fault:?}");
    };
    let (place, lane, at) = ended(text, &args);
    let lane_found = if is_merged { 0 } else { first };
    assert_eq!((place, lane), (21, lane_found), "{text}");
    assert_eq!(at, address, "{text}");
}

#[test]
fn memory_faults_have_their_place_and_lane() {
    let text = |instruction: &str| {
        format!(
            "func @f(b64, predx4, b32x4, b32x4) -> () {{
block0(v0: b64, v1: predx4, v2: b32x4, v3: b32x4):
  {instruction}  ; 21
  ret
}}
"
        )
    };
    for first in 0..4 {
        check_fault(&text("store.b32x4{b32 4} v0, v3"), 4, first, true);
        check_fault(&text("store.b32x4{b32 4} v0, v3, v1"), 4, first, true);
        check_fault(&text("store.b32x4{b32 8} v0, v3"), 8, first, false);
        check_fault(&text("scatter.b32x4{b32 4} v0, v2, v3"), 4, first, false);
        check_fault(
            &text("scatter.b32x4{b32 12} v0, v2, v3, v1"),
            12,
            first,
            false,
        );
    }
}
