//! Reading of kernel files whose lines are sorted by CTA and warp.

mod packed;
mod text;

use std::path::{Path, PathBuf};

use crate::dim::Dim3;
use crate::error::{Fault, ReadError};
use crate::form::{self, Form};
use crate::header::Header;
use crate::instruction::{Cluster, CtaTrace, Instruction, WarpTrace};
use crate::opcode::Opcodes;
use crate::options::ReadOptions;

pub(crate) use text::prefix;

use packed::PackedBody;
use text::TextBody;

/// A part of a grouped file, in the order of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// A CTA begins.
    Cta {
        /// Its position in the grid.
        cta: Dim3,
        /// Its place in the cluster, if the file has it.
        cluster: Option<Cluster>,
    },
    /// A warp of the CTA begins.
    Warp {
        /// Its number.
        warp: u32,
        /// The number of its instructions.
        instructions: u64,
    },
    /// The warp executes an instruction.
    Instruction(Instruction),
    /// The CTA ends.
    EndCta,
}

/// Reads a `.traceg`, `.traceg.xz` or `.tracez` file from start to end.
///
/// [`GroupedReader::next_item`] needs memory for one line, [`GroupedReader::next_cta`] for one CTA. All rules of the simulator are
/// checked, so that a file that is read without error does not stop it.
#[derive(Debug)]
pub struct GroupedReader {
    context: Context,
    body: Body,
    has_failed: bool,
}

/// What all bodies need.
#[derive(Debug)]
struct Context {
    path: PathBuf,
    header: Header,
    options: ReadOptions,
    opcodes: Opcodes,
    /// The number of CTAs that ended.
    ctas: u64,
}

impl Context {
    /// Checks that one more CTA may end.
    fn end_cta(&mut self) -> Result<(), Fault> {
        self.ctas += 1;
        match self.ctas <= self.header.ctas() {
            true => Ok(()),
            false => Err(self.count()),
        }
    }

    /// Checks that all CTAs ended.
    fn end(&self) -> Result<(), Fault> {
        match self.ctas == self.header.ctas() {
            true => Ok(()),
            false => Err(self.count()),
        }
    }

    fn count(&self) -> Fault {
        Fault::CtaCount {
            grid: self.header.ctas(),
            file: self.ctas,
        }
    }
}

#[derive(Debug)]
enum Body {
    Text(TextBody),
    Packed(Box<PackedBody>),
}

impl GroupedReader {
    /// Opens a file and reads its header. The suffix decides the form.
    ///
    /// # Errors
    ///
    /// All faults of [`Fault`] that concern the file, the header and opcode maps; [`Fault::Suffix`] for raw traces.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<GroupedReader, ReadError> {
        let (header, body) = match Form::of(path) {
            Some((Form::Grouped, compression)) => {
                let mut lines = form::open_text(path, compression, options)?;
                let header = form::read_header(&mut lines);
                let (header, _) =
                    header.map_err(|fault| ReadError::new(path, lines.number(), fault))?;
                (header, Body::Text(TextBody::new(lines)))
            }
            Some((Form::Packed, _)) => {
                let (header, body) = PackedBody::open(path, options)?;
                (header, Body::Packed(Box::new(body)))
            }
            Some((Form::Raw, _)) | None => return Err(ReadError::new(path, 0, Fault::Suffix)),
        };
        let opcodes = opcodes(path, &header, options)?;
        Ok(GroupedReader {
            context: Context {
                path: path.to_owned(),
                header,
                options: options.clone(),
                opcodes,
                ctas: 0,
            },
            body,
            has_failed: false,
        })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.context.header
    }

    /// Returns the path that the file was opened with.
    pub fn path(&self) -> &Path {
        &self.context.path
    }

    /// Returns the line of the decompressed text that was read last.
    pub fn line(&self) -> u64 {
        match &self.body {
            Body::Text(body) => body.line(),
            Body::Packed(body) => body.line(),
        }
    }

    /// Returns the next part of the file, or none at its end and after an error.
    ///
    /// # Errors
    ///
    /// All faults of [`Fault`] that concern the body.
    pub fn next_item(&mut self) -> Result<Option<Item>, ReadError> {
        if self.has_failed {
            return Ok(None);
        }
        let item = match &mut self.body {
            Body::Text(body) => body.next_item(&mut self.context),
            Body::Packed(body) => body.next_item(&mut self.context),
        };
        item.map_err(|fault| {
            self.has_failed = true;
            self.error(fault)
        })
    }

    /// Returns the next CTA, or none at the end of the file and after an error. If [`GroupedReader::next_item`] began a CTA,
    /// returns what follows it.
    ///
    /// # Errors
    ///
    /// As [`GroupedReader::next_item`], and [`Fault::CtaTooLarge`].
    pub fn next_cta(&mut self) -> Result<Option<CtaTrace>, ReadError> {
        let mut warps: Vec<WarpTrace> = Vec::new();
        let mut begun = None;
        let mut lines = 0;
        while let Some(item) = self.next_item()? {
            match item {
                Item::Cta { cta, cluster } => begun = Some((cta, cluster)),
                Item::Warp { warp, instructions } => warps.push(WarpTrace {
                    warp,
                    instructions: Vec::with_capacity(instructions.min(RESERVED) as usize),
                }),
                Item::Instruction(instruction) => {
                    lines += 1;
                    self.check_size(begun, lines)?;
                    if let Some(warp) = warps.last_mut() {
                        warp.instructions.push(instruction);
                    }
                }
                Item::EndCta => {
                    if let Some((cta, cluster)) = begun {
                        return Ok(Some(CtaTrace {
                            cta,
                            cluster,
                            warps,
                        }));
                    }
                }
            }
        }
        Ok(None)
    }

    fn check_size(
        &mut self,
        begun: Option<(Dim3, Option<Cluster>)>,
        lines: u64,
    ) -> Result<(), ReadError> {
        let limit = self.context.options.max_cta_lines;
        match begun {
            Some((cta, _)) if lines > limit => {
                self.has_failed = true;
                Err(self.error(Fault::CtaTooLarge { cta, limit }))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, fault: Fault) -> ReadError {
        ReadError::new(&self.context.path, self.line(), fault)
    }
}

/// The maximum number of instructions that memory is reserved for before they are read: the file may lie.
const RESERVED: u64 = 4096;

/// Returns the opcodes of a file.
pub(crate) fn opcodes(
    path: &Path,
    header: &Header,
    options: &ReadOptions,
) -> Result<Opcodes, ReadError> {
    if options.unknown_opcodes {
        return Ok(Opcodes::new());
    }
    Opcodes::of(header.binary_version).map_err(|fault| ReadError::new(path, 0, fault))
}
