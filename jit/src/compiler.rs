//! The compiler: IR functions in, native functions out.

use std::hash::Hash;
use std::sync::OnceLock;
use std::time::Duration;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use margay_exec::{Point, Stop};
use margay_ir::analysis::{Cfg, Dominators, Guarded, Linear, Pointers, Regions, Uniformity, slots};
use margay_ir::entity::{Block, FuncId, Inst, SecondaryMap, Slot, SymbolId};
use margay_ir::function::{Function, SourceLoc, payload_func, split_symbol_payload};
use margay_ir::module::Module;
use margay_ir::pass;
use margay_ir::pass::inline::Inlining;
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;
use rustc_hash::FxHashMap;

use crate::addresses::{self, DescTable, Site};
use crate::budget::Shape;
use crate::cache::{Digest, Digester, DiskCache, Source, digest_of, hash_machine};
use crate::code_memory::CodeMemory;
use crate::emit::lane::LaneParts;
use crate::emit::slice::View;
use crate::emit::{Unsupported, cta_form, device, phases, warp_form};
use crate::error::CompileError;
use crate::fallback::{Fallback, Fallbacks};
use crate::function::{CompiledFunction, PLACE_INST, PLACE_LANE};
use crate::points::{Completion, PointTable};
use crate::slices::{self, Widths};
use crate::verifiers::Verifiers;
use crate::version::Version;

/// Which code of a function. Whatever else the code of one function depends on must be named here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Form {
    /// The warp form of a region.
    Region(u32),
    /// The CTA form of a version, with slices of so many lanes.
    Cta(Version, u32),
    /// The same of a kernel with points.
    Phases(Version, u32),
    /// A device function.
    Device,
}

/// A kernel ready to compile: regions known, forms compiled when first asked for.
#[derive(Debug)]
pub struct CompiledKernel {
    /// The prepared function.
    pub function: Function,
    /// Its regions and frame.
    pub regions: Regions,
    /// Bytes of local memory that the kernel's own slots take.
    pub local_bytes: u32,
    slots: SecondaryMap<Slot, u32>,
    /// State space and size of the variables that the function names.
    symbols: FxHashMap<SymbolId, (StateSpace, u64)>,
    pointers: Pointers,
    /// Why its code is slower than it could be.
    pub fallbacks: Fallbacks,
    /// How large the function is.
    shape: Shape,
    /// The block of every instruction.
    homes: SecondaryMap<Inst, Option<Block>>,
    pub(crate) points: PointTable,
    /// The digest of the function: what cached code is found by.
    pub(crate) content: OnceLock<Digest>,
    /// Asked of one compiler: a kernel has one.
    widths: OnceLock<Widths>,
    warp: Vec<OnceLock<Result<CompiledFunction, CompileError>>>,
    phases: [OnceLock<Result<CompiledFunction, CompileError>>; Version::COUNT],
    cta: [OnceLock<Result<CompiledFunction, CompileError>>; Version::COUNT],
}

/// What slices need to know of a function.
struct Sides {
    uniformity: Uniformity,
    linear: Linear,
    guarded: Guarded,
    in_step: Vec<bool>,
    width: u32,
}

impl Sides {
    fn new(function: &Function, regions: &Regions, version: Version, width: u32) -> Sides {
        let cfg = Cfg::new(function);
        let dominators = Dominators::new(&cfg);
        let uniformity = Uniformity::new(function, version.assumptions(width));
        Sides {
            guarded: Guarded::new(function, &uniformity, &cfg),
            linear: Linear::new(function, &cfg, width == 32),
            in_step: regions
                .entries
                .iter()
                .map(|entry| uniformity.in_step(&cfg, &dominators, entry.block))
                .collect(),
            uniformity,
            width,
        }
    }

    fn view(&self) -> View<'_> {
        View {
            uniformity: &self.uniformity,
            linear: &self.linear,
            guarded: &self.guarded,
            in_step: &self.in_step,
            width: self.width,
        }
    }
}

