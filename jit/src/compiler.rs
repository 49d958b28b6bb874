//! The compiler: it translates IR functions to native functions.

mod forms;
mod groups;
mod limits;
mod listings;
#[cfg(test)]
mod tests;
mod whole_warps;
mod wide;
mod wide_helpers;
mod widths;

pub use wide::{Stage, Wide};

use std::hash::Hash;
use std::sync::OnceLock;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use margay_exec::{SyncPoint, SyncPointData};
use margay_ir::analysis::skipping::skipped_barriers;
use margay_ir::analysis::{Cfg, Multiples, Pointers, Regions, slots};
use margay_ir::entity::{Block, FuncId, Inst, SecondaryMap, SigId, Slot, SymbolId};
use margay_ir::function::{Function, SourceLoc, payload_func};
use margay_ir::module::Module;
use margay_ir::pass;
use margay_ir::pass::inline::Inlining;
use margay_ir::pass::instrument::Request;
use margay_ops::ops::Opcode;
use margay_x64::Target;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::addresses::{self, DescTable, HostData, Site};
use crate::budget::Shape;
use crate::cache::{Digest, Digester, DiskCache, Source, digest_of, hash_machine};
use crate::code_memory::CodeMemory;
use crate::counters::Counters;
use crate::emit::EmitError;
use crate::error::CompileError;
use crate::fallback::{Fallback, Fallbacks};
use crate::function::{CompiledFunction, PLACE_INST, PLACE_LANE};
use crate::prepared::PreparedFunction;
use crate::signatures::called_signatures;
use crate::slices::Widths;
use crate::specialisation::{PerSpecialisation, Specialisation};
use crate::sync_points::SyncPointTable;
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
    /// The program of the wide back end, which is the CTA form of any kernel: specialisation, lanes per chunk, and the
    /// processor.
    Wide(Specialisation, u32, Target),
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
    multiples: Multiples,
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
        let pointers = Pointers::new(&function);
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
            multiples: Multiples::new(&function, &pointers),
            pointers,
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
            helpers: wide_helpers::helpers(),
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

    /// Returns the offsets of the parameters from which device addresses are computed, each with an alignment in bytes. A
    /// launch may run code of [`Specialisation::trusted`] only under four conditions: every such parameter contains an
    /// address of device memory, this address is a multiple of the alignment, an inaccessible margin of [`crate::MARGIN`]
    /// bytes is on each side of device memory, and the grid has at most [`crate::MAX_BLOCKS`] blocks in each dimension.
    pub fn roots(&self) -> impl Iterator<Item = (u32, u32)> {
        let params = self.pointers.params().iter();
        params.map(|&offset| (offset, self.multiples.of_param(offset)))
    }

    /// Returns where the operands and results of the sync points are stored in the frames, and how the sync points are
    /// completed.
    pub fn sync_points(&self) -> &SyncPointTable {
        &self.sync_points
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
}

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
    wide: Option<Target>,
    /// Whether kernels run their code for one shape of blocks from the first launch on.
    prefers_exact: bool,
    /// Disk cache of code that earlier processes compiled.
    pub(crate) cache: Option<DiskCache>,
}

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

    /// Computes the cache key of a native function or, with something else than a [`Form`], of other data of a kernel.
    pub(crate) fn key(
        &self,
        cache: &DiskCache,
        kernel: &CompiledKernel,
        form: impl Hash,
    ) -> Digest {
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

    /// Returns whether the wide back end is in use.
    #[cfg(test)]
    pub(crate) fn uses_wide(&self) -> bool {
        self.wide.is_some()
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

    /// Compiles one native function whose body `emit` writes. `sliced` is true for vector code.
    fn function(
        &self,
        (signature, sliced): (ir::Signature, bool),
        kernel: &CompiledKernel,
        emit: impl FnOnce(&mut FunctionBuilder<'_>, &mut DescTable) -> Result<(), EmitError>,
    ) -> Result<CompiledFunction, CompileError> {
        let mut descs = DescTable::default();
        let mut context = self.built(signature, &mut descs, emit)?;
        let isa = self.isa_within_limits(sliced, kernel, &context.func)?;
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
        let host = HostData {
            descs: &descs,
            sync_points: &kernel.sync_points,
            operations: &[],
            helpers: &[],
        };
        addresses::fill(&mut code, &sites, host).ok_or_else(lacks)?;
        Ok(CompiledFunction {
            code: CodeMemory::new(&code)
                .map_err(|error| CompileError::Memory(error.to_string()))?,
            locs,
            descs,
            sites,
            places: Box::default(),
            groups: Box::default(),
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
}
