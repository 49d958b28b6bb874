//! The measurements of the original simulator with the configuration of the Quadro V100.

use margay_accelsim::{Addresses, Instruction};

use crate::support::{BASE, Kernel, access, op, run};

/// A measurement: what ran, the cycles of the original simulator, and the accesses of both caches if they are known.
struct Row<'a> {
    name: &'a str,
    kernel: Kernel<'a>,
    cycles: u64,
    l1: u64,
    l2: Option<u64>,
}

/// One warp with 64 instructions.
fn one<'a>(
    name: &'a str,
    cycles: u64,
    l1: u64,
    l2: u64,
    instruction: impl Fn(u16) -> Instruction + 'a,
) -> Row<'a> {
    many(name, (1, 1, 64), cycles, l1, Some(l2), instruction)
}

/// CTAs, warps of each, and instructions of each warp.
fn many<'a>(
    name: &'a str,
    (ctas, warps, count): (u32, u32, u16),
    cycles: u64,
    l1: u64,
    l2: Option<u64>,
    instruction: impl Fn(u16) -> Instruction + 'a,
) -> Row<'a> {
    let warp = move |_, _| (0..count).map(&instruction).collect();
    Row {
        name,
        kernel: Kernel::new(ctas, warps, warp),
        cycles,
        l1,
        l2,
    }
}

/// Warps that each access lines of their own.
fn spread<'a>(
    name: &'a str,
    (ctas, warps, count): (u32, u32, u64),
    cycles: u64,
    l1: u64,
    l2: Option<u64>,
    opcode: &'a str,
    stride: i64,
) -> Row<'a> {
    let bytes = stride as u64 * 32;
    let warp = move |cta: u64, warp: u32| {
        let first = (cta * u64::from(warps) + u64::from(warp)) * count;
        let load = |index: u64| {
            access(
                opcode,
                Some(8 + 4 * index as u16),
                &[2],
                BASE + (first + index) * bytes,
                stride,
            )
        };
        (0..count).map(load).collect()
    };
    Row {
        name,
        kernel: Kernel::new(ctas, warps, warp),
        cycles,
        l1,
        l2,
    }
}

/// Each instruction needs the result of the previous one.
fn chain(opcode: &str) -> impl Fn(u16) -> Instruction + '_ {
    move |_| op(opcode, Some(4), &[4, 5])
}

fn independent(opcode: &str) -> impl Fn(u16) -> Instruction + '_ {
    move |index| op(opcode, Some(8 + index), &[4, 5])
}

/// A load whose address is the result of the previous one.
fn load_chain(
    opcode: &str,
    start: u64,
    step: u64,
    stride: i64,
) -> impl Fn(u16) -> Instruction + '_ {
    move |index| {
        access(
            opcode,
            Some(4),
            &[4],
            start + step * u64::from(index),
            stride,
        )
    }
}

fn alu() -> Vec<Row<'static>> {
    let exit =
        |ctas, warps, cycles| many("EXIT", (ctas, warps, 0), cycles, 0, Some(0), chain("NOP"));
    let fadd = |warps, cycles| many("FADD", (1, warps, 64), cycles, 0, Some(0), chain("FADD"));
    let wide = |ctas, warps, count, cycles| {
        many(
            "FADD wide",
            (ctas, warps, count),
            cycles,
            0,
            Some(0),
            chain("FADD"),
        )
    };
    vec![
        exit(1, 1, 5008),
        exit(160, 8, 5012),
        one("FADD chain", 5451, 0, 0, chain("FADD")),
        one("FADD independent", 5143, 0, 0, independent("FADD")),
        one("HFMA2 chain", 5451, 0, 0, chain("HFMA2")),
        one("HMMA chain", 5451, 0, 0, chain("HMMA.884.F32")),
        one("IMAD chain", 5452, 0, 0, chain("IMAD")),
        one("IADD3 chain", 5452, 0, 0, chain("IADD3")),
        one("MOV chain", 5452, 0, 0, chain("MOV")),
        one("LDC chain", 5452, 0, 0, chain("LDC")),
        one("IMAD independent", 5144, 0, 0, independent("IMAD")),
        one("MUFU chain", 6603, 0, 0, chain("MUFU.RCP")),
        one("MUFU independent", 5563, 0, 0, independent("MUFU.RCP")),
        one("DFMA chain", 5835, 0, 0, chain("DFMA")),
        one("DFMA independent", 5283, 0, 0, independent("DFMA")),
        one("BRA", 5263, 0, 0, |_| op("BRA", None, &[])),
        one("TEX chain", 18123, 0, 0, chain("TEX")),
        many("BAR.SYNC", (1, 8, 64), 5138, 0, Some(0), |_| {
            op("BAR.SYNC", None, &[])
        }),
        one("MEMBAR", 5072, 0, 0, |_| op("MEMBAR.SC.GPU", None, &[])),
        fadd(4, 5452),
        fadd(8, 5454),
        fadd(16, 5521),
        fadd(32, 6348),
        wide(2, 32, 64, 6348),
        wide(160, 32, 16, 5602),
        wide(240, 32, 16, 5867),
        wide(160, 8, 64, 5521),
    ]
}

