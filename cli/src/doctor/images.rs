//! Finds the images of device code in a file: in ELF files and static libraries for the CPU, and in files that are an
//! image themselves.
//!
//! Only the headers of a fat binary's entries are read, not the code, so a library of a gigabyte takes milliseconds.
//! Invariant: no file causes a panic or an endless loop; numbers in a file are bounds for comparisons only.

use margay::container::{
    CONTAINER_HEADER_LEN, CONTAINER_MAGIC, Container, DETECT_LEN, EM_CUDA, ENTRY_HEADER_LEN,
    EntryFlags, EntryHead, EntryInfo, EntryKind, ImageKind, container_len, detect,
};

use super::tally::Tally;
use super::window::Window;

/// What a file contains.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) tally: Tally,
    /// Whether the file contains kernels of cuBLAS.
    pub(super) has_cublas: bool,
    /// The reason why parts of the device code could not be read.
    pub(super) problem: Option<String>,
}

/// A part of the names of kernels that each version of cuBLAS contains and that no other library needs.
const CUBLAS_KERNEL: &[u8] = b"cublasGemvTensorStridedBatched";

/// Sections of ELF files that compilers of CUDA write for fat binaries.
const CODE_SECTIONS: [&[u8]; 2] = [b".nv_fatbin\0", b"__nv_relfatbin\0"];
/// Sections that can also contain fat binaries, which a library loads by itself (cuFFT), and names of kernels. They are
/// searched only if the file also has one of [`CODE_SECTIONS`].
const DATA_SECTIONS: [&[u8]; 5] = [
    b".rodata\0",
    b".lrodata\0",
    b".data\0",
    b".ldata\0",
    b".cask_resource\0",
];

/// In a section, fat binaries begin at multiples of this number of bytes.
const ALIGN: u64 = 8;

/// Maximum number of entries that are counted in a file. The largest known libraries have 20,000.
const MAX_ENTRIES: u64 = 1 << 20;
/// Maximum number of bytes of a section that are searched for fat binaries and names: 4 GiB. A damaged file can declare
/// any size, and the operating system generates zeros for the holes of a file.
const MAX_SEARCHED: u64 = 4 << 30;
/// Maximum number of sections that are read.
const MAX_SECTIONS: u64 = 1 << 20;
/// Maximum number of members of a static library.
const MAX_MEMBERS: u64 = 1 << 20;
/// Maximum size of an entry that is searched for functions. Entries without code, which linkers add to programs, have
/// less than two kilobytes.
const MAX_STUB: u64 = 4 << 10;

/// Reads the images in the whole file.
pub(super) fn read(mut file: Window<'_>) -> Contents {
    let mut scan = Scan {
        contents: Contents::default(),
        entries: 0,
    };
    let mut start = [0; DETECT_LEN];
    let read = file.fill(0, &mut start).unwrap_or(0);
    match detect(&start[..read]) {
        Some(ImageKind::Elf) => scan.elf(&mut file),
        Some(ImageKind::Archive) => scan.archive(&mut file),
        Some(ImageKind::Fatbin) => scan.container(&mut file, 0).map(|_| ()),
        Some(ImageKind::Text) => scan.text(&file),
        Some(ImageKind::Wrapper) | None => Some(()),
    }
    .unwrap_or_else(|| scan.problem("the file is cut short or damaged"));
    scan.contents
}

struct Scan {
    contents: Contents,
    /// Number of entries so far.
    entries: u64,
}

/// The fields of a section header.
struct Section {
    name: u32,
    offset: u64,
    len: u64,
    /// The field `sh_link`, which depends on the section.
    link: u32,
    has_bytes: bool,
}

impl Section {
    const LEN: u64 = 64;

    fn read(file: &mut Window<'_>, at: u64) -> Option<Section> {
        const SHT_NOBITS: u32 = 8;
        Some(Section {
            name: file.u32(at)?,
            has_bytes: file.u32(at.checked_add(4)?)? != SHT_NOBITS,
            offset: file.u64(at.checked_add(24)?)?,
            len: file.u64(at.checked_add(32)?)?,
            link: file.u32(at.checked_add(40)?)?,
        })
    }
}

