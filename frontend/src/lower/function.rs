//! Lowers function bodies: declarations, scopes, labels, statements.

use margay_ir::builder::{FunctionBuilder, Variable};
use margay_ir::entity::{Block, FuncId, Slot, Value};
use margay_ir::function::{Function, Signature, SlotData, SourceLoc, symbol_payload};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use rustc_hash::{FxHashMap, FxHashSet};

use super::env::{Binding, Scopes};
use super::module::{ModuleLowering, is_array};
use super::{Lowered, data, op_type};
use crate::ast::{self, Id, List, Name, OperandKind, StateSpace, Statement};
use crate::resolve::scope::split_number;
use crate::resolve::used_bytes_mask;
use crate::{Code, Diagnostic};

/// Where a result of the function is stored until the function returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReturnPlace {
    /// The result is in an SSA variable.
    Value(Variable),
    /// The result is in local memory, because the function accesses the result in parts or by
    /// address.
    Memory(Slot),
}

/// The state while one function is lowered.
pub(super) struct FunctionLowering<'a, 'p> {
    pub(super) m: &'a mut ModuleLowering<'p>,
    pub(super) ast: &'p ast::Module,
    pub(super) b: FunctionBuilder,
    pub(super) scopes: Scopes,
    head: &'p ast::Function,
    /// The function's ID.
    pub(super) id: FuncId,
    /// For each result of the function, where it is stored and its type. The lowering of `ret`
    /// reads the results from these places.
    pub(super) returns: Vec<(ReturnPlace, OpType)>,
    /// The SSA variable of the carry flag, which is created on first use.
    carry: Option<Variable>,
    /// Names of the `.param` variables that are stored in local memory; see [`FunctionLowering::find_memory_params`].
    in_memory: FxHashSet<Name>,
    /// For each name of a `.param` variable in any scope of the function, the size in bits of the
    /// variable's scalar type. The size is 0 if several variables with the same name have different
    /// sizes.
    param_bits: FxHashMap<Name, u32>,
    /// The value of the pragma `used_bytes_mask` before the instruction that is being lowered. Bit
    /// `i` states whether the program uses byte `i` of the loaded vector.
    pub(super) used_bytes: Option<u64>,
    /// The guard of the instruction that is being lowered, if the instruction is lowered without a branch.
    /// [`FunctionLowering::write`] then selects between the new and the old value of each destination.
    pub(super) guard: Option<Value>,
    /// The byte offset and the result of the previous call of [`FunctionLowering::line_of`].
    line_at: (u32, u32),
}

impl<'a, 'p> FunctionLowering<'a, 'p> {
    pub(super) fn new(
        m: &'a mut ModuleLowering<'p>,
        (id, shell): (FuncId, Function),
        head: &'p ast::Function,
    ) -> Self {
        let ast = m.ast;
        FunctionLowering {
            m,
            ast,
            b: FunctionBuilder::new(shell),
            scopes: Scopes::new(),
            head,
            id,
            returns: Vec::new(),
            carry: None,
            in_memory: FxHashSet::default(),
            param_bits: FxHashMap::default(),
            used_bytes: None,
            guard: None,
            line_at: (0, 1),
        }
    }

    pub(super) fn run(mut self) -> Lowered<Function> {
        let ast = self.ast;
        let statements = self.head.body.unwrap_or_default();
        let body = &ast[statements];
        self.find_param_bits(body);
        self.find_memory_params(body);
        self.bind_parameters()?;
        self.bind_labels(body);
        self.name_unused_shared(statements);
        let first = self.b.create_block();
        self.b.jump(first);
        self.b.switch_to(first);
        self.scopes.restart();
        let mut scope = 0;
        for id in statements.ids() {
            self.statement(id, &mut scope)?;
        }
        if self.b.is_open() {
            self.finish_body();
        }
        Ok(self.b.finish())
    }