fn global() -> Vec<Row<'static>> {
    const LINE: u64 = 4096;
    let chain = load_chain;
    let one_lane = |index: u16| {
        let mut load = access("LDG.E", Some(4), &[4], 0, 0);
        load.mask = 1;
        load.addresses = Some(Addresses::compress(1, &[BASE + LINE * u64::from(index)]));
        load
    };
    vec![
        one("LDG same line", 6853, 256, 4, chain("LDG.E", BASE, 0, 4)),
        one("LDG one lane", 25665, 64, 64, one_lane),
        one(
            "LDG broadcast",
            25665,
            64,
            64,
            chain("LDG.E", BASE, LINE, 0),
        ),
        one("LDG.U8", 25665, 64, 64, chain("LDG.E.U8", BASE, LINE, 1)),
        one(
            "LDG coalesced",
            26181,
            256,
            256,
            chain("LDG.E", BASE, LINE, 4),
        ),
        one(
            "LDG misaligned",
            26840,
            320,
            320,
            chain("LDG.E", BASE + 4, LINE, 4),
        ),
        one("LDG.64", 27354, 512, 512, chain("LDG.E.64", BASE, LINE, 8)),
        one(
            "LDG.128",
            27354,
            1024,
            1024,
            chain("LDG.E.128", BASE, LINE, 16),
        ),
        one(
            "LDG stride 32",
            27868,
            2048,
            2048,
            chain("LDG.E", BASE, LINE, 32),
        ),
        spread("LDG independent", (1, 1, 64), 6158, 256, None, "LDG.E", 4),
        spread("LDG stride 128", (1, 1, 64), 8026, 2048, None, "LDG.E", 128),
        one(
            "LDG strong",
            16346,
            0,
            256,
            chain("LDG.E.STRONG.GPU", BASE, 0, 4),
        ),
        one("STG coalesced", 5449, 256, 256, |index| {
            access("STG.E", None, &[4, 5], BASE + 128 * u64::from(index), 4)
        }),
        one("STG stride 128", 7241, 2048, 2048, |index| {
            access("STG.E", None, &[4, 5], BASE + 4096 * u64::from(index), 128)
        }),
        one("ATOMG words", 16350, 0, 256, |_| {
            access("ATOMG.E.ADD.STRONG.GPU", Some(4), &[5, 6], BASE, 4)
        }),
        one("ATOMG one address", 18136, 0, 2048, |_| {
            access("ATOMG.E.ADD.STRONG.GPU", Some(4), &[5, 6], BASE, 0)
        }),
        one("RED one address", 18073, 0, 2048, |_| {
            access("RED.E.ADD.STRONG.GPU", None, &[5, 6], BASE, 0)
        }),
        one("LDL", 26687, 256, 256, chain("LDL", 0, 4, 0)),
        spread("16 LDG", (320, 8, 16), 15038, 163_840, None, "LDG.E", 4),
        spread(
            "16 LDG.128",
            (160, 8, 16),
            20120,
            327_680,
            Some(327_680),
            "LDG.E.128",
            16,
        ),
    ]
}

