//! A kernel: its properties, and the native code that has been compiled for it so far.

use std::cell::OnceCell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use margay_exec::interp::Code;
use margay_exec::{LaunchInfo, SymbolTable, SyncPoint};
use margay_ir::analysis::callees::callees;
use margay_ir::analysis::{StackNeed, slots, stack_need};
use margay_ir::entity::{Entity, FuncId, Inst, SecondaryMap, SymbolId, Value};
use margay_ir::function::Function;
use margay_ir::module::Module;
use margay_ir::observe::Selection;
use margay_ir::pass;
use margay_ir::pass::inline::Inlining;
use margay_ir::pass::instrument::Request;
use margay_jit::signatures::SignatureIds;
use margay_jit::{
    CompileError, CompiledFunction, CompiledKernel, Compiler, Fallback, FaultAt, PerSpecialisation,
    RunningLane, Specialisation, Widths,
};
use margay_ops::mods::{AtomOp, MemOrder, Mode, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::bodies::Bodies;
use super::compile::{Slot, on_large_stack};
use super::disk::Caching;
use super::exact::{ExactChoice, ExactShapes};
use super::fallback;
use super::function_table::{Callee, FunctionTable};
use super::helpers::TidTable;
use super::image::compiler;
use super::launch::PtxLaunch;
use super::preparation::Preparation;
use super::shared::{self, SharedLayout, Symbols};
use super::tier::TierSelection;
use crate::engine::{
    Engine, EngineChoice, KernelInfo, KernelSizes, LaunchShape, ParamInfo, PreparedLaunch,
};
use crate::error::{Error, Fault, FaultKind, Result};
use crate::fault::{FloatMode, Trap, TrapKind};
use crate::launch::Dim3;
use crate::observe::{Observers, Tools};
use crate::probe::Probes;

/// Returns the properties that a kernel's declaration contains. `const_bytes` is the size in bytes of the module's
/// constant memory.
pub(super) fn info(module: &Module, id: FuncId, const_bytes: u32) -> KernelInfo {
    let function = &module.functions[id];
    let kernel = function.kernel.clone().unwrap_or_default();
    let dim = |[x, y, z]: [u32; 3]| Dim3::new(x, y, z);
    KernelInfo {
        name: function.name.clone(),
        params: kernel
            .params
            .iter()
            .map(|p| ParamInfo {
                offset: p.offset,
                size: p.size,
                align: p.align,
            })
            .collect(),
        param_bytes: kernel.param_bytes,
        const_bytes,
        registers: 0,
        target: module.target.sm,
        ptx_version: module.version.0 * 10 + module.version.1,
        max_threads: kernel
            .maxntid
            .map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z)),
        required_block: kernel.reqntid.map(dim),
        min_ctas: kernel.minnctapersm,
        required_cluster: kernel.cluster.map(dim),
        max_cluster_rank: kernel.maxclusterrank,
    }
}

/// The address at which a native function begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry(pub(super) *const u8);

// SAFETY: the code is immutable, and the kernel that provides the entry owns the code.
unsafe impl Send for Entry {}
// SAFETY: the code is immutable, and the kernel that provides the entry owns the code.
unsafe impl Sync for Entry {}

/// Maximum number of functions that the native code of a kernel may call; inlined functions do not
/// count.
const MAX_FUNCTIONS: usize = 2_000;

/// Native code of a kernel.
#[derive(Debug)]
pub(super) struct NativeKernel {
    compiler: &'static Compiler,
    pub(super) compiled: CompiledKernel,
    pub(super) functions: FunctionTable,
    /// Two routines through which generated code calls [`super::helpers::HELPERS`] to check
    /// accesses. The first routine checks affine addresses, and the second routine checks a
    /// separate address for each lane.
    pub(super) verifiers: [Entry; 2],
    /// Native code of the device functions. The entries of `functions` point to this code.
    devices: Vec<CompiledKernel>,
    /// How many bytes of stack the device functions of the kernel need.
    stack_need: StackNeed,
    regions: Vec<OnceLock<Result<Entry, CompileError>>>,
    /// The code of all regions, if one function contains it. Then `regions` is not used.
    joint: Option<Entry>,
    /// Code that runs whole CTAs of a kernel without sync points, for each specialisation. The next
    /// field contains the code that runs the CTAs of a kernel with sync points in phases.
    cta: PerSpecialisation<Result<Entry, CompileError>>,
    phases: PerSpecialisation<Result<Entry, CompileError>>,
    /// Chunk widths of the kernel's vector code.
    widths: Widths,
    /// The shapes of blocks for which the kernel has code of its own.
    pub(super) exact_shapes: ExactShapes,
    /// Whether the kernel contains a yield, so that its threads can wait in loops.
    pub(super) waits: bool,
    /// The choice between the kernel's scalar code and its vector code.
    pub(super) tier_selection: TierSelection,
    owner: u64,
    /// The fallbacks for which messages have been printed.
    pub(super) printed: fallback::Printed,
}

