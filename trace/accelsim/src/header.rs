//! The header of a kernel file.

use std::io::{self, Write};

use crate::addresses::Addresses;
use crate::dim::Dim3;
use crate::error::Fault;
use crate::number;
use crate::opcode::Space;

/// The facts of a kernel launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The mangled name.
    pub kernel_name: String,
    /// The number of the launch, from 1.
    pub kernel_id: u64,
    /// The number of CTAs in each dimension.
    pub grid: Dim3,
    /// The number of threads in each dimension, at most 1024 together.
    pub block: Dim3,
    /// Static and dynamic shared memory in bytes.
    pub shared_bytes: u64,
    /// The number of registers of a thread.
    pub registers: u32,
    /// The machine code, which decides the opcode map ([`OpcodeMap::of`](crate::OpcodeMap::of)).
    pub binary_version: u32,
    /// The stream. 0 is the default stream; launches with equal values are in the same stream.
    pub stream: u64,
    /// The first generic address of shared memory. 0 if unknown.
    pub shared_base: u64,
    /// The first generic address of local memory. 0 if unknown.
    pub local_base: u64,
    /// The name and version of the program that observed the kernel.
    pub nvbit_version: String,
    /// The version of the line syntax, 1 to 6. 0 if the header has none, which has the syntax of 1.
    pub tracer_version: u32,
    /// Whether lines begin with the number of the source line.
    pub line_numbers: bool,
}

/// The syntax of the lines of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineFormat {
    /// [`Header::tracer_version`].
    pub version: u32,
    /// [`Header::line_numbers`].
    pub line_numbers: bool,
}

/// The default version of written traces.
pub const DEFAULT_VERSION: u32 = 5;

/// The limit of CUDA on the threads of a block.
const MAX_THREADS: u64 = 1024;

/// The size of the window of local memory in the simulator.
const LOCAL_WINDOW: u64 = 1 << 14;

impl Header {
    /// Returns the header of a launch of version 5 for binary version 80. The remaining facts are 0.
    pub fn new(kernel_name: &str, kernel_id: u64, grid: Dim3, block: Dim3) -> Header {
        Header {
            kernel_name: kernel_name.to_owned(),
            kernel_id,
            grid,
            block,
            shared_bytes: 0,
            registers: 0,
            binary_version: 80,
            stream: 0,
            shared_base: 0,
            local_base: 0,
            nvbit_version: String::new(),
            tracer_version: DEFAULT_VERSION,
            line_numbers: false,
        }
    }

    /// Returns the syntax of the lines.
    pub fn format(&self) -> LineFormat {
        LineFormat {
            version: self.tracer_version,
            line_numbers: self.line_numbers,
        }
    }

    /// Returns the number of CTAs of the grid. 0 if it exceeds 64 bits.
    pub fn ctas(&self) -> u64 {
        self.grid.volume().unwrap_or(0)
    }

    /// Returns the number of threads of a CTA. 0 if there are more than CUDA allows.
    pub fn threads(&self) -> u32 {
        let volume = self
            .block
            .volume()
            .filter(|threads| *threads <= MAX_THREADS);
        volume.map_or(0, |threads| threads as u32)
    }

    /// Returns the number of warps of a CTA.
    pub fn warps(&self) -> u32 {
        self.threads().div_ceil(32)
    }

    /// Returns the lanes of a warp that exist. The last warp of a CTA may have fewer than 32.
    pub fn lanes(&self, warp: u32) -> u32 {
        match self.threads().saturating_sub(warp.saturating_mul(32)) {
            0 => 0,
            lanes @ 1..32 => (1 << lanes) - 1,
            _ => u32::MAX,
        }
    }

    /// Returns the memory that an access to `space` reaches. For generic accesses the address of the first lane decides, as
    /// in the simulator: with a base of 0, all of them are shared; otherwise shared memory lies from its base to that of
    /// local memory, which has 16 KiB.
    pub fn resolve(&self, space: Space, addresses: &Addresses, mask: u32) -> Space {
        if space != Space::Generic {
            return space;
        }
        if self.shared_base == 0 || self.local_base == 0 {
            return Space::Shared;
        }
        let address = addresses.first(mask).unwrap_or(0);
        let local_end = self.local_base.saturating_add(LOCAL_WINDOW);
        if (self.shared_base..self.local_base).contains(&address) {
            Space::Shared
        } else if (self.local_base..local_end).contains(&address) {
            Space::Local
        } else {
            Space::Global
        }
    }

    /// Writes the header with the two empty lines around its last line.
    ///
    /// # Errors
    ///
    /// Those of `out`; [`io::ErrorKind::InvalidInput`] if the versions have no syntax to write or a text has a newline.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.check_writable()?;
        writeln!(out, "-kernel name = {}", self.kernel_name)?;
        writeln!(out, "-kernel id = {}", self.kernel_id)?;
        writeln!(out, "-grid dim = ({})", self.grid)?;
        writeln!(out, "-block dim = ({})", self.block)?;
        writeln!(out, "-shmem = {}", self.shared_bytes)?;
        writeln!(out, "-nregs = {}", self.registers)?;
        writeln!(out, "-binary version = {}", self.binary_version)?;
        writeln!(out, "-cuda stream id = {}", self.stream)?;
        writeln!(out, "-shmem base_addr = 0x{:016x}", self.shared_base)?;
        writeln!(out, "-local mem base_addr = 0x{:016x}", self.local_base)?;
        writeln!(out, "-nvbit version = {}", self.nvbit_version)?;
        writeln!(out, "-accelsim tracer version = {}", self.tracer_version)?;
        writeln!(out, "-enable lineinfo = {}", u32::from(self.line_numbers))?;
        writeln!(out, "\n{LAST_LINE}\n")
    }

    fn check_writable(&self) -> io::Result<()> {
        let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if !(3..=6).contains(&self.tracer_version) {
            return invalid(format!(
                "tracer version {} is not written",
                self.tracer_version
            ));
        }
        let texts = [&self.kernel_name, &self.nvbit_version];
        if texts.iter().any(|text| text.contains(['\n', '\0'])) {
            return invalid("a text of the header has a newline or NUL".to_owned());
        }
        self.check().or_else(|fault| invalid(fault.to_string()))
    }

    /// Checks what the body is read with.
    fn check(&self) -> Result<(), Fault> {
        let dimensions = |what, dim| Fault::Dimensions { what, dim };
        if self.ctas() == 0 {
            return Err(dimensions("grid", self.grid));
        }
        if self.threads() == 0 {
            return Err(dimensions("block", self.block));
        }
        match self.tracer_version {
            0..=6 => Ok(()),
            version => Err(Fault::TracerVersion(version)),
        }
    }
}

