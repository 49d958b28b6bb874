//! Writing and reading of files: exact bytes, and files of the original tools.
//!
//! The files in `data` hold the same six CTAs. They were written with the `xz` and `zstd` tools from the description of the
//! formats: `trained.tracez` with a dictionary of `zstd --train` and chunks of 4 lines, `content.tracez` with a dictionary
//! without tables and chunks of 5 lines that end without a newline, `plain.tracez` without a dictionary.

use std::path::{Path, PathBuf};

use margay_accelsim::{
    Addresses, Cluster, CtaText, CtaTrace, Dim3, Fault, GroupedReader, GroupedWriter, Header,
    Instruction, Opcode, Output, RawColumns, RawReader, RawText, RawWriter, ReadOptions, Register,
    Sources,
};

use crate::support::{VECADD, file, header, header_of, items};

fn data(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accelsim/data");
    folder.join(name)
}

pub(crate) fn ctas(path: &Path, options: &ReadOptions) -> (Header, Vec<CtaTrace>) {
    let mut reader = GroupedReader::open(path, options).unwrap();
    let mut ctas = Vec::new();
    while let Some(cta) = reader.next_cta().unwrap() {
        ctas.push(cta);
    }
    (reader.header().clone(), ctas)
}

#[test]
fn the_smallest_example_is_read() {
    let text = header(1, 70, 5) + VECADD;
    let (_folder, path) = file("kernel-1.traceg", text);
    let (header, ctas) = ctas(&path, &ReadOptions::default());
    assert_eq!(header.kernel_name, "_Z6vecaddPfS_S_");
    assert_eq!(header.registers, 16);
    assert_eq!(header.shared_base, 0x7f10_0000_0000);
    assert_eq!(ctas.len(), 1);
    let instructions = &ctas[0].warps[0].instructions;
    assert_eq!(instructions.len(), 8);
    let lanes: u32 = instructions.iter().map(|line| line.mask.count_ones()).sum();
    assert_eq!(lanes, 7 * 32 + 16);
    let load = &instructions[4];
    assert_eq!(load.opcode.text(), "LDG.E.SYS");
    assert_eq!(load.destination, Some(Register::general(8)));
    assert_eq!(*load.sources, [Register::general(5)]);
    let addresses = load.addresses.as_ref().unwrap();
    assert_eq!(
        addresses.lanes(load.mask).nth(31),
        Some((31, 0x7f00_0000_107c))
    );
    let store = instructions[6].addresses.as_ref().unwrap();
    assert_eq!(store.lanes(0xffff).last(), Some((15, 0x7f00_0000_203c)));
}

#[test]
fn files_of_other_tools_are_read() {
    let options = ReadOptions::default();
    let (header, expected) = ctas(&data("kernel-3.traceg"), &options);
    assert_eq!(header.kernel_id, 3);
    assert_eq!(expected.len(), 6);
    assert_eq!(expected[5].warps[1].instructions.len(), 14);
    let (_, compressed) = ctas(&data("kernel-3.traceg.xz"), &options);
    assert_eq!(compressed, expected);
    for name in ["plain.tracez", "content.tracez", "trained.tracez"] {
        let (_, mut packed) = ctas(&data(name), &options);
        for cta in &mut packed {
            let Dim3 { x, y, .. } = cta.cta;
            let cluster = Cluster {
                id: Dim3::new(0, y, 0),
                cta: Dim3::new(x, 0, 0),
                rank: x,
            };
            assert_eq!(cta.cluster.take(), Some(cluster));
        }
        assert_eq!(packed, expected, "{name}");
    }
}

#[test]
fn decompression_is_bounded() {
    let error = GroupedReader::open(&data("huge-dictionary.traceg.xz"), &ReadOptions::default());
    let error = error.unwrap_err();
    assert!(matches!(error.fault, Fault::Io(_)), "{error}");
    for name in ["kernel-3.traceg", "kernel-3.traceg.xz", "plain.tracez"] {
        let options = ReadOptions {
            max_text: 1000,
            ..ReadOptions::default()
        };
        let error = items(&data(name), &options).unwrap_err();
        assert_eq!(error.fault, Fault::TextTooLarge(1000), "{name}");
    }
}

#[test]
fn truncated_compressed_files_are_faults() {
    for name in ["kernel-3.traceg.xz", "trained.tracez"] {
        let bytes = std::fs::read(data(name)).unwrap();
        for length in [0, 5, 100, bytes.len() / 2, bytes.len() - 1] {
            let (_folder, path) = file(name, &bytes[..length]);
            assert!(items(&path, &ReadOptions::default()).is_err());
        }
    }
}