impl NativeKernel {
    /// Compiles the native code that a kernel needs to run with blocks of shape `block`.
    fn new(
        (module, id): (&Module, FuncId),
        bodies: &Bodies,
        owner: u64,
        block: [u32; 3],
        (caching, request): (Caching, Request),
    ) -> Result<NativeKernel, CompileError> {
        let compiler =
            compiler(caching).map_err(|error| CompileError::Machine(error.to_string()))?;
        let mut preparation = Preparation::new(module, id, bodies);
        let compiled = preparation.function(id)?.observed(request);
        compiled.check_stack_operations()?;
        if request.selection.whole_warps {
            compiled.check_whole_warps(compiler)?;
        }
        let mut kernel = NativeKernel {
            verifiers: compiler.verifiers()?.map(Entry),
            functions: FunctionTable::default(),
            devices: Vec::new(),
            stack_need: StackNeed::default(),
            regions: compiled
                .regions
                .resume_points
                .iter()
                .map(|_| OnceLock::new())
                .collect(),
            joint: None,
            cta: Default::default(),
            phases: Default::default(),
            compiler,
            widths: compiled.widths(compiler),
            exact_shapes: ExactShapes::new(
                2 * compiled.compile_budget(compiler),
                compiler.prefers_exact(),
            ),
            waits: has_yields(&compiled.function),
            // If accesses or synchronisation are checked, vector code runs from the first launch, because the host then
            // examines the lanes of a chunk together, and warps complete collectives in registers. Scalar code is tried
            // later only if there are no sync points and no races are checked: its collectives are many times as slow,
            // and the race detector gets accesses of whole chunks.
            tier_selection: match request.accesses || request.watches() {
                false => TierSelection::new(compiled.compile_budget(compiler)),
                true if request.order || compiled.regions.resume_points.len() > 1 => {
                    TierSelection::new(Duration::ZERO)
                }
                true => TierSelection::vector_first(),
            },
            compiled,
            owner,
            printed: fallback::Printed::default(),
        };
        let mut calls = FxHashMap::default();
        calls.insert(id, (0, callees(module, &kernel.compiled.function)));
        let called = kernel.called(&mut preparation)?;
        preparation.store(&kernel.compiled, &called);
        let compiled = called.iter().map(|(_, compiled)| compiled);
        let by_handle = compiled.chain([&kernel.compiled]).any(|one| one.calls().1);
        // Only calls through handles compare signatures.
        let signatures = by_handle.then(|| SignatureIds::new(module));
        let mut table = Vec::with_capacity(called.len());
        for callee in called {
            let (function, bytes) = (&callee.1.function, callee.1.local_bytes);
            calls.insert(callee.0, (bytes, callees(module, function)));
            let made = callee
                .1
                .device(compiler)
                .map_err(|why| declined(module, id, preparation.inlining(), why))?;
            table.push(Callee {
                id: callee.0,
                code: register(made, owner).0,
                signature: signatures.as_ref().map_or(0, |ids| ids.of(callee.0)),
            });
            kernel.devices.push(callee.1);
        }
        kernel.functions = FunctionTable::new(&table, by_handle);
        kernel.stack_need = stack_need(id, |id| calls.remove(&id).unwrap_or_default());
        // A kernel that the compiler does not support must be detected before the first thread runs, so code is
        // compiled here. Most launches run the trusted specialisation; launches whose parameters point outside device
        // memory use the untrusted specialisation. In checking runs, only launches that a filter leaves out use the
        // trusted one.
        let trusted = compiler.isolates() && !request.accesses;
        let wanted = kernel.specialisation(block).trusted(trusted);
        if kernel.compiled.is_kept(compiler, wanted) {
            kernel.tier_selection.hurry();
        }
        let specialisation = kernel.tier_selection.now(wanted);
        if !kernel.compiled.has_sync_points() {
            kernel.cta_entry(specialisation)?;
        } else if let Err(why) = kernel.phases_entry(specialisation) {
            if request.selection.whole_warps {
                return Err(why);
            }
            if kernel.compiled.check_regions(compiler).is_err() {
                let made = on_large_stack(|| kernel.compiled.joint(compiler))?;
                kernel.joint = Some(register(made, owner));
            }
            for index in 0..kernel.regions.len() {
                kernel.region_entry(SyncPoint(index as u32))?;
            }
        }
        Ok(kernel)
    }

