//! Host functions through which generated code records events for tools.

use margay_exec::interp::{ObservedLaneEvent, ObservedLanes};
use margay_ir::function::SourceLoc;
use margay_ir::observe::{ObservedAccess, ObservedEvent};
use margay_jit::abi::{CheckedLanes, NativeContext};
use smallvec::SmallVec;

use super::helpers::host;

/// The addresses of the lanes of a chunk, as generated code passes them.
struct Addresses<'a> {
    /// The base and the stride; or a word for each lane, or for each two lanes if addresses have 32 bits.
    cells: &'a [u64],
    is_strided: bool,
    /// Whether addresses have 32 bits.
    is_narrow: bool,
    width: usize,
}

impl Addresses<'_> {
    /// Returns the addresses of `width` lanes.
    ///
    /// # Safety
    /// `cells` must point to as many words as addresses of this form take, which nothing changes for the lifetime of the
    /// result.
    unsafe fn new<'a>(
        cells: *const u64,
        (is_strided, is_narrow): (bool, bool),
        width: usize,
    ) -> Addresses<'a> {
        let count = match (is_strided, is_narrow) {
            (true, _) => 2,
            (false, true) => width.div_ceil(2),
            (false, false) => width,
        };
        Addresses {
            // SAFETY: the caller passes this number of words.
            cells: unsafe { std::slice::from_raw_parts(cells, count) },
            is_strided,
            is_narrow,
            width,
        }
    }

    /// Returns the base and the stride, if the addresses are passed in this form.
    fn strided(&self) -> Option<(u64, i64)> {
        self.is_strided
            .then(|| (self.cells[0], self.cells[1] as i64))
    }

    /// Returns the address of each lane; 0 beyond the chunk.
    fn each(&self) -> [u64; 32] {
        std::array::from_fn(|lane| {
            let address = match (self.is_strided, self.is_narrow) {
                _ if lane >= self.width => 0,
                (true, _) => self.cells[0].wrapping_add(self.cells[1].wrapping_mul(lane as u64)),
                (false, true) => self.cells[lane / 2] >> (32 * (lane % 2)),
                (false, false) => self.cells[lane],
            };
            match self.is_narrow {
                true => address & 0xffff_ffff,
                false => address,
            }
        })
    }
}

/// Records the accesses of several lanes of a warp for tools
/// ([`margay_jit::abi::Helpers::observe_lanes`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`]. The other pointers must satisfy the contract of
/// the field of [`margay_jit::abi::Helpers`] that points to this function.
pub(super) unsafe extern "C" fn observe_lanes(
    context: *mut NativeContext,
    addresses: *const u64,
    access: u64,
    loc: u64,
    operands: *const u8,
    shape: u64,
) {
    // SAFETY: the caller upholds the contract of this function.
    let cta = unsafe { (*context).cta };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    let Some(recorder) = &mut host.recorder else {
        return;
    };
    let (shape, mask, first) = CheckedLanes::from_bits(shape);
    let width = shape.width as usize;
    // SAFETY: generated code passes addresses of this form.
    let addresses = unsafe { Addresses::new(addresses, (shape.strided, shape.narrow), width) };
    let access = ObservedAccess::from_bits(access);
    let loc = SourceLoc::from_bits(loc);
    if let Some(strided) = addresses.strided()
        && recorder.strided(cta, (&access, loc), (first, mask), strided)
    {
        return;
    }
    let each = addresses.each();
    let bytes = shape.operand_bytes as usize;
    let lengths = (shape.operands != 0).then(|| {
        // SAFETY: generated code passes this number of operands for each lane.
        let operands = unsafe { std::slice::from_raw_parts(operands, width * bytes) };
        std::array::from_fn(|lane| {
            let mut cell = [0; 8];
            if let Some(operand) = operands.chunks_exact(bytes).nth(lane) {
                cell[..bytes].copy_from_slice(operand);
            }
            u64::from_le_bytes(cell)
        })
    });
    let lanes = ObservedLanes {
        access: &access,
        loc,
        first,
        mask,
        addresses: &each,
        lengths: lengths.as_ref(),
    };
    recorder.access(cta, &lanes);
}

/// Records, for tools, an event other than an access that occurs in several lanes of a warp
/// ([`margay_jit::abi::Helpers::observe_event`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`]. The other pointers must satisfy the contract of
/// the field of [`margay_jit::abi::Helpers`] that points to this function.
pub(super) unsafe extern "C" fn observe_event(
    context: *mut NativeContext,
    payload: u64,
    loc: u64,
    operands: *const u8,
    shape: u64,
) {
    // SAFETY: the caller upholds the contract of this function.
    let cta = unsafe { (*context).cta };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    let (Some(recorder), Some(event)) = (&mut host.recorder, ObservedEvent::from_payload(payload))
    else {
        return;
    };
    let (shape, mask, first) = CheckedLanes::from_bits(shape);
    let (width, bytes) = (shape.width as usize, shape.operand_bytes as usize);
    let loc = SourceLoc::from_bits(loc);
    if shape.narrow {
        let chosen = operands.addr() as u32 & mask;
        return recorder.choice(cta, (event, loc), (first, mask), chosen);
    }
    let count = shape.operands as usize;
    let cells = match count {
        0 => &[],
        // SAFETY: generated code passes this number of operands for each lane.
        _ => unsafe { std::slice::from_raw_parts(operands, count * width * bytes) },
    };
    let mut values: SmallVec<[[u64; 32]; 2]> = SmallVec::from_elem([0; 32], count);
    for (index, cell) in cells.chunks_exact(bytes).enumerate() {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(cell);
        values[index / width][index % width] = u64::from_le_bytes(word);
    }
    let lanes = ObservedLaneEvent {
        event,
        loc,
        first,
        mask,
        operands: &values,
    };
    recorder.event(cta, &lanes);
}

/// Notes that events and counts of warps from now on belong to the current CTA ([`margay_jit::abi::Helpers::observe_cta`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`].
pub(super) unsafe extern "C" fn observe_cta(context: *mut NativeContext) {
    // SAFETY: the caller upholds the contract of this function.
    let cta = unsafe { (*context).cta };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    if let Some(recorder) = &mut host.recorder {
        recorder.move_to(cta);
    }
}

/// Counts a request of a group of accesses that does not have the group's pattern
/// ([`margay_jit::abi::Helpers::observe_group`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`]. `addresses` must satisfy the contract of the field of
/// [`margay_jit::abi::Helpers`] that points to this function.
pub(super) unsafe extern "C" fn observe_group(
    context: *mut NativeContext,
    group: u32,
    addresses: *const u64,
    thread: u32,
    is_strided: u32,
) {
    // SAFETY: the caller upholds the contract of this function.
    let cta = unsafe { (*context).cta };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    let Some(recorder) = &mut host.recorder else {
        return;
    };
    let form = (is_strided != 0, recorder.is_narrow(group));
    // SAFETY: generated code passes addresses of this form.
    let addresses = unsafe { Addresses::new(addresses, form, 32) };
    recorder.group(cta, group, thread, &addresses.each());
}
