//! Grouping, counting, comparing and listing.

use std::path::{Path, PathBuf};

use margay_accelsim::{
    AddressStyle, Class, Command, CommandList, Core, Dim3, Error, Fault, Filter, GroupOptions,
    GroupReport, MemoryKind, RawText, RawWriter, ReadOptions, Space, compare, count, group,
    group_list, kernel_files, show,
};
use tempfile::TempDir;

use crate::files::{GROUPED, HEADER, copy, exit, shared, two_ctas};
use crate::support::{VECADD, file, header};

/// Writes a raw trace whose grouped form is [`GROUPED`].
fn raw(core: Option<Core>) -> (TempDir, PathBuf) {
    let header = two_ctas();
    let mut text = RawText::new(header.format());
    for x in [1, 0] {
        let cta = Dim3::new(x, 0, 0);
        text.push_copy(cta, 1, core, &copy(), shared()).unwrap();
        text.push(cta, 0, core, &exit(u32::MAX)).unwrap();
        text.push(cta, 1, core, &exit(0xff)).unwrap();
    }
    let mut writer = RawWriter::new(Vec::new(), &header).unwrap();
    writer.write(&text).unwrap();
    file("kernel-2.trace", writer.finish().unwrap())
}

#[test]
fn a_raw_trace_is_grouped_without_the_shared_lines_of_copies() {
    for core in [None, Some(Core { core: 5, warp: 63 })] {
        let (folder, path) = raw(core);
        let grouped = folder.path().join("kernel-2.traceg");
        let report = group(&path, &grouped, &GroupOptions::default()).unwrap();
        let expected = GroupReport {
            ctas: 2,
            missing_ctas: 0,
            empty_warps: 0,
            lines: 6,
        };
        assert_eq!(report, expected);
        let written = std::fs::read_to_string(&grouped).unwrap();
        assert_eq!(written, HEADER.to_owned() + GROUPED);
    }
}

/// The output is that of the original post-processor for this input.
#[test]
fn empty_warps_are_listed() {
    let header = header(2, 70, 3).replace("(32,1,1)", "(64,1,1)");
    let lines = "\
1 0 0 1 0000 ffffffff 0 EXIT 0 0 
0 0 0 1 0000 ffffffff 1 R1 MOV 0 0 
0 0 0 0 0000 ffffffff 0 EXIT 0 0 
0 0 0 1 0010 ffffffff 0 EXIT 0 0 
";
    let (folder, path) = file("kernel-1.trace", header.clone() + lines);
    let grouped = folder.path().join("kernel-1.traceg");
    let report = group(&path, &grouped, &GroupOptions::default()).unwrap();
    assert_eq!((report.empty_warps, report.missing_ctas), (1, 0));
    let expected = "


#BEGIN_TB

thread block = 0,0,0

warp = 0
insts = 1
0000 ffffffff 0 EXIT 0 0 

warp = 1
insts = 2
0000 ffffffff 1 R1 MOV 0 0 
0010 ffffffff 0 EXIT 0 0 

#END_TB

#BEGIN_TB

thread block = 1,0,0

warp = 0
insts = 0

warp = 1
insts = 1
0000 ffffffff 0 EXIT 0 0 

#END_TB
";
    assert_eq!(
        std::fs::read_to_string(&grouped).unwrap(),
        header.trim_end().to_owned() + "\n" + expected
    );
}

#[test]
fn ctas_without_lines_are_reported() {
    let text = header(3, 70, 5) + "2 0 0 0 0070 ffffffff 0 EXIT 0 0 0 \n";
    let (folder, path) = file("kernel-1.trace", text);
    let grouped = folder.path().join("kernel-1.traceg");
    let report = group(&path, &grouped, &GroupOptions::default()).unwrap();
    assert_eq!((report.ctas, report.missing_ctas), (1, 2));
}

fn read_fault(error: Error) -> Fault {
    match error {
        Error::Read(error) => error.fault,
        error => panic!("{error}"),
    }
}