    /// Prepares the functions that the kernel still calls after inlining for compilation. This
    /// includes functions that it can call only through handles.
    fn called(
        &self,
        preparation: &mut Preparation<'_>,
    ) -> Result<Vec<(FuncId, CompiledKernel)>, CompileError> {
        let (module, id) = (preparation.module, preparation.kernel);
        let mut seen = FxHashSet::from_iter([id]);
        let mut found: Vec<(FuncId, CompiledKernel)> = Vec::new();
        let mut work = Vec::new();
        let mut add = |kernel: &CompiledKernel, work: &mut Vec<FuncId>| {
            let (direct, indirect) = kernel.calls();
            let all = indirect.then(|| shared::reachable(module, id));
            let called = direct.into_iter().chain(all.into_iter().flatten());
            work.extend(called.filter(|&callee| {
                let function = &module.functions[callee];
                function.has_body() && function.kernel.is_none() && seen.insert(callee)
            }));
        };
        add(&self.compiled, &mut work);
        while let Some(callee) = work.pop() {
            if found.len() == MAX_FUNCTIONS {
                return Err(CompileError::Budget(format!(
                    "calls of more than {MAX_FUNCTIONS} functions"
                )));
            }
            let made = preparation.function(callee)?;
            add(&made, &mut work);
            found.push((callee, made));
        }
        found.sort_unstable_by_key(|&(callee, _)| callee);
        Ok(found)
    }

    /// Returns the specialisation for blocks of shape `block`.
    pub(super) fn specialisation(&self, block: [u32; 3]) -> Specialisation {
        Specialisation::of(block, self.widths)
    }

    /// Returns the specialisation for blocks of exactly this shape, and its choice; `None` if there is no such code.
    pub(super) fn exact(&self, block: [u32; 3]) -> Option<(Specialisation, &ExactChoice)> {
        let exact = self.specialisation(block).exactly(block, self.widths)?;
        Some((exact, self.exact_shapes.choice(block)?))
    }

    /// Compiles the version of the kernel's code for `specialisation`. A compile error is not
    /// returned here but when a launch requests the code. After compilation, this function prints
    /// the fallbacks in the code ([`fallback`]).
    pub(super) fn compile(&self, specialisation: Specialisation) {
        let _ = if !self.compiled.has_sync_points() {
            self.cta_entry(specialisation)
        } else {
            self.phases_entry(specialisation)
        };
        fallback::tell_all(&self.compiled.function.name, self);
    }