/// The line that ends the header.
const LAST_LINE: &str = "#traces format = [line_num] PC mask dest_num [reg_dests] opcode src_num [reg_srcs] \
                         mem_width [adrrescompress?] [mem_addresses] immediate";

/// A header whose lines arrive one by one.
#[derive(Debug)]
pub(crate) struct HeaderParser {
    header: Header,
    has_grid: bool,
    has_block: bool,
}

impl HeaderParser {
    pub(crate) fn new() -> HeaderParser {
        let zero = Dim3::new(0, 0, 0);
        HeaderParser {
            header: Header {
                binary_version: 0,
                tracer_version: 0,
                ..Header::new("", 0, zero, zero)
            },
            has_grid: false,
            has_block: false,
        }
    }

    /// Reads a line. Returns whether it ends the header.
    pub(crate) fn line(&mut self, line: &str) -> Result<bool, Fault> {
        if line.starts_with('#') {
            return Ok(true);
        }
        let Some(text) = line.strip_prefix('-') else {
            return Ok(false);
        };
        let mut words = text.split_ascii_whitespace();
        let key = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let value = text.split_once('=').map_or("", |(_, value)| value);
        self.set(key, value.strip_prefix(' ').unwrap_or(value))?;
        Ok(false)
    }

    fn set(&mut self, key: (&str, &str), value: &str) -> Result<(), Fault> {
        let header = &mut self.header;
        match key {
            ("kernel", "name") => header.kernel_name = value.to_owned(),
            ("kernel", "id") => header.kernel_id = decimal("kernel id", value)?,
            ("grid", "dim") => {
                header.grid = dim("grid dim", value)?;
                self.has_grid = true;
            }
            ("block", "dim") => {
                header.block = dim("block dim", value)?;
                self.has_block = true;
            }
            ("shmem", "=") => header.shared_bytes = decimal("shmem", value)?,
            ("nregs", "=") => header.registers = decimal32("nregs", value)?,
            ("binary", "version") => header.binary_version = decimal32("binary version", value)?,
            ("cuda", "stream") => header.stream = decimal("cuda stream id", value)?,
            ("shmem", "base_addr") => header.shared_base = hex("shmem base_addr", value)?,
            ("local", "mem") => header.local_base = hex("local mem base_addr", value)?,
            ("nvbit", "version") => header.nvbit_version = value.to_owned(),
            ("accelsim", "tracer") => header.tracer_version = decimal32("tracer version", value)?,
            ("enable", "lineinfo") => header.line_numbers = decimal("lineinfo", value)? != 0,
            _ => {}
        }
        Ok(())
    }

    /// Returns the header after its last line.
    pub(crate) fn finish(self) -> Result<Header, Fault> {
        if !self.has_grid {
            return Err(Fault::NoHeader("grid dim"));
        }
        if !self.has_block {
            return Err(Fault::NoHeader("block dim"));
        }
        self.header.check()?;
        Ok(self.header)
    }
}

/// Parses the digits at the start of a value. What follows them is free.
fn decimal(what: &'static str, value: &str) -> Result<u64, Fault> {
    let text = value.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit());
    let digits = &text[..end.unwrap_or(text.len())];
    number::decimal(digits.as_bytes()).ok_or_else(|| Fault::decimal(what, value.as_bytes()))
}

fn decimal32(what: &'static str, value: &str) -> Result<u32, Fault> {
    let number = decimal(what, value)?;
    u32::try_from(number).map_err(|_| Fault::decimal(what, value.as_bytes()))
}

fn hex(what: &'static str, value: &str) -> Result<u64, Fault> {
    let text = value.trim_start();
    let text = text.strip_prefix("0x").unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_hexdigit());
    let digits = &text[..end.unwrap_or(text.len())];
    number::hex(digits.as_bytes()).ok_or_else(|| Fault::hex(what, value.as_bytes()))
}

/// Parses `(x,y,z)`.
fn dim(what: &'static str, value: &str) -> Result<Dim3, Fault> {
    let inner = value.trim_start().strip_prefix('(');
    let inner = inner.and_then(|text| text.split_once(')'));
    let dim = inner.and_then(|(text, _)| parse_dim(text.as_bytes()));
    dim.ok_or_else(|| Fault::decimal(what, value.as_bytes()))
}

/// Parses `x,y,z`.
pub(crate) fn parse_dim(text: &[u8]) -> Option<Dim3> {
    let mut parts = text.split(|byte| *byte == b',');
    let mut part = || number::decimal32(parts.next()?.trim_ascii());
    let dim = Dim3::new(part()?, part()?, part()?);
    parts.next().is_none().then_some(dim)
}
