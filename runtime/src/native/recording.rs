//! Host functions through which generated code records events for tools.

use margay_exec::interp::{ObservedLaneEvent, ObservedLanes};
use margay_ir::function::SourceLoc;
use margay_ir::observe::{ObservedAccess, ObservedEvent};
use margay_jit::abi::{CheckedLanes, NativeContext};
use smallvec::SmallVec;

use super::helpers::host;

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
    let cells = match (shape.strided, shape.narrow) {
        (true, _) => 2,
        (false, true) => width.div_ceil(2),
        (false, false) => width,
    };
    // SAFETY: generated code passes this number of cells.
    let cells = unsafe { std::slice::from_raw_parts(addresses, cells) };
    let access = ObservedAccess::from_bits(access);
    let loc = SourceLoc::from_bits(loc);
    if shape.strided
        && recorder.strided(
            cta,
            (&access, loc),
            (first, mask),
            (cells[0], cells[1] as i64),
        )
    {
        return;
    }
    let each = std::array::from_fn(|lane| match (shape.strided, shape.narrow) {
        _ if lane >= width => 0,
        (true, narrow) => {
            let address = cells[0].wrapping_add(cells[1].wrapping_mul(lane as u64));
            if narrow {
                address & 0xffff_ffff
            } else {
                address
            }
        }
        (false, true) => cells[lane / 2] >> (32 * (lane % 2)) & 0xffff_ffff,
        (false, false) => cells[lane],
    });
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
    let narrow = recorder.is_narrow(group);
    let cells = match (is_strided != 0, narrow) {
        (true, _) => 2,
        (false, true) => 16,
        (false, false) => 32,
    };
    // SAFETY: generated code passes this number of cells.
    let cells = unsafe { std::slice::from_raw_parts(addresses, cells) };
    let each = std::array::from_fn(|lane| {
        let address = match (is_strided != 0, narrow) {
            (true, _) => cells[0].wrapping_add(cells[1].wrapping_mul(lane as u64)),
            (false, true) => cells[lane / 2] >> (32 * (lane % 2)),
            (false, false) => cells[lane],
        };
        match narrow {
            true => address & 0xffff_ffff,
            false => address,
        }
    });
    recorder.group(cta, group, thread, &each);
}
