//! What the reader refuses: each row of the table of reader duties.

use margay_accelsim::{
    Command, CommandList, Compression, Dim3, Fault, Form, GroupedReader, RawReader, ReadOptions,
};

use crate::support::{VECADD, fault, fault_with, file, header, header_of, items};

/// The line of `#BEGIN_TB` behind a header of [`header`].
const BEGIN: u64 = 16;

/// Returns a file for binary version 70 and tracer version 5 with one CTA of one warp with these lines.
fn warp(lines: &[&str]) -> String {
    warp_of(70, 5, lines)
}

fn warp_of(binary_version: u32, tracer_version: u32, lines: &[&str]) -> String {
    let count = lines.len();
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let header = header(1, binary_version, tracer_version);
    format!(
        "{header}#BEGIN_TB\n\nthread block = 0,0,0\n\nwarp = 0\ninsts = {count}\n{lines}\n#END_TB\n"
    )
}

/// The line of the first instruction of [`warp`].
const FIRST: u64 = BEGIN + 6;

const EXIT: &str = "0070 ffffffff 0 EXIT 0 0 0 ";

/// Returns the fault of a line before EXIT, which must be in that line.
fn line_fault(line: &str) -> Option<Fault> {
    let (number, fault) = fault(&warp(&[line, EXIT]))?;
    assert_eq!(number, FIRST, "{line}");
    Some(fault)
}

#[test]
fn registers_are_limited() {
    assert_eq!(line_fault("0000 1 1 R1 FADD 4 R1 R2 R3 R4 0 0"), None);
    assert_eq!(
        line_fault("0000 1 2 R1 R2 FADD 0 0 0"),
        Some(Fault::Destinations(2))
    );
    let five = "0000 1 1 R1 FADD 5 R1 R2 R3 R4 R5 0 0";
    assert_eq!(
        line_fault(five),
        Some(Fault::Sources { count: 5, limit: 4 })
    );
    let options = ReadOptions {
        five_sources: true,
        ..ReadOptions::default()
    };
    assert_eq!(fault_with(&warp(&[five, EXIT]), &options), None);
    let six = "0000 1 1 R1 FADD 6 R1 R2 R3 R4 R5 R6 0 0";
    let (_, six) = fault_with(&warp(&[six, EXIT]), &options).unwrap();
    assert_eq!(six, Fault::Sources { count: 6, limit: 5 });
    for register in ["UR4", "P0", "X1", "R", "R-1", "4"] {
        assert_eq!(
            line_fault(&format!("0000 1 1 {register} FADD 0 0 0")),
            Some(Fault::Register(register.to_owned()))
        );
    }
}

#[test]
fn opcodes_are_those_of_the_binary_version() {
    let fault_of = |binary_version, line: &str| fault(&warp_of(binary_version, 5, &[line, EXIT]));
    let opcode = |opcode: &str, binary_version| {
        let opcode = opcode.to_owned();
        Some((
            FIRST,
            Fault::Opcode {
                opcode,
                binary_version,
            },
        ))
    };
    let sust = "0000 1 0 SUST.D 1 R1 0 0";
    assert_eq!(fault_of(70, sust), opcode("SUST.D", 70));
    assert_eq!(fault_of(75, sust), None);
    for name in ["add.f32", "VIADD"] {
        assert_eq!(
            fault_of(86, &format!("0000 1 1 R1 {name} 0 0 0")),
            opcode(name, 86)
        );
    }
    let (_, fault) = fault_of(35, "0000 1 1 R1 IADD3.X 0 0 0").unwrap();
    assert_eq!(
        fault.to_string(),
        "opcode \"IADD3.X\" does not exist for binary version 35"
    );
    let options = ReadOptions {
        unknown_opcodes: true,
        ..ReadOptions::default()
    };
    let line = "0000 1 1 R1 VIADD 0 0 0";
    assert_eq!(fault_with(&warp_of(90, 5, &[line, EXIT]), &options), None);
}

