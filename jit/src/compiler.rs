//! The compiler: it translates IR functions to native functions.

mod groups;
mod whole_warps;
mod wide;
mod wide_helpers;

pub use wide::Wide;

use std::hash::Hash;
use std::sync::OnceLock;
use std::time::Duration;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use margay_exec::{SyncPoint, SyncPointData};
use margay_ir::analysis::skipping::skipped_barriers;
use margay_ir::analysis::{
    Cfg, Dominators, Linear, Pointers, Regions, SpeculativeAffine, Uniformity, slots,
};
use margay_ir::entity::{Block, FuncId, Inst, SecondaryMap, SigId, Slot, SymbolId};
use margay_ir::function::{Function, SourceLoc, payload_func};
use margay_ir::module::Module;
use margay_ir::pass;
use margay_ir::pass::inline::Inlining;
use margay_ir::pass::instrument::Request;
use margay_ops::ops::Opcode;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::addresses::{self, DescTable, Site};
use crate::budget::Shape;
use crate::cache::{Digest, Digester, DiskCache, Source, digest_of, hash_machine};
use crate::code_memory::CodeMemory;
use crate::counters::Counters;
use crate::emit::lane::LaneParts;
use crate::emit::slice::View;
use crate::emit::{EmitError, cta_form, device, phases, warp_form};
use crate::error::CompileError;
use crate::fallback::{Fallback, Fallbacks};
use crate::function::{CompiledFunction, PLACE_INST, PLACE_LANE};
use crate::prepared::PreparedFunction;
use crate::pressure;
use crate::signatures::called_signatures;
use crate::slices::{self, Widths};
use crate::specialisation::{PerSpecialisation, Specialisation};
use crate::sync_points::{Completion, SyncPointTable};
use crate::variables::{NamedVariable, named_variables};
use crate::verifiers::Verifiers;

/// Identifies one native function of a kernel. A form is part of the function's cache key. Its fields must therefore
/// contain everything that the code depends on, except the kernel and the compiler, which the key contains separately.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Form {
    /// The warp form of the region with this index.
    Region(u32),
    /// The joint warp form: all regions in one function.
    Joint,
    /// The CTA form of a kernel without sync points: specialisation, and lanes per chunk.
    Cta(Specialisation, u32),
    /// The CTA form of a kernel with sync points: specialisation, and lanes per chunk.
    Phases(Specialisation, u32),
    /// A device function.
    Device,
}

/// A kernel that is ready to compile: its regions have been computed. Each native function of the kernel is compiled at
/// its first use.
#[derive(Debug)]
pub struct CompiledKernel {
    /// The prepared function.
    pub function: Function,
    /// The function's regions and the layout of its frame.
    pub regions: Regions,
    /// Number of bytes of local memory that the kernel's own slots need.
    pub local_bytes: u32,
    slots: SecondaryMap<Slot, u32>,
    /// The module variables to which the function refers.
    symbols: FxHashMap<SymbolId, NamedVariable>,
    /// IDs of the signatures of the function's calls through handles.
    signatures: FxHashMap<SigId, u64>,
    pointers: Pointers,
    /// Whether calls were kept because the function would have become too large.
    calls_kept: bool,
    /// The reasons why slower code than usual is generated for parts of the kernel.
    pub fallbacks: Fallbacks,
    /// The checks and events that checking runs and tools request.
    request: Request,
    counters: Counters,
    /// The measures of the function's size to which the limits on compile time apply.
    shape: Shape,
    /// The block of each instruction of the function.
    homes: SecondaryMap<Inst, Option<Block>>,
    pub(crate) sync_points: SyncPointTable,
    /// The barriers that a thread can bypass although it later executes the code after the barrier; computed at the
    /// first use.
    skipped: OnceLock<FxHashSet<Inst>>,
    /// Digest of the kernel ([`CompiledKernel::digest`]), which is part of the cache keys of the kernel's code.
    pub(crate) content: OnceLock<Digest>,
    /// Chunk widths, and whether the wide back end has chosen them; computed when a compiler first needs them. A kernel must
    /// therefore be used with only one compiler.
    widths: OnceLock<(Widths, bool)>,
    warp: Vec<OnceLock<Result<CompiledFunction, CompileError>>>,
    joint: OnceLock<Result<CompiledFunction, CompileError>>,
    phases: PerSpecialisation<Result<CompiledFunction, CompileError>>,
    cta: PerSpecialisation<Result<CompiledFunction, CompileError>>,
}