#[test]
fn half_copies_are_faults() {
    let line = "0 0 0 0 0010 00000001 0 LDGSTS.E 1 R2 4 2 0x40 0 \n";
    let exit = "0 0 0 0 0070 ffffffff 0 EXIT 0 0 0 \n";
    let (folder, path) = file("a.trace", header(1, 80, 5) + line + exit);
    let grouped = folder.path().join("a.traceg");
    let error = group(&path, &grouped, &GroupOptions::default()).unwrap_err();
    let cta = Dim3::new(0, 0, 0);
    assert_eq!(read_fault(error), Fault::HalfCopy { cta, warp: 0 });
}

#[test]
fn old_versions_keep_their_prefix() {
    let line = "0 0 0 0 0070 ffffffff 0 EXIT 0 0 ";
    let (folder, path) = file("a.trace", header(1, 70, 2) + line + "\n");
    let grouped = folder.path().join("a.traceg");
    group(&path, &grouped, &GroupOptions::default()).unwrap();
    let text = std::fs::read_to_string(&grouped).unwrap();
    assert!(text.contains(&format!("insts = 1\n{line}\n")), "{text}");
    count(&grouped, &ReadOptions::default()).unwrap();
}

#[test]
fn the_kernels_of_a_list_are_grouped() {
    let (folder, _) = raw(None);
    let list = folder.path().join("kernelslist");
    std::fs::write(&list, "MemcpyHtoD,0x0000000000000010,4\nkernel-2.trace\n").unwrap();
    group_list(&list, &GroupOptions::default()).unwrap();
    let grouped = CommandList::read(&folder.path().join("kernelslist.g")).unwrap();
    let commands = [
        Command::MemcpyHtoD {
            address: 0x10,
            bytes: 4,
        },
        Command::Kernel("kernel-2.traceg".to_owned()),
    ];
    assert_eq!(
        grouped.commands,
        [(1, commands[0].clone()), (2, commands[1].clone())]
    );
    assert_eq!(
        kernel_files(folder.path()).unwrap(),
        [folder.path().join("kernel-2.traceg")]
    );
    let raw_list = compare(&list, folder.path(), &GroupOptions::default()).unwrap();
    assert_eq!((raw_list.kernels, raw_list.difference), (1, None));
}

#[test]
fn counts_are_those_of_the_simulator() {
    // Two CTAs of 64 threads: the simulator counts 960 thread instructions.
    let block = VECADD.strip_suffix("\n#END_TB\n").unwrap();
    let warp = block.split_once("\nwarp = 0").unwrap().1;
    let cta = format!("{block}\nwarp = 1{warp}\n#END_TB\n");
    let second = cta.replace("0,0,0", "1,0,0");
    let text = header(2, 70, 5).replace("(32,1,1)", "(64,1,1)") + &cta + &second;
    let (_folder, path) = file("kernel-1.traceg", text);
    let counts = count(&path, &ReadOptions::default()).unwrap();
    assert_eq!(counts.thread_instructions, 960);
    assert_eq!((counts.ctas, counts.warps), (2, 4));
    assert_eq!(counts.warp_instructions, 32);
    let loads = counts.memory[&(Space::Global, MemoryKind::Load)];
    assert_eq!((loads.instructions, loads.lanes), (8, 256));
    assert_eq!((loads.bytes, loads.sectors), (1024, 32));
    let stores = counts.memory[&(Space::Global, MemoryKind::Store)];
    assert_eq!((stores.instructions, stores.sectors), (4, 8));
    assert_eq!(counts.memory.len(), 2);
    assert_eq!(counts.classes[&Class::Load], 8);
    assert_eq!(counts.classes[&Class::Alu], 8);
    assert_eq!(counts.opcodes["EXIT"].warp_instructions, 4);
    assert_eq!(counts.opcodes["STG.E.SYS"].thread_instructions, 64);
}

#[test]
fn copies_count_once_in_raw_traces() {
    let (folder, path) = raw(None);
    let grouped = folder.path().join("kernel-2.traceg");
    group(&path, &grouped, &GroupOptions::default()).unwrap();
    let options = ReadOptions::default();
    let counts = count(&path, &options).unwrap();
    assert_eq!(counts, count(&grouped, &options).unwrap());
    let copies = counts.memory[&(Space::Global, MemoryKind::Copy)];
    assert_eq!((copies.instructions, copies.sectors), (2, 8));
}

