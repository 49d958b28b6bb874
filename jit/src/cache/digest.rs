//! BLAKE3 digests, for the keys and checksums of the disk cache.
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
pub fn of(value: &impl Hash) -> [u8; 32] {
    let mut digester = Digester::default();
    value.hash(&mut digester);
    digester.digest()
}

/// The state of an unfinished digest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digester(blake3::Hasher);

impl Digester {
    /// Returns the digest of all bytes written so far.
    pub(crate) fn digest(&self) -> Digest {
        self.0.finalize().into()
    }
}

impl Hasher for Digester {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.digest();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
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

    #[test]
    fn pieces_make_the_same_digest_as_the_whole() {
        let data: Vec<u8> = (0..=255).cycle().take(777).collect();
        let mut digester = Digester::default();
        for piece in data.chunks(13) {
            digester.write(piece);
        }
        assert_eq!(digester.digest(), of_bytes(&data));
        assert_ne!(of_bytes(&data), of_bytes(&data[1..]));
    }
}
