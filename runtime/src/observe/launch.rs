//! The launch to which events belong, and the source positions of instructions.

use std::sync::Arc;

use margay_ir::entity::FuncId;
use margay_ir::function::SourceLoc;
use margay_ir::module::{Module, TextOperand};

use super::Instruction;
use crate::engine::KernelInfo;
use crate::error::SourceLine;
use crate::launch::Dim3;

/// The position of an instruction in the source.
///
/// ```
/// use margay::observe::Position;
///
/// fn line(position: Position) -> u32 {
///     position.ptx_line()
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Position {
    ptx_line: u32,
    loc: u32,
}

impl Position {
    pub(super) fn new(loc: SourceLoc) -> Position {
        Position {
            ptx_line: loc.ptx_line,
            loc: loc.loc,
        }
    }

    /// Returns the instruction's line in the PTX text. The first line has the number 1.
    pub fn ptx_line(self) -> u32 {
        self.ptx_line
    }

    fn loc(self) -> SourceLoc {
        SourceLoc {
            ptx_line: self.ptx_line,
            loc: self.loc,
        }
    }
}

/// An observed launch of a kernel.
///
/// ```
/// use margay::observe::Launch;
///
/// fn describe(launch: &Launch) -> String {
///     format!("{} with {} blocks", launch.kernel().name, launch.grid().count())
/// }
/// ```
#[derive(Debug)]
pub struct Launch {
    pub(super) id: u64,
    pub(super) kernel_id: u64,
    pub(super) kernel: KernelInfo,
    pub(super) grid: Dim3,
    pub(super) block: Dim3,
    pub(super) cluster: Dim3,
    pub(super) shared_bytes: [u32; 2],
    pub(super) module: Arc<Module>,
}

/// The properties of a launch: its number, the number of its kernel ([`Launch::kernel_id`]), its
/// grid, block and cluster dimensions, and its sizes of shared memory.
pub(crate) struct Shape {
    pub(crate) id: u64,
    pub(crate) kernel_id: u64,
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) cluster: Dim3,
    pub(crate) static_shared: u32,
    pub(crate) dynamic_shared: u32,
}

impl Launch {
    pub(crate) fn new(kernel: &KernelInfo, module: &Arc<Module>, shape: &Shape) -> Launch {
        Launch {
            id: shape.id,
            kernel_id: shape.kernel_id,
            kernel: kernel.clone(),
            grid: shape.grid,
            block: shape.block,
            cluster: shape.cluster,
            shared_bytes: [shape.static_shared, shape.dynamic_shared],
            module: Arc::clone(module),
        }
    }

    /// Returns the number of the launch, which is unique in the process. `%gridid` contains this number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns a number of the kernel, which is unique in the process. Kernels of different modules have different
    /// numbers, even if their names are equal.
    pub fn kernel_id(&self) -> u64 {
        self.kernel_id
    }

    /// Returns the properties of the launched kernel.
    pub fn kernel(&self) -> &KernelInfo {
        &self.kernel
    }

    /// Returns the number of CTAs of the grid in each dimension.
    pub fn grid(&self) -> Dim3 {
        self.grid
    }

    /// Returns the number of threads of a CTA in each dimension.
    pub fn block(&self) -> Dim3 {
        self.block
    }

    /// Returns the number of CTAs of a cluster in each dimension; (1, 1, 1) if the launch has no clusters.
    pub fn cluster(&self) -> Dim3 {
        self.cluster
    }

    /// Returns the number of bytes of a CTA's static shared memory.
    pub fn static_shared(&self) -> u32 {
        self.shared_bytes[0]
    }

    /// Returns the number of bytes of a CTA's dynamic shared memory.
    pub fn dynamic_shared(&self) -> u32 {
        self.shared_bytes[1]
    }

    /// Returns the opcode of an instruction with its modifiers, such as `fma.rn.f32`.
    pub fn opcode(&self, instruction: &Instruction) -> &str {
        let found = self.instruction(instruction.function, instruction.index);
        found.map_or("", |(opcode, _)| opcode)
    }

    /// Returns the opcode, with its modifiers, and the position of the instruction with index `index` of a function.
    /// Returns `None` if there is no such instruction, or if no tool observes instructions of the kernel.
    pub fn instruction(&self, function: u32, index: u32) -> Option<(&str, Position)> {
        let all = self.module.instructions.get(&FuncId(function))?;
        let found = all.get(index as usize)?;
        Some((&found.opcode, Position::new(found.loc)))
    }

    /// Returns the operands of the instruction with index `index` of a function, in the order of the text. Returns an
    /// empty list if there is no such instruction, or if no tool observes instructions of the kernel.
    pub fn operands(&self, function: u32, index: u32) -> &[TextOperand] {
        let all = self.module.instructions.get(&FuncId(function));
        let found = all.and_then(|all| all.get(index as usize));
        found.map_or(&[], |instruction| &instruction.operands)
    }

    /// Returns the functions whose instructions tools can observe, with their numbers of instructions: the kernel first,
    /// then the functions that it calls directly or indirectly, and perhaps other functions of the module, by number.
    pub fn functions(&self) -> Vec<(u32, u32)> {
        let all = &self.module.instructions;
        let mut functions: Vec<(u32, u32)> = all
            .iter()
            .map(|(function, instructions)| (function.0, instructions.len() as u32))
            .collect();
        let kernel = self.module.by_name.get(&self.kernel.name);
        functions.sort_by_key(|&(function, _)| (kernel != Some(&FuncId(function)), function));
        functions
    }

    /// Returns the name of a function of the module, as the PTX text spells it.
    pub fn function_name(&self, function: u32) -> Option<&str> {
        let function = self.module.functions.get(FuncId(function))?;
        Some(&function.name)
    }

    /// Returns the source line from which the instruction at a position was compiled. Returns
    /// `None` if the PTX text states no source line (`.loc`) for the instruction.
    pub fn source(&self, position: Position) -> Option<SourceLine> {
        SourceLine::of(&self.module, position.loc())
    }
}
