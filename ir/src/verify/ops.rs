//! Checks instructions against the shapes of their ops, and payloads against the tables that they index.

use super::{Report, Rule};
use crate::entity::{Inst, Value};
use crate::function::{
    Function, Signature, payload_func, payload_sig, payload_slot, payload_sreg,
    split_symbol_payload,
};
use crate::module::Module;
use crate::syscall::Syscall;
use margay_ops::meaning::matrix::{Part, Product};
use margay_ops::meaning::{Desc, mask};
use margay_ops::mods::{Half, Mods, Rounding};
use margay_ops::ops::{Effects, Opcode, Pattern, Shape};
use margay_ops::texture::Access;
use margay_ops::types::{OpType, Type};

pub(super) fn check(module: &Module, function: &Function, report: &mut Report) {
    for &block in function.blocks() {
        for &inst in function.insts(block) {
            let checker = Checker {
                module,
                function,
                inst,
                desc: function.dfg.insts[inst].desc(),
                shape: function.dfg.insts[inst].opcode.shape(),
            };
            checker.types(report);
            checker.modifiers(report);
            checker.operands(report);
            checker.results(report);
            checker.payload(report);
        }
    }
}

struct Checker<'a> {
    module: &'a Module,
    function: &'a Function,
    inst: Inst,
    desc: Desc,
    shape: &'static Shape,
}

fn named(ty: OpType) -> &'static str {
    match ty {
        OpType::None => "none",
        ty => ty.name(),
    }
}

