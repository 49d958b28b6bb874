//! The trace of one launch: receives events and writes the files of the launch.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use margay::observe::{Event, Events};
use margay_accelsim::{
    Addresses, Core, CtaText, Dim3, GroupedWriter, Header, Instruction, Output, PackedWriter,
    RawText, RawWriter,
};

use super::listing::Listing;
use super::options::Options;
use super::spill::{MOST_BYTES, Spill};
use super::warps::{Executed, Warp};

/// The trace of a launch that runs.
pub(super) struct Kernel {
    listing: Arc<Listing>,
    options: Arc<Options>,
    header: Header,
    files: Vec<File>,
    /// The CTA whose events arrive.
    cta: Dim3,
    warps: Vec<Warp>,
    text: CtaText,
    spill: Spill,
    raw: Option<RawText>,
    counts: Counts,
    failure: Option<String>,
}

/// Numbers of warp instructions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Counts {
    pub(super) all: u64,
    pub(super) written: u64,
}

/// A file of the launch.
enum File {
    Raw(RawWriter<Output>),
    Grouped(GroupedWriter<Output>),
    Packed(Box<PackedWriter<Output>>),
}

/// Number of lines after which the size of a CTA's text is examined.
const TEXT_LINES: u64 = 4096;
/// Bytes of raw text after which the text is written.
const RAW_BYTES: usize = 1 << 20;

/// Returns the names of the files of launch `number`: the raw one and the grouped or packed one.
pub(super) fn names(options: &Options, number: u64) -> Names {
    let xz = if options.xz { ".xz" } else { "" };
    Names {
        raw: options
            .forms
            .raw
            .then(|| format!("kernel-{number}.trace{xz}")),
        grouped: options
            .forms
            .grouped
            .then(|| format!("kernel-{number}.traceg{xz}")),
        packed: options
            .forms
            .packed
            .then(|| format!("kernel-{number}.tracez")),
    }
}

/// The names of the files of a launch.
pub(super) struct Names {
    pub(super) raw: Option<String>,
    pub(super) grouped: Option<String>,
    pub(super) packed: Option<String>,
}

impl Kernel {
    /// Creates the files of launch `number` in `folder`.
    ///
    /// # Errors
    /// Those of the files, with their names.
    pub(super) fn create(
        folder: &Path,
        options: &Arc<Options>,
        listing: &Arc<Listing>,
        header: Header,
    ) -> Result<Kernel, String> {
        let names = names(options, header.kernel_id);
        let mut files = Vec::new();
        let mut open = |name: &Option<String>, make: fn(Output, &Header) -> io::Result<File>| {
            let Some(name) = name else {
                return Ok(());
            };
            let path: PathBuf = folder.join(name);
            let file = Output::create(&path).and_then(|output| make(output, &header));
            files.push(file.map_err(|error| format!("{}: {error}", path.display()))?);
            Ok::<(), String>(())
        };
        open(&names.raw, |output, header| {
            RawWriter::new(output, header).map(File::Raw)
        })?;
        open(&names.grouped, |output, header| {
            GroupedWriter::new(output, header).map(File::Grouped)
        })?;
        open(&names.packed, |output, header| {
            let writer = PackedWriter::new(output, header)?;
            Ok(File::Packed(Box::new(writer)))
        })?;
        let format = header.format();
        let warps = header.warps();
        Ok(Kernel {
            listing: Arc::clone(listing),
            options: Arc::clone(options),
            files,
            cta: Dim3::new(0, 0, 0),
            warps: (0..warps).map(|_| Warp::default()).collect(),
            text: CtaText::new(format, Dim3::new(0, 0, 0), warps),
            spill: Spill::default(),
            raw: options.forms.raw.then(|| RawText::new(format)),
            counts: Counts::default(),
            failure: None,
            header,
        })
    }

    /// Adds events of a CTA. The events of CTAs arrive in grid order.
    pub(super) fn add(&mut self, events: Events<'_>) {
        for event in events {
            match event {
                Event::CtaBegin(cta) => {
                    let [x, y, z] = cta.index;
                    self.cta = Dim3::new(x, y, z);
                    self.text.restart(self.cta);
                    self.warps
                        .iter_mut()
                        .for_each(|warp| *warp = Warp::default());
                }
                Event::Instruction(instruction) => {
                    self.in_warp(instruction.warp, |warp, listing, write| {
                        warp.begin(listing, &instruction, write);
                    })
                }
                Event::Access(access) => {
                    if let Some(warp) = self.warps.get_mut(access.warp as usize) {
                        warp.access(&access);
                    }
                }
                Event::CtaEnd { .. } => self.end_cta(),
                _ => {}
            }
        }
    }