#[test]
fn binary_versions_without_a_map_are_refused() {
    for version in [0, 50, 72, 87, 89, 90, 100] {
        let text = header(1, version, 5) + VECADD;
        assert_eq!(fault(&text), Some((0, Fault::BinaryVersion(version))));
    }
    for version in [35, 60, 61, 70, 75, 80, 86] {
        let line = "0000 1 1 R1 MOV 0 0 0";
        assert_eq!(fault(&warp_of(version, 5, &[line, EXIT])), None);
    }
}

#[test]
fn empty_warps_need_an_option() {
    let cta = Dim3::new(0, 0, 0);
    let text = warp(&[]);
    assert_eq!(
        fault(&text),
        Some((FIRST - 1, Fault::EmptyWarp { cta, warp: 0 }))
    );
    let options = ReadOptions {
        empty_warps: true,
        ..ReadOptions::default()
    };
    assert_eq!(fault_with(&text, &options), None);
    let missing = header(1, 70, 5) + "#BEGIN_TB\n\nthread block = 0,0,0\n\n#END_TB\n";
    assert_eq!(
        fault(&missing),
        Some((BEGIN + 4, Fault::WarpMissing { cta, warp: 0 }))
    );
    assert_eq!(fault_with(&missing, &options), None);
}

#[test]
fn the_number_of_ctas_is_that_of_the_grid() {
    let count = |grid, file| Fault::CtaCount { grid, file };
    let one = header(2, 70, 5) + VECADD;
    let (_, fault_of_one) = fault(&one).unwrap();
    assert_eq!(fault_of_one, count(2, 1));
    assert_eq!(fault_of_one.to_string(), "the grid has 2 CTAs, the file 1");
    let surplus = header(1, 70, 5) + VECADD + VECADD;
    assert_eq!(fault(&surplus).unwrap().1, count(1, 2));
    let outside = header(1, 70, 5) + &VECADD.replace("0,0,0", "1,0,0");
    let cta = Dim3::new(1, 0, 0);
    let grid = Dim3::new(1, 1, 1);
    assert_eq!(
        fault(&outside),
        Some((BEGIN + 2, Fault::CtaRange { cta, grid }))
    );
    let none = header(1, 70, 5);
    assert_eq!(fault(&none).unwrap().1, count(1, 0));
}

#[test]
fn the_last_line_may_lack_its_newline() {
    let text = header(1, 70, 5) + VECADD.trim_end();
    assert_eq!(fault(&text), None);
}

#[test]
fn all_lanes_exit() {
    let cta = Dim3::new(0, 0, 0);
    let no_exit = |lanes| {
        let warp = 0;
        Some(Fault::NoExit { cta, warp, lanes })
    };
    let fault_of = |lines: &[&str]| fault(&warp(lines)).map(|(_, fault)| fault);
    assert_eq!(
        fault_of(&["0000 ffffffff 1 R1 MOV 0 0 0"]),
        no_exit(0xffff_ffff)
    );
    assert_eq!(
        fault_of(&["0070 0000ffff 0 EXIT 0 0 0"]),
        no_exit(0xffff_0000)
    );
    let halves = ["0070 0000ffff 0 EXIT 0 0 0", "0070 ffff0000 0 EXIT 0 0 0"];
    assert_eq!(fault_of(&halves), None);
    // The last warp has 8 lanes.
    let block = |lanes: &str| {
        header_of("1,1,1", "40,1,1", 70, 5)
            + &format!(
                "#BEGIN_TB\n\nthread block = 0,0,0\n\nwarp = 0\ninsts = 1\n{EXIT}\n\nwarp = 1\n\
                 insts = 1\n0070 {lanes} 0 EXIT 0 0 0\n\n#END_TB\n"
            )
    };
    assert_eq!(fault(&block("000000ff")), None);
    let lanes = 0x80;
    let warp = 1;
    assert_eq!(
        fault(&block("0000007f")).unwrap().1,
        Fault::NoExit { cta, warp, lanes }
    );
}