/// The results of the analyses that vector code needs, and the chunk width.
struct Sides {
    uniformity: Uniformity,
    linear: Linear,
    speculative: SpeculativeAffine,
    converged: Vec<bool>,
    width: u32,
}

impl Sides {
    fn new(
        function: &Function,
        regions: &Regions,
        specialisation: Specialisation,
        width: u32,
    ) -> Sides {
        let cfg = Cfg::new(function);
        let dominators = Dominators::new(&cfg);
        let uniformity = Uniformity::new(function, specialisation.assumptions(width));
        Sides {
            speculative: SpeculativeAffine::new(function, &uniformity, &cfg),
            linear: Linear::new(function, &cfg, width == 32),
            converged: regions
                .resume_points
                .iter()
                .map(|resume_point| uniformity.is_converged(&cfg, &dominators, resume_point.block))
                .collect(),
            uniformity,
            width,
        }
    }

    fn view(&self) -> View<'_> {
        View {
            uniformity: &self.uniformity,
            linear: &self.linear,
            speculative: &self.speculative,
            converged: &self.converged,
            width: self.width,
        }
    }
}

impl CompiledKernel {
    /// Prepares a kernel of a module, or a single function for [`CompiledKernel::device`].
    ///
    /// # Errors
    /// Returns [`CompileError::Budget`] if compiling the kernel to native code would take too long.
    pub fn new(module: &Module, id: FuncId) -> Result<CompiledKernel, CompileError> {
        CompiledKernel::within(module, id, &Inlining::of(module, id))
    }

    /// Prepares a kernel, or a function that a kernel calls. `inline` contains the inlining decisions for that kernel.
    ///
    /// # Errors
    /// Returns [`CompileError::Budget`] if compiling the kernel to native code would take too long.
    pub fn within(
        module: &Module,
        id: FuncId,
        inline: &Inlining,
    ) -> Result<CompiledKernel, CompileError> {
        let function = pass::prepare_within(module, id, inline, None);
        let cfg = Cfg::new(&function);
        let prepared = PreparedFunction {
            shape: Shape::of(&function, &cfg)?,
            regions: Regions::new(&function, &cfg),
            function,
            calls_kept: inline.is_reduced(),
        };
        Ok(CompiledKernel::from_prepared(module, prepared))
    }

    /// Creates a kernel, or a function that a kernel calls, of `module` from its prepared function.
    pub fn from_prepared(module: &Module, prepared: PreparedFunction) -> CompiledKernel {
        let PreparedFunction {
            function,
            regions,
            shape,
            calls_kept,
        } = prepared;
        let (slots, local_bytes) = slots::layout(&function);
        let warp = regions
            .resume_points
            .iter()
            .map(|_| OnceLock::new())
            .collect();
        let mut homes = SecondaryMap::default();
        for &block in function.blocks() {
            for &inst in function.insts(block) {
                homes[inst] = Some(block);
            }
        }
        let fallbacks = Fallbacks::default();
        if calls_kept {
            fallbacks.note(Fallback::CallsKept);
        }
        CompiledKernel {
            fallbacks,
            calls_kept,
            request: Request::default(),
            counters: Counters::default(),
            shape,
            homes,
            sync_points: SyncPointTable::new(&function, &regions),
            symbols: named_variables(module, &function),
            signatures: called_signatures(module, &function),
            pointers: Pointers::new(&function),
            function,
            regions,
            local_bytes,
            slots,
            skipped: OnceLock::new(),
            content: OnceLock::new(),
            widths: OnceLock::new(),
            warp,
            joint: OnceLock::new(),
            phases: Default::default(),
            cta: Default::default(),
        }
    }

    /// Returns the fields of the kernel's [`PreparedFunction`], in their order.
    pub(crate) fn prepared(&self) -> (&Function, &Regions, Shape, bool) {
        (&self.function, &self.regions, self.shape, self.calls_kept)
    }

    /// Sets the digest that identifies the kernel in the disk cache. It must determine everything that
    /// [`CompiledKernel::digest`] covers.
    pub fn identified(self, digest: [u8; 32]) -> CompiledKernel {
        CompiledKernel {
            content: OnceLock::from(digest),
            ..self
        }
    }

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

    /// Sets the checks and events that checking runs and tools request. Must be called before code
    /// is compiled.
    pub fn observed(self, request: Request) -> CompiledKernel {
        CompiledKernel {
            request,
            counters: Counters::of(&self.function, request.selection),
            ..self
        }
    }

    /// Returns whether checking runs or tools request checks or events.
    fn is_observed(&self) -> bool {
        self.request != Request::default()
    }

