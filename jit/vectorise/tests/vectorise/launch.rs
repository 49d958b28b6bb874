//! Runs launches: as a VIR program, or one thread after the other.

use margay_ir::analysis::regions::FRAME_ALIVE;
use margay_ir::analysis::uniformity::Assumptions;
use margay_ir::analysis::{Cfg, Regions, SpeculativeAffine, Uniformity};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::Function;
use margay_ir::sync_point::SyncPoint;
use margay_ops::meaning::{Bits, mask};
use margay_ops::mods::StateSpace;
use margay_ops::ops::Effects;
use margay_ops::types::Type;
use margay_vectorise::{
    ContextLayout, Facts, Group, Kernel, LocalTest, ReachTest, Refusal, StatusValues, assume_shape,
    runs_several_ctas, vectorise,
};
use margay_vir::interpreter::{Environment, Fault, run};
use margay_vir::meaning::Lanes;
use margay_vir::verify;

use crate::thread::{End, Running, Thread};

const CONTEXT: u64 = 0x1000;
const PARAMS: u64 = 0x2000;
const TIDS: u64 = 0x4000;
/// The address of the memory of the kernels.
pub(crate) const DATA: u64 = 0x10000;
/// The address of the frames.
const FRAMES: u64 = 0x4000_0000;
/// The address of the window of shared memory.
const SHARED: u64 = 0x8000_0000;
const SHARED_BYTES: usize = 4096;
/// The address of the window of local memory, and the size of the local memory of a thread.
const LOCAL: u64 = 0xc000_0000;
pub(crate) const LOCAL_BYTES: u32 = 64;

/// The layout of the context in the tests.
pub(crate) const LAYOUT: ContextLayout = ContextLayout {
    params: 0,
    shared_base: 8,
    ctaid: 16,
    ntid: 28,
    threads: 40,
    nctaid: 44,
    cta: 56,
    thread: 64,
    ended_line: 68,
    ended_loc: 72,
    sm_warps: 76,
    symbols: 80,
    tid: 88,
    reach_base: 96,
    reach_bytes: 104,
    phase: 112,
    alone: 116,
    moved: 120,
    lane: 124,
    local_base: 128,
    local_stride: 136,
    local_bytes: 144,
    turn_budget: 152,
    row_threads: 156,
    row_start: 160,
};

const TRAP: u32 = 2;
const GENERAL: u32 = 7;

/// A launch: its shape, its arguments and the memory of the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) arguments: Vec<u64>,
    pub(crate) data: Vec<u8>,
    /// The number of iterations after which lanes of waiting loops yield.
    pub(crate) turns: u32,
}

impl Launch {
    /// Returns the address of the arguments.
    pub(crate) fn params(&self) -> u64 {
        PARAMS
    }

    /// Returns the address of shared memory.
    pub(crate) fn shared(&self) -> u64 {
        SHARED
    }

    /// Returns the address of the local memory of a thread.
    pub(crate) fn local(&self, linear: u32) -> u64 {
        LOCAL + u64::from(LOCAL_BYTES * linear)
    }

    fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Returns the memory. Other memory follows the local memory of the threads.
    fn memory(&self) -> Memory {
        let mut memory = Memory {
            parts: vec![
                (CONTEXT, vec![0; 256]),
                (
                    PARAMS,
                    self.arguments
                        .iter()
                        .flat_map(|a| a.to_le_bytes())
                        .collect(),
                ),
                (TIDS, Vec::new()),
                (FRAMES, vec![0xcc; 1 << 16]),
                (
                    LOCAL,
                    vec![0xcc; (LOCAL_BYTES * self.threads() + 4096) as usize],
                ),
                (DATA, self.data.clone()),
                (SHARED, vec![0; SHARED_BYTES]),
            ],
        };
        for linear in 0..self.threads() {
            let words = coordinates(linear, self.block).into_iter().chain([0]);
            memory.parts[2].1.extend(words.flat_map(u32::to_le_bytes));
        }
        let mut set = |offset: u32, bytes: u32, value: u64| {
            memory.write(CONTEXT + u64::from(offset), bytes, value.into());
        };
        set(LAYOUT.params, 8, PARAMS);
        set(LAYOUT.shared_base, 8, SHARED);
        set(LAYOUT.local_base, 8, LOCAL);
        set(LAYOUT.local_stride, 4, LOCAL_BYTES.into());
        set(LAYOUT.local_bytes, 8, LOCAL_BYTES.into());
        set(LAYOUT.turn_budget, 4, self.turns.into());
        set(LAYOUT.tid, 8, TIDS);
        set(LAYOUT.threads, 4, self.threads().into());
        for axis in 0..3 {
            set(LAYOUT.ntid + 4 * axis, 4, self.block[axis as usize].into());
            set(LAYOUT.nctaid + 4 * axis, 4, self.grid[axis as usize].into());
        }
        memory
    }

