//! Accesses whose mask is a constant with few lanes.

use margay_ops::meaning::Bits;
use margay_ops::types::OpType;
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;
use smallvec::smallvec;

use crate::faults::TYPES;
use crate::native::{Guarded, Loaded, Memory, check, parsed, targets};
use crate::operations::Random;

const MASKS: [u64; 8] = [0, 1, 0x8000, 0x8000_0000, 0x8001, 0xf, 0x4002_0110, 0x1f];

/// A function that loads the lanes of a mask, and stores lanes of its argument there if they are in the mask.
fn exchange((memory, value): (&str, &str), stride: i64, mask: u64) -> Function {
    parsed(&format!(
        "func @exchange(b64, {value}x32) -> ({value}x32) {{
block0(v0: b64, v1: {value}x32):
  v2: b64 = const.b64{{{mask:#x}}}
  v3: predx32 = mask.predx32 v2
  v4: {value}x32 = load.{value}x32{{{memory} {stride} +8}} v0, v3
  store.{value}x32{{{memory} {stride} +8}} v0, v1, v3
  ret v4
}}
"
    ))
}

#[test]
fn results_and_memory_are_those_of_the_interpreter() {
    let mut random = Random(3);
    for types in TYPES {
        for stride in [0, 1, 3, 72, -12] {
            for mask in MASKS {
                let function = exchange(types, stride, mask);
                let mut memory = Memory::new((0..4096).map(|_| random.next() as u8).collect());
                let mut args = random.operands(&function);
                args[0] = smallvec![Bits::from(memory.address() + 1024)];
                check(&function, &args, &mut memory);
            }
        }
    }
}

#[test]
fn other_lanes_do_not_access_memory() {
    let mut random = Random(4);
    for types in TYPES {
        let bytes = OpType::from_name(types.0).expect("a type").bits() / 8;
        for lane in [0, 5, 31] {
            for stride in [0, 1, 640, -640] {
                let function = exchange(types, stride, 1 << lane);
                let guarded = Guarded::new();
                // The lane's element ends where the accessible memory ends.
                let element = guarded.end() - u64::from(bytes);
                let address = element.wrapping_sub(8).wrapping_add_signed(-lane * stride);
                for (_, target) in targets() {
                    let mut args: Vec<Lanes> = random.operands(&function);
                    args[0] = smallvec![Bits::from(address)];
                    let stored = args[1].clone();
                    let loaded = Loaded::new(&function, &target);
                    loaded.run(&function.signature, &args);
                    let results = loaded.run(&function.signature, &args);
                    let mask = margay_ops::meaning::mask(8 * bytes);
                    let found = results[0][lane as usize] & mask;
                    assert_eq!(found, stored[lane as usize] & mask, "{types:?} {stride}");
                }
            }
        }
    }
}
