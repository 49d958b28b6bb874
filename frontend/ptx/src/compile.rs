//! Compiles the text of the syntax table into [`Form`]s.
//!
//! # The notation
//!
//! A line of the table has one of these formats:
//!
//! ```text
//! class NAME field = a b c@80/7.0
//! let NAME = {CLASS} {x} ...
//! head.prefix slots types @req : operands -> Opcode field=value
//! // a comment
//! ```
//!
//! A `class` is a named set of modifiers or types; a slot `NAME` accepts one of them. A `let` is a shorthand for
//! several slots, which a line uses as `$NAME`. A comment must have its own line. A line that begins with white space
//! continues the previous line.
//!
//! A *slot* is a position that accepts one modifier. PTX accepts most modifiers in any order. The
//! table writes modifiers in this notation:
//!
//! - `x` or `CLASS` is a required modifier. `{x}` or `{CLASS}` is an optional modifier.
//! - `a|b` accepts `a` or `b`. `field=a|b` also stores the chosen modifier in this field of [`Mods`].
//! - `m<8..24/8>` is short for the modifiers `m8`, `m16` and `m24` (from 8 to 24 in steps of 8).
//! - Modifiers that are joined to the head (the first word of the instruction) with dots
//!   (`mul.half=lo|hi`) must directly follow the head, in this order.
//! - *Types* begin with a dot in the table (`.u16|u32`, `.CLASS`). An instruction must name them in
//!   the order of the table.
//! - Other modifiers that begin with a dot, such as the state spaces of a copy (`.space=shared .global`), must keep
//!   their order relative to each other.
//!
//! *Requirements* state the lowest target and PTX version for which PTX has a form or a modifier:
//!
//! - `x@target/version` is the requirement of the modifier `x`. `x@89/8.1,90/7.8` means that
//!   targets from `sm_89` on have `x` since PTX 8.1, and targets from `sm_90` on since PTX 7.8.
//! - A separate word `@target/version` is the requirement of the whole line.
//! - `until@70/6.4`: the line is not valid for modules whose target is at least `sm_70` and whose
//!   PTX version is at least 6.4.
//! - `both=order,scope` means that an instruction must have both a memory order and a scope, or neither.
//!
//! *Operands* are separated by commas. Each operand consists of flags, a core (the shape of the
//! operand), `:type` and conditions.
//!
//! Flags:
//!
//! - `>`: the instruction writes the operand. Constants are not accepted.
//! - `_`: the sink `_`, which discards a result, is accepted.
//! - `%`: constants are not accepted.
//! - `#`: registers are not accepted.
//! - `!`: a negated predicate is accepted.
//! - `-`: a register with a minus sign (`-a`) is accepted.
//! - `~`: a register with a selector of a video instruction (`a.b0`) is accepted.
//! - `+`: special registers are accepted.
//! - `$`: special registers and the addresses of variables and functions are accepted.
//! - `^`: the address of a variable in the instruction's state space is accepted.
//!
//! Cores:
//!
//! - `name`: a scalar. Without a name (`>_`), only the sink is accepted.
//! - `name|p`: a pair of a scalar and a predicate.
//! - `name|?p`: a scalar, or such a pair. A vector can have the suffixes `|p` and `|?p` too.
//! - `[name]`: an operand in brackets: an address in the state space that the instruction's state space modifier names,
//!   or a generic address if there is no such modifier.
//! - `[name=space]`: an address in this space.
//! - `[name=?]`: an address in any space.
//! - `[a, b]`: several operands in brackets.
//! - `{name*count}`: a vector. A count is a number, or is computed from numbers in the modifiers: `4`, `vec`, `num*2`,
//!   `m*k/64`. A `?` after the count permits a single element without braces, and a `-` after the
//!   count permits fewer elements.
//! - `@name`: a label.
//! - `=name`: the name of a list of branch targets or call targets, or of a function prototype.
//! - `&name`: a function.
//! - `(name)`: a list in parentheses.
//!
//! Types: `0` (the instruction's first type; the default for operands without brackets), `1` (the second type, and so
//! on), `0+` (the instruction's first type, but the register may be wider), `0*2` (the type with twice the size of the
//! first type), `u32`, `int` (an integer constant, or a register with 32 or 64 bits of an integer type; the default for
//! operands in brackets), `any`.
//!
//! Conditions: `<lo..hi/step>` (the range of a constant), `?` (the operand is optional), `if mod` (the operand is
//! present if and only if the instruction has this modifier).
//!
//! *Actions*:
//!
//! - `-> Opcode`: the instruction becomes this op.
//! - `-> *`: the instruction becomes the op that has the same name as the head, apart from a capital first letter.
//! - `-> lowering`: the instruction is lowered by the [`Lowering`] of this name, because it does not simply become one
//!   op with the same operands.
//! - `-> nothing`: no op is generated for the instruction. If the instruction writes operands, the
//!   operands become 0.
//! - `-| family`: the instruction is unsupported. Error messages contain `family`, the name of a
//!   group of such instructions.
//!
//! `field=value` after the action `->` sets this field of [`Mods`] for every instruction of the line.
//!
//! Compiling a line that contains a mistake panics. This is acceptable because the table is embedded in the program,
//! and the tests compile every line.

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

