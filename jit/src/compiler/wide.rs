//! Whole CTAs as programs of the vector IR, for the back ends that use the full width of the machine's vectors.

use std::mem::offset_of;
use std::time::Duration;

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
use margay_x64::apply::margay_x64_apply;
use margay_x64::code::Symbol;
use margay_x64::{BlockOrder, Convention, Features, Target, compile_with};

use super::groups::{group, sync_points_of_warps, whole_chunks, whole_group};
use super::wide_helpers::helpers;
use super::{CompiledKernel, Compiler};
use crate::abi::{NativeContext, Verify, status};
use crate::addresses::DescTable;
use crate::code_memory::CodeMemory;
use crate::emit::reach::{self, Area, is_inside, moved, writes};
use crate::error::CompileError;
use crate::function::CompiledFunction;
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

fn is_large(function: &Function) -> bool {
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

/// Returns the widths of chunks of a kernel; `None` if the vectoriser does not accept the kernel in trusted launches.
pub(super) fn widths(kernel: &CompiledKernel) -> Option<Widths> {
    let specialisation = Specialisation::of([WIDTHS.wide, 1, 1], WIDTHS).trusted(true);
    if kernel.is_observed() || !may_accept(&kernel.function) {
        return None;
    }
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

/// Compiles the program for whole CTAs of a kernel. Returns `None` if the back end is not in use or does not support the
/// program, or if there is no such program.
pub(super) fn code(
    kernel: &CompiledKernel,
    compiler: &Compiler,
    specialisation: Specialisation,
) -> Option<CompiledFunction> {
    let target = compiler.wide.filter(|_| !specialisation.is_single())?;
    let width = kernel.width(compiler, specialisation);
    let mut program = program(kernel, specialisation, (width, compiler.isolated)).ok()?;
    passes::optimise(&mut program, &passes::Options::default());
    // The code of kernels without barriers consists of short loops.
    let order = match kernel.regions.resume_points.len() {
        1 => BlockOrder::Loops,
        _ => BlockOrder::Code,
    };
    let code = compile_with(&program, &target, Convention::Registers, order).ok()?;
    if code.frame > MAX_FRAME {
        return None;
    }
    let operations = code.operations.into_boxed_slice();
    let mut bytes = code.bytes;
    for slot in &code.symbols {
        let address = match slot.symbol {
            Symbol::Apply => margay_x64_apply as *const () as u64,
            Symbol::Operation(number) => std::ptr::from_ref(&operations[number as usize]) as u64,
            Symbol::Helper(number) => *helpers().get(number as usize)?,
        };
        let at = slot.offset as usize;
        bytes
            .get_mut(at..at + 8)?
            .copy_from_slice(&address.to_ne_bytes());
    }
    let locs = code.places.iter().map(|place| {
        let loc = kernel.function.dfg.locs[Inst(place.place as u32)];
        (place.offset, loc, place_chunk(place.place) * width)
    });
    Some(CompiledFunction {
        code: CodeMemory::new(&bytes).ok()?,
        locs: locs.collect(),
        descs: DescTable::default(),
        places: code.places.into_boxed_slice(),
        sites: Vec::new(),
        operations,
        only_from_start: true,
    })
}

impl Compiler {
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
