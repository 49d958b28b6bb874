//! The choice of the address mode: the worked examples of the format's description, which the original code produced.

use margay_accelsim::{Addresses, Dim3, Header, Instruction, Opcode, WarpText};
use proptest::prelude::*;

const B: u64 = 0x7f00_0000_1000;

fn line(mask: u32, addresses: Addresses) -> String {
    let mut instruction = Instruction::new(0x30, mask, Opcode::new("LDG.E").unwrap());
    instruction.width = 4;
    instruction.addresses = Some(addresses);
    let header = Header::new("k", 1, Dim3::new(1, 1, 1), Dim3::new(32, 1, 1));
    let mut text = WarpText::new();
    text.push(&instruction, header.format()).unwrap();
    String::from_utf8(text.text().to_vec()).unwrap()
}

/// Returns the text from the mode on, without the immediate.
fn mode(mask: u32, lanes: &[u64]) -> String {
    let line = line(mask, Addresses::compress(mask, lanes));
    let fields = line.split_once(" 4 ").unwrap().1;
    fields.strip_suffix(" 0 \n").unwrap().to_owned()
}

#[test]
fn the_mode_is_that_of_the_original_tracer() {
    let steps = |base: u64, step: i64, count: i64| -> Vec<u64> {
        (0..count)
            .map(|lane| base.wrapping_add_signed(step * lane))
            .collect()
    };
    assert_eq!(mode(0xffff_ffff, &steps(B, 4, 32)), "1 0x7f0000001000 4");
    assert_eq!(mode(0xffff_ffff, &steps(B, 0, 32)), "1 0x7f0000001000 0");
    assert_eq!(mode(0xffff_ffff, &steps(B, -8, 32)), "1 0x7f0000001000 -8");
    assert_eq!(mode(0x0000_ffff, &steps(B, 4, 16)), "1 0x7f0000001000 4");
    assert_eq!(mode(0x0000_00f0, &steps(B, 16, 4)), "1 0x7f0000001000 16");
    assert_eq!(mode(0x0000_0003, &steps(B, 256, 2)), "1 0x7f0000001000 256");
    assert_eq!(mode(0xc000_0000, &steps(B, 4, 2)), "1 0x7f0000001000 4");
    assert_eq!(mode(0, &[]), "1 0x0 0");
    assert_eq!(mode(0x0000_0005, &steps(B, 8, 2)), "2 0x7f0000001000 8");
    assert_eq!(mode(0x0000_0001, &[B]), "2 0x7f0000001000");
    assert_eq!(mode(0x8000_0000, &[B]), "2 0x7f0000001000");
    let parts = [steps(B, 4, 4), steps(B + 48, 4, 4)].concat();
    assert_eq!(mode(0x0000_f00f, &parts), "2 0x7f0000001000 4 4 4 36 4 4 4");
    assert_eq!(
        mode(0x0000_000f, &[B, B + 4, B + 12, B + 8]),
        "2 0x7f0000001000 4 8 -4"
    );
    assert_eq!(
        mode(0x0000_0007, &steps(0x7f00_0000_0000, 1 << 31, 3)),
        "2 0x7f0000000000 2147483648 2147483648"
    );
    assert_eq!(
        mode(0x0000_0003, &steps(0x7f00_0000_0000, 1 << 32, 2)),
        "2 0x7f0000000000 4294967296"
    );
}

#[test]
fn lists_have_sixteen_digits() {
    assert_eq!(
        line(0x0000_0009, Addresses::list(&[B, 0x10])),
        "0030 00000009 0 LDG.E 0 4 0 0x00007f0000001000 0x0000000000000010 0 \n"
    );
}

#[test]
fn an_unfitting_number_of_addresses_is_not_written() {
    let mut instruction = Instruction::new(0, 3, Opcode::new("LDG.E").unwrap());
    instruction.width = 4;
    let format = Header::new("k", 1, Dim3::new(1, 1, 1), Dim3::new(32, 1, 1)).format();
    for addresses in [
        Addresses::list(&[B]),
        Addresses::list(&[B, B, B]),
        Addresses::compress(1, &[B]),
        Addresses::compress(7, &[B, B, B + 1]),
    ] {
        instruction.addresses = Some(addresses);
        let mut text = WarpText::new();
        assert!(text.push(&instruction, format).is_err());
        assert_eq!(text.lines(), 0);
    }
    // The lanes of a stride are contiguous.
    instruction.mask = 5;
    instruction.addresses = Some(Addresses::Stride { base: B, stride: 4 });
    assert!(WarpText::new().push(&instruction, format).is_err());
}

proptest! {
    /// Compressed addresses are those that were given.
    #[test]
    fn compression_keeps_addresses(
        mask: u32,
        base: u64,
        step in prop_oneof![Just(0i64), -64i64..64, any::<i64>()],
        changed in prop::option::of((0usize..32, any::<u64>())),
    ) {
        let count = mask.count_ones() as usize;
        let mut lanes: Vec<u64> = (0..count as i64)
            .map(|lane| base.wrapping_add_signed(step.wrapping_mul(lane)))
            .collect();
        if let Some((lane, address)) = changed && lane < count {
            lanes[lane] = address;
        }
        for addresses in [Addresses::compress(mask, &lanes), Addresses::list(&lanes)] {
            let decoded: Vec<u64> = addresses.lanes(mask).map(|(_, address)| address).collect();
            prop_assert_eq!(&decoded, &lanes);
            let bits = addresses.lanes(mask).fold(0, |bits, (lane, _)| bits | 1u32 << lane);
            prop_assert_eq!(bits, mask);
        }
    }
}
