//! Tests of the selection of an instruction's form, with small modules in which each name is
//! declared only once.

use rustc_hash::FxHashMap;

use super::{InstructionResolver, Symbol, special};
use crate::ast::{Item, Module, Name, StateSpace, Statement, Variable};
use crate::{Code, Diagnostic, Parsed, SourceFile, ast};

/// The symbols of a module's names, for modules in which each name is declared only once.
struct Flat<'m> {
    module: &'m Module,
    symbols: FxHashMap<String, Symbol>,
}

impl<'m> Flat<'m> {
    fn new(module: &'m Module) -> Self {
        let mut flat = Flat {
            module,
            symbols: FxHashMap::default(),
        };
        for item in &module.items {
            match *item {
                Item::Variable(id) => flat.variable(id),
                Item::Function(id) => flat.function(id),
                _ => {}
            }
        }
        flat
    }

    fn function(&mut self, id: ast::Id<ast::Function>) {
        let function = &self.module[id];
        self.add(function.name.name, Symbol::Function(id));
        function.parameters.ids().for_each(|id| self.variable(id));
        function.returns.ids().for_each(|id| self.variable(id));
        for statement in function.body.iter().flat_map(|&body| &self.module[body]) {
            match *statement {
                Statement::Label(label) => self.add(label.name, Symbol::Label),
                Statement::Variable(id) => self.variable(id),
                Statement::CallPrototype(id) => {
                    self.add(self.module[id].label.name, Symbol::Prototype(id));
                }
                Statement::BranchTargets(id) | Statement::CallTargets(id) => {
                    self.add(self.module[id].label.name, Symbol::Targets(id));
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, name: Name, symbol: Symbol) {
        self.symbols
            .insert(self.module.text(name).to_owned(), symbol);
    }

    fn variable(&mut self, id: ast::Id<Variable>) {
        let variable = &self.module[id];
        let name = self.module.text(variable.name.name);
        if variable.space != StateSpace::Reg {
            self.symbols.insert(name.to_owned(), Symbol::Variable(id));
            return;
        }
        match variable.range {
            None => {
                let symbol = Symbol::Register {
                    variable: id,
                    index: 0,
                };
                self.symbols.insert(name.to_owned(), symbol);
            }
            Some(count) => {
                for index in 0..count {
                    let symbol = Symbol::Register {
                        variable: id,
                        index,
                    };
                    self.symbols.insert(format!("{name}{index}"), symbol);
                }
            }
        }
    }

    fn lookup(&self, name: Name) -> Option<Symbol> {
        let text = self.module.text(name);
        let symbol = self.symbols.get(text).copied();
        symbol.or_else(|| special::find(text).map(Symbol::Special))
    }
}

fn check(parsed: &Parsed) -> Vec<Diagnostic> {
    let module = &parsed.module;
    let flat = Flat::new(module);
    let mut resolver = InstructionResolver::new(module);
    let mut diagnostics = Vec::new();
    for (_, function) in module.functions() {
        for statement in function.body.iter().flat_map(|&body| &module[body]) {
            if let Statement::Instruction(instruction) = statement {
                let lookup = |name| flat.lookup(name);
                resolver.resolve(function, instruction, &lookup, &mut diagnostics);
            }
        }
    }
    diagnostics
}

const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n\
    .global .b32 g[4]; .shared .b32 sh[4];\n\
    .func (.reg .b32 o) fn (.reg .b32 a) { mov.b32 o, a; ret; }\n\
    .entry k(.param .u32 n, .param .u64 p) {\n\
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .pred %p<9>;\n";

/// Returns the problems that are found in the instruction `line`: the code of each problem, and the
/// source text of its span.
fn verdict(line: &str) -> Vec<(Code, String)> {
    let source = format!("{HEAD}{line}\nret; }}\n");
    let parsed = crate::parse(SourceFile::new("t.ptx", source.clone()));
    assert!(!parsed.has_errors(), "{line}: {:?}", parsed.diagnostics);
    check(&parsed)
        .into_iter()
        .map(|d| (d.code, source[d.span.range()].to_owned()))
        .collect()
}

#[test]
fn right_instructions_are_taken() {
    for line in [
        "add.s32 %r1, %r2, 3;",
        "@!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8];",
        "ld.param.u32 %r1, [n]; st.global.u32 [g+4], %r1;",
        "mov.u32 %r1, %tid.x; mov.u64 %rd1, g; mov.b64 {%r1, %r2}, %rd1;",
        "setp.lt.and.s32 %p1|%p2, %r1, 5, !%p3;",
        "call (%r1), fn, (%r2); call (%r1), fn, (5);",
        "L: bra.uni L;",
        "shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1;",
        "vadd.s32.u32.s32 %r1, %r2.b0, %r3.h1;",
    ] {
        assert_eq!(verdict(line), [], "{line}");
    }
}

#[test]
fn wrong_instructions_are_pointed_at() {
    for (line, code, place) in [
        ("addd.s32 %r1, %r2, 3;", Code::UNKNOWN_OPCODE, "addd"),
        (
            "setp.equal.s32 %p1, %r1, 1;",
            Code::UNKNOWN_MODIFIER,
            ".equal",
        ),
        ("add.rn.s32 %r1, %r2, 3;", Code::INSTRUCTION_TYPE, ".s32"),
        ("add.s32 %r1, %r2;", Code::OPERAND_COUNT, "add.s32 %r1, %r2"),
        ("add.s32 %r1, %f2, 1;", Code::OPERAND_TYPE, "%f2"),
        ("ld.local.u32 %r1, [g];", Code::ADDRESS, "[g]"),
        ("st.param.u32 [n], %r1;", Code::ADDRESS, "[n]"),
        ("bar.sync 16;", Code::IMMEDIATE_RANGE, "16"),
        ("bar.sync 0, 33;", Code::IMMEDIATE_RANGE, "33"),
        ("@%r1 ret;", Code::GUARD, "%r1"),
        ("fma.f32 %f1, %f2, %f3, %f4;", Code::MISSING_MODIFIER, "fma"),
        ("mapa.u64 %rd1, %rd2, %r1;", Code::FEATURE_VERSION, "mapa"),
        (
            "mov.u32 %r1, %clusterid.x;",
            Code::FEATURE_VERSION,
            "%clusterid.x",
        ),
        ("ld.global.u32 %r1, [4];", Code::OPERAND_TYPE, "[4]"),
        ("ld.u32 %r1, [n];", Code::ADDRESS, "[n]"),
        ("vote.all.pred %p1, %p2;", Code::FEATURE_VERSION, "vote"),
        ("call k;", Code::CALL, "k"),
        (
            "call (%r1), fn, (%r2, %r3);",
            Code::CALL,
            "call (%r1), fn, (%r2, %r3)",
        ),
        ("mov.u32 %r1, %r2.x;", Code::OPERAND_KIND, "%r2.x"),
        ("add.u32 %r1, %tid.x, 1;", Code::OPERAND_TYPE, "%tid.x"),
        (
            "cp.async.ca.global.shared [%rd2], [sh], 4;",
            Code::ILLEGAL_MODIFIER,
            ".global",
        ),
    ] {
        assert_eq!(verdict(line), [(code, place.to_owned())], "{line}");
    }
}
