//! AES-128 in counter mode, with lookups in a table in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "AES-128, counter mode",
    size: "256 Ki blocks of 16 bytes",
    group: Group::Second,
    sources: sources!("benches/cuda/aes.ptx", "aes"),
    make,
};

type Block = [u8; 16];

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 18, 700);
    let mut random = Random::new(41);
    let text: Vec<Block> = random.fill(n, |r| [(); 16].map(|()| r.next() as u8));
    let key: Block = [(); 16].map(|()| random.next() as u8);
    let counter: [u32; 4] = [(); 4].map(|()| random.below(1 << 31));
    let substitutions = substitutions();
    let keys = round_keys(key, &substitutions);
    let encrypted = |i: usize| -> Block {
        let mut words = counter;
        words[3] += i as u32;
        let stream = encrypt(block_of(words), &keys, &substitutions);
        std::array::from_fn(|byte| stream[byte] ^ text[i][byte])
    };
    let want: Vec<Block> = (0..n).map(encrypted).collect();
    let table: Vec<u32> = substitutions
        .iter()
        .map(|s| u32::from_be_bytes([times(*s, 2), *s, *s, times(*s, 3)]))
        .collect();
    let mut work = Work::on(16 * n);
    let (text, out) = (work.input(&text), work.output::<Block>(n));
    let [keys, table] = [keys, table].map(|words| work.input(&words));
    let substitutions = work.input(&substitutions);
    work.input(&counter);
    let arguments = args![text, out, keys, table, substitutions, counter, n as i32];
    work.launch("aes_ctr", n.div_ceil(128), 128, arguments);
    work.numbers([n]);
    work.expect(out, Values::exact(want.as_flattened()));
    work
}

/// Returns the bytes of words in big-endian order.
fn block_of(words: [u32; 4]) -> Block {
    std::array::from_fn(|i| words[i / 4].to_be_bytes()[i % 4])
}

/// Multiplies two polynomials over GF(2), modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197, section 4.2).
fn times(mut a: u8, b: u8) -> u8 {
    let mut product = 0;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        a = (a << 1) ^ (0x1b * (a >> 7));
    }
    product
}

/// Computes the byte substitutions (FIPS 197, section 5.1.1).
fn substitutions() -> [u8; 256] {
    let inverse = |byte: u8| {
        (0..=255)
            .find(|other| times(byte, *other) == 1)
            .unwrap_or(0)
    };
    std::array::from_fn(|byte| {
        let b = inverse(byte as u8);
        (1..5).fold(b ^ 0x63, |sum, n| sum ^ b.rotate_left(n))
    })
}

/// Computes the keys of all rounds (FIPS 197, section 5.2).
fn round_keys(key: Block, substitutions: &[u8; 256]) -> Vec<u32> {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u32::from(*byte))
    };
    let mut words: Vec<u32> = key.chunks(4).map(word).collect();
    let mut constant = 1;
    for i in 4..44 {
        let mut next = words[i - 1];
        if i % 4 == 0 {
            let bytes = next.rotate_left(8).to_be_bytes();
            next = u32::from_be_bytes(bytes.map(|byte| substitutions[usize::from(byte)]));
            next ^= u32::from(constant) << 24;
            constant = times(constant, 2);
        }
        words.push(words[i - 4] ^ next);
    }
    words
}

/// Encrypts a block step by step (FIPS 197, section 5.1).
fn encrypt(mut state: Block, keys: &[u32], substitutions: &[u8; 256]) -> Block {
    let with_key = |state: Block, round: usize| -> Block {
        std::array::from_fn(|i| state[i] ^ keys[4 * round + i / 4].to_be_bytes()[i % 4])
    };
    state = with_key(state, 0);
    for round in 1..=10 {
        let substituted = state.map(|byte| substitutions[usize::from(byte)]);
        // Row i % 4 of the state moves by i % 4 columns of four bytes.
        state = std::array::from_fn(|i| substituted[(i + 4 * (i % 4)) % 16]);
        if round < 10 {
            let before = state;
            state = std::array::from_fn(|i| {
                let of_row = |n: usize| before[i / 4 * 4 + (i + n) % 4];
                times(of_row(0), 2) ^ times(of_row(1), 3) ^ of_row(2) ^ of_row(3)
            });
        }
        state = with_key(state, round);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_aes() {
        // FIPS 197, appendix C.1.
        let substitutions = substitutions();
        let key = std::array::from_fn(|i| i as u8);
        let keys = round_keys(key, &substitutions);
        let text = std::array::from_fn(|i| 0x11 * i as u8);
        let want = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55au128;
        assert_eq!(encrypt(text, &keys, &substitutions), want.to_be_bytes());
    }
}
