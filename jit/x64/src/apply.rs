//! Computes operations that have no native code by calling their reference functions.
//!
//! The module contains unsafe code because generated code passes raw pointers to it.
#![allow(
    unsafe_code,
    reason = "generated code calls the function with pointers into its frame"
)]

use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers};
use margay_ops::meaning::{Bits, Meaning, WarpFn, WarpLanes, mask};
use margay_ops::types::{Kind, Type};

use crate::code::Operation;
use crate::products;

/// Applies an operation to each lane of operands that are in memory, and writes the results to memory. The layout of
/// values is that of [`crate::code::layout`]; an operand with one lane is the operand of all lanes.
///
/// # Safety
///
/// `operation` must be a valid pointer, and `block` must lead to memory that contains the operands and results at the
/// offsets that the operation states.
#[cfg(target_arch = "x86_64")]
pub unsafe extern "sysv64" fn margay_x64_apply(operation: *const Operation, block: *mut u8) {
    // SAFETY: the conditions are those of this function.
    unsafe { apply(operation, block) }
}

/// As on x86-64, so that programs that refer to the function compile for other processors, which never run the code.
///
/// # Safety
///
/// The conditions are those of x86-64.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe extern "C" fn margay_x64_apply(operation: *const Operation, block: *mut u8) {
    // SAFETY: the conditions are those of this function.
    unsafe { apply(operation, block) }
}

/// Applies an operation.
///
/// # Safety
///
/// The conditions are those of [`margay_x64_apply`].
unsafe fn apply(operation: *const Operation, block: *mut u8) {
    // SAFETY: the caller passes a valid pointer.
    let operation = unsafe { &*operation };
    let function = match operation.desc.opcode.meaning() {
        Meaning::Pure(function) => function,
        Meaning::Warp(function) => {
            // SAFETY: the conditions are those of this function.
            let done = unsafe { multiply(operation, block) };
            if !done {
                // SAFETY: the conditions are those of this function.
                unsafe { apply_warp(operation, function, block) };
            }
            return;
        }
        _ => return,
    };
    for n in 0..operation.lanes {
        let (mut args, mut results) = ([0; 20], [0; 20]);
        for (arg, &(offset, ty)) in args.iter_mut().zip(&operation.operands) {
            // SAFETY: the operand is in the block.
            *arg = unsafe { read(block.wrapping_add(offset as usize), ty, n) };
        }
        let operands = operation.operands.len().min(args.len());
        let count = operation.results.len().min(results.len());
        function(&operation.desc, &args[..operands], &mut results[..count]);
        for (&bits, &(offset, ty)) in results.iter().zip(&operation.results) {
            // SAFETY: the result is in the block.
            unsafe { write(block.wrapping_add(offset as usize), ty, n, bits) };
        }
    }
}

/// Computes a matrix product by its plan, and returns whether it has one that supports the matrices.
///
/// # Safety
///
/// The conditions are those of [`margay_x64_apply`].
unsafe fn multiply(operation: &Operation, block: *mut u8) -> bool {
    let Some(plan) = operation.product_plan() else {
        return false;
    };
    // SAFETY: the conditions are those of this function.
    unsafe {
        match plan.is_wide() {
            true => multiply_registers(plan, operation, block, products::doubles),
            false => multiply_registers(plan, operation, block, products::words),
        }
    }
}