impl Scan {
    /// Notes a problem, unless there is an earlier one.
    fn problem(&mut self, problem: &str) {
        if self.contents.problem.is_none() {
            self.contents.problem = Some(problem.to_owned());
        }
    }

    /// Returns `None` if the file is cut short.
    fn elf(&mut self, file: &mut Window<'_>) -> Option<()> {
        const SHN_XINDEX: u16 = 0xffff;
        if file.array(4)? != [2, 1] {
            // Files with 32-bit addresses or big-endian numbers contain no code that runs here.
            return Some(());
        }
        if file.u16(18)? == EM_CUDA {
            self.cubin(file);
            return Some(());
        }
        let (table, size, names) = (file.u64(40)?, file.u16(58)?, file.u16(62)?);
        let mut count = u64::from(file.u16(60)?);
        if table == 0 || u64::from(size) != Section::LEN {
            return Some(());
        }
        let first = Section::read(file, table)?;
        if count == 0 {
            count = first.len;
        }
        if count > MAX_SECTIONS {
            self.problem("the file has too many sections");
        }
        let names = match names {
            SHN_XINDEX => u64::from(first.link),
            index => u64::from(index),
        };
        let at = |index: u64| table.checked_add(index.checked_mul(Section::LEN)?);
        let names = Section::read(file, at(names)?)?;
        let mut strings = file.part(names.offset, names.len)?;
        let (mut has_code, mut data) = (false, Vec::new());
        for index in 0..count.min(MAX_SECTIONS) {
            let section = Section::read(file, at(index)?)?;
            let mut is = |name: &&[u8]| is_at(&mut strings, section.name, name);
            if !section.has_bytes {
                continue;
            }
            if CODE_SECTIONS.iter().any(&mut is) {
                has_code = true;
                let mut part = file.part(section.offset, section.len)?;
                self.containers(&mut part, Scan::container)?;
            } else if DATA_SECTIONS.iter().any(is) {
                // These sections can begin anywhere; fat binaries are at multiples of `ALIGN` in the file.
                let skip = section.offset.wrapping_neg() % ALIGN;
                let start = section.offset.checked_add(skip)?;
                data.extend(file.part(start, section.len.saturating_sub(skip)));
            }
        }
        for part in data.iter_mut().filter(|_| has_code) {
            // What begins like a fat binary in these sections need not be one.
            let if_whole = |scan: &mut Scan, part: &mut Window<'_>, at| {
                Some(scan.container(part, at).unwrap_or(ALIGN))
            };
            self.containers(part, if_whole)?;
        }
        // Only files with kernels of their own can contain a copy of cuBLAS.
        self.contents.has_cublas |= !self.contents.tally.is_empty()
            && data
                .iter()
                .any(|part| part.contains(CUBLAS_KERNEL, MAX_SEARCHED));
        Some(())
    }

    /// Adds the fat binaries of a section with `add`, which returns the length of a fat binary.
    fn containers(
        &mut self,
        section: &mut Window<'_>,
        mut add: impl FnMut(&mut Scan, &mut Window<'_>, u64) -> Option<u64>,
    ) -> Option<()> {
        let (mut at, mut searched): (u64, u64) = (0, 0);
        while at.checked_add(CONTAINER_HEADER_LEN as u64)? <= section.len() {
            let is_here = section.u32(at)? == CONTAINER_MAGIC;
            let len = match is_here {
                true => add(self, section, at)?,
                false => ALIGN,
            };
            searched += if is_here { 0 } else { ALIGN };
            if searched > MAX_SEARCHED {
                self.problem("a section is too large");
                break;
            }
            at = at.checked_add(len.checked_next_multiple_of(ALIGN)?)?;
        }
        Some(())
    }

    /// Adds the fat binary at `at` and returns its length, which is not 0; `None` if it is damaged.
    fn container(&mut self, window: &mut Window<'_>, at: u64) -> Option<u64> {
        let header: [u8; CONTAINER_HEADER_LEN] = window.array(at)?;
        let total = container_len(&header).ok()? as u64;
        let end = at.checked_add(total).filter(|&end| end <= window.len())?;
        let mut next = at.checked_add(u64::from(u16::from_le_bytes([header[6], header[7]])))?;
        let mut entries = Vec::new();
        while next < end {
            if self.entries == MAX_ENTRIES {
                self.problem("the file has too many entries of device code");
                break;
            }
            self.entries += 1;
            let head: [u8; ENTRY_HEADER_LEN] = window.array(next)?;
            let head = EntryHead::parse(&head).ok()?;
            next = next.checked_add(head.len).filter(|&next| next <= end)?;
            entries.push(head.info);
        }
        let is_stub = || total <= MAX_STUB * entries.len() as u64 && stub(window, at, total);
        if !entries.is_empty() && (entries.iter().any(|e| e.kind != EntryKind::Cubin) || !is_stub())
        {
            self.contents.tally.add(entries);
        }
        Some(total)
    }

    fn archive(&mut self, file: &mut Window<'_>) -> Option<()> {
        const MAGIC_LEN: u64 = 8;
        const HEADER_LEN: u64 = 60;
        let mut at = MAGIC_LEN;
        let mut members = 0;
        while at < file.len() {
            let header: [u8; HEADER_LEN as usize] = file.array(at)?;
            let digits = std::str::from_utf8(&header[48..58]).ok()?;
            let len: u64 = digits.trim().parse().ok()?;
            let start = at.checked_add(HEADER_LEN)?;
            let mut member = file.part(start, len)?;
            if member.array(0) == Some(*b"\x7fELF") {
                self.elf(&mut member)?;
            }
            members += 1;
            if members == MAX_MEMBERS {
                self.problem("the archive has too many members");
                break;
            }
            at = start.checked_add(len)?.checked_next_multiple_of(2)?;
        }
        Some(())
    }

    fn cubin(&mut self, file: &mut Window<'_>) {
        const NEW_ABI: u8 = 8;
        let flags = file.u32(48).unwrap_or(0);
        let abi: [u8; 1] = file.array(8).unwrap_or_default();
        let sm = if abi[0] >= NEW_ABI { flags >> 8 } else { flags } & 0xff;
        self.contents.tally.add(vec![alone(EntryKind::Cubin, sm)]);
    }

    /// Adds a PTX file. Other texts are no images.
    fn text(&mut self, file: &Window<'_>) -> Option<()> {
        const LOOK_AT: usize = 16 << 10;
        let mut start = vec![0; LOOK_AT];
        let read = file.fill(0, &mut start)?;
        let text = String::from_utf8_lossy(&start[..read]);
        let mut lines = text.lines().map(str::trim_start);
        let has_version = lines.any(|line| line.starts_with(".version"));
        let target = lines.find_map(|line| line.strip_prefix(".target"));
        if let (true, Some(target)) = (has_version, target) {
            let digits = target.trim_start().trim_start_matches("sm_");
            let end = digits
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(digits.len());
            let sm = digits[..end].parse().unwrap_or(0);
            self.contents.tally.add(vec![alone(EntryKind::Ptx, sm)]);
        }
        Some(())
    }
}

/// Returns whether the string table contains `name`, which ends with NUL, at the offset `at`.
fn is_at(strings: &mut Window<'_>, at: u32, name: &[u8]) -> bool {
    let bytes = name.iter().enumerate();
    let mut bytes = bytes.map(|(index, byte)| (u64::from(at) + index as u64, *byte));
    bytes.all(|(at, byte)| strings.array(at) == Some([byte]))
}

/// Whether the fat binary at `at` contains neither functions nor variables. The caller limits its size `total`.
fn stub(window: &Window<'_>, at: u64, total: u64) -> bool {
    let Ok(len) = usize::try_from(total) else {
        return false;
    };
    let mut bytes = vec![0; len];
    let is_whole = window.fill(at, &mut bytes) == Some(bytes.len());
    let container = Container::parse(&bytes);
    is_whole && container.is_ok_and(|container| container.is_stub())
}

/// Returns the description of an image that is not in a fat binary.
fn alone(kind: EntryKind, sm: u32) -> EntryInfo {
    EntryInfo {
        kind,
        sm,
        version: (0, 0),
        flags: EntryFlags::default(),
        source_name: None,
        options: None,
    }
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
