//! Computes the responses to the validity check of NVIDIA's runtimes.
//!
//! A runtime calls the check three times, with its version, its version + 1 and its version + 2. It continues only if
//! each response equals the value that it computes itself. The first two responses are constants. The third response is
//! an HMAC (RFC 2104) over MD2 (RFC 1319) of data that is available to both the driver and the runtime: versions,
//! process, thread, the addresses of two tables and of the check function, the time that the runtime passes, and the
//! UUID and PCI location of each device.
//!
//! This module exists for interoperability alone: programs link the runtime statically, and none of the runtime's calls
//! works without these responses. The module is written from the public description of inputs and outputs. A
//! distributor can omit the module by disabling the cargo feature `export-table-integrity`.

use margay::Device;

/// The inputs of one call of the validity check.
pub(super) struct Question {
    pub(super) driver_version: u32,
    pub(super) version: u32,
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) runtime_table: u64,
    pub(super) check_table: u64,
    pub(super) check_function: u64,
    pub(super) seconds: u64,
}

/// The data of one device, which is part of the message for the third response.
pub(super) struct DeviceFacts {
    uuid: [u8; 16],
    /// The PCI domain, bus and device numbers.
    pci: [i32; 3],
}

/// The attribute numbers of the PCI domain, bus and device.
const PCI_ATTRIBUTES: [i32; 3] = [50, 33, 34];

impl DeviceFacts {
    pub(super) fn of(device: &Device) -> DeviceFacts {
        DeviceFacts {
            uuid: device.uuid(),
            pci: PCI_ATTRIBUTES.map(|number| device.attribute(number).unwrap_or(0)),
        }
    }
}

/// The responses to the first and the second call.
const FIRST: [u64; 2] = [0x3341_181c_03cb_675c, 0x8ed3_83aa_1f4c_d1e8];
const SECOND: [u64; 2] = [0x1841_181c_03cb_675c, 0x8ed3_83aa_1f4c_d1e8];

/// The HMAC key of the third response.
const KEY: [u8; BLOCK] = [
    0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f,
];

/// Returns the 128-bit response to a call as two words. The first word contains the first eight bytes.
pub(super) fn answer(question: &Question, devices: &[DeviceFacts]) -> [u64; 2] {
    match question.version % 10 {
        0 => FIRST,
        1 => SECOND,
        _ => words(hmac(&KEY, &message(question, devices))),
    }
}

fn words(digest: [u8; BLOCK]) -> [u64; 2] {
    let number = u128::from_le_bytes(digest);
    [number as u64, (number >> 64) as u64]
}

