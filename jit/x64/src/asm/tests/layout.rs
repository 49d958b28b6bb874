//! Labels, constants, symbols, jump tables and padding.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

use crate::asm::{
    Asm, Assembled, Base, Cond, Error, Features, Gpr, Inst, Label, Mem, Op, Operand, Scale, Symbol,
    Width, Zmm,
};

const PLACE: u64 = 0x7000_0000_0000;

fn asm() -> Asm {
    Asm::new(Features::ALL)
}

fn decode(done: &Assembled) -> Vec<Instruction> {
    let code = &done.bytes[..done.code_size as usize];
    Decoder::with_ip(64, code, PLACE, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

fn jump(asm: &mut Asm, to: Label) {
    asm.emit(&Inst::new(Op::Jmp, Width::W64, &[to.into()]))
        .unwrap();
}

fn jump_if(asm: &mut Asm, to: Label) {
    let operands = [Cond::Ne.into(), to.into()];
    asm.emit(&Inst::new(Op::Jcc, Width::W64, &operands))
        .unwrap();
}

#[test]
fn jumps_backward_are_as_short_as_the_distance_allows() {
    for emit in [jump, jump_if] {
        for bytes in 0..300usize {
            let mut asm = asm();
            let label = asm.label();
            asm.nops(3);
            asm.bind(label).unwrap();
            asm.nops(bytes);
            let start = asm.position();
            emit(&mut asm, label);
            let done = asm.finish().unwrap();
            let last = *decode(&done).last().unwrap();
            assert_eq!(last.near_branch_target(), PLACE + 3);
            assert_eq!(last.ip(), PLACE + u64::from(start));
            assert_eq!(last.len() == 2, bytes <= 126, "{bytes}");
            assert_eq!(done.position(label), Some(3));
        }
    }
}

#[test]
fn jumps_and_calls_forward_reach_their_labels() {
    let mut asm = asm();
    let (near, far) = (asm.label(), asm.label());
    jump(&mut asm, far);
    jump_if(&mut asm, near);
    asm.emit(&Inst::new(Op::Call, Width::W64, &[far.into()]))
        .unwrap();
    asm.bind(near).unwrap();
    asm.nops(100_000);
    asm.bind(far).unwrap();
    asm.emit(&Inst::new(Op::Ret, Width::W64, &[])).unwrap();
    let done = asm.finish().unwrap();
    let code = decode(&done);
    let targets: Vec<u64> = code[..3]
        .iter()
        .map(|x| x.near_branch_target() - PLACE)
        .collect();
    let at = |label| u64::from(done.position(label).unwrap());
    assert_eq!(targets, [at(far), at(near), at(far)]);
    assert_eq!(at(near) + 100_000, at(far));
    assert_eq!(code.last().unwrap().mnemonic(), Mnemonic::Ret);
}

fn bytes_at(done: &Assembled, at: u64, len: usize) -> &[u8] {
    &done.bytes[(at - PLACE) as usize..][..len]
}

#[test]
fn constants_are_shared_aligned_and_found() {
    let mut asm = asm();
    let mut expected = Vec::new();
    let lens = [4usize, 64, 1, 8, 2, 32, 16];
    for round in 0..3u8 {
        for len in lens {
            let bytes: Vec<u8> = (0..len as u8).map(|n| n ^ (round % 2 * 0x80)).collect();
            let constant = asm.constant(&bytes).unwrap();
            let operands = [Zmm(17).into(), Zmm(2).into(), constant.into(), 0xca.into()];
            // The number behind the displacement is part of the distance.
            asm.emit(&Inst::new(Op::Vpternlogd, Width::L512, &operands))
                .unwrap();
            expected.push((bytes, constant));
        }
    }
    let done = asm.finish().unwrap();
    assert_eq!(done.alignment, 64);
    let mut seen = std::collections::BTreeMap::new();
    for (inst, (bytes, constant)) in decode(&done).iter().zip(&expected) {
        let at = inst.ip_rel_memory_address();
        assert_eq!(bytes_at(&done, at, bytes.len()), bytes);
        assert_eq!(at % bytes.len() as u64, 0);
        assert!(at >= PLACE + u64::from(done.code_size));
        assert_eq!(*seen.entry(constant).or_insert(at), at);
    }
    assert_eq!(seen.len(), 2 * lens.len());
    let used: usize = 2 * lens.iter().sum::<usize>();
    assert_eq!(
        done.bytes.len(),
        done.code_size.next_multiple_of(64) as usize + used
    );
}

#[test]
fn displacements_from_labels_and_constants_are_kept() {
    let mut asm = asm();
    let constant = asm.constant(&[7; 16]).unwrap();
    let label = asm.label();
    asm.bind(label).unwrap();
    let load = |mem: Mem| Inst::new(Op::Mov, Width::W32, &[Gpr(9).into(), mem.into()]);
    asm.emit(&load(Mem::from(constant).disp(12))).unwrap();
    asm.emit(&load(Mem::from(label).disp(-4))).unwrap();
    let compare = [Mem::from(constant).into(), 0x1234_5678.into()];
    asm.emit(&Inst::new(Op::Cmp, Width::W32, &compare)).unwrap();
    let done = asm.finish().unwrap();
    let addresses: Vec<u64> = decode(&done)
        .iter()
        .map(|x| x.ip_rel_memory_address())
        .collect();
    assert_eq!(addresses, [addresses[2] + 12, PLACE - 4, addresses[2]]);
    assert_eq!(bytes_at(&done, addresses[2], 16), [7; 16]);
}

#[test]
fn symbols_have_one_slot_each() {
    let mut asm = asm();
    asm.constant(&[1; 32]).unwrap();
    asm.constant(&[2; 4]).unwrap();
    for n in [5, 9, 5] {
        asm.emit(&Inst::new(Op::Call, Width::W64, &[Symbol(n).into()]))
            .unwrap();
    }
    let done = asm.finish().unwrap();
    let code = decode(&done);
    let slots: Vec<u64> = code
        .iter()
        .map(|x| x.ip_rel_memory_address() - PLACE)
        .collect();
    assert_eq!(slots[0], slots[2]);
    let expected = [(slots[0] as u32, Symbol(5)), (slots[1] as u32, Symbol(9))];
    assert_eq!(done.symbols, expected);
    for slot in &slots {
        assert_eq!(slot % 8, 0);
        assert_eq!(done.bytes[*slot as usize..][..8], [0; 8]);
    }
}

#[test]
fn jump_tables_contain_distances_from_their_start() {
    let mut asm = asm();
    asm.constant(&[2; 8]).unwrap();
    asm.constant(&[2; 1]).unwrap();
    let targets = [asm.label(), asm.label(), asm.label()];
    asm.bind(targets[2]).unwrap();
    let order = [targets[0], targets[2], targets[1], targets[0]];
    let table = asm.jump_table(&order);
    let second = asm.jump_table(&targets[..1]);
    let (t, i) = (Gpr(8), Gpr(3));
    asm.emit(&Inst::new(
        Op::Lea,
        Width::W64,
        &[t.into(), Mem::from(table).into()],
    ))
    .unwrap();
    let entry = Mem::base(t).index(i, Scale::X4);
    asm.emit(&Inst::new(
        Op::Movsxd,
        Width::W64,
        &[i.into(), entry.into()],
    ))
    .unwrap();
    asm.emit(&Inst::new(Op::Add, Width::W64, &[i.into(), t.into()]))
        .unwrap();
    asm.emit(&Inst::new(Op::Jmp, Width::W64, &[i.into()]))
        .unwrap();
    for target in &targets[..2] {
        asm.bind(*target).unwrap();
        asm.nops(1);
    }
    let done = asm.finish().unwrap();
    let start = done.position(table).unwrap();
    assert_eq!(
        decode(&done)[0].ip_rel_memory_address(),
        PLACE + u64::from(start)
    );
    assert_eq!(start % 4, 0);
    let entry = |at: u32| {
        let bytes = done.bytes[at as usize..][..4].try_into().unwrap();
        i32::from_le_bytes(bytes) + at as i32
    };
    let reached: Vec<i32> = (0..4)
        .map(|n| entry(start + 4 * n) - 4 * n as i32)
        .collect();
    let at = |label: Label| done.position(label).unwrap() as i32;
    assert_eq!(reached, order.map(at));
    let second = done.position(second).unwrap();
    assert_eq!(entry(second), at(targets[0]));
    assert!(second >= start + 16 || second + 4 <= start);
}

#[test]
fn padding_consists_of_nops() {
    for bytes in 0..70 {
        let mut asm = asm();
        asm.nops(bytes);
        let done = asm.finish().unwrap();
        assert_eq!(done.code_size as usize, bytes);
        let code = decode(&done);
        assert!(code.iter().all(|x| x.mnemonic() == Mnemonic::Nop));
        assert_eq!(code.len(), bytes.div_ceil(9));
    }
    for alignment in [1, 2, 4, 8, 16, 32, 64] {
        let mut asm = asm();
        asm.nops(5);
        asm.align(alignment).unwrap();
        assert_eq!(asm.position(), 5u32.next_multiple_of(alignment));
    }
}

#[test]
fn layout_errors_are_values() {
    let mut other = asm();
    let labels = [other.label(), other.label(), other.label()];
    let mut asm = asm();
    let label = asm.label();
    assert_eq!(asm.bind(labels[2]), Err(Error::UnknownLabel(labels[2])));
    let jump = Inst::new(Op::Jmp, Width::W64, &[labels[2].into()]);
    assert_eq!(asm.emit(&jump), Err(Error::UnknownLabel(labels[2])));
    let constant = other.constant(&[0; 4]).unwrap();
    let load = Inst::new(Op::Mov, Width::W32, &[Gpr(0).into(), constant.into()]);
    assert_eq!(asm.emit(&load), Err(Error::UnknownConstant(constant)));
    for len in [0, 3, 5, 128] {
        assert_eq!(asm.constant(&vec![0; len]), Err(Error::ConstantLength(len)));
    }
    for alignment in [0, 3, 128] {
        assert_eq!(asm.align(alignment), Err(Error::Alignment(alignment)));
    }
    asm.bind(label).unwrap();
    assert_eq!(asm.bind(label), Err(Error::Rebound(label)));
    assert_eq!(asm.position(), 0);
    let table = asm.jump_table(&[]);
    asm.bind(table).unwrap();
    assert_eq!(asm.finish(), Err(Error::Rebound(table)));
}

#[test]
fn labels_must_be_bound_at_the_end() {
    let uses: [fn(Label) -> Inst; 2] = [
        |label| Inst::new(Op::Jmp, Width::W64, &[label.into()]),
        |label| {
            Inst::new(
                Op::Lea,
                Width::W64,
                &[Gpr(0).into(), Operand::Mem(Mem::at(Base::Label(label)))],
            )
        },
    ];
    for inst in uses {
        let mut asm = asm();
        let label = asm.label();
        asm.emit(&inst(label)).unwrap();
        assert_eq!(asm.finish(), Err(Error::Unbound(label)));
    }
    let mut asm = asm();
    let label = asm.label();
    asm.jump_table(&[label]);
    assert_eq!(asm.finish(), Err(Error::Unbound(label)));
}
