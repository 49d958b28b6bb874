//! The statistics of launches: `stats.csv`.

use std::io::{self, Write};
use std::path::Path;

use crate::dim::Dim3;
use crate::error::{Fault, ReadError, excerpt};
use crate::form::{self, Compression};
use crate::number;
use crate::options::ReadOptions;

/// A line of `stats.csv`: a launch, traced or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The name of the trace file.
    pub file: String,
    /// The mangled name of the kernel.
    pub kernel_name: String,
    /// The number of CTAs in each dimension.
    pub grid: Dim3,
    /// The number of threads in each dimension.
    pub block: Dim3,
    /// The number of warp instructions.
    pub total: u64,
    /// The number of warp instructions that were written.
    pub reported: u64,
}

/// The first line of `stats.csv`.
const COLUMNS: &str = "kernel id, kernel mangled name, grid_dimX, grid_dimY, grid_dimZ, #blocks, block_dimX, \
                       block_dimY, block_dimZ, #threads, total_insts, total_reported_insts";

impl Launch {
    /// Writes the first line of the file.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_columns(out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{COLUMNS}")
    }

    /// Writes the part of the line that is known before the kernel ends.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_begin(&self, out: &mut impl Write) -> io::Result<()> {
        let extent = |dim: Dim3| {
            let volume = dim.volume().unwrap_or(u64::MAX);
            format!("{}, {}, {}, {volume}", dim.x, dim.y, dim.z)
        };
        let (grid, block) = (extent(self.grid), extent(self.block));
        write!(
            out,
            "{}, {}, {grid}, {block}, ",
            self.file, self.kernel_name
        )
    }

    /// Writes the rest of the line.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_end(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{},{}", self.total, self.reported)
    }

    /// Parses a line. A name may contain commas.
    ///
    /// # Errors
    ///
    /// [`Fault::Launch`].
    pub fn parse(line: &str) -> Result<Launch, Fault> {
        parse(line).ok_or_else(|| Fault::Launch(excerpt(line.as_bytes())))
    }

    /// Reads a `stats.csv` file. The last line is left out if its kernel has not ended.
    ///
    /// # Errors
    ///
    /// [`Fault::Launch`], and those of reading lines.
    pub fn read(path: &Path) -> Result<Vec<Launch>, ReadError> {
        let mut lines = form::open_text(path, Compression::None, &ReadOptions::default())?;
        let mut launches = Vec::new();
        loop {
            let exists = lines.advance();
            let error = |fault| ReadError::new(path, lines.number(), fault);
            if !exists.map_err(error)? {
                return Ok(launches);
            }
            let line = std::str::from_utf8(lines.current()).map_err(|_| error(Fault::Utf8))?;
            let is_unfinished = line.ends_with(", ");
            if lines.number() > 1 && !line.is_empty() && !is_unfinished {
                launches.push(Launch::parse(line).map_err(error)?);
            }
        }
    }
}

fn parse(line: &str) -> Option<Launch> {
    let mut parts = line.rsplit(',');
    let mut last = || number::decimal(parts.next()?.trim().as_bytes());
    let (reported, total) = (last()?, last()?);
    let mut extent = || {
        let _volume = last()?;
        let mut dim = || u32::try_from(last()?).ok();
        let (z, y, x) = (dim()?, dim()?, dim()?);
        Some(Dim3::new(x, y, z))
    };
    let (block, grid) = (extent()?, extent()?);
    // What is left is the file and the name.
    let numbers = line.rmatch_indices(',').nth(9)?.0;
    let (file, kernel_name) = line[..numbers].split_once(", ")?;
    Some(Launch {
        file: file.to_owned(),
        kernel_name: kernel_name.to_owned(),
        grid,
        block,
        total,
        reported,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_form_of_the_tracer() {
        let line = "kernel-1.trace, _Z6vecaddPfS_S_, 2, 1, 1, 2, 64, 1, 1, 64, 32,32";
        let launch = Launch {
            file: "kernel-1.trace".to_owned(),
            kernel_name: "_Z6vecaddPfS_S_".to_owned(),
            grid: Dim3::new(2, 1, 1),
            block: Dim3::new(64, 1, 1),
            total: 32,
            reported: 32,
        };
        let mut out = Vec::new();
        launch.write_begin(&mut out).unwrap();
        launch.write_end(&mut out).unwrap();
        assert_eq!(out, format!("{line}\n").into_bytes());
        assert_eq!(Launch::parse(line), Ok(launch));
    }

    #[test]
    fn the_columns_are_those_of_the_tracer() {
        let mut out = Vec::new();
        Launch::write_columns(&mut out).unwrap();
        let text = "kernel id, kernel mangled name, grid_dimX, grid_dimY, grid_dimZ, #blocks, block_dimX, block_dimY, block_dimZ, #threads, total_insts, total_reported_insts\n";
        assert_eq!(out, text.as_bytes());
    }

    #[test]
    fn malformed_lines_are_faults() {
        let name = Launch::parse("k.trace, f<1, 2>(int, int), 2, 1, 1, 2, 64, 1, 1, 64, 3,4");
        assert_eq!(name.unwrap().kernel_name, "f<1, 2>(int, int)");
        for line in [
            "",
            "a, b, 1",
            "k, n, 2, 1, 1, 2, 64, 1, x, 64, 3,4",
            ",,,,,,,,,,,",
        ] {
            assert_eq!(Launch::parse(line), Err(Fault::Launch(line.to_owned())));
        }
    }
}
