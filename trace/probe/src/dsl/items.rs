//! The declarations of a program.

use ruff_python_ast::{
    Decorator, Expr, Identifier, Keyword, Number, Stmt, StmtAnnAssign, StmtClassDef,
    StmtFunctionDef,
};

use super::{Compiler, MapItem, ProbeItem, Program};
use crate::error::Error;
use crate::model::Level;
use crate::toml_file::is_identifier;

impl Compiler<'_> {
    pub(super) fn item(&self, statement: &Stmt, program: &mut Program) -> Result<(), Error> {
        match statement {
            Stmt::Import(import) => {
                for alias in &import.names {
                    if alias.name.id.as_str() == "neutrino.language" {
                        let name = alias.asname.as_ref().unwrap_or(&alias.name);
                        program.languages.push(name.id.to_string());
                    }
                }
                Ok(())
            }
            Stmt::ImportFrom(import) => {
                for alias in &import.names {
                    if alias.name.id.as_str() == "language" {
                        let name = alias.asname.as_ref().unwrap_or(&alias.name);
                        program.languages.push(name.id.to_string());
                    }
                }
                Ok(())
            }
            Stmt::Assign(assign) => match assign.targets.as_slice() {
                [Expr::Name(name)] if name.id.as_str() == "CALLBACK" => {
                    program.callback = Some(self.string(&assign.value, "CALLBACK")?);
                    Ok(())
                }
                _ => Err(self.at(statement, "only CALLBACK is assigned at module level")),
            },
            Stmt::AnnAssign(assign) => self.declaration(assign, program),
            Stmt::ClassDef(class) => self.map(class, program),
            Stmt::FunctionDef(function) => self.probe(function, program),
            Stmt::Expr(expr) if matches!(*expr.value, Expr::StringLiteral(_)) => Ok(()),
            Stmt::Pass(_) => Ok(()),
            _ => Err(self.at(statement, "this statement is not supported at module level")),
        }
    }

    fn declaration(&self, assign: &StmtAnnAssign, program: &mut Program) -> Result<(), Error> {
        let Expr::Name(name) = &*assign.target else {
            return Err(self.at(assign, "a register needs a name"));
        };
        self.width(&assign.annotation, program)?;
        let value = match &assign.value {
            Some(value) => self.number(value)?,
            None => 0,
        };
        if program
            .registers
            .iter()
            .any(|(known, _)| *known == name.id.as_str())
        {
            return Err(self.at(
                assign,
                format!("the register `{}` is declared twice", name.id),
            ));
        }
        program.registers.push((name.id.to_string(), value));
        program.needed = program.needed.max(program.registers.len());
        Ok(())
    }

    /// Returns the type that an annotation such as `nl.u64` names.
    fn width(&self, annotation: &Expr, program: &Program) -> Result<String, Error> {
        if let Expr::Attribute(attribute) = annotation
            && let Expr::Name(module) = &*attribute.value
            && program
                .languages
                .iter()
                .any(|language| language == module.id.as_str())
            && matches!(attribute.attr.id.as_str(), "u32" | "u64")
        {
            return Ok(attribute.attr.id.to_string());
        }
        Err(self.at(
            annotation,
            "the type must be `u32` or `u64` of neutrino.language",
        ))
    }

    pub(super) fn number(&self, expr: &Expr) -> Result<u64, Error> {
        let number = match expr {
            Expr::NumberLiteral(literal) => match &literal.value {
                Number::Int(value) => value.to_string().parse().ok(),
                _ => None,
            },
            _ => None,
        };
        number.ok_or_else(|| self.at(expr, "the value must be an integer from 0 to 2^64 - 1"))
    }

    fn decorator<'d>(&self, decorators: &'d [Decorator], name: &str) -> Option<&'d [Keyword]> {
        decorators
            .iter()
            .find_map(|decorator| match &decorator.expression {
                Expr::Call(call) => match &*call.func {
                    Expr::Name(found) if found.id.as_str() == name => {
                        Some(&*call.arguments.keywords)
                    }
                    Expr::Attribute(found) if found.attr.id.as_str() == name => {
                        Some(&*call.arguments.keywords)
                    }
                    _ => None,
                },
                _ => None,
            })
    }

    fn level(&self, value: &Expr) -> Result<Level, Error> {
        let word = self.string(value, "level")?;
        Level::from_word(&word)
            .ok_or_else(|| self.at(value, "level must be \"thread\" or \"warp\""))
    }

    fn map(&self, class: &StmtClassDef, program: &mut Program) -> Result<(), Error> {
        let Some(keywords) = self.decorator(&class.decorator_list, "Map") else {
            return Err(self.at(class, "a class needs the decorator `@Map(...)`"));
        };
        let missing = |what: &str| self.at(class, format!("the map has no `{what}`"));
        let (mut level, mut record, mut capacity, mut kind) = (None, None, None, None);
        for keyword in keywords {
            match keyword.arg.as_ref().map(|arg| arg.id.as_str()) {
                Some("level") => level = Some(self.level(&keyword.value)?),
                Some("type") => kind = Some(self.string(&keyword.value, "type")?),
                Some("size") => record = Some(self.number(&keyword.value)?),
                Some("cap") => capacity = Some(self.capacity(&keyword.value)?),
                _ => return Err(self.at(keyword, "a map has only level, type, size and cap")),
            }
        }
        if kind.as_deref() != Some("array") {
            return Err(self.at(class, "the type of a map must be \"array\""));
        }
        let mut fields = Vec::new();
        for statement in &class.body {
            match statement {
                Stmt::AnnAssign(assign) => match &*assign.target {
                    Expr::Name(name) if is_identifier(name.id.as_str()) => {
                        fields.push((
                            name.id.to_string(),
                            self.width(&assign.annotation, program)?,
                        ));
                    }
                    other => return Err(self.at(other, "a field needs a name")),
                },
                Stmt::Expr(expr) if matches!(*expr.value, Expr::StringLiteral(_)) => {}
                other => {
                    return Err(self.at(other, "a map has only fields such as `clock: nl.u64`"));
                }
            }
        }
        program.maps.push(MapItem {
            name: self.plain(&class.name)?,
            line: self.line(&class.name),
            level: level.ok_or_else(|| missing("level"))?,
            record: record.ok_or_else(|| missing("size"))?,
            capacity: capacity.unwrap_or(Some(1)),
            fields,
        });
        Ok(())
    }

    /// Returns a name that is also a name in TOML and PTX.
    fn plain(&self, name: &Identifier) -> Result<String, Error> {
        match is_identifier(name.id.as_str()) {
            true => Ok(name.id.to_string()),
            false => Err(self.at(name, "the name has letters that PTX does not have")),
        }
    }

    fn capacity(&self, value: &Expr) -> Result<Option<u64>, Error> {
        match value {
            Expr::StringLiteral(text) if text.value.to_str() == "dynamic" => Ok(None),
            Expr::StringLiteral(_) => Err(self.at(value, "cap must be a number or \"dynamic\"")),
            value => self.number(value).map(Some),
        }
    }

    fn probe(&self, function: &StmtFunctionDef, program: &mut Program) -> Result<(), Error> {
        let Some(keywords) = self.decorator(&function.decorator_list, "probe") else {
            return Err(self.at(function, "a function needs the decorator `@probe(...)`"));
        };
        let missing = |what: &str| self.at(function, format!("the probe has no `{what}`"));
        let (mut level, mut position, mut before) = (None, None, false);
        for keyword in keywords {
            match keyword.arg.as_ref().map(|arg| arg.id.as_str()) {
                Some("level") => level = Some(self.level(&keyword.value)?),
                Some("pos" | "position") => position = Some(self.string(&keyword.value, "pos")?),
                Some("before") => match &keyword.value {
                    Expr::BooleanLiteral(literal) => before = literal.value,
                    other => return Err(self.at(other, "before must be True or False")),
                },
                _ => return Err(self.at(keyword, "a probe has only pos, level and before")),
            }
        }
        let text = self.body(&function.body, program)?;
        let (before, after) = if before {
            (Some(text), None)
        } else {
            (None, Some(text))
        };
        let probe = ProbeItem {
            name: self.plain(&function.name)?,
            line: self.line(&function.name),
            level: level.ok_or_else(|| missing("level"))?,
            position: position.ok_or_else(|| missing("pos"))?,
            before,
            after,
        };
        program.probes.push(probe);
        Ok(())
    }
}
