//! Reads ELF files. For a cubin, the caller gets the facts for an error message, such as the names
//! of the kernels. A host program, library or object file is searched for fat binaries.
//!
//! Invariant: this module never executes or trusts machine code. It only reads the SM number, the kernel names and the
//! section names of a cubin.

use object::elf::{FileHeader64, SHT_NOBITS};
use object::read::elf::{FileHeader, SectionHeader};
use object::{
    Endianness, LittleEndian, Object, ObjectSection, ObjectSymbol, SymbolFlags, SymbolKind,
};

use super::bytes::Bytes;
use super::error::Cubin;
use super::fatbin::{CONTAINER_HEADER_LEN, CONTAINER_MAGIC, container_len};
use super::{Container, ImageError};

/// Size in bytes of an ELF file's header.
pub const ELF_HEADER_LEN: usize = 64;
/// The value of the header field `e_machine` for CUDA machine code.
pub const EM_CUDA: u16 = 190;
/// The largest accepted size of an ELF file, in bytes.
pub const MAX_ELF: u64 = 1 << 36;

/// The offset of an ELF header's field that contains the file offset of the section header table.
/// The next two constants are the offsets of the fields for the size of an entry of this table and
/// for the number of entries.
const E_SHOFF: u64 = 40;
const E_SHENTSIZE: u64 = 58;
const E_SHNUM: u64 = 60;
/// The offset of an ELF header's field that contains the file offset of the program header table.
/// The next two constants are the offsets of the fields for the size of an entry of this table and
/// for the number of entries.
const E_PHOFF: u64 = 32;
const E_PHENTSIZE: u64 = 54;
const E_PHNUM: u64 = 56;

/// Returns the number of bytes from the start of an ELF file to the end of its section header table
/// and its program header table. `header` contains the first 64 bytes of the file.
///
/// A caller that has a pointer without a length determines the size of the file with this function and [`elf_len`]. The
/// caller first reads 64 bytes, then as many bytes as this function returns, and then as many bytes as `elf_len`
/// returns.
pub fn elf_tables_len(header: &[u8; ELF_HEADER_LEN]) -> Result<usize, ImageError> {
    let b = Bytes(header);
    let table = |at, size, count| {
        let bytes = u64::from(b.u16(size).unwrap_or(0)) * u64::from(b.u16(count).unwrap_or(0));
        b.u64(at)
            .unwrap_or(0)
            .checked_add(bytes)
            .filter(|_| bytes != 0)
    };
    let sections = table(E_SHOFF, E_SHENTSIZE, E_SHNUM).unwrap_or(0);
    let segments = table(E_PHOFF, E_PHENTSIZE, E_PHNUM).unwrap_or(0);
    bounded(sections.max(segments).max(ELF_HEADER_LEN as u64))
}

/// Returns the length of the whole ELF file. `tables` must contain at least the first [`elf_tables_len`] bytes of the
/// file.
pub fn elf_len(tables: &[u8]) -> Result<usize, ImageError> {
    let header = header(tables)?;
    let endian = endian(header)?;
    let mut end = tables.len() as u64;
    for section in header
        .section_headers(endian, tables)
        .map_err(|e| unreadable("ELF file", &e))?
    {
        if section.sh_type(endian) != SHT_NOBITS {
            let section_end = section
                .sh_offset(endian)
                .checked_add(section.sh_size(endian));
            end = end.max(section_end.unwrap_or(u64::MAX));
        }
    }
    bounded(end)
}

fn bounded(len: u64) -> Result<usize, ImageError> {
    let too_large = ImageError::TooLarge {
        what: "ELF file",
        declared: len,
        limit: MAX_ELF,
    };
    match usize::try_from(len) {
        Ok(n) if len <= MAX_ELF => Ok(n),
        _ => Err(too_large),
    }
}

fn unreadable(what: &'static str, error: &dyn std::fmt::Display) -> ImageError {
    ImageError::Object {
        what,
        reason: error.to_string(),
    }
}