    /// Returns the fallbacks in the code that has been compiled so far, and how often each occurs.
    pub(super) fn fallbacks(&self) -> Vec<(Fallback, u32)> {
        let mut all: Vec<(Fallback, u32)> = Vec::new();
        for kernel in self.devices.iter().chain([&self.compiled]) {
            for (why, count) in kernel.fallbacks.all() {
                match all.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, sum)) => *sum += count,
                    None => all.push((why, count)),
                }
            }
        }
        all.sort_unstable_by_key(|&(why, _)| why.name());
        all
    }

    /// Returns whether the code that runs whole CTAs with `specialisation` was requested before.
    #[cfg(test)]
    pub(super) fn has_entry(&self, specialisation: Specialisation) -> bool {
        let all = [&self.cta, &self.phases];
        all.iter()
            .any(|entries| entries.cell(specialisation).get().is_some())
    }

    /// Returns the function that runs whole CTAs of a kernel without sync points. The first call compiles the function.
    pub(super) fn cta_entry(&self, specialisation: Specialisation) -> Result<Entry, CompileError> {
        let made = self.cta.cell(specialisation).get_or_init(|| {
            let made = on_large_stack(|| self.compiled.cta(self.compiler, specialisation));
            made.map(|made| register(made, self.owner))
        });
        made.clone()
    }

    /// Returns the function that runs whole CTAs in phases. The first call compiles the function.
    pub(super) fn phases_entry(
        &self,
        specialisation: Specialisation,
    ) -> Result<Entry, CompileError> {
        let made = self.phases.cell(specialisation).get_or_init(|| {
            let made = on_large_stack(|| self.compiled.phases(self.compiler, specialisation));
            made.map(|made| register(made, self.owner))
        });
        made.clone()
    }

    /// Returns whether the kernel has code that runs CTAs in phases. The first call compiles this
    /// code; the result is false if the compilation fails.
    pub(super) fn has_phases(&self, specialisation: Specialisation) -> bool {
        self.phases_entry(specialisation).is_ok()
    }

    /// Returns whether the code that runs CTAs in phases runs only whole CTAs, from their start.
    pub(super) fn runs_only_from_start(&self, specialisation: Specialisation) -> bool {
        let phases = self.compiled.phases(self.compiler, specialisation);
        phases.is_ok_and(|code| code.only_from_start)
    }

    /// Returns the function that runs lanes from the resume point after `sync_point`. The first call compiles the
    /// function. The caller stores the number of the sync point in the field `phase` of the context.
    pub(super) fn region_entry(&self, sync_point: SyncPoint) -> Result<Entry, CompileError> {
        if let Some(joint) = self.joint {
            return Ok(joint);
        }
        let Some(cell) = self.regions.get(sync_point.0 as usize) else {
            return Err(CompileError::Unsupported(
                "a region that does not exist".into(),
            ));
        };
        let made = cell.get_or_init(|| {
            let made = on_large_stack(|| self.compiled.region(self.compiler, sync_point));
            made.map(|made| register(made, self.owner))
        });
        made.clone()
    }

    /// Returns the digest of all inputs of the compilation, and the sizes of the functions that have been compiled so
    /// far. Tests compare these values instead of the machine code, because machine code contains
    /// addresses of this process.
    #[cfg(test)]
    pub(super) fn identity(&self) -> ([u8; 32], Vec<usize>) {
        let functions = self.compiled.compiled();
        let sizes = functions.map(|made| made.code.bytes().len());
        (self.compiled.digest(), sizes.collect())
    }

    /// Describes a fault of this thread, if it interrupted code of the kernel.
    pub(super) fn fault_at(&self, trap: &Trap) -> Option<FaultAt> {
        let registers = crate::fault::registers();
        let is_readable = |byte| crate::fault::access::load8(byte).is_ok();
        let devices = self.devices.iter().flat_map(CompiledKernel::compiled);
        let mut functions = self.compiled.compiled().chain(devices);
        if trap.kind == TrapKind::Stopped {
            return functions.find_map(|function| {
                let (loc, lane) = function.loc_at(trap.pc)?;
                let (lane, address) = (RunningLane::Number(lane), None);
                Some(FaultAt { loc, lane, address })
            });
        }
        functions
            .find_map(|function| function.fault_at(trap.pc, &registers, trap.address, is_readable))
    }
}

impl Drop for NativeKernel {
    fn drop(&mut self) {
        let devices = self.devices.iter().flat_map(CompiledKernel::compiled);
        for function in self.compiled.compiled().chain(devices) {
            crate::fault::unregister_code(function.code.start() as u64);
        }
    }
}

/// Returns the reason why a kernel has no native code if it calls a function that cannot be
/// compiled. `why` is the compile error of that function.
fn declined(module: &Module, id: FuncId, inline: &Inlining, why: CompileError) -> CompileError {
    let before = pass::prepare_within(module, id, inline, Some("waiting"));
    match pass::calls::declined(&before, module, inline) {
        Some(what) => CompileError::Unsupported(what),
        None => why,
    }
}

fn register(function: &CompiledFunction, owner: u64) -> Entry {
    let start = function.code.start();
    crate::fault::register_code(start as u64, function.code.bytes().len(), owner);
    Entry(start)
}

/// Returns whether a function contains a yield.
fn has_yields(function: &Function) -> bool {
    let mut insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    insts.any(|&inst| function.dfg.insts[inst].opcode == Opcode::Yield)
}

