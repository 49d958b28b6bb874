//! Tests of the mapping. The expected names are those of the simulator's opcode maps and of NVIDIA's disassembler.

use margay::observe::{TextOperand, TextOperandKind};

use super::{Architecture, Memory, Unsupported, Uses, steps};

fn operand(kind: TextOperandKind, is_written: bool, registers: &[(u32, u32)]) -> TextOperand {
    TextOperand {
        kind,
        is_written,
        registers: registers.into(),
    }
}

/// The operands `%r1, %r2, %r3` of which the first is written.
fn registers() -> Vec<TextOperand> {
    let of = |number| operand(TextOperandKind::Register, number == 1, &[(number, 32)]);
    vec![of(1), of(2), of(3)]
}

/// Returns the opcodes of an instruction, separated by spaces.
fn names(opcode: &str, architecture: Architecture) -> String {
    match steps(opcode, &registers(), architecture, true) {
        Ok(steps) => {
            let names: Vec<&str> = steps.iter().map(|step| &*step.name).collect();
            names.join(" ")
        }
        Err(Unsupported) => "unsupported".to_owned(),
    }
}

#[test]
fn instructions_become_machine_instructions() {
    let all = [
        ("add.s32", "IADD3"),
        ("add.s64", "IADD3 IADD3.X"),
        ("add.cc.u32", "IADD3"),
        ("addc.u32", "IADD3.X"),
        ("mul.wide.s32", "IMAD.WIDE"),
        ("mad.lo.s32", "IMAD"),
        ("mul.hi.u32", "IMAD.HI.U32"),
        ("mul.lo.u64", "IMAD.WIDE.U32 IMAD IMAD"),
        ("min.s32", "IMNMX"),
        ("popc.b64", "POPC POPC IADD3"),
        ("bfe.u32", "SHF.R.U32.HI SGXT"),
        ("and.pred", "PLOP3.LUT"),
        ("xor.b64", "LOP3.LUT LOP3.LUT"),
        ("shl.b32", "SHF.L.U32"),
        ("shr.s32", "SHF.R.S32.HI"),
        ("setp.ge.s32", "ISETP"),
        ("setp.lt.u64", "ISETP ISETP.EX"),
        ("setp.gt.f32", "FSETP"),
        ("selp.f32", "FSEL"),
        ("selp.b32", "SEL"),
        ("add.rn.f32", "FADD"),
        ("fma.rn.f32", "FFMA"),
        ("fma.rn.f64", "DFMA"),
        ("add.f16x2", "HADD2"),
        ("div.full.f32", "MUFU.RCP FMUL"),
        ("sqrt.approx.f32", "MUFU.SQRT"),
        ("ex2.approx.ftz.f32", "MUFU.EX2"),
        ("cvt.f64.f32", "F2F.F64.F32"),
        ("cvt.rzi.s32.f32", "F2I.TRUNC.NTZ"),
        ("cvt.rni.f32.f32", "FRND"),
        ("cvt.f32.f16", "F2F.F32.F16"),
        ("cvt.rn.bf16.f32", "F2F"),
        ("cvt.f32.bf16", "PRMT"),
        ("slct.b64.s32", "ISETP SEL SEL"),
        ("mul24.hi.u32", "IMAD"),
        ("cvt.s64.s32", "MOV SHF.R.S32.HI"),
        ("cvt.u32.u64", "MOV"),
        ("cvta.to.global.u64", ""),
        ("ld.param.u64", "MOV MOV"),
        ("ld.global.f32", "LDG.E"),
        ("ld.global.v4.f32", "LDG.E.128"),
        ("ld.global.nc.v2.f32", "LDG.E.64.CONSTANT"),
        ("ld.global.u8", "LDG.E.U8"),
        ("ld.global.s16", "LDG.E.S16"),
        ("ld.volatile.global.u32", "LDG.E.STRONG.SYS"),
        ("ld.acquire.gpu.global.u32", "LDG.E.STRONG.GPU"),
        ("ld.u64", "LD.E.64"),
        ("ld.shared.f64", "LDS.64"),
        ("ld.const.u32", "LDC"),
        ("st.global.v2.u32", "STG.E.64"),
        ("st.shared.s8", "STS.U8"),
        ("st.local.u32", "STL"),
        ("atom.global.add.u32", "ATOMG.E.ADD.STRONG.GPU"),
        ("atom.shared.cas.b64", "ATOMS.CAS.64"),
        ("atom.add.f32", "ATOM.E.ADD.F32.FTZ.RN.STRONG.GPU"),
        ("red.global.add.f32", "RED.E.ADD.F32.FTZ.RN.STRONG.GPU"),
        ("membar.gl", "MEMBAR.SC.GPU ERRBAR"),
        ("fence.acq_rel.cta", "MEMBAR.ALL.CTA"),
        ("bar.sync", "BAR.SYNC"),
        ("barrier.cta.red.popc.u32", "BAR.RED B2R"),
        ("bar.warp.sync", "WARPSYNC"),
        ("shfl.sync.bfly.b32", "SHFL.BFLY"),
        ("vote.sync.ballot.b32", "VOTE.ANY"),
        ("bra", "BRA"),
        ("bra.uni", "BRA"),
        ("ret", "EXIT"),
        ("exit", "EXIT"),
        (
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
            "HMMA.884.F32",
        ),
        ("tex.2d.v4.f32.f32", "TEX"),
        ("prefetch.global.L2", "CCTL"),
    ];
    for (opcode, expected) in all {
        assert_eq!(names(opcode, Architecture::Volta70), expected, "{opcode}");
    }
}

