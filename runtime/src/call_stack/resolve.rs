//! Finds the functions and source lines of addresses. For this purpose, the module reads the files
//! that `/proc/self/maps` lists. It calls no function of the dynamic loader, because the program
//! can hold the loader's lock.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use addr2line::gimli::{self, EndianSlice, RunTimeEndian};
use object::read::ReadCache;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use parking_lot::Mutex;

use super::HostFrame;
use crate::{demangle, small_stack};

/// Maximum total size of the DWARF sections that are read for one file.
const MOST_DEBUG: u64 = 1 << 30;

/// A mapping of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Offset of the first mapped byte in the file.
    offset: u64,
    pub(super) file: String,
}

impl Mapping {
    pub(super) fn holds(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    fn parse(line: &str) -> Option<Mapping> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let file = words.nth(2)?.trim_start();
        file.starts_with('/').then_some(Mapping {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            file: file.to_owned(),
        })
    }
}

/// Returns the file mappings of the process.
pub(super) fn mappings() -> Vec<Mapping> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(Mapping::parse).collect()
}

/// Does the same as [`mappings`], but may return an earlier result. The time to read the mappings
/// is proportional to their number, and a program can have thousands of mappings, for example one
/// for each allocation. This function therefore returns an earlier result if the time since this
/// result was read is shorter than [`PAUSE`] times the time that reading took.
pub(super) fn recent_mappings() -> Arc<Vec<Mapping>> {
    let mut recent = RECENT.lock();
    if let Some((until, found)) = &*recent
        && Instant::now() < *until
    {
        return Arc::clone(found);
    }
    let start = Instant::now();
    let found = Arc::new(mappings());
    let until = Instant::now() + PAUSE * start.elapsed();
    *recent = Some((until, Arc::clone(&found)));
    found
}

/// A result of [`mappings`], and the time until which [`recent_mappings`] returns it.
static RECENT: Mutex<Option<(Instant, Arc<Vec<Mapping>>)>> = Mutex::new(None);

/// See [`recent_mappings`].
const PAUSE: u32 = 10;

/// A reader of a DWARF section. The contents of sections are never freed: [`FILES`] keeps them
/// until the process ends.
type Reader = EndianSlice<'static, RunTimeEndian>;

/// The data that was read from a file with code.
#[derive(Default)]
struct CodeFile {
    lines: Option<addr2line::Context<Reader>>,
    /// Address, size and mangled name of each function, in ascending order of addresses.
    symbols: Vec<(u64, u64, String)>,
    /// Offset in the file, size and address of each segment.
    segments: Vec<(u64, u64, u64)>,
    is_interpreter: bool,
}

impl CodeFile {
    fn read(path: &str) -> Option<CodeFile> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let mut symbols: Vec<(u64, u64, String)> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                Some((symbol.address(), symbol.size(), name))
            })
            .collect();
        symbols.sort();
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        Some(CodeFile {
            lines: lines_of(&file),
            is_interpreter: symbols
                .iter()
                .any(|(_, _, name)| name == "_PyEval_EvalFrameDefault" || name == "Py_RunMain"),
            symbols,
            segments: segments.collect(),
        })
    }

    /// Returns the virtual address that the file's segments assign to the byte at `offset` in the
    /// file.
    fn address(&self, offset: u64) -> Option<u64> {
        let inside = |&&(start, size, _): &&(u64, u64, u64)| offset.wrapping_sub(start) < size;
        let (start, _, address) = self.segments.iter().find(inside)?;
        Some(address + (offset - start))
    }

    fn symbol(&self, address: u64) -> Option<String> {
        let after = self.symbols.partition_point(|known| known.0 <= address);
        let (start, size, name) = self.symbols.get(after.checked_sub(1)?)?;
        let inside = *size == 0 || address - start < *size;
        inside.then(|| demangle::readable(name))
    }

    /// Adds the frames of an address: the functions that were inlined at the address, and the
    /// function into which they were inlined.
    fn add_frames(&self, address: u64, out: &mut Vec<HostFrame>) -> Option<()> {
        let mut frames = self.lines.as_ref()?.find_frames(address).skip_all_loads();
        let first = out.len();
        while let Ok(Some(frame)) = frames.as_mut().ok()?.next() {
            let name = frame
                .function
                .as_ref()
                .and_then(|name| name.raw_name().ok());
            let place = frame.location;
            let file = place.as_ref().and_then(|place| place.file);
            out.push(HostFrame {
                function: match name {
                    Some(name) => demangle::readable(&name),
                    None => self.symbol(address)?,
                },
                file: file.map(str::to_owned),
                line: place.and_then(|place| place.line).filter(|&line| line != 0),
                ..HostFrame::default()
            });
        }
        (out.len() > first).then_some(())
    }
}

