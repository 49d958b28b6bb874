//! The bodies of probes: PTX text for Python statements.

use ruff_python_ast::{Expr, ExprCall, Operator, Stmt, UnaryOp};

use super::{Compiler, Faults, Program};
use crate::error::Error;
use crate::model::ProbeFile;

/// The maximum depth of an expression.
const MAX_DEPTH: u32 = 100;

/// The text of one probe.
struct Body<'b> {
    program: &'b Program,
    text: String,
    /// The number of the next scratch register.
    next: usize,
    /// The number of scratch registers that the text uses.
    needed: usize,
}

impl Body<'_> {
    fn line(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }

    fn fresh(&mut self) -> String {
        let number = self.next;
        self.next += 1;
        self.needed = self.needed.max(self.next);
        format!("%NR{number}")
    }
}

impl Compiler<'_> {
    /// Returns the PTX text of a function's body.
    pub(super) fn body(&self, statements: &[Stmt], program: &mut Program) -> Result<String, Error> {
        let mut body = Body {
            next: program.registers.len(),
            program,
            text: String::new(),
            needed: 0,
        };
        for statement in statements {
            // Temporary values live until the end of their statement.
            body.next = body.program.registers.len();
            self.statement(statement, &mut body)?;
        }
        let (text, needed) = (body.text, body.needed);
        program.needed = program.needed.max(needed);
        if needed > ProbeFile::MAX_REGISTERS as usize {
            return Err(Error::new(self.name, 0, "a probe needs too many registers"));
        }
        Ok(text)
    }

    fn statement(&self, statement: &Stmt, body: &mut Body) -> Result<(), Error> {
        match statement {
            Stmt::Assign(assign) => match assign.targets.as_slice() {
                [target] => {
                    let to = self.target(target, body)?;
                    self.assign(&to, &assign.value, body, 0)
                }
                _ => Err(self.at(assign, "only one register can be assigned")),
            },
            Stmt::AugAssign(assign) => {
                let to = self.target(&assign.target, body)?;
                let value = self.value(&assign.value, body, 0)?;
                self.binary(assign, assign.op, (&to, &to, &value), body)
            }
            Stmt::Expr(expr) => match &*expr.value {
                Expr::Call(call) => self.save(call, body),
                Expr::StringLiteral(_) | Expr::EllipsisLiteral(_) => Ok(()),
                other => Err(self.at(other, "an expression has no effect")),
            },
            Stmt::Pass(_) => Ok(()),
            other => Err(self.at(other, "a probe has only assignments and `map.save(...)`")),
        }
    }

    fn register(&self, name: &str, body: &Body) -> Option<String> {
        let index = body
            .program
            .registers
            .iter()
            .position(|(known, _)| known == name)?;
        Some(format!("%NR{index}"))
    }

    fn target(&self, target: &Expr, body: &Body) -> Result<String, Error> {
        let name = match target {
            Expr::Name(name) => Some(name.id.as_str()),
            _ => None,
        };
        let register = name.and_then(|name| self.register(name, body));
        register.ok_or_else(|| self.at(target, "only a register of the module can be assigned"))
    }

    /// Adds the text that sets the register `to` to the value of an expression.
    fn assign(&self, to: &str, expr: &Expr, body: &mut Body, depth: u32) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(self.at(expr, "the expression is too deep"));
        }
        match expr {
            Expr::NumberLiteral(_) => {
                let number = self.number(expr)?;
                if self.faults == Faults::Fixed {
                    body.line(&format!("mov.u64 {to}, {};", literal(number)));
                }
                Ok(())
            }
            Expr::BinOp(binary) => {
                let left = self.value(&binary.left, body, depth + 1)?;
                let right = self.value(&binary.right, body, depth + 1)?;
                self.binary(binary, binary.op, (to, &left, &right), body)
            }
            Expr::UnaryOp(unary) if unary.op == UnaryOp::USub && self.faults == Faults::Fixed => {
                let value = self.value(&unary.operand, body, depth + 1)?;
                body.line(&format!("neg.s64 {to}, {value};"));
                Ok(())
            }
            Expr::Call(call) => self.call(to, call, body),
            Expr::Name(_) | Expr::Attribute(_) => {
                let value = self.value(expr, body, depth + 1)?;
                body.line(&format!("mov.u64 {to}, {value};"));
                Ok(())
            }
            _ => Err(self.at(expr, "this expression is not supported")),
        }
    }

    /// Returns an operand with the value of an expression: a register, a helper or a number.
    fn value(&self, expr: &Expr, body: &mut Body, depth: u32) -> Result<String, Error> {
        match expr {
            Expr::NumberLiteral(_) => self.number(expr).map(literal),
            Expr::Name(name) => self.register(name.id.as_str(), body).ok_or_else(|| {
                self.at(
                    expr,
                    format!("`{}` is not a register of the module", name.id),
                )
            }),
            Expr::Attribute(attribute) => match (&*attribute.value, attribute.attr.id.as_str()) {
                (Expr::Name(module), word @ ("addr" | "bytes" | "out" | "in1" | "in2" | "in3"))
                    if self.is_language(module.id.as_str(), body) =>
                {
                    Ok(word.to_ascii_uppercase())
                }
                _ => Err(self.at(
                    expr,
                    "only addr, bytes, out, in1, in2 and in3 are values of an instruction",
                )),
            },
            _ => {
                let to = body.fresh();
                self.assign(&to, expr, body, depth + 1)?;
                Ok(to)
            }
        }
    }

    fn is_language(&self, name: &str, body: &Body) -> bool {
        body.program
            .languages
            .iter()
            .any(|language| language == name)
    }

    fn binary(
        &self,
        node: &impl ruff_text_size::Ranged,
        op: Operator,
        (to, left, right): (&str, &str, &str),
        body: &mut Body,
    ) -> Result<(), Error> {
        let mul = match self.faults {
            Faults::Fixed => "mul.lo.u64",
            Faults::Original => "mul.u64",
        };
        let opcode = match op {
            Operator::Add => "add.u64",
            Operator::Sub => "sub.u64",
            Operator::Mult => mul,
            Operator::Div => "div.u64",
            Operator::LShift => return self.shift(to, left, right, body),
            _ => return Err(self.at(node, "only + - * / and << are supported")),
        };
        body.line(&format!("{opcode} {to}, {left}, {right};"));
        Ok(())
    }

    /// The amount of a shift has 32 bits in PTX.
    fn shift(&self, to: &str, left: &str, right: &str, body: &mut Body) -> Result<(), Error> {
        if self.faults == Faults::Original {
            body.line(&format!("shl.u64 {to}, {left}, {right};"));
            return Ok(());
        }
        for line in [
            "{",
            ".reg .u32 %amount;",
            ".reg .u64 %wide;",
            &format!("mov.u64 %wide, {right};"),
            "min.u64 %wide, %wide, 64;",
            "cvt.u32.u64 %amount, %wide;",
            &format!("shl.b64 {to}, {left}, %amount;"),
            "}",
        ] {
            body.line(line);
        }
        Ok(())
    }

    fn call(&self, to: &str, call: &ExprCall, body: &mut Body) -> Result<(), Error> {
        let unknown = || {
            self.at(
                call,
                "only clock(), time() and cuid() of neutrino.language have values",
            )
        };
        let Expr::Attribute(function) = &*call.func else {
            return Err(unknown());
        };
        let is_language = matches!(&*function.value, Expr::Name(name) if self.is_language(name.id.as_str(), body));
        if !is_language || !call.arguments.args.is_empty() || !call.arguments.keywords.is_empty() {
            return Err(unknown());
        }
        match function.attr.id.as_str() {
            "clock" => body.line(&format!("mov.u64 {to}, %clock64;")),
            "time" => body.line(&format!("mov.u64 {to}, %globaltimer;")),
            "cuid" | "smid" => {
                for line in [
                    "{",
                    ".reg .b32 %cuid;",
                    "mov.u32 %cuid, %smid;",
                    &format!("cvt.u64.u32 {to}, %cuid;"),
                    "}",
                ] {
                    body.line(line);
                }
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn save(&self, call: &ExprCall, body: &mut Body) -> Result<(), Error> {
        let map = match &*call.func {
            Expr::Attribute(function) if function.attr.id.as_str() == "save" => {
                match &*function.value {
                    Expr::Name(map) => map.id.as_str(),
                    other => return Err(self.at(other, "save belongs to a map")),
                }
            }
            other => return Err(self.at(other, "only `map.save(...)` is called for its effect")),
        };
        let Some(known) = body.program.maps.iter().find(|known| known.name == map) else {
            return Err(self.at(call, format!("there is no map `{map}`")));
        };
        let (wanted, found) = (known.fields.len(), call.arguments.args.len());
        if found != wanted || !call.arguments.keywords.is_empty() {
            return Err(self.at(
                call,
                format!("the map `{map}` has {wanted} fields, but {found} values are saved"),
            ));
        }
        let values = call
            .arguments
            .args
            .iter()
            .map(|value| self.value(value, body, 0));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        body.line(&format!("SAVE [ {map} ] {{ {} }};", values.join(", ")));
        Ok(())
    }
}

/// Returns a number as PTX writes it.
fn literal(number: u64) -> String {
    match i64::try_from(number) {
        Ok(number) => number.to_string(),
        Err(_) => format!("{number}U"),
    }
}
