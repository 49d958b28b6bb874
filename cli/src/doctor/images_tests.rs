//! Tests with ELF files, fat binaries and archives that this file builds, and with damaged copies of them.

use std::io::Write;

use super::*;
use crate::doctor::tally::Count;

/// Returns an entry of a fat binary: kind (1: PTX, 2: cubin), architecture, flags and payload.
fn entry(kind: u16, sm: u32, flags: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[0..2].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&64u32.to_le_bytes());
    bytes[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes[28..32].copy_from_slice(&sm.to_le_bytes());
    bytes[40..48].copy_from_slice(&flags.to_le_bytes());
    bytes.extend(payload);
    bytes
}

fn fat_binary(entries: &[Vec<u8>]) -> Vec<u8> {
    let body = entries.concat();
    let mut bytes = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Returns an ELF file for `machine` that consists of the given sections.
fn elf(machine: u16, sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    let names: String = sections
        .iter()
        .map(|(name, _)| format!("{name}\0"))
        .collect();
    let names = format!("\0{names}");
    let mut headers = vec![0; 64];
    let mut name = 1u32;
    for (title, data) in sections.iter().copied().chain([("", names.as_bytes())]) {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let mut header = vec![0; 64];
        header[..4].copy_from_slice(&(if title.is_empty() { 0 } else { name }).to_le_bytes());
        header[4] = 1;
        header[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(data.len() as u64).to_le_bytes());
        headers.extend(header);
        name += title.len() as u32 + 1;
        bytes.extend(data);
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let (table, count) = (bytes.len() as u64, sections.len() as u16 + 2);
    bytes[40..48].copy_from_slice(&table.to_le_bytes());
    bytes[58..60].copy_from_slice(&64u16.to_le_bytes());
    bytes[60..62].copy_from_slice(&count.to_le_bytes());
    bytes[62..64].copy_from_slice(&(count - 1).to_le_bytes());
    bytes.extend(headers);
    bytes
}

const X86_64: u16 = 62;

/// A library with four images: PTX and machine code, machine code only, link-time code, and one that linkers add.
fn library() -> Vec<u8> {
    let stub = elf(EM_CUDA, &[(".shstrtab", b"")]);
    let code = elf(EM_CUDA, &[(".text.kernel", b"code")]);
    let images = [
        fat_binary(&[entry(2, 80, 0, &code), entry(1, 90, 0x2000, b"compressed")]),
        fat_binary(&[entry(2, 80, 0, &code), entry(2, 90, 0x10_0000, &code)]),
        fat_binary(&[entry(8, 75, 0, b"LTO")]),
        fat_binary(&[entry(2, 52, 0, &stub)]),
    ];
    let section = [vec![0; 16], images.concat()].concat();
    elf(
        X86_64,
        &[
            (".rodata", b"_Z6kernelv\0"),
            (".nv_fatbin", &section),
            (".text", b"host"),
        ],
    )
}

fn contents(bytes: &[u8]) -> Contents {
    let mut file = tempfile();
    file.write_all(bytes).expect("written");
    read(Window::new(&file, 0, bytes.len() as u64))
}

/// Returns an empty file without a name.
fn tempfile() -> std::fs::File {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("margay-images-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .expect("a file");
    std::fs::remove_file(&path).expect("removed");
    file
}

const FOUND: Count = Count {
    ptx: 1,
    machine: 1,
    other: 1,
};

#[test]
fn libraries_objects_and_images_are_read() {
    let library = library();
    let found = contents(&library);
    assert_eq!(found.problem, None);
    assert_eq!(found.tally.count(), FOUND);
    assert_eq!(found.tally.targets_text(EntryKind::Ptx), "sm_90 1");
    assert_eq!(
        found.tally.targets_text(EntryKind::Cubin),
        "sm_80 2, sm_90a 1"
    );
    assert!(!found.has_cublas);

    let linked = fat_binary(&[entry(1, 75, 0, b"text")]);
    let object = elf(X86_64, &[("__nv_relfatbin", &linked)]);
    assert_eq!(contents(&object).tally.count().ptx, 1);

    let member = |bytes: &[u8]| {
        let mut text = format!("{:<48}{:<10}`\n", "member/", bytes.len()).into_bytes();
        text.extend(bytes);
        text.resize(text.len().next_multiple_of(2), b'\n');
        text
    };
    let archive = [
        b"!<arch>\n".to_vec(),
        member(b"odd"),
        member(&library),
        member(&object),
    ];
    let found = contents(&archive.concat());
    assert_eq!(found.problem, None);
    assert_eq!(found.tally.count(), Count { ptx: 2, ..FOUND });

    let mut cubin = elf(EM_CUDA, &[(".text.kernel", b"code")]);
    cubin[48] = 86;
    assert_eq!(
        contents(&cubin).tally.targets_text(EntryKind::Cubin),
        "sm_86 1"
    );
    let ptx = "// comment\n.version 8.0\n.target sm_90a, debug\n.address_size 64\n";
    assert_eq!(
        contents(ptx.as_bytes()).tally.targets_text(EntryKind::Ptx),
        "sm_90 1"
    );
    assert_eq!(
        contents(&linked).tally.targets_text(EntryKind::Ptx),
        "sm_75 1"
    );
}

#[test]
fn files_without_device_code_cause_no_alarm() {
    let own = std::fs::read(std::env::current_exe().expect("a path")).expect("this program");
    let host = elf(X86_64, &[(".rodata", CUBLAS_KERNEL), (".text", b"host")]);
    let stub = fat_binary(&[entry(2, 52, 0, &elf(EM_CUDA, &[(".shstrtab", b"")]))]);
    let linked = elf(X86_64, &[(".nv_fatbin", &stub)]);
    let text = b"The directive .version is the first one.\n.target".to_vec();
    for bytes in [
        own,
        host,
        linked,
        text,
        Vec::new(),
        b"\x7fELF\x01\x01".to_vec(),
    ] {
        let found = contents(&bytes);
        assert!(found.tally.is_empty(), "{:?}", found.tally);
        assert!(found.problem.is_none() && !found.has_cublas, "{found:?}");
    }
}

#[test]
fn copies_of_cublas_are_found_by_their_kernels() {
    let image = fat_binary(&[entry(2, 80, 0, &vec![1; 20_000])]);
    // The name lies across the end of a piece that is read at once.
    let mut names = vec![b'c'; (1 << 20) - 10];
    names.extend(CUBLAS_KERNEL);
    let library = elf(X86_64, &[(".rodata", &names), (".nv_fatbin", &image)]);
    assert!(contents(&library).has_cublas);
    names.pop();
    let library = elf(X86_64, &[(".rodata", &names), (".nv_fatbin", &image)]);
    assert!(!contents(&library).has_cublas);
}

#[test]
fn images_in_data_are_found_if_the_file_has_device_code() {
    let image = fat_binary(&[entry(1, 50, 0, b"text")]);
    // The magic number alone is no image.
    let data = [
        vec![7; 8],
        image[..8].to_vec(),
        vec![0xff; 16],
        image.clone(),
        image,
    ]
    .concat();
    let library = elf(X86_64, &[(".ldata", &data), (".nv_fatbin", b"")]);
    let found = contents(&library);
    assert_eq!(found.tally.count().ptx, 2);
    // The section begins 4 bytes earlier, which belong to the section before.
    let mut shifted = library.clone();
    let table = u64::from_le_bytes(library[40..48].try_into().unwrap()) as usize;
    shifted[table + 64 + 24] -= 4;
    shifted[table + 64 + 32] += 4;
    assert_eq!(contents(&shifted).tally.count().ptx, 2);
    assert_eq!(found.problem, None);
    let program = elf(X86_64, &[(".ldata", &data)]);
    assert!(contents(&program).tally.is_empty());
}

#[test]
fn damaged_files_are_read_without_panics() {
    let library = library();
    for end in (0..library.len()).step_by(3) {
        let _ = contents(&library[..end]);
    }
    // Each field gets extreme values. Their sums and products overflow 32 and 64 bits.
    let extremes = [
        0,
        1,
        0x7f,
        0xffff,
        u64::from(u32::MAX),
        i64::MAX as u64,
        u64::MAX,
        u64::MAX - 15,
    ];
    let mut copy = library.clone();
    for at in (0..library.len() - 8).step_by(2) {
        for value in extremes {
            copy[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let _ = contents(&copy);
        }
        copy[at..at + 8].copy_from_slice(&library[at..at + 8]);
    }
    assert_eq!(contents(&copy).tally.count(), FOUND);
    let cut = &library[..library.len() - 64];
    let problem = contents(cut).problem.expect("a problem");
    assert_eq!(problem, "the file is cut short or damaged");
}

#[test]
fn the_table_of_sections_can_be_long() {
    let mut library = library();
    // More than 65,279 sections: the fields of the header are 0 and 0xffff, and the first section has the numbers.
    let (table, count) = (library.len() - 6 * 64 + 64, library[60]);
    let table = table.min(u64::from_le_bytes(library[40..48].try_into().unwrap()) as usize);
    library[60..64].copy_from_slice(&[0, 0, 0xff, 0xff]);
    library[table + 32] = count;
    library[table + 40] = count - 1;
    assert_eq!(contents(&library).tally.count(), FOUND);
}
