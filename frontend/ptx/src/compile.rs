//! Compiles the text of the syntax table into [`Form`]s.
//!
//! # The notation
//!
//! A line is one of
//!
//! ```text
//! class NAME field = a b c@80/7.0        // a named set of modifiers (or types), one per slot
//! let NAME = {CLASS} {x} ...             // shorthand for several slots, used as $NAME
//! head.prefix slots types @req : operands -> Opcode field=value
//! // a comment
//! ```
//!
//! A line that begins with white space continues the one before.
//!
//! *Slots* may come in any order in PTX: `x` or `CLASS` must be there, `{x}` or `{CLASS}` may be.
//! `a|b` is a choice, `field=a|b` says which field of [`Mods`] it sets. What stands behind the head
//! with dots (`mul.half=lo|hi`) must come first and in that order. *Types* begin with a dot
//! (`.u16|u32`, `.CLASS`) and keep their order; so do other modifiers
//! so written, among themselves (a copy's spaces: `.space=shared .global`). Any choice may carry its own requirement
//! `@target/version` (`@89/8.1,90/7.8`: `sm_90` has had it since 7.8), and `m<8..24/8>` counts (`m8 m16 m24`); a bare `@...` is the line's; `until@70/6.4` ends it;
//! `both=order,scope` says that one is not given without the other.
//!
//! *Operands* are separated by commas: flags, a core, `:type`, a condition.
//! Flags: `>` written, `_` may be a sink, `%` registers only, `#` constants only, `!` may be negated,
//! `-` may be negative, `~` may have a selector, `+` special registers too, `$` symbols as well,
//! `^` a variable in the instruction's state space too.
//! Cores: `name`, nothing (`>_`, only a sink), `name|p` (a pair), `name|?p` (perhaps a pair), `[name]`, `[name=space]` (`?` any),
//! `[a, b]`, `{name*count}`, `@name` (a label), `=name` (a list of
//! targets or a prototype), `&name` (a function), `(name)` (a list).
//! A count is `4`, `vec`, `num*2`, `m*k/64`; behind it `?` permits a single element without braces and
//! `-` fewer elements.
//! Types: `0` (the first type; the default), `0+` (in a register that may be wider), `0*2` (twice
//! the size), `u32`, `int` (any integer), `any`.
//! Conditions: `?` (may be missing), `if mod` (exactly with that modifier), `<lo..hi/step>` (range).
//!
//! *Actions*: `-> Opcode`, `-> lowering` (one of [`Lowering`]: control flow, or several operations), `-> nothing`, `-| family` (left
//! out).
//!
//! Invariant: the table is part of the program, so a mistake in it panics, in every test.

use crate::lowering::Lowering;
use crate::pattern::{
    Action, Allow, Choice, Count, Form, OperandPattern, Range, Shape, Slot, Space, TypeRule,
    Variable,
};
use crate::setter;
use crate::target::Requirement;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The table as text: named sets and shorthands, and the lines of each head. A line is compiled when its head is
/// first asked for, because a module uses a few heads of hundreds.
#[derive(Default)]
pub(super) struct Lines {
    classes: FxHashMap<&'static str, Vec<Choice>>,
    shorthands: FxHashMap<&'static str, &'static str>,
    by_head: FxHashMap<&'static str, Vec<&'static str>>,
}

/// Reads all the table's files.
pub(super) fn read(files: &[&'static str]) -> Lines {
    let mut lines = Lines::default();
    for text in files {
        for line in logical_lines(text) {
            lines.line(line);
        }
    }
    lines
}

impl Lines {
    /// All heads, in no order.
    pub(super) fn heads(&self) -> impl Iterator<Item = &'static str> {
        self.by_head.keys().copied()
    }

    /// The forms of a head, in the table's order.
    pub(super) fn forms_of(&self, head: &'static str) -> Vec<Form> {
        let lines = self.by_head.get(head).into_iter().flatten();
        lines.map(|line| self.form(line, head)).collect()
    }
}