#[test]
fn blocks_have_an_order() {
    let cta = Dim3::new(0, 0, 0);
    let body = |text: &str| fault(&(header(1, 70, 5) + text));
    assert_eq!(
        body(EXIT),
        Some((BEGIN, Fault::OutsideBlock(EXIT.trim().to_owned())))
    );
    assert_eq!(
        body("#END_TB\n"),
        Some((BEGIN, Fault::OutsideBlock("#END_TB".to_owned())))
    );
    let nested = Some(Fault::Nested(cta));
    for text in [
        VECADD.replace("\n#END_TB\n", "\n#BEGIN_TB\n"),
        VECADD.replace("\nwarp = 0\n", "\n#BEGIN_TB\n"),
        VECADD.replace("0050 ffffffff 1 R9 FADD 2 R6 R8 0 0 ", "#BEGIN_TB"),
    ] {
        assert_eq!(body(&text).map(|(_, fault)| fault), nested, "{text}");
    }
    let expected = |expected, found: &str| {
        let found = found.to_owned();
        Some(Fault::Expected { expected, found })
    };
    let kind = |text: &str| body(text).map(|(_, fault)| fault);
    assert_eq!(
        kind("#BEGIN_TB\nwarp = 0\n"),
        expected("thread block", "warp = 0")
    );
    assert_eq!(
        kind("#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\n0000\n"),
        expected("insts", "0000")
    );
    assert_eq!(
        kind("#BEGIN_TB\nthread block = 0,0,0\nwarps\n"),
        expected("warp or #END_TB", "warps")
    );
    for text in [
        "#BEGIN_TB\nthread block = 0,0,0\n",
        "#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\n",
        VECADD.strip_suffix("#END_TB\n").unwrap(),
    ] {
        assert_eq!(kind(text), Some(Fault::UnendedBlock(cta)));
    }
}

#[test]
fn insts_is_the_number_of_lines() {
    let cta = Dim3::new(0, 0, 0);
    let warp = 0;
    let with = |insts: &str| header(1, 70, 5) + &VECADD.replace("insts = 8", insts);
    let missing = Fault::LinesMissing {
        cta,
        warp,
        expected: 9,
        found: 8,
    };
    assert_eq!(fault(&with("insts = 9")), Some((FIRST + 8, missing)));
    let surplus =
        |line| header(1, 70, 5) + &VECADD.replace("\n\n#END", &format!("\n{line}\n\n#END"));
    let fault_of = |expected| Fault::LinesSurplus {
        cta,
        warp,
        expected,
    };
    assert_eq!(fault(&surplus(EXIT)), Some((FIRST + 8, fault_of(8))));
    // The rest of the warp has no EXIT, which is found first.
    let few = fault(&with("insts = 7")).unwrap();
    assert!(matches!(few, (_, Fault::NoExit { .. })), "{few:?}");
    // The end of the file instead of lines.
    let (text, _) = VECADD.split_once("0050").unwrap();
    let (_, fault) = fault(&(header(1, 70, 5) + text)).unwrap();
    assert_eq!(
        fault,
        Fault::LinesMissing {
            cta,
            warp,
            expected: 8,
            found: 5
        }
    );
}

#[test]
fn warps_are_those_of_the_block() {
    let with = |warp: &str| header(1, 70, 5) + &VECADD.replace("warp = 0", warp);
    let range = |warp| Some((FIRST - 1, Fault::WarpRange { warp, warps: 1 }));
    assert_eq!(fault(&with("warp = 1")), range(1));
    assert_eq!(fault(&with("warp = 4294967296")), range(1 << 32));
    let (begin, end) = VECADD.split_once("\n#END_TB").unwrap();
    let warp = begin.split_once("\nwarp").unwrap().1;
    let twice = header_of("1,1,1", "64,1,1", 70, 5) + begin + "\nwarp" + warp + "\n#END_TB" + end;
    let cta = Dim3::new(0, 0, 0);
    assert_eq!(fault(&twice).unwrap().1, Fault::WarpTwice { cta, warp: 0 });
    let missing = header_of("1,1,1", "64,1,1", 70, 5) + VECADD;
    assert_eq!(
        fault(&missing).unwrap().1,
        Fault::WarpMissing { cta, warp: 1 }
    );
}

