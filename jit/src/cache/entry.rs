//! The file format of a cached function.
//!
//! All numbers are little-endian 32-bit words:
//!
//! | offset | content |
//! |---|---|
//! | 0 | `margayNC` |
//! | 8 | [`FORMAT`] |
//! | 12 | size of the code in bytes; number of source positions, of sites and of descriptions; size of the data of the wide back end |
//! | 32 | the key |
//! | 64 | the checksum: digest of all bytes before and after it |
//! | 96 | the code, with zeros for addresses |
//! | | source positions: code offset, PTX line, `.loc`, lane |
//! | | sites: code offset, kind, index ([`Target::parts`]) |
//! | | descriptions: index of an instruction of the function that has the description |
//! | | data of the wide back end, in the format of postcard: [`WideData`] |

use margay_ir::entity::Inst;
use margay_ir::function::{Function, SourceLoc};
use margay_ops::meaning::Desc;
use margay_x64::code::{Operation, Place};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::Source;
use super::digest::{self, Digest, Digester};
use crate::addresses::{self, DescTable, HostData, Site, Target};
use crate::code_memory::CodeMemory;
use crate::function::{CompiledFunction, LocatedAccess};

/// Version number of this format.
pub(super) const FORMAT: u32 = 3;

const MAGIC: &[u8; 8] = b"margayNC";
/// Offsets in bytes, from the start of an entry, of the key, the checksum and the body.
const KEY: usize = 32;
const CHECKSUM: usize = KEY + digest::BYTES;
const BODY: usize = CHECKSUM + digest::BYTES;
/// Sizes in bytes of a source position, a site and an op description in an entry.
const LOC: usize = 16;
const SITE: usize = 12;
const DESC: usize = 4;

/// The fields of a [`CompiledFunction`] that only the wide back end sets.
#[derive(Deserialize)]
struct WideData {
    places: Box<[Place]>,
    groups: Box<[Box<[LocatedAccess]>]>,
    operations: Box<[Operation]>,
    only_from_start: bool,
}

/// Encodes a native function as a cache entry. Returns `None` if the function refers to data that
/// another process could not reconstruct.
pub(super) fn write(key: &Digest, made: &CompiledFunction, function: &Function) -> Option<Vec<u8>> {
    let mut code = made.code.bytes().to_vec();
    addresses::clear(&mut code, &made.sites)?;
    let descs = insts_with(&made.descs, function)?;
    // The fields of `WideData`, in their order, by reference.
    let wide = (
        &made.places,
        &made.groups,
        &made.operations,
        made.only_from_start,
    );
    let wide = postcard::to_stdvec(&wide).ok()?;
    let (locs, sites) = (made.locs.len(), made.sites.len());
    let counts = [code.len(), locs, sites, descs.len(), wide.len()];
    let mut bytes = Vec::with_capacity(BODY + code.len() + LOC * made.locs.len());
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    for count in counts {
        bytes.extend(u32::try_from(count).ok()?.to_le_bytes());
    }
    bytes.extend(key);
    bytes.extend([0; digest::BYTES]);
    bytes.append(&mut code);
    let mut put = |words: &[u32]| bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    for &(start, loc, lane) in &made.locs {
        put(&[start, loc.ptx_line, loc.loc, lane]);
    }
    for site in &made.sites {
        let (kind, index) = site.target.parts();
        put(&[site.offset, kind, index]);
    }
    put(&descs);
    bytes.extend(&wide);
    let sum = checksum(&bytes);
    bytes[CHECKSUM..BODY].copy_from_slice(&sum);
    Some(bytes)
}

/// Finds, for each description, an instruction that has this description.
fn insts_with(descs: &DescTable, function: &Function) -> Option<Vec<u32>> {
    let known: FxHashMap<Desc, Inst> = match descs.iter().next() {
        Some(_) => {
            let insts = function.dfg.insts.iter();
            insts.map(|(inst, data)| (data.desc(), inst)).collect()
        }
        None => FxHashMap::default(),
    };
    descs.iter().map(|desc| Some(known.get(desc)?.0)).collect()
}

