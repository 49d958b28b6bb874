//! Computes the sizes and initial contents of variables.

use margay_ir::module::{Reloc, RelocTarget};
use margay_ops::types::OpType;

use super::{Lowered, op_type};
use crate::ast::{Constant, Initializer, InitializerKind, Module, Name, StateSpace, Variable};
use crate::{Code, Diagnostic, Span};

/// Maximum size in bytes of a variable that is not in global memory. A variable of this size fits in a 48-bit address
/// space.
const MAX_BYTES: u64 = 1 << 46;
/// Maximum size of an initialised variable in bytes.
const MAX_INIT: u64 = 1 << 32;

/// Returns the size in bytes of one element of a variable. The element is a scalar or a vector.
pub(super) fn element_bytes(variable: &Variable) -> u64 {
    u64::from(op_type(variable.scalar).bits().div_ceil(8)) * u64::from(variable.vector.count())
}

/// Returns the size of a variable in bytes. If the first dimension has no length, the number of values in the
/// initialiser is used (1 if the initialiser is not a list), or 0 if there is no initialiser. For global memory, a size
/// that does not fit in 64 bits becomes the largest `u64`, and loading the module then fails for lack of memory.
pub(super) fn size(module: &Module, variable: &Variable) -> Lowered<u64> {
    let mut size = element_bytes(variable);
    for (i, dimension) in module[variable.dimensions].iter().enumerate() {
        let length = match (dimension.length, variable.initializer) {
            (Some(length), _) => length,
            (None, Some(init)) if i == 0 => match module[init].kind {
                InitializerKind::List(list) => list.len() as u64,
                _ => 1,
            },
            _ => 0,
        };
        if variable.space == StateSpace::Global {
            size = size.saturating_mul(length);
            continue;
        }
        size = size
            .checked_mul(length)
            .filter(|&size| size <= MAX_BYTES)
            .ok_or_else(|| {
                Diagnostic::error(
                    Code::OBJECT_SIZE,
                    variable.span,
                    "the variable is too large",
                )
            })?;
    }
    Ok(size)
}

/// Returns the alignment of a variable's address in bytes.
pub(super) fn align(variable: &Variable) -> u32 {
    let natural = element_bytes(variable).clamp(1, 16).next_power_of_two();
    let asked = variable.align.unwrap_or(1).clamp(1, 1 << 20);
    natural.max(asked).next_power_of_two() as u32
}

/// The evaluated initialiser of a variable: its bytes, and relocations for the addresses in it.
pub(super) struct Contents<'m> {
    module: &'m Module,
    ty: OpType,
    element: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) relocs: Vec<Reloc>,
}

