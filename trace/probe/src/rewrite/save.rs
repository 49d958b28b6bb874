//! The code for `SAVE`: a check for space, the stores of a record, and the new end of the slot.
//!
//! The code has no branches, so it can stand anywhere, and its instructions run under predicates.

use margay_frontend::ast::ScalarType;
use margay_frontend::resolve::{Lookup, Symbol};

use super::bind::{Bound, special_type};
use super::expand::Expansion;
use super::prologue::MapRegisters;
use super::value::Code;
use crate::layout::CHUNK_HEADER_BYTES;
use crate::model::{Capacity, Level, Map, Packing};
use crate::snippet::{Piece, Save};
use crate::width::Width;

/// A value to save: a register or a number, and the number of its bits.
struct Value {
    text: String,
    bits: u32,
}

impl Expansion<'_, '_> {
    /// Adds the code for a `SAVE` that runs in the lanes in which `guard` is true.
    ///
    /// # Errors
    ///
    /// Returns the reason why an operand cannot be saved.
    pub(super) fn save(
        &self,
        save: &Save,
        guard: Option<&str>,
        bound: &Bound,
        code: &mut Code,
    ) -> Result<(), String> {
        let probe = &self.module.file.probes[self.probe];
        let name = save.map.as_ref().unwrap_or(&probe.name);
        let Some((index, map)) = self.module.file.map(name) else {
            return Err(format!("there is no map `{name}`"));
        };
        let registers = self.module.map_registers(index);
        let placed = placed(map, save);
        let mut stores = Vec::new();
        for (number, (operand, offset, width)) in placed.iter().enumerate() {
            let value = self.operand(operand, bound, code)?;
            let text = self.converted(value, *width, number, code);
            stores.push((text, *offset, *width));
        }
        let guard = self.leader_guard(map.level, guard, code);
        let bytes: u32 = match save.width {
            None => map.record,
            Some(width) => width.bytes() * save.operands.len() as u32,
        };
        if map.capacity == Capacity::Dynamic {
            self.grow(&registers, guard.as_deref(), code);
        }
        let fits = self.module.names.register("q0");
        let MapRegisters {
            base, cursor, end, ..
        } = &registers;
        compare(code, "lt", &fits, (cursor, end), guard.as_deref());
        for (text, offset, width) in stores {
            let bits = 8 * width.bytes();
            let place = if offset == 0 {
                String::new()
            } else {
                format!("+{offset}")
            };
            code.line(format!(
                "@{fits} st.global.b{bits} [{cursor}{place}], {text}"
            ));
        }
        match map.capacity {
            Capacity::Records(_) => {
                let full = self.module.names.register("q1");
                compare(code, "ge", &full, (cursor, end), guard.as_deref());
                code.line(format!("@{full} red.global.add.u64 [{base}+16], 1"));
                code.line(format!("@{fits} add.u64 {cursor}, {cursor}, {bytes}"));
            }
            Capacity::Dynamic => {
                code.line(format!("@{fits} add.u64 {cursor}, {cursor}, {bytes}"));
                self.note_used(&registers, &fits, code);
            }
        }
        Ok(())
    }