impl CompiledKernel {
    /// Prepares a kernel (or, for [`CompiledKernel::device`], a function that is looked at alone) of a module.
    ///
    /// # Errors
    /// [`CompileError::Budget`] if its native code would take too long to make.
    pub fn new(module: &Module, id: FuncId) -> Result<CompiledKernel, CompileError> {
        CompiledKernel::within(module, id, &Inlining::of(module, id))
    }

    /// Prepares a kernel, or a function that a kernel calls for which this is what is inlined.
    ///
    /// # Errors
    /// As those of [`CompiledKernel::new`].
    pub fn within(
        module: &Module,
        id: FuncId,
        inline: &Inlining,
    ) -> Result<CompiledKernel, CompileError> {
        let function = pass::prepare_within(module, id, inline, None);
        let cfg = Cfg::new(&function);
        let shape = Shape::of(&function, &cfg)?;
        let regions = Regions::new(&function, &cfg);
        let (slots, local_bytes) = slots::layout(&function);
        let warp = regions.entries.iter().map(|_| OnceLock::new()).collect();
        let mut homes = SecondaryMap::default();
        for &block in function.blocks() {
            for &inst in function.insts(block) {
                homes[inst] = Some(block);
            }
        }
        let fallbacks = Fallbacks::default();
        if inline.is_reduced() {
            fallbacks.note(Fallback::CallsKept);
        }
        Ok(CompiledKernel {
            fallbacks,
            shape,
            homes,
            points: PointTable::new(&function, &regions),
            symbols: symbols_of(module, &function),
            pointers: Pointers::new(&function),
            function,
            regions,
            local_bytes,
            slots,
            content: OnceLock::new(),
            widths: OnceLock::new(),
            warp,
            phases: Default::default(),
            cta: Default::default(),
        })
    }