impl<'m> Contents<'m> {
    /// Evaluates a variable's initialiser. `find` returns the relocation target for a name. The
    /// second argument of `find` states whether the initialiser contains the generic address of the
    /// variable or function with this name.
    pub(super) fn of(
        module: &'m Module,
        variable: &Variable,
        find: &dyn Fn(Name, bool) -> Option<RelocTarget>,
    ) -> Lowered<Contents<'m>> {
        let mut contents = Contents {
            module,
            ty: op_type(variable.scalar),
            element: u64::from(op_type(variable.scalar).bits().div_ceil(8)),
            bytes: Vec::new(),
            relocs: Vec::new(),
        };
        let Some(init) = variable.initializer else {
            return Ok(contents);
        };
        let total = size(module, variable)?;
        if total > MAX_INIT {
            let message = "the initialised variable is too large";
            return Err(Diagnostic::error(Code::OBJECT_SIZE, variable.span, message));
        }
        let mut lengths: Vec<u64> = module[variable.dimensions]
            .iter()
            .map(|dimension| dimension.length.unwrap_or(0))
            .collect();
        if variable.vector.count() > 1 {
            lengths.push(u64::from(variable.vector.count()));
        }
        contents.fill(&module[init], &lengths, 0, total, find)?;
        Ok(contents)
    }

    /// Writes the value or the list `init` to the contents, at the byte offset `at`. `lengths` are
    /// the lengths of the value's dimensions, outermost first. `end` is the size of the variable in
    /// bytes.
    fn fill(
        &mut self,
        init: &Initializer,
        lengths: &[u64],
        at: u64,
        end: u64,
        find: &dyn Fn(Name, bool) -> Option<RelocTarget>,
    ) -> Lowered<()> {
        match init.kind {
            InitializerKind::List(list) => {
                let inner = lengths.get(1..).unwrap_or_default();
                // The inner dimensions of an array of unknown length can be of any size if the list is empty.
                let step = inner
                    .iter()
                    .fold(self.element, |step, &length| step.saturating_mul(length));
                let module = self.module;
                for (i, part) in module.values(list).enumerate() {
                    let offset = at.saturating_add(step.saturating_mul(i as u64));
                    self.fill(&part, inner, offset, end, find)?;
                }
                Ok(())
            }
            InitializerKind::Constant(constant) => self.put(init, at, end, constant),
            InitializerKind::Address {
                name,
                offset,
                generic,
                byte,
            } => {
                let target = find(name, generic)
                    .ok_or_else(|| super::unknown(init.span, self.module.text(name)))?;
                self.room(init, at, end)?;
                let more = self.relocs.try_reserve(1);
                more.map_err(|_| no_memory::<Reloc>(init.span, 2 * self.relocs.len()))?;
                self.relocs.push(Reloc {
                    offset: at,
                    size: self.element as u8,
                    shift: 8 * byte.unwrap_or(0),
                    target,
                    addend: offset,
                });
                Ok(())
            }
            // The properties of a texture, sampler or surface are not stored in memory.
            InitializerKind::Properties(_) => Ok(()),
        }
    }

    fn room(&mut self, init: &Initializer, at: u64, end: u64) -> Lowered<()> {
        let upto = at.saturating_add(self.element);
        if upto > end {
            let message = "more values than the variable has elements";
            return Err(Diagnostic::error(Code::INITIALIZER, init.span, message));
        }
        if self.bytes.len() < upto as usize {
            let more = self.bytes.try_reserve(upto as usize - self.bytes.len());
            more.map_err(|_| no_memory::<u8>(init.span, upto as usize))?;
            self.bytes.resize(upto as usize, 0);
        }
        Ok(())
    }

    fn put(&mut self, init: &Initializer, at: u64, end: u64, constant: Constant) -> Lowered<()> {
        self.room(init, at, end)?;
        let bits = constant_bits(constant, self.ty);
        let (at, element) = (at as usize, self.element as usize);
        self.bytes[at..at + element].copy_from_slice(&bits.to_le_bytes()[..element]);
        Ok(())
    }
}

/// Returns the out-of-memory error for a failed allocation of `count` elements of type `T`.
fn no_memory<T>(span: Span, count: usize) -> Diagnostic {
    Diagnostic::out_of_memory(span, (count as u64).saturating_mul(size_of::<T>() as u64))
}

/// Returns the bits of a constant that is used as a value of type `ty`. The constant is converted
/// and truncated in the same way as by ptxas.
pub(super) fn constant_bits(constant: Constant, ty: OpType) -> u128 {
    match (constant, ty) {
        (
            Constant::Int {
                bits,
                unsigned: false,
            },
            OpType::B128,
        ) => bits as i64 as u128,
        (Constant::Int { bits, .. }, OpType::F32) => u128::from(bits as u32),
        (Constant::Int { bits, .. }, _) => u128::from(bits),
        (Constant::Single(bits), OpType::F64) => {
            u128::from(f64::from(f32::from_bits(bits)).to_bits())
        }
        (Constant::Single(bits), _) => u128::from(bits),
        (Constant::Double(bits), OpType::F32) => {
            u128::from((f64::from_bits(bits) as f32).to_bits())
        }
        (Constant::Double(bits), _) => u128::from(bits),
    }
}