    /// Returns a thread of the CTA with the linear index `cta`.
    fn thread(&self, cta: u64, linear: u32) -> Thread {
        Thread {
            ctaid: coordinates(cta as u32, self.grid),
            tid: coordinates(linear, self.block),
            linear,
        }
    }

    /// Makes the CTA with the linear index `cta` the first that runs.
    fn begin_at(&self, cta: u64, memory: &mut Memory) {
        memory.write(CONTEXT + u64::from(LAYOUT.cta), 8, cta.into());
        for (axis, index) in (0u32..).zip(coordinates(cta as u32, self.grid)) {
            let field = LAYOUT.ctaid + 4 * axis;
            memory.write(CONTEXT + u64::from(field), 4, index.into());
        }
    }

    fn ctas(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }
}

/// Returns the coordinates of the element `linear` of a block or grid, x first.
fn coordinates(linear: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    [linear % x, linear / x % y, linear / x / y]
}

/// Memory: ranges of accessible bytes.
pub(crate) struct Memory {
    parts: Vec<(u64, Vec<u8>)>,
}

impl Memory {
    fn part(&mut self, address: u64, bytes: u32) -> Option<&mut [u8]> {
        self.parts.iter_mut().find_map(|(base, part)| {
            let start = usize::try_from(address.checked_sub(*base)?).ok()?;
            part.get_mut(start..)?.get_mut(..bytes as usize)
        })
    }

    /// Reads `bytes` bytes.
    pub(crate) fn read(&mut self, address: u64, bytes: u32) -> Option<Bits> {
        let part = self.part(address, bytes)?.iter().rev();
        Some(part.fold(0, |bits, &byte| bits << 8 | Bits::from(byte)))
    }

    /// Writes `bytes` bytes.
    pub(crate) fn write(&mut self, address: u64, bytes: u32, value: Bits) -> Option<()> {
        let part = self.part(address, bytes)?;
        part.copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        Some(())
    }
}

impl Environment for Memory {
    fn load(&mut self, address: u64, bytes: u32) -> Option<Bits> {
        self.read(address, bytes)
    }

    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Option<()> {
        self.write(address, bytes, value)
    }

    fn slot(&mut self, _: usize) -> u64 {
        0
    }

    fn call(&mut self, _: usize, _: &[Bits], _: &mut [Bits]) -> Option<()> {
        None
    }
}

/// Facts that are always right: every access is inside, except those of local memory, and no alignment is known.
pub(crate) struct Nothing<'a>(pub(crate) &'a Function);

impl Facts for Nothing<'_> {
    fn reach(&self, inst: Inst) -> ReachTest {
        let data = &self.0.dfg.insts[inst];
        match data.mods.space() {
            StateSpace::Local => ReachTest::Local(LocalTest {
                bytes: data.ty.bits() / 8 * data.mods.vec().max(1),
                properties: 0,
            }),
            _ => ReachTest::Inside,
        }
    }

    fn alignment_root(&self, inst: Inst, _: u32) -> Option<Value> {
        Some(self.0.dfg.args(inst)[0])
    }
}

/// The end of a launch and the memory afterwards.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) data: Vec<u8>,
    pub(crate) shared: Vec<u8>,
}

fn outcome(end: End, mut memory: Memory) -> Outcome {
    let shared = memory.parts.pop().expect("shared memory").1;
    let data = memory.parts.pop().expect("data").1;
    Outcome { end, data, shared }
}

/// Vectorises a kernel for chunks of `width` lanes and checks the program with the verifier.
pub(crate) fn program(
    function: &Function,
    block: [u32; 3],
    width: u32,
) -> Result<margay_vir::function::Function, Refusal> {
    let group = grouping(function, block, width);
    match grouped(function, block, (width, group)) {
        // A group of chunks of several CTAs is not possible in all kernels.
        Err(_) if !block[0].is_multiple_of(group.chunks() * width) => {
            grouped(function, block, (width, Group::Line(1)))
        }
        made => made,
    }
}