/// Returns whether a function synchronises threads only with barriers of the whole CTA and with
/// warp barriers. Such a function has no fences, no ordered loads or stores, no yields, no asynchronous
/// copies, no library calls ([`Opcode::Syscall`]) and no calls through handles, and its atomics do
/// not order other accesses ([`orders_nothing`]).
fn only_barriers_order(function: &Function) -> bool {
    let dfg = &function.dfg;
    let used = OnceCell::new();
    let mut insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    insts.all(|&inst| {
        let data = &dfg.insts[inst];
        let constant = |index: usize| dfg.args(inst).get(index).and_then(|&v| dfg.constant(v));
        match data.opcode {
            Opcode::Ld | Opcode::St => data.mods.is_weak(),
            Opcode::Bar => {
                let whole = constant(0).is_some() && constant(1) == Some(0);
                whole && matches!(data.mods.mode(), Mode::Sync | Mode::Red)
            }
            Opcode::BarWarp | Opcode::Converge => true,
            Opcode::Atom | Opcode::Red => {
                let used = used.get_or_init(|| function.used_values());
                orders_nothing(function, inst, used)
            }
            Opcode::Fence
            | Opcode::CpAsync
            | Opcode::CheckGroup
            | Opcode::ClusterBar
            | Opcode::Yield
            | Opcode::Syscall
            | Opcode::CallIndirect => false,
            opcode => !opcode.effects().contains(Effects::FENCE),
        }
    })
}

/// Returns whether an atomic operation is relaxed and its result is unused. In a function without fences, no such
/// operation orders accesses of different threads. The result is false for a compare-and-swap,
/// because it can take a lock, and for an arrival at an mbarrier, because threads can wait for the
/// arrival.
fn orders_nothing(function: &Function, inst: Inst, used: &SecondaryMap<Value, bool>) -> bool {
    let mods = function.dfg.insts[inst].mods;
    let relaxed = mods.is_weak() || mods.order() == MemOrder::Relaxed;
    let op = mods.atom_op();
    let excluded = matches!(op, AtomOp::Cas | AtomOp::Signal | AtomOp::SignalDrop);
    let mut results = function.dfg.results(inst).iter();
    relaxed && !excluded && !results.any(|&result| used[result])
}

/// What a thread's stack contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StackUse {
    /// The stack is not used: after inlining, the code calls no function, and it does not execute `alloca`.
    None,
    /// The stack contains the local variables of functions.
    Slots,
    /// The stack contains the local variables of functions and all values that live across calls.
    Frames,
}

/// The data of a kernel that all its launches use.
pub(super) struct KernelCode {
    pub(super) module: Arc<Module>,
    /// Precomputed data of the interpreter; empty if the kernel has native code.
    pub(super) code: Arc<Code>,
    pub(super) id: FuncId,
    /// A number that no other `KernelCode` of the process has.
    pub(super) unique: u64,
    pub(super) name: String,
    /// The properties of the kernel.
    pub(super) info: KernelInfo,
    /// Addresses of the symbols that the kernel uses. For a shared variable, the address is its
    /// offset in shared memory.
    pub(super) symbols: SymbolTable,
    /// Address and size of each constant variable of the module.
    pub(super) constants: Arc<[(u64, u64)]>,
    /// The handle of the function with ID 0.
    pub(super) function_base: u64,
    pub(super) shared: SharedLayout,
    /// The native code, or the reason why the interpreter runs the kernel.
    pub(super) native: Result<Arc<NativeKernel>, CompileError>,
    /// Whether the kernel's code allows a thread to wait until memory changes.
    pub(super) may_park: bool,
    /// Whether the kernel contains an atomic update of memory that can be outside shared memory.
    pub(super) contends: bool,
    /// Whether the kernel synchronises threads only with barriers of the whole CTA and with warp barriers.
    pub(super) barriers_only: bool,
    /// What the threads' stacks contain.
    pub(super) stack: StackUse,
    /// How many bytes of stack the local variables of device functions need.
    pub(super) stack_need: StackNeed,
    pub(super) local_bytes: u32,
    /// Number of bytes of `local_bytes` that the kernel's variables occupy. The rest is padding.
    pub(super) local_end: u32,
    /// The tools that observe the kernel.
    pub(super) observers: Option<Arc<Observers>>,
    /// Table of the thread indices in a CTA of the last launch. It is kept because the next launch
    /// usually has the same block shape.
    tids: Mutex<Arc<TidTable>>,
}

impl std::fmt::Debug for KernelCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelCode({})", self.name)
    }
}

impl KernelCode {
    /// Returns the table of the thread indices in a CTA of the launch.
    pub(super) fn tids(&self, info: &LaunchInfo) -> Arc<TidTable> {
        let mut last = self.tids.lock();
        if last.block() != info.block {
            *last = Arc::new(TidTable::new(info));
        }
        Arc::clone(&last)
    }
}

