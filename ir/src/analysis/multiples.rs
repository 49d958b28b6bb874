//! Powers of two of which values are multiples, provided that pointer parameters are aligned.
//!
//! A kernel whose threads access elements of 4 bytes of an array usually gets a pointer that is a multiple of 4. If a
//! launch has tested this, the code need not test the address of each access. The analysis has two steps. The first step
//! finds the alignment of each pointer parameter ([`Multiples::of_param`]): the size of the largest scalar access whose
//! address is computed from the parameter. The second step follows the low bits of values from the parameters through
//! operations and block parameters, so that it also covers pointers that loops advance.
//!
//! Accesses of vectors do not contribute to the alignment of a parameter, because kernels often test the pointer
//! themselves and have scalar code for other pointers.

use rustc_hash::FxHashMap;

use super::alignment::{LowPart, low_part};
use super::pointers::loaded_params;
use super::{Cfg, Pointers};
use crate::entity::{Inst, SecondaryMap, SymbolId, Value};
use crate::function::{Function, ValueDef};
use margay_ops::ops::Opcode;

/// The number of low bits that the analysis follows. It covers the largest access, which has 32 bytes.
const BITS: u8 = 5;
/// The largest alignment that the analysis assumes of a parameter, in bits.
const PARAM_BITS: u8 = 3;
/// The maximum number of times that the analysis visits the blocks. If it would need more, it finds nothing.
const MOST_ROUNDS: usize = 16;

/// The result of the analysis.
#[derive(Clone, Debug, Default)]
pub struct Multiples {
    /// The number of low bits of each value that are zero.
    zeros: SecondaryMap<Value, u8>,
    /// The alignment of the pointer parameters in bits, by offset.
    params: FxHashMap<u32, u8>,
}

impl Multiples {
    /// Performs the analysis. It only assumes the alignment of [`Pointers::params`].
    pub fn new(function: &Function, pointers: &Pointers) -> Multiples {
        if pointers.params().is_empty() {
            return Multiples::default();
        }
        let cfg = Cfg::new(function);
        let loaded: FxHashMap<Value, u32> = loaded_params(function)
            .into_iter()
            .map(|(value, (offset, _))| (value, offset))
            .filter(|(_, offset)| pointers.params().contains(offset))
            .collect();
        let params = demanded(function, &cfg, &loaded);
        let zeros = zeros(function, &cfg, &|value| {
            loaded
                .get(&value)
                .and_then(|offset| params.get(offset))
                .copied()
        });
        Multiples {
            zeros: zeros.unwrap_or_default(),
            params,
        }
    }

    /// Returns whether a value is a multiple of `bytes`, which is a power of two of at most 32, in launches whose pointer
    /// parameters are multiples of [`Multiples::of_param`].
    pub fn is_multiple(&self, value: Value, bytes: u32) -> bool {
        u32::from(self.zeros[value]) >= bytes.trailing_zeros()
    }

    /// Returns the alignment in bytes that the analysis assumes of the pointer parameter at an offset.
    pub fn of_param(&self, offset: u32) -> u32 {
        1 << self.params.get(&offset).copied().unwrap_or(0)
    }
}

/// Returns how the low bits of the result of an operation depend on its operands. The alignment of variables counts as
/// unknown.
fn part(function: &Function, def: Inst) -> LowPart {
    low_part(function, def, &|_: SymbolId| None)
}

