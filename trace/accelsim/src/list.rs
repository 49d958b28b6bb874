//! The list of commands of a run: `kernelslist` and `kernelslist.g`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Fault, ReadError, excerpt};
use crate::form::{self, Compression, Form};
use crate::number;
use crate::options::ReadOptions;

/// A line of a list, in program order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// A copy to device memory.
    MemcpyHtoD {
        /// The address in device memory.
        address: u64,
        /// The number of bytes.
        bytes: u64,
    },
    /// The launch of a kernel: the name of its file, relative to the folder of the list.
    Kernel(String),
    /// A line that the simulator ignores.
    Other(String),
}

impl Command {
    /// Parses a line. Returns none for an empty one.
    ///
    /// # Errors
    ///
    /// [`Fault::Memcpy`] if a copy does not have exactly an address and a size, [`Fault::Hex`], [`Fault::Decimal`];
    /// [`Fault::Suffix`] if a kernel file has no known suffix.
    pub fn parse(line: &str) -> Result<Option<Command>, Fault> {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            return Ok(None);
        }
        if line.starts_with("MemcpyHtoD") {
            return memcpy(line).map(Some);
        }
        if !line.starts_with("kernel") {
            return Ok(Some(Command::Other(line.to_owned())));
        }
        match Form::of(Path::new(line)) {
            Some(_) => Ok(Some(Command::Kernel(line.to_owned()))),
            None => Err(Fault::Suffix),
        }
    }

    /// Writes the line.
    ///
    /// # Errors
    ///
    /// Those of `out`; [`io::ErrorKind::InvalidInput`] if a text has a newline or a name does not begin with `kernel`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Command::MemcpyHtoD { address, bytes } => {
                writeln!(out, "MemcpyHtoD,0x{address:016x},{bytes}")
            }
            Command::Kernel(name) if !name.starts_with("kernel") => Err(invalid(name)),
            Command::Kernel(text) | Command::Other(text) => match text.contains('\n') {
                true => Err(invalid(text)),
                false => writeln!(out, "{text}"),
            },
        }
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{text:?} cannot be a line of a list"),
    )
}

fn memcpy(line: &str) -> Result<Command, Fault> {
    let malformed = || Fault::Memcpy(excerpt(line.as_bytes()));
    let mut parts = line.split(',');
    let (name, address, bytes) = (parts.next(), parts.next(), parts.next());
    let (Some("MemcpyHtoD"), Some(address), Some(bytes), None) =
        (name, address, bytes, parts.next())
    else {
        return Err(malformed());
    };
    let (address, bytes) = (address.trim().as_bytes(), bytes.trim().as_bytes());
    Ok(Command::MemcpyHtoD {
        address: number::hex(address).ok_or_else(|| Fault::hex("address", address))?,
        bytes: number::decimal(bytes).ok_or_else(|| Fault::decimal("size", bytes))?,
    })
}

/// A list that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandList {
    /// The path of the list.
    pub path: PathBuf,
    /// The commands, each with the number of its line.
    pub commands: Vec<(u64, Command)>,
}

impl CommandList {
    /// Reads a list.
    ///
    /// # Errors
    ///
    /// Those of [`Command::parse`], with the line, and those of reading lines.
    pub fn read(path: &Path) -> Result<CommandList, ReadError> {
        let mut lines = form::open_text(path, Compression::None, &ReadOptions::default())?;
        let mut commands = Vec::new();
        loop {
            let parsed = lines.advance().and_then(|exists| match exists {
                true => parse(lines.current()).map(Some),
                false => Ok(None),
            });
            match parsed.map_err(|fault| ReadError::new(path, lines.number(), fault))? {
                Some(Some(command)) => commands.push((lines.number(), command)),
                Some(None) => {}
                None => break,
            }
        }
        Ok(CommandList {
            path: path.to_owned(),
            commands,
        })
    }

    /// Returns the paths of the kernel files in order.
    pub fn kernels(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.commands
            .iter()
            .filter_map(|(_, command)| match command {
                Command::Kernel(name) => Some(self.resolve(name)),
                _ => None,
            })
    }

    /// Returns the path of a kernel file: relative to the folder of the list, which is the current folder if the path of the
    /// list has none.
    pub fn resolve(&self, name: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        folder.join(name)
    }
}

fn parse(line: &[u8]) -> Result<Option<Command>, Fault> {
    Command::parse(std::str::from_utf8(line).map_err(|_| Fault::Utf8)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_form_of_the_tracer() {
        let command = Command::MemcpyHtoD {
            address: 0x7f00_0000_0000,
            bytes: 4096,
        };
        let line = "MemcpyHtoD,0x00007f0000000000,4096";
        assert_eq!(Command::parse(line), Ok(Some(command.clone())));
        let mut out = Vec::new();
        command.write(&mut out).unwrap();
        Command::Kernel("kernel-1.traceg".to_owned())
            .write(&mut out)
            .unwrap();
        assert_eq!(out, format!("{line}\nkernel-1.traceg\n").into_bytes());
    }

    #[test]
    fn malformed_copies_are_faults() {
        for line in [
            "MemcpyHtoD",
            "MemcpyHtoD,0x10",
            "MemcpyHtoD,0x10,4,5",
            "MemcpyHtoDAsync,0x10,4",
        ] {
            assert_eq!(Command::parse(line), Err(Fault::Memcpy(line.to_owned())));
        }
        assert_eq!(
            Command::parse("MemcpyHtoD,0xg,4"),
            Err(Fault::hex("address", b"0xg"))
        );
        assert_eq!(
            Command::parse("MemcpyHtoD,0x10,-4"),
            Err(Fault::decimal("size", b"-4"))
        );
    }

    #[test]
    fn other_lines_are_kept() {
        assert_eq!(Command::parse(""), Ok(None));
        let other = Command::Other("MemcpyDtoH,0x10,4".to_owned());
        assert_eq!(Command::parse("MemcpyDtoH,0x10,4"), Ok(Some(other)));
        assert_eq!(Command::parse("kernel-1.txt"), Err(Fault::Suffix));
    }

    #[test]
    fn a_list_without_a_folder_is_in_the_current_one() {
        let list = |path: &str| CommandList {
            path: PathBuf::from(path),
            commands: Vec::new(),
        };
        let name = "kernel-1.traceg";
        assert_eq!(list("kernelslist.g").resolve(name), Path::new(name));
        assert_eq!(list("a/b.g").resolve(name), Path::new("a").join(name));
    }
}
