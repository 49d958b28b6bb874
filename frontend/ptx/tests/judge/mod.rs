//! Checks single PTX instructions against the syntax table, for tests. This module has its own small operand parser.
//! The name of a register in the test data determines its type: for example, `%rf3` is a `.f32` register.

use margay_ops::mods::StateSpace;
use margay_ops::types::OpType;
use margay_ptx::{FormError, Forms, Nested, OperandShape, OperandShapes, Target, Version};
use std::collections::HashMap;

/// A cache of matchers ([`Forms`]), one for each pair of target and version.
#[derive(Default)]
pub(crate) struct Judge {
    forms: HashMap<(String, String), Forms>,
}

/// The result of checking an instruction.
pub(crate) enum Verdict {
    /// The instruction matches a form.
    Accepted,
    /// The instruction matches no form.
    Rejected(FormError),
    /// The operand parser of this module cannot parse the operand in the field.
    Unreadable(String),
}

impl Judge {
    /// Checks the instruction `text`, such as `add.s32 %rs1, %rs2, 3;`, for a module with this
    /// target and version.
    pub(crate) fn judge(&mut self, target: &str, version: &str, text: &str) -> Verdict {
        let key = (target.to_owned(), version.to_owned());
        let forms = self.forms.entry(key).or_insert_with(|| {
            let version = Version::parse(version).expect("a version");
            Forms::new(version, Target::parse(target).expect("a target"))
        });
        let text = text.trim().trim_end_matches(';').trim();
        let text = match text.strip_prefix('@').and_then(|t| t.split_once(' ')) {
            Some((_, guarded)) => guarded,
            None => text,
        };
        let (spelled, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let mut shapes = OperandShapes::default();
        for operand in split(rest) {
            match shape(operand, &mut shapes) {
                Some(shape) => shapes.top.push(shape),
                None => return Verdict::Unreadable(operand.to_owned()),
            }
        }
        match forms.instruction(spelled, &shapes) {
            Ok(_) => Verdict::Accepted,
            Err(error) => Verdict::Rejected(error),
        }
    }
}

/// Splits `text` at each comma that is not inside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut pieces, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth -= 1,
            ',' if depth == 0 => {
                pieces.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(text[start..].trim());
    if pieces == [""] { Vec::new() } else { pieces }
}

fn nested(parts: &[&str], shapes: &mut OperandShapes) -> Option<Nested> {
    let list: Option<Vec<_>> = parts.iter().map(|part| shape(part, shapes)).collect();
    let list = list?;
    let start = shapes.nested.len() as u32;
    let len = list.len() as u32;
    shapes.nested.extend(list);
    Some(Nested { start, len })
}

fn shape(text: &str, shapes: &mut OperandShapes) -> Option<OperandShape> {
    if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        return Some(OperandShape::Vector(nested(&split(inner), shapes)?));
    }
    if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'))
        && !inner.starts_with(|c: char| c.is_ascii_digit() || c == '.')
    {
        return Some(OperandShape::Group(nested(&split(inner), shapes)?));
    }
    let text = text.strip_suffix(".unified").unwrap_or(text);
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let parts = split(inner);
        if parts.len() == 1 {
            return memory(inner);
        }
        let mut list = vec![memory(parts[0])?];
        for part in &parts[1..] {
            list.push(shape(part, shapes)?);
        }
        let start = shapes.nested.len() as u32;
        let len = list.len() as u32;
        shapes.nested.extend(list);
        return Some(OperandShape::Tuple(Nested { start, len }));
    }
    if let Some((first, second)) = pair(text) {
        return Some(OperandShape::Pair(nested(&[first, second], shapes)?));
    }
    if text == "_" {
        return Some(OperandShape::Sink);
    }
    if let Some(name) = text.strip_prefix('!').filter(|t| t.starts_with('%')) {
        return Some(OperandShape::Not(register(name)?));
    }
    if let Some(name) = text.strip_prefix('-').filter(|t| t.starts_with('%')) {
        let base = name.split('.').next()?;
        return Some(OperandShape::Minus(register(base)?));
    }
    if text.starts_with('%') {
        if let Some(ty) = register(text) {
            return Some(OperandShape::Register(ty));
        }
        if let Some(ty) = special(text) {
            let vectors = [
                "%tid",
                "%ntid",
                "%ctaid",
                "%nctaid",
                "%clusterid",
                "%nclusterid",
            ];
            let cluster = ["%cluster_ctaid", "%cluster_nctaid"];
            if vectors.contains(&text) || cluster.contains(&text) {
                let start = shapes.nested.len() as u32;
                shapes.nested.extend([OperandShape::Special(ty); 4]);
                return Some(OperandShape::Vector(Nested { start, len: 4 }));
            }
            return Some(OperandShape::Special(ty));
        }
        let (base, selector) = text.split_once('.')?;
        let known = ["b", "h"].iter().any(|s| {
            selector
                .strip_prefix(s)
                .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        });
        return known.then_some(OperandShape::Selected(register(base)?));
    }
    if let Some((base, _)) = text.split_once('[') {
        return match symbol(base)? {
            OperandShape::Symbol(space) => Some(OperandShape::Element(space)),
            _ => None,
        };
    }
    constant(text).or_else(|| symbol(text))
}

