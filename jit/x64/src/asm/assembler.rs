//! The buffer of code, its labels, and what lies behind the code.

use super::encode::{self, Context, Target, UNBOUND};
use super::error::Error;
use super::features::Features;
use super::inst::Inst;
use super::operand::{Base, Constant, Label, Symbol};
use super::pool::{Layout, Pool};

/// The most bytes of code, so that all displacements fit 32 bits.
const LARGEST: usize = 1 << 30;
/// What fills the space between the code and its constants: `int3`.
const FILL: u8 = 0xcc;
/// The alignment of the code, where the processor fetches and caches it.
const CODE_ALIGNMENT: u32 = 64;

/// A 32-bit displacement whose target is known at the end.
struct Fixup {
    /// Where the displacement is. Its present value is added to the target.
    at: u32,
    /// The end of the instruction, which the displacement is relative to.
    end: u32,
    target: Target,
}

/// Encodes instructions one behind the other.
pub struct Asm {
    features: Features,
    code: Vec<u8>,
    labels: Vec<u32>,
    fixups: Vec<Fixup>,
    pool: Pool,
}

/// Finished code with what lies behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assembled {
    /// The code and, from [`Assembled::code_size`] on, its constants, slots and jump tables.
    pub bytes: Vec<u8>,
    /// The number of bytes of code.
    pub code_size: u32,
    /// The alignment of the first byte, a power of two.
    pub alignment: u32,
    /// The positions of 8-byte slots, in each of which the loader writes the address of a symbol.
    pub symbols: Vec<(u32, Symbol)>,
    labels: Vec<u32>,
}

impl Assembled {
    /// The position of a label.
    pub fn position(&self, label: Label) -> Option<u32> {
        let position = self.labels.get(label.0 as usize);
        position.copied().filter(|&x| x != UNBOUND)
    }
}

impl Asm {
    /// An empty buffer for a CPU with these features.
    pub fn new(features: Features) -> Asm {
        Asm {
            features,
            code: Vec::new(),
            labels: Vec::new(),
            fixups: Vec::new(),
            pool: Pool::default(),
        }
    }

    /// The features of the target.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The position of the next instruction.
    pub fn position(&self) -> u32 {
        self.code.len() as u32
    }

    /// Makes a label, which is not bound.
    pub fn label(&mut self) -> Label {
        self.labels.push(UNBOUND);
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds a label to the position of the next instruction.
    pub fn bind(&mut self, label: Label) -> Result<(), Error> {
        let position = self.position();
        let slot = self.labels.get_mut(label.0 as usize);
        let slot = slot.ok_or(Error::UnknownLabel(label))?;
        if *slot != UNBOUND {
            return Err(Error::Rebound(label));
        }
        *slot = position;
        Ok(())
    }

    /// Appends an instruction.
    pub fn emit(&mut self, inst: &Inst) -> Result<(), Error> {
        if self.code.len() > LARGEST {
            return Err(Error::TooLarge);
        }
        let context = Context {
            features: self.features,
            position: self.position(),
            labels: &self.labels,
        };
        let encoded = encode::encode(inst, &context)?;
        if let Some((at, target)) = encoded.fixup {
            self.add_fixup(at, encoded.len, target)?;
        }
        self.code.extend_from_slice(&encoded.bytes[..encoded.len]);
        Ok(())
    }

    fn add_fixup(&mut self, at: usize, len: usize, target: Target) -> Result<(), Error> {
        if let Target::Label(label) | Target::Base(Base::Label(label)) = target
            && label.0 as usize >= self.labels.len()
        {
            return Err(Error::UnknownLabel(label));
        }
        match target {
            Target::Base(Base::Constant(constant)) if !self.pool.contains(constant) => {
                return Err(Error::UnknownConstant(constant));
            }
            Target::Base(Base::Symbol(symbol)) => {
                self.pool.slot(symbol);
            }
            _ => {}
        }
        let start = self.position();
        self.fixups.push(Fixup {
            at: start + at as u32,
            end: start + len as u32,
            target,
        });
        Ok(())
    }

    /// A constant behind the code, aligned to its length of 1, 2, 4, 8, 16, 32 or 64 bytes. Equal constants are one.
    pub fn constant(&mut self, bytes: &[u8]) -> Result<Constant, Error> {
        self.pool.constant(bytes)
    }

    /// A jump table behind the code: for each target, its 32-bit distance from the start of the table. The result is the
    /// label of the table.
    ///
    /// Code that jumps to target `i` loads the address of the table with `lea`, loads entry `i` with `movsxd`, adds the
    /// two and jumps to the sum.
    pub fn jump_table(&mut self, targets: &[Label]) -> Label {
        let label = self.label();
        self.pool.table(label, targets);
        label
    }

    /// Fills the code with instructions without effect up to a multiple of `alignment` bytes, a power of two up to 64.
    pub fn align(&mut self, alignment: u32) -> Result<(), Error> {
        if !alignment.is_power_of_two() || alignment > CODE_ALIGNMENT {
            return Err(Error::Alignment(alignment));
        }
        let end = self.position().next_multiple_of(alignment);
        self.nops((end - self.position()) as usize);
        Ok(())
    }

    /// Appends `bytes` bytes of instructions without effect, as few instructions as possible.
    pub fn nops(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let nop = NOPS[bytes.min(NOPS.len()) - 1];
            self.code.extend_from_slice(nop);
            bytes -= nop.len();
        }
    }

