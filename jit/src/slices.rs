//! Chunk widths: how many lanes of a kernel run together in vector registers.

use std::time::Duration;

use margay_ir::analysis::uniformity::{Assumptions, Class};
use margay_ir::analysis::{Cfg, Regions, Uniformity, liveness};
use margay_ir::entity::{Block, Value};
use margay_ir::function::Function;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::Kind;
use rustc_hash::FxHashSet;

use crate::fallback::{Fallback, Fallbacks};

/// Approximate maximum number of vector instructions of a native function. More instructions would take too long to
/// compile.
const BUDGET: usize = 20_000;
/// Maximum number of live vectors at the start of a block. This limit does not apply to chunks of 4 lanes. An x86-64
/// machine with AVX has only 16 vector registers, but a moderate number of spills costs little.
const MAX_LIVE: usize = 40;
/// The limit that replaces [`MAX_LIVE`] for chunks of a whole warp, if the kernel has ops that synchronise the lanes of
/// a warp (`Effects::SYNC_WARP`) other than matrix multiplies. This limit is higher than
/// [`MAX_LIVE`] because, with narrower chunks, the host would have to perform the collectives among
/// these ops.
const MAX_LIVE_WARP: usize = 160;
/// Maximum number of blocks of a function with vector code. The time to order the blocks of masked code grows with the
/// number of blocks and the nesting depth of loops.
const MAX_BLOCKS: usize = 2_000;
/// Maximum number of edges between the blocks of a function with vector code. The limit is needed because the analysis
/// follows the edges from each branch to find where the lanes reconverge, and because masked code updates a mask for
/// each edge. Only a function with branch tables can exceed this limit without exceeding
/// [`MAX_BLOCKS`].
const MAX_EDGES: usize = 4 * MAX_BLOCKS;

/// Maximum number of vectors that are live after sync points, summed over all sync points. Code for diverged lanes
/// stores and reloads each of these vectors, which costs compile time: code with twice this number takes seconds to
/// compile.
const MAX_SAVED: usize = 1_600;

/// Maximum number of live vectors at any position, including positions inside blocks, for chunks of a whole warp in a
/// kernel without ops that synchronise the lanes of a warp. (Matrix multiplies are permitted.)
const MAX_LIVE_WIDE: usize = 32;

/// Minimum number of lanes per chunk of vector code.
pub(crate) const MIN_WIDTH: u32 = 4;

/// Number of lanes per chunk of a kernel, which is 1 for scalar code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Widths {
    /// Width for block shapes in which every chunk of this width is in one row of the block.
    pub wide: u32,
    /// Width for other block shapes, at most `wide`.
    pub narrow: u32,
    /// Whether the width is 16 for blocks whose rows have 16 threads, if the wide back end may run several rows together.
    pub tiles: bool,
    /// The maximum number of chunks of a block that the wide back end runs together in code for one shape of blocks; 0 if
    /// there is no such code.
    pub whole: u32,
}

impl Widths {
    /// Returns widths that are equal to `width` for all block shapes.
    pub const fn all(width: u32) -> Widths {
        Widths {
            wide: width,
            narrow: width,
            tiles: width == 16,
            whole: 0,
        }
    }
}