/// Lines with their continuations; comments and empty lines are dropped.
fn logical_lines(text: &'static str) -> Vec<&'static str> {
    let mut lines: Vec<&'static str> = Vec::new();
    let mut start = None;
    let mut position = 0;
    for raw in text.split_inclusive('\n') {
        let line = raw.trim_end();
        let content = line.trim_start();
        let continues = line.len() != content.len();
        let here = position;
        position += raw.len();
        if content.is_empty() || content.starts_with("//") {
            continue;
        }
        if !continues {
            start = Some(here);
            lines.push("");
        }
        let (Some(start), Some(last)) = (start, lines.last_mut()) else {
            bad(line, "continues nothing");
        };
        *last = text[start..here + line.len()].trim_end();
    }
    lines
}

fn bad(line: &str, why: &str) -> ! {
    panic!("syntax table: {why}: {line}")
}

/// Splits at white space outside of braces; `{x}` is one word.
fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_whitespace()
}

impl Lines {
    fn line(&mut self, line: &'static str) {
        if let Some(rest) = line.strip_prefix("class ") {
            let Some((name, alternatives)) = rest.split_once('=') else {
                bad(line, "a class needs =")
            };
            let mut names = name.split_whitespace();
            let Some(name) = names.next() else {
                bad(line, "no name")
            };
            let field = names.next();
            let choices = words(alternatives)
                .flat_map(|word| self.choice(line, field, word))
                .collect();
            if self.classes.insert(name, choices).is_some() {
                bad(line, "there is such a class already");
            }
        } else if let Some(rest) = line.strip_prefix("let ") {
            let Some((name, text)) = rest.split_once(" = ") else {
                bad(line, "a shorthand needs =")
            };
            if self.shorthands.insert(name.trim(), text).is_some() {
                bad(line, "there is such a shorthand already");
            }
        } else {
            let heads = line.split_whitespace().next().unwrap_or_default();
            for head in split_head(heads).remove(0).split('|') {
                self.by_head.entry(head).or_default().push(line);
            }
        }
    }

    /// The choices that one word of a set stands for.
    fn choice(&self, line: &str, field: Option<&'static str>, word: &'static str) -> Vec<Choice> {
        let (text, requirement) = match word.split_once('@') {
            Some((text, requirement)) => (text, Some(parse_requirement(line, requirement))),
            None => (word, None),
        };
        if let Some(choices) = self.classes.get(text) {
            let mut choices = choices.clone();
            for choice in &mut choices {
                if choice.requirement.is_none() {
                    choice.requirement.clone_from(&requirement);
                }
                if field.is_some() {
                    choice.sets = set(line, field, choice.text);
                }
            }
            return choices;
        }
        expand(line, text)
            .into_iter()
            .map(|text| Choice {
                text,
                sets: set(line, field, text),
                requirement: requirement.clone(),
            })
            .collect()
    }

    /// A slot from `a|b`, `field=a|b`, `CLASS`.
    fn slot(&self, line: &str, word: &'static str, required: bool) -> Slot {
        let (field, alternatives) = match word.split_once('=') {
            Some((field, alternatives)) => (Some(field), alternatives),
            None => (None, word),
        };
        // `|` separates choices, but also targets inside a choice's requirement: a target is a
        // number.
        let mut pieces: Vec<&'static str> = Vec::new();
        let mut start = 0;
        let mut in_requirement = false;
        for (at, c) in alternatives.char_indices() {
            match c {
                '@' => in_requirement = true,
                '|' => {
                    let next_digit =
                        alternatives[at + 1..].starts_with(|c: char| c.is_ascii_digit());
                    if !(in_requirement && next_digit) {
                        pieces.push(&alternatives[start..at]);
                        start = at + 1;
                        in_requirement = false;
                    }
                }
                _ => {}
            }
        }
        pieces.push(&alternatives[start..]);
        let choices = pieces
            .into_iter()
            .flat_map(|piece| self.choice(line, field, piece))
            .collect();
        Slot { choices, required }
    }