/// Decodes a native function from a cache entry. Returns `None` if the bytes are damaged or belong
/// to another key.
pub(super) fn read(bytes: &[u8], key: &Digest, source: Source<'_>) -> Option<CompiledFunction> {
    let (head, body) = bytes.split_at_checked(BODY)?;
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    if !head.starts_with(MAGIC) || word(8)? != FORMAT || head[KEY..CHECKSUM] != *key {
        return None;
    }
    let mut body = body;
    let mut part = |at: usize, size: usize| {
        let len = (word(at)? as usize).checked_mul(size)?;
        let (part, rest) = body.split_at_checked(len)?;
        body = rest;
        Some(part)
    };
    let (code, locs) = (part(12, 1)?, part(16, LOC)?);
    let (sites, descs, wide) = (part(20, SITE)?, part(24, DESC)?, part(28, 1)?);
    if !body.is_empty() || head[CHECKSUM..] != checksum(bytes) {
        return None;
    }
    let insts = &source.function.dfg.insts;
    let desc_of = |[inst]: [u32; 1]| insts.get(Inst(inst)).map(|data| data.desc());
    let descs: DescTable = words(descs).map(desc_of).collect::<Option<_>>()?;
    let site_of = |[offset, kind, index]: [u32; 3]| {
        let target = Target::of_parts(kind, index)?;
        Some(Site { offset, target })
    };
    let sites: Vec<Site> = words(sites).map(site_of).collect::<Option<_>>()?;
    let WideData {
        places,
        groups,
        operations,
        only_from_start,
    } = postcard::from_bytes(wide).ok()?;
    let host = HostData {
        descs: &descs,
        sync_points: source.sync_points,
        operations: &operations,
        helpers: &source.helpers,
    };
    let mut code = code.to_vec();
    addresses::fill(&mut code, &sites, host)?;
    Some(CompiledFunction {
        code: CodeMemory::new(&code).ok()?,
        locs: words(locs)
            .map(|[start, ptx_line, loc, lane]| (start, SourceLoc { ptx_line, loc }, lane))
            .collect(),
        descs,
        sites,
        places,
        groups,
        operations,
        only_from_start,
    })
}

const DATA_MAGIC: &[u8; 8] = b"margayPK";
/// Offsets in bytes, from the start of an entry with data, of the checksum and of the data.
const DATA_CHECKSUM: usize = 8 + digest::BYTES;
const DATA: usize = DATA_CHECKSUM + digest::BYTES;

/// Encodes data that is not code as a cache entry: `margayPK`, the key, the checksum of the data, and the data.
pub(super) fn with_data(key: &Digest, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(DATA + data.len());
    bytes.extend(DATA_MAGIC);
    bytes.extend(key);
    bytes.extend(digest::of(&data));
    bytes.extend(data);
    bytes
}

/// Returns the data of an entry. Returns `None` if the bytes are damaged or belong to another key.
pub(super) fn data<'a>(bytes: &'a [u8], key: &Digest) -> Option<&'a [u8]> {
    let (head, data) = bytes.split_at_checked(DATA)?;
    let is_valid = head.starts_with(DATA_MAGIC)
        && head[8..DATA_CHECKSUM] == *key
        && head[DATA_CHECKSUM..] == digest::of(&data);
    is_valid.then_some(data)
}

/// Splits bytes into groups of `N` 32-bit numbers.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u32; N]> {
    bytes.chunks_exact(4 * N).map(|group| {
        std::array::from_fn(|i| {
            let word = group[4 * i..4 * i + 4].try_into();
            u32::from_le_bytes(word.expect("a slice of four bytes"))
        })
    })
}

/// Computes the checksum of an entry, which must have at least [`BODY`] bytes. The checksum field itself is not part of
/// the checksum.
fn checksum(bytes: &[u8]) -> Digest {
    use std::hash::Hasher;
    let mut digester = Digester::default();
    digester.write(&bytes[..CHECKSUM]);
    digester.write(&bytes[BODY..]);
    digester.digest()
}