/// Returns the chunks that run together in programs for any shape.
fn grouping(function: &Function, [x, y, z]: [u32; 3], width: u32) -> Group {
    if function.has_effects(Effects::YIELDS) {
        Group::Line(1)
    } else if x == width && z == 1 && y.is_multiple_of(4) {
        Group::Rows(4)
    } else if x.is_multiple_of(4 * width) {
        Group::Line(4)
    } else if x.is_multiple_of(2 * width) || x.is_multiple_of(width) && runs_several_ctas(function)
    {
        Group::Line(2)
    } else {
        Group::Line(1)
    }
}

/// Vectorises a kernel for the shape `block` only, with all chunks of a CTA together or one after the other. Returns `None`
/// if the chunks are not in rows, or if the kernel yields.
pub(crate) fn whole_program(
    function: &Function,
    block: [u32; 3],
    (width, in_turn): (u32, bool),
) -> Option<Result<margay_vir::function::Function, Refusal>> {
    let [x, y, z] = block;
    let chunks = x * y / width;
    let fits = x.is_multiple_of(width) && z == 1 && chunks > 1;
    if !fits || function.has_effects(Effects::YIELDS) {
        return None;
    }
    let mut function = function.clone();
    assume_shape(&mut function, block);
    let group = match in_turn {
        true => Group::Each { chunks, x },
        false => Group::All { chunks, x },
    };
    Some(grouped(&function, block, (width, group)))
}

/// Vectorises a kernel for chunks of `width` lanes, of which a group runs together.
fn grouped(
    function: &Function,
    block: [u32; 3],
    (width, group): (u32, Group),
) -> Result<margay_vir::function::Function, Refusal> {
    let assumptions = Assumptions {
        chunks_together: group.chunks() > 1,
        ..Assumptions::of_slices(block, width)
    };
    let uniformity = Uniformity::new(function, assumptions);
    let cfg = Cfg::new(function);
    let speculative = SpeculativeAffine::new(function, &uniformity, &cfg);
    let regions = Regions::new(function, &cfg);
    let threads: u32 = block.iter().product();
    let made = vectorise(&Kernel {
        function,
        uniformity: &uniformity,
        speculative: &speculative,
        regions: &regions,
        facts: &Nothing(function),
        width,
        shape: matches!(group, Group::All { .. } | Group::Each { .. }).then_some(block),
        whole_chunks: threads.is_multiple_of(width),
        row_multiple: block[0],
        group,
        layout: LAYOUT,
        status: StatusValues {
            ok: 0,
            trap: TRAP,
            unreachable: 3,
            general: GENERAL,
        },
    })?;
    let problems = verify::function(&made);
    assert!(problems.is_empty(), "{problems:?}\n{}", made);
    Ok(made)
}

/// Runs a launch as a VIR program.
pub(crate) fn vectorised(function: &Function, launch: &Launch, width: u32) -> Outcome {
    vectorised_and_yielded(function, launch, width).0
}

/// Runs a launch as a VIR program. Returns also how many threads have stopped at sync points.
pub(crate) fn vectorised_and_yielded(
    function: &Function,
    launch: &Launch,
    width: u32,
) -> (Outcome, usize) {
    let made = program(function, launch.block, width);
    let made = made.unwrap_or_else(|refusal| panic!("{refusal}"));
    outcome_of(&made, function, launch)
}

/// Runs a launch with a VIR program of its kernel. Returns also how many threads have yielded.
pub(crate) fn outcome_of(
    made: &margay_vir::function::Function,
    function: &Function,
    launch: &Launch,
) -> (Outcome, usize) {
    let mut memory = launch.memory();
    let regions = Regions::new(function, &Cfg::new(function));
    let has_frames = regions.resume_points.len() > 1;
    let (mut first, mut stopped, mut count) = (0, Vec::new(), 0);
    let end = loop {
        let second = if has_frames { FRAMES } else { first };
        let args: Vec<Lanes> = [CONTEXT, second, launch.ctas() - first]
            .map(|value| Lanes::from_slice(&[value.into()]))
            .into();
        match run(made, &args, &mut memory, 50_000_000) {
            Ok(returned) if returned[0][0] == 0 => break End::Exit,
            Ok(returned) if returned[0][0] == u128::from(GENERAL) => {
                let cta = memory.read(CONTEXT + u64::from(LAYOUT.cta), 8);
                let cta = cta.expect("the context has the field") as u64;
                let mut threads = stopped_threads((function, &regions), launch, &mut memory, cta);
                count += threads.len();
                take_turns(&mut threads, launch, &mut memory);
                stopped.push(threads);
                first = cta + 1;
                if first == launch.ctas() {
                    break End::Exit;
                }
                launch.begin_at(first, &mut memory);
            }
            Ok(returned) => {
                assert_eq!(returned[0][0], u128::from(TRAP));
                break End::Trap;
            }
            Err(Fault { cause, .. }) => {
                let is_step = matches!(cause, margay_vir::interpreter::Cause::Steps);
                assert!(!is_step, "no end");
                break End::Fault;
            }
        }
    };
    for mut threads in stopped {
        take_turns(&mut threads, launch, &mut memory);
        assert!(threads.is_empty(), "{} threads wait", threads.len());
    }
    (outcome(end, memory), count)
}