fn difference(from: &str, to: &str) -> Option<String> {
    let (folder, first) = raw(None);
    let second = folder.path().join("kernel-2.traceg");
    let text = (HEADER.to_owned() + GROUPED).replacen(from, to, 1);
    std::fs::write(&second, text).unwrap();
    let comparison = compare(&first, &second, &GroupOptions::default()).unwrap();
    let difference = comparison.difference?;
    let folder = format!("{}/", folder.path().display());
    Some(difference.to_string().replace(&folder, ""))
}

#[test]
fn the_first_difference_is_named() {
    assert_eq!(difference("margay 0.1", "other"), None);
    assert_eq!(difference("1 0x7f0000000000 16", LIST), None);
    assert_eq!(
        difference("-nregs = 32", "-nregs = 33").unwrap(),
        "kernel-2.trace:0 and kernel-2.traceg:0: registers: 32 and 33"
    );
    assert_eq!(
        difference("2 R2 R4 16 1", "2 R2 R5 16 1").unwrap(),
        "kernel-2.trace:22 and kernel-2.traceg:29, CTA 0,0,0, warp 1, instruction 0: \
         sources: [R2, R4] and [R2, R5]"
    );
    assert_eq!(
        difference("0020 000000ff 0 EXIT 0 0 0", "0020 000000ff 0 EXIT 0 0 9").unwrap(),
        "kernel-2.trace:24 and kernel-2.traceg:30, CTA 0,0,0, warp 1, instruction 1: immediate: 0 and 9"
    );
    assert_eq!(
        difference("thread block = 0,0,0", "thread block = 1,0,0").unwrap(),
        "kernel-2.trace:0 and kernel-2.traceg:23, CTA 0,0,0: CTA: CTA 0,0,0 and CTA 1,0,0"
    );
}

/// The addresses of the copies of [`GROUPED`] as a list.
const LIST: &str = "0 0x7f0000000000 0x7f0000000010 0x7f0000000020 0x7f0000000030 0x7f0000000040 0x7f0000000050 0x7f0000000060 0x7f0000000070";

#[test]
fn listings_can_be_filtered() {
    let (_folder, path) = file("kernel-2.traceg", HEADER.to_owned() + GROUPED);
    let listing = |filter: &Filter| {
        let mut out = Vec::new();
        show(&path, filter, &ReadOptions::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let filter = Filter {
        cta: Some(Dim3::new(1, 0, 0)),
        warp: Some(1),
        ..Filter::default()
    };
    assert_eq!(
        listing(&filter),
        "\
kernel 2 _Z4copyPf: grid (2,1,1), block (40,1,1), 256 bytes shared, 32 registers, stream 7
binary version 80, tracer version 5 (margay 0.1)
CTA 1,0,0 warp 1
  0010 000000ff LDGSTS.E.128             <- R2 R4         global copy of 16 bytes at 0x7f0000000000 stride 16
  0020 000000ff EXIT
"
    );
    let lanes = Filter {
        addresses: AddressStyle::Lanes,
        ..filter.clone()
    };
    assert!(listing(&lanes).contains("of 16 bytes 0:0x7f0000000000 1:0x7f0000000010 2:"));
    assert_eq!(listing(&Filter::default()).matches("EXIT").count(), 4);
    let kernel = |kernel: &str| {
        let filter = Filter {
            kernel: Some(kernel.to_owned()),
            ..filter.clone()
        };
        listing(&filter).lines().count()
    };
    assert_eq!((kernel("2"), kernel("copy")), (5, 5));
    assert_eq!((kernel("1"), kernel("move")), (0, 0));
}

#[test]
fn errors_of_a_missing_file_name_it() {
    let missing = Path::new("/nowhere/kernel-1.trace");
    let target = Path::new("/nowhere/kernel-1.traceg");
    let error = group(missing, target, &GroupOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/kernel-1.trace: "));
}
