//! SHA-256 of many messages. Each thread computes the digest of one message, with rotations and additions in long
//! dependency chains.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "SHA-256",
    size: "32 Ki messages of 0 to 150 bytes",
    group: Group::More,
    sources: sources!("benches/cuda/sha256.ptx", "sha256"),
    make,
};

const STRIDE: usize = 150;
const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

type Digest = [u32; 8];
type Table = [u32; 64];

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 15, 100);
    let mut random = Random::new(8);
    let texts = random.fill(n * STRIDE, |r| r.next() as u8);
    let lengths = random.fill(n, |r| r.below(STRIDE as u32 + 1) as i32);
    let table = table();
    let messages = texts.chunks_exact(STRIDE).zip(&lengths);
    let digests = messages.map(|(text, length)| digest(&text[..*length as usize], &table));
    let want: Vec<Digest> = digests.collect();
    let mut work = Work::on(n);
    let (texts, lengths) = (work.input(&texts), work.input(&lengths));
    let (table, digests) = (work.input(&table), work.output::<Digest>(n));
    let arguments = args![texts, lengths, STRIDE as i32, table, digests, n as i32];
    work.launch("sha256_batch", n.div_ceil(64), 64, arguments);
    work.numbers([n, STRIDE]);
    work.expect(digests, Values::exact(want.as_flattened()));
    work
}

/// Computes the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
fn table() -> Table {
    let mut primes = (2u128..).filter(|p| (2..*p).take_while(|d| d * d <= *p).all(|d| p % d != 0));
    std::array::from_fn(|_| {
        let cube = primes.next().expect("primes do not end") << 96;
        let (mut low, mut high) = (0u128, 1u128 << 36);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if middle * middle * middle <= cube {
                low = middle;
            } else {
                high = middle;
            }
        }
        low as u32
    })
}

#[inline]
fn compress(state: &mut Digest, block: &[u8; 64], table: &Table) {
    let mut w = [0u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for i in 16..64 {
        let (a, b) = (w[i - 15], w[i - 2]);
        let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
        let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
        w[i] = w[i - 16]
            .wrapping_add(s0)
            .wrapping_add(w[i - 7])
            .wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (k, w) in table.iter().zip(w) {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let t1 = [s1, choice, *k, w].into_iter().fold(h, u32::wrapping_add);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
        (d, c, b, a) = (c, b, a, t1.wrapping_add(s0).wrapping_add(majority));
    }
    for (sum, value) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *sum = sum.wrapping_add(value);
    }
}

#[inline]
fn digest(text: &[u8], table: &Table) -> Digest {
    let mut state = START;
    let (blocks, rest) = text.as_chunks::<64>();
    for block in blocks {
        compress(&mut state, block, table);
    }
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    if rest.len() >= 56 {
        compress(&mut state, &last, table);
        last = [0; 64];
    }
    last[56..].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
    compress(&mut state, &last, table);
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_sha_256() {
        // FIPS 180-2, appendices B.1 and B.2.
        let table = table();
        assert_eq!(digest(b"abc", &table)[..2], [0xba78_16bf, 0x8f01_cfea]);
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(digest(two_blocks, &table)[..2], [0x248d_6a61, 0xd206_38b8]);
    }
}