#[test]
fn addresses_are_complete() {
    let ldg = |rest: &str| line_fault(&format!("0030 00000007 1 R6 LDG.E 1 R4 {rest}"));
    assert_eq!(ldg("4 1 0x7f00 4 0"), None);
    assert_eq!(ldg("4 3 0x7f00 4 0"), Some(Fault::AddressMode(3)));
    let count = |found| Some(Fault::AddressCount { found, needed: 3 });
    assert_eq!(ldg("4 0 0x10 0x20"), count(2));
    assert_eq!(ldg("4 2 0x10 4"), count(2));
    assert_eq!(ldg("4 2"), Some(Fault::Missing("base address")));
    assert_eq!(ldg("4 1 0x10"), Some(Fault::Missing("stride")));
    assert_eq!(ldg("4"), Some(Fault::Missing("address mode")));
    // The lanes of a stride are contiguous.
    let gap = line_fault("0030 0000000d 1 R6 LDG.E 1 R4 4 1 0x10 4 0");
    assert_eq!(
        gap,
        Some(Fault::AddressCount {
            found: 1,
            needed: 3
        })
    );
    let none = Some(Fault::NoAddresses("LDG.E".to_owned()));
    assert_eq!(ldg("0 0"), none);
    for name in [
        "LD", "LDL", "LDS", "ST", "STG", "STL", "STS", "ATOM", "ATOMS", "ATOMG", "RED",
    ] {
        let line = format!("0030 00000007 0 {name} 1 R4 0 0");
        assert_eq!(line_fault(&line), Some(Fault::NoAddresses(name.to_owned())));
    }
    for name in ["LDSM", "LDGSTS"] {
        let text = warp_of(80, 5, &[&format!("0030 00000007 0 {name} 1 R4 0 0"), EXIT]);
        let expected = Fault::NoAddresses(name.to_owned());
        assert_eq!(fault(&text), Some((FIRST, expected)));
    }
    assert_eq!(line_fault("0030 00000007 1 R6 LDC.64 1 R4 0 0"), None);
}

#[test]
fn stores_and_memory_barriers_have_no_destination() {
    for opcode in ["ST.E", "STG.E.SYS", "STL", "STS.64"] {
        let line = format!("0030 00000001 1 R6 {opcode} 1 R4 4 1 0x10 4 0");
        let expected = Fault::StoreDestination(opcode.to_owned());
        assert_eq!(line_fault(&line), Some(expected));
    }
    let expected = Fault::StoreDestination("MEMBAR.SC.GPU".to_owned());
    assert_eq!(
        line_fault("0030 00000001 1 R6 MEMBAR.SC.GPU 0 0 0"),
        Some(expected)
    );
    for line in [
        "0030 00000001 1 R6 BAR.SYNC 0 0 0",
        "0030 00000001 1 R6 RED.E.ADD 1 R4 4 2 0x10 0",
        "0030 00000001 1 R6 ATOMG.E.ADD 1 R4 4 2 0x10 0",
    ] {
        assert_eq!(line_fault(line), None);
    }
}

#[test]
fn copies_have_an_address_and_a_size() {
    let (_folder, path) = file(
        "kernelslist.g",
        "\nMemcpyHtoD,0x10,4\nMemcpyHtoD,0x10\nkernel-1.traceg\n",
    );
    let error = CommandList::read(&path).unwrap_err();
    let expected = Fault::Memcpy("MemcpyHtoD,0x10".to_owned());
    assert_eq!((error.line, error.fault), (3, expected));
}