    /// Adds code that takes a new chunk if the current one is full.
    fn grow(&self, registers: &MapRegisters, guard: Option<&str>, code: &mut Code) {
        let names = &self.module.names;
        let [full, fits, dropped] = ["q1", "q2", "q3"].map(|suffix| names.register(suffix));
        let [bytes, offset, stop] = ["t4", "t5", "t6"].map(|suffix| names.register(suffix));
        let MapRegisters {
            base,
            cursor,
            end,
            slot,
            chunk,
            grow,
            most,
            limit,
        } = registers;
        compare(code, "ge", &full, (cursor, end), guard);
        code.line(format!("add.u64 {bytes}, {grow}, {CHUNK_HEADER_BYTES}"));
        code.line(format!("mov.u64 {offset}, 0"));
        code.line(format!(
            "@{full} atom.global.add.u64 {offset}, [{base}], {bytes}"
        ));
        code.line(format!("add.u64 {stop}, {offset}, {bytes}"));
        compare(code, "le", &fits, (&stop, limit), Some(&full));
        compare(code, "gt", &dropped, (&stop, limit), Some(&full));
        code.line(format!("@{dropped} red.global.add.u64 [{base}+16], 1"));
        code.line(format!("@{fits} add.u64 {chunk}, {base}, {offset}"));
        code.line(format!("@{fits} st.global.u64 [{chunk}], {slot}"));
        code.line(format!("@{fits} st.global.u64 [{chunk}+8], {grow}"));
        code.line(format!(
            "@{fits} add.u64 {cursor}, {chunk}, {CHUNK_HEADER_BYTES}"
        ));
        code.line(format!("@{fits} add.u64 {end}, {cursor}, {grow}"));
        code.line(format!("@{fits} shl.b64 {grow}, {grow}, 1"));
        code.line(format!("@{fits} min.u64 {grow}, {grow}, {most}"));
    }

    /// Adds code that writes the used bytes of the current chunk.
    fn note_used(&self, registers: &MapRegisters, fits: &str, code: &mut Code) {
        let (used, word) = (
            self.module.names.register("t4"),
            self.module.names.register("w5"),
        );
        let MapRegisters { cursor, chunk, .. } = registers;
        code.line(format!("sub.u64 {used}, {cursor}, {chunk}"));
        code.line(format!("sub.u64 {used}, {used}, {CHUNK_HEADER_BYTES}"));
        code.line(format!("cvt.u32.u64 {word}, {used}"));
        code.line(format!("@{fits} st.global.u32 [{chunk}+12], {word}"));
    }

    /// Returns the guard under which a lane saves to a map of this level.
    fn leader_guard(&self, level: Level, guard: Option<&str>, code: &mut Code) -> Option<String> {
        let names = &self.module.names;
        let leader = names.register("leader");
        match (level, guard) {
            (Level::Thread, guard) => guard.map(str::to_owned),
            (Level::Warp, None) => Some(leader),
            (Level::Warp, Some(guard)) if guard == leader => Some(leader),
            (Level::Warp, Some(guard)) => {
                let joint = names.register("q4");
                code.line(format!(
                    "setp.eq.and.u32 {joint}, {}, 0, {guard}",
                    names.register("lane")
                ));
                Some(joint)
            }
        }
    }

    fn operand(&self, operand: &[Piece], bound: &Bound, code: &mut Code) -> Result<Value, String> {
        let (name, component) = match operand {
            [Piece::Scratch(number)] => {
                let text = self.module.names.register(&format!("nr{number}"));
                return Ok(Value { text, bits: 64 });
            }
            [Piece::Helper(helper)] => {
                let text = bound.get(helper).cloned().unwrap_or_default();
                return Ok(Value { text, bits: 64 });
            }
            [Piece::Name(name)] => (name, ""),
            [Piece::Name(name), Piece::Text(component)] if component.starts_with('.') => {
                (name, component.as_str())
            }
            [Piece::Text(digits)] => return number(digits, ""),
            [Piece::Text(sign), Piece::Text(digits)] if sign == "-" => return number(digits, "-"),
            _ => return Err("a value to save must be a register or a number".to_owned()),
        };
        self.named(&format!("{name}{component}"), name, code)
    }

    fn named(&self, text: &str, name: &str, code: &mut Code) -> Result<Value, String> {
        if let Some(declared) = self.declared(name) {
            let text = self.renamed(name);
            return match ScalarType::from_word(&declared.scalar) {
                Some(scalar) => self.plain(text, scalar, code),
                None => Err(format!("the type `.{}` is unknown", declared.scalar)),
            };
        }
        if let Some(ty) = special_type(name) {
            let (scalar, copy) = match ty.bits() {
                64 => (ScalarType::U64, "t3"),
                _ => (ScalarType::U32, "w5"),
            };
            let copy = self.module.names.register(copy);
            code.line(format!("mov.{} {copy}, {text}", scalar.word()));
            return self.plain(copy, scalar, code);
        }
        let module = &self.module.parsed.module;
        let symbol = module
            .names
            .get(name)
            .and_then(|name| self.scopes.lookup(name));
        match symbol {
            Some(Symbol::Register { variable, .. }) => {
                self.plain(text.to_owned(), module[variable].scalar, code)
            }
            _ => Err(format!("`{name}` is not a register")),
        }
    }