    fn form(&self, line: &'static str, head: &'static str) -> Form {
        let (left, right) = match line.split_once(" : ") {
            Some(parts) => parts,
            None => match line.find(" -") {
                Some(at) => (&line[..at], &line[at..]),
                None => bad(line, "no action"),
            },
        };
        let mut form = Form {
            source: line,
            head,
            prefix: Vec::new(),
            slots: Vec::new(),
            types: Vec::new(),
            ordered: Vec::new(),
            operands: Vec::new(),
            base: Mods::NONE,
            action: Action::Nothing,
            requirement: Requirement::default(),
            until: None,
            scope_with_order: false,
        };
        let mut left = words(left);
        let Some(heads) = left.next() else {
            bad(line, "no head")
        };
        for part in split_head(heads).drain(1..) {
            form.prefix.push(self.slot(line, part, true));
        }
        for word in left {
            self.word(line, word, &mut form);
        }
        let right = self.operands(line, right, &mut form.operands);
        action(line, right, &mut form);
        if form.action == Action::Becomes(Opcode::Const) {
            form.action = Action::Becomes(opcode(line, &capitalised(head)));
        }
        form
    }

    fn word(&self, line: &'static str, word: &'static str, form: &mut Form) {
        if let Some(requirement) = word.strip_prefix("until@") {
            let requirement = parse_requirement(line, requirement);
            form.until = Some((requirement.version, requirement.targets[0]));
        } else if let Some(fields) = word.strip_prefix("both=") {
            if fields != "order,scope" {
                bad(line, "only order,scope can go together");
            }
            form.scope_with_order = true;
        } else if let Some(requirement) = word.strip_prefix('@') {
            form.requirement = parse_requirement(line, requirement);
        } else if let Some(name) = word.strip_prefix('$') {
            let Some(&text) = self.shorthands.get(name) else {
                bad(line, "unknown shorthand")
            };
            for word in words(text) {
                self.word(line, word, form);
            }
        } else if let Some(types) = word.strip_prefix('.') {
            let slot = self.slot(line, types, true);
            let is_type = |choice: &Choice| OpType::from_name(choice.text).is_some();
            if slot.choices.iter().any(is_type) {
                form.types.push(slot);
            } else {
                form.ordered.push(slot);
            }
        } else if let Some(inner) = word.strip_prefix('{') {
            let inner = inner.strip_suffix('}').unwrap_or_else(|| bad(line, "no }"));
            form.slots.push(self.slot(line, inner, false));
        } else {
            form.slots.push(self.slot(line, word, true));
        }
    }

    /// Reads the operands; what is left is the action.
    fn operands(
        &self,
        line: &'static str,
        text: &'static str,
        operands: &mut Vec<OperandPattern>,
    ) -> &'static str {
        let at = text
            .find("-> ")
            .or_else(|| text.find("-| "))
            .unwrap_or_else(|| bad(line, "no action"));
        for operand in split_operands(&text[..at]) {
            operands.push(operand_pattern(line, operand));
        }
        &text[at..]
    }
}

