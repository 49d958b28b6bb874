//! Lowers calls: direct calls, indirect calls, and calls of system functions.

use margay_ir::entity::{Slot, Value};
use margay_ir::function::{Signature, SlotData};
use margay_ir::syscall::Syscall;
use margay_ops::meaning::Desc;
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::env::Binding;
use super::function::FunctionLowering;
use super::module::is_array;
use super::operand::Destination;
use super::{Lowered, data, op_type};
use crate::ast::{self, Call, Name, Operand, OperandKind, Variable};
use crate::{Code, Diagnostic, Span};

/// The signature of a called function: its return parameters and its parameters.
struct Callee {
    returns: Vec<Variable>,
    parameters: Vec<Variable>,
}

fn misfit(span: Span, what: &str) -> Diagnostic {
    Diagnostic::error(Code::CALL, span, what)
}

impl FunctionLowering<'_, '_> {
    /// Whether the function declares a `.param` variable with this name, in its head or in any scope of its body.
    pub(super) fn is_param_name(&self, name: Name) -> bool {
        self.param_bits(name).is_some()
    }

    pub(super) fn call(&mut self, instruction: &ast::Instruction) -> Lowered<()> {
        let parts = instruction.call(self.ast);
        let call = parts.ok_or_else(|| misfit(instruction.span, "a call needs a target"))?;
        let direct = match call.target.kind {
            OperandKind::Name(name) => self
                .m
                .functions
                .get(&name)
                .copied()
                .map(|func| (name, func)),
            _ => None,
        };
        let callee = match direct {
            Some((name, _)) => self.head_of(name, call.target.span)?,
            None => self.prototype_of(&call)?,
        };
        let args = self.arguments(&call, &callee)?;
        let signature = self.m.signature(&callee.returns, &callee.parameters);
        let types = signature.returns.clone();
        let inst = match direct {
            Some((name, func)) => match Syscall::from_name(self.ast.text(name)) {
                Some(which) if !self.m.is_defined(func) => {
                    self.system_call(which, &signature, &args, call.target.span)?
                }
                _ => {
                    let desc = structural(Opcode::Call, u64::from(func.0));
                    self.b.inst(desc, &args, &types)
                }
            },
            None => {
                let target = self.read(&call.target, OpType::U64)?;
                let target = self.wide_address(target, StateSpace::Global);
                let sig = self.intern(signature);
                self.b.call_indirect(sig, target, &args, &types)
            }
        };
        let results = self.b.function.dfg.results(inst).to_vec();
        self.store_results(&call, &callee, &results)
    }

    fn system_call(
        &mut self,
        which: Syscall,
        signature: &Signature,
        args: &[Value],
        span: Span,
    ) -> Lowered<margay_ir::entity::Inst> {
        if signature.params != which.params() || signature.returns != which.results() {
            let message = format!(
                "`{}` is not declared with the parameters of the system call",
                which.name()
            );
            return Err(misfit(span, &message));
        }
        Ok(self.b.inst(
            structural(Opcode::Syscall, which as u64),
            args,
            which.results(),
        ))
    }

    fn head_of(&self, name: Name, span: Span) -> Lowered<Callee> {
        let func = self.m.functions.get(&name);
        let head = func.and_then(|func| self.m.heads.get(func));
        let head = head.ok_or_else(|| super::unknown(span, self.ast.text(name)))?;
        let head = &self.ast[*head];
        Ok(Callee {
            returns: self.ast[head.returns].to_vec(),
            parameters: self.ast[head.parameters].to_vec(),
        })
    }

    /// Returns the signature of the function that an indirect call calls. The call specifies a
    /// prototype, a list of targets or an array of function addresses. The result is the signature
    /// of the prototype, or of the first function in the list or array.
    fn prototype_of(&mut self, call: &Call) -> Lowered<Callee> {
        let Some(operand) = call.prototype else {
            return Err(misfit(
                call.target.span,
                "an indirect call needs a prototype",
            ));
        };
        let OperandKind::Name(name) = operand.kind else {
            return Err(misfit(operand.span, "a prototype's name is needed here"));
        };
        match self.find(name) {
            Some(Binding::Prototype(id)) => Ok(Callee {
                returns: self.ast[self.ast[id].returns].to_vec(),
                parameters: self.ast[self.ast[id].parameters].to_vec(),
            }),
            Some(Binding::Targets(id)) => {
                let first = self.ast[self.ast[id].targets].first().copied();
                let first =
                    first.ok_or_else(|| misfit(operand.span, "the list of targets is empty"))?;
                self.head_of(first.name.name, operand.span)
            }
            Some(Binding::Symbol(symbol)) => {
                let target =
                    self.m.module.symbols[symbol]
                        .relocs
                        .iter()
                        .find_map(|r| match r.target {
                            margay_ir::module::RelocTarget::Func(func) => Some(func),
                            _ => None,
                        });
                let text = target.map(|func| self.m.module.functions[func].name.clone());
                let name = text.and_then(|text| self.ast.names.get(&text));
                let name =
                    name.ok_or_else(|| misfit(operand.span, "the array contains no function"))?;
                self.head_of(name, operand.span)
            }
            _ => Err(misfit(operand.span, "a prototype's name is needed here")),
        }
    }

