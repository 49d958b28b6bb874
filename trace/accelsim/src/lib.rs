//! Reads and writes the traces of the Accel-Sim simulator.
//!
//! A trace holds a line for each instruction that a warp executed: pc, mask, opcode, registers, and the addresses of the
//! lanes. A run is a folder with a list of copies and kernels ([`CommandList`]), statistics ([`Launch`]), and a file for each
//! kernel, in one of three forms ([`Form`]):
//!
//! | Form | Order of lines | Written by | Read by |
//! |---|---|---|---|
//! | raw | as they arrive | [`RawWriter`] | [`RawReader`] |
//! | grouped | by CTA and warp | [`GroupedWriter`], [`group()`] | [`GroupedReader`] |
//! | packed | by CTA and warp, compressed | [`PackedWriter`] | [`GroupedReader`] |
//!
//! Raw and grouped files may be compressed with xz ([`Output`]). Versions 1 to 6 are read, 3 to 6 are written. Writers prepare
//! text apart from the file ([`CtaText`], [`RawText`]), so that several threads can do so.
//!
//! Readers check all that would stop the simulator ([`Fault`]), and need memory for a line or a CTA only. Files are not
//! trusted: sizes are checked before they are used, and no file makes a reader panic.
//!
//! [`count()`], [`compare()`] and [`show()`] are tools for files of all forms.
//!
//! ```
//! use margay_accelsim::{
//!     Addresses, CtaText, Dim3, GroupedReader, GroupedWriter, Header, Instruction, Opcode, Output, ReadOptions, Register,
//! };
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("kernel-1.traceg.xz");
//! let header = Header::new("_Z5clearPf", 1, Dim3::new(1, 1, 1), Dim3::new(32, 1, 1));
//! let opcode = |text| Opcode::new(text).ok_or("not an opcode");
//!
//! let mut load = Instruction::new(0x00, 0xffff_ffff, opcode("LDG.E.64")?);
//! load.destination = Some(Register::general(4));
//! load.width = load.opcode.width();
//! let lanes: Vec<u64> = (0..32).map(|lane| 0x7f00_0000_0000 + 8 * lane).collect();
//! load.addresses = Some(Addresses::compress(load.mask, &lanes));
//!
//! let mut text = CtaText::new(header.format(), Dim3::new(0, 0, 0), header.warps());
//! text.push(0, &load)?;
//! text.push(0, &Instruction::new(0x10, 0xffff_ffff, opcode("EXIT")?))?;
//! assert_eq!(
//!     text.warps()[0].text(),
//!     b"0000 ffffffff 1 R4 LDG.E.64 0 8 1 0x7f0000000000 8 0 \n0010 ffffffff 0 EXIT 0 0 0 \n"
//! );
//!
//! let mut writer = GroupedWriter::new(Output::create(&path)?, &header)?;
//! writer.write_cta(&text)?;
//! writer.finish()?.finish()?;
//!
//! let mut reader = GroupedReader::open(&path, &ReadOptions::default())?;
//! let cta = reader.next_cta()?.ok_or("no CTA")?;
//! assert_eq!(cta.warps[0].instructions[0], load);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod addresses;
mod check;
mod compare;
mod count;
mod decode;
mod dim;
mod encode;
mod error;
mod events;
mod form;
mod group;
mod grouped;
mod header;
mod instruction;
mod launches;
mod lines;
mod list;
mod number;
mod opcode;
mod options;
mod output;
mod raw;
mod register;
mod sectors;
mod set;
mod show;
mod text;
mod writer;

pub use addresses::{Addresses, Lanes};
pub use compare::{Comparison, Difference, Place, compare};
pub use count::{AccessCounts, Counts, OpcodeCounts, count};
pub use dim::Dim3;
pub use error::{Error, Fault, ReadError};
pub use form::{Compression, Form};
pub use group::{GroupOptions, GroupReport, group, group_list};
pub use grouped::{GroupedReader, Item};
pub use header::{DEFAULT_VERSION, Header, LineFormat};
pub use instruction::{
    Cluster, Core, CtaTrace, Extra, Instruction, RegisterValue, TensorAccess, TensorAddresses,
    WarpTrace,
};
pub use launches::Launch;
pub use list::{Command, CommandList};
pub use opcode::{Class, MemoryKind, Opcode, OpcodeMap, Opcodes, Space};
pub use options::{MAX_LINE, RawColumns, ReadOptions};
pub use output::Output;
pub use raw::{RawLine, RawReader};
pub use register::{MAX_SOURCES, Register, RegisterKind, Sources};
pub use sectors::{SECTOR, local_sectors, sectors};
pub use set::kernel_files;
pub use show::{AddressStyle, Filter, show};
pub use text::{CtaText, RawText, WarpText};
pub use writer::{GroupedWriter, PackedWriter, RawWriter};
