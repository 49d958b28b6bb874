//! Whole CTAs as programs of the vector IR, for the back ends that use the full width of the machine's vectors.

use std::mem::offset_of;
use std::time::{Duration, Instant};

use margay_ir::analysis::uniformity::Assumptions;
use margay_ir::analysis::{Alignment, Cfg, Reach, SpeculativeAffine, Uniformity};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::Function;
use margay_ops::mods::StateSpace;
use margay_ops::ops::{Effects, Opcode};
use margay_vectorise::{
    ContextLayout, DeviceTest, Facts, Group, Kernel, LocalTest, ReachTest, Refusal, StatusValues,
    assume_shape, may_accept, place_chunk, shorten_lives, vectorise,
};
use margay_vir::function::Function as VirFunction;
use margay_vir::passes;
use margay_x64::{BlockOrder, Convention, Features, Target, compile_watched, compile_with};

use super::groups::{group, sync_points_of_warps, whole_chunks, whole_group};
use super::wide_helpers::helpers;
use super::{CompiledKernel, Compiler, Form};
use crate::abi::{NativeContext, Verify, status};
use crate::addresses::{self, DescTable, HostData, Site};
use crate::cache::{Digest, DiskCache};
use crate::code_memory::CodeMemory;
use crate::emit::reach::{self, Area, is_inside, moved, writes};
use crate::error::CompileError;
use crate::fallback::Fallback;
use crate::function::{CompiledFunction, LocatedAccess};
use crate::slices::Widths;
use crate::specialisation::Specialisation;

/// When a compiler uses the wide back end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wide {
    /// Never.
    Off,
    /// On hosts with AVX-512 (F, CD, BW, DQ and VL).
    #[default]
    Avx512,
    /// On hosts with AVX2. The code uses AVX-512 if the host has it.
    Avx2,
    /// On hosts with AVX2. The code does not use AVX-512, for tests.
    OnlyAvx2,
    /// Like [`Wide::Avx512`]. Kernels with code for one shape of blocks run this code from the first launch on, for tests.
    Exact,
}

impl Wide {
    /// Returns the processor for which code is generated; `None` if the wide back end is not in use on this host.
    pub(super) fn target(self) -> Option<Target> {
        let mut target = Target::host();
        let least = match self {
            Wide::Off => return None,
            Wide::Avx512 | Wide::Exact => Features::LEVEL_AVX512,
            Wide::Avx2 => Features::LEVEL_AVX2,
            Wide::OnlyAvx2 => {
                target.features &= Features::LEVEL_AVX2;
                Features::LEVEL_AVX2
            }
        };
        target.features.contains(least).then_some(target)
    }
}

/// Where generated code finds the data of a launch.
const LAYOUT: ContextLayout = ContextLayout {
    params: offset_of!(NativeContext, params) as u32,
    shared_base: offset_of!(NativeContext, shared_base) as u32,
    local_base: offset_of!(NativeContext, local_base) as u32,
    local_stride: offset_of!(NativeContext, local_stride) as u32,
    local_bytes: offset_of!(NativeContext, local_bytes) as u32,
    ctaid: offset_of!(NativeContext, ctaid) as u32,
    ntid: offset_of!(NativeContext, ntid) as u32,
    threads: offset_of!(NativeContext, threads) as u32,
    nctaid: offset_of!(NativeContext, nctaid) as u32,
    cta: offset_of!(NativeContext, cta) as u32,
    thread: offset_of!(NativeContext, thread) as u32,
    ended_line: offset_of!(NativeContext, ended_line) as u32,
    ended_loc: offset_of!(NativeContext, ended_loc) as u32,
    sm_warps: offset_of!(NativeContext, sm_warps) as u32,
    symbols: offset_of!(NativeContext, symbols) as u32,
    tid: offset_of!(NativeContext, tid) as u32,
    reach_base: offset_of!(NativeContext, reach_base) as u32,
    reach_bytes: offset_of!(NativeContext, reach_bytes) as u32,
    phase: offset_of!(NativeContext, phase) as u32,
    alone: offset_of!(NativeContext, alone) as u32,
    moved: offset_of!(NativeContext, moved) as u32,
    lane: offset_of!(NativeContext, lane) as u32,
    turn_budget: offset_of!(NativeContext, turn_budget) as u32,
    row_threads: offset_of!(NativeContext, row_threads) as u32,
    row_start: offset_of!(NativeContext, row_start) as u32,
};

