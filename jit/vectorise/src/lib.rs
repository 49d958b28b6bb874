//! The vectoriser: turns the IR of a kernel into one VIR program that runs whole CTAs, many threads at once.
//!
//! The program runs a range of CTAs. Within a CTA it goes through the threads in *chunks* of `width` adjacent threads.
//! The parts of the translation are:
//!
//! - `phases` divides the kernel at the barriers of the CTA, and [`flow`] plans the control flow of a chunk in each
//!   phase, before any code is emitted.
//! - `launch` emits the loops over CTAs, phases and chunks, of which several may run together ([`Group`]). `saved` and
//!   `bases` emit what happens to values that live across barriers.
//! - [`assume_shape`] makes a kernel one for CTAs of one shape. If all chunks of such a CTA run together ([`Group::All`]), there
//!   are no loops over chunks, and values live across barriers in variables of the program.
//! - [`shorten_lives`] changes the order of a kernel's operations before the translation.
//! - `runs` finds which kernels run several CTAs of a row of the grid together, and `rows` emits the loops over the rows
//!   of their threads.
//! - `control` emits the blocks of the kernel in the planned order, with the masks of the lanes that execute them.
//! - `together` emits the version of the code for chunks whose lanes run together.
//! - `endpoints` emits the tests whether all lanes take the same edge of a branch, by comparisons of scalars.
//! - `values` holds the values of the kernel. A value that [`Uniformity`] classifies as uniform or affine is a scalar: the
//!   value in the chunk's first lane. Other values are vectors.
//! - `derived` computes scalars of chunks from those of the first chunk, and tests conditions for whole CTAs.
//! - `waiting` emits loops in which lanes may wait for other threads.
//! - `collective` emits collectives of the lanes of a warp.
//! - `memory` emits loads and stores, `pairs` those of pairs of adjacent words,
//!   `adjacent` those whose addresses vary but are often adjacent, `local` those of local
//!   memory, `update` atomics, `reach` the tests of addresses, `registers` special registers and addresses.
//!
//! # Speculatively affine values
//!
//! The lanes of a [`SpeculativeAffine`] value are a scalar plus a stride if a check holds, which is almost always so (it
//! fails if a 32-bit index wraps between two lanes). Where possible, the program evaluates the checks of all chunks before
//! a CTA starts (`certain`), and contains a second version of the code for CTAs whose checks fail. Otherwise, a block with
//! accesses at such addresses has two versions (`speculation`).
//!
//! # Limits
//!
//! [`vectorise`] refuses what it does not translate, with a [`Refusal`]: sync points other than barriers for all threads,
//! collectives of all lanes of a warp that are together, and `yield` at the start of loops; atomics other than updates of
//! one integer of 32 or 64 bits and additions to one `f32` or `f64`; calls, strong accesses, textures, observed kernels, and
//! accesses to shared memory that need a test of their address. Such kernels run in the other forms of native code.
//! [`may_accept`] finds most of them quickly.
#![forbid(unsafe_code)]

mod adjacent;
mod alignment;
mod bases;
mod certain;
mod collective;
mod control;
mod derived;
mod emitter;
mod endpoints;
pub mod flow;
mod launch;
mod layout;
mod local;
mod memory;
mod order;
mod pairs;
mod phases;
mod reach;
mod registers;
mod rows;
mod runs;
mod saved;
mod scan;
mod shape;
mod speculation;
mod together;
mod update;
mod values;
mod variables;
mod waiting;

use std::fmt;

use margay_ir::analysis::{Regions, SpeculativeAffine, Uniformity};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::Function;
use margay_vir::function::Function as VirFunction;

pub use adjacent::is_computed;
pub use layout::{ContextLayout, NOTED, REACH_MARGIN, StatusValues, place_chunk};
pub use order::shorten_lives;
pub use runs::runs_several_ctas;
pub use scan::may_accept;
pub use shape::assume_shape;
pub use waiting::WAITING_TURN;

/// Facts about a kernel that the vectoriser needs besides the analyses.
pub trait Facts {
    /// Returns how an access is tested.
    fn reach(&self, inst: Inst) -> ReachTest;

    /// Returns a value that differs from the address of an access by a multiple of `bytes`; `None` if the address is a
    /// multiple of `bytes`.
    fn alignment_root(&self, inst: Inst, bytes: u32) -> Option<Value>;
}

/// How an access is tested, so that it stays in memory that the kernel may access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReachTest {
    /// The access needs no test, because it is in such memory, or because it faults otherwise.
    Inside,
    /// The access must be in device memory.
    Device(DeviceTest),
    /// The access must be in the local memory of the thread.
    Local(LocalTest),
    /// The access needs a test that is not translated.
    Unsupported,
}

/// The test of an access to local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTest {
    /// The number of bytes of the access.
    pub bytes: u32,
    /// The properties of the access that the host needs for its decision, without the mask of the lanes.
    pub properties: u64,
}

/// The test of an access to device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceTest {
    /// A value of the access's block from which the address is computed.
    pub root: Value,
    /// The smallest distance in bytes from the root to the start of the access.
    pub low: i64,
    /// The greatest distance in bytes from the root to the end of the access.
    pub high: i64,
    /// The properties of the access that the host needs for its decision, without the mask of the lanes.
    pub properties: u64,
}