/// Native code of a module's kernels. The code does not depend on the addresses of variables, so all contexts that load
/// the module share it.
pub(super) struct NativeCode {
    kernels: Vec<OnceLock<Result<Arc<NativeKernel>, CompileError>>>,
    /// The tools that observe each kernel. The code of a kernel depends on the requests of these tools.
    observers: Vec<OnceLock<Result<Option<Arc<Observers>>>>>,
    caching: Caching,
    tools: Arc<Tools>,
}

impl NativeCode {
    /// Creates an empty table for a module with `functions` functions.
    pub(super) fn new(functions: usize, caching: Caching, tools: Arc<Tools>) -> NativeCode {
        NativeCode {
            kernels: (0..functions).map(|_| OnceLock::new()).collect(),
            observers: (0..functions).map(|_| OnceLock::new()).collect(),
            caching,
            tools,
        }
    }

    /// Returns the tools that observe the kernel `id`. The first call asks each tool whether it
    /// observes the kernel; later calls return the stored result.
    fn observers(&self, id: FuncId, info: &KernelInfo) -> Result<Option<Arc<Observers>>> {
        self.observers[id.index()]
            .get_or_init(|| self.tools.observers(info))
            .clone()
    }

    fn get(
        &self,
        (module, request): (&Module, Request),
        (bodies, id): (&Bodies, FuncId),
        block: [u32; 3],
    ) -> Result<Arc<NativeKernel>, CompileError> {
        let make = || {
            let owner = crate::process::next_id();
            let settings = (self.caching, request);
            NativeKernel::new((module, id), bodies, owner, block, settings).map(Arc::new)
        };
        self.kernels[id.index()].get_or_init(make).clone()
    }
}

/// A kernel of a loaded image.
pub(super) struct PtxKernel {
    source: Arc<Source>,
    /// If the kernel has probes: its properties without the parameters that the probes add, and the probes.
    probed: Option<Shown>,
    /// The kernel's sizes. The first call that needs them waits for `reading` and sets this field.
    sizes: OnceLock<Result<KernelSizes>>,
    reading: Slot<KernelSizes>,
    /// The kernel with its compiled code; the first launch sets this field.
    ready: Slot<Arc<KernelCode>>,
    /// The kernel for the interpreter. Launches with clusters use it if tools observe whole warps, because native code
    /// runs the CTAs of a cluster region by region, and a region runs the lanes of a warp one after the other.
    interpreted: Slot<Arc<KernelCode>>,
}

/// A kernel with probes.
pub(super) struct Probed {
    /// The properties of the kernel with all parameters.
    pub(super) complete: KernelInfo,
    pub(super) probes: Arc<dyn Probes>,
}

/// The properties of a kernel that programs see, and the kernel with its probes.
type Shown = (KernelInfo, Arc<Probed>);

impl PtxKernel {
    pub(super) fn new(source: Source, probed: Option<Shown>) -> PtxKernel {
        PtxKernel {
            source: Arc::new(source),
            probed,
            sizes: OnceLock::new(),
            reading: Slot::default(),
            ready: Slot::default(),
            interpreted: Slot::default(),
        }
    }

    fn too_late(&self, why: &str) -> Error {
        let late = Fault::new(FaultKind::Timeout, &self.source.info.name);
        Error::Fault(Arc::new(late.with_detail(why)))
    }
}

/// The data from which the kernel's code is compiled.
pub(super) struct Source {
    pub(super) bodies: Arc<Bodies>,
    pub(super) native: Arc<NativeCode>,
    pub(super) choice: EngineChoice,
    pub(super) id: FuncId,
    pub(super) info: KernelInfo,
    pub(super) symbols: Arc<Symbols>,
}

/// Returns the operations for which the kernel's code must create records for the observers.
fn selection_of(observers: Option<&Observers>) -> Selection {
    observers.map(Observers::selection).unwrap_or_default()
}

/// Number of unused bytes after each shared variable in checking runs that examine accesses.
const SHARED_GAP: u64 = 64;

impl Source {
    fn find_sizes(&self) -> Result<KernelSizes> {
        // The work below parses floating-point constants.
        let _mode = FloatMode::of_device();
        // An invalid request of a tool makes launches fail, but not this query.
        let observers = self.native.observers(self.id, &self.info).ok().flatten();
        let snapshot = self
            .bodies
            .with(self.id, selection_of(observers.as_deref()))?;
        let module = &snapshot.module;
        let reached = shared::reachable(module, self.id);
        let local = reached
            .iter()
            .map(|&id| slots::layout(&module.functions[id]).1);
        let shared = shared::layout(module, &reached, 0);
        Ok(KernelSizes {
            static_shared: shared.bytes - shared.reserved,
            local_bytes: local.fold(0, u32::saturating_add),
        })
    }