    /// Returns a register of any type as a register of 32 or 64 bits.
    fn plain(&self, text: String, scalar: ScalarType, code: &mut Code) -> Result<Value, String> {
        match scalar.bytes() {
            Some(8) if !scalar.is_opaque() => Ok(Value { text, bits: 64 }),
            Some(4) => Ok(Value { text, bits: 32 }),
            _ => {
                let copy = self.module.names.register("t3");
                match super::value::widen(code, &self.module.names, &copy, &text, scalar, false) {
                    true => Ok(Value {
                        text: copy,
                        bits: 64,
                    }),
                    false => Err(format!("`{text}` has no value of at most 64 bits")),
                }
            }
        }
    }

    /// Adds the conversion of a value to the width of its field, into a register of its own for each field.
    fn converted(&self, value: Value, width: Width, number: usize, code: &mut Code) -> String {
        let is_number = !value.text.starts_with('%');
        if is_number || (value.bits == 8 * width.bytes() && !self.is_temporary(&value.text)) {
            return value.text;
        }
        let names = &self.module.names;
        let to = names.register(&format!(
            "{}_{number}",
            match width {
                Width::U32 => "f32",
                Width::U64 => "f64",
            }
        ));
        code.line(format!(".reg .{} {to}", width.word()));
        match (value.bits, width) {
            (32, Width::U64) => {
                let word = names.register("w7");
                code.line(format!("mov.b32 {word}, {}", value.text));
                code.line(format!("cvt.u64.u32 {to}, {word}"));
            }
            (32, Width::U32) => code.line(format!("mov.b32 {to}, {}", value.text)),
            (_, Width::U64) => code.line(format!("mov.b64 {to}, {}", value.text)),
            (_, Width::U32) => {
                let wide = names.register("t7");
                code.line(format!("mov.b64 {wide}, {}", value.text));
                code.line(format!("cvt.u32.u64 {to}, {wide}"));
            }
        }
        to
    }

    /// Whether the next operand can overwrite the register.
    fn is_temporary(&self, register: &str) -> bool {
        ["t3", "w5"]
            .iter()
            .any(|suffix| self.module.names.register(suffix) == register)
    }
}

fn number(digits: &str, sign: &str) -> Result<Value, String> {
    let text = format!("{sign}{digits}");
    match digits.starts_with(|c: char| c.is_ascii_digit()) {
        true => Ok(Value { text, bits: 64 }),
        false => Err(format!("`{text}` is not a number")),
    }
}

/// Returns the operands of a `SAVE` with their offsets from the cursor and their widths.
fn placed<'s>(map: &Map, save: &'s Save) -> Vec<(&'s [Piece], u32, Width)> {
    let operands = save.operands.iter().map(Vec::as_slice);
    if let (Some(width), Packing::AsWritten) = (save.width, map.packing) {
        let place = |(index, operand)| (operand, index as u32 * width.bytes(), width);
        return operands.enumerate().map(place).collect();
    }
    let order = map.layout().into_iter();
    order
        .filter_map(|(index, offset)| {
            let operand = save.operands.get(index)?;
            Some((operand.as_slice(), offset, map.fields[index].width))
        })
        .collect()
}

/// Adds a comparison of two 64-bit registers that is true only in lanes in which `guard` is true.
fn compare(code: &mut Code, test: &str, to: &str, (a, b): (&str, &str), guard: Option<&str>) {
    match guard {
        Some(guard) => code.line(format!("setp.{test}.and.u64 {to}, {a}, {b}, {guard}")),
        None => code.line(format!("setp.{test}.u64 {to}, {a}, {b}")),
    }
}