/// A header of version 5 for a grid of two CTAs with 40 threads.
pub(crate) fn two_ctas() -> Header {
    Header {
        shared_bytes: 256,
        registers: 32,
        stream: 7,
        shared_base: 0x7f10_0000_0000,
        local_base: 0x7f10_0100_0000,
        nvbit_version: "margay 0.1".to_owned(),
        ..Header::new("_Z4copyPf", 2, Dim3::new(2, 1, 1), Dim3::new(40, 1, 1))
    }
}

pub(crate) fn exit(mask: u32) -> Instruction {
    Instruction::new(0x20, mask, Opcode::new("EXIT").unwrap())
}

pub(crate) fn copy() -> Instruction {
    let mut copy = Instruction::new(0x10, 0xff, Opcode::new("LDGSTS.E.128").unwrap());
    copy.sources = Sources::new(&[Register::general(2), Register::general(4)]).unwrap();
    copy.width = 16;
    copy.addresses = Some(Addresses::Stride {
        base: 0x7f00_0000_0000,
        stride: 16,
    });
    copy
}

pub(crate) fn shared() -> Addresses {
    Addresses::Stride {
        base: 64,
        stride: 16,
    }
}

pub(crate) const HEADER: &str = "\
-kernel name = _Z4copyPf
-kernel id = 2
-grid dim = (2,1,1)
-block dim = (40,1,1)
-shmem = 256
-nregs = 32
-binary version = 80
-cuda stream id = 7
-shmem base_addr = 0x00007f1000000000
-local mem base_addr = 0x00007f1001000000
-nvbit version = margay 0.1
-accelsim tracer version = 5
-enable lineinfo = 0

#traces format = [line_num] PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width [adrrescompress?] [mem_addresses] immediate

";

/// What follows the header in a grouped file, with the empty lines of the original post-processor.
pub(crate) const GROUPED: &str = "

#BEGIN_TB

thread block = 0,0,0

warp = 0
insts = 1
0020 ffffffff 0 EXIT 0 0 0 

warp = 1
insts = 2
0010 000000ff 0 LDGSTS.E.128 2 R2 R4 16 1 0x7f0000000000 16 0 
0020 000000ff 0 EXIT 0 0 0 

#END_TB

#BEGIN_TB

thread block = 1,0,0

warp = 0
insts = 1
0020 ffffffff 0 EXIT 0 0 0 

warp = 1
insts = 2
0010 000000ff 0 LDGSTS.E.128 2 R2 R4 16 1 0x7f0000000000 16 0 
0020 000000ff 0 EXIT 0 0 0 

#END_TB
";