/// Returns the alignment in bits that scalar accesses demand of the pointers in `loaded`, by the offset of the parameter.
fn demanded(function: &Function, cfg: &Cfg, loaded: &FxHashMap<Value, u32>) -> FxHashMap<u32, u8> {
    let dfg = &function.dfg;
    let mut work: Vec<(Value, u8)> = Vec::new();
    for &inst in cfg.rpo().iter().flat_map(|&block| function.insts(block)) {
        let data = &dfg.insts[inst];
        let accesses = matches!(
            data.opcode,
            Opcode::Ld | Opcode::St | Opcode::Atom | Opcode::Red
        );
        let bytes = data.ty.bits().div_ceil(8);
        if accesses && data.mods.vec() <= 1 && bytes.is_power_of_two() && bytes <= 1 << PARAM_BITS {
            work.push((dfg.args(inst)[0], bytes.trailing_zeros() as u8));
        }
    }
    let mut demanded: SecondaryMap<Value, u8> = SecondaryMap::default();
    let mut params: FxHashMap<u32, u8> = FxHashMap::default();
    while let Some((value, bits)) = work.pop() {
        if demanded[value] >= bits {
            continue;
        }
        demanded[value] = bits;
        if let Some(&offset) = loaded.get(&value) {
            let known = params.entry(offset).or_default();
            *known = bits.max(*known);
            continue;
        }
        match dfg.values[value].def {
            ValueDef::Param(block, index) => {
                let incoming = cfg.incoming(function, block);
                let passed = incoming.filter_map(|(_, call)| call.args.get(usize::from(index)));
                work.extend(passed.map(|&value| (value, bits)));
            }
            ValueDef::Result(inst, _) => {
                let args = dfg.args(inst);
                let from = match part(function, inst) {
                    LowPart::Same | LowPart::Less => &args[..1],
                    LowPart::Sum => args,
                    LowPart::Fused => &args[2..],
                    _ => &[],
                };
                work.extend(from.iter().map(|&value| (value, bits)));
            }
            _ => {}
        }
    }
    params
}

/// Returns the number of low bits of each value that are zero, at most [`BITS`]. `given` returns this number for the
/// values that are assumed to be aligned. Returns `None` if the analysis would take too long.
fn zeros(
    function: &Function,
    cfg: &Cfg,
    given: &dyn Fn(Value) -> Option<u8>,
) -> Option<SecondaryMap<Value, u8>> {
    let dfg = &function.dfg;
    let mut zeros: SecondaryMap<Value, u8> = SecondaryMap::default();
    // The largest solution: all bits of block parameters are zero until a branch passes another value.
    for &block in cfg.rpo().iter().filter(|&&block| block != function.entry()) {
        for &param in &dfg.blocks[block].params {
            zeros[param] = BITS;
        }
    }
    for _ in 0..MOST_ROUNDS {
        let mut changed = false;
        for &block in cfg.rpo() {
            for &inst in function.insts(block) {
                if let &[result] = dfg.results(inst) {
                    zeros[result] =
                        given(result).unwrap_or_else(|| of_result(function, inst, &zeros));
                }
            }
            for call in function.successors(block) {
                let params = &dfg.blocks[call.block].params;
                for (&param, &arg) in params.iter().zip(&call.args) {
                    if zeros[arg] < zeros[param] {
                        zeros[param] = zeros[arg];
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            return Some(zeros);
        }
    }
    None
}

/// Returns the number of low bits of an operation's result that are zero if those of its operands are `zeros`.
fn of_result(function: &Function, inst: Inst, zeros: &SecondaryMap<Value, u8>) -> u8 {
    let dfg = &function.dfg;
    if let Some(bits) = dfg.results(inst).first().and_then(|&v| dfg.constant(v)) {
        return BITS.min(bits.trailing_zeros() as u8);
    }
    let args = dfg.args(inst);
    let of = |index: usize| zeros[args[index]];
    let all = match part(function, inst) {
        LowPart::Same => of(0),
        LowPart::Sum | LowPart::Less => of(0).min(of(1)),
        LowPart::Product => of(0) + of(1),
        LowPart::Fused => (of(0) + of(1)).min(of(2)),
        LowPart::Shifted => {
            let by = dfg.constant(args[1]).unwrap_or(0);
            of(0) + by.min(u64::from(BITS)) as u8
        }
        LowPart::Masked => of(0).max(of(1)),
        LowPart::Known(zeros) => zeros.min(u32::from(BITS)) as u8,
        LowPart::Unknown => 0,
    };
    all.min(BITS)
}