/// Reads the DWARF sections of a file.
fn lines_of<'a>(
    file: &object::File<'a, &'a ReadCache<File>>,
) -> Option<addr2line::Context<Reader>> {
    let debug = |name: &str| name.starts_with(".debug_");
    let sizes = file
        .sections()
        .filter(|section| section.name().is_ok_and(debug));
    if sizes.map(|section| section.size()).sum::<u64>() > MOST_DEBUG {
        return None;
    }
    let endian = match file.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    };
    let load = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let section = file.section_by_name(id.name());
        let bytes = section.and_then(|section| section.uncompressed_data().ok());
        let bytes: Cow<'_, [u8]> = bytes.unwrap_or_default();
        Ok(EndianSlice::new(Vec::leak(bytes.into_owned()), endian))
    };
    let dwarf = gimli::Dwarf::load(load).ok()?;
    addr2line::Context::from_dwarf(dwarf).ok()
}

/// The files that were read so far, by path; `None` if a file cannot be read.
static FILES: Mutex<Option<HashMap<String, Option<CodeFile>>>> = Mutex::new(None);

/// Returns the frames of a stack from the innermost function to `main`. If the stack contains frames of a Python
/// interpreter and `python` is not empty, the frames of `python` replace the first frame of the interpreter and all
/// later frames.
pub(super) fn frames(addresses: &[usize], python: &[HostFrame]) -> Vec<HostFrame> {
    // Invalid debug information can cause a panic, which must not end the program. Demangling a name
    // of C++ needs much stack.
    let resolve = || catch_unwind(AssertUnwindSafe(|| all_frames(addresses, python)));
    small_stack::run(resolve).unwrap_or_default()
}

fn all_frames(addresses: &[usize], python: &[HostFrame]) -> Vec<HostFrame> {
    let mappings = recent_mappings();
    let mut files = FILES.lock();
    let files = files.get_or_insert_default();
    let mut found = Vec::new();
    for &address in addresses {
        let Some(mapping) = mappings.iter().find(|mapping| mapping.holds(address)) else {
            found.push(HostFrame {
                function: format!("{address:#x}"),
                ..HostFrame::default()
            });
            continue;
        };
        if !files.contains_key(&mapping.file) {
            files.insert(mapping.file.clone(), CodeFile::read(&mapping.file));
        }
        let file = files.get(&mapping.file).and_then(Option::as_ref);
        if !python.is_empty() && file.is_some_and(|file| file.is_interpreter) {
            found.extend_from_slice(python);
            return without_own(found);
        }
        let offset = (address - mapping.start) as u64 + mapping.offset;
        let in_file = file.and_then(|file| Some((file, file.address(offset)?)));
        let first = found.len();
        let known = in_file.and_then(|(file, address)| file.add_frames(address, &mut found));
        let shown = in_file.map_or(offset, |(_, address)| address);
        if known.is_none() {
            found.truncate(first);
            let symbol = in_file.and_then(|(file, address)| file.symbol(address));
            let name = mapping.file.rsplit('/').next().unwrap_or_default();
            found.push(HostFrame {
                function: symbol.unwrap_or_else(|| format!("{name}+{shown:#x}")),
                ..HostFrame::default()
            });
        }
        for frame in &mut found[first..] {
            frame.module = Some(mapping.file.clone());
            frame.offset = Some(shown);
        }
        if found.last().is_some_and(|frame| frame.function == "main") {
            break;
        }
    }
    without_own(found)
}

/// Removes the innermost frames of a stack if they belong to this library, which is the case if the
/// library is linked into the program.
fn without_own(mut frames: Vec<HostFrame>) -> Vec<HostFrame> {
    let is_own = |frame: &HostFrame| {
        let name = frame.function.trim_start_matches('<');
        name.starts_with("margay::") || name == "_Unwind_Backtrace"
    };
    let own = frames.iter().take_while(|frame| is_own(frame)).count();
    // If all frames belong to this library, as in its tests, the frames are kept.
    if own < frames.len() {
        frames.drain(..own);
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let line = "7f00-7f20 r-xp 00003000 08:01 1234                       /usr/lib/lib x.so";
        let found = Mapping::parse(line).expect("a file");
        assert_eq!(
            (found.start, found.end, found.offset),
            (0x7f00, 0x7f20, 0x3000)
        );
        assert_eq!(found.file, "/usr/lib/lib x.so");
        assert_eq!(Mapping::parse("10-20 rw-p 00000000 00:00 0 "), None);
        assert_eq!(Mapping::parse("10-20 rw-p 00000000 00:00 0   [heap]"), None);
    }
}