#[test]
fn numbers_are_complete() {
    let decimal = |what, text: &str| {
        let text = text.to_owned();
        Some(Fault::Decimal { what, text })
    };
    let hex = |what, text: &str| {
        let text = text.to_owned();
        Some(Fault::Hex { what, text })
    };
    assert_eq!(line_fault("00g0 1 0 MOV 0 0 0"), hex("pc", "00g0"));
    assert_eq!(
        line_fault("0000 100000000 0 MOV 0 0 0"),
        hex("mask", "100000000")
    );
    assert_eq!(
        line_fault("0000 1 x MOV 0 0 0"),
        decimal("number of destinations", "x")
    );
    assert_eq!(
        line_fault("0000 1 0 MOV -1 0 0"),
        decimal("number of sources", "-1")
    );
    assert_eq!(line_fault("0000 1 0 MOV 0 4x 0"), decimal("width", "4x"));
    assert_eq!(
        line_fault("0000 1 0 MOV 0 0 0x1"),
        decimal("immediate", "0x1")
    );
    assert_eq!(
        line_fault("0000 1 0 MOV 0 0 0 1"),
        Some(Fault::Surplus("1".to_owned()))
    );
    assert_eq!(line_fault("0000"), Some(Fault::Missing("mask")));
    assert_eq!(line_fault("0000 1 0"), Some(Fault::Missing("opcode")));
    let ldg = |rest: &str| line_fault(&format!("0000 3 1 R1 LDG 0 4 {rest}"));
    assert_eq!(
        ldg("0 0x10 0x10000000000000000 0"),
        hex("address", "0x10000000000000000")
    );
    assert_eq!(ldg("1 0x10 2147483648 0"), decimal("stride", "2147483648"));
    assert_eq!(ldg("2 0x10 --4 0"), decimal("delta", "--4"));
    let with = |from: &str, to: &str| {
        let text = (header(1, 70, 5) + VECADD).replace(from, to);
        fault(&text).map(|(_, fault)| fault)
    };
    assert_eq!(with("insts = 8", "insts = -8"), decimal("insts", "-8"));
    assert_eq!(with("warp = 0", "warp = a"), decimal("warp", "a"));
    assert_eq!(
        with("thread block = 0,0,0", "thread block = 0,0"),
        decimal("thread block", "0,0")
    );
    assert_eq!(with("nregs = 16", "nregs = x"), decimal("nregs", "x"));
    assert_eq!(
        with("base_addr = 0x00007f1000000000", "base_addr = x"),
        hex("shmem base_addr", "x")
    );
}

#[test]
fn headers_have_dimensions() {
    let with = |from: &str, to: &str| {
        let text = (header(1, 70, 5) + VECADD).replace(from, to);
        fault(&text).map(|(_, fault)| fault)
    };
    assert_eq!(
        with("-grid dim", "-grid size"),
        Some(Fault::NoHeader("grid dim"))
    );
    assert_eq!(
        with("-block dim", "-block size"),
        Some(Fault::NoHeader("block dim"))
    );
    let dim = Dim3::new(32, 33, 1);
    let what = "block";
    assert_eq!(
        with("(32,1,1)", "(32,33,1)"),
        Some(Fault::Dimensions { what, dim })
    );
    let dim = Dim3::new(0, 1, 1);
    let what = "grid";
    assert_eq!(
        with("(1,1,1)", "(0,1,1)"),
        Some(Fault::Dimensions { what, dim })
    );
    let most = u32::MAX;
    let dim = Dim3::new(most, most, most);
    assert_eq!(
        with("(1,1,1)", &format!("({most},{most},{most})")),
        Some(Fault::Dimensions { what, dim })
    );
    assert_eq!(
        with("tracer version = 5", "tracer version = 7"),
        Some(Fault::TracerVersion(7))
    );
    assert_eq!(with("#", "-"), Some(Fault::UnendedHeader));
}

