//! Files to read.

use std::path::{Path, PathBuf};

use margay_accelsim::{Fault, GroupedReader, Item, ReadError, ReadOptions};
use tempfile::TempDir;

/// The smallest complete example of the format's description: a CTA of 32 threads.
pub(crate) const VECADD: &str = "\
#BEGIN_TB

thread block = 0,0,0

warp = 0
insts = 8
0000 ffffffff 1 R1 MOV 0 0 0 
0010 ffffffff 1 R0 S2R 0 0 0 
0020 ffffffff 1 R4 IMAD.WIDE 2 R0 R2 0 0 
0030 ffffffff 1 R6 LDG.E.SYS 1 R4 4 1 0x7f0000000000 4 0 
0040 ffffffff 1 R8 LDG.E.SYS 1 R5 4 1 0x7f0000001000 4 0 
0050 ffffffff 1 R9 FADD 2 R6 R8 0 0 
0060 0000ffff 0 STG.E.SYS 2 R10 R9 4 2 0x7f0000002000 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 0 
0070 ffffffff 0 EXIT 0 0 0 

#END_TB
";

/// Returns a header for 32 threads in each of `ctas` CTAs.
pub(crate) fn header(ctas: u32, binary_version: u32, tracer_version: u32) -> String {
    header_of(
        &format!("{ctas},1,1"),
        "32,1,1",
        binary_version,
        tracer_version,
    )
}

/// Returns a header.
pub(crate) fn header_of(
    grid: &str,
    block: &str,
    binary_version: u32,
    tracer_version: u32,
) -> String {
    format!(
        "-kernel name = _Z6vecaddPfS_S_\n-kernel id = 1\n-grid dim = ({grid})\n-block dim = ({block})\n\
         -shmem = 0\n-nregs = 16\n-binary version = {binary_version}\n-cuda stream id = 0\n\
         -shmem base_addr = 0x00007f1000000000\n-local mem base_addr = 0x00007f1001000000\n\
         -nvbit version = 1.7\n-accelsim tracer version = {tracer_version}\n\n\
         #traces format = PC mask dest_num [reg_dests] opcode\n\n"
    )
}

/// Writes a file into a new folder, which is removed with the returned handle.
pub(crate) fn file(name: &str, contents: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, contents).unwrap();
    (folder, path)
}

/// Returns all parts of a grouped file.
pub(crate) fn items(path: &Path, options: &ReadOptions) -> Result<Vec<Item>, ReadError> {
    let mut reader = GroupedReader::open(path, options)?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok(items)
}

/// Reads a `.traceg` file. Returns its error as line and fault.
pub(crate) fn fault_with(text: &str, options: &ReadOptions) -> Option<(u64, Fault)> {
    let (_folder, path) = file("kernel-1.traceg", text);
    let error = items(&path, options).err()?;
    assert_eq!(error.path, path);
    Some((error.line, error.fault))
}

/// As [`fault_with`], with the default options.
pub(crate) fn fault(text: &str) -> Option<(u64, Fault)> {
    fault_with(text, &ReadOptions::default())
}