    /// Returns the values that the call passes to the callee: first the addresses at which the
    /// callee stores the arrays that it returns, then the arguments.
    fn arguments(&mut self, call: &Call, callee: &Callee) -> Lowered<Vec<Value>> {
        let returns = self.ast[call.returns].to_vec();
        let arguments = self.ast[call.arguments].to_vec();
        if returns.len() != callee.returns.len() || arguments.len() != callee.parameters.len() {
            return Err(misfit(
                call.target.span,
                "the call and the function have different numbers of parameters",
            ));
        }
        let mut values = Vec::new();
        for (operand, variable) in returns.iter().zip(&callee.returns) {
            if is_array(variable) {
                values.push(match operand.kind {
                    OperandKind::Sink => self.unused_array(variable)?,
                    _ => self.array_address(operand)?,
                });
            }
        }
        for (operand, variable) in arguments.iter().zip(&callee.parameters) {
            self.argument(operand, variable, &mut values)?;
        }
        Ok(values)
    }

    /// Appends the values of an argument to `values`: the address if the argument is an array, one
    /// value for each element if it is a vector register, and one value otherwise.
    fn argument(
        &mut self,
        operand: &Operand,
        variable: &Variable,
        values: &mut Vec<Value>,
    ) -> Lowered<()> {
        if is_array(variable) {
            values.push(self.array_address(operand)?);
            return Ok(());
        }
        let elements = self.parts(operand);
        if elements.len() != variable.vector.count() as usize {
            let message = "the argument and the parameter have different numbers of elements";
            return Err(misfit(operand.span, message));
        }
        for element in &elements {
            values.push(self.scalar_argument(element, variable)?);
        }
        Ok(())
    }

    fn scalar_argument(&mut self, operand: &Operand, variable: &Variable) -> Lowered<Value> {
        let ty = op_type(variable.scalar);
        if let OperandKind::Name(name) = operand.kind
            && let Some(Binding::Local(slot)) = self.find(name)
            && self.is_param_slot(slot)
        {
            let address = self.slot_address(slot);
            return Ok(self.load_local(ty, address));
        }
        let value = self.read(operand, ty)?;
        let value = self.cut_to(value, ty);
        if self.b.function.dfg.ty(value) != ty.held() {
            return Err(misfit(
                operand.span,
                "the argument and the parameter have different sizes",
            ));
        }
        Ok(value)
    }

    /// Allocates an array in local memory, in which the callee stores a returned array that the
    /// caller discards (`_`). Returns the generic address of the local array.
    fn unused_array(&mut self, variable: &Variable) -> Lowered<Value> {
        let size = data::size(self.ast, variable)?;
        let size = u32::try_from(size)
            .map_err(|_| misfit(variable.span, "the returned array is too large"))?;
        let slot = self.b.slot(SlotData {
            name: self.ast.text(variable.name.name).to_owned(),
            size,
            align: data::align(variable),
        });
        Ok(self.generic_address(slot))
    }

    fn generic_address(&mut self, slot: Slot) -> Value {
        let address = self.slot_address(slot);
        let mods = Mods::NONE.with_space(StateSpace::Local);
        let desc = Desc {
            opcode: Opcode::Cvta,
            ty: OpType::U64,
            src: OpType::None,
            mods,
        };
        self.b.op(desc, &[address], Type::B64)
    }

    /// Returns the generic address of the `.param` array that `operand` names in the calling
    /// function.
    fn array_address(&mut self, operand: &Operand) -> Lowered<Value> {
        let OperandKind::Name(name) = operand.kind else {
            return Err(misfit(operand.span, "an array must be passed by its name"));
        };
        match self.find(name) {
            Some(Binding::Local(slot)) => Ok(self.generic_address(slot)),
            Some(Binding::Pointer(variable)) => Ok(self.b.read(variable)),
            Some(Binding::KernelParam(at)) => {
                Ok(self
                    .b
                    .payload(Opcode::ParamAddr, OpType::U64, u64::from(at), Type::B64))
            }
            _ => Err(misfit(operand.span, "the parameter is an array")),
        }
    }

    fn store_results(&mut self, call: &Call, callee: &Callee, results: &[Value]) -> Lowered<()> {
        let returns = self.ast[call.returns].to_vec();
        let scalars = returns
            .iter()
            .zip(&callee.returns)
            .filter(|(_, variable)| !is_array(variable));
        let mut results = results.iter().copied();
        for (operand, variable) in scalars {
            let ty = op_type(variable.scalar);
            let count = variable.vector.count() as usize;
            let values: Vec<Value> = results.by_ref().take(count).collect();
            if count > 1 {
                self.store_elements(operand, &values, ty)?;
                continue;
            }
            let Some(&value) = values.first() else {
                continue;
            };
            match operand.kind {
                OperandKind::Sink => {}
                OperandKind::Name(name) => match self.find(name) {
                    Some(Binding::Local(slot)) => {
                        let address = self.slot_address(slot);
                        self.store_local(ty, address, value);
                    }
                    _ => {
                        let place = self.place(operand)?;
                        self.write(place, value, ty);
                    }
                },
                _ => {
                    self.write(Destination::Sink, value, ty);
                }
            }
        }
        Ok(())
    }
}

impl FunctionLowering<'_, '_> {
    /// Writes `values`, the elements of a returned vector, to the registers in `operand`.
    fn store_elements(&mut self, operand: &Operand, values: &[Value], ty: OpType) -> Lowered<()> {
        if operand.kind == OperandKind::Sink {
            return Ok(());
        }
        let elements = self.parts(operand);
        if elements.len() != values.len() {
            let message = "the result and its destination have different numbers of elements";
            return Err(misfit(operand.span, message));
        }
        for (element, &value) in elements.iter().zip(values) {
            let place = self.place(element)?;
            self.write(place, value, ty);
        }
        Ok(())
    }
}

fn structural(opcode: Opcode, payload: u64) -> Desc {
    Desc {
        opcode,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods(payload),
    }
}
