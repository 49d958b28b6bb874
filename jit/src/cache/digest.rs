//! BLAKE2b with a result of 32 bytes (RFC 7693), for the keys and checksums of the disk cache.
//!
//! A key identifies code that will be executed, so it must be infeasible to construct two inputs with the same key.
//! SipHash, the hash function of the standard library, has this property only for an attacker who does not know its
//! secret key. [`Digester`] is a [`Hasher`], so every type that implements `Hash` can be digested.

use std::hash::{Hash, Hasher};

/// Size of a digest in bytes.
pub(crate) const BYTES: usize = 32;

/// A digest.
pub(crate) type Digest = [u8; BYTES];

/// Computes the digest of the bytes that a value passes to its hasher. All processes of one build compute the same
/// digest.
pub(crate) fn of(value: &impl Hash) -> Digest {
    let mut digester = Digester::default();
    value.hash(&mut digester);
    digester.digest()
}

/// Size in bytes of the blocks into which BLAKE2b divides the input.
const BLOCK: usize = 128;

/// The initial state: the first 64 bits of the fractional parts of the square roots of the first eight primes (RFC
/// 7693, 2.6).
const START: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// For each round, the indices of the block's words in the order in which the round mixes them in (RFC 7693, 2.7).
const ORDER: [[u8; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The columns and then the diagonals of the state that a round mixes. Each is a list of word
/// indices.
const QUARTERS: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
];

/// The state of an unfinished digest.
#[derive(Clone, Debug)]
pub(crate) struct Digester {
    state: [u64; 8],
    block: [u8; BLOCK],
    filled: usize,
    /// Number of bytes compressed so far.
    done: u128,
}

impl Default for Digester {
    fn default() -> Digester {
        let mut state = START;
        // Parameter block: no key, fanout and depth 1, and the length of the digest.
        state[0] ^= 0x0101_0000 ^ BYTES as u64;
        Digester {
            state,
            block: [0; BLOCK],
            filled: 0,
            done: 0,
        }
    }
}

impl Digester {
    /// Returns the digest of all bytes written so far.
    pub(crate) fn digest(&self) -> Digest {
        let mut last = self.clone();
        last.done += last.filled as u128;
        last.block[last.filled..].fill(0);
        compress(&mut last.state, &last.block, last.done, true);
        let mut digest = [0; BYTES];
        for (bytes, word) in digest.chunks_exact_mut(8).zip(last.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }
}

impl Hasher for Digester {
    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // A full block is not compressed before more bytes arrive, because the last block is compressed
            // differently.
            if self.filled == BLOCK {
                self.done += BLOCK as u128;
                compress(&mut self.state, &self.block, self.done, false);
                self.filled = 0;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.block[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
    }

    fn finish(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.digest();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Mixes a block into the state (RFC 7693, 3.2).
fn compress(state: &mut [u64; 8], block: &[u8; BLOCK], done: u128, last: bool) {
    let mut words = [0u64; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes"));
    }
    let mut v = [0u64; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&START);
    v[12] ^= done as u64;
    v[13] ^= (done >> 64) as u64;
    if last {
        v[14] = !v[14];
    }
    for round in 0..12 {
        let order = &ORDER[round % 10];
        for (quarter, pair) in QUARTERS.iter().zip(order.chunks_exact(2)) {
            let [x, y] = [words[usize::from(pair[0])], words[usize::from(pair[1])]];
            mix(&mut v, quarter, x, y);
        }
    }
    for (i, word) in state.iter_mut().enumerate() {
        *word ^= v[i] ^ v[i + 8];
    }
}

/// Mixes two words into four words of the state (RFC 7693, 3.1).
fn mix(v: &mut [u64; 16], &[a, b, c, d]: &[usize; 4], x: u64, y: u64) {
    for (word, turns) in [(x, [32, 24]), (y, [16, 63])] {
        v[a] = v[a].wrapping_add(v[b]).wrapping_add(word);
        v[d] = (v[d] ^ v[a]).rotate_right(turns[0]);
        v[c] = v[c].wrapping_add(v[d]);
        v[b] = (v[b] ^ v[c]).rotate_right(turns[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes(bytes: &[u8]) -> Digest {
        let mut digester = Digester::default();
        digester.write(bytes);
        digester.digest()
    }

    fn hex(digest: Digest) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compares digests with the results of Python's `hashlib.blake2b(data, digest_size=32)`.
    #[test]
    fn digests_are_those_of_blake2b() {
        let counted = |len: usize| (0..len).map(|i| (i % 251) as u8).collect::<Vec<u8>>();
        for (data, wanted) in [
            (
                Vec::new(),
                "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8",
            ),
            (
                b"abc".to_vec(),
                "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319",
            ),
            (
                counted(128),
                "c3582f71ebb2be66fa5dd750f80baae97554f3b015663c8be377cfcb2488c1d1",
            ),
            (
                counted(129),
                "f7f3c46ba2564ff4c4c162da1f5b605f9f1c4aa6a20652a9f9a337c1a2f5b9c9",
            ),
            (
                counted(1000),
                "b372d0608f720c8c3dd41e9c8eecb10143b41abe520b616607e754bf79c08331",
            ),
        ] {
            assert_eq!(hex(of_bytes(&data)), wanted, "{} bytes", data.len());
        }
    }

    #[test]
    fn pieces_make_the_same_digest_as_the_whole() {
        let data: Vec<u8> = (0..=255).cycle().take(777).collect();
        let mut digester = Digester::default();
        for piece in data.chunks(13) {
            digester.write(piece);
        }
        assert_eq!(digester.digest(), of_bytes(&data));
    }
}