    /// What cached code is read and written with.
    pub(crate) fn source(&self) -> Source<'_> {
        Source {
            function: &self.function,
            points: &self.points,
        }
    }

    /// A digest of all that the kernel's code depends on.
    pub(crate) fn digest(&self) -> Digest {
        let mut symbols: Vec<_> = self.symbols.iter().collect();
        symbols.sort_unstable_by_key(|(id, _)| **id);
        digest_of(&(&self.function, symbols))
    }

    /// Whether no thread ever waits for another.
    pub fn is_pointless(&self) -> bool {
        self.regions.entries.len() == 1
    }

    /// The point behind a stop.
    pub fn point(&self, stop: Stop) -> Option<Point> {
        self.regions.point(&self.function, stop)
    }

    /// The warp form's function of a region, compiled on first need.
    pub fn region(
        &self,
        compiler: &Compiler,
        stop: Stop,
    ) -> Result<&CompiledFunction, CompileError> {
        let index = stop.0 as usize;
        let (Some(cell), Some(entry)) = (self.warp.get(index), self.regions.entries.get(index))
        else {
            return Err(CompileError::Unsupported(
                "a region that does not exist".into(),
            ));
        };
        let make = || {
            compiler.function((warp_form::signature(), false), self, |b, descs| {
                warp_form::emit(self.parts(compiler, b, descs, Some(&self.regions)), entry)
            })
        };
        let made = cell.get_or_init(|| compiler.cached(self, Form::Region(stop.0), make));
        made.as_ref().map_err(Clone::clone)
    }

    /// The CTA form of a kernel without points, compiled on first need.
    pub fn cta(
        &self,
        compiler: &Compiler,
        version: Version,
    ) -> Result<&CompiledFunction, CompileError> {
        let make = |sides: Option<&Sides>| {
            compiler.function(
                (cta_form::signature(), sides.is_some()),
                self,
                |b, descs| {
                    let mut parts = self.parts(compiler, b, descs, None);
                    parts.trusted = version.is_trusted();
                    cta_form::emit(parts, sides.map(Sides::view))
                },
            )
        };
        let made = self.cta[version.index()]
            .get_or_init(|| self.in_slices(compiler, version, Form::Cta, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// The CTA form of a kernel with points, compiled on first need. Refused for kernels so large that
    /// one function of all regions would take too long to compile.
    pub fn phases(
        &self,
        compiler: &Compiler,
        version: Version,
    ) -> Result<&CompiledFunction, CompileError> {
        let make = |sides: Option<&Sides>| {
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
                    parts.trusted = version.is_trusted();
                    phases::emit(parts, &self.points, sides.map(Sides::view))
                },
            )
        };
        let made = self.phases[version.index()]
            .get_or_init(|| self.in_slices(compiler, version, Form::Phases, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Whether an earlier process has left the code of a version on disk, as far as its name tells.
    pub fn is_kept(&self, compiler: &Compiler, version: Version) -> bool {
        let form = match self.is_pointless() {
            true => Form::Cta,
            false => Form::Phases,
        };
        compiler.keeps(self, form(version, self.width(compiler, version)))
    }

    /// Makes code for slices; for single lanes where there is none.
    fn in_slices(
        &self,
        compiler: &Compiler,
        version: Version,
        form: fn(Version, u32) -> Form,
        make: impl Fn(Option<&Sides>) -> Result<CompiledFunction, CompileError>,
    ) -> Result<CompiledFunction, CompileError> {
        let width = self.width(compiler, version);
        compiler.cached(self, form(version, width), || {
            if width == 1 {
                return make(None);
            }
            let sides = Sides::new(&self.function, &self.regions, version, width);
            let why = match make(Some(&sides)) {
                Err(CompileError::Unsupported(_)) => Fallback::SlicesUnsupported,
                Err(CompileError::Budget(_)) => Fallback::SlicesBudget,
                Err(CompileError::Backend(_)) => Fallback::SlicesBackend,
                made => return made,
            };
            self.fallbacks.note(why);
            make(None)
        })
    }

    /// Lanes of the kernel's slices.
    pub fn widths(&self, compiler: &Compiler) -> Widths {
        *self.widths.get_or_init(|| {
            slices::widths(
                &self.function,
                &self.regions,
                compiler.width,
                &self.fallbacks,
            )
        })
    }

    /// Lanes of a version's slices; 1 where lanes run one by one.
    fn width(&self, compiler: &Compiler, version: Version) -> u32 {
        let widths = self.widths(compiler);
        match version {
            version if version.is_single() => 1,
            version if version.has(Version::WIDE) => widths.wide,
            _ => widths.narrow,
        }
    }

    /// How long the kernel should have run lane by lane before slices are worth their compilation.
    pub fn patience(&self, compiler: &Compiler) -> Duration {
        if compiler.width.is_some() {
            return Duration::ZERO;
        }
        slices::patience(&self.function, &self.regions, self.widths(compiler).wide)
    }

    /// Offsets of the parameters that addresses are computed from. Where each holds an address of device memory, with margins
    /// of [`crate::MARGIN`] bytes around the range, and the grid has at most [`crate::MAX_BLOCKS`] blocks in each dimension, code
    /// of [`Version::trusted`] may run.
    pub fn roots(&self) -> &[u32] {
        self.pointers.params()
    }

    /// The version that people are shown: that of the shape that the kernel asks for, or of single rows.
    fn shown(&self, compiler: &Compiler) -> Version {
        let shape = self.function.kernel.as_ref().and_then(|k| k.reqntid);
        let widths = self.widths(compiler);
        Version::of(shape.unwrap_or([widths.wide, 1, 1]), widths).trusted(compiler.isolated)
    }

    /// Where the operands of the points lie in the frames.
    pub fn points(&self) -> &PointTable {
        &self.points
    }

    /// Instructions of all regions that phases hold; those that several regions share count for each. Counts no further
    /// than to the first number beyond `most` that it meets.
    fn size_in_regions(&self, most: usize) -> usize {
        let mut size = 0;
        for (index, entry) in self.regions.entries.iter().enumerate() {
            if self.points.completion(index) == Completion::General {
                continue;
            }
            let blocks = self.regions.blocks_of(&self.function, entry.block);
            let insts = |block: Block| self.function.insts(block).len();
            size += blocks.into_iter().map(insts).sum::<usize>();
            if size > most {
                break;
            }
        }
        size
    }

    /// Whether all regions may be compiled, each as a function of its own.
    ///
    /// # Errors
    /// [`CompileError::Budget`] if that would take too long.
    pub fn check_regions(&self) -> Result<(), CompileError> {
        let entries = self.regions.entries.len();
        if entries > MAX_REGIONS || self.size_in_regions(MAX_IN_REGIONS) > MAX_IN_REGIONS {
            return Err(CompileError::Budget(format!(
                "more than {MAX_REGIONS} synchronisation points, or {MAX_IN_REGIONS} instructions behind them"
            )));
        }
        Ok(())
    }

    /// What is stored by lanes that give way, over all points where they may, times the instructions of the function.
    fn stores_to_give_way(&self) -> usize {
        let entries = self.regions.entries.iter().enumerate();
        let gives_way = |index| self.points.completion(index) == Completion::General;
        let stores = entries.filter(|&(index, _)| gives_way(index));
        let stores: usize = stores.map(|(_, entry)| entry.live_in.len()).sum();
        let blocks = self.function.blocks().iter();
        stores
            * blocks
                .map(|&block| self.function.insts(block).len())
                .sum::<usize>()
    }

    /// A device function: no lane may wait in it.
    pub fn device(&self, compiler: &Compiler) -> Result<&CompiledFunction, CompileError> {
        let make = || {
            compiler.function((device::signature(), false), self, |b, descs| {
                device::emit(self.parts(compiler, b, descs, None))
            })
        };
        let made = self.cta[0].get_or_init(|| compiler.cached(self, Form::Device, make));
        made.as_ref().map_err(Clone::clone)
    }

    /// Whether threads keep what lives across calls on a stack of their own, as [`pass::calls`] has it.
    pub fn keeps_frames(&self) -> bool {
        let mut insts = self.function.blocks().iter();
        let checks = |inst: &Inst| self.function.dfg.insts[*inst].opcode == Opcode::StackCheck;
        insts.any(|&block| self.function.insts(block).iter().any(checks))
    }

    /// Functions called directly, and whether any is called through a handle.
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

    /// Native functions compiled so far.
    pub fn compiled(&self) -> impl Iterator<Item = &CompiledFunction> {
        let warp = self.warp.iter().filter_map(|cell| cell.get());
        let whole = self.cta.iter().chain(&self.phases);
        warp.chain(whole.filter_map(|cell| cell.get()))
            .filter_map(|made| made.as_ref().ok())
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
            pointers: &self.pointers,
            symbols: &self.symbols,
            fallbacks: &self.fallbacks,
        }
    }
}

/// State space and size of the variables of a module that a function names.
fn symbols_of(module: &Module, function: &Function) -> FxHashMap<SymbolId, (StateSpace, u64)> {
    let mut found = FxHashMap::default();
    for &inst in function
        .blocks()
        .iter()
        .flat_map(|&block| function.insts(block))
    {
        let data = &function.dfg.insts[inst];
        if data.opcode == Opcode::SymbolAddr {
            let (id, _) = split_symbol_payload(data.payload());
            if let Some(symbol) = module.symbols.get(id) {
                found.insert(id, (symbol.space, symbol.size));
            }
        }
    }
    found
}

/// Most instructions, over all regions, of a kernel that gets phases.
const MAX_PHASES: usize = 30_000;
/// Most regions that get functions of their own, and most instructions of them together.
const MAX_REGIONS: usize = 4_000;
const MAX_IN_REGIONS: usize = 100_000;

/// Makes native code for the machine it runs on. Shared by threads.
pub struct Compiler {
    /// For lanes one by one: addresses are folded and computed once.
    isa: OwnedTargetIsa,
    /// For slices: Cranelift's optimiser would move all loads of an unrolled body to its front and spill
    /// them (matrix product: half the speed), so instructions stay in the order they are made in.
    plain: OwnedTargetIsa,
    /// For functions so large that the better register allocator would take minutes: where tens of thousands
    /// of values live at once, its time grows with their square.
    large: OwnedTargetIsa,
    has_fma: bool,
    /// Whether accesses are tested to lie in memory of the kernel.
    isolated: bool,
    verifiers: OnceLock<Result<Verifiers, CompileError>>,
    /// Lanes of all kernels' slices; `None`: as suits each.
    width: Option<u32>,
    /// Code that earlier processes made.
    pub(crate) cache: Option<DiskCache>,
}

/// Most instructions, in Cranelift's form, for which registers are allocated well.
const MAX_ALLOCATED: usize = 60_000;

/// Most stores for lanes that give way, times instructions, for which registers are allocated well: code of a hundred loops
/// through which twenty values live would take minutes.
const MAX_STORES: usize = 3_000_000;

/// The same of other numbers: of loops (inside each other), of blocks, and of values that live at the start of a block,
/// summed over all blocks.
const MAX_LOOPS: usize = 400;
const MAX_BLOCKS: usize = 6_000;
const MAX_LIVE: usize = 400_000;
/// And of values that branches pass to blocks.
const MAX_PASSED: usize = 20_000;

/// Most instructions of Cranelift's form of a function.
const MAX_FORM: usize = 1_000_000;

/// A code generator for this machine.
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
    /// The same with a cache of what it makes.
    pub fn with_cache(mut self, cache: Option<DiskCache>) -> Compiler {
        self.cache = cache;
        self
    }

    /// The cache, if there is one.
    pub fn cache(&self) -> Option<&DiskCache> {
        self.cache.as_ref()
    }

    /// What the code of a form is found by in a cache.
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

    /// The cached code of a form; else what `make` makes.
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

    /// Whether there seems to be cached code of a form.
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
    /// A compiler for this machine.
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
            cache: None,
        })
    }

    /// The same with slices of `width` lanes for every kernel: 1, 4, 8, 16 or 32.
    pub fn with_width(self, width: Option<u32>) -> Compiler {
        let width = width.filter(|width| [1, 4, 8, 16, 32].contains(width));
        Compiler { width, ..self }
    }

    /// The same, whose code tests accesses, or trusts them.
    pub fn with_isolation(self, isolated: bool) -> Compiler {
        Compiler { isolated, ..self }
    }

    /// Whether code tests accesses.
    pub fn isolates(&self) -> bool {
        self.isolated
    }

    /// The functions that generated code asks about accesses through, for [`crate::abi::NativeContext`].
    pub fn verifiers(&self) -> Result<[*const u8; 2], CompileError> {
        let made = self.verifiers.get_or_init(|| Verifiers::new(&*self.isa));
        match made {
            Ok(made) => Ok(made.entries()),
            Err(error) => Err(error.clone()),
        }
    }

    /// All that code is made with.
    pub(crate) fn machines(&self) -> [&dyn TargetIsa; 3] {
        [&*self.isa, &*self.plain, &*self.large]
    }

    /// Lanes of all kernels' slices, if they were asked for.
    pub(crate) fn asked_width(&self) -> Option<u32> {
        self.width
    }

    /// Makes code for a machine that has nothing but these features.
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
            && (kernel.stores_to_give_way() > MAX_STORES
                || kernel.shape.loops > MAX_LOOPS
                || kernel.shape.live > MAX_LIVE
                || kernel.shape.passed > MAX_PASSED
                || function.dfg.num_blocks() > MAX_BLOCKS);
        if many || function.dfg.num_insts() > MAX_ALLOCATED {
            kernel.fallbacks.note(Fallback::QuickRegisters);
            &*self.large
        } else if sliced {
            &*self.plain
        } else {
            &*self.isa
        }
    }

    /// Compiles one native function whose body `emit` writes; `sliced` if it runs slices.
    fn function(
        &self,
        (signature, sliced): (ir::Signature, bool),
        kernel: &CompiledKernel,
        emit: impl FnOnce(&mut FunctionBuilder<'_>, &mut DescTable) -> Result<(), Unsupported>,
    ) -> Result<CompiledFunction, CompileError> {
        let mut descs = DescTable::default();
        let mut context = self.built(signature, &mut descs, emit)?;
        if sliced && context.func.dfg.num_insts() > MAX_ALLOCATED {
            // Every vector would have a place of its own in a frame of megabytes.
            return Err(CompileError::Budget("slices".into()));
        }
        if context.func.dfg.num_insts() > MAX_FORM {
            return Err(CompileError::Budget(format!(
                "more than {MAX_FORM} instructions of the code generator"
            )));
        }
        let isa = self.isa(sliced, kernel, &context.func);
        context
            .compile(isa, &mut ControlPlane::default())
            .map_err(|error| CompileError::Backend(format!("{:?}", error.inner)))?;
        let lacks = || CompileError::Unsupported("an operation this machine lacks".into());
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
        addresses::fill(&mut code, &sites, &descs, &kernel.points).ok_or_else(lacks)?;
        Ok(CompiledFunction {
            code: CodeMemory::new(&code)
                .map_err(|error| CompileError::Memory(error.to_string()))?,
            locs,
            descs,
            sites,
        })
    }

    fn built(
        &self,
        signature: ir::Signature,
        descs: &mut DescTable,
        emit: impl FnOnce(&mut FunctionBuilder<'_>, &mut DescTable) -> Result<(), Unsupported>,
    ) -> Result<Context, CompileError> {
        let mut function = ir::Function::with_name_signature(UserFuncName::user(0, 0), signature);
        let mut scratch = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut function, &mut scratch);
        emit(&mut builder, descs).map_err(|Unsupported(what)| CompileError::Unsupported(what))?;
        builder.finalize(self.isa.frontend_config());
        Ok(Context::for_function(function))
    }

    /// Cranelift's text of a kernel's form, for people: the CTA form, or the region behind a stop.
    pub fn clif(
        &self,
        kernel: &CompiledKernel,
        stop: Option<Stop>,
    ) -> Result<String, CompileError> {
        let mut descs = DescTable::default();
        let context = self.form(kernel, stop, &mut descs)?;
        Ok(context.func.display().to_string())
    }

    /// The machine's instructions of a kernel's form, for people.
    pub fn assembly(
        &self,
        kernel: &CompiledKernel,
        stop: Option<Stop>,
    ) -> Result<String, CompileError> {
        let mut descs = DescTable::default();
        let mut context = self.form(kernel, stop, &mut descs)?;
        context.set_disasm(true);
        let sliced = kernel.width(self, kernel.shown(self)) > 1;
        let isa = self.isa(stop.is_none() && sliced, kernel, &context.func);
        let compiled = context
            .compile(isa, &mut ControlPlane::default())
            .map_err(|error| CompileError::Backend(format!("{:?}", error.inner)))?;
        Ok(compiled.vcode.clone().unwrap_or_default())
    }

    /// The CTA form (in phases, if there are points) or a region, before Cranelift has worked on it.
    fn form(
        &self,
        kernel: &CompiledKernel,
        stop: Option<Stop>,
        descs: &mut DescTable,
    ) -> Result<Context, CompileError> {
        let Some(stop) = stop else {
            let version = kernel.shown(self);
            let width = kernel.width(self, version);
            let sides =
                (width > 1).then(|| Sides::new(&kernel.function, &kernel.regions, version, width));
            let view = sides.as_ref().map(Sides::view);
            return self.built(cta_form::signature(), descs, |b, descs| {
                if kernel.is_pointless() {
                    let mut parts = kernel.parts(self, b, descs, None);
                    parts.trusted = version.is_trusted();
                    cta_form::emit(parts, view)
                } else {
                    let mut parts = kernel.parts(self, b, descs, Some(&kernel.regions));
                    parts.trusted = version.is_trusted();
                    phases::emit(parts, &kernel.points, view)
                }
            });
        };
        let entry = kernel.regions.entries.get(stop.0 as usize);
        let entry = entry
            .ok_or_else(|| CompileError::Unsupported("a region that does not exist".into()))?;
        self.built(warp_form::signature(), descs, |b, descs| {
            warp_form::emit(kernel.parts(self, b, descs, Some(&kernel.regions)), entry)
        })
    }
}