    /// Emits the end of a body that does not end with `ret` or `exit`: an `exit` in a kernel, and a
    /// `ret` in a device function.
    fn finish_body(&mut self) {
        if self.b.function.kernel.is_some() {
            self.b.end(margay_ops::ops::Opcode::Exit, &[]);
        } else {
            self.emit_ret();
        }
    }

    /// Emits the address of each shared variable that the body declares and that no instruction names. A kernel's static
    /// shared memory consists of the shared variables whose addresses its functions compute, and `ptxas` counts a
    /// variable of a body also if no instruction uses it.
    fn name_unused_shared(&mut self, body: List<Statement>) {
        let ast = self.ast;
        let is_shared = |statement: &&Statement| match statement {
            Statement::Variable(id) => ast[*id].space == StateSpace::Shared,
            _ => false,
        };
        if !ast[body].iter().any(|statement| is_shared(&statement)) {
            return;
        }
        let mut named = FxHashSet::default();
        for statement in &ast[body] {
            let Statement::Instruction(instruction) = statement else {
                continue;
            };
            named.extend(ast[instruction.operands].iter().filter_map(
                |operand| match operand.kind {
                    OperandKind::Memory { base, .. }
                    | OperandKind::Offset { base, .. }
                    | OperandKind::Name(base)
                    | OperandKind::Element { base, .. } => Some(base),
                    _ => None,
                },
            ));
        }
        for statement in ast[body].iter().filter(is_shared) {
            let Statement::Variable(id) = statement else {
                continue;
            };
            let symbol = self.m.inner_symbols.get(id).copied();
            if let Some(symbol) = symbol.filter(|_| !named.contains(&ast[*id].name.name)) {
                let payload = symbol_payload(symbol, 0);
                self.b
                    .payload(Opcode::SymbolAddr, OpType::U64, payload, Type::B64);
            }
        }
    }

    /// Finds the `.param` variables that must be in local memory, because an instruction accesses them at an offset,
    /// with another width or as vectors, or uses their address.
    fn find_memory_params(&mut self, body: &[Statement]) {
        for statement in body {
            let Statement::Instruction(instruction) = statement else {
                continue;
            };
            let opcode = self.ast.text(instruction.opcode);
            if opcode == "call" {
                continue;
            }
            let whole = matches!(opcode, "ld" | "st") && !self.has_vector(instruction);
            for operand in &self.ast[instruction.operands] {
                match operand.kind {
                    OperandKind::Memory { base, offset: 0 } if whole => {
                        self.note_width(base, instruction);
                    }
                    OperandKind::Memory { base, .. }
                    | OperandKind::Offset { base, .. }
                    | OperandKind::Name(base)
                    | OperandKind::Element { base, .. } => {
                        self.in_memory.insert(base);
                    }
                    _ => {}
                }
            }
        }
    }

    fn has_vector(&self, instruction: &ast::Instruction) -> bool {
        self.ast[instruction.modifiers]
            .iter()
            .any(|modifier| matches!(self.ast.text(modifier.name), "v2" | "v4" | "v8"))
    }

    /// Adds a `.param` variable to `in_memory` if the instruction's access is narrower or wider than the variable.
    fn note_width(&mut self, base: Name, instruction: &ast::Instruction) {
        let modifiers = &self.ast[instruction.modifiers];
        let ty = modifiers
            .iter()
            .rev()
            .find_map(|m| OpType::from_name(self.ast.text(m.name)));
        let Some(ty) = ty else { return };
        let declared = self.param_bits(base);
        if declared.is_some_and(|bits| bits != ty.bits()) {
            self.in_memory.insert(base);
        }
    }

