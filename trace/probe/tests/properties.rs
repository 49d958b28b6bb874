//! Properties of arbitrary input: no panic, and what is written is read back.

mod support;

use std::sync::Arc;

use margay_frontend::resolve::resolve;
use margay_frontend::{SourceFile, parse};
use margay_probe::{
    CHUNK_HEADER_BYTES, Faults, Geometry, HEADER_BYTES, MapLayout, Offsets, Options, Outcome,
    ResultFile, Selection, Storage, Trace, compat, load_dsl, load_toml, rewrite,
};
use proptest::prelude::*;
use support::{VECADD, shipped};

/// Takes chunks as a kernel does, for saves of the slots in this order. Returns the memory.
fn save(layout: &MapLayout, saves: &[usize], slots: usize, bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    memory[..HEADER_BYTES as usize].copy_from_slice(&layout.header(bytes as u64));
    let mut next = HEADER_BYTES as usize;
    // For each slot: start of the chunk, used bytes, space, and space of the next chunk.
    let mut state = vec![(0, 0, 0, layout.first_chunk() as usize); slots];
    let header = CHUNK_HEADER_BYTES as usize;
    for (number, &slot) in saves.iter().enumerate() {
        let (chunk, used, space, grow) = &mut state[slot];
        if used == space {
            let start = next;
            next += header + *grow;
            if next > bytes {
                memory[16] += 1;
                continue;
            }
            (*chunk, *used, *space) = (start, 0, *grow);
            memory[start..start + 8].copy_from_slice(&(slot as u64).to_le_bytes());
            memory[start + 8..start + 12].copy_from_slice(&(*grow as u32).to_le_bytes());
            *grow = (2 * *grow).min(layout.chunk_bytes() as usize);
        }
        let at = *chunk + header + *used;
        memory[at..at + 8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
        *used += layout.record as usize;
        memory[*chunk + 12..*chunk + 16].copy_from_slice(&(*used as u32).to_le_bytes());
    }
    memory[..8].copy_from_slice(&(next as u64).to_le_bytes());
    memory
}

fn dynamic() -> MapLayout {
    MapLayout::new(&shipped("dmat").maps[0], Storage::Counted)
}

fn launch(threads: u32) -> Geometry {
    Geometry {
        grid: [1, 1, 1],
        block: [threads, 1, 1],
        shared: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dynamic_records_are_read_back_in_order(saves in prop::collection::vec(0..7_usize, 0..200)) {
        let layout = dynamic();
        let memory = save(&layout, &saves, 7, 1 << 16);
        let section = layout.section(&memory, &launch(7)).expect("the memory is sound");
        let mut file = Vec::new();
        let result = ResultFile { launch: launch(7), sections: vec![section], offsets: Offsets::Exact };
        result.write(&mut file).expect("a vector accepts all bytes");
        let trace = Trace::read(&file).expect("the file is sound");
        let own = |slot: usize| {
            let numbers = saves.iter().enumerate().filter(move |(_, saved)| **saved == slot);
            numbers.map(|(number, _)| number as u64 + 1).collect::<Vec<_>>()
        };
        let longest = (0..7).map(|slot| own(slot).len()).max().unwrap_or(0);
        prop_assert_eq!(trace.sections[0].slot_bytes as usize, 16 * longest);
        for slot in 0..7 {
            let words = support::words(trace.slot(0, slot as u64).expect("the slot is there"));
            let mut found: Vec<u64> = words.chunks(2).map(|record| record[0]).collect();
            while found.last() == Some(&0) {
                found.pop();
            }
            prop_assert_eq!(found, own(slot));
        }
    }

    #[test]
    fn a_full_memory_is_read_to_its_last_chunk(saves in prop::collection::vec(0..7_usize, 0..60), bytes in 32..1200_usize) {
        let layout = dynamic();
        let memory = save(&layout, &saves, 7, bytes);
        let section = layout.section(&memory, &launch(7)).expect("the memory is sound");
        prop_assert_eq!(section.dropped, u64::from(memory[16]));
    }

    #[test]
    fn damaged_memory_is_an_error(at in 0..400_usize, value: u8, size in 0..500_usize) {
        let layout = dynamic();
        let mut memory = save(&layout, &[0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0], 7, 1024);
        memory[at] = value;
        memory.truncate(size);
        if let Ok(section) = layout.section(&memory, &launch(7)) {
            let mut out = std::io::sink();
            if section.bytes() < 1 << 20 {
                prop_assert!(section.write(&mut out).is_ok());
            }
        }
    }

    #[test]
    fn arbitrary_result_files_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), grid in 0..3_u8) {
        let mut bytes = bytes;
        for at in [0, 4, 8, 12, 16, 20, 28] {
            if let Some(slot) = bytes.get_mut(at..at + 4) {
                slot.copy_from_slice(&[grid, 0, 0, 0]);
            }
        }
        if let Ok(trace) = Trace::read(&bytes) {
            for section in 0..trace.sections.len() {
                let _ = trace.slot(section, 0);
                prop_assert!(trace.slot(section, u64::MAX).is_none());
            }
        }
    }

    #[test]
    fn arbitrary_probe_files_do_not_panic(text in "(?s).{0,200}") {
        let _ = load_toml("p.toml", &text);
        let _ = load_dsl("p.py", &text, Faults::Fixed);
    }

    #[test]
    fn arbitrary_snippets_give_valid_text_or_an_error(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "add.u64", "mov.u64", "%NR0", "%NR1", "ADDR", "OUT", "IN1", "BYTES", ",", ";", ";", "{", "}", "SAVE",
                "[", "]", "M", "@", "!", "%p1", "L", ":", "bra", ".reg", ".pred", ".u64", "%q", "1", "-", "\"", "//", "<", ">",
                "SAVE [ M ] { %NR0 };", "add.u64 %NR0, %NR0, 1;", "mov.u64 %NR0, ADDR;", "{ .reg .u64 %q; mov.u64 %q, 1; }",
                "\n", "/*", "*/", "ret", "%smid", "setp.eq.u64", ".reg .pred %p1;",
            ]),
            0..12,
        ),
        warp: bool,
        point in prop::sample::select(vec!["ld.global", "kernel", "bra", "st", "ret", "setp", "@%p1 bra", "mov"]),
    ) {
        let level = if warp { "warp" } else { "thread" };
        let snippet = words.join(" ").replace('\\', "\\\\");
        let text = format!(
            "[probe.a]\npos = \"{point}\"\nlevel = \"{level}\"\nbefore = '''{snippet}'''\nafter = '''{snippet}'''\n\
             [map.M]\nlevel = \"{level}\"\ntype = \"array\"\nsize = 8\ncap = 1\n[map.M.regs]\na = \"u64\"\n"
        );
        let Ok(file) = load_toml("p.toml", &text) else {
            return Ok(());
        };
        let parsed = parse(Arc::new(SourceFile::new("vecadd.ptx", VECADD)));
        let done = rewrite(&parsed, &file, &Selection::default(), Options::default()).expect("the module is valid");
        let new = parse(Arc::new(SourceFile::new("probed.ptx", done.text.as_str())));
        prop_assert!(!new.has_errors() && !resolve(&new).has_errors());
        if matches!(done.kernels[0].outcome, Outcome::Failed(_)) {
            prop_assert_eq!(done.text, VECADD);
        }
        let _ = compat::probe("vecadd.ptx", VECADD, "vecadd", &file);
    }

    #[test]
    fn arbitrary_texts_do_not_panic_in_the_original_manner(cut in 0..1400_usize, add in ".{0,3}") {
        let cut = (0..=cut.min(VECADD.len())).rev().find(|&at| VECADD.is_char_boundary(at)).unwrap_or(0);
        let text = format!("{}{add}{}", &VECADD[..cut], &VECADD[(cut + 9).min(VECADD.len())..]);
        let _ = compat::probe("t.ptx", &text, "vecadd", &shipped("dmat"));
        let parsed = parse(Arc::new(SourceFile::new("t.ptx", text)));
        let _ = rewrite(&parsed, &shipped("dmat"), &Selection::default(), Options::default());
    }
}