    fn end_cta(&mut self) {
        for warp in 0..self.warps.len() as u32 {
            let lanes = self.header.lanes(warp);
            self.in_warp(warp, |state, listing, write| {
                state.end(listing, lanes, write)
            });
        }
        self.flush_raw();
        for file in &mut self.files {
            let written = match file {
                File::Raw(_) => Ok(()),
                File::Grouped(writer) => self.spill.write_cta(&self.text, writer),
                File::Packed(writer) => writer.write_cta(&self.text),
            };
            if let Err(error) = written {
                self.failure.get_or_insert(error.to_string());
            }
        }
    }

    /// Calls `step` with a warp and a function that writes its lines.
    fn in_warp(
        &mut self,
        number: u32,
        step: impl FnOnce(&mut Warp, &Listing, &mut dyn FnMut(Executed<'_>)),
    ) {
        let listing = Arc::clone(&self.listing);
        let Some(slot) = self.warps.get_mut(number as usize) else {
            return;
        };
        let mut warp = std::mem::take(slot);
        step(&mut warp, &listing, &mut |executed| {
            self.write(number, &listing, executed)
        });
        self.warps[number as usize] = warp;
    }

    fn write(&mut self, warp: u32, listing: &Listing, executed: Executed<'_>) {
        self.counts.all += 1;
        let template = &executed.line.template;
        if self.failure.is_some() || !self.options.instructions.contains(&(template.pc / 16)) {
            return;
        }
        self.counts.written += 1;
        let mut instruction = Instruction {
            mask: executed.mask,
            line: template.line.filter(|_| self.header.line_numbers),
            ..template.clone()
        };
        if executed.is_move {
            instruction.opcode = listing.register_move.clone();
            instruction.width = 0;
        }
        let encode = |addresses: &[u64]| match self.options.compress_addresses {
            true => Addresses::compress(executed.mask, addresses),
            false => Addresses::list(addresses),
        };
        instruction.addresses = executed.addresses.map(encode);
        let mut result = Ok(());
        if let Some(raw) = &mut self.raw {
            let core = self.options.core_columns.then_some(Core { core: 0, warp });
            result = match executed.copied_to.filter(|all| !all.is_empty()) {
                Some(shared) => raw.push_copy(self.cta, warp, core, &instruction, encode(shared)),
                None => raw.push(self.cta, warp, core, &instruction),
            };
        }
        if self.options.forms.grouped || self.options.forms.packed {
            result = result.and_then(|()| self.text.push(warp, &instruction));
        }
        if let Err(fault) = result {
            self.failure.get_or_insert(fault.to_string());
        }
        if self.counts.written.is_multiple_of(TEXT_LINES) {
            self.bound_text();
        }
        if self
            .raw
            .as_ref()
            .is_some_and(|raw| raw.text().len() > RAW_BYTES)
        {
            self.flush_raw();
        }
    }

    /// If the text of the CTA needs too much memory, moves it to temporary files. The container of compressed warps needs
    /// all text of a CTA in memory.
    fn bound_text(&mut self) {
        if self.text.bytes() > MOST_BYTES
            && !self.options.forms.packed
            && let Err(error) = self.spill.take(&mut self.text)
        {
            self.failure.get_or_insert(error.to_string());
        }
    }

    fn flush_raw(&mut self) {
        let Some(raw) = &mut self.raw else {
            return;
        };
        for file in &mut self.files {
            if let File::Raw(writer) = file
                && let Err(error) = writer.write(raw)
            {
                self.failure.get_or_insert(error.to_string());
            }
        }
        raw.clear();
    }

    /// Completes the files. Returns the numbers of instructions.
    ///
    /// # Errors
    /// The first error since the creation, as a message.
    pub(super) fn finish(self) -> Result<Counts, String> {
        let mut failure = self.failure;
        for file in self.files {
            let output = match file {
                File::Raw(writer) => writer.finish(),
                File::Grouped(writer) => writer.finish(),
                File::Packed(writer) => writer.finish(),
            };
            if let Err(error) = output.and_then(Output::finish) {
                failure.get_or_insert(error.to_string());
            }
        }
        failure.map_or(Ok(self.counts), Err)
    }
}
