//! The result of compilation: bytes, and what a loader and a fault handler need besides them.
//!
//! # Calling code
//!
//! A function has the signature `extern "sysv64" fn(arguments: *const u8, results: *mut u8)`. Both pointers lead to
//! blocks of memory whose alignment is at least [`BLOCK_ALIGNMENT`]; [`Code::arguments`] and [`Code::results`] contain
//! the offset of each value in its block. [`layout`] states how a value is in memory.

use std::sync::OnceLock;

use margay_ir::entity::Inst;
use margay_ops::meaning::Desc;
use margay_ops::meaning::matrix::plan::Plan;
use margay_ops::types::{Kind, Type};
use serde::{Deserialize, Serialize};

/// The alignment of the blocks of memory that contain arguments and results.
pub const BLOCK_ALIGNMENT: usize = 64;

/// An address that the loader writes into a slot of 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Symbol {
    /// The address of the helper with this number.
    Helper(u32),
    /// The address of [`crate::apply::margay_x64_apply`].
    Apply,
    /// The address of the element of [`Code::operations`] with this number. The element must stay at this address as long
    /// as the code runs.
    Operation(u32),
}

/// A slot in the code that contains the address of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SymbolSlot {
    /// The offset of the slot, a multiple of 8.
    pub offset: u32,
    /// What the slot contains.
    pub symbol: Symbol,
}

/// The memory operand of a machine instruction, by the numbers of its registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryOperand {
    /// The general register that contains the base; none if the address is relative to the instruction pointer.
    pub base: Option<u8>,
    /// The general register or, if `is_vector_index` is set, the vector register that contains the index.
    pub index: Option<u8>,
    /// Whether the index is a vector register: the instruction is a gather or scatter.
    pub is_vector_index: bool,
    /// The factor of the index.
    pub scale: u8,
    /// The displacement in bytes.
    pub displacement: i32,
    /// The mask register; none if all lanes access memory.
    pub mask: Option<u8>,
}

/// Why the instruction at a place can end the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// It accesses memory: lanes `first` to `first + lanes`, in ascending order.
    Access {
        /// The number of the first lane that the machine instruction accesses.
        first: u32,
        /// The number of lanes that the machine instruction accesses.
        lanes: u32,
        /// The number of bytes that each lane accesses.
        bytes: u32,
        /// The machine instruction's operand.
        operand: MemoryOperand,
    },
    /// It accesses memory in one lane; a loop executes it for each lane.
    Loop {
        /// The general register that contains the number of the lane.
        lane: u8,
        /// The number of bytes of the lane's access. The instruction accesses up to 8 of them.
        bytes: u32,
        /// The machine instruction's operand.
        operand: MemoryOperand,
    },
    /// It accesses a row: elements of several accesses in one lane, or in adjacent lanes. The row loads of a group execute
    /// the accesses of [`Code::groups`] before the other accesses of that list, so the first access of the list that
    /// faults need not be the one that the machine instruction executes.
    Rows {
        /// The number of the group.
        group: u32,
        /// The machine instruction's operand. Its base is base 0 of the group.
        operand: MemoryOperand,
        /// The general registers that contain the other bases of the group.
        others: [u8; OTHER_BASES],
    },
    /// It is a `trap` or `trap.if` with this number; the machine instruction is `ud2`.
    Trap(u64),
}

/// The maximum number of bases of a group besides the base of its rows.
pub const OTHER_BASES: usize = 3;

/// An access between the first and the last access of a group, see [`Cause::Rows`]. It accesses memory in all its lanes, at
/// `base + displacement + stride * lane`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupAccess {
    /// The instruction's place, see [`margay_vir::function::Function::places`].
    pub place: u64,
    /// The number of its base.
    pub base: u8,
    /// The displacement of the first lane.
    pub displacement: i32,
    /// The distance in bytes between adjacent lanes.
    pub stride: i64,
    /// The number of lanes.
    pub lanes: u32,
    /// The number of bytes that each lane accesses.
    pub bytes: u32,
}

/// A machine instruction that can end the program with a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The offset of the machine instruction.
    pub offset: u32,
    /// The instruction of the function.
    pub inst: Inst,
    /// The instruction's place, see [`margay_vir::function::Function::places`].
    pub place: u64,
    /// What the machine instruction does.
    pub cause: Cause,
}

