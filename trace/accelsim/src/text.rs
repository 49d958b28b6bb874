//! Instructions as text before they go to a file, so that several threads can prepare it.

use crate::addresses::Addresses;
use crate::dim::Dim3;
use crate::encode;
use crate::error::Fault;
use crate::header::LineFormat;
use crate::instruction::{Cluster, Core, Instruction};
use crate::number::push_decimal;
use crate::register::{Register, RegisterKind};

/// The lines of one warp for a grouped file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WarpText {
    text: Vec<u8>,
    lines: u64,
}

impl WarpText {
    /// Returns a text without lines.
    pub fn new() -> WarpText {
        WarpText::default()
    }

    /// Appends a line. An asynchronous copy has one line, with its addresses in global memory.
    ///
    /// # Errors
    ///
    /// A fault that stops the simulator, and appends nothing: [`Fault::AddressCount`], [`Fault::NoAddresses`],
    /// [`Fault::StoreDestination`].
    pub fn push(&mut self, instruction: &Instruction, format: LineFormat) -> Result<(), Fault> {
        check(instruction, format)?;
        encode::instruction(&mut self.text, instruction, format);
        self.lines += 1;
        Ok(())
    }

    /// Removes all lines and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines = 0;
    }

    /// Returns the text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> u64 {
        self.lines
    }
}

/// The lines of one CTA for a grouped file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CtaText {
    /// The position of the CTA in the grid.
    pub cta: Dim3,
    /// The place in the cluster, which only version 6 writes.
    pub cluster: Option<Cluster>,
    format: LineFormat,
    warps: Vec<WarpText>,
}

impl CtaText {
    /// Returns the text of a CTA with `warps` warps without lines.
    pub fn new(format: LineFormat, cta: Dim3, warps: u32) -> CtaText {
        CtaText {
            cta,
            cluster: None,
            format,
            warps: vec![WarpText::new(); warps as usize],
        }
    }

    /// Appends a line to a warp.
    ///
    /// # Errors
    ///
    /// Those of [`WarpText::push`]; [`Fault::WarpRange`].
    pub fn push(&mut self, warp: u32, instruction: &Instruction) -> Result<(), Fault> {
        let warps = self.warps.len() as u32;
        let text = self.warps.get_mut(warp as usize);
        let warp = u64::from(warp);
        let text = text.ok_or(Fault::WarpRange { warp, warps })?;
        text.push(instruction, self.format)
    }

    /// Removes all lines, keeps the memory, and continues with another CTA.
    pub fn restart(&mut self, cta: Dim3) {
        self.cta = cta;
        self.warps.iter_mut().for_each(WarpText::clear);
    }

    /// Returns the warps in order.
    pub fn warps(&self) -> &[WarpText] {
        &self.warps
    }

    /// Returns the size of the text in bytes.
    pub fn bytes(&self) -> usize {
        self.warps.iter().map(|warp| warp.text.len()).sum()
    }
}

/// Lines of a raw trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawText {
    format: LineFormat,
    text: Vec<u8>,
    lines: u64,
}

impl RawText {
    /// Returns a text without lines.
    pub fn new(format: LineFormat) -> RawText {
        RawText {
            format,
            text: Vec::new(),
            lines: 0,
        }
    }

    /// Appends a line. All lines of a file have a core, or none has one: the original post-processor needs lines without.
    ///
    /// # Errors
    ///
    /// Those of [`WarpText::push`].
    pub fn push(
        &mut self,
        cta: Dim3,
        warp: u32,
        core: Option<Core>,
        instruction: &Instruction,
    ) -> Result<(), Fault> {
        check(instruction, self.format)?;
        for number in [cta.x, cta.y, cta.z, warp] {
            self.number(number);
        }
        if let Some(core) = core {
            self.number(core.core);
            self.number(core.warp);
        }
        encode::instruction(&mut self.text, instruction, self.format);
        self.lines += 1;
        Ok(())
    }

    /// Appends the two lines of an asynchronous copy: first that with the addresses in shared memory, then that of
    /// `instruction` with the addresses in global memory.
    ///
    /// # Errors
    ///
    /// As [`RawText::push`].
    pub fn push_copy(
        &mut self,
        cta: Dim3,
        warp: u32,
        core: Option<Core>,
        instruction: &Instruction,
        shared: Addresses,
    ) -> Result<(), Fault> {
        let destination = Instruction {
            addresses: Some(shared),
            ..instruction.clone()
        };
        check(instruction, self.format)?;
        self.push(cta, warp, core, &destination)?;
        self.push(cta, warp, core, instruction)
    }

    fn number(&mut self, number: u32) {
        push_decimal(&mut self.text, u64::from(number));
        self.text.push(b' ');
    }

    /// Removes all lines and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines = 0;
    }

    /// Returns the text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> u64 {
        self.lines
    }
}

/// Checks what a reader would refuse.
fn check(instruction: &Instruction, format: LineFormat) -> Result<(), Fault> {
    let opcode = &instruction.opcode;
    let text = || opcode.text().to_owned();
    if instruction.destination.is_some() && opcode.forbids_destination() {
        return Err(Fault::StoreDestination(text()));
    }
    let registers = instruction.destination.iter();
    let mut registers = registers.chain(instruction.sources.iter());
    let is_known =
        |register: &&Register| format.version >= 6 || register.kind() == RegisterKind::General;
    if let Some(register) = registers.find(|register| !is_known(register)) {
        return Err(Fault::Register(format!("{register:?}")));
    }
    let is_memory = opcode.memory().is_some();
    let has_tensor = instruction
        .extra
        .as_ref()
        .is_some_and(|extra| extra.tensor.is_some());
    match &instruction.addresses {
        Some(_) if instruction.width == 0 => Err(Fault::NoAddresses(text())),
        Some(addresses) if !addresses.fits(instruction.mask) => Err(Fault::AddressCount {
            found: addresses.count(instruction.mask),
            needed: instruction.mask.count_ones() as usize,
        }),
        None if is_memory || (instruction.width != 0 && !has_tensor) => {
            Err(Fault::NoAddresses(text()))
        }
        _ => Ok(()),
    }
}
