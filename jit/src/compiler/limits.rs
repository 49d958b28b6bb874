//! What is not compiled: stack operations, and functions that exceed the limits on the time of code generation. Also the
//! choice of the register allocator, which depends on the size.

use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use margay_ir::analysis::Cfg;
use margay_ir::entity::Block;
use margay_ops::ops::Opcode;

use super::{CompiledKernel, Compiler};
use crate::error::CompileError;
use crate::fallback::Fallback;
use crate::pressure;
use crate::sync_points::Completion;

/// Maximum number of instructions of a kernel whose regions are compiled as one function, summed over the regions that
/// this function contains.
pub(super) const MAX_PHASES: usize = 30_000;

/// Limits for a kernel whose regions are compiled as separate functions: the number of regions, and the number of
/// instructions that [`CompiledKernel::size_in_regions`] counts.
pub(super) const MAX_REGIONS: usize = 4_000;
const MAX_IN_REGIONS: usize = 30_000;

/// Maximum number of instructions of a kernel whose regions are compiled as one function of the joint warp form.
pub(super) const MAX_JOINT: usize = 150_000;

/// Maximum number of Cranelift instructions of a function for which the backtracking register
/// allocator is used.
const MAX_ALLOCATED: usize = 60_000;

/// Maximum value of [`CompiledKernel::stores_to_yield`] for which scalar code uses the backtracking
/// register allocator. (Vector code always uses it.) For a function of a hundred loops with twenty
/// live values each, this allocator would take minutes.
const MAX_STORES: usize = 3_000_000;

/// Further limits for the backtracking register allocator in scalar code: the number of loops (each
/// nested loop counts), the number of blocks, and the number of values that are live at the start of
/// a block, summed over all blocks.
const MAX_LOOPS: usize = 400;
const MAX_BLOCKS: usize = 6_000;
const MAX_LIVE: usize = 400_000;

/// Maximum number of values that branches pass to blocks, summed over the kernel's IR, for which
/// scalar code uses the backtracking register allocator.
const MAX_PASSED: usize = 20_000;

/// Maximum value of [`pressure::of`] for vector code. For code with a larger value, the register
/// allocator would take about four seconds or more. The largest value in the benchmarks is 1.8
/// billion.
const MAX_PRESSURE: u64 = 2_000_000_000;

/// Minimum number of Cranelift instructions of vector code for which [`pressure::of`] is computed.
/// The register allocator takes less than a second for smaller functions.
const LARGE: usize = 8_000;

/// Maximum number of calls and atomic operations of a function for which the backtracking register
/// allocator is used. These instructions need particular registers. If a value is live across such
/// instructions, the allocator compares the value with each of these instructions every time that
/// it tries a register for a part of the value's live range.
const MAX_FIXED: usize = 4_000;

/// Maximum sum of the squares of the numbers of predecessors of all blocks, for functions that use
/// the single-pass register allocator. For each branch to a block, this allocator visits all
/// branches to the block. For a function with 10,000 indirect calls, each of which may branch to
/// the same block, it would take ten seconds.
const MAX_JOINS: usize = 1_000_000_000;

/// Maximum number of Cranelift instructions of a function. Larger functions are not compiled to native code.
const MAX_FORM: usize = 1_000_000;

impl CompiledKernel {
    /// Checks that native code supports the stack operations of the function. Compiling one form of the kernel does not
    /// check this for all of its instructions: the form may end at a sync point that only the CTA scheduler can
    /// complete.
    ///
    /// # Errors
    /// Returns [`CompileError::Unsupported`] with the name of the first operation that is not supported.
    pub fn check_stack_operations(&self) -> Result<(), CompileError> {
        let cfg = Cfg::new(&self.function);
        let insts = cfg
            .rpo()
            .iter()
            .flat_map(|&block| self.function.insts(block));
        let mut opcodes = insts.map(|&inst| self.function.dfg.insts[inst].opcode);
        let unsupported = |opcode: &Opcode| {
            matches!(
                opcode,
                Opcode::Alloca | Opcode::StackSave | Opcode::StackRestore
            )
        };
        match opcodes.find(unsupported) {
            Some(opcode) => Err(CompileError::Unsupported(opcode.name().to_owned())),
            None => Ok(()),
        }
    }