const STATUS: StatusValues = StatusValues {
    ok: status::OK as u32,
    trap: status::TRAP as u32,
    unreachable: status::UNREACHABLE as u32,
    general: status::GENERAL as u32,
};

/// What the vectoriser asks about a kernel.
struct KernelFacts<'a> {
    kernel: &'a CompiledKernel,
    isolated: bool,
    trusted: bool,
    /// The number of lanes of a chunk.
    width: u32,
}

impl Facts for KernelFacts<'_> {
    fn reach(&self, inst: Inst) -> ReachTest {
        let CompiledKernel {
            function,
            pointers,
            symbols,
            homes,
            ..
        } = self.kernel;
        let data = &function.dfg.insts[inst];
        let is_local = data.mods.space() == StateSpace::Local;
        // Local memory may have a layout that relies on the tests.
        let is_tested = self.isolated || is_local;
        if !is_tested || is_inside(function, (symbols, pointers), self.trusted, inst) {
            return ReachTest::Inside;
        }
        let bytes = moved(data);
        let properties = Verify::of(bytes, writes(data), data.mods.space(), self.width).0;
        if is_local {
            return ReachTest::Local(LocalTest { bytes, properties });
        }
        if reach::home_of(function, data) != Area::Device {
            return ReachTest::Unsupported;
        }
        let here = |def: Inst| homes[def] == homes[inst];
        let root = Reach::new(function).of(function.dfg.args(inst)[0], &here);
        let within = |distance: i128| i64::try_from(distance).ok();
        let high = root.offset.high + i128::from(bytes);
        let (Some(low), Some(high)) = (within(root.offset.low), within(high)) else {
            return ReachTest::Unsupported;
        };
        ReachTest::Device(DeviceTest {
            root: root.value,
            low,
            high,
            properties,
        })
    }

    fn alignment_root(&self, inst: Inst, bytes: u32) -> Option<Value> {
        let kernel = self.kernel;
        let alignment = Alignment {
            function: &kernel.function,
            homes: &kernel.homes,
            variable: &|symbol| kernel.symbols.get(&symbol).map(|variable| variable.align),
            multiples: self.trusted.then_some(&kernel.multiples),
        };
        alignment.root(inst, kernel.function.dfg.args(inst)[0], bytes)
    }
}

/// The maximum numbers of instructions, of blocks, and of edges between blocks of kernels that the wide back end compiles.
/// The time for larger kernels would grow faster than their size.
const MAX_INSTS: usize = 6_000;
const MAX_BLOCKS: usize = 1_000;
const MAX_EDGES: usize = 2_500;

/// Returns the number of instructions of a function.
pub(super) fn size_of(function: &Function) -> usize {
    let blocks = function.blocks().iter();
    blocks.map(|&block| function.insts(block).len()).sum()
}

/// The maximum number of instructions of kernels for which the vectoriser takes less time than reading a file.
const SMALL: usize = 100;

/// Returns whether a function is too large for the wide back end.
pub(super) fn is_large(function: &Function) -> bool {
    let blocks = function.blocks();
    let edges: usize = blocks.iter().map(|&b| function.successors(b).len()).sum();
    size_of(function) > MAX_INSTS || blocks.len() > MAX_BLOCKS || edges > MAX_EDGES
}

/// Returns the program that runs whole CTAs of a kernel, `width` threads at once. `isolated` states whether accesses must
/// be tested.
///
/// # Errors
///
/// Returns why the kernel has no such program.
fn program(
    kernel: &CompiledKernel,
    specialisation: Specialisation,
    (width, isolated): (u32, bool),
) -> Result<VirFunction, Refusal> {
    if kernel.is_observed() {
        return Err(Refusal::Operation("an observed kernel"));
    }
    if is_large(&kernel.function) {
        return Err(Refusal::Operation("a large kernel"));
    }
    let mut function = kernel.function.clone();
    if let Some(shape) = specialisation.shape() {
        assume_shape(&mut function, shape);
    }
    shorten_lives(&mut function);
    let function = &function;
    let group = match specialisation.shape() {
        Some(shape) => whole_group(function, (specialisation, shape), width),
        None => group(function, specialisation, width),
    };
    let made = translate((kernel, function), specialisation, (width, isolated), group);
    match made {
        // A group of chunks of several CTAs is not possible in all kernels.
        Err(_) if matches!(group, Group::Line(2..)) => {
            let one = group.of(1);
            translate((kernel, function), specialisation, (width, isolated), one)
        }
        made => made,
    }
}

