//! The columns and lines that only version 6 has.

use margay_accelsim::{
    Cluster, Dim3, Fault, Instruction, ReadOptions, Register, RegisterKind, RegisterValue,
    TensorAccess, TensorAddresses,
};

use crate::files::ctas;
use crate::support::{fault_with, file, header};

fn options() -> ReadOptions {
    ReadOptions {
        unknown_opcodes: true,
        ..ReadOptions::default()
    }
}

fn text(line: &str) -> String {
    format!(
        "{}#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\ninsts = 2\n{line}\n0 ffffffff 0 EXIT 0 0 0 NoVal\n#END_TB",
        header(1, 90, 6)
    )
}

fn read(line: &str) -> Instruction {
    let (_folder, path) = file("kernel-1.traceg", text(line));
    let (_, mut ctas) = ctas(&path, &options());
    ctas[0].warps[0].instructions.remove(0)
}

#[test]
fn registers_have_more_kinds() {
    let line = read("0 1 1 UP3 ISETP 3 P0 UR7 R9 0 0 NoVal");
    let register = |kind, number| Register::new(kind, number).unwrap();
    assert_eq!(
        line.destination,
        Some(register(RegisterKind::UniformPredicate, 3))
    );
    assert_eq!(
        *line.sources,
        [
            register(RegisterKind::Predicate, 0),
            register(RegisterKind::Uniform, 7),
            Register::general(9)
        ]
    );
    assert_eq!(line.extra, None);
}

#[test]
fn group_matrix_lines_have_a_flag() {
    let extra = read("0 1 0 HGMMA.64x8x16.F32 1 R1 1 0 5 NoVal")
        .extra
        .unwrap();
    assert_eq!(extra.commit_group, Some(1));
    let line = read("0 1 0 WARPGROUP.ARRIVE 1 R1 0 5 6 NoVal");
    assert_eq!(line.immediate, 5);
    assert_eq!(line.extra.unwrap().second_immediate, Some(6));
}

#[test]
fn tensor_accesses_have_their_own_addresses() {
    let line = read("0 1 0 UTMALDG.2D 1 UR8 4 0x40 1 0xf 4096 16 2 0x7000 3 128 -64 0 NoVal");
    let access = line.extra.unwrap().tensor.unwrap();
    let addresses = TensorAddresses::Deltas {
        base: 0x7000,
        deltas: vec![128, -64],
    };
    assert_eq!(addresses.decoded(), [0x7000, 0x7080, 0x7040]);
    assert_eq!(
        access,
        TensorAccess {
            barrier: 0x40,
            cta_mask: Some(0xf),
            bytes: 4096,
            out_of_bounds_bytes: 16,
            addresses
        }
    );
    let line = read("0 1 0 UBLKCP 1 UR8 4 0x40 0 64 0 0 2 0x10 0x20 7 NoVal");
    assert_eq!(line.immediate, 7);
    let access = line.extra.unwrap().tensor.unwrap();
    assert_eq!(access.cta_mask, None);
    assert_eq!(access.addresses.decoded(), [0x10, 0x20]);
    let fault = |line: &str| fault_with(&text(line), &options()).unwrap().1;
    assert_eq!(
        fault("0 1 0 UBLKCP 0 4 0x40 0 64 0 1 0x10 4 0 NoVal"),
        Fault::AddressMode(1)
    );
    let (found, needed) = (1, 4_000_000_000);
    assert_eq!(
        fault("0 1 0 UBLKCP 0 4 0x40 0 64 0 0 4000000000 0x10"),
        Fault::AddressCount { found, needed }
    );
}

#[test]
fn values_follow_the_immediates() {
    let lanes: Vec<String> = (0..32).map(|lane| format!("{lane:x}")).collect();
    let line = read(&format!(
        "0 1 1 R1 MOV 1 R2 0 0 Val 1 0x2a 32 {}",
        lanes.join(" ")
    ));
    let values = line.extra.unwrap().values;
    assert_eq!(values[0], RegisterValue::Same(42));
    let expected: Vec<u64> = (0..32).collect();
    let RegisterValue::Lanes(found) = &values[1] else {
        panic!("{values:?}");
    };
    assert_eq!(found.as_slice(), expected);
    let fault = |line: &str| fault_with(&text(line), &options()).unwrap().1;
    assert_eq!(
        fault("0 1 1 R1 MOV 0 0 0 Val"),
        Fault::Missing("number of values")
    );
    assert_eq!(
        fault("0 1 0 MOV 0 0 0 Value"),
        Fault::Surplus("Value".to_owned())
    );
    assert_eq!(
        fault("0 1 0 MOV 0 0 0 NoVal 1"),
        Fault::Surplus("1".to_owned())
    );
}

#[test]
fn blocks_name_their_cluster() {
    let text = text("0 1 0 NOP 0 0 0 NoVal").replace(
        "0,0,0\n",
        "0,0,0\ncluster id = 1,2,3\ncluster cta = 4,5,6\ncluster rank = 7\n",
    );
    let (_folder, path) = file("kernel-1.traceg", text);
    let (_, ctas) = ctas(&path, &options());
    let cluster = Cluster {
        id: Dim3::new(1, 2, 3),
        cta: Dim3::new(4, 5, 6),
        rank: 7,
    };
    assert_eq!(ctas[0].cluster, Some(cluster));
}