    /// Counts the instructions of all regions that the CTA form contains. An instruction in several
    /// regions counts once for each region. Stops counting when the sum exceeds `most`.
    pub(super) fn size_in_regions(&self, most: usize) -> usize {
        let mut size = 0;
        for (index, resume_point) in self.regions.resume_points.iter().enumerate() {
            if self.sync_points.completion(index) == Completion::General {
                continue;
            }
            let blocks = self.regions.blocks_of(&self.function, resume_point.block);
            let insts = |block: Block| self.function.insts(block).len();
            size += blocks.into_iter().map(insts).sum::<usize>();
            if size > most {
                break;
            }
        }
        size
    }

    /// Checks that each region can be compiled as a separate function in a reasonable time. The check limits the number
    /// of regions and the number of instructions that [`CompiledKernel::size_in_regions`] counts.
    ///
    /// # Errors
    /// Returns [`CompileError::Budget`] if compiling the regions would take too long. The joint form then contains
    /// them ([`CompiledKernel::joint`]).
    pub fn check_regions(&self, compiler: &Compiler) -> Result<(), CompileError> {
        let resume_points = self.regions.resume_points.len();
        if compiler.joint
            || resume_points > MAX_REGIONS
            || self.size_in_regions(MAX_IN_REGIONS) > MAX_IN_REGIONS
        {
            return Err(CompileError::Budget(format!(
                "more than {MAX_REGIONS} synchronisation points, or {MAX_IN_REGIONS} instructions after them"
            )));
        }
        Ok(())
    }

    /// Returns the product of two numbers: the number of instructions of the function, and an estimate of the number of
    /// store instructions in the code for lanes that yield. The estimate is the sum, over the sync points that only the
    /// CTA scheduler can complete (such as `yield`), of the number of values that are live after the sync point.
    pub(super) fn stores_to_yield(&self) -> usize {
        let resume_points = self.regions.resume_points.iter().enumerate();
        let yields = |index| self.sync_points.completion(index) == Completion::General;
        let stores = resume_points.filter(|&(index, _)| yields(index));
        let stores: usize = stores
            .map(|(_, resume_point)| resume_point.live_in.len())
            .sum();
        let blocks = self.function.blocks().iter();
        stores
            * blocks
                .map(|&block| self.function.insts(block).len())
                .sum::<usize>()
    }
}

impl Compiler {
    pub(super) fn isa(
        &self,
        sliced: bool,
        kernel: &CompiledKernel,
        function: &ir::Function,
    ) -> &dyn TargetIsa {
        let many = !sliced
            && (kernel.stores_to_yield() > MAX_STORES
                || kernel.shape.loops > MAX_LOOPS
                || kernel.shape.live > MAX_LIVE
                || kernel.shape.passed > MAX_PASSED
                || function.dfg.num_blocks() > MAX_BLOCKS);
        if many || function.dfg.num_insts() > MAX_ALLOCATED || pressure::fixed(function) > MAX_FIXED
        {
            kernel.fallbacks.note(Fallback::QuickRegisters);
            &*self.large
        } else if sliced {
            &*self.plain
        } else {
            &*self.isa
        }
    }

    /// Checks that Cranelift compiles a function in a reasonable time, and returns the code generator to use. `sliced` is
    /// true for vector code.
    pub(super) fn isa_within_limits(
        &self,
        sliced: bool,
        kernel: &CompiledKernel,
        function: &ir::Function,
    ) -> Result<&dyn TargetIsa, CompileError> {
        let insts = function.dfg.num_insts();
        if sliced
            && (insts > MAX_ALLOCATED
                || pressure::fixed(function) > MAX_FIXED
                || insts >= LARGE && pressure::of(function) > MAX_PRESSURE)
        {
            // The single-pass register allocator would give every vector its own stack slot, so the stack frame would
            // have megabytes.
            return Err(CompileError::Budget("vector code".into()));
        }
        if insts > MAX_FORM {
            return Err(CompileError::Budget(format!(
                "more than {MAX_FORM} instructions of the code generator"
            )));
        }
        let isa = self.isa(sliced, kernel, function);
        if std::ptr::eq(isa, &*self.large) && pressure::joins(function) > MAX_JOINS {
            return Err(CompileError::Budget(format!(
                "more than {MAX_JOINS} pairs of branches to one block"
            )));
        }
        Ok(isa)
    }
}
