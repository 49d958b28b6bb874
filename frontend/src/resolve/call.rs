//! Checks that the arguments and the results of a call fit the parameters of the function or prototype that is called.

use std::fmt;

use margay_ops::types::{Class, OpType};
use margay_ptx::register_fits;

use super::declarations;
use super::instruction::error;
use super::symbol::{Lookup, Symbol, register_type};
use crate::ast::{
    Call, Constant, Function, FunctionKind, Id, Instruction, List, Module, Name, Operand,
    OperandKind, ScalarType, StateSpace, Targets, Variable, VectorSize,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;

type Checked = Result<(), Box<Diagnostic>>;

/// Checks the arguments and results of a `call` instruction whose operands match a form of the
/// syntax table.
pub(super) fn check<L: Lookup + ?Sized>(
    module: &Module,
    function: &Function,
    instruction: &Instruction,
    lookup: &L,
) -> Checked {
    let Some(call) = instruction.call(module) else {
        return Ok(());
    };
    let checker = Checker {
        module,
        function,
        lookup,
    };
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
            let message = format!("`{callee}` is not a function");
            Err(error(Code::CALL, target.span, message))
        }
    }
}

/// The role of an operand in a call, argument or result, which error messages name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Argument,
    Result,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            What::Argument => "argument",
            What::Result => "result",
        })
    }
}

struct Checker<'a, L: ?Sized> {
    module: &'a Module,
    /// The function whose body contains the call.
    function: &'a Function,
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
            Some(Symbol::Targets(id)) => self.targets(call, instruction, id),
            None | Some(Symbol::Variable(_)) => Ok(()),
            Some(_) => {
                let message = format!(
                    "`{}` is neither a prototype nor a list of targets",
                    self.module.text(name)
                );
                Err(error(Code::CALL, prototype.span, message))
            }
        }
    }

    /// Checks that the arguments and results of the call fit each function in the list of call
    /// targets `id`.
    fn targets(&self, call: &Call, instruction: &Instruction, id: Id<Targets>) -> Checked {
        for target in &self.module[self.module[id].targets] {
            if let Some(Symbol::Function(id)) = self.lookup.lookup(target.name.name) {
                let function = &self.module[id];
                self.parameters(call, instruction, function.returns, function.parameters)?;
            }
        }
        Ok(())
    }

    fn parameters(
        &self,
        call: &Call,
        instruction: &Instruction,
        returns: List<Variable>,
        parameters: List<Variable>,
    ) -> Checked {
        self.list(What::Result, call.returns, returns, instruction)?;
        self.list(What::Argument, call.arguments, parameters, instruction)
    }

    fn list(
        &self,
        what: What,
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
            if let Err(reason) = self.fits(what, operand, parameter) {
                let message = format!("this {what} does not fit: {reason}");
                return Err(error(Code::CALL, operand.span, message));
            }
        }
        Ok(())
    }

    fn fits(&self, what: What, operand: &Operand, parameter: &Variable) -> Result<(), String> {
        match operand.kind {
            OperandKind::Name(name) => self.name_fits(name, parameter),
            OperandKind::Sink if what == What::Argument => Err("`_` cannot be passed".to_owned()),
            OperandKind::Constant(_) if what == What::Result => {
                Err("a constant cannot receive a result".to_owned())
            }
            OperandKind::Constant(constant) => constant_fits(constant, parameter),
            _ => Ok(()),
        }
    }

    fn name_fits(&self, name: Name, parameter: &Variable) -> Result<(), String> {
        let text = self.module.text(name);
        match self.lookup.lookup(name) {
            None => Ok(()),
            Some(Symbol::Register { variable, .. }) => {
                register_passes(&self.module[variable], parameter)
            }
            Some(Symbol::Variable(id)) => {
                let variable = &self.module[id];
                let lists = [self.function.parameters, self.function.returns];
                if lists
                    .iter()
                    .any(|list| list.ids().any(|formal| formal == id))
                {
                    return Err(format!(
                        "`{text}` is a parameter of this function; load it first"
                    ));
                }
                match variable.space {
                    _ if variable.scalar.is_opaque() => Ok(()),
                    StateSpace::Param => self.variable_passes(variable, parameter),
                    space => Err(format!("a variable in `{space}` cannot be passed")),
                }
            }
            Some(Symbol::Special(_)) => Err(format!("`{text}` is a special register")),
            Some(Symbol::Function(_)) => Err(format!("`{text}` is a function")),
            Some(_) => Err(format!(
                "`{text}` is neither a register nor a `.param` variable"
            )),
        }
    }

    /// Checks that a `.param` variable has the parameter's type and alignment.
    fn variable_passes(&self, variable: &Variable, parameter: &Variable) -> Result<(), String> {
        let class = |variable: &Variable| class(register_type(variable.scalar));
        let classes = (class(variable), class(parameter));
        // For a range such as `p<4>`, compare the size of one member.
        let of_one = |variable: &Variable| {
            let size = declarations::size(self.module, variable)?;
            size.checked_div(variable.range.unwrap_or(1))
        };
        let (size, wanted) = (of_one(variable), of_one(parameter));
        let open = self.module[parameter.dimensions]
            .iter()
            .any(|dimension| matches!(dimension.length, None | Some(0)));
        let same_form = variable.dimensions.len() == parameter.dimensions.len();
        if !same_form
            || !open && size != wanted
            || classes.0.zip(classes.1).is_some_and(|(a, b)| a != b)
        {
            return Err("the variable and the parameter have different types".to_owned());
        }
        let (align, wanted) = (
            declarations::alignment_of(variable),
            declarations::alignment_of(parameter),
        );
        if align != wanted {
            return Err(format!(
                "the variable is aligned to {align} bytes, the parameter to {wanted}"
            ));
        }
        Ok(())
    }
}

/// Checks that a register can be the argument or the result for the parameter `parameter`.
fn register_passes(register: &Variable, parameter: &Variable) -> Result<(), String> {
    let (actual, wanted) = (
        register_type(register.scalar),
        register_type(parameter.scalar),
    );
    let fits = register_fits(actual, wanted, false) || register_fits(wanted, actual, false);
    let same_size = register.scalar.bytes() == parameter.scalar.bytes();
    let is_array = !parameter.dimensions.is_empty();
    if fits && same_size && !is_array && register.vector == parameter.vector {
        return Ok(());
    }
    let vector = |vector: VectorSize| match vector.count() {
        1 => String::new(),
        count => format!(".v{count} "),
    };
    let array = if is_array { " array" } else { "" };
    Err(format!(
        "a `{}{}` register is passed for a `{}{}`{array} parameter",
        vector(register.vector),
        register.scalar,
        vector(parameter.vector),
        parameter.scalar
    ))
}

/// Returns the class of a type: true for floating point, false for integers. ptxas compares only
/// the classes of the types of arguments and parameters. Returns `None` for untyped bits and all
/// other types, which are compatible with both classes.
fn class(ty: OpType) -> Option<bool> {
    match ty {
        OpType::F32 | OpType::F64 => Some(true),
        ty if ty.is_integer() && ty.class() != Class::Bits => Some(false),
        _ => None,
    }
}

fn constant_fits(constant: Constant, parameter: &Variable) -> Result<(), String> {
    let is_array = !parameter.dimensions.is_empty();
    let wrong_class =
        class(register_type(parameter.scalar)).is_some_and(|c| c != constant.is_float());
    if is_array || wrong_class || parameter.scalar == ScalarType::Pred {
        return Err(format!(
            "this constant is passed for a `{}` parameter",
            parameter.scalar
        ));
    }
    Ok(())
}