impl Checker<'_> {
    fn types(&self, report: &mut Report) {
        let Desc {
            opcode, ty, src, ..
        } = self.desc;
        let fits = |allowed: &[OpType], ty| match ty {
            OpType::None => allowed.is_empty(),
            ty => allowed.contains(&ty),
        };
        let left_out = ty == OpType::None && self.shape.type_optional;
        if !left_out && !fits(self.shape.types, ty) {
            let message = format!("`{}` has no type {}", opcode.name(), named(ty));
            report.inst(self.inst, Rule::Type, message);
        }
        let left_out = src == OpType::None && self.shape.source_optional;
        if !left_out && !fits(self.shape.sources, src) {
            let message = format!("`{}` has no second type {}", opcode.name(), named(src));
            report.inst(self.inst, Rule::Type, message);
        }
    }

    fn modifiers(&self, report: &mut Report) {
        let Desc { opcode, mods, .. } = self.desc;
        if opcode.effects().contains(Effects::PAYLOAD) {
            return;
        }
        if !mods.is_canonical() {
            report.inst(self.inst, Rule::Modifier, "has unknown modifier bits");
        }
        for field in Mods::FIELDS {
            if field.get(mods) != 0 && !self.shape.mods.contains(&field.name) {
                let message = format!("`{}` does not take `{}`", opcode.name(), field.name);
                report.inst(self.inst, Rule::Modifier, message);
            }
        }
    }

    fn operands(&self, report: &mut Report) {
        let args = self.function.dfg.args(self.inst);
        match self.shape.operands {
            Pattern::Letters(letters) => {
                self.letters(letters, args, Rule::Operand, "operand", report);
            }
            Pattern::Parts => {
                let parts = self.parts(self.desc.ty, self.desc.src);
                self.exactly(&parts, args, Rule::Operand, "operand", report);
            }
            Pattern::Converted => self.converted(args, report),
            Pattern::Product => {
                let parts = [Part::A, Part::B, Part::C];
                let mut types = vec![Type::B32];
                types.extend(parts.iter().flat_map(|&part| self.registers(part)));
                self.exactly(&types, args, Rule::Operand, "operand", report);
            }
            Pattern::Examined => {
                let most = 1 + 2 * self.desc.mods.vec() as usize;
                match args.split_first() {
                    Some((address, _)) if args.len() <= most => {
                        self.letters("a", &[*address], Rule::Operand, "operand", report);
                    }
                    _ => self.miscounted(args.len(), Rule::Operand, "operand", report),
                }
            }
            Pattern::Signature => self.signature(report),
        }
    }

    fn results(&self, report: &mut Report) {
        let results = self.function.dfg.results(self.inst);
        match self.shape.results {
            Pattern::Letters(letters) => {
                self.letters(letters, results, Rule::Result, "result", report);
            }
            Pattern::Parts => {
                let parts = self.parts(self.desc.src, self.desc.ty);
                self.exactly(&parts, results, Rule::Result, "result", report);
            }
            Pattern::Product => {
                let types = self.registers(Part::D);
                self.exactly(&types, results, Rule::Result, "result", report);
            }
            // `operands` checks the results of ops with the pattern `Signature`. The other two patterns describe only
            // operands.
            Pattern::Converted | Pattern::Examined | Pattern::Signature => {}
        }
    }

    /// Returns whether an operand or result that the shape describes with `letter` may have the type `actual`.
    fn fits(&self, letter: char, actual: Type) -> bool {
        let Desc { ty, src, mods, .. } = self.desc;
        if actual.lanes() != 1 {
            return false;
        }
        let wide = |of: OpType| {
            actual == of.held()
                || !actual.is_float()
                    && actual.lane_bits() >= of.held().lane_bits()
                    && of.held() != Type::PRED
        };
        match letter {
            't' => actual == ty.held(),
            's' => actual == src.held(),
            'm' if src == OpType::None => actual == ty.held(),
            'm' => actual == src.held(),
            'w' if mods.half() == Half::Wide => actual == ty.widened().held(),
            'w' => actual == ty.held(),
            'x' => actual.lane_bits() == ty.held().lane_bits(),
            'T' => actual.lane_bits() == ty.held().lane_bits() || wide(ty),
            'S' => wide(src),
            'p' | 'c' => actual == Type::PRED,
            'b' => actual == Type::B32,
            'q' => actual == Type::B64,
            'a' => actual == Type::B32 || actual == Type::B64,
            _ => false,
        }
    }

    fn letters(
        &self,
        letters: &str,
        values: &[Value],
        rule: Rule,
        what: &str,
        report: &mut Report,
    ) {
        let mut rest = values;
        let mut letters = letters.chars().peekable();
        let mut index = 0;
        while let Some(letter) = letters.next() {
            let count = match letters.next_if(|c| "?*".contains(*c)) {
                Some('*') => self.desc.mods.vec() as usize,
                Some(_) => usize::from(!rest.is_empty()),
                None if letter == 'c' => usize::from(self.desc.mods.carry_out()),
                None => 1,
            };
            for _ in 0..count {
                let Some((&value, behind)) = rest.split_first() else {
                    return self.miscounted(values.len(), rule, what, report);
                };
                let ty = self.function.dfg.ty(value);
                if !self.fits(letter, ty) {
                    let message = format!(
                        "{what} {index} of `{}` is {value}: {ty}, which does not fit",
                        self.desc.opcode.name()
                    );
                    report.inst(self.inst, rule, message);
                }
                rest = behind;
                index += 1;
            }
        }
        if !rest.is_empty() {
            self.miscounted(values.len(), rule, what, report);
        }
    }

    fn miscounted(&self, count: usize, rule: Rule, what: &str, report: &mut Report) {
        let message = format!("`{}` has {count} {what}s", self.desc.opcode.name());
        report.inst(self.inst, rule, message);
    }

    fn exactly(
        &self,
        types: &[Type],
        values: &[Value],
        rule: Rule,
        what: &str,
        report: &mut Report,
    ) {
        if types.len() != values.len() {
            return self.miscounted(values.len(), rule, what, report);
        }
        for (index, (&wanted, &value)) in types.iter().zip(values).enumerate() {
            let ty = self.function.dfg.ty(value);
            if ty != wanted {
                let message = format!("{what} {index} is {value}: {ty} instead of {wanted}");
                report.inst(self.inst, rule, message);
            }
        }
    }

    /// Returns the types of a lane's registers that hold the matrix `part` of a matrix product; returns an empty list
    /// if the op is not a valid matrix product.
    fn registers(&self, part: Part) -> Vec<Type> {
        let product = Product::of(&self.desc);
        product.map_or(Vec::new(), |product| {
            let ty = Type::bits_of(product.register_bits(part)).unwrap_or(Type::B32);
            vec![ty; product.registers(part) as usize]
        })
    }

    /// Returns the types of the parts into which `whole` is divided; returns an empty list if the width of `whole` is
    /// not a multiple of the width of `part`.
    fn parts(&self, whole: OpType, part: OpType) -> Vec<Type> {
        let (whole, part_bits) = (whole.bits(), part.bits());
        if part_bits == 0 || whole % part_bits != 0 {
            return Vec::new();
        }
        vec![part.held(); (whole / part_bits) as usize]
    }

    /// Checks the operands of `cvt`: either one operand for each element or one packed operand,
    /// followed by an operand with random bits if the instruction has the rounding mode `.rs`.
    fn converted(&self, args: &[Value], report: &mut Report) {
        let Desc { ty, src, mods, .. } = self.desc;
        let values = if src.elements() > 1 { 1 } else { ty.elements() };
        let random = usize::from(mods.rounding() == Rounding::Rs);
        if args.len() != values as usize + random {
            return self.miscounted(args.len(), Rule::Operand, "operand", report);
        }
        for (index, &value) in args.iter().enumerate() {
            let actual = self.function.dfg.ty(value);
            let letter = if index < values as usize { 'S' } else { 'b' };
            if !self.fits(letter, actual) {
                let message = format!("operand {index} of `cvt` is {value}: {actual}");
                report.inst(self.inst, Rule::Operand, message);
            }
        }
    }

    /// Checks the arguments and results of calls and returns.
    fn signature(&self, report: &mut Report) {
        let dfg = &self.function.dfg;
        let (args, results) = (dfg.args(self.inst), dfg.results(self.inst));
        let payload = self.desc.mods.0;
        let call = |params: &[Type], returns: &[Type], args: &[Value], report: &mut Report| {
            self.exactly(params, args, Rule::Call, "argument", report);
            self.exactly(returns, results, Rule::Call, "result", report);
        };
        let of = |signature: &Signature, args, report: &mut Report| {
            call(&signature.params, &signature.returns, args, report);
        };
        match self.desc.opcode {
            Opcode::Ret if self.function.kernel.is_some() => {
                report.inst(self.inst, Rule::Call, "a kernel does not return");
            }
            Opcode::Ret => call(&self.function.signature.returns, &[], args, report),
            Opcode::Call => match self.module.functions.get(payload_func(payload)) {
                Some(callee) if callee.kernel.is_some() => {
                    report.inst(self.inst, Rule::Call, "calls a kernel");
                }
                Some(callee) => of(&callee.signature, args, report),
                None => self.unknown("function", report),
            },
            Opcode::CallIndirect => match self.module.signatures.get(payload_sig(payload)) {
                Some(signature) => match args.split_first() {
                    Some((&handle, args)) => {
                        self.exactly(&[Type::B64], &[handle], Rule::Call, "handle", report);
                        of(signature, args, report);
                    }
                    None => self.miscounted(0, Rule::Call, "operand", report),
                },
                None => self.unknown("signature", report),
            },
            Opcode::Syscall => match Syscall::from_payload(payload) {
                Some(which) => call(which.params(), which.results(), args, report),
                None => self.unknown("system call", report),
            },
            Opcode::Tex | Opcode::Txq | Opcode::Suld | Opcode::Sust | Opcode::Sured => {
                let access = Access::from_payload(payload);
                match access.filter(|access| access.opcode() == Some(self.desc.opcode)) {
                    Some(access) => call(&access.params(), &access.results(), args, report),
                    None => self.unknown("texture access", report),
                }
            }
            _ => {}
        }
    }

    fn unknown(&self, what: &str, report: &mut Report) {
        let message = format!("names a {what} that does not exist");
        report.inst(self.inst, Rule::Payload, message);
    }

    fn payload(&self, report: &mut Report) {
        let payload = self.desc.mods.0;
        match self.desc.opcode {
            Opcode::Const => {
                let bits = self.desc.ty.held().lane_bits();
                if u128::from(payload) & !mask(bits) != 0 {
                    let message = format!("{payload:#x} does not fit {}", self.desc.ty);
                    report.inst(self.inst, Rule::Payload, message);
                }
            }
            Opcode::LocalAddr => {
                let known = u32::try_from(payload).is_ok();
                if !known || self.function.slots.get(payload_slot(payload)).is_none() {
                    self.unknown("slot", report);
                }
            }
            Opcode::SymbolAddr => {
                let (symbol, _) = split_symbol_payload(payload);
                if self.module.symbols.get(symbol).is_none() {
                    self.unknown("symbol", report);
                }
            }
            Opcode::FuncAddr if self.module.functions.get(payload_func(payload)).is_none() => {
                self.unknown("function", report);
            }
            Opcode::ParamAddr if self.function.kernel.is_none() => {
                report.inst(self.inst, Rule::Payload, "is outside of a kernel");
            }
            Opcode::SReg | Opcode::Clock => match payload_sreg(payload) {
                Some(register) if register.ty() != self.desc.ty => {
                    report.inst(self.inst, Rule::Type, "is not the register's type");
                }
                Some(register) if register.is_time() != (self.desc.opcode == Opcode::Clock) => {
                    report.inst(
                        self.inst,
                        Rule::Payload,
                        "names a register that this op does not read",
                    );
                }
                Some(_) => {}
                None => self.unknown("special register", report),
            },
            _ => {}
        }
    }
}