/// Computes a matrix product whose registers contain words of type `W`. Returns false, and changes nothing, if the block is
/// not aligned, or if `compute` does.
///
/// # Safety
///
/// The conditions are those of [`margay_x64_apply`]. The plan must be that of the operation ([`Operation::product_plan`]),
/// and `W` must be its type of words.
unsafe fn multiply_registers<W: Copy + Default>(
    plan: &Plan,
    operation: &Operation,
    block: *mut u8,
    compute: impl Fn(&Plan, &Operands<'_, W>, &mut Registers<W>) -> bool,
) -> bool {
    if !block.cast::<[W; 32]>().is_aligned() {
        return false;
    }
    let from = plan.operands(|index| {
        let (offset, _) = operation.operands[index];
        let place = block.wrapping_add(offset as usize).cast::<[W; 32]>();
        // SAFETY: the operand is in the block. The operation has a plan, so the operand is aligned and has the bytes
        // of the array.
        unsafe { &*place }
    });
    let mut out: Registers<W> = [[W::default(); 32]; 8];
    if !compute(plan, &from, &mut out) {
        return false;
    }
    for (row, &(offset, _)) in out.iter().zip(&operation.results) {
        let place = block.wrapping_add(offset as usize).cast::<[W; 32]>();
        // SAFETY: the result is in the block. The operation has a plan, so the result is aligned and has the bytes of
        // the array. The operands are not used any more.
        unsafe { place.write(*row) };
    }
    true
}

/// Applies an operation whose results depend on several lanes, and which has a member mask as an additional first operand
/// that its reference function does not read.
///
/// # Safety
///
/// The conditions are those of [`margay_x64_apply`].
unsafe fn apply_warp(operation: &Operation, function: WarpFn, block: *mut u8) {
    let mut args = [[0; 32]; 25];
    let operands = operation.operands.len().min(args.len() - 1);
    for (row, &(offset, ty)) in args[1..].iter_mut().zip(&operation.operands) {
        for (n, arg) in (0..).zip(row) {
            // SAFETY: the operand is in the block.
            *arg = unsafe { read(block.wrapping_add(offset as usize), ty, n) };
        }
    }
    let mut results = [[0; 32]; 8];
    let count = operation.results.len().min(results.len());
    let mut warp = WarpLanes {
        active: u32::MAX,
        args: &args[..=operands],
        results: &mut results[..count],
    };
    function(&operation.desc, &mut warp);
    for (row, &(offset, ty)) in results.iter().zip(&operation.results) {
        for (n, &bits) in (0..).zip(row) {
            // SAFETY: the result is in the block.
            unsafe { write(block.wrapping_add(offset as usize), ty, n, bits) };
        }
    }
}

/// Reads lane `n` of a value.
///
/// # Safety
///
/// `value` must lead to a value of type `ty`.
unsafe fn read(value: *const u8, ty: Type, n: u32) -> Bits {
    let n = if ty.lanes() == 1 { 0 } else { n };
    if ty.kind() == Kind::Pred && ty.lanes() > 1 {
        // SAFETY: a mask has 8 bytes.
        let bits = unsafe { value.cast::<u64>().read_unaligned() };
        return Bits::from(bits >> n & 1);
    }
    let bytes = ty.lane_bytes() as usize;
    let mut bits = [0; 16];
    // SAFETY: the lane is in the value.
    unsafe {
        value
            .wrapping_add(n as usize * bytes)
            .copy_to_nonoverlapping(bits.as_mut_ptr(), bytes);
    }
    Bits::from_le_bytes(bits) & mask(ty.lane_bits())
}

/// Writes lane `n` of a value.
///
/// # Safety
///
/// `value` must lead to memory for a value of type `ty`.
unsafe fn write(value: *mut u8, ty: Type, n: u32, bits: Bits) {
    if ty.kind() == Kind::Pred && ty.lanes() > 1 {
        let mask = value.cast::<u64>();
        // SAFETY: a mask has 8 bytes. Lane 0 is written first, so the other bits have no meaning before.
        unsafe {
            let others = if n == 0 { 0 } else { mask.read_unaligned() };
            mask.write_unaligned(others | (bits as u64 & 1) << n);
        }
        return;
    }
    let bytes = ty.lane_bytes() as usize;
    let from = bits.to_le_bytes();
    // SAFETY: the lane is in the value.
    unsafe {
        from.as_ptr()
            .copy_to_nonoverlapping(value.wrapping_add(n as usize * bytes), bytes);
    }
}