fn message(question: &Question, devices: &[DeviceFacts]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [
        question.driver_version,
        question.version,
        question.process,
        question.thread,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [
        question.runtime_table,
        question.check_table,
        question.check_function,
        question.seconds,
    ] {
        bytes.extend(number.to_le_bytes());
    }
    for device in devices {
        bytes.extend(device.uuid);
        for number in device.pci {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}

/// The number of bytes of an MD2 block and of an MD2 digest.
const BLOCK: usize = 16;

/// Computes the HMAC-MD2 of `message`. The key is one block long.
fn hmac(key: &[u8; BLOCK], message: &[u8]) -> [u8; BLOCK] {
    let inner = md2(&[&key.map(|byte| byte ^ 0x36), message]);
    md2(&[&key.map(|byte| byte ^ 0x5c), &inner])
}

/// Computes the MD2 digest of the concatenated pieces.
fn md2(pieces: &[&[u8]]) -> [u8; BLOCK] {
    let mut bytes = pieces.concat();
    let fill = BLOCK - bytes.len() % BLOCK;
    bytes.resize(bytes.len() + fill, fill as u8);
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let mut state = [0; BLOCK];
    for block in blocks {
        compress(&mut state, block);
    }
    compress(&mut state, &checksum(blocks));
    state
}

fn checksum(blocks: &[[u8; BLOCK]]) -> [u8; BLOCK] {
    let mut sum = [0u8; BLOCK];
    let mut last = 0;
    for block in blocks {
        for (place, byte) in sum.iter_mut().zip(block) {
            *place ^= SUBSTITUTION[usize::from(byte ^ last)];
            last = *place;
        }
    }
    sum
}

fn compress(state: &mut [u8; BLOCK], block: &[u8; BLOCK]) {
    let mut work = [0u8; 3 * BLOCK];
    for index in 0..BLOCK {
        work[index] = state[index];
        work[BLOCK + index] = block[index];
        work[2 * BLOCK + index] = state[index] ^ block[index];
    }
    let mut carry = 0u8;
    for round in 0..18 {
        for byte in &mut work {
            *byte ^= SUBSTITUTION[usize::from(carry)];
            carry = *byte;
        }
        carry = carry.wrapping_add(round);
    }
    state.copy_from_slice(&work[..BLOCK]);
}

/// The substitution table of RFC 1319, derived from the digits of pi.
#[rustfmt::skip]
const SUBSTITUTION: [u8; 256] = [
     41,  46,  67, 201, 162, 216, 124,   1,  61,  54,  84, 161, 236, 240,   6,  19,
     98, 167,   5, 243, 192, 199, 115, 140, 152, 147,  43, 217, 188,  76, 130, 202,
     30, 155,  87,  60, 253, 212, 224,  22, 103,  66, 111,  24, 138,  23, 229,  18,
    190,  78, 196, 214, 218, 158, 222,  73, 160, 251, 245, 142, 187,  47, 238, 122,
    169, 104, 121, 145,  21, 178,   7,  63, 148, 194,  16, 137,  11,  34,  95,  33,
    128, 127,  93, 154,  90, 144,  50,  39,  53,  62, 204, 231, 191, 247, 151,   3,
    255,  25,  48, 179,  72, 165, 181, 209, 215,  94, 146,  42, 172,  86, 170, 198,
     79, 184,  56, 210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116,   4, 241,
     69, 157, 112,  89, 100, 113, 135,  32, 134,  91, 207, 101, 230,  45, 168,   2,
     27,  96,  37, 173, 174, 176, 185, 246,  28,  70,  97, 105,  52,  64, 126,  15,
     85,  71, 163,  35, 221,  81, 175,  58, 195,  92, 249, 206, 186, 197, 234,  38,
     44,  83,  13, 110, 133,  40, 132,   9, 211, 223, 205, 244,  65, 129,  77,  82,
    106, 220,  55, 200, 108, 193, 171, 250,  36, 225, 123,   8,  12, 189, 177,  74,
    120, 136, 149, 139, 227,  99, 232, 109, 233, 203, 213, 254,  59,   0,  29,  57,
    242, 239, 183,  14, 102,  88, 208, 228, 166, 119, 114, 248, 235, 117,  75,  10,
     49,  68,  80, 180, 143, 237,  31,  26, 219, 153, 141,  51, 159,  17, 131,  20,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digest: [u8; BLOCK]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The test suite of RFC 1319, appendix A.5.
    #[test]
    fn md2_of_the_rfc() {
        for (text, digest) in [
            ("", "8350e5a3e24c153df2275c9f80692773"),
            ("a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"),
            ("abc", "da853b0d3f88d99b30283a69e6ded6bb"),
            ("message digest", "ab4f496bfb2a530b219ff33031fe06b0"),
            (
                "abcdefghijklmnopqrstuvwxyz",
                "4e8ddff3650292ab5a4108c3aa47940b",
            ),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "da33def2a42df13975352846c30338cd",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "d5976f79d83d3a0dc9806c3c66f3efd8",
            ),
        ] {
            assert_eq!(hex(md2(&[text.as_bytes()])), digest, "{text:?}");
        }
    }

    #[test]
    fn the_substitution_is_a_permutation() {
        let mut seen = [false; 256];
        for value in SUBSTITUTION {
            assert!(!std::mem::replace(&mut seen[usize::from(value)], true));
        }
    }

    #[test]
    fn the_message_is_laid_out_without_gaps() {
        let question = Question {
            driver_version: 13050,
            version: 13052,
            process: 1,
            thread: 2,
            runtime_table: 3,
            check_table: 4,
            check_function: 5,
            seconds: 6,
        };
        let device = DeviceFacts {
            uuid: [7; 16],
            pci: [8, 9, 10],
        };
        let bytes = message(&question, &[device]);
        assert_eq!(bytes.len(), 4 * 4 + 4 * 8 + 16 + 3 * 4);
        assert_eq!(bytes[..8], [0xfa, 0x32, 0, 0, 0xfc, 0x32, 0, 0]);
        assert_eq!(bytes[16], 3);
        assert_eq!(bytes[48..64], [7; 16]);
        assert_eq!(bytes[72], 10);
    }
}
