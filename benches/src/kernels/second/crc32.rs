//! CRC-32 of many messages, with lookups in four tables in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "CRC-32",
    size: "64 Ki messages of 0 to 256 bytes",
    group: Group::Second,
    sources: sources!("benches/cuda/crc32.ptx", "crc32"),
    make,
};

const STRIDE: usize = 256;
/// The polynomial with its bits in reverse order (ISO/IEC 13239, annex A).
const POLYNOMIAL: u32 = 0xedb8_8320;

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 16, 200);
    let mut random = Random::new(40);
    let texts = random.fill(n * STRIDE, |r| r.next() as u8);
    let lengths = random.fill(n, |r| r.below(STRIDE as u32 + 1) as i32);
    let messages = texts.chunks_exact(STRIDE).zip(&lengths);
    let want: Vec<u32> = messages
        .map(|(text, length)| checksum(&text[..*length as usize]))
        .collect();
    let bytes = lengths.iter().map(|length| *length as usize).sum();
    let mut work = Work::on(bytes);
    let (texts, lengths) = (work.input(&texts), work.input(&lengths));
    let (tables, results) = (work.input(&tables()), work.output::<u32>(n));
    let arguments = args![texts, lengths, STRIDE as i32, tables, results, n as i32];
    work.launch("crc32_batch", n.div_ceil(128), 128, arguments);
    work.numbers([n, STRIDE]);
    work.expect(results, Values::exact(&want));
    work
}

/// Appends eight zero bits to the message with the remainder `crc`.
fn shifted(crc: u32) -> u32 {
    (0..8).fold(crc, |crc, _| (crc >> 1) ^ (POLYNOMIAL * (crc & 1)))
}

/// Computes the CRC bit by bit.
fn checksum(text: &[u8]) -> u32 {
    let crc = text
        .iter()
        .fold(!0, |crc, byte| shifted(crc ^ u32::from(*byte)));
    !crc
}

/// Returns four tables, one after the other. Table t contains the remainders of all bytes that are followed by t zero
/// bytes.
fn tables() -> Vec<u32> {
    let of_byte = |zeros: u32, byte: u32| (0..=zeros).fold(byte, |crc, _| shifted(crc));
    (0..4)
        .flat_map(|zeros| (0..256).map(move |byte| of_byte(zeros, byte)))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_loop_is_crc_32() {
        // The check value that catalogues of CRCs give for CRC-32.
        assert_eq!(super::checksum(b"123456789"), 0xcbf4_3926);
    }
}