    /// Returns whether a tool that observes the kernel needs records of whole warps.
    fn observes_whole_warps(&self) -> bool {
        let observers = self.native.observers(self.id, &self.info).ok().flatten();
        selection_of(observers.as_deref()).whole_warps
    }

    /// Returns [`EngineChoice::Interpreter`] for a launch that native code does not support, or an error if only native
    /// code may run the kernel.
    fn interpreter(&self) -> Result<EngineChoice> {
        match self.choice {
            EngineChoice::Native => Err(Error::unsupported(
                "native code: observation of whole warps in clusters",
            )),
            _ => Ok(EngineChoice::Interpreter),
        }
    }

    /// Compiles the kernel for the engine `choice`, and prints the fallbacks. `block` is the shape
    /// of the first launch's blocks.
    pub(super) fn make_ready(&self, block: Dim3, choice: EngineChoice) -> Result<Arc<KernelCode>> {
        // The work below parses and folds floating-point constants.
        let _mode = FloatMode::of_device();
        let observers = self.native.observers(self.id, &self.info)?;
        let snapshot = self
            .bodies
            .with(self.id, selection_of(observers.as_deref()))?;
        let reached = shared::reachable(&snapshot.module, self.id);
        self.refuse_unsupported(&snapshot.module, &reached)?;
        let gap = match snapshot.request.accesses {
            true => SHARED_GAP,
            false => 0,
        };
        let shared = shared::layout(&snapshot.module, &reached, gap);
        let symbols = self.symbols.of(&snapshot.module, &reached, &shared);
        let native = self.native(
            (&snapshot.module, snapshot.request),
            [block.x, block.y, block.z],
            choice,
        )?;
        if let Err(why) = &native {
            tracing::info!(kernel = %self.info.name, %why, "interpreted");
            if choice == EngineChoice::Auto {
                fallback::tell_interpreted(&self.info.name, why);
            }
        }
        if let Ok(kernel) = &native {
            fallback::tell_all(&self.info.name, kernel);
        }
        let (module, code) = match &native {
            Ok(_) => (Arc::clone(&snapshot.module), Arc::default()),
            Err(_) => snapshot.interpreted(),
        };
        let sync_points_of = |id: FuncId| {
            let function = &module.functions[id];
            let blocks = function.blocks().iter();
            blocks
                .flat_map(|&b| function.insts(b))
                .map(|&inst| function.effects(inst))
                .collect::<Vec<_>>()
        };
        let may_park = match &native {
            Ok(kernel) => kernel
                .compiled
                .regions
                .resume_points
                .iter()
                .filter_map(|resume_point| resume_point.sync_point)
                .any(|inst| {
                    kernel
                        .compiled
                        .function
                        .effects(inst)
                        .contains(Effects::YIELDS)
                }),
            Err(_) => reached.iter().any(|&id| {
                sync_points_of(id)
                    .iter()
                    .any(|e| e.contains(Effects::YIELDS))
            }),
        };
        let updates = |&id: &FuncId| {
            let function = &module.functions[id];
            let insts = function.blocks().iter().flat_map(|&b| function.insts(b));
            insts.map(|&inst| &function.dfg.insts[inst]).any(|data| {
                matches!(data.opcode, Opcode::Atom | Opcode::Red)
                    && data.mods.space() != StateSpace::Shared
            })
        };
        let contends = reached.iter().any(updates);
        // The module for the interpreter contains further sync points, and reports must not depend on the engine.
        let barriers_only = reached
            .iter()
            .all(|&id| only_barriers_order(&snapshot.module.functions[id]));
        let allocates = reached.iter().any(|&id| {
            let function = &module.functions[id];
            let insts = function
                .blocks()
                .iter()
                .flat_map(|&block| function.insts(block));
            let mut opcodes = insts.map(|&inst| function.dfg.insts[inst].opcode);
            opcodes.any(|opcode| matches!(opcode, Opcode::Alloca | Opcode::StackSave))
        });
        let need_of = |code: &Module| {
            stack_need(self.id, |id| {
                let function = &code.functions[id];
                (slots::layout(function).1, callees(code, function))
            })
        };
        let need = match &native {
            Ok(kernel) if kernel.compiled.keeps_frames() => need_of(&snapshot.module),
            Ok(kernel) => kernel.stack_need,
            Err(_) => need_of(&module),
        };
        Ok(Arc::new(KernelCode {
            stack_need: StackNeed {
                // Like the depth of recursion, the number of bytes that `alloca` allocates is unknown.
                recursive: need.recursive || allocates,
                ..need
            },
            stack: match &native {
                Ok(kernel) if kernel.compiled.keeps_frames() => StackUse::Frames,
                Ok(kernel) if kernel.devices.is_empty() => StackUse::None,
                Err(_) if reached.len() == 1 && !allocates => StackUse::None,
                _ => StackUse::Slots,
            },
            local_bytes: match &native {
                Ok(kernel) => kernel.compiled.local_bytes,
                Err(_) => code.local_bytes(self.id),
            },
            local_end: slots::end(match &native {
                Ok(kernel) => &kernel.compiled.function,
                Err(_) => &module.functions[self.id],
            }),
            module,
            code,
            unique: crate::process::next_id(),
            id: self.id,
            name: self.info.name.clone(),
            info: self.info.clone(),
            symbols,
            constants: Arc::clone(&self.symbols.constants),
            function_base: self.symbols.function_base,
            shared,
            native,
            may_park,
            contends,
            barriers_only,
            observers,
            tids: Mutex::default(),
        }))
    }

