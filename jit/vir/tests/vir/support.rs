//! Runs programs in their text form on a small memory.

use margay_ops::meaning::{Bits, mask};
use margay_ops::types::Type;
use margay_vir::function::Function;
use margay_vir::interpreter::{Environment, Fault, run};
use margay_vir::meaning::Lanes;
use margay_vir::{parse, verify};

/// The address of the first byte of memory.
pub(crate) const BASE: u64 = 0x1000;

/// Memory of a few bytes from [`BASE`] on, and a helper that returns the sum of its operands, counts its
/// calls and increments each byte from byte 384 on. A sum
/// of 99 ends the program.
pub(crate) struct Machine {
    pub(crate) bytes: Vec<u8>,
    pub(crate) calls: u32,
}

impl Machine {
    pub(crate) fn new(bytes: Vec<u8>) -> Machine {
        Machine { bytes, calls: 0 }
    }

    fn part(&mut self, address: u64, bytes: u32) -> Option<&mut [u8]> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        self.bytes.get_mut(start..)?.get_mut(..bytes as usize)
    }
}

impl Environment for Machine {
    fn load(&mut self, address: u64, bytes: u32) -> Option<Bits> {
        let part = self.part(address, bytes)?;
        Some(
            part.iter()
                .rev()
                .fold(0, |bits, &byte| bits << 8 | Bits::from(byte)),
        )
    }

    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Option<()> {
        let part = self.part(address, bytes)?;
        part.copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        Some(())
    }

    fn slot(&mut self, slot: usize) -> u64 {
        BASE + 64 * slot as u64
    }

    fn call(&mut self, _: usize, args: &[Bits], results: &mut [Bits]) -> Option<()> {
        self.calls += 1;
        for byte in self.bytes.iter_mut().skip(384) {
            *byte = byte.wrapping_add(1);
        }
        let sum: Bits = args.iter().sum();
        results.fill(sum);
        (sum != 99).then_some(())
    }
}

/// Parses a function, which must be valid.
pub(crate) fn parsed(text: &str) -> Function {
    let function = parse::function(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let problems = verify::function(&function);
    assert!(problems.is_empty(), "{problems:?}\n{text}");
    function
}

/// Runs a program.
pub(crate) fn result(
    text: &str,
    args: &[&[Bits]],
    machine: &mut Machine,
) -> Result<Vec<Lanes>, Fault> {
    let args: Vec<Lanes> = args.iter().map(|&lanes| lanes.into()).collect();
    run(&parsed(text), &args, machine, 1000)
}

/// What a function leaves behind: its results or the fault that ended it, the contents of memory, and the number of calls.
pub(crate) type Outcome = (Result<Vec<Lanes>, Fault>, Vec<u8>, u32);

/// Runs a function with random arguments. The scalar of type `b64` is an address in memory.
pub(crate) fn outcome(function: &Function, seed: u32) -> Outcome {
    let random = |n: usize| {
        Bits::from(seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_right(7 * n as u32)
    };
    let params = function.signature.params.iter().enumerate();
    let args: Vec<Lanes> = params
        .map(|(p, ty)| {
            let lane = |n: usize| match *ty == Type::B64 {
                true => Bits::from(BASE + 400),
                false => random(n + 64 * p) & mask(ty.lane_bits()),
            };
            (0..ty.lanes() as usize).map(lane).collect()
        })
        .collect();
    let mut machine = Machine::new((0..1024).map(|n| n as u8).collect());
    let results = run(function, &args, &mut machine, 5_000);
    (results, machine.bytes, machine.calls)
}
