//! Calls: whether the arguments fit the function or prototype called.

use margay_ir::forms::register_fits;
use margay_ir::types::OpType;

use super::instruction::error;
use super::symbol::{Lookup, Symbol, register_type};
use crate::ast::{
    Call, Constant, FunctionKind, Instruction, List, Module, Operand, OperandKind, StateSpace,
    Variable, VectorSize,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;

type Checked = Result<(), Box<Diagnostic>>;

/// Checks a call whose operands have the right forms.
pub(super) fn check<L: Lookup + ?Sized>(
    module: &Module,
    instruction: &Instruction,
    lookup: &L,
) -> Checked {
    let Some(call) = instruction.call(module) else {
        return Ok(());
    };
    let checker = Checker { module, lookup };
    let target = call.target;
    let OperandKind::Name(name) = target.kind else {
        return Err(error(Code::CALL, target.span, "a function is expected"));
    };
    let callee = module.text(name);
    match lookup.lookup(name) {
        None => Ok(()),
        Some(Symbol::Function(id)) => {
            let function = &module[id];
            if function.kind == FunctionKind::Entry {
                let message = format!("`{callee}` is a kernel; only functions can be called");
                return Err(error(Code::CALL, target.span, message));
            }
            if let Some(prototype) = call.prototype {
                let message = format!("`{callee}` is called directly and needs no prototype");
                return Err(error(Code::CALL, prototype.span, message));
            }
            checker.parameters(&call, instruction, function.returns, function.parameters)
        }
        Some(Symbol::Register { .. }) => checker.indirect(&call, instruction),
        Some(_) => {
            let message = format!("`{callee}` is no function");
            Err(error(Code::CALL, target.span, message))
        }
    }
}

struct Checker<'a, L: ?Sized> {
    module: &'a Module,
    lookup: &'a L,
}

impl<L: Lookup + ?Sized> Checker<'_, L> {
    fn indirect(&self, call: &Call, instruction: &Instruction) -> Checked {
        let Some(prototype) = call.prototype else {
            let message = "a call through a register needs a prototype or a list of targets";
            return Err(error(Code::CALL, instruction.span, message));
        };
        let OperandKind::Name(name) = prototype.kind else {
            let message = "the name of a prototype or of a list of targets is expected";
            return Err(error(Code::CALL, prototype.span, message));
        };
        match self.lookup.lookup(name) {
            Some(Symbol::Prototype(id)) => {
                let prototype = &self.module[id];
                self.parameters(call, instruction, prototype.returns, prototype.parameters)
            }
            None | Some(Symbol::Targets(_) | Symbol::Variable(_)) => Ok(()),
            Some(_) => {
                let message = format!(
                    "`{}` is neither a prototype nor a list of targets",
                    self.module.text(name)
                );
                Err(error(Code::CALL, prototype.span, message))
            }
        }
    }

    fn parameters(
        &self,
        call: &Call,
        instruction: &Instruction,
        returns: List<Variable>,
        parameters: List<Variable>,
    ) -> Checked {
        self.list("result", call.returns, returns, instruction)?;
        self.list("argument", call.arguments, parameters, instruction)
    }

    fn list(
        &self,
        what: &str,
        actual: List<Operand>,
        formal: List<Variable>,
        instruction: &Instruction,
    ) -> Checked {
        let module = self.module;
        if actual.len() != formal.len() {
            let message = format!(
                "the call has {} {what}s, the function {}",
                actual.len(),
                formal.len()
            );
            return Err(error(Code::CALL, instruction.span, message));
        }
        for (operand, parameter) in module[actual].iter().zip(&module[formal]) {
            if what == "argument" && operand.kind == OperandKind::Sink {
                let message = "`_` cannot be passed";
                return Err(error(Code::CALL, operand.span, message));
            }
            if let Err(reason) = self.fits(operand, parameter) {
                let message = format!("this {what} does not fit: {reason}");
                return Err(error(Code::CALL, operand.span, message));
            }
        }
        Ok(())
    }

    fn fits(&self, operand: &Operand, parameter: &Variable) -> Result<(), String> {
        let wanted = register_type(parameter.scalar);
        match operand.kind {
            OperandKind::Name(name) => match self.lookup.lookup(name) {
                None => Ok(()),
                Some(Symbol::Register { variable, .. }) => {
                    self.register_fits(&self.module[variable], parameter, wanted)
                }
                Some(Symbol::Variable(variable)) => {
                    let variable = &self.module[variable];
                    if variable.space == StateSpace::Param || variable.scalar.is_opaque() {
                        Ok(())
                    } else {
                        Err(format!(
                            "a variable in `{}` cannot be passed",
                            variable.space
                        ))
                    }
                }
                Some(_) => Ok(()),
            },
            OperandKind::Constant(constant) => constant_fits(constant, wanted),
            _ => Ok(()),
        }
    }

    fn register_fits(
        &self,
        register: &Variable,
        parameter: &Variable,
        wanted: OpType,
    ) -> Result<(), String> {
        let aggregate = !parameter.dimensions.is_empty() || parameter.vector != VectorSize::Scalar;
        let actual = register_type(register.scalar);
        let fits = register_fits(actual, wanted, false)
            || register_fits(wanted, actual, false)
            || aggregate && register.vector != VectorSize::Scalar;
        if fits && (!aggregate || register.vector == parameter.vector) {
            Ok(())
        } else {
            Err(format!(
                "a `{}` register is passed for a `{}` parameter",
                register.scalar, parameter.scalar
            ))
        }
    }
}

fn constant_fits(constant: Constant, wanted: OpType) -> Result<(), String> {
    if constant.is_float() && wanted.is_integer() && wanted.element_bits() < 32 {
        return Err(format!(
            "a floating-point constant is passed for `.{wanted}`"
        ));
    }
    Ok(())
}
