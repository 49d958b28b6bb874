//! Selects the PTX entry of a fat binary that is compiled for a device.
//!
//! Like a CUDA driver, this module selects the PTX entry for the highest architecture that is not
//! above the device's architecture. If there is no such entry, this module selects the PTX entry
//! for the lowest architecture above the device's architecture, because libraries often contain PTX
//! for their newest target only. PTX that was compiled for only one architecture (`sm_90a`) or one
//! family (`sm_100f`) might not run on later devices. On a device of any other architecture, such
//! PTX is selected only if there is no other PTX.

use super::error::Found;
use super::{Container, Entry, EntryKind, Image, ImageError, PtxText, linked};

/// Returns the sort key of a PTX entry; the PTX entry with the smallest key is selected.
///
/// An entry is *specific* if it was compiled for one architecture or family only. An entry is
/// *foreign* if a GPU with the compute capability `capability` might not run it. The key consists
/// of four fields, most significant first: whether the entry is foreign, whether the entry is both
/// foreign and specific, the distance between the entry's SM number and the compute capability, and
/// whether the entry is specific.
fn preference(entry: &Entry<'_>, capability: u32) -> (bool, bool, u32, bool) {
    let info = &entry.info;
    let specific = info.flags.arch_specific() || info.flags.family();
    // Specific code might not run on any later device, so it is foreign to every device except those of its own
    // architecture.
    let foreign = info.sm > capability || (specific && info.sm != capability);
    (
        foreign,
        foreign && specific,
        info.sm.abs_diff(capability),
        specific,
    )
}

/// Returns the PTX entry of the fat binary `container` for a device with the compute capability
/// `capability` (80 means 8.0), or an error that lists the contents of the fat binary.
///
/// If several entries have the best architecture, the entry with the highest ISA version is
/// selected. If several entries have the best architecture and the highest version, the first of
/// these entries in the file is selected.
pub fn choose<'c, 'a>(
    container: &'c Container<'a>,
    capability: u32,
) -> Result<&'c Entry<'a>, ImageError> {
    let ptx = container
        .entries
        .iter()
        .filter(|e| e.info.kind == EntryKind::Ptx);
    let newest_first = |e: &Entry<'_>| std::cmp::Reverse(e.info.version);
    ptx.min_by_key(|e| (preference(e, capability), newest_first(e)))
        .ok_or_else(|| ImageError::NoPtx(found_instead(container)))
}

fn found_instead(container: &Container<'_>) -> Found {
    let sms = |kind| {
        let mut sms: Vec<u32> = container
            .entries
            .iter()
            .filter(|e| e.info.kind == kind)
            .map(|e| e.info.sm)
            .collect();
        sms.sort_unstable();
        sms.dedup();
        sms
    };
    let other = container.entries.iter().filter_map(|e| match e.info.kind {
        EntryKind::Other(code) => Some(code),
        _ => None,
    });
    Found {
        cubins: sms(EntryKind::Cubin),
        lto: sms(EntryKind::Lto),
        other: other.collect(),
    }
}

/// The PTX texts that are selected from one or several images.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    /// The PTX texts of all images, in the order of the images.
    pub texts: Vec<PtxText>,
    /// The entry with the PTX of the device runtime (the library `libcudadevrt`), which is not yet
    /// decompressed. This PTX is large and is needed only if the other texts use a symbol that it
    /// defines.
    pub device_runtime: Option<Entry<'a>>,
    /// Whether the texts are entries of containers, which compilers write after they have checked the texts.
    pub in_containers: bool,
}

/// Selects and decompresses the PTX of each image, for a device with the compute capability
/// `capability` (80 means 8.0).
///
/// If there are several images, they are linked to one module: they are the fat binaries in the
/// list of a version 2 wrapper, or the inputs of a linker. A fat binary without entries, or with cubins only that contain
/// nothing, contributes no text if there are several images, and causes an error if it is the only image.
pub fn select_ptx<'a>(images: &[&'a [u8]], capability: u32) -> Result<Selection<'a>, ImageError> {
    let mut selection = Selection::default();
    for bytes in images {
        match Image::parse(bytes)? {
            Image::Text(text) if !linked::is_joined(text.text.as_bytes()) => {
                selection.texts.push(text);
            }
            Image::Text(text) => {
                for part in linked::parts(text.text.as_bytes()) {
                    selection.texts.push(PtxText::bare(part)?);
                }
            }
            Image::Cubin(cubin) => return Err(ImageError::Cubin(cubin)),
            Image::Fatbin(container) => {
                add(&mut selection, &container, capability, images.len() > 1)?
            }
            Image::Host(containers) => {
                for host in &containers {
                    add(&mut selection, &host.container, capability, true)?;
                }
            }
            Image::Archive(members) => {
                for host in members.iter().flat_map(|m| &m.containers) {
                    add(&mut selection, &host.container, capability, true)?;
                }
            }
        }
    }
    if selection.texts.is_empty() && selection.device_runtime.is_none() {
        return Err(ImageError::NoPtx(Found::default()));
    }
    Ok(selection)
}

fn add<'a>(
    selection: &mut Selection<'a>,
    container: &Container<'a>,
    capability: u32,
    one_of_many: bool,
) -> Result<(), ImageError> {
    let entry = match choose(container, capability) {
        Err(_) if one_of_many && container.is_stub() => return Ok(()),
        chosen => chosen?,
    };
    selection.in_containers = true;
    if one_of_many && selection.device_runtime.is_none() && is_device_runtime(entry) {
        selection.device_runtime = Some(entry.clone());
    } else {
        selection.texts.push(entry.text()?);
    }
    Ok(())
}

/// Whether `entry` is the PTX of `libcudadevrt`. Symbols of this PTX contain the name of the source
/// file from which it was compiled. The first such symbol is near the beginning of the text, so
/// only the beginning is decompressed.
fn is_device_runtime(entry: &Entry<'_>) -> bool {
    const LOOK_AT: usize = 4096;
    const MARK: &[u8] = b"_cuda_device_runtime_cu_";
    entry.info.relocatable()
        && entry
            .prefix(LOOK_AT)
            .is_ok_and(|text| text.windows(MARK.len()).any(|window| window == MARK))
}
