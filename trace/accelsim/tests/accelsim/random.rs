//! Random traces: what is written is read back in every form, and damaged files are faults.

use std::path::Path;

use margay_accelsim::{
    Addresses, Cluster, CtaText, CtaTrace, Dim3, Extra, GroupOptions, GroupedWriter, Header,
    Instruction, Opcode, Output, PackedWriter, RawReader, RawText, RawWriter, ReadOptions,
    Register, RegisterKind, RegisterValue, Sources, TensorAccess, TensorAddresses, WarpTrace,
    compare, count, group,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::files::ctas;
use crate::support::{VECADD, header, items};

fn register(version: u32) -> BoxedStrategy<Register> {
    use RegisterKind::{General, Predicate, Uniform, UniformPredicate};
    let kinds = match version {
        6 => vec![General, Uniform, Predicate, UniformPredicate],
        _ => vec![General],
    };
    let kind = prop::sample::select(kinds);
    let number = prop_oneof![0u32..256, 0u32..1 << 30];
    (kind, number)
        .prop_map(|(kind, number)| Register::new(kind, number).unwrap())
        .boxed()
}

fn addresses(mask: u32) -> impl Strategy<Value = Addresses> {
    let count = mask.count_ones() as i64;
    let irregular = vec(any::<u64>(), count as usize);
    let step = prop_oneof![-64i64..64, any::<i64>()];
    let regular = (any::<u64>(), step).prop_map(move |(base, step)| {
        let lanes = 0..count;
        let address = |lane| base.wrapping_add_signed(step.wrapping_mul(lane));
        lanes.map(address).collect::<Vec<_>>()
    });
    let lanes = prop_oneof![irregular, regular];
    (lanes, any::<bool>()).prop_map(move |(lanes, is_list)| match is_list {
        true => Addresses::list(&lanes),
        false => Addresses::compress(mask, &lanes),
    })
}

fn value() -> impl Strategy<Value = RegisterValue> {
    prop_oneof![
        any::<u64>().prop_map(RegisterValue::Same),
        any::<[u64; 32]>().prop_map(|lanes| RegisterValue::Lanes(Box::new(lanes))),
    ]
}

fn tensor() -> impl Strategy<Value = TensorAccess> {
    let list = vec(any::<u64>(), 0..5).prop_map(TensorAddresses::List);
    let deltas = (any::<u64>(), vec(any::<i64>(), 0..5))
        .prop_map(|(base, deltas)| TensorAddresses::Deltas { base, deltas });
    let addresses = prop_oneof![list, deltas];
    (any::<[u64; 3]>(), any::<Option<u64>>(), addresses).prop_map(
        |([barrier, bytes, out_of_bounds_bytes], cta_mask, addresses)| TensorAccess {
            barrier,
            cta_mask,
            bytes,
            out_of_bounds_bytes,
            addresses,
        },
    )
}

/// Adds the columns of version 6 to an instruction.
fn extend(instruction: Instruction) -> BoxedStrategy<Instruction> {
    let registers = usize::from(instruction.destination.is_some()) + instruction.sources.len();
    let values = prop_oneof![Just(0), Just(registers)].prop_flat_map(|count| vec(value(), count));
    let name = instruction.opcode.name().to_owned();
    (any::<Option<i64>>(), values, tensor(), any::<u64>())
        .prop_map(move |(second_immediate, values, tensor, flag)| {
            let is_tensor = name.starts_with("UTM");
            let extra = Extra {
                commit_group: name.contains("GMMA").then_some(flag),
                tensor: is_tensor.then_some(tensor),
                second_immediate,
                values,
            };
            let mut instruction = instruction.clone();
            instruction.width = if is_tensor { 4 } else { instruction.width };
            instruction.extra = (extra != Extra::default()).then(|| Box::new(extra));
            instruction
        })
        .boxed()
}

fn instruction(version: u32, has_lines: bool) -> BoxedStrategy<Instruction> {
    let mut opcodes = vec![
        "MOV",
        "FADD.FTZ",
        "LDG.E.64.SYS",
        "LDS.U8",
        "STG.E",
        "ATOMG.E.ADD",
        "DEPBAR.LE",
        "NOP",
        "LDC",
    ];
    if version == 6 {
        opcodes.extend(["HGMMA.64x8x16.F32", "UTMALDG.2D"]);
    }
    let registers = (
        prop::option::of(register(version)),
        vec(register(version), 0..=4),
    );
    let facts = (
        prop::sample::select(opcodes),
        any::<u32>(),
        any::<u64>(),
        any::<u32>(),
    );
    let mask = prop_oneof![Just(u32::MAX), Just(0), any::<u32>()];
    (facts, registers, mask)
        .prop_flat_map(
            move |((opcode, line, pc, width), (destination, sources), mask)| {
                let opcode = Opcode::new(opcode).unwrap();
                let immediate = if version < 4 {
                    Just(0).boxed()
                } else {
                    any::<i64>().boxed()
                };
                (addresses(mask), immediate).prop_map(move |(addresses, immediate)| {
                    let mut instruction = Instruction::new(pc, mask, opcode.clone());
                    instruction.line = has_lines.then_some(line);
                    instruction.destination = destination.filter(|_| !opcode.forbids_destination());
                    instruction.sources = Sources::new(&sources).unwrap();
                    instruction.immediate = immediate;
                    if opcode.memory().is_some() {
                        instruction.width = width.max(1);
                        instruction.addresses = Some(addresses);
                    }
                    instruction
                })
            },
        )
        .prop_flat_map(move |instruction| match version {
            6 => extend(instruction),
            _ => Just(instruction).boxed(),
        })
        .boxed()
}

/// Returns a trace with a CTA of two warps, of which the second has 8 lanes, for each list of instructions.
fn trace() -> impl Strategy<Value = (Header, Vec<CtaTrace>)> {
    (3u32..=6, any::<bool>()).prop_flat_map(|(version, line_numbers)| {
        let warp = vec(instruction(version, line_numbers), 0..12);
        vec([warp.clone(), warp], 1..4).prop_map(move |blocks| {
            let header = Header {
                tracer_version: version,
                line_numbers,
                kernel_id: 1,
                ..Header::new(
                    "k",
                    1,
                    Dim3::new(1, blocks.len() as u32, 1),
                    Dim3::new(20, 2, 1),
                )
            };
            let blocks = blocks.into_iter().enumerate();
            let ctas = blocks.map(|(y, warps)| cta(y as u32, warps, &header));
            (header.clone(), ctas.collect())
        })
    })
}

fn cta(y: u32, warps: [Vec<Instruction>; 2], header: &Header) -> CtaTrace {
    let warps = (0..).zip(warps).map(|(warp, mut instructions)| {
        let mut exit = Instruction::new(0x70, header.lanes(warp), Opcode::new("EXIT").unwrap());
        exit.line = header.line_numbers.then_some(1);
        instructions.push(exit);
        WarpTrace { warp, instructions }
    });
    CtaTrace {
        cta: Dim3::new(0, y, 0),
        cluster: (header.tracer_version == 6).then_some(Cluster {
            id: Dim3::new(0, y, 0),
            cta: Dim3::new(0, 0, 0),
            rank: 0,
        }),
        warps: warps.collect(),
    }
}

fn text(header: &Header, cta: &CtaTrace) -> CtaText {
    let mut text = CtaText::new(header.format(), cta.cta, cta.warps.len() as u32);
    text.cluster = cta.cluster;
    for warp in &cta.warps {
        for instruction in &warp.instructions {
            text.push(warp.warp, instruction).unwrap();
        }
    }
    text
}

fn write_grouped(path: &Path, header: &Header, ctas: &[CtaTrace]) {
    let mut writer = GroupedWriter::new(Output::create(path).unwrap(), header).unwrap();
    for cta in ctas {
        writer.write_cta(&text(header, cta)).unwrap();
    }
    writer.finish().unwrap().finish().unwrap();
}

fn write_packed(path: &Path, header: &Header, ctas: &[CtaTrace]) {
    let mut writer = PackedWriter::new(Output::create(path).unwrap(), header).unwrap();
    for cta in ctas {
        writer.write_cta(&text(header, cta)).unwrap();
    }
    writer.finish().unwrap().finish().unwrap();
}

/// Writes a raw trace, whose warps take turns, from the last CTA to the first.
fn write_raw(path: &Path, header: &Header, ctas: &[CtaTrace]) {
    let mut writer = RawWriter::new(Output::create(path).unwrap(), header).unwrap();
    let warps = ctas.iter().rev().flat_map(|cta| {
        let warps = cta.warps.iter();
        warps.map(|warp| (cta.cta, warp.warp, &warp.instructions))
    });
    let warps: Vec<_> = warps.collect();
    let longest = warps
        .iter()
        .map(|(_, _, lines)| lines.len())
        .max()
        .unwrap_or(0);
    let mut text = RawText::new(header.format());
    for index in 0..longest {
        for (cta, warp, lines) in &warps {
            if let Some(line) = lines.get(index) {
                text.push(*cta, *warp, None, line).unwrap();
            }
        }
    }
    writer.write(&text).unwrap();
    writer.finish().unwrap().finish().unwrap();
}

fn options() -> ReadOptions {
    ReadOptions {
        unknown_opcodes: true,
        ..ReadOptions::default()
    }
}

fn group_options(memory: usize) -> GroupOptions {
    GroupOptions {
        read: options(),
        memory,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_form_holds_the_same_records((header, expected) in trace(), memory in 0usize..4000) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let forms = ["a.traceg", "b.traceg.xz", "c.tracez"];
        write_grouped(&path(forms[0]), &header, &expected);
        write_grouped(&path(forms[1]), &header, &expected);
        write_packed(&path(forms[2]), &header, &expected);
        for form in forms {
            let (read, mut found) = ctas(&path(form), &options());
            prop_assert_eq!(&read, &header);
            if header.tracer_version < 6 {
                found.iter_mut().for_each(|cta| cta.cluster = None);
            }
            prop_assert_eq!(&found, &expected, "{}", form);
        }
        write_raw(&path("d.trace"), &header, &expected);
        let grouped = path("e.traceg");
        let report = group(&path("d.trace"), &grouped, &group_options(memory)).unwrap();
        prop_assert_eq!(report.ctas, expected.len() as u64);
        prop_assert_eq!(report.missing_ctas, 0);
        let written = std::fs::read(&grouped).unwrap();
        if header.tracer_version < 6 {
            // A raw trace does not have the clusters.
            prop_assert!(written == std::fs::read(path(forms[0])).unwrap());
        }
        let counts = count(&path(forms[0]), &options()).unwrap();
        for other in ["c.tracez", "d.trace", "e.traceg"] {
            prop_assert_eq!(&count(&path(other), &options()).unwrap(), &counts);
            let comparison = compare(&path("b.traceg.xz"), &path(other), &group_options(1 << 20));
            let comparison = comparison.unwrap();
            prop_assert_eq!(comparison.difference, None);
            prop_assert_eq!(comparison.instructions, counts.warp_instructions);
        }
    }

    #[test]
    fn random_bytes_are_faults(bytes in vec(any::<u8>(), 0..300)) {
        check_all_forms(&bytes);
    }

    #[test]
    fn random_lines_are_read_or_refused(
        version in 0u32..=6,
        lines in vec("0000 ffffffff (0|1 R1|2) (MOV|LDG|STG|EXIT|HGMMA|UTMALDG) (0|1 R1|2 R1 UR2) ((0|1|2|4|32|0x10|-4|99999999999999999999|Val|NoVal|R1) ){0,9}", 1..4),
        ending in "(#END_TB|#BEGIN_TB|warp = 1\ninsts = 9|cluster rank = x|insts = 0|)",
    ) {
        let count = lines.len();
        let block = format!("#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\ninsts = {count}\n");
        let prefix = if version < 3 { "0 0 0 0 " } else { "" };
        let text: String = lines.iter().map(|line| format!("{prefix}{line}\n")).collect();
        let text = header(1, 70, version) + &block + &text + &ending;
        check("a.traceg", text.as_bytes());
        let raw: String = lines.iter().map(|line| format!("0 0 0 0 {line}\n")).collect();
        check("a.trace", (header(1, 70, version) + &raw + &ending).as_bytes());
    }

    #[test]
    fn damaged_files_are_read_or_refused(
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..4),
        file in 0usize..6,
    ) {
        let (name, mut bytes) = seed(file);
        for (index, byte, kind) in changes {
            if bytes.is_empty() {
                break;
            }
            let index = index.index(bytes.len());
            match kind {
                0 => bytes[index] = byte,
                1 => bytes.insert(index, byte),
                _ => drop(bytes.remove(index)),
            }
        }
        check(name, &bytes);
    }
}

/// Returns a valid file and its name.
fn seed(number: usize) -> (&'static str, Vec<u8>) {
    let names = [
        "kernel-3.traceg",
        "kernel-3.traceg.xz",
        "plain.tracez",
        "content.tracez",
        "trained.tracez",
    ];
    match names.get(number) {
        Some(name) => {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accelsim/data");
            (name, std::fs::read(folder.join(name)).unwrap())
        }
        None => ("kernel-1.traceg", (header(1, 70, 5) + VECADD).into_bytes()),
    }
}

fn check_all_forms(bytes: &[u8]) {
    for name in ["a.trace", "a.traceg", "a.traceg.xz", "a.tracez"] {
        check(name, bytes);
    }
}

/// Reads a file to its end or fault, with all options that accept more.
fn check(name: &str, bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let options = ReadOptions {
        five_sources: true,
        empty_warps: true,
        unknown_opcodes: true,
        max_text: 1 << 24,
        ..ReadOptions::default()
    };
    if name.ends_with(".trace") {
        if let Ok(mut reader) = RawReader::open(&path, &options) {
            while let Ok(Some(_)) = reader.next_line() {}
        }
        return;
    }
    let _ = items(&path, &options);
    let _ = count(&path, &options);
}