/// Chooses the chunk widths of a function. If `asked` is given, it replaces the preferred width, and the limits on the
/// number of live vectors do not apply. All other limits still apply.
pub(crate) fn widths(
    function: &Function,
    regions: &Regions,
    asked: Option<u32>,
    fallbacks: &Fallbacks,
) -> Widths {
    let blocks = function.blocks();
    if asked == Some(1) {
        return Widths::all(1);
    }
    let edges: usize = blocks.iter().map(|&b| function.successors(b).len()).sum();
    if blocks.len() > MAX_BLOCKS || edges > MAX_EDGES {
        fallbacks.note(Fallback::SingleBlocks);
        return Widths::all(1);
    }
    let mut insts = 0usize;
    let mut meets = false;
    for &block in blocks {
        for &inst in function.insts(block) {
            let data = &function.dfg.insts[inst];
            insts += 1;
            meets |= data.opcode.effects().contains(Effects::SYNC_WARP)
                && !matches!(data.opcode, Opcode::Mma);
            let results = function.dfg.results(inst).iter();
            let args = function.dfg.args(inst).iter();
            if results
                .chain(args)
                .any(|&value| function.dfg.ty(value).kind() == Kind::B128)
            {
                fallbacks.note(Fallback::SingleWide);
                return Widths::all(1);
            }
        }
    }
    let wanted = asked.unwrap_or(if meets { 32 } else { 16 });
    let (live, within) = match asked {
        None => live_words(function),
        Some(_) => (0, usize::MAX),
    };
    let saved = saved(regions);
    // The native function contains two copies of the code, with and without masks. Each IR instruction becomes about
    // one vector instruction for every four lanes.
    let refused = |width: u32| {
        let vectors = width as usize / 4;
        let most = match width {
            32 if meets => MAX_LIVE_WARP,
            _ => MAX_LIVE.max(live),
        };
        if width > wanted {
            return Some(None);
        }
        if insts * vectors * 2 > BUDGET {
            return Some(Some(Fallback::NarrowCode));
        }
        if live * vectors > most {
            return Some(Some(Fallback::NarrowLive));
        }
        (saved * vectors > MAX_SAVED).then_some(Some(Fallback::NarrowSaved))
    };
    let mut narrow = 1;
    for width in [wanted, 16, 8, MIN_WIDTH] {
        match refused(width) {
            None => {
                narrow = width;
                break;
            }
            Some(why) => why.into_iter().for_each(|why| fallbacks.note(why)),
        }
    }
    if narrow == 1 {
        fallbacks.note(Fallback::SingleCode);
    }
    let room =
        insts * 16 <= BUDGET && saved * 8 <= MAX_SAVED && within.saturating_mul(8) <= MAX_LIVE_WIDE;
    Widths {
        wide: if narrow == 16 && room { 32 } else { narrow },
        narrow,
        tiles: narrow == 16,
        whole: 0,
    }
}

/// Counts the values that are live after sync points, summed over all sync points.
fn saved(regions: &Regions) -> usize {
    regions
        .resume_points
        .iter()
        .map(|resume_point| resume_point.live_in.len())
        .sum()
}

/// Counts the 32-bit words that the live varying values of one lane occupy. Returns the maximum over the starts of
/// blocks, and the maximum over all positions in the code.
pub(crate) fn live_words(function: &Function) -> (usize, usize) {
    let cfg = Cfg::new(function);
    let rows = Assumptions {
        width: 16,
        whole_rows: true,
        ntid_x_zeros: 4,
        loads_agree: false,
        chunks_together: false,
    };
    let uniformity = Uniformity::new(function, rows);
    let scalar = |value| uniformity.class(value) != Class::Varying;
    let live = liveness::live_in(function, &cfg, |_: Block| true, scalar, |_| {});
    let words = |value: Value| function.dfg.ty(value).lane_bytes().div_ceil(4) as usize;
    let (mut starts, mut anywhere) = (0, 0);
    for &block in cfg.rpo() {
        let start: usize = live[block].iter().map(|&value| words(value)).sum();
        starts = starts.max(start);
        let mut here: FxHashSet<Value> = FxHashSet::default();
        for call in function.successors(block) {
            let params = &function.dfg.blocks[call.block].params;
            let through = live[call.block]
                .iter()
                .filter(|value| !params.contains(value));
            here.extend(call.args.iter().chain(through));
        }
        here.retain(|&value| !scalar(value));
        let mut sum: usize = here.iter().map(|&value| words(value)).sum();
        for &inst in function.insts(block).iter().rev() {
            for &result in function.dfg.results(inst) {
                if here.remove(&result) {
                    sum -= words(result);
                }
            }
            for &arg in function.dfg.args(inst) {
                if !scalar(arg) && here.insert(arg) {
                    sum += words(arg);
                }
            }
            anywhere = anywhere.max(sum);
        }
    }
    (starts, anywhere.max(starts))
}

/// Returns the compile budget: how long a kernel should run as scalar code before vector code is compiled. The budget
/// is about the time that compiling the vector code takes.
pub(crate) fn compile_budget(function: &Function, regions: &Regions, width: u32) -> Duration {
    let insts: usize = function
        .blocks()
        .iter()
        .map(|&block| function.insts(block).len())
        .sum();
    let each = (width as usize / 4).max(1);
    let (vectors, saved) = (insts * each * 2, saved(regions) * each);
    Duration::from_micros(1000 + 4 * vectors as u64 + 20 * saved as u64)
}