fn header(bytes: &[u8]) -> Result<&FileHeader64<Endianness>, ImageError> {
    FileHeader64::<Endianness>::parse(bytes).map_err(|e| unreadable("ELF file", &e))
}

fn endian(header: &FileHeader64<Endianness>) -> Result<Endianness, ImageError> {
    header.endian().map_err(|e| unreadable("ELF file", &e))
}

/// Returns the header field `e_machine` of an ELF file, which states for which processor the file
/// is.
pub(super) fn machine(bytes: &[u8]) -> Result<u16, ImageError> {
    let header = header(bytes)?;
    Ok(header.e_machine(endian(header)?).0)
}

/// Reads the architecture (90 for `sm_90`) and the kernel names of a cubin. If the symbol table is
/// damaged, the result contains no names.
pub(super) fn cubin(bytes: &[u8]) -> Cubin {
    Cubin {
        sm: cubin_sm(bytes),
        kernels: kernel_names(bytes).unwrap_or_default(),
    }
}

/// Reads the number of the architecture from the flags in the header of a cubin. The number is in
/// the second byte of the flags if the ABI version is 8 or later, and in the lowest byte otherwise
/// (CUDA 12 and earlier). Returns `None` if the number is 0 or the file is too short.
fn cubin_sm(bytes: &[u8]) -> Option<u32> {
    const E_IDENT_ABIVERSION: usize = 8;
    const E_FLAGS: u64 = 48;
    const NEW_ABI: u8 = 8;
    let flags = Bytes(bytes).u32(E_FLAGS)?;
    let sm = if *bytes.get(E_IDENT_ABIVERSION)? >= NEW_ABI {
        flags >> 8
    } else {
        flags
    } & 0xff;
    (sm != 0).then_some(sm)
}

/// Returns the names of a cubin's kernels: the function symbols that have the entry flag in
/// `st_other`. Other device functions do not have this flag.
fn kernel_names(bytes: &[u8]) -> Option<Vec<String>> {
    const ENTRY_MARK: u8 = 0x10;
    let file = object::read::elf::ElfFile64::<LittleEndian>::parse(bytes).ok()?;
    let is_kernel =
        |flags| matches!(flags, SymbolFlags::Elf { st_other, .. } if st_other.0 & ENTRY_MARK != 0);
    let kernels = file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && is_kernel(s.flags()));
    let names = kernels.filter_map(|s| s.name().ok().map(str::to_owned));
    Some(names.collect())
}

/// The kind of a section that contains fat binaries in a host program, library or object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostSection {
    /// `.nv_fatbin`: the fat binary is a separate module.
    Module,
    /// `__nv_relfatbin`: the fat binary is one of the objects that are linked into one module when the program starts
    /// (`nvcc -rdc=true`).
    Linked,
}

/// The name and the kind of each section that contains fat binaries.
const HOST_SECTIONS: [(&str, HostSection); 2] = [
    (".nv_fatbin", HostSection::Module),
    ("__nv_relfatbin", HostSection::Linked),
];

/// A fat binary inside a host program, library or object file.
#[derive(Clone, Debug)]
pub struct HostContainer<'a> {
    /// The kind of section in which the fat binary was found.
    pub section: HostSection,
    /// The bytes of the fat binary.
    pub bytes: &'a [u8],
    /// The parsed fat binary.
    pub container: Container<'a>,
}

/// Finds the fat binaries in the ELF file of a host program, shared library or object.
///
/// The result does not contain fat binaries without entries. The linker writes such an empty fat
/// binary if its inputs contain only PTX. The result is empty for a program without device code.
/// The error [`ImageError::Object`] means that the ELF file cannot be parsed.
pub fn host_containers(elf: &[u8]) -> Result<Vec<HostContainer<'_>>, ImageError> {
    let file = object::File::parse(elf).map_err(|e| unreadable("ELF file", &e))?;
    let mut found = Vec::new();
    for section in file.sections() {
        let name = section.name().unwrap_or_default();
        let Some(&(_, kind)) = HOST_SECTIONS.iter().find(|(n, _)| *n == name) else {
            continue;
        };
        let data = section.data().map_err(|e| unreadable("ELF file", &e))?;
        for bytes in containers_in(data)? {
            let container = Container::parse(bytes)?;
            if !container.entries.is_empty() {
                found.push(HostContainer {
                    section: kind,
                    bytes,
                    container,
                });
            }
        }
    }
    Ok(found)
}