/// `a<8..24/8>b` is `a8b a16b a24b`.
fn expand(line: &str, text: &'static str) -> Vec<&'static str> {
    let Some((before, rest)) = text.split_once('<') else {
        return vec![text];
    };
    let Some((range, after)) = rest.split_once('>') else {
        bad(line, "no >")
    };
    let range = parse_range(line, &format!("{range}>"));
    let mut texts = Vec::new();
    let mut number = range.low;
    while number <= range.high {
        // Like the rest of the table these live as long as the process.
        texts.push(&*String::leak(format!("{before}{number}{after}")));
        number += range.step;
    }
    texts
}

fn set(line: &str, field: Option<&str>, text: &str) -> Mods {
    setter::set(field, text).unwrap_or_else(|| bad(line, "no such value of the field"))
}

fn parse_requirement(line: &str, text: &str) -> Requirement {
    Requirement::parse(text).unwrap_or_else(|| bad(line, "malformed requirement"))
}

/// Splits `mul.half=lo|hi` at dots (a dot of a version is behind a `/`).
fn split_head(head: &'static str) -> Vec<&'static str> {
    head.split('.').collect()
}

fn capitalised(head: &str) -> String {
    let mut chars = head.chars();
    match chars.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + chars.as_str(),
        None => String::new(),
    }
}

fn opcode(line: &str, variant: &str) -> Opcode {
    static BY_NAME: LazyLock<FxHashMap<String, Opcode>> = LazyLock::new(|| {
        let named = |&opcode: &Opcode| (format!("{opcode:?}"), opcode);
        Opcode::ALL.iter().map(named).collect()
    });
    let known = BY_NAME.get(variant).copied();
    known.unwrap_or_else(|| bad(line, "no such opcode"))
}

fn action(line: &'static str, text: &'static str, form: &mut Form) {
    if let Some(reason) = text.strip_prefix("-| ") {
        form.action = Action::LeftOut(reason.trim());
        return;
    }
    let mut words = words(text.trim_start_matches("-> "));
    form.action = match words.next() {
        Some("nothing") => Action::Nothing,
        // The head names the opcode.
        Some("*") => Action::Becomes(Opcode::Const),
        Some(name) => match Lowering::named(name) {
            Some(lowering) => Action::Lowers(lowering),
            None => Action::Becomes(opcode(line, name)),
        },
        None => bad(line, "no action"),
    };
    for word in words {
        let Some((field, value)) = word.split_once('=') else {
            bad(line, "field=value expected")
        };
        form.base = Mods(form.base.0 | set(line, Some(field), value).0);
    }
}

/// Splits at commas outside of brackets.
fn split_operands(text: &'static str) -> Vec<&'static str> {
    let mut pieces = Vec::new();
    let mut depth = 0;
    let mut start = 0;
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
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn operand_pattern(line: &'static str, text: &'static str) -> OperandPattern {
    let mut pattern = OperandPattern {
        name: "",
        shape: Shape::Scalar,
        ty: TypeRule::Same(0),
        allow: Allow::REGISTER | Allow::IMMEDIATE,
        range: None,
        only_with: None,
    };
    let mut rest = text;
    if let Some((before, modifier)) = rest.split_once(" if ") {
        pattern.only_with = Some(modifier.trim());
        rest = before.trim();
    }
    if let Some(before) = rest.strip_suffix('?') {
        pattern.allow |= Allow::OPTIONAL;
        rest = before;
    }
    if let Some((before, range)) = rest.split_once('<') {
        pattern.range = Some(parse_range(line, range));
        rest = before;
    }
    rest = flags(rest, &mut pattern.allow);
    let (core, ty) = split_type(rest);
    core_of(line, core, &mut pattern);
    if let Some(ty) = ty {
        pattern.ty = type_rule(line, ty);
    } else if matches!(pattern.shape, Shape::Memory(_) | Shape::Tuple(_)) {
        pattern.ty = TypeRule::Integer;
    }
    pattern
}

fn parse_range(line: &str, text: &str) -> Range {
    let number = |text: &str| -> i64 { text.parse().unwrap_or_else(|_| bad(line, "bad range")) };
    let Some((low, high)) = text.strip_suffix('>').and_then(|t| t.split_once("..")) else {
        bad(line, "malformed range")
    };
    let (high, step) = high.split_once('/').unwrap_or((high, "1"));
    Range {
        low: number(low),
        high: number(high),
        step: number(step).max(1),
    }
}

fn flags(text: &'static str, allow: &mut Allow) -> &'static str {
    let mut rest = text;
    loop {
        let Some(first) = rest.chars().next() else {
            return rest;
        };
        match first {
            '>' => {
                *allow |= Allow::DEST;
                allow.remove(Allow::IMMEDIATE);
            }
            '_' => *allow |= Allow::SINK,
            '%' => allow.remove(Allow::IMMEDIATE),
            '#' => allow.remove(Allow::REGISTER),
            '!' => *allow |= Allow::NOT,
            '-' => *allow |= Allow::MINUS,
            '~' => *allow |= Allow::SELECTOR,
            '+' => *allow |= Allow::SPECIAL,
            '$' => *allow |= Allow::SPECIAL | Allow::SYMBOL,
            '^' => *allow |= Allow::SYMBOL_IN_SPACE,
            _ => return rest,
        }
        rest = &rest[first.len_utf8()..];
    }
}

/// Splits `core:type` at the last colon behind any bracket.
fn split_type(text: &'static str) -> (&'static str, Option<&'static str>) {
    let close = text.rfind([']', '}', ')']).unwrap_or(0);
    match text[close..].find(':') {
        Some(at) => (&text[..close + at], Some(&text[close + at + 1..])),
        None => (text, None),
    }
}

fn core_of(line: &'static str, core: &'static str, pattern: &mut OperandPattern) {
    pattern.name = core;
    if core.is_empty() {
        pattern.name = "_";
        pattern.allow = Allow::DEST | Allow::SINK;
    }
    if let Some(inner) = core.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or_else(|| bad(line, "no ]"));
        let parts = split_operands(inner);
        if parts.len() == 1 {
            let (name, space) = inner.split_once('=').unwrap_or((inner, ""));
            pattern.name = name;
            pattern.shape = Shape::Memory(space_of(line, space));
        } else {
            pattern.shape = Shape::Tuple(
                parts
                    .into_iter()
                    .map(|part| operand_pattern(line, part))
                    .collect(),
            );
        }
    } else if let Some((vector, second)) = core.split_once("}|") {
        pattern.allow |= pair_of(second);
        // The closing brace belongs to the vector.
        let end = vector.len() + 1;
        core_of(line, &core[..end], pattern);
    } else if let Some(inner) = core.strip_prefix('{') {
        let inner = inner.strip_suffix('}').unwrap_or_else(|| bad(line, "no }"));
        let Some((name, count)) = inner.split_once('*') else {
            bad(line, "a vector needs a count")
        };
        pattern.name = name;
        pattern.shape = Shape::Vector(count_of(line, count));
    } else if let Some(name) = core.strip_prefix('@') {
        pattern.name = name;
        pattern.shape = Shape::Label;
    } else if let Some(name) = core.strip_prefix('=') {
        pattern.name = name;
        pattern.shape = Shape::List;
    } else if let Some(name) = core.strip_prefix('&') {
        pattern.name = name;
        pattern.shape = Shape::Callee;
    } else if let Some(name) = core.strip_prefix('(') {
        pattern.name = name.trim_end_matches(')');
        pattern.shape = Shape::Group;
    } else if let Some((name, second)) = core.split_once('|') {
        pattern.name = name;
        pattern.allow |= pair_of(second);
    }
}

/// `|?p` may follow, `|p` must.
fn pair_of(second: &str) -> Allow {
    if second.starts_with('?') {
        Allow::MAY_PAIR
    } else {
        Allow::MUST_PAIR
    }
}

fn space_of(line: &str, text: &str) -> Space {
    match text {
        "" => Space::OfModifier,
        "?" => Space::Any,
        _ => Space::Fixed(
            setter::state_space(text).unwrap_or_else(|| bad(line, "no such state space")),
        ),
    }
}

fn count_of(line: &str, text: &str) -> Count {
    let bare = text.ends_with('?');
    let text = text.trim_end_matches('?');
    let or_fewer = text.ends_with('-');
    let text = text.trim_end_matches('-');
    let mut count = Count {
        scale: 1,
        variables: [Variable::One; 2],
        divisor: 1,
        bare,
        or_fewer,
    };
    let (text, divisor) = text.split_once('/').unwrap_or((text, "1"));
    let number = |text: &str| text.parse().unwrap_or_else(|_| bad(line, "bad count"));
    count.divisor = number(divisor);
    for factor in text.split('*') {
        let variable = match factor {
            "vec" => Variable::Vec,
            "num" => Variable::Num,
            "m" => Variable::M,
            "n" => Variable::N,
            "k" => Variable::K,
            _ => {
                count.scale *= number(factor);
                continue;
            }
        };
        let free = usize::from(count.variables[0] != Variable::One);
        count.variables[free] = variable;
    }
    count
}

fn type_rule(line: &str, text: &str) -> TypeRule {
    let position = |text: &str| text.parse().unwrap_or_else(|_| bad(line, "unknown type"));
    match text {
        "int" => TypeRule::Integer,
        "any" => TypeRule::Any,
        _ => {
            if let Some(ty) = OpType::from_name(text) {
                TypeRule::Fixed(ty)
            } else if let Some(text) = text.strip_suffix("*2") {
                TypeRule::Doubled(position(text))
            } else if let Some(text) = text.strip_suffix('+') {
                TypeRule::Wider(position(text))
            } else {
                TypeRule::Same(position(text))
            }
        }
    }
}