#[test]
fn a_missing_tracer_version_means_the_old_syntax() {
    let text = (header(1, 70, 5) + VECADD).replace("-accelsim tracer version = 5\n", "");
    let (line, fault) = fault(&text).unwrap();
    assert_eq!(line, FIRST - 1);
    assert!(
        matches!(fault, Fault::Decimal { what: "CTA", .. }),
        "{fault:?}"
    );
}

#[test]
fn the_suffix_of_a_kernel_file_is_known() {
    let options = ReadOptions::default();
    for name in ["kernel-1.txt", "kernel-1", "kernel-1.trace"] {
        let (_folder, path) = file(name, header(1, 70, 5) + VECADD);
        let error = GroupedReader::open(&path, &options).unwrap_err();
        assert_eq!(error.fault, Fault::Suffix);
    }
    let (_folder, path) = file("kernel-1.traceg", header(1, 70, 5));
    let error = RawReader::open(&path, &options).unwrap_err();
    assert_eq!(error.fault, Fault::Suffix);
    assert_eq!(Command::parse("kernel-1.trac"), Err(Fault::Suffix));
    assert_eq!(Form::of(&path), Some((Form::Grouped, Compression::None)));
}

#[test]
fn lines_are_bounded_text() {
    let with = |line: &[u8]| {
        let (begin, end) = VECADD.split_once("0050").unwrap();
        let parts = [header(1, 70, 5).as_bytes(), begin.as_bytes(), line].concat();
        let text = [parts.as_slice(), b"\n", end.as_bytes()].concat();
        let (_folder, path) = file("kernel-1.traceg", text);
        let error = items(&path, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.line, FIRST + 5);
        error.fault
    };
    let long = vec![b' '; 64 * 1024 + 1];
    assert_eq!(with(&long), Fault::LineTooLong(64 * 1024));
    assert_eq!(with(b"0050 \0"), Fault::Nul);
    assert_eq!(with(b"0050 \xc3\x28"), Fault::Utf8);
    let spaces = vec![b' '; 60 * 1024];
    let line = [b"0050 ffffffff 1 R9 FADD 2 R6 R8 0 0".as_slice(), &spaces].concat();
    let text = header(1, 70, 5).into_bytes();
    let body = VECADD.replace(
        "0050 ffffffff 1 R9 FADD 2 R6 R8 0 0 ",
        std::str::from_utf8(&line).unwrap(),
    );
    let (_folder, path) = file("kernel-1.traceg", [text, body.into_bytes()].concat());
    assert!(items(&path, &ReadOptions::default()).is_ok());
}

#[test]
fn errors_name_file_and_line() {
    let (_folder, path) = file("kernel-1.traceg", warp(&["0000 1 2 R1 R2 FADD 0 0 0"]));
    let error = items(&path, &ReadOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}:{FIRST}: too many destinations: 2, at most 1",
            path.display()
        )
    );
    let missing = path.with_file_name("kernel-2.traceg");
    let error = GroupedReader::open(&missing, &ReadOptions::default()).unwrap_err();
    assert_eq!(error.line, 0);
    assert!(matches!(error.fault, Fault::Io(_)));
}

#[test]
fn a_cta_in_memory_is_limited() {
    let (_folder, path) = file("kernel-1.traceg", header(1, 70, 5) + VECADD);
    let options = ReadOptions {
        max_cta_lines: 7,
        ..ReadOptions::default()
    };
    let mut reader = GroupedReader::open(&path, &options).unwrap();
    let cta = Dim3::new(0, 0, 0);
    let error = reader.next_cta().unwrap_err();
    assert_eq!(error.fault, Fault::CtaTooLarge { cta, limit: 7 });
    assert_eq!(reader.next_cta(), Ok(None));
    assert_eq!(items(&path, &options).unwrap().len(), 11);
}