/// Returns the program of a kernel in which the chunks of `group` run together. `function` is the kernel's function.
fn translate(
    (kernel, function): (&CompiledKernel, &Function),
    specialisation: Specialisation,
    (width, isolated): (u32, bool),
    group: Group,
) -> Result<VirFunction, Refusal> {
    let assumptions = Assumptions {
        chunks_together: group.chunks() > 1,
        // One load runs for all lanes, and lanes that stop never run again in this program.
        loads_agree: true,
        ..specialisation.assumptions(width)
    };
    let uniformity = Uniformity::new(function, assumptions);
    let speculative = SpeculativeAffine::new(function, &uniformity, &Cfg::new(function));
    vectorise(&Kernel {
        function,
        uniformity: &uniformity,
        speculative: &speculative,
        regions: &kernel.regions,
        facts: &KernelFacts {
            kernel,
            isolated,
            trusted: specialisation.is_trusted(),
            width,
        },
        width,
        shape: specialisation.shape(),
        whole_chunks: specialisation.has(Specialisation::ALIGNED),
        row_multiple: specialisation.row_multiple(width),
        group,
        layout: LAYOUT,
        status: STATUS,
    })
}

/// The widths of chunks of kernels that the wide back end compiles, if they have no collectives of warps and no loops in
/// which lanes wait.
const WIDTHS: Widths = Widths {
    wide: 32,
    narrow: 16,
    tiles: true,
    whole: 0,
};

/// See [`CompiledKernel::wide_widths`].
fn widths(kernel: &CompiledKernel) -> Option<Widths> {
    let specialisation = Specialisation::of([WIDTHS.wide, 1, 1], WIDTHS).trusted(true);
    program(kernel, specialisation, (WIDTHS.wide, true)).ok()?;
    let function = &kernel.function;
    if function.has_effects(Effects::YIELDS) {
        return Some(Widths::all(WIDTHS.wide));
    }
    let whole = whole_chunks(function);
    if !function.has_effects(Effects::SYNC_WARP) {
        return Some(Widths { whole, ..WIDTHS });
    }
    let tiled = Specialisation::of([16, Specialisation::TILE, 1], WIDTHS).trusted(true);
    let tiles = sync_points_of_warps(function).all(|opcode| opcode == Opcode::Converge)
        && group(function, tiled, 16).chunks() > 1
        && program(kernel, tiled, (16, true)).is_ok();
    Some(Widths {
        tiles,
        whole,
        ..Widths::all(WIDTHS.wide)
    })
}

/// Returns how long a kernel should run as scalar code before the wide back end compiles it: about the time that this
/// takes.
pub(super) fn compile_budget(function: &Function) -> Duration {
    Duration::from_micros(300 + 30 * size_of(function) as u64)
}

/// The maximum size in bytes of the frame of a program.
const MAX_FRAME: u32 = 128 << 10;

/// The maximum number of instructions of the vector IR of a program.
const MAX_PROGRAM: usize = 20_000;

fn size_of_program(program: &VirFunction) -> usize {
    let blocks = program.order.iter();
    blocks.map(|&block| program.body[block].len()).sum()
}

/// Returns why the vectoriser does not accept a kernel in trusted launches.
pub(super) fn refusal(kernel: &CompiledKernel) -> String {
    let specialisation = Specialisation::of([WIDTHS.wide, 1, 1], WIDTHS).trusted(true);
    match program(kernel, specialisation, (WIDTHS.wide, true)) {
        Ok(_) => "the widths of its chunks".to_owned(),
        Err(why) => why.to_string(),
    }
}

/// Returns the order of the blocks of a kernel's program. The code of kernels without barriers consists of short loops.
fn order_of(kernel: &CompiledKernel) -> BlockOrder {
    match kernel.has_sync_points() {
        false => BlockOrder::Loops,
        true => BlockOrder::Code,
    }
}