/// An operation that code computes by calling its reference function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// The operation.
    pub desc: Desc,
    /// The number of lanes.
    pub lanes: u32,
    /// The offsets and the types of the operands.
    pub operands: Vec<(u32, Type)>,
    /// The offsets and the types of the results.
    pub results: Vec<(u32, Type)>,
    /// The plan of a matrix product.
    #[serde(skip)]
    pub plan: ProductPlan,
}

/// The plan of a matrix product, which the first call of the operation makes.
#[derive(Clone, Debug, Default)]
pub struct ProductPlan(OnceLock<Option<Box<Plan>>>);

impl Operation {
    /// Returns the plan of the matrix product that the operation computes; `None` if it has none, or if the operands and
    /// results are not arrays of 32 words.
    pub(crate) fn product_plan(&self) -> Option<&Plan> {
        let made = self.plan.0.get_or_init(|| {
            let plan = Plan::of(&self.desc).filter(|plan| self.has_registers(plan));
            plan.map(Box::new)
        });
        made.as_deref()
    }

    /// Returns whether the operands and results are the registers of a product, as aligned arrays of 32 words.
    fn has_registers(&self, plan: &Plan) -> bool {
        let word: u32 = if plan.is_wide() { 8 } else { 4 };
        let are_registers = |values: &[(u32, Type)]| {
            let is_array = |&(offset, ty): &(u32, Type)| {
                offset.is_multiple_of(word) && bytes_of(ty) == 32 * word
            };
            values.iter().all(is_array)
        };
        let [a, b, c, d] = plan.registers();
        self.operands.len() == a + b + c
            && self.results.len() == d
            && are_registers(&self.operands)
            && are_registers(&self.results)
    }
}

/// The operation determines the plan.
impl PartialEq for ProductPlan {
    fn eq(&self, _: &ProductPlan) -> bool {
        true
    }
}

impl Eq for ProductPlan {}

/// Machine code of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Code {
    /// The code, followed by its constants and symbol slots. It may be copied to any address with the right alignment,
    /// and must be readable there.
    pub bytes: Vec<u8>,
    /// The number of bytes that are instructions.
    pub instructions: u32,
    /// The alignment of the first byte.
    pub alignment: u32,
    /// The slots for addresses.
    pub symbols: Vec<SymbolSlot>,
    /// The instructions that can end the program, in ascending order of their offsets.
    pub places: Vec<Place>,
    /// The accesses of each group of rows, in the order of the program.
    pub groups: Vec<Vec<GroupAccess>>,
    /// The number of bytes by which the function moves the stack pointer, without saved registers.
    pub frame: u32,
    /// Whether the function was so large that a fast register allocator was used, after which code spills more.
    pub quick_registers: bool,
    /// The operations that the code computes by calling their reference functions.
    pub operations: Vec<Operation>,
    /// The offset of each argument in the block of arguments.
    pub arguments: Vec<u32>,
    /// The offset of each result in the block of results.
    pub results: Vec<u32>,
}

impl Code {
    /// Returns the names of the operations that the code computes by calling their reference functions, in the order of
    /// the function's instructions.
    pub fn fallbacks(&self) -> impl Iterator<Item = &'static str> {
        self.operations
            .iter()
            .map(|operation| operation.desc.opcode.name())
    }
}

/// Returns the number of bytes of a value in memory. A vector consists of its lanes, lane 0 first; a scalar predicate is
/// a byte that contains 0 or 1; a mask is a `b64` whose bit `n` is lane `n`.
pub fn bytes_of(ty: Type) -> u32 {
    match (ty.kind(), ty.lanes()) {
        (Kind::Pred, 1) => 1,
        (Kind::Pred, _) => 8,
        _ => ty.lane_bytes() * ty.lanes(),
    }
}

/// Returns the offsets of values that are in one block of memory, each aligned to its size but at most to
/// [`BLOCK_ALIGNMENT`], and the size of the block.
pub fn layout(types: &[Type]) -> (Vec<u32>, u32) {
    let mut end = 0;
    let mut place = |&ty: &Type| {
        let bytes = bytes_of(ty);
        let start: u32 = u32::next_multiple_of(end, bytes.min(BLOCK_ALIGNMENT as u32));
        end = start + bytes;
        start
    };
    let offsets = types.iter().map(&mut place).collect();
    (offsets, end)
}
