//! The code at the start of a probed kernel: declarations, cleared registers, and the slots of the maps.

use margay_frontend::ast::ScalarType;

use super::Module;
use super::value::Code;
use crate::layout::{HEADER_BYTES, MapLayout, Storage};
use crate::model::{Capacity, Level};
use crate::snippet::Declared;

/// The names of the registers that hold the state of one map.
pub(super) struct MapRegisters {
    /// The address of the map's memory.
    pub(super) base: String,
    /// The address of the next record.
    pub(super) cursor: String,
    /// The address behind the records for which there is space.
    pub(super) end: String,
    /// Dynamic maps: the index of the slot.
    pub(super) slot: String,
    /// Dynamic maps: the address of the current chunk.
    pub(super) chunk: String,
    /// Dynamic maps: the bytes for records in the next chunk.
    pub(super) grow: String,
    /// Dynamic maps: the greatest number of bytes for records in a chunk.
    pub(super) most: String,
    /// Dynamic maps: the bytes of the memory.
    pub(super) limit: String,
}

impl Module<'_> {
    pub(super) fn map_registers(&self, index: usize) -> MapRegisters {
        let register = |word: &str| self.names.register(&format!("m{index}_{word}"));
        MapRegisters {
            base: register("base"),
            cursor: register("cursor"),
            end: register("end"),
            slot: register("slot"),
            chunk: register("chunk"),
            grow: register("grow"),
            most: register("most"),
            limit: register("limit"),
        }
    }

    /// Returns the registers that the probes declare outside braces, each once.
    fn shared_registers(&self) -> Vec<&Declared> {
        let mut found: Vec<&Declared> = Vec::new();
        for probe in &self.file.probes {
            for snippet in [&probe.before, &probe.after].into_iter().flatten() {
                let shared = snippet
                    .declared
                    .iter()
                    .filter(|declared| declared.is_shared);
                for declared in shared {
                    match found
                        .iter_mut()
                        .find(|earlier| earlier.name == declared.name)
                    {
                        Some(earlier) if earlier.count < declared.count => *earlier = declared,
                        Some(_) => {}
                        None => found.push(declared),
                    }
                }
            }
        }
        found
    }

    /// Returns the code at the start of a kernel with these names of the added parameters: one for each map, and one
    /// more for each dynamic map.
    pub(super) fn prologue(&self, parameters: &Parameters) -> Code {
        let mut code = Code::default();
        self.declare(&mut code);
        let levels = |level| self.file.maps.iter().any(|map| map.level == level);
        let has_warp_probes = self
            .file
            .probes
            .iter()
            .any(|probe| probe.level == Level::Warp);
        if levels(Level::Warp) || has_warp_probes {
            let (lane, leader) = (self.names.register("lane"), self.names.register("leader"));
            code.line(format!("mov.u32 {lane}, %laneid"));
            code.line(format!("setp.eq.u32 {leader}, {lane}, 0"));
        }
        if !self.file.maps.is_empty() {
            self.slot_indices(&mut code);
        }
        for index in 0..self.file.maps.len() {
            self.map_state(index, parameters, &mut code);
        }
        code
    }

    fn declare(&self, code: &mut Code) {
        let names = &self.names;
        let groups = [
            ("u64", "t", 8),
            ("u64", "h", 6),
            ("u32", "w", 8),
            ("b16", "s", 1),
            ("pred", "q", 8),
        ];
        for (scalar, suffix, count) in groups {
            code.line(format!(
                ".reg .{scalar} {}<{count}>",
                names.register(suffix)
            ));
        }
        code.line(format!(".reg .u32 {}", names.register("lane")));
        let predicates = ["leader", "joint", "guard"].map(|word| names.register(word));
        code.line(format!(".reg .pred {}", predicates.join(", ")));
        if self.file.registers > 0 {
            let scratch = names.register("nr");
            code.line(format!(".reg .u64 {scratch}<{}>", self.file.registers));
            for number in 0..self.file.registers {
                code.line(format!("mov.u64 {scratch}{number}, 0"));
            }
        }
        for declared in self.shared_registers() {
            let name = names.declared(&declared.name);
            code.line(declaration(&name, declared));
            match declared.count {
                None => clear(code, &name, &declared.scalar),
                Some(count) => {
                    for number in 0..=count {
                        clear(code, &format!("{name}{number}"), &declared.scalar);
                    }
                }
            }
        }
    }

    /// Adds code that sets `t0` to the index of the thread in the launch, and `t1` to that of the warp.
    fn slot_indices(&self, code: &mut Code) {
        let register = |suffix: &str| self.names.register(suffix);
        let [cta, warp, wide] = ["t0", "t1", "t2"].map(register);
        let [a, b, c, thread, size] = ["w0", "w1", "w2", "w3", "w4"].map(register);
        let read =
            |code: &mut Code, to: &str, from: &str| code.line(format!("mov.u32 {to}, {from}"));
        read(code, &a, "%ctaid.z");
        read(code, &b, "%nctaid.y");
        code.line(format!("mul.wide.u32 {cta}, {a}, {b}"));
        read(code, &a, "%ctaid.y");
        code.line(format!("cvt.u64.u32 {wide}, {a}"));
        code.line(format!("add.u64 {cta}, {cta}, {wide}"));
        read(code, &a, "%nctaid.x");
        code.line(format!("cvt.u64.u32 {wide}, {a}"));
        code.line(format!("mul.lo.u64 {cta}, {cta}, {wide}"));
        read(code, &a, "%ctaid.x");
        code.line(format!("cvt.u64.u32 {wide}, {a}"));
        code.line(format!("add.u64 {cta}, {cta}, {wide}"));
        read(code, &a, "%tid.z");
        read(code, &b, "%ntid.y");
        read(code, &c, "%tid.y");
        code.line(format!("mad.lo.u32 {thread}, {a}, {b}, {c}"));
        read(code, &a, "%ntid.x");
        read(code, &c, "%tid.x");
        code.line(format!("mad.lo.u32 {thread}, {thread}, {a}, {c}"));
        code.line(format!("mul.lo.u32 {size}, {a}, {b}"));
        read(code, &a, "%ntid.z");
        code.line(format!("mul.lo.u32 {size}, {size}, {a}"));
        code.line(format!("add.u32 {b}, {size}, 31"));
        code.line(format!("shr.u32 {b}, {b}, 5"));
        code.line(format!("cvt.u64.u32 {wide}, {b}"));
        code.line(format!("mul.lo.u64 {warp}, {cta}, {wide}"));
        code.line(format!("shr.u32 {c}, {thread}, 5"));
        code.line(format!("cvt.u64.u32 {wide}, {c}"));
        code.line(format!("add.u64 {warp}, {warp}, {wide}"));
        code.line(format!("cvt.u64.u32 {wide}, {size}"));
        code.line(format!("mul.lo.u64 {cta}, {cta}, {wide}"));
        code.line(format!("cvt.u64.u32 {wide}, {thread}"));
        code.line(format!("add.u64 {cta}, {cta}, {wide}"));
    }

    fn map_state(&self, index: usize, parameters: &Parameters, code: &mut Code) {
        let map = &self.file.maps[index];
        let registers = self.map_registers(index);
        let MapRegisters {
            base, cursor, end, ..
        } = &registers;
        let slot = self.names.register(match map.level {
            Level::Thread => "t0",
            Level::Warp => "t1",
        });
        code.line(format!(".reg .u64 {base}, {cursor}, {end}"));
        code.line(format!(
            "ld.param.u64 {base}, [{}]",
            parameters.pointers[index]
        ));
        code.line(format!("cvta.to.global.u64 {base}, {base}"));
        match map.capacity {
            Capacity::Records(records) => {
                let bytes = u64::from(records) * u64::from(map.record);
                code.line(format!("mul.lo.u64 {cursor}, {slot}, {bytes}"));
                code.line(format!("add.u64 {cursor}, {cursor}, {base}"));
                code.line(format!("add.u64 {cursor}, {cursor}, {HEADER_BYTES}"));
                code.line(format!("add.u64 {end}, {cursor}, {bytes}"));
            }
            Capacity::Dynamic => {
                let MapRegisters {
                    slot: own,
                    chunk,
                    grow,
                    most,
                    limit,
                    ..
                } = &registers;
                let layout = MapLayout::new(map, Storage::Counted);
                let word = self.names.register("w0");
                code.line(format!(".reg .u64 {own}, {chunk}, {grow}, {most}, {limit}"));
                code.line(format!("mov.u64 {own}, {slot}"));
                code.line(format!("mov.u64 {cursor}, 0"));
                code.line(format!("mov.u64 {end}, 0"));
                code.line(format!("mov.u64 {chunk}, 0"));
                code.line(format!("mov.u64 {grow}, {}", layout.first_chunk()));
                let size = parameters.sizes[index].as_deref().unwrap_or_default();
                code.line(format!("ld.param.u32 {word}, [{size}]"));
                code.line(format!("cvt.u64.u32 {most}, {word}"));
                code.line(format!("ld.global.u64 {limit}, [{base}+8]"));
            }
        }
    }
}

/// The names of the parameters that a kernel gets.
pub(super) struct Parameters {
    /// For each map, the parameter with the address of its memory.
    pub(super) pointers: Vec<String>,
    /// For each dynamic map, the parameter with its number of bytes.
    pub(super) sizes: Vec<Option<String>>,
}

/// Returns the declaration of a register, or of a range with one register more than the probe's text says.
pub(super) fn declaration(name: &str, declared: &Declared) -> String {
    let range = declared
        .count
        .map_or(String::new(), |count| format!("<{}>", u64::from(count) + 1));
    format!(".reg .{} {name}{range}", declared.scalar)
}

fn clear(code: &mut Code, name: &str, scalar: &str) {
    match ScalarType::from_word(scalar) {
        Some(ScalarType::Pred) => code.line(format!("setp.ne.u32 {name}, 0, 0")),
        Some(scalar) => match scalar.bytes() {
            Some(2) => code.line(format!("mov.b16 {name}, 0")),
            Some(4) => code.line(format!("mov.b32 {name}, 0")),
            Some(8) => code.line(format!("mov.b64 {name}, 0")),
            // Registers of 8 and 128 bits cannot be set to a number.
            _ => {}
        },
        None => {}
    }
}