/// Returns the fallback to count if the wide back end does not compile a kernel because of this error.
pub(super) fn fallback(why: &CompileError) -> Fallback {
    match why {
        CompileError::Unsupported(_) => Fallback::WideRefused,
        CompileError::Budget(_) => Fallback::WideBudget,
        _ => Fallback::WideBackend,
    }
}

/// Returns what the passes may assume about a machine.
fn options(target: &Target) -> passes::Options {
    passes::Options {
        permutes: target.features.contains(Features::LEVEL_AVX512),
        ..passes::Options::default()
    }
}

/// Compiles the program for whole CTAs of a kernel, for chunks of `width` lanes.
///
/// # Errors
///
/// Returns [`CompileError::Unsupported`] if there is no such program, and [`CompileError::Budget`] or
/// [`CompileError::Backend`] if the back end does not support the program.
pub(super) fn code(
    kernel: &CompiledKernel,
    compiler: &Compiler,
    specialisation: Specialisation,
    (width, target): (u32, Target),
) -> Result<CompiledFunction, CompileError> {
    let made = program(kernel, specialisation, (width, compiler.isolated));
    let mut program = made.map_err(|why| CompileError::Unsupported(why.to_string()))?;
    passes::optimise(&mut program, &options(&target));
    if size_of_program(&program) > MAX_PROGRAM {
        return Err(CompileError::Budget(format!(
            "more than {MAX_PROGRAM} instructions of the vector IR"
        )));
    }
    let code = compile_with(&program, &target, Convention::Registers, order_of(kernel))
        .map_err(|why| CompileError::Backend(why.to_string()))?;
    if code.quick_registers {
        kernel.fallbacks.note(Fallback::QuickRegisters);
    }
    if code.frame > MAX_FRAME {
        return Err(CompileError::Budget("the frame of wide code".into()));
    }
    let sites = code.symbols.iter().map(|slot| Site {
        offset: slot.offset,
        target: slot.symbol.into(),
    });
    let sites: Vec<Site> = sites.collect();
    let operations = code.operations.into_boxed_slice();
    let mut bytes = code.bytes;
    let host = HostData {
        descs: &DescTable::default(),
        sync_points: &kernel.sync_points,
        operations: &operations,
        helpers: &helpers(),
    };
    addresses::fill(&mut bytes, &sites, host)
        .ok_or_else(|| CompileError::Backend("a symbol that does not exist".into()))?;
    let located = |place: u64| {
        let loc = kernel.function.dfg.locs[Inst(place as u32)];
        (loc, place_chunk(place) * width)
    };
    let locs = code.places.iter().map(|place| {
        let (loc, lane) = located(place.place);
        (place.offset, loc, lane)
    });
    let groups = code.groups.iter().map(|group| {
        let accesses = group.iter().map(|&access| {
            let (loc, lane) = located(access.place);
            LocatedAccess { access, loc, lane }
        });
        accesses.collect()
    });
    Ok(CompiledFunction {
        code: CodeMemory::new(&bytes).map_err(|error| CompileError::Memory(error.to_string()))?,
        locs: locs.collect(),
        descs: DescTable::default(),
        groups: groups.collect(),
        places: code.places.into_boxed_slice(),
        sites,
        operations,
        only_from_start: true,
    })
}

impl CompiledKernel {
    /// Returns whether the wide back end may compile the kernel. Does not translate the kernel.
    pub(super) fn may_be_wide(&self, compiler: &Compiler) -> bool {
        compiler.wide.is_some()
            && compiler.width.is_none()
            && !self.is_observed()
            && !is_large(&self.function)
            && may_accept(&self.function)
    }

    /// Returns the widths of chunks of the kernel; `None` if the vectoriser does not accept the kernel in trusted launches.
    /// The disk cache keeps them, because the vectoriser must translate the kernel to find them.
    pub(super) fn wide_widths(&self, compiler: &Compiler) -> Option<Widths> {
        if let Some(found) = self.stored_wide_widths(compiler) {
            return found;
        }
        let found = widths(self);
        if let Some(cache) = &compiler.cache
            && !self.is_small()
            && let Ok(bytes) = postcard::to_stdvec(&found)
        {
            cache.write_data(&self.key_of_widths(compiler, cache), &bytes);
        }
        found
    }

