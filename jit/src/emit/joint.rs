//! The joint warp form: one native function with the code of all regions of a kernel.
//!
//! The warp form has a native function for each region. If most of a kernel's code can follow each of many sync points,
//! these functions contain this code many times. The joint form contains it once, and can begin at every resume point.
//! It reads the number of the resume point from [`crate::abi::NativeContext::phase`].
//!
//! Lanes enter the code in many places, so a value that is live at a resume point stays in the frame: the code stores
//! the value where it is computed and loads it in each block that uses it. All other values stay in registers.
//! Invariant: if a value is not live at any resume point, its definition dominates its uses, also with the additional
//! entries. (On a path from an entry to a use that bypasses the definition, the value would be live at the entry.)

use std::mem::offset_of;

use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use margay_ir::entity::{Block, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clif_type;
use super::lane::{EmitError, Lane, host};
use crate::abi::NativeContext;

/// The values of joint code that stay in the frame.
pub(crate) struct InFrame {
    values: FxHashSet<Value>,
    /// For elements of 1, 2, 4, 8 and 16 bytes, the address of the frame plus the offset of the lane's element in an
    /// array.
    bases: [ir::Value; 5],
    /// The values that the block being emitted has loaded or computed so far.
    loaded: FxHashMap<Value, ir::Value>,
}

impl Lane<'_, '_> {
    /// Emits the code of all regions. The emitted code begins in the current block of the builder, and jumps to the
    /// resume point whose number the context contains.
    pub(crate) fn emit_all(&mut self) -> Result<(), EmitError> {
        let (Some(regions), Some(frame)) = (self.regions, self.here.frame) else {
            return Err(EmitError::Unsupported("a frame".into()));
        };
        let lane = self.here.lane;
        let bases = [0, 1, 2, 3, 4].map(|shift| {
            let offset = self.b.ins().ishl_imm_u(lane, shift);
            self.b.ins().iadd(frame, offset)
        });
        let live = regions.resume_points.iter();
        let live = live.flat_map(|resume_point| resume_point.live_in.iter().copied());
        self.in_frame = Some(InFrame {
            values: live.collect(),
            bases,
            loaded: FxHashMap::default(),
        });
        self.rematerialise_in_blocks(regions);
        let entries = regions.resume_points.iter();
        let entries: Vec<(Block, ir::Block)> = entries
            .map(|resume_point| (resume_point.block, self.b.create_block()))
            .collect();
        let blocks: Vec<ir::Block> = entries.iter().map(|&(_, entry)| entry).collect();
        self.enter_at(&blocks);
        for (block, entry) in entries {
            self.b.switch_to_block(entry);
            let params = self.function.dfg.blocks[block].params.to_vec();
            let args: Vec<BlockArg> = params
                .into_iter()
                .map(|param| BlockArg::Value(self.stored_or_zero(param)))
                .collect();
            let target = self.block(block);
            self.b.ins().jump(target, &args);
        }
        self.emit_queued()
    }

    /// Emits a jump to the block of `entries` whose index is the number of the resume point in the context.
    fn enter_at(&mut self, entries: &[ir::Block]) {
        let phase = offset_of!(NativeContext, phase) as i32;
        let from = self.b.ins().load(types::I32, host(), self.fixed.ctx, phase);
        let calls: Vec<ir::BlockCall> = entries
            .iter()
            .map(|&entry| {
                let pool = &mut self.b.func.dfg.value_lists;
                ir::BlockCall::new(entry, std::iter::empty::<BlockArg>(), pool)
            })
            .collect();
        let table = self
            .b
            .create_jump_table(ir::JumpTableData::new(calls[0], &calls));
        self.b.ins().br_table(from, table);
    }

    /// Loads a value that is live at a resume point. For other values, whose bits nothing uses, returns zero.
    fn stored_or_zero(&mut self, value: Value) -> ir::Value {
        if self.keeps_in_frame(value)
            && let Some(bits) = self.load_stored(value)
        {
            return bits;
        }
        match clif_type(self.function.dfg.ty(value)) {
            types::F32 => self.b.ins().f32const(0.0),
            types::F64 => self.b.ins().f64const(0.0),
            types::I128 => {
                let half = self.b.ins().iconst(types::I64, 0);
                self.b.ins().iconcat(half, half)
            }
            ty => self.b.ins().iconst(ty, 0),
        }
    }

    /// Returns whether a value stays in the frame.
    pub(crate) fn keeps_in_frame(&self, value: Value) -> bool {
        let in_frame = self.in_frame.as_ref();
        in_frame.is_some_and(|in_frame| in_frame.values.contains(&value))
    }

    /// Returns the address of the lane's element in an array of elements of `bytes` bytes at offset 0 of the frame, if
    /// the code has computed it.
    pub(crate) fn lane_base(&self, bytes: u32) -> Option<ir::Value> {
        let in_frame = self.in_frame.as_ref()?;
        in_frame.bases.get(bytes.trailing_zeros() as usize).copied()
    }

    /// Emits loads of the values in the frame that `block` uses and does not define.
    ///
    /// The loads are at the start of the block, because code that [`Lane::get`] emits can be in a side path that does
    /// not dominate the rest of the block.
    pub(crate) fn load_for_block(&mut self, block: Block) {
        let Some(in_frame) = &mut self.in_frame else {
            return;
        };
        in_frame.loaded.clear();
        let (function, dfg) = (self.function, &self.function.dfg);
        let mut used = Vec::new();
        for &inst in function.insts(block) {
            used.extend_from_slice(dfg.args(inst));
            let calls = dfg.targets(inst).iter();
            used.extend(calls.flat_map(|call| call.args.iter().copied()));
        }
        used.retain(|value| in_frame.values.contains(value));
        used.sort_unstable();
        used.dedup();
        let params = &dfg.blocks[block].params;
        for value in used {
            let home = dfg.def_inst(value).and_then(|inst| self.homes[inst]);
            if home != Some(block)
                && !params.contains(&value)
                && let Some(bits) = self.load_stored(value)
            {
                self.note_loaded(value, bits);
            }
        }
    }

    /// Returns the bits of a value in the frame at the current position of the emitted code.
    pub(crate) fn get_from_frame(&mut self, value: Value) -> Option<ir::Value> {
        let in_frame = self.in_frame.as_ref()?;
        match in_frame.loaded.get(&value) {
            Some(&bits) => Some(bits),
            None => self.load_stored(value),
        }
    }

    /// Emits the store of a value in the frame where the value is computed.
    pub(crate) fn set_in_frame(&mut self, value: Value, bits: ir::Value) {
        if let Some((address, offset)) = self.stored_at(value) {
            self.b.ins().store(host(), bits, address, offset);
        }
        self.note_loaded(value, bits);
    }

    fn note_loaded(&mut self, value: Value, bits: ir::Value) {
        if let Some(in_frame) = &mut self.in_frame {
            in_frame.loaded.insert(value, bits);
        }
    }
}