    /// Resolves all references and appends the constants, slots and jump tables.
    pub fn finish(mut self) -> Result<Assembled, Error> {
        let code_size = self.position();
        let layout = self.pool.layout(code_size);
        let aligned = code_size.next_multiple_of(layout.alignment);
        self.code.resize(aligned as usize, FILL);
        self.pool.write(&layout, &mut self.code);
        if self.code.len() > LARGEST {
            return Err(Error::TooLarge);
        }
        let tables = self.pool.tables().iter().enumerate();
        for (n, (label, _)) in tables {
            let position = &mut self.labels[label.0 as usize];
            if *position != UNBOUND {
                return Err(Error::Rebound(*label));
            }
            *position = layout.table(n);
        }
        for fixup in &self.fixups {
            let target = target(fixup.target, &self.labels, &mut self.pool, &layout)?;
            let field = &mut self.code[fixup.at as usize..][..4];
            let added = i32::from_le_bytes(field.try_into().expect("4 bytes"));
            let distance = i64::from(target) + i64::from(added) - i64::from(fixup.end);
            let distance = i32::try_from(distance).map_err(|_| Error::TooLarge)?;
            field.copy_from_slice(&distance.to_le_bytes());
        }
        write_tables(&mut self.code, &self.pool, &layout, &self.labels)?;
        Ok(Assembled {
            bytes: self.code,
            code_size,
            alignment: layout.alignment.max(CODE_ALIGNMENT),
            symbols: self.pool.slots(&layout),
            labels: self.labels,
        })
    }
}

/// The position of a target.
fn target(target: Target, labels: &[u32], pool: &mut Pool, layout: &Layout) -> Result<u32, Error> {
    Ok(match target {
        Target::Label(label) | Target::Base(Base::Label(label)) => bound(labels, label)?,
        Target::Base(Base::Constant(constant)) => layout.constants[constant.0 as usize],
        Target::Base(Base::Symbol(symbol)) => layout.slot(pool.slot(symbol)),
        Target::Base(Base::None | Base::Gpr(_)) => 0,
    })
}

fn bound(labels: &[u32], label: Label) -> Result<u32, Error> {
    match labels.get(label.0 as usize) {
        None => Err(Error::UnknownLabel(label)),
        Some(&UNBOUND) => Err(Error::Unbound(label)),
        Some(&position) => Ok(position),
    }
}

fn write_tables(
    code: &mut [u8],
    pool: &Pool,
    layout: &Layout,
    labels: &[u32],
) -> Result<(), Error> {
    for (n, (_, targets)) in pool.tables().iter().enumerate() {
        let start = layout.table(n);
        let entries = code[start as usize..].chunks_exact_mut(4);
        for (entry, &to) in entries.zip(targets) {
            let distance = bound(labels, to)?.wrapping_sub(start);
            entry.copy_from_slice(&distance.to_le_bytes());
        }
    }
    Ok(())
}

/// Instructions without effect of 1 to 9 bytes, as the vendors' manuals recommend them.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];