/// The chunks that run together, and their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Adjacent chunks of a row of the CTA. The length of the rows is a multiple of that of the group. It need not be if
    /// the group has two chunks, the length is a multiple of that of a chunk, and the kernel runs several CTAs together
    /// ([`runs_several_ctas`]).
    Line(u32),
    /// Chunks that are rows of the CTA. The number of rows is a multiple of the number of chunks, and the CTA has no z
    /// dimension.
    Rows(u32),
    /// All chunks of the CTA, whose rows have `x` threads, a multiple of the width of the chunks. The CTA has no z dimension,
    /// and [`Kernel::shape`] states its shape.
    All {
        /// The number of chunks.
        chunks: u32,
        /// The number of threads of a row.
        x: u32,
    },
    /// One chunk after the other, as in [`Group::Line`] of one chunk, but each chunk of the CTA has code of its own instead
    /// of an iteration of a loop. The conditions are those of [`Group::All`].
    Each {
        /// The number of chunks of the CTA.
        chunks: u32,
        /// The number of threads of a row.
        x: u32,
    },
}

impl Group {
    /// Returns the number of chunks that run together.
    pub fn chunks(self) -> u32 {
        match self {
            Group::Each { .. } => 1,
            Group::Line(chunks) | Group::Rows(chunks) | Group::All { chunks, .. } => chunks,
        }
    }

    /// Returns the number of chunks of a CTA, if each has code of its own.
    pub(crate) fn turns(self) -> Option<u32> {
        match self {
            Group::Each { chunks, .. } => Some(chunks),
            _ => None,
        }
    }

    /// Returns a group of adjacent chunks of this kind.
    pub fn of(self, chunks: u32) -> Group {
        match self {
            Group::Line(_) | Group::Each { .. } => Group::Line(chunks),
            Group::Rows(_) | Group::All { .. } => Group::Rows(chunks),
        }
    }

    /// Returns the coordinates x and y of the first thread of chunk number `chunk` of the group (or of the CTA, if its chunks
    /// have code of their own), of `width` lanes, relative to its first thread.
    pub(crate) fn offset_of(self, chunk: u32, width: u32) -> [i64; 2] {
        let coordinates = match self {
            Group::Line(_) => [chunk * width, 0],
            Group::Rows(_) => [0, chunk],
            Group::All { x, .. } | Group::Each { x, .. } => [chunk * width % x, chunk * width / x],
        };
        coordinates.map(i64::from)
    }
}

/// A kernel to vectorise.
#[derive(Clone, Copy)]
pub struct Kernel<'a> {
    /// The prepared function.
    pub function: &'a Function,
    /// The classes of its values for chunks of `width` lanes.
    pub uniformity: &'a Uniformity,
    /// Its speculatively affine values.
    pub speculative: &'a SpeculativeAffine,
    /// Its regions, which determine the layout of the frames.
    pub regions: &'a Regions,
    /// Further facts.
    pub facts: &'a dyn Facts,
    /// The number of lanes of a chunk: a power of two up to 64.
    pub width: u32,
    /// The shape of the CTAs, if the program is for one shape only. The function's `.reqntid` must be equal.
    pub shape: Option<[u32; 3]>,
    /// Whether the number of threads of a CTA is a multiple of `width`.
    pub whole_chunks: bool,
    /// A number of which the length of a row of a CTA is a multiple; 1 if nothing is known about it.
    pub row_multiple: u32,
    /// The chunks that run together. `uniformity` must assume this if there are several.
    pub group: Group,
    /// Where the program finds the data of the launch.
    pub layout: ContextLayout,
    /// The values that the program returns.
    pub status: StatusValues,
}

impl Kernel<'_> {
    /// Returns whether the rows of a CTA consist of whole chunks.
    pub(crate) fn has_whole_rows(&self) -> bool {
        self.row_multiple.is_multiple_of(self.width)
    }

    /// Returns whether the rows of a CTA consist of whole groups of chunks.
    pub(crate) fn has_whole_groups(&self) -> bool {
        let chunks = self.group.chunks();
        chunks == 1 || self.row_multiple.is_multiple_of(chunks * self.width)
    }

    /// Returns whether the kernel has barriers.
    pub(crate) fn has_phases(&self) -> bool {
        self.regions.resume_points.len() > 1
    }
}

/// Why a kernel is not vectorised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The kernel contains an operation that is not translated, or not in this form.
    Operation(&'static str),
    /// A loop is entered at several blocks.
    Irreducible,
    /// An access needs a test of its address at run time.
    TestedAccess,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Operation(name) => write!(f, "`{name}` is not vectorised"),
            Refusal::Irreducible => f.write_str("a loop is entered at several blocks"),
            Refusal::TestedAccess => f.write_str("an access needs a test of its address"),
        }
    }
}

/// Vectorises a kernel. The program has the parameters of a CTA form: the address of the context, which contains the
/// coordinates of the first CTA; the linear index of this CTA or, if the kernel has sync points, the address of the
/// frames; and the number of CTAs. It returns a status.
///
/// # Errors
///
/// Returns why the kernel is not vectorised.
pub fn vectorise(kernel: &Kernel<'_>) -> Result<VirFunction, Refusal> {
    launch::emit(kernel)
}