#[test]
fn grouped_files_have_the_bytes_of_the_post_processor() {
    let header = two_ctas();
    let mut writer = GroupedWriter::new(Vec::new(), &header).unwrap();
    let mut text = CtaText::new(header.format(), Dim3::new(0, 0, 0), 2);
    for x in 0..2 {
        text.restart(Dim3::new(x, 0, 0));
        text.push(1, &copy()).unwrap();
        text.push(0, &exit(u32::MAX)).unwrap();
        text.push(1, &exit(0xff)).unwrap();
        writer.write_cta(&text).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let expected = HEADER.to_owned() + GROUPED;
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn raw_lines_begin_with_cta_and_warp() {
    let header = two_ctas();
    let cta = Dim3::new(1, 0, 0);
    let mut text = RawText::new(header.format());
    text.push(cta, 0, None, &exit(u32::MAX)).unwrap();
    text.push_copy(cta, 1, None, &copy(), shared()).unwrap();
    assert_eq!(text.lines(), 3);
    let mut writer = RawWriter::new(Vec::new(), &header).unwrap();
    writer.write(&text).unwrap();
    let lines = "\
1 0 0 0 0020 ffffffff 0 EXIT 0 0 0 
1 0 0 1 0010 000000ff 0 LDGSTS.E.128 2 R2 R4 16 1 0x40 16 0 
1 0 0 1 0010 000000ff 0 LDGSTS.E.128 2 R2 R4 16 1 0x7f0000000000 16 0 
";
    let written = String::from_utf8(writer.finish().unwrap()).unwrap();
    assert_eq!(written, HEADER.to_owned() + lines);
    let (_folder, path) = file("kernel-2.trace", written);
    let mut reader = RawReader::open(&path, &ReadOptions::default()).unwrap();
    let first = reader.next_line().unwrap().unwrap();
    assert_eq!(first.instruction, exit(u32::MAX));
    let second = reader.next_line().unwrap().unwrap();
    assert_eq!((second.cta, second.warp), (cta, 1));
    assert_eq!(second.instruction.addresses, Some(shared()));
    let third = reader.next_line().unwrap().unwrap();
    assert_eq!(third.instruction, copy());
    assert_eq!(reader.next_line().unwrap(), None);
}

#[test]
fn core_columns_are_detected() {
    for (columns, lineinfo) in [("", ""), ("17 3 ", ""), ("", "42 "), ("17 3 ", "42 ")] {
        let line = format!("0 0 0 0 {columns}{lineinfo}0070 ffffffff 0 EXIT 0 0 0 \n");
        let lineinfo_line = match lineinfo {
            "" => "",
            _ => "-enable lineinfo = 1\n",
        };
        let text = lineinfo_line.to_owned() + &header(1, 70, 5) + &line;
        let (_folder, path) = file("kernel-1.trace", text);
        let forced = match columns {
            "" => RawColumns::Plain,
            _ => RawColumns::Core,
        };
        for columns_option in [RawColumns::Detect, forced] {
            let options = ReadOptions {
                columns: columns_option,
                ..ReadOptions::default()
            };
            let mut reader = RawReader::open(&path, &options).unwrap();
            let line = reader.next_line().unwrap().unwrap();
            assert_eq!(
                line.core.map(|core| core.core),
                (!columns.is_empty()).then_some(17)
            );
            assert_eq!(
                line.core.map(|core| core.warp),
                (!columns.is_empty()).then_some(3)
            );
            assert_eq!(line.instruction.line, (!lineinfo.is_empty()).then_some(42));
            assert_eq!(line.instruction.pc, 0x70);
        }
    }
}

#[test]
fn old_versions_repeat_cta_and_warp() {
    let lines = "0 0 0 0 0010 ffffffff 1 R1 MOV 0 0 \n0 0 0 0 0070 ffffffff 0 EXIT 0 0 \n";
    let body =
        format!("#BEGIN_TB\n\nthread block = 0,0,0\n\nwarp = 0\ninsts = 2\n{lines}\n#END_TB\n");
    for version in [0, 1, 2] {
        let (_folder, path) = file("kernel-1.traceg", header(1, 70, version) + &body);
        let (_, ctas) = ctas(&path, &ReadOptions::default());
        assert_eq!(ctas[0].warps[0].instructions[1].pc, 0x70);
        let wrong = body.replace("0 0 0 0 0070", "0 0 0 1 0070");
        let (_folder, path) = file("kernel-1.traceg", header(1, 70, version) + &wrong);
        let error = items(&path, &ReadOptions::default()).unwrap_err();
        let cta = Dim3::new(0, 0, 0);
        assert_eq!(error.fault, Fault::Prefix { cta, warp: 1 });
    }
}

#[test]
fn lines_without_an_immediate_are_the_same_in_later_versions() {
    let body = VECADD.replace(" 0 \n", " \n");
    let (_folder, expected) = file("kernel-1.traceg", header(1, 70, 3) + &body);
    let (_, expected) = ctas(&expected, &ReadOptions::default());
    assert_eq!(expected[0].warps[0].instructions.len(), 8);
    for version in [4, 5, 6] {
        let (_folder, path) = file("kernel-1.traceg", header(1, 70, version) + &body);
        let (_, read) = ctas(&path, &ReadOptions::default());
        assert_eq!(read, expected);
    }
}

#[test]
fn immediates_are_decimal_after_each_address_mode() {
    let lines = [
        "0000 1 0 DEPBAR.LE 0 0 10 ",
        "0000 3 1 R1 LDG 0 4 0 0x10 0x20 10 ",
        "0000 3 1 R1 LDG 0 4 1 0x10 4 10 ",
        "0000 3 1 R1 LDG 0 4 2 0x10 4 10 ",
        "0000 1 0 MOV 0 0 -10 ",
    ];
    let text = format!(
        "{}#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\ninsts = 6\n{}\n0 ffffffff 0 EXIT 0 0\n#END_TB",
        header(1, 80, 5),
        lines.join("\n")
    );
    let (_folder, path) = file("kernel-1.traceg", text);
    let (_, ctas) = ctas(&path, &ReadOptions::default());
    let immediates = ctas[0].warps[0].instructions.iter();
    let immediates: Vec<i64> = immediates.map(|line| line.immediate).collect();
    assert_eq!(immediates, [10, 10, 10, 10, -10, 0]);
}

#[test]
fn header_lines_may_come_in_any_order() {
    let text = "-shmem = 12 bytes\n-unknown key = 5\n-block dim = (32,1,1) threads\n-shmem base_addr = 0x10 x\n\
                -local mem base_addr = 0x20\n-binary version = 80\n-accelsim tracer version = 5\n-kernel name = a = b\n\
                -enable lineinfo = 1\n-grid dim = (1,1,1)\n#\n#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\n\
                insts = 1\n7 0 ffffffff 0 EXIT 0 0 0\n#END_TB";
    let (_folder, path) = file("kernel-1.traceg", text);
    let (header, ctas) = ctas(&path, &ReadOptions::default());
    assert_eq!(header.shared_bytes, 12);
    assert_eq!((header.shared_base, header.local_base), (0x10, 0x20));
    assert_eq!(header.kernel_name, "a = b");
    assert_eq!(header.kernel_id, 0);
    assert_eq!(ctas[0].warps[0].instructions[0].line, Some(7));
}

#[test]
fn output_without_the_suffix_is_plain() {
    let folder = tempfile::tempdir().unwrap();
    for (name, magic) in [("a.traceg", b"-kerne"), ("a.traceg.xz", b"\xfd7zXZ\0")] {
        let path = folder.path().join(name);
        let header = two_ctas();
        let writer = GroupedWriter::new(Output::create(&path).unwrap(), &header).unwrap();
        writer.finish().unwrap().finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[..6], magic);
        assert_eq!(
            GroupedReader::open(&path, &ReadOptions::default())
                .unwrap()
                .header(),
            &header
        );
    }
}

#[test]
fn unwritable_headers_are_refused() {
    let old = Header {
        tracer_version: 2,
        ..two_ctas()
    };
    assert!(old.write(&mut Vec::new()).is_err());
    let line = Header {
        kernel_name: "a\nb".to_owned(),
        ..two_ctas()
    };
    assert!(line.write(&mut Vec::new()).is_err());
    let empty = Header::new("k", 1, Dim3::new(1, 0, 1), Dim3::new(1, 1, 1));
    assert!(empty.write(&mut Vec::new()).is_err());
}

#[test]
fn generic_addresses_are_resolved_by_the_first_lane() {
    use margay_accelsim::Space;
    let header = two_ctas();
    let space = |base| {
        let addresses = Addresses::Stride { base, stride: 4 };
        header.resolve(Space::Generic, &addresses, 0xf0)
    };
    assert_eq!(space(0x7f10_0000_0000), Space::Shared);
    assert_eq!(space(0x7f10_00ff_ffff), Space::Shared);
    assert_eq!(space(0x7f10_0100_0000), Space::Local);
    assert_eq!(space(0x7f10_0100_3fff), Space::Local);
    assert_eq!(space(0x7f10_0100_4000), Space::Global);
    assert_eq!(space(0x7f0f_ffff_ffff), Space::Global);
    let addresses = Addresses::Stride { base: 0, stride: 4 };
    let none = Header {
        shared_base: 0,
        ..two_ctas()
    };
    assert_eq!(none.resolve(Space::Generic, &addresses, 1), Space::Shared);
    assert_eq!(none.resolve(Space::Global, &addresses, 1), Space::Global);
}

#[test]
fn readers_and_text_can_go_to_other_threads() {
    fn check<T: Send>() {}
    check::<GroupedReader>();
    check::<RawReader>();
    check::<CtaText>();
    check::<CtaTrace>();
    check::<GroupedWriter<Output>>();
}

#[test]
fn the_last_warp_may_have_fewer_lanes() {
    let (_folder, path) = file("a.traceg", header_of("1,1,1", "10,5,2", 70, 5));
    let reader = GroupedReader::open(&path, &ReadOptions::default()).unwrap();
    let header = reader.header();
    assert_eq!((header.threads(), header.warps()), (100, 4));
    assert_eq!(header.lanes(2), u32::MAX);
    assert_eq!(header.lanes(3), 0xf);
    assert_eq!(header.lanes(4), 0);
}