    /// Fills `param_bits` with the sizes of the scalar types of the function's `.param` variables.
    fn find_param_bits(&mut self, body: &[Statement]) {
        let ast = self.ast;
        let in_body = body.iter().filter_map(|statement| match statement {
            Statement::Variable(id) => Some(&ast[*id]),
            _ => None,
        });
        let heads = ast[self.head.parameters]
            .iter()
            .chain(&ast[self.head.returns]);
        for variable in heads.chain(in_body) {
            if variable.space == StateSpace::Param {
                let bits = op_type(variable.scalar).bits();
                let known = self.param_bits.entry(variable.name.name).or_insert(bits);
                if *known != bits {
                    *known = 0;
                }
            }
        }
    }

    /// Returns the size in bits of the scalar type of the `.param` variable with this name in any scope of the
    /// function. Returns 0 if several such variables have different sizes, and `None` if there is no such variable.
    pub(super) fn param_bits(&self, name: Name) -> Option<u32> {
        self.param_bits.get(&name).copied()
    }

    fn bind_parameters(&mut self) -> Lowered<()> {
        if let Some(kernel) = self.b.function.kernel.clone() {
            for (variable, param) in self.ast[self.head.parameters].iter().zip(&kernel.params) {
                let bytes = data::element_bytes(variable) as u32;
                self.scopes.note_element(variable.name.name, bytes);
                self.scopes
                    .bind(variable.name.name, Binding::KernelParam(param.offset));
            }
            return Ok(());
        }
        let entry = self.b.function.entry();
        let values = self.b.function.dfg.blocks[entry].params.clone();
        let mut values = values.into_iter();
        let heads = [self.head.returns, self.head.parameters];
        for variable in heads.iter().flat_map(|&list| &self.ast[list]) {
            let bytes = data::element_bytes(variable) as u32;
            self.scopes.note_element(variable.name.name, bytes);
        }
        for variable in &self.ast[self.head.returns] {
            let ty = op_type(variable.scalar);
            if is_array(variable) {
                let pointer = self.b.declare(Type::B64);
                if let Some(value) = values.next() {
                    self.b.write(pointer, value);
                }
                self.scopes
                    .bind(variable.name.name, Binding::Pointer(pointer));
            } else if variable.space == StateSpace::Reg {
                for holder in self.bind_register(variable, ty) {
                    self.returns.push((ReturnPlace::Value(holder), ty));
                }
            } else {
                let holder = self.b.declare(ty.held());
                self.returns.push((ReturnPlace::Value(holder), ty));
                self.bind_scalar(variable, holder, ty, None);
            }
        }
        for variable in &self.ast[self.head.parameters] {
            let ty = op_type(variable.scalar);
            if variable.space == StateSpace::Reg {
                for holder in self.bind_register(variable, ty) {
                    if let Some(value) = values.next() {
                        self.b.write(holder, value);
                    }
                }
                continue;
            }
            let Some(value) = values.next() else { continue };
            let holder = self.b.declare(if is_array(variable) {
                Type::B64
            } else {
                ty.held()
            });
            self.b.write(holder, value);
            if is_array(variable) {
                self.scopes
                    .bind(variable.name.name, Binding::Pointer(holder));
            } else {
                self.bind_scalar(variable, holder, ty, Some(value));
            }
        }
        Ok(())
    }

    /// Binds the name of a scalar `.param` variable in the function's head to the SSA variable
    /// `holder`. If the `.param` variable must be in memory, binds the name to a slot in local
    /// memory instead.
    fn bind_scalar(
        &mut self,
        variable: &ast::Variable,
        holder: Variable,
        ty: OpType,
        initial: Option<Value>,
    ) {
        let name = variable.name.name;
        let binding = if self.in_memory.contains(&name) {
            let slot = self.param_slot(variable);
            if let Some(value) = initial {
                let address = self.slot_address(slot);
                self.store_local(ty, address, value);
            } else if let Some(last) = self.returns.last_mut() {
                *last = (ReturnPlace::Memory(slot), ty);
            }
            Binding::Local(slot)
        } else {
            Binding::Value(holder, ty)
        };
        self.scopes.bind(name, binding);
    }