/// Returns the threads of a CTA that have stopped at sync points, with the state that the frames contain.
fn stopped_threads<'a>(
    (function, regions): (&'a Function, &Regions),
    launch: &Launch,
    memory: &mut Memory,
    cta: u64,
) -> Vec<Running<'a>> {
    let moved = memory.read(CONTEXT + u64::from(LAYOUT.moved), 4);
    assert_eq!(moved, Some(launch.threads().div_ceil(32).into()));
    let mut read = |address: u64, bytes: u32| memory.read(address, bytes).expect("a frame");
    let mut stopped = Vec::new();
    for linear in 0..launch.threads() {
        let (warp, lane) = (linear / 32, linear % 32);
        let frame = FRAMES + u64::from(warp * regions.frame_bytes);
        let point = read(frame + u64::from(4 * lane), 4) as u32;
        if read(frame + u64::from(FRAME_ALIVE), 4) >> lane & 1 == 0 {
            assert_eq!(point, SyncPoint::EXIT.0);
            continue;
        }
        let point = &regions.resume_points[point as usize];
        let values = point.live_in.iter().map(|&value| {
            let ty = match function.dfg.ty(value) {
                Type::PRED => Type::B8,
                ty => ty,
            };
            let offset = regions.lane_offset(value, ty, lane).expect("a place");
            (value, read(frame + u64::from(offset), ty.lane_bytes()))
        });
        stopped.push((linear, point, values.collect::<Vec<_>>()));
    }
    let resumed = stopped.into_iter().map(|(linear, point, values)| {
        let thread = launch.thread(cta, linear);
        let inst = point.sync_point.expect("a sync point");
        let start = (point.block, function.dfg.insts[inst].opcode);
        let is_made_again = |value| regions.is_rematerialised(value);
        let with = (launch, &mut *memory);
        Running::resume((function, thread), start, values, is_made_again, with)
    });
    resumed.collect()
}

/// Runs the threads of a CTA in turns until each has ended or none makes progress.
fn take_turns(threads: &mut Vec<Running<'_>>, launch: &Launch, memory: &mut Memory) {
    for _ in 0..1000 {
        threads.retain_mut(|thread| {
            thread.is_at_barrier
                || match thread.run(launch, memory) {
                    End::Exit => false,
                    End::Yield => true,
                    End::Barrier => {
                        thread.is_at_barrier = true;
                        true
                    }
                    end => panic!("{end:?}"),
                }
        });
        if threads.iter().all(|thread| thread.is_at_barrier) {
            for thread in threads.iter_mut() {
                thread.is_at_barrier = false;
            }
        }
    }
}

/// Runs a launch one thread after the other, from barrier to barrier, up to the first thread that does not exit.
pub(crate) fn single(function: &Function, launch: &Launch) -> Outcome {
    let mut memory = launch.memory();
    for cta in 0..launch.ctas() {
        let all = 0..launch.threads();
        let mut running: Vec<Running> = all
            .map(|n| Running::new(function, launch.thread(cta, n)))
            .collect();
        while !running.is_empty() {
            let mut at_barrier = Vec::new();
            for mut thread in running {
                match thread.run(launch, &mut memory) {
                    End::Exit => {}
                    End::Barrier => at_barrier.push(thread),
                    end => return outcome(end, memory),
                }
            }
            running = at_barrier;
        }
    }
    outcome(End::Exit, memory)
}

/// Returns the 32-bit words of memory.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| Bits::from(u32::from_le_bytes(word.try_into().expect("four bytes"))) & mask(32))
        .map(|bits| bits as u32)
        .collect()
}