/// The text of the table, split into the named classes of modifiers, the abbreviations, and the
/// lines of each head. The lines of a head are compiled when the head is first used, because a
/// module uses only a few of the hundreds of heads.
#[derive(Default)]
pub(super) struct Lines {
    classes: FxHashMap<&'static str, Vec<Choice>>,
    shorthands: FxHashMap<&'static str, &'static str>,
    by_head: FxHashMap<&'static str, Vec<&'static str>>,
}

/// Splits the texts of all files of the table into lines and sorts the lines by their kind.
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
    /// Returns the heads of all instructions, in no particular order.
    pub(super) fn heads(&self) -> impl Iterator<Item = &'static str> {
        self.by_head.keys().copied()
    }

    /// Compiles the lines of a head to forms, in the order of the table.
    pub(super) fn forms_of(&self, head: &'static str) -> Vec<Form> {
        let lines = self.by_head.get(head).into_iter().flatten();
        lines.map(|line| self.form(line, head)).collect()
    }
}

/// Splits the text of a file into lines. A continuation line is joined to the line before it. Comment lines and empty
/// lines are removed, but they must not stand between a line and its continuation.
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

/// Splits `text` at white space, even inside braces. Therefore, the table must not contain white space inside braces.
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
                bad(line, "the class exists already");
            }
        } else if let Some(rest) = line.strip_prefix("let ") {
            let Some((name, text)) = rest.split_once(" = ") else {
                bad(line, "a shorthand needs =")
            };
            if self.shorthands.insert(name.trim(), text).is_some() {
                bad(line, "the shorthand exists already");
            }
        } else {
            let heads = line.split_whitespace().next().unwrap_or_default();
            for head in split_head(heads).remove(0).split('|') {
                self.by_head.entry(head).or_default().push(line);
            }
        }
    }

    /// Returns the modifiers that `word`, a part of a slot or of a class, accepts. If the word is
    /// the name of a class, returns the modifiers of the class. Otherwise, the modifiers are the
    /// texts to which the word expands; see [`expand`].
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

    /// Parses a slot from `a|b`, `field=a|b` or `CLASS`.
    fn slot(&self, line: &str, word: &'static str, required: bool) -> Slot {
        let (field, alternatives) = match word.split_once('=') {
            Some((field, alternatives)) => (Some(field), alternatives),
            None => (None, word),
        };
        // `|` separates modifiers, but also the targets in the requirement of a modifier. After a `|` that separates
        // targets, there is a digit.
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

    /// Parses `text`, the part of a line from its operands on, and appends a pattern for each
    /// operand to `operands`. Returns the rest of the line, which is the action.
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

/// Expands `a<8..24/8>b` to the texts `a8b`, `a16b` and `a24b`.
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
        // The strings are leaked, because forms are never freed.
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

/// Splits a word such as `mul.half=lo|hi` at every dot. Therefore, the word cannot contain a requirement with a version
/// such as `7.0`.
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
    known.unwrap_or_else(|| {
        let why = format!("the op table (ir/ops/src/ops.rs) has no opcode `{variant}`");
        bad(line, &why)
    })
}

fn action(line: &'static str, text: &'static str, form: &mut Form) {
    if let Some(reason) = text.strip_prefix("-| ") {
        form.action = Action::LeftOut(reason.trim());
        return;
    }
    let mut words = words(text.trim_start_matches("-> "));
    form.action = match words.next() {
        Some("nothing") => Action::Nothing,
        // `*` means that the head names the opcode. `Const` is a placeholder, which the function `form` replaces by
        // this opcode.
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

/// Splits `text` at each comma that is not inside brackets, braces or parentheses. Removes empty pieces.
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

/// Splits `core:type` at the first colon after the last closing bracket, brace or parenthesis. If there is no such
/// colon, the returned type is `None`.
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
        // Include the closing brace, which belongs to the vector.
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

/// Parses `second`, the text after the `|` of a pair of operands. In `?p`, the second operand is
/// optional. In `p`, the second operand is required.
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