/// Splits a pair `a|b`. Returns `None` if there is no `|` or the text is a constant expression.
fn pair(text: &str) -> Option<(&str, &str)> {
    let depth = text.rfind('}').map_or(0, |at| at + 1);
    let at = depth + text[depth..].find('|')?;
    let (first, second) = (text[..at].trim(), text[at + 1..].trim());
    let name = |t: &str| t == "_" || t.starts_with(['%', '{']);
    (name(first) && name(second)).then_some((first, second))
}

fn constant(text: &str) -> Option<OperandShape> {
    if text.starts_with("0f") || text.starts_with("0F") {
        return Some(OperandShape::Single);
    }
    if text.starts_with("0d") || text.starts_with("0D") {
        return Some(OperandShape::Double);
    }
    if let Ok(value) = text.parse::<i64>() {
        return Some(OperandShape::Int(value));
    }
    let hex = text
        .strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    if let Some(value) = hex {
        return Some(OperandShape::Int(value as i64));
    }
    let comparison = text.contains(['<', '>', '=']);
    if !comparison && (text.contains("1.0") || text.contains("2.0")) {
        return Some(OperandShape::Double);
    }
    let decimal = text.contains('.') || text.contains('e') || text.contains('E');
    if decimal && text.parse::<f64>().is_ok() {
        return Some(OperandShape::Double);
    }
    // A constant expression. Its value does not affect the results for the test data.
    text.starts_with(|c: char| c.is_ascii_digit() || "+-~!(W".contains(c))
        .then_some(OperandShape::Int(0))
}

fn memory(text: &str) -> Option<OperandShape> {
    let base = text.split(['+', '[']).next()?.trim();
    if base.starts_with('%') {
        return register(base).map(OperandShape::MemoryRegister);
    }
    match symbol(base)? {
        OperandShape::Symbol(space) => Some(OperandShape::MemorySymbol(space)),
        OperandShape::Reference => Some(OperandShape::MemoryReference),
        _ => None,
    }
}

fn symbol(text: &str) -> Option<OperandShape> {
    let base = text.split(['+', '[']).next()?.trim();
    if text.contains('+')
        && let Some(OperandShape::Symbol(space)) = symbol(base)
    {
        return Some(OperandShape::SymbolOffset(space));
    }
    Some(match base {
        "gvar" => OperandShape::Symbol(StateSpace::Global),
        "cvar" => OperandShape::Symbol(StateSpace::Const),
        "svar" | "sm" => OperandShape::Symbol(StateSpace::Shared),
        "lvar" => OperandShape::Symbol(StateSpace::Local),
        "kparam" | "in" => OperandShape::Symbol(StateSpace::Param),
        "texr" | "surfr" | "sampr" => OperandShape::Reference,
        "mykern" | "dfn" | "pfn" | "vfn" => OperandShape::Function,
        _ => return None,
    })
}

fn register(name: &str) -> Option<OpType> {
    if name.contains('.') {
        return None;
    }
    let base = name
        .strip_prefix('%')?
        .trim_end_matches(|c: char| c.is_ascii_digit());
    Some(match base {
        "p" | "op" => OpType::Pred,
        "b" | "B" | "oB" | "ob" => OpType::B8,
        "bu" => OpType::U8,
        "bs" => OpType::S8,
        "h" | "oh" => OpType::B16,
        "hu" | "ohu" => OpType::U16,
        "hs" | "ohs" => OpType::S16,
        "r" | "or" | "xr" | "Ataddr" => OpType::B32,
        "ru" | "oru" => OpType::U32,
        "rs" | "ors" | "xrs" => OpType::S32,
        "rf" | "orf" | "xrf" => OpType::F32,
        "rx" | "orx" => OpType::F16x2,
        "d" | "od" => OpType::B64,
        "du" | "odu" => OpType::U64,
        "ds" | "ods" => OpType::S64,
        "df" | "odf" => OpType::F64,
        "q" | "oq" => OpType::B128,
        "Ax" | "Ag" | "Al" | "As" | "Ac" | "Ap" | "Amb" | "Atm" | "Apol" | "Atex" | "Asmp"
        | "Asurf" => OpType::B64,
        _ => return None,
    })
}

fn special(name: &str) -> Option<OpType> {
    let wide = [
        "%clock64",
        "%globaltimer",
        "%gridid",
        "%current_graph_exec",
        "%total_smem_size64",
    ];
    let base = name.split('.').next()?;
    let words = [
        "%tid",
        "%ntid",
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%ctaid",
        "%nctaid",
        "%smid",
        "%nsmid",
        "%is_explicit_cluster",
        "%clusterid",
        "%nclusterid",
        "%cluster_ctaid",
        "%cluster_nctaid",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%lanemask_eq",
        "%lanemask_le",
        "%lanemask_lt",
        "%lanemask_ge",
        "%lanemask_gt",
        "%clock",
        "%clock_hi",
        "%globaltimer_lo",
        "%globaltimer_hi",
        "%total_smem_size",
        "%aggr_smem_size",
        "%dynamic_smem_size",
        "%aggr_smem_size",
    ];
    if base == "%is_explicit_cluster" {
        return Some(OpType::Pred);
    }
    if wide.contains(&base) || base.starts_with("%pm") && base.ends_with("_64") {
        return Some(OpType::U64);
    }
    let counted = ["%pm", "%envreg", "%reserved_smem_offset"];
    (words.contains(&base) || counted.iter().any(|c| base.starts_with(c))).then_some(OpType::U32)
}
