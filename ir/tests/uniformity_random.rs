//! Compares the uniformity analysis with executions of random programs. The tests check that a value which the analysis
//! classifies as equal for several threads is equal in these threads.
//!
//! For each instance of an instruction, the tests compare the values of all lanes, warps and CTAs that execute it.

mod random_programs;

use std::collections::BTreeMap;

use margay_ir::analysis::uniformity::{Assumptions, Class, Uniformity};
use margay_ir::entity::Entity;
use margay_ops::meaning::Bits;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::Type;
use random_programs::{Event, Inputs, Instance, program, run};

const PROGRAMS: u32 = 300;
const WARPS: u32 = 2;
const CTAS: u32 = 2;

/// The registers that the programs read.
const REGISTERS: [SpecialReg; 5] = [
    SpecialReg::TidX,
    SpecialReg::CtaidX,
    SpecialReg::NtidX,
    SpecialReg::Warpid,
    SpecialReg::Laneid,
];

/// A thread: CTA, warp, lane.
#[derive(Clone, Copy)]
struct Thread {
    cta: u32,
    warp: u32,
    lane: u32,
}

impl Inputs for Thread {
    fn register(&self, register: SpecialReg) -> u64 {
        u64::from(match register {
            SpecialReg::TidX => self.warp * 32 + self.lane,
            SpecialReg::CtaidX => self.cta,
            SpecialReg::NtidX => WARPS * 32,
            SpecialReg::Warpid => self.warp,
            SpecialReg::Laneid => self.lane,
            _ => panic!("{} is not generated", register.name()),
        })
    }

    fn parameter(&self) -> u32 {
        0
    }
}

/// The expected values. For each instance, and each group of threads in which the value must be equal or affine, the
/// map contains the value of lane 0, which is computed from the first value that the test has seen.
#[derive(Default)]
struct Bases(BTreeMap<(u32, u32, Instance), Bits>);

impl Bases {
    fn check(&mut self, class: Class, ty: Type, thread: Thread, instance: Instance, bits: Bits) {
        let lane = i128::from(thread.lane);
        let width = margay_ops::meaning::mask(ty.lane_bits());
        let (group, stride) = match class {
            Class::Launch => ((0, 0), 0),
            Class::Cta => ((thread.cta, 0), 0),
            Class::Warp => ((thread.cta, thread.warp), 0),
            Class::Affine(stride) => ((thread.cta, thread.warp), i128::from(stride)),
            Class::Varying => return,
        };
        let base = (bits as i128).wrapping_sub(stride * lane) as Bits & width;
        let key = (group.0, group.1, instance.clone());
        let known = *self.0.entry(key).or_insert(base);
        assert_eq!(known, base, "{instance:?} is {class} but differs");
    }
}

#[test]
fn shared_values_are_shared_in_every_execution() {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 1..=PROGRAMS {
        let program = program(seed * 7919, &REGISTERS, false);
        let function = &program.function;
        let uniformity = Uniformity::new(function, Assumptions::of_block([WARPS * 32, 1, 1]));
        for value in function.dfg.values.keys() {
            let name = match uniformity.class(value) {
                Class::Launch => "launch",
                Class::Cta => "cta",
                Class::Warp => "warp",
                Class::Affine(_) => "affine",
                Class::Varying => "varying",
            };
            *counts.entry(name).or_default() += 1;
        }
        let mut bases = Bases::default();
        for number in 0..CTAS * WARPS * 32 {
            let thread = Thread {
                cta: number / (WARPS * 32),
                warp: number / 32 % WARPS,
                lane: number % 32,
            };
            run(&program, &thread, |event, values| {
                if let Event::Value(instance) = event {
                    let bits = values[instance.0.index()];
                    let class = uniformity.class(instance.0);
                    let ty = function.dfg.ty(instance.0);
                    bases.check(class, ty, thread, instance, bits);
                }
            });
        }
    }
    // The test also requires a minimum number of values of each class, so that an analysis which classifies all values
    // as varying fails.
    for name in ["launch", "cta", "warp", "affine"] {
        assert!(counts[name] > 200, "{counts:?}");
    }
}