    /// Returns the counters that generated code uses if tools request counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the kernel data that is needed to write and to read cache entries.
    pub(crate) fn source(&self) -> Source<'_> {
        Source {
            function: &self.function,
            sync_points: &self.sync_points,
        }
    }

    /// Computes a digest of everything in the kernel that its code depends on.
    pub fn digest(&self) -> [u8; 32] {
        let mut symbols: Vec<_> = self.symbols.iter().collect();
        symbols.sort_unstable_by_key(|(id, _)| **id);
        let mut signatures: Vec<_> = self.signatures.iter().collect();
        signatures.sort_unstable_by_key(|(id, _)| **id);
        digest_of(&(&self.function, symbols, signatures, self.request))
    }

    /// Returns whether the kernel has sync points, where threads may wait for each other.
    pub fn has_sync_points(&self) -> bool {
        self.regions.resume_points.len() > 1
    }

    /// Returns the operation and the source position of a sync point.
    pub fn sync_point_data(&self, sync_point: SyncPoint) -> Option<SyncPointData> {
        self.regions.sync_point_data(&self.function, sync_point)
    }

    /// Returns whether a thread can bypass the barrier at a sync point and later execute the code after the barrier.
    pub fn is_skipped(&self, sync_point: SyncPoint) -> bool {
        let resume_point = self.regions.resume_points.get(sync_point.0 as usize);
        let inst = resume_point.and_then(|resume_point| resume_point.sync_point);
        let skipped = || {
            self.skipped
                .get_or_init(|| skipped_barriers(&self.function))
        };
        inst.is_some_and(|inst| skipped().contains(&inst))
    }

    /// Returns the warp form of a region, which is compiled at the first call.
    pub fn region(
        &self,
        compiler: &Compiler,
        sync_point: SyncPoint,
    ) -> Result<&CompiledFunction, CompileError> {
        let index = sync_point.0 as usize;
        let (Some(cell), Some(resume_point)) =
            (self.warp.get(index), self.regions.resume_points.get(index))
        else {
            return Err(CompileError::Unsupported(
                "a region that does not exist".into(),
            ));
        };
        let make = || {
            compiler.function((warp_form::signature(), false), self, |b, descs| {
                warp_form::emit(
                    self.parts(compiler, b, descs, Some(&self.regions)),
                    resume_point,
                )
            })
        };
        let made = cell.get_or_init(|| compiler.cached(self, Form::Region(sync_point.0), make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns the joint warp form, which contains the code of all regions once and is compiled at the first call.
    /// Before a call of this code, the caller stores the number of the resume point in the field `phase` of the context.
    ///
    /// # Errors
    /// Returns [`CompileError::Budget`] if the code would take too long to compile.
    pub fn joint(&self, compiler: &Compiler) -> Result<&CompiledFunction, CompileError> {
        let make = || {
            let blocks = self.function.blocks().iter();
            let insts = blocks.map(|&block| self.function.insts(block).len());
            let insts: usize = insts.sum();
            if self.regions.resume_points.len() > MAX_REGIONS || insts > MAX_JOINT {
                return Err(CompileError::Budget(format!(
                    "more than {MAX_REGIONS} synchronisation points, or more than {MAX_JOINT} instructions"
                )));
            }
            self.fallbacks.note(Fallback::JointRegions);
            compiler.function((warp_form::signature(), false), self, |b, descs| {
                warp_form::emit_joint(self.parts(compiler, b, descs, Some(&self.regions)))
            })
        };
        let made = self
            .joint
            .get_or_init(|| compiler.cached(self, Form::Joint, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns the CTA form of a kernel without sync points, which is compiled at the first call.
    pub fn cta(
        &self,
        compiler: &Compiler,
        specialisation: Specialisation,
    ) -> Result<&CompiledFunction, CompileError> {
        let make = |sides: Option<&Sides>| {
            compiler.function(
                (cta_form::signature(), sides.is_some()),
                self,
                |b, descs| {
                    let mut parts = self.parts(compiler, b, descs, None);
                    parts.trusted = specialisation.is_trusted();
                    cta_form::emit(parts, sides.map(Sides::view))
                },
            )
        };
        let made = self
            .cta
            .cell(specialisation)
            .get_or_init(|| self.in_slices(compiler, specialisation, Form::Cta, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns the CTA form of a kernel with sync points, which is compiled at the first call. Fails with
    /// [`CompileError::Budget`] if one function that contains all regions would take too long to compile.
    pub fn phases(
        &self,
        compiler: &Compiler,
        specialisation: Specialisation,
    ) -> Result<&CompiledFunction, CompileError> {
        let make = |sides: Option<&Sides>| {
            if compiler.joint {
                return Err(CompileError::Budget("only the joint form".into()));
            }
            if sides.is_none() && self.size_in_regions(MAX_PHASES) > MAX_PHASES {
                self.fallbacks.note(Fallback::NoPhases);
                return Err(CompileError::Budget(format!(
                    "phases of more than {MAX_PHASES} instructions over all regions"
                )));
            }
            compiler.function(
                (cta_form::signature(), sides.is_some()),
                self,
                |b, descs| {
                    let mut parts = self.parts(compiler, b, descs, Some(&self.regions));
                    parts.trusted = specialisation.is_trusted();
                    phases::emit(parts, &self.sync_points, sides.map(Sides::view))
                },
            )
        };
        let made = self
            .phases
            .cell(specialisation)
            .get_or_init(|| self.in_slices(compiler, specialisation, Form::Phases, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns whether the disk cache appears to contain the code of a specialisation. Checks only the name of the
    /// file.
    pub fn is_kept(&self, compiler: &Compiler, specialisation: Specialisation) -> bool {
        let form = match self.has_sync_points() {
            true => Form::Phases,
            false => Form::Cta,
        };
        compiler.keeps(
            self,
            form(specialisation, self.width(compiler, specialisation)),
        )
    }

    /// Compiles the program of the wide back end if there is one, and vector code otherwise. If the vector code for the
    /// kernel's chunk width is too large, compiles code for narrower chunks.
    ///
    /// Compiles scalar code instead if the specialisation is scalar, or if vector code is too large for every width,
    /// contains an unsupported operation, or is rejected by Cranelift. If a tool observes whole warps, compiles only
    /// vector code for the kernel's chunk width.
    fn in_slices(
        &self,
        compiler: &Compiler,
        specialisation: Specialisation,
        form: fn(Specialisation, u32) -> Form,
        make: impl Fn(Option<&Sides>) -> Result<CompiledFunction, CompileError>,
    ) -> Result<CompiledFunction, CompileError> {
        if let Some(code) = wide::code(self, compiler, specialisation) {
            return Ok(code);
        }
        let mut width = self.width(compiler, specialisation);
        compiler.cached(self, form(specialisation, width), || {
            while width > 1 {
                let sides = Sides::new(&self.function, &self.regions, specialisation, width);
                let made = make(Some(&sides));
                if self.request.selection.whole_warps {
                    return made;
                }
                let narrower = width / 2;
                let why = match made {
                    Err(CompileError::Budget(_)) if narrower >= slices::MIN_WIDTH => {
                        self.fallbacks.note(Fallback::NarrowCode);
                        width = narrower;
                        continue;
                    }
                    Err(CompileError::Budget(_)) => Fallback::SlicesBudget,
                    Err(CompileError::Unsupported(_)) => Fallback::SlicesUnsupported,
                    Err(CompileError::Backend(_)) => Fallback::SlicesBackend,
                    made => return made,
                };
                self.fallbacks.note(why);
                break;
            }
            make(None)
        })
    }

    /// Returns the chunk widths of the kernel.
    pub fn widths(&self, compiler: &Compiler) -> Widths {
        self.chosen_widths(compiler).0
    }

    /// Returns the chunk widths, and whether the wide back end has chosen them.
    fn chosen_widths(&self, compiler: &Compiler) -> (Widths, bool) {
        *self.widths.get_or_init(|| {
            let is_wide = compiler.wide.is_some() && compiler.width.is_none();
            if let Some(widths) = is_wide.then(|| wide::widths(self)).flatten() {
                return (widths, true);
            }
            let widths = slices::widths(
                &self.function,
                &self.regions,
                match self.request.selection.whole_warps {
                    true => Some(32),
                    false => compiler.width,
                },
                &self.fallbacks,
            );
            (widths, false)
        })
    }

    /// Returns the number of lanes per chunk of a specialisation, which is 1 for scalar code.
    fn width(&self, compiler: &Compiler, specialisation: Specialisation) -> u32 {
        let widths = self.widths(compiler);
        match specialisation {
            specialisation if specialisation.is_single() => 1,
            specialisation if specialisation.has(Specialisation::WIDE) => widths.wide,
            specialisation if specialisation.has(Specialisation::TILED) => 16,
            _ => widths.narrow,
        }
    }

    /// Returns the compile budget: how long the kernel should run as scalar code before vector code is
    /// compiled.
    pub fn compile_budget(&self, compiler: &Compiler) -> Duration {
        if compiler.width.is_some() || self.request.selection.whole_warps {
            return Duration::ZERO;
        }
        match self.chosen_widths(compiler) {
            (widths, true) if widths.whole > 0 && compiler.prefers_exact => Duration::ZERO,
            (_, true) => wide::compile_budget(&self.function),
            (widths, false) => slices::compile_budget(&self.function, &self.regions, widths.wide),
        }
    }

    /// Returns the offsets of the parameters from which device addresses are computed. A launch may run code of
    /// [`Specialisation::trusted`] only under three conditions: every such parameter contains an address of device
    /// memory, an inaccessible margin of [`crate::MARGIN`] bytes is on each side of device memory, and the grid has at
    /// most [`crate::MAX_BLOCKS`] blocks in each dimension.
    pub fn roots(&self) -> &[u32] {
        self.pointers.params()
    }

    /// Returns the specialisation that `margay dis` displays: the specialisation for the block
    /// shape that the kernel requires, or for a block of one row if the kernel requires no shape.
    fn shown(&self, compiler: &Compiler) -> Specialisation {
        let shape = self.function.kernel.as_ref().and_then(|k| k.reqntid);
        let widths = self.widths(compiler);
        Specialisation::of(shape.unwrap_or([widths.wide, 1, 1]), widths).trusted(compiler.isolated)
    }

    /// Returns where the operands and results of the sync points are stored in the frames, and how the sync points are
    /// completed.
    pub fn sync_points(&self) -> &SyncPointTable {
        &self.sync_points
    }

    /// Counts the instructions of all regions that the CTA form contains. An instruction in several
    /// regions counts once for each region. Stops counting when the sum exceeds `most`.
    fn size_in_regions(&self, most: usize) -> usize {
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
    fn stores_to_yield(&self) -> usize {
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

    /// Returns the function compiled as a device function, in which no lane may wait.
    pub fn device(&self, compiler: &Compiler) -> Result<&CompiledFunction, CompileError> {
        let make = || {
            compiler.function((device::signature(), false), self, |b, descs| {
                device::emit(self.parts(compiler, b, descs, None))
            })
        };
        let made = self
            .cta
            .cell(Specialisation::SINGLE)
            .get_or_init(|| compiler.cached(self, Form::Device, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Returns whether each thread keeps values that live across calls on a stack of its own, which
    /// [`pass::calls`] sets up.
    pub fn keeps_frames(&self) -> bool {
        let mut insts = self.function.blocks().iter();
        let checks = |inst: &Inst| self.function.dfg.insts[*inst].opcode == Opcode::StackCheck;
        insts.any(|&block| self.function.insts(block).iter().any(checks))
    }

    /// Returns the functions that the kernel calls directly, and whether it calls any function through a handle.
    pub fn calls(&self) -> (Vec<FuncId>, bool) {
        let mut direct = Vec::new();
        let mut indirect = false;
        for &block in self.function.blocks() {
            for &inst in self.function.insts(block) {
                let data = &self.function.dfg.insts[inst];
                match data.opcode {
                    Opcode::Call => direct.push(payload_func(data.payload())),
                    Opcode::CallIndirect => indirect = true,
                    _ => {}
                }
            }
        }
        direct.sort_unstable();
        direct.dedup();
        (direct, indirect)
    }

    /// Returns the native functions that have been compiled so far.
    pub fn compiled(&self) -> impl Iterator<Item = &CompiledFunction> {
        let warp = self.warp.iter().chain([&self.joint]);
        let warp = warp.filter_map(|cell| cell.get());
        let whole = self.cta.all().chain(self.phases.all());
        warp.chain(whole).filter_map(|made| made.as_ref().ok())
    }

    fn parts<'a, 'b>(
        &'a self,
        compiler: &Compiler,
        b: &'a mut FunctionBuilder<'b>,
        descs: &'a mut DescTable,
        regions: Option<&'a Regions>,
    ) -> LaneParts<'a, 'b> {
        LaneParts {
            b,
            function: &self.function,
            regions,
            descs,
            slots: &self.slots,
            homes: &self.homes,
            has_fma: compiler.has_fma,
            isolated: compiler.isolated,
            trusted: false,
            request: self.request,
            counters: &self.counters,
            pointers: &self.pointers,
            symbols: &self.symbols,
            called_signatures: &self.signatures,
            fallbacks: &self.fallbacks,
        }
    }
}

/// Maximum number of instructions of a kernel whose regions are compiled as one function, summed over the regions that
/// this function contains.
const MAX_PHASES: usize = 30_000;
/// Limits for a kernel whose regions are compiled as separate functions: the number of regions, and the number of
/// instructions that [`CompiledKernel::size_in_regions`] counts.
const MAX_REGIONS: usize = 4_000;
const MAX_IN_REGIONS: usize = 30_000;
/// Maximum number of instructions of a kernel whose regions are compiled as one function of the joint warp form.
const MAX_JOINT: usize = 150_000;

/// Compiles native code for the machine that this process runs on. Several threads may share a compiler.
pub struct Compiler {
    /// Generates scalar code, with Cranelift's optimiser, which folds address computations and
    /// removes repeated computations.
    isa: OwnedTargetIsa,
    /// Generates vector code, without Cranelift's optimiser, so that instructions stay in the order in which they are
    /// emitted. The optimiser would move all loads of an unrolled loop body to the start of the body and spill the
    /// loaded values, which halves the speed of a matrix multiply.
    plain: OwnedTargetIsa,
    /// Generates code of very large functions, with Cranelift's single-pass register allocator. The
    /// backtracking register allocator, which generates faster code, would take minutes, because
    /// its time grows quadratically if tens of thousands of values are live at once.
    large: OwnedTargetIsa,
    has_fma: bool,
    /// Whether generated code tests that accesses stay in the kernel's memory.
    isolated: bool,
    verifiers: OnceLock<Result<Verifiers, CompileError>>,
    /// Lanes per chunk of all kernels; `None` to choose for each kernel.
    width: Option<u32>,
    /// Whether every kernel with sync points runs in the joint warp form.
    joint: bool,
    /// The processor for which the wide back end generates code; `None` if it is not in use.
    wide: Option<margay_x64::Target>,
    /// Whether kernels run their code for one shape of blocks from the first launch on.
    prefers_exact: bool,
    /// Disk cache of code that earlier processes compiled.
    pub(crate) cache: Option<DiskCache>,
}

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

/// Creates a Cranelift code generator for this machine.
fn machine(opt_level: &str, allocator: &str) -> Result<OwnedTargetIsa, CompileError> {
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", opt_level),
        ("regalloc_algorithm", allocator),
        (
            "enable_verifier",
            if cfg!(debug_assertions) {
                "true"
            } else {
                "false"
            },
        ),
        ("is_pic", "false"),
        ("unwind_info", "false"),
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
    ] {
        flags
            .set(name, value)
            .map_err(|error| CompileError::Machine(error.to_string()))?;
    }
    cranelift_native::builder()
        .map_err(|error| CompileError::Machine(error.to_owned()))?
        .finish(settings::Flags::new(flags))
        .map_err(|error| CompileError::Machine(error.to_string()))
}

impl Compiler {
    /// Sets the disk cache for compiled code.
    pub fn with_cache(mut self, cache: Option<DiskCache>) -> Compiler {
        self.cache = cache;
        self
    }

    /// Returns the disk cache, if there is one.
    pub fn cache(&self) -> Option<&DiskCache> {
        self.cache.as_ref()
    }

    /// Computes the cache key of a native function.
    pub(crate) fn key(&self, cache: &DiskCache, kernel: &CompiledKernel, form: Form) -> Digest {
        let machine = |to: &mut Digester| {
            for isa in self.machines() {
                hash_machine(isa, to);
            }
            (self.asked_width(), self.isolates()).hash(to);
        };
        let content = kernel.content.get_or_init(|| kernel.digest());
        cache.key(machine, content, &form)
    }

    /// Returns the cached code of a native function. If there is none, compiles the function with `make`.
    fn cached(
        &self,
        kernel: &CompiledKernel,
        form: Form,
        make: impl FnOnce() -> Result<CompiledFunction, CompileError>,
    ) -> Result<CompiledFunction, CompileError> {
        let Some(cache) = &self.cache else {
            return make();
        };
        cache.found_or(&self.key(cache, kernel, form), kernel.source(), make)
    }

    /// Returns whether the cache contains a file for a native function. Does not check the content of the file.
    fn keeps(&self, kernel: &CompiledKernel, form: Form) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.has(&self.key(cache, kernel, form)))
    }
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compiler({})", self.isa.triple())
    }
}

impl Compiler {
    /// Creates a compiler for this machine.
    pub fn new() -> Result<Compiler, CompileError> {
        let isa = machine("speed", "backtracking")?;
        let has = |name: &str| {
            isa.isa_flags()
                .iter()
                .any(|flag| flag.name == name && flag.as_bool() == Some(true))
        };
        let has_fma = cfg!(target_arch = "aarch64") || has("has_fma");
        Ok(Compiler {
            isa,
            plain: machine("none", "backtracking")?,
            large: machine("none", "single_pass")?,
            has_fma,
            isolated: true,
            verifiers: OnceLock::new(),
            width: None,
            joint: false,
            wide: None,
            prefers_exact: false,
            cache: None,
        })
    }

    /// Sets the number of lanes per chunk for every kernel: 1, 4, 8, 16 or 32. Other values are ignored.
    pub fn with_width(self, width: Option<u32>) -> Compiler {
        let width = width.filter(|width| [1, 4, 8, 16, 32].contains(width));
        Compiler { width, ..self }
    }

    /// Sets whether every kernel with sync points runs in the joint warp form (for tests).
    pub fn with_joint(self, joint: bool) -> Compiler {
        Compiler { joint, ..self }
    }

    /// Sets for which hosts the wide back end compiles the kernels that it supports.
    pub fn with_wide(self, wide: Wide) -> Compiler {
        Compiler {
            wide: wide.target(),
            prefers_exact: wide == Wide::Exact,
            ..self
        }
    }

    /// Returns whether kernels run their code for one shape of blocks from the first launch on.
    pub fn prefers_exact(&self) -> bool {
        self.prefers_exact
    }

    /// Sets whether generated code tests that accesses stay in the kernel's memory.
    pub fn with_isolation(self, isolated: bool) -> Compiler {
        Compiler { isolated, ..self }
    }

    /// Returns whether generated code tests that accesses stay in the kernel's memory.
    pub fn isolates(&self) -> bool {
        self.isolated
    }

    /// Returns the addresses for the fields `verify` and `verify_lanes` of
    /// [`crate::abi::NativeContext`]. The functions at these addresses ask the host whether an
    /// access is allowed.
    pub fn verifiers(&self) -> Result<[*const u8; 2], CompileError> {
        let made = self.verifiers.get_or_init(|| Verifiers::new(&*self.isa));
        match made {
            Ok(made) => Ok(made.entries()),
            Err(error) => Err(error.clone()),
        }
    }

    /// Returns the code generators that this compiler uses.
    pub(crate) fn machines(&self) -> [&dyn TargetIsa; 3] {
        [&*self.isa, &*self.plain, &*self.large]
    }

    /// Returns the number of lanes per chunk requested for all kernels, if there is such a request.
    pub(crate) fn asked_width(&self) -> Option<u32> {
        self.width
    }

    /// Replaces the target machine with a machine that has only the given features.
    #[cfg(test)]
    pub(crate) fn set_features(&mut self, names: &[&str]) {
        let builder = cranelift_native::builder_with_options(false);
        let mut builder = builder.expect("a code generator for this machine");
        for name in names {
            builder
                .enable(name)
                .expect("a feature of this machine's kind");
        }
        let flags = self.isa.flags().clone();
        self.isa = builder.finish(flags).expect("a machine");
    }

    fn isa(
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

    /// Compiles one native function whose body `emit` writes. `sliced` is true for vector code.
    fn function(
        &self,
        (signature, sliced): (ir::Signature, bool),
        kernel: &CompiledKernel,
        emit: impl FnOnce(&mut FunctionBuilder<'_>, &mut DescTable) -> Result<(), EmitError>,
    ) -> Result<CompiledFunction, CompileError> {
        let mut descs = DescTable::default();
        let mut context = self.built(signature, &mut descs, emit)?;
        let insts = context.func.dfg.num_insts();
        if sliced
            && (insts > MAX_ALLOCATED
                || pressure::fixed(&context.func) > MAX_FIXED
                || insts >= LARGE && pressure::of(&context.func) > MAX_PRESSURE)
        {
            // The single-pass register allocator would give every vector its own stack slot, so the stack frame would
            // have megabytes.
            return Err(CompileError::Budget("vector code".into()));
        }
        if context.func.dfg.num_insts() > MAX_FORM {
            return Err(CompileError::Budget(format!(
                "more than {MAX_FORM} instructions of the code generator"
            )));
        }
        let isa = self.isa(sliced, kernel, &context.func);
        if std::ptr::eq(isa, &*self.large) && pressure::joins(&context.func) > MAX_JOINS {
            return Err(CompileError::Budget(format!(
                "more than {MAX_JOINS} pairs of branches to one block"
            )));
        }
        context
            .compile(isa, &mut ControlPlane::default())
            .map_err(|error| CompileError::Backend(format!("{:?}", error.inner)))?;
        let lacks =
            || CompileError::Unsupported("an operation that this machine does not support".into());
        let compiled = context.compiled_code().ok_or_else(lacks)?;
        let relocs = compiled.buffer.relocs().iter();
        let sites: Option<Vec<Site>> = relocs.map(|reloc| Site::of(&context.func, reloc)).collect();
        let sites = sites.ok_or_else(lacks)?;
        let source = &kernel.function;
        let locs = compiled
            .buffer
            .get_srclocs_sorted()
            .iter()
            .map(|place| {
                let inst = Inst(place.loc.bits() & PLACE_INST);
                let known = (inst.0 as usize) < source.dfg.insts.len();
                if known {
                    let lane = place.loc.bits() >> PLACE_LANE & 31;
                    (place.start, source.dfg.locs[inst], lane)
                } else {
                    (place.start, SourceLoc::default(), 0)
                }
            })
            .collect();
        let mut code = compiled.code_buffer().to_vec();
        addresses::fill(&mut code, &sites, &descs, &kernel.sync_points).ok_or_else(lacks)?;
        Ok(CompiledFunction {
            code: CodeMemory::new(&code)
                .map_err(|error| CompileError::Memory(error.to_string()))?,
            locs,
            descs,
            sites,
            places: Box::default(),
            operations: Box::default(),
            only_from_start: false,
        })
    }

    fn built(
        &self,
        signature: ir::Signature,
        descs: &mut DescTable,
        emit: impl FnOnce(&mut FunctionBuilder<'_>, &mut DescTable) -> Result<(), EmitError>,
    ) -> Result<Context, CompileError> {
        let mut function = ir::Function::with_name_signature(UserFuncName::user(0, 0), signature);
        let mut scratch = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut function, &mut scratch);
        emit(&mut builder, descs)?;
        builder.finalize(self.isa.frontend_config());
        Ok(Context::for_function(function))
    }

    /// Returns Cranelift's text of a kernel's CTA form or, with `sync_point`, of one region of the warp form, for
    /// display.
    pub fn clif(
        &self,
        kernel: &CompiledKernel,
        sync_point: Option<SyncPoint>,
    ) -> Result<String, CompileError> {
        let mut descs = DescTable::default();
        let context = self.form(kernel, sync_point, &mut descs)?;
        Ok(context.func.display().to_string())
    }

    /// Returns the machine instructions of a kernel's CTA form or, with `sync_point`, of one region of the warp form,
    /// for display.
    pub fn assembly(
        &self,
        kernel: &CompiledKernel,
        sync_point: Option<SyncPoint>,
    ) -> Result<String, CompileError> {
        let mut descs = DescTable::default();
        let mut context = self.form(kernel, sync_point, &mut descs)?;
        context.set_disasm(true);
        let sliced = kernel.width(self, kernel.shown(self)) > 1;
        let isa = self.isa(sync_point.is_none() && sliced, kernel, &context.func);
        let compiled = context
            .compile(isa, &mut ControlPlane::default())
            .map_err(|error| CompileError::Backend(format!("{:?}", error.inner)))?;
        Ok(compiled.vcode.clone().unwrap_or_default())
    }

    /// Builds the CTA form (with phases if the kernel has sync points) or a region, without running Cranelift's
    /// passes.
    fn form(
        &self,
        kernel: &CompiledKernel,
        sync_point: Option<SyncPoint>,
        descs: &mut DescTable,
    ) -> Result<Context, CompileError> {
        let Some(sync_point) = sync_point else {
            let specialisation = kernel.shown(self);
            let width = kernel.width(self, specialisation);
            let sides = (width > 1)
                .then(|| Sides::new(&kernel.function, &kernel.regions, specialisation, width));
            let view = sides.as_ref().map(Sides::view);
            return self.built(cta_form::signature(), descs, |b, descs| {
                if !kernel.has_sync_points() {
                    let mut parts = kernel.parts(self, b, descs, None);
                    parts.trusted = specialisation.is_trusted();
                    cta_form::emit(parts, view)
                } else {
                    let mut parts = kernel.parts(self, b, descs, Some(&kernel.regions));
                    parts.trusted = specialisation.is_trusted();
                    phases::emit(parts, &kernel.sync_points, view)
                }
            });
        };
        let resume_point = kernel.regions.resume_points.get(sync_point.0 as usize);
        let resume_point = resume_point
            .ok_or_else(|| CompileError::Unsupported("a region that does not exist".into()))?;
        self.built(warp_form::signature(), descs, |b, descs| {
            warp_form::emit(
                kernel.parts(self, b, descs, Some(&kernel.regions)),
                resume_point,
            )
        })
    }
}
