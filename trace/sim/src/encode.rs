//! Turns the instructions of a trace into templates and records.

use margay_accelsim::{
    Class, Header, Instruction, MemoryKind, Opcode, OpcodeMap, Register, RegisterKind, Space,
};
use rustc_hash::FxHashMap;

use crate::coalesce::Coalescer;
use crate::config::{Config, Unit, Units};
use crate::program::{
    Access, AccessKind, Action, CtaProgram, MAX_SOURCES, MAX_TEMPLATES, Record, Template, UnitKind,
};

/// What distinguishes templates. The address of an opcode's text stands for it: the templates keep all opcodes alive.
type Key = (u64, usize, Option<Space>, bool, [u32; MAX_SOURCES + 1]);

/// Encodes the instructions of a kernel.
pub(crate) struct Encoder {
    header: Header,
    map: Option<OpcodeMap>,
    units: Units,
    banks: u32,
    skips_l1: bool,
    known: FxHashMap<Key, usize>,
    coalescer: Coalescer,
}

/// The instructions of a CTA or kernel exceed what the encoding can number.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Encoder {
    /// Returns an encoder for the kernel with this header.
    pub(crate) fn new(header: &Header, config: &Config) -> Encoder {
        Encoder {
            header: header.clone(),
            map: OpcodeMap::of(header.binary_version),
            units: config.units.clone(),
            banks: config.shared.banks,
            skips_l1: config.l1.skip_global,
            known: FxHashMap::default(),
            coalescer: Coalescer::default(),
        }
    }

    /// Appends an execution.
    pub(crate) fn push(
        &mut self,
        program: &mut CtaProgram,
        instruction: &Instruction,
    ) -> Result<(), TooMany> {
        let memory = self.memory(instruction);
        let template = self.template(program, instruction, memory.map(|(space, _)| space))?;
        let argument = self.argument(program, instruction, memory)?;
        let lanes = instruction.mask.count_ones();
        program.records.push(Record::new(template, lanes, argument));
        Ok(())
    }

    /// Returns the memory that the instruction accesses. Generic atomic operations go to global memory, as in the simulator.
    fn memory(&self, instruction: &Instruction) -> Option<(Space, MemoryKind)> {
        let (space, kind) = instruction.opcode.memory()?;
        let addresses = instruction.addresses.as_ref()?;
        let space = match (space, kind) {
            (Space::Generic, MemoryKind::Atomic) => Space::Global,
            _ => self.header.resolve(space, addresses, instruction.mask),
        };
        Some((space, kind))
    }

    fn template(
        &mut self,
        program: &mut CtaProgram,
        instruction: &Instruction,
        space: Option<Space>,
    ) -> Result<usize, TooMany> {
        let mut registers = [0; MAX_SOURCES + 1];
        let destination = instruction.destination.iter();
        let all = destination.chain(instruction.sources.iter());
        let mut count = 0;
        for (place, register) in registers.iter_mut().zip(all) {
            *place = number(*register);
            count += 1;
        }
        let text = instruction.opcode.text().as_ptr() as usize;
        let has_destination = instruction.destination.is_some();
        let key = (instruction.pc, text, space, has_destination, registers);
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let index = self.known.len();
        if index == MAX_TEMPLATES {
            return Err(TooMany);
        }
        let action = self.action(instruction, space);
        let (unit, latency, interval) = self.timing(&instruction.opcode, action);
        program.templates.push(Template {
            action,
            unit,
            latency,
            interval,
            registers,
            register_count: count,
            has_destination,
            pc: instruction.pc,
            opcode: instruction.opcode.clone(),
        });
        self.known.insert(key, index);
        Ok(index)
    }

    fn argument(
        &mut self,
        program: &mut CtaProgram,
        instruction: &Instruction,
        memory: Option<(Space, MemoryKind)>,
    ) -> Result<u32, TooMany> {
        let (Some((space, kind)), Some(addresses)) = (memory, &instruction.addresses) else {
            let groups = instruction.immediate.clamp(0, i64::from(u32::MAX));
            return Ok(groups as u32);
        };
        match space {
            Space::Shared => {
                let banks = self.banks;
                Ok(self.coalescer.passes(addresses, instruction.mask, banks))
            }
            _ => {
                let (width, mask) = (instruction.opcode.width(), instruction.mask);
                let lines = match space {
                    Space::Local => self.coalescer.local_lines(addresses, mask, width),
                    _ => self.coalescer.lines(kind, addresses, mask, width),
                };
                let is_store = kind == MemoryKind::Store;
                program.push_access(lines, is_store).ok_or(TooMany)
            }
        }
    }

    fn action(&self, instruction: &Instruction, space: Option<Space>) -> Action {
        let opcode = &instruction.opcode;
        if let (Some(space), Some((_, kind))) = (space, opcode.memory()) {
            return self.access(opcode, space, kind);
        }
        match (opcode.name(), self.class(opcode)) {
            ("LDGDEPBAR", _) => Action::CommitCopies,
            ("DEPBAR", _) => Action::WaitForCopies,
            (_, Class::Exit) => Action::Exit,
            (_, Class::Barrier) => Action::Barrier,
            (_, Class::MemoryBarrier) => Action::MemoryBarrier,
            _ => Action::Compute,
        }
    }

    fn access(&self, opcode: &Opcode, space: Space, kind: MemoryKind) -> Action {
        let is_atomic = matches!(kind, MemoryKind::Atomic | MemoryKind::Reduction);
        if space == Space::Shared {
            return Action::Shared {
                is_store: kind == MemoryKind::Store,
                is_atomic,
            };
        }
        let has = |wanted: &str| opcode.text().split('.').any(|token| token == wanted);
        // Only loads whose names have their memory: the simulator does not look at the scope of generic ones.
        let is_strong =
            has("STRONG") && has("GPU") && matches!(opcode.name(), "LDG" | "LDL" | "LDGSTS");
        Action::Global(Access {
            kind: match kind {
                MemoryKind::Load => AccessKind::Load,
                MemoryKind::Store => AccessKind::Store,
                MemoryKind::Atomic | MemoryKind::Reduction => AccessKind::Atomic,
                MemoryKind::Copy => AccessKind::Copy,
            },
            bypasses_l1: is_atomic || is_strong || space == Space::Global && self.skips_l1,
            is_local: space == Space::Local,
        })
    }

    fn class(&self, opcode: &Opcode) -> Class {
        let class = self.map.and_then(|map| map.class(opcode.name()));
        class.unwrap_or(Class::Alu)
    }

    /// Returns the unit with its latency and interval.
    fn timing(&self, opcode: &Opcode, action: Action) -> (UnitKind, u32, u32) {
        let units = &self.units;
        match action {
            Action::Exit | Action::Barrier => return (UnitKind::Integer, 1, 1),
            Action::MemoryBarrier | Action::Shared { .. } | Action::Global(_) => {
                return (UnitKind::Memory, 1, 1);
            }
            Action::Compute | Action::CommitCopies | Action::WaitForCopies => {}
        }
        let integer = (UnitKind::Integer, &units.integer);
        let specialized = |kind, index: usize| match &units.specialized[index] {
            unit if unit.count > 0 => (kind, unit),
            _ => integer,
        };
        let has_branch_unit = !matches!(self.map, Some(OpcodeMap::Kepler | OpcodeMap::Pascal));
        let (kind, unit) = match self.class(opcode) {
            Class::Fp32 => (UnitKind::Fp32, &units.fp32),
            Class::Special => present(UnitKind::Special, &units.special, integer),
            Class::Fp64 => present(UnitKind::Fp64, &units.fp64, integer),
            Class::Branch if has_branch_unit => specialized(UnitKind::Branch, 0),
            Class::Texture => specialized(UnitKind::Texture, 1),
            Class::Tensor => specialized(UnitKind::Matrix, 2),
            Class::Uniform => specialized(UnitKind::Uniform, 3),
            _ => present(integer.0, integer.1, (UnitKind::Fp32, &units.fp32)),
        };
        // Half precision has twice the rate.
        let interval = match is_half(opcode.name()) {
            true => (unit.interval / 2).max(1),
            false => unit.interval,
        };
        (kind, unit.latency, interval)
    }
}

/// Returns the unit if the core has it, or else the other one.
fn present<'a>(
    kind: UnitKind,
    unit: &'a Unit,
    other: (UnitKind, &'a Unit),
) -> (UnitKind, &'a Unit) {
    match unit.count {
        0 => other,
        _ => (kind, unit),
    }
}

/// Returns whether the simulator executes the opcode at the rate of half precision.
fn is_half(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "HADD2",
        "HADD2_32I",
        "HFMA2",
        "HFMA2_32I",
        "HMUL2_32I",
        "HSET2",
        "HSETP2",
    ];
    NAMES.contains(&name)
}

/// Returns a number from 1 that is different for all registers.
fn number(register: Register) -> u32 {
    let kind = match register.kind() {
        RegisterKind::General => 0,
        RegisterKind::Uniform => 1,
        RegisterKind::Predicate => 2,
        RegisterKind::UniformPredicate => 3,
    };
    // The largest general number is 2^30 - 1; 0 means none.
    (register.number() << 2 | kind).wrapping_add(4)
}