fn shared() -> Vec<Row<'static>> {
    let chain = |opcode: &'static str, stride| move |_| access(opcode, Some(4), &[4], 0, stride);
    vec![
        one("ATOMS one address", 6607, 0, 0, |_| {
            access("ATOMS.ADD", Some(4), &[5, 6], 0, 0)
        }),
        one("LDS", 6603, 0, 0, chain("LDS", 4)),
        one("LDS broadcast", 6603, 0, 0, chain("LDS", 0)),
        one("LDS 2-way", 6667, 0, 0, chain("LDS", 8)),
        one("LDS 4-way", 6795, 0, 0, chain("LDS", 16)),
        one("LDS 32-way", 8587, 0, 0, chain("LDS", 128)),
        one("LDS.64", 6667, 0, 0, chain("LDS.64", 8)),
        one("LDS.128", 6795, 0, 0, chain("LDS.128", 16)),
        one("STS", 5072, 0, 0, |_| access("STS", None, &[4, 5], 0, 4)),
    ]
}

/// The largest difference of the cycles, of which the latency of the launch is a part, in percent.
const TOLERANCE: f64 = 25.0;

/// Cycles of the original simulator for exactly the traces that this test writes. The traces of the other measurements have
/// other registers and addresses.
const SAME_TRACES: [(&str, u64); 10] = [
    ("FADD chain", 5451),
    ("FADD independent", 5136),
    ("LDG coalesced", 26687),
    ("LDG misaligned", 26840),
    ("LDG.128", 27354),
    ("LDG independent", 5595),
    ("LDG stride 128", 7383),
    ("LDG stride 32", 27868),
    ("MUFU independent", 5532),
    ("STG coalesced", 5449),
];

/// The largest difference of the cycles of [`SAME_TRACES`] in percent.
const SAME_TOLERANCE: f64 = 1.5;

#[test]
fn all_rows_are_close_to_the_original() {
    let mut failures = Vec::new();
    let mut estimates = Vec::new();
    for row in [alu(), global(), shared()].into_iter().flatten() {
        let report = run(&[row.kernel]).unwrap();
        let counters = &report.totals.counters;
        let cycles = report.totals.cycles;
        let difference = |base: u64| {
            let (estimate, measured) = ((cycles - base) as f64, (row.cycles - base) as f64);
            (estimate / measured - 1.0) * 100.0
        };
        let line = format!(
            "{:20} {cycles:6} for {:6}: {:+6.1} % ({:+6.1} % without the launch), L1D {}, L2 {}",
            row.name,
            row.cycles,
            difference(0),
            difference(5000),
            counters.l1.accesses,
            counters.l2.accesses,
        );
        println!("{line}");
        if let Some((_, original)) = SAME_TRACES.iter().find(|(name, _)| *name == row.name) {
            let difference = (cycles as f64 / *original as f64 - 1.0) * 100.0;
            if difference.abs() > SAME_TOLERANCE {
                failures.push(format!("{line}; {original} for this trace"));
            }
        }
        let is_exact =
            counters.l1.accesses == row.l1 && row.l2.is_none_or(|l2| l2 == counters.l2.accesses);
        if !is_exact || difference(0).abs() > TOLERANCE {
            failures.push(line);
        }
        estimates.push((row.cycles, cycles, row.name));
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert_same_order(&mut estimates);
}

/// Checks that rows whose measurements differ clearly are in the same order in the model.
fn assert_same_order(estimates: &mut [(u64, u64, &str)]) {
    const CLEAR: f64 = 1.06;
    estimates.sort_unstable();
    for (index, slower) in estimates.iter().enumerate() {
        for faster in &estimates[..index] {
            if slower.0 as f64 > faster.0 as f64 * CLEAR {
                assert!(slower.1 > faster.1, "{slower:?} and {faster:?}");
            }
        }
    }
}