    /// Returns the kernel's native code or, as the inner error, the reason why the interpreter runs
    /// the kernel.
    fn native(
        &self,
        module: (&Module, Request),
        block: [u32; 3],
        choice: EngineChoice,
    ) -> Result<Result<Arc<NativeKernel>, CompileError>> {
        if choice == EngineChoice::Interpreter {
            let why = "the interpreter is selected".into();
            return Ok(Err(CompileError::Unsupported(why)));
        }
        let made = self.native.get(module, (&self.bodies, self.id), block);
        match (made, choice) {
            (Err(why), EngineChoice::Native) => {
                Err(Error::unsupported(format!("native code: {why}")))
            }
            (made, _) => Ok(made),
        }
    }

    /// Returns an error if one of the functions `reached` contains an unsupported feature, has no body, or uses a
    /// variable that no linked module defines.
    fn refuse_unsupported(&self, module: &Module, reached: &[FuncId]) -> Result<()> {
        for &id in reached {
            let function = &module.functions[id];
            if let Some((line, what)) = function.unsupported.first() {
                return Err(Error::unsupported(format!(
                    "{what} (PTX line {line}, function {})",
                    function.name
                )));
            }
            let called = id != self.id;
            if called && !function.has_body() {
                return Err(Error::UnresolvedSymbol(function.name.clone()));
            }
        }
        let named = shared::named(module, reached).into_iter();
        let mut symbols = named.map(|index| &module.symbols[SymbolId::new(index)]);
        match symbols.find(|symbol| symbol.is_undefined()) {
            Some(symbol) => Err(Error::UnresolvedSymbol(symbol.name.clone())),
            None => Ok(()),
        }
    }
}

impl Engine for PtxKernel {
    fn info(&self) -> &KernelInfo {
        match &self.probed {
            Some((shown, _)) => shown,
            None => &self.source.info,
        }
    }

    fn probes(&self) -> Option<(&Arc<dyn Probes>, &KernelInfo)> {
        let (_, probed) = self.probed.as_ref()?;
        Some((&probed.probes, &probed.complete))
    }

    fn sizes(&self, deadline: Option<Instant>) -> Result<KernelSizes> {
        if let Some(sizes) = self.sizes.get() {
            return sizes.clone();
        }
        let source = Arc::clone(&self.source);
        let Some(found) = self.reading.get(deadline, move || source.find_sizes()) else {
            return Err(self.too_late("the kernel's code was being lowered"));
        };
        self.sizes.get_or_init(|| found).clone()
    }

    fn prepare(&self, shape: LaunchShape) -> Result<Arc<dyn PreparedLaunch>> {
        let source = Arc::clone(&self.source);
        let block = shape.block;
        let (slot, choice) = match shape.cluster.count() > 1 && source.observes_whole_warps() {
            true => (&self.interpreted, source.interpreter()?),
            false => (&self.ready, source.choice),
        };
        let make = move || source.make_ready(block, choice);
        let Some(ready) = slot.get(shape.deadline, make) else {
            return Err(self.too_late("the kernel was being compiled"));
        };
        Ok(PtxLaunch::new(ready?, shape)?)
    }
}