    /// Returns the widths for the wide back end if the disk cache contains them, or if the kernel is small. Returns nothing
    /// without a disk cache.
    pub(super) fn known_wide_widths(&self, compiler: &Compiler) -> Option<Widths> {
        compiler.cache.as_ref()?;
        match self.stored_wide_widths(compiler) {
            None if !self.is_small() => None,
            _ => Some(self.widths(compiler)),
        }
    }

    /// Returns whether the widths of the kernel are found in less time than a file is read.
    fn is_small(&self) -> bool {
        size_of(&self.function) <= SMALL
    }

    fn key_of_widths(&self, compiler: &Compiler, cache: &DiskCache) -> Digest {
        compiler.key(cache, self, "widths of the wide back end")
    }

    fn stored_wide_widths(&self, compiler: &Compiler) -> Option<Option<Widths>> {
        let cache = compiler.cache.as_ref().filter(|_| !self.is_small())?;
        let decode = |bytes: &[u8]| postcard::from_bytes(bytes).ok();
        cache.read_data(&self.key_of_widths(compiler, cache), decode)
    }

    /// Returns the form of the wide back end for a specialisation; `None` if the back end is not in use or does not accept
    /// the kernel.
    pub(super) fn wide_form(
        &self,
        compiler: &Compiler,
        specialisation: Specialisation,
    ) -> Option<Form> {
        let target = compiler.wide.filter(|_| !specialisation.is_single())?;
        let is_accepted = compiler.width.is_some() || self.chosen_widths(compiler).1;
        let width = self.width(compiler, specialisation);
        is_accepted.then_some(Form::Wide(specialisation, width, target))
    }
}

/// A stage of the compilation of a kernel's program for whole CTAs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage {
    /// The name of the stage.
    pub name: &'static str,
    /// How long the stage took.
    pub time: Duration,
    /// The number of blocks of the vector IR after the stage.
    pub blocks: usize,
    /// The number of instructions after the stage: of the vector IR, or of the machine; after the last stage, the number of
    /// bytes of code.
    pub instructions: usize,
}

impl Compiler {
    /// Compiles a kernel's program for whole CTAs and returns the stages; none if there is no such program.
    pub fn wide_stages(&self, kernel: &CompiledKernel) -> Vec<Stage> {
        let mut stages = Vec::new();
        let specialisation = kernel.shown(self);
        let Some(Form::Wide(_, width, target)) = kernel.wide_form(self, specialisation) else {
            return stages;
        };
        let start = Instant::now();
        widths(kernel);
        let chosen = start.elapsed();
        let start = Instant::now();
        let Ok(mut program) = program(kernel, specialisation, (width, self.isolated)) else {
            return stages;
        };
        let mut put = |name, time, blocks, instructions| {
            stages.push(Stage {
                name,
                time,
                blocks,
                instructions,
            });
        };
        put("widths", chosen, 0, size_of(&kernel.function));
        put(
            "vectorise",
            start.elapsed(),
            program.order.len(),
            size_of_program(&program),
        );
        passes::optimise_watched(&mut program, &options(&target), |pass, time, program| {
            put(
                pass.name,
                time,
                program.order.len(),
                size_of_program(program),
            );
        });
        let blocks = program.order.len();
        let compiled = compile_watched(
            &program,
            &target,
            (Convention::Registers, order_of(kernel)),
            |name, time, size| {
                put(name, time, blocks, size);
            },
        );
        match compiled {
            Ok(_) => stages,
            Err(_) => Vec::new(),
        }
    }

    /// Returns the text of the vector IR of a kernel's CTA form, for display.
    ///
    /// # Errors
    /// Returns [`CompileError::Unsupported`] if the kernel has no such form.
    pub fn vir(&self, kernel: &CompiledKernel) -> Result<String, CompileError> {
        let specialisation = kernel.shown(self);
        // The widths of a kernel that the vectoriser refuses are those of other code.
        let width = match kernel.width(self, specialisation) {
            width if width >= WIDTHS.narrow => width,
            _ => WIDTHS.wide,
        };
        let made = program(kernel, specialisation, (width, self.isolated));
        let made = made.map_err(|why| CompileError::Unsupported(why.to_string()))?;
        Ok(made.to_string())
    }
}