/// Whether a cubin has neither functions nor variables. The device linker of `nvcc` adds such an empty cubin to a
/// program without relocatable device code (without `-rdc=true`).
pub(super) fn is_empty_cubin(cubin: &[u8]) -> bool {
    const CONTENT: [&str; 4] = [".text.", ".nv.global", ".nv.constant", ".nv.shared"];
    let Ok(file) = object::File::parse(cubin) else {
        return false;
    };
    file.sections().all(|section| {
        let name = section.name().unwrap_or(CONTENT[0]);
        !CONTENT.iter().any(|content| name.starts_with(content))
    })
}

/// Returns the bytes of each fat binary in a section. In the section, fat binaries begin at
/// multiples of 8 bytes.
pub(super) fn containers_in(section: &[u8]) -> Result<Vec<&[u8]>, ImageError> {
    const ALIGN: usize = 8;
    let mut found = Vec::new();
    let mut rest = section;
    while let Some((header, _)) = rest.split_first_chunk::<CONTAINER_HEADER_LEN>() {
        let skip = if Bytes(header).u32(0) == Some(CONTAINER_MAGIC) {
            let len = container_len(header)?;
            let at = (section.len() - rest.len()) as u64;
            found.push(rest.get(..len).ok_or(ImageError::Truncated {
                what: "fat binary",
                at,
                needed: len as u64,
                have: rest.len() as u64,
            })?);
            len.next_multiple_of(ALIGN)
        } else {
            ALIGN
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    Ok(found)
}

/// One file of a static library and its fat binaries.
#[derive(Clone, Debug)]
pub struct ArchiveMember<'a> {
    /// The file's name in the archive.
    pub name: String,
    /// The fat binaries in the file.
    pub containers: Vec<HostContainer<'a>>,
}

/// Returns the members of a static library (`.a`) that contain fat binaries.
pub fn archive_members(archive: &[u8]) -> Result<Vec<ArchiveMember<'_>>, ImageError> {
    let bad = |e: object::Error| unreadable("archive", &e);
    let file = object::read::archive::ArchiveFile::parse(archive).map_err(bad)?;
    let mut found = Vec::new();
    for member in file.members() {
        let member = member.map_err(bad)?;
        let data = member.data(archive).map_err(bad)?;
        if !data.starts_with(&object::elf::ELFMAG) {
            continue;
        }
        let containers = host_containers(data)?;
        if !containers.is_empty() {
            found.push(ArchiveMember {
                name: String::from_utf8_lossy(member.name()).into_owned(),
                containers,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::containers_in;

    #[test]
    fn containers_stand_at_multiples_of_eight() {
        let header = |size: u8| {
            [
                0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, size, 0, 0, 0, 0, 0, 0, 0,
            ]
        };
        let mut section = vec![0; 8];
        section.extend(header(3));
        section.extend([0xaa; 3]);
        section.extend([0; 5]);
        section.extend(header(0));
        let found = containers_in(&section).expect("two containers");
        assert_eq!(found.iter().map(|c| c.len()).collect::<Vec<_>>(), [19, 16]);
        section.truncate(section.len() - 1);
        assert_eq!(containers_in(&section).expect("one and a rest").len(), 1);
        section.truncate(20);
        assert_eq!(containers_in(&section).expect("no whole header").len(), 0);
        section.resize(26, 0xaa);
        assert!(containers_in(&section).is_err(), "cut inside a container");
    }
}