    fn param_slot(&mut self, variable: &ast::Variable) -> Slot {
        let size = op_type(variable.scalar).bits().div_ceil(8);
        self.b.slot(SlotData {
            name: self.ast.text(variable.name.name).to_owned(),
            size,
            align: size.next_power_of_two().max(1),
        })
    }

    fn bind_labels(&mut self, body: &[Statement]) {
        let mut scope = 0;
        for statement in body {
            match statement {
                Statement::ScopeBegin(_) => {
                    scope += 1;
                    self.scopes.open(scope);
                }
                Statement::ScopeEnd(_) => self.scopes.close(),
                Statement::Label(label) => {
                    let block = self.b.create_block();
                    self.scopes.bind_label(label.name, block);
                }
                Statement::BranchTargets(id) | Statement::CallTargets(id) => {
                    self.scopes
                        .bind(self.ast[*id].label.name, Binding::Targets(*id));
                }
                Statement::CallPrototype(id) => {
                    self.scopes
                        .bind(self.ast[*id].label.name, Binding::Prototype(*id));
                }
                _ => {}
            }
        }
    }

    fn statement(&mut self, id: Id<Statement>, scope: &mut usize) -> Lowered<()> {
        let ast = self.ast;
        match &ast[id] {
            Statement::Instruction(instruction) => {
                let resolution = self.m.resolution;
                match resolution.instruction(id) {
                    Some(resolved) => {
                        let lowered = self.instruction(instruction, resolved);
                        self.used_bytes = None;
                        lowered
                    }
                    None => {
                        let message = "this instruction was not resolved";
                        let span = instruction.span;
                        Err(Diagnostic::error(Code::UNKNOWN_OPCODE, span, message))
                    }
                }
            }
            Statement::Pragma(strings) => {
                let texts = ast[*strings].iter();
                let mut masks = texts.filter_map(|text| used_bytes_mask(ast.text(text.name)));
                self.used_bytes = masks.next_back().or(self.used_bytes);
                Ok(())
            }
            Statement::Variable(id) => self.declare_variable(*id),
            Statement::ScopeBegin(_) => {
                *scope += 1;
                self.scopes.open(*scope);
                Ok(())
            }
            Statement::ScopeEnd(_) => {
                self.scopes.close();
                Ok(())
            }
            Statement::Label(label) => {
                if let Some(block) = self.scopes.label(label.name) {
                    self.go_on_in(block);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes `block` the current block, to which instructions are appended. If the previous current
    /// block has no terminator, first emits a jump to `block`.
    pub(super) fn go_on_in(&mut self, block: Block) {
        if self.b.is_open() {
            self.b.jump(block);
        }
        self.b.switch_to(block);
    }

    fn declare_variable(&mut self, id: Id<ast::Variable>) -> Lowered<()> {
        let variable = &self.ast[id];
        let name = variable.name.name;
        self.scopes
            .note_element(name, data::element_bytes(variable) as u32);
        let ty = op_type(variable.scalar);
        match variable.space {
            StateSpace::Reg => self.declare_register(variable, ty),
            StateSpace::Param if !is_array(variable) && !self.in_memory.contains(&name) => {
                let holder = self.b.declare(ty.held());
                self.scopes.bind(name, Binding::Value(holder, ty));
                Ok(())
            }
            StateSpace::Local | StateSpace::Param => {
                let size = data::size(self.ast, variable)?;
                let size = u32::try_from(size)
                    .ok()
                    .filter(|&n| n <= 1 << 30)
                    .ok_or_else(|| {
                        Diagnostic::error(
                            Code::OBJECT_SIZE,
                            variable.span,
                            "the variable is too large",
                        )
                    })?;
                let text = self.ast.text(name).to_owned();
                let slot = self.b.slot(SlotData {
                    name: text,
                    size,
                    align: data::align(variable),
                });
                self.scopes.bind(name, Binding::Local(slot));
                Ok(())
            }
            _ => {
                if let Some(&symbol) = self.m.inner_symbols.get(&id) {
                    self.scopes.bind(name, Binding::Symbol(symbol));
                }
                Ok(())
            }
        }
    }

    fn declare_register(&mut self, variable: &ast::Variable, ty: OpType) -> Lowered<()> {
        let name = variable.name.name;
        let count = variable.range.unwrap_or(1);
        let declared = u64::from(self.b.function.declared_registers).saturating_add(count);
        self.b.function.declared_registers = u32::try_from(declared).unwrap_or(u32::MAX);
        if let Some(count) = variable.range {
            let elements = variable.vector.count();
            self.scopes.bind_range(name, count, ty, elements);
        } else {
            self.bind_register(variable, ty);
        }
        Ok(())
    }

    /// Creates an SSA variable for each element of a scalar or vector register, and binds the
    /// register's name to them. Returns the SSA variables.
    fn bind_register(&mut self, variable: &ast::Variable, ty: OpType) -> Vec<Variable> {
        let elements = variable.vector.count();
        let binding = Binding::register(ty, elements, |ty| self.b.declare(ty.held()));
        let holders = match &binding {
            Binding::Vector(parts) => parts.clone(),
            Binding::Register(holder) => vec![*holder],
            _ => Vec::new(),
        };
        self.scopes.bind(variable.name.name, binding);
        holders
    }

    /// Returns the binding of a name: of a declaration in the function, or else of a module-scope
    /// variable.
    pub(super) fn find(&mut self, name: Name) -> Option<Binding> {
        let (ast, b) = (self.ast, &mut self.b);
        let split = || {
            let (base, number) = split_number(ast.text(name))?;
            Some((ast.names.get(base)?, number))
        };
        let found = self.scopes.find(name, split, |ty| b.declare(ty.held()));
        found.or_else(|| {
            self.m
                .symbols
                .get(&name)
                .map(|&symbol| Binding::Symbol(symbol))
        })
    }

    /// Returns the SSA variable of the carry flag, and creates it at the first call.
    pub(super) fn carry(&mut self) -> Variable {
        match self.carry {
            Some(carry) => carry,
            None => {
                let carry = self.b.declare(Type::PRED);
                self.carry = Some(carry);
                carry
            }
        }
    }

    /// Records the source position of `instruction`, which is then the source position of the IR
    /// instructions that are emitted for it.
    pub(super) fn mark(&mut self, instruction: &ast::Instruction) {
        let ptx_line = self.line_of(instruction.span.start);
        let loc = instruction.location.map_or(0, |id| self.m.loc(id));
        self.b.set_loc(SourceLoc { ptx_line, loc });
    }

    /// Returns the number of the line in which the byte offset `position` of the source text is.
    /// Most calls pass ascending offsets, so the function counts the newlines since the offset of
    /// the previous call.
    pub(super) fn line_of(&mut self, position: u32) -> u32 {
        let text = self.m.parsed.source.text().as_bytes();
        let (from, line) = self.line_at;
        let position = (position as usize).min(text.len());
        if position < from as usize || from == 0 {
            self.line_at = (
                position as u32,
                self.m.parsed.source.line_column(position as u32).line,
            );
        } else {
            let newlines = text[from as usize..position]
                .iter()
                .filter(|&&byte| byte == b'\n')
                .count();
            self.line_at = (position as u32, line + newlines as u32);
        }
        self.line_at.1
    }

    /// Returns the signature's index in the module's table, and adds the signature if it is new.
    pub(super) fn intern(&mut self, signature: Signature) -> margay_ir::entity::SigId {
        let known = self
            .m
            .module
            .signatures
            .iter()
            .find(|(_, known)| **known == signature);
        match known.map(|(id, _)| id) {
            Some(id) => id,
            None => self.m.module.signatures.push(signature),
        }
    }
}