#[test]
fn architectures_have_instructions_of_their_own() {
    use Architecture::{Ampere80, Ampere86, Turing75, Volta70};
    let all = [
        ("redux.sync.add.s32", Ampere80, "REDUX"),
        ("cp.async.ca.shared.global", Ampere86, "LDGSTS.E"),
        ("cp.async.cg.shared.global", Ampere80, "LDGSTS.E.BYPASS"),
        ("cp.async.ca.shared.global", Turing75, "LDG.E STS"),
        ("cp.async.commit_group", Ampere80, "LDGDEPBAR"),
        ("cp.async.commit_group", Volta70, ""),
        ("cp.async.wait_group", Ampere80, "DEPBAR.LE"),
        (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
            Turing75,
            "LDSM.16.M88.4",
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
            Volta70,
            "LDS LDS",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
            Ampere80,
            "HMMA.16816.F32.BF16",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
            Ampere86,
            "IMMA.16832.S8.S8",
        ),
        (
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
            Ampere80,
            "DMMA.884",
        ),
        (
            "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
            Ampere80,
            "HMMA.16816.F32 HMMA.16816.F32",
        ),
        ("min.f16x2", Ampere80, "HMNMX2"),
        ("cvt.rn.f32.s32", Ampere80, "I2FP"),
        ("cvt.rn.f32.s32", Turing75, "I2F"),
        ("suld.b.2d.b32.trap", Turing75, "SULD"),
        ("suld.b.2d.b32.trap", Volta70, "TLD"),
    ];
    for (opcode, architecture, expected) in all {
        assert_eq!(
            names(opcode, architecture),
            expected,
            "{opcode} {architecture:?}"
        );
    }
}

#[test]
fn instructions_without_a_name_in_the_maps_are_refused() {
    for opcode in [
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "griddepcontrol.wait",
        "multimem.ld_reduce.global.add.f32",
        "barrier.cluster.arrive.aligned",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
        "nonsense",
    ] {
        assert_eq!(
            names(opcode, Architecture::Ampere86),
            "unsupported",
            "{opcode}"
        );
    }
}

#[test]
fn only_the_result_of_a_store_is_missing() {
    let of = |opcode: &str| steps(opcode, &registers(), Architecture::Volta70, true).unwrap();
    for opcode in [
        "st.global.u32",
        "membar.gl",
        "red.global.add.u32",
        "bra",
        "exit",
    ] {
        assert!(of(opcode).iter().all(|step| !step.writes), "{opcode}");
    }
    assert!(of("ld.global.u32")[0].writes);
    assert_eq!(of("ld.global.u32")[0].memory, Some(Memory::Any));
    assert_eq!(of("ld.param.u64")[1].uses, Uses::Word(1));
    assert_eq!(of("ld.param.u64")[1].memory, None);
}

#[test]
fn returns_of_functions_are_no_exits() {
    let of = |in_kernel| {
        steps("ret", &[], Architecture::Volta70, in_kernel).unwrap()[0]
            .name
            .clone()
    };
    assert_eq!(
        (of(true), of(false)),
        ("EXIT".into(), "RET.REL.NODEC".into())
    );
}

#[test]
fn special_registers_are_read_by_their_own_instructions() {
    let of = |name: &str| {
        let operands = [
            operand(TextOperandKind::Register, true, &[(1, 32)]),
            operand(TextOperandKind::Special(name.into()), false, &[]),
        ];
        steps("mov.u32", &operands, Architecture::Volta70, true).unwrap()[0]
            .name
            .clone()
    };
    assert_eq!(of("%tid.x"), "S2R");
    assert_eq!(of("%clock"), "CS2R.32");
    let pack = [
        operand(TextOperandKind::Register, true, &[(1, 64)]),
        operand(TextOperandKind::Vector, false, &[(2, 32), (3, 32)]),
    ];
    assert!(
        steps("mov.b64", &pack, Architecture::Volta70, true)
            .unwrap()
            .is_empty()
    );
}

/// The heads of all instructions of PTX are either mapped or in this list.
#[test]
fn every_instruction_of_ptx_has_a_line_or_is_refused_by_name() {
    const REFUSED: &[&str] = &[
        "clusterlaunchcontrol",
        "griddepcontrol",
        "multimem",
        "tcgen05",
        "tensormap",
        "wgmma",
    ];
    for head in margay_ptx::heads() {
        // A head with the modifiers of its first form.
        let source = margay_ptx::forms_of(head)[0].source;
        let is_mapped = [
            head.to_owned(),
            format!("{head}.b32"),
            source.split_whitespace().next().unwrap().to_owned(),
        ]
        .iter()
        .chain(&[
            format!("{head}.f32"),
            format!("{head}.async.ca.shared.global"),
            format!("{head}.f32.s32"),
            format!("{head}.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
            format!("{head}.load.a.sync.f16"),
        ])
        .any(|opcode| names(opcode, Architecture::Ampere86) != "unsupported");
        assert_eq!(is_mapped, !REFUSED.contains(&head), "{head}");
    }
}
