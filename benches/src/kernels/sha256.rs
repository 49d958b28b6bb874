//! SHA-256 of many messages, one a thread: rotations and additions in long chains.

use std::rc::Rc;

use margay::{LaunchConfig, Runtime};
use rayon::prelude::*;

use crate::case::{Case, OnDevice, Scale, Values, Work};
use crate::cpu::for_this_cpu;
use crate::data::Random;

pub(super) const CASE: Case = Case {
    name: "SHA-256",
    size: "32 Ki messages of 0 to 150 bytes",
    make,
};

const PTX: &str = include_str!("../../../tests/cuda/ptx/sha256.ptx");
const STRIDE: usize = 150;
const CHUNK: usize = 64;
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

struct Messages {
    table: Table,
    texts: Vec<u8>,
    lengths: Vec<i32>,
    digests: Vec<Digest>,
}

fn make(scale: Scale) -> Box<dyn Work> {
    let n = scale.pick(1 << 15, 100);
    let mut random = Random::new(8);
    Box::new(Messages {
        table: table(),
        texts: random.fill(n * STRIDE, |r| r.next() as u8),
        lengths: random.fill(n, |r| r.below(STRIDE as u32 + 1) as i32),
        digests: vec![[0; 8]; n],
    })
}

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
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

for_this_cpu! {
    fn digests(texts: &[u8], lengths: &[i32], table: &Table, digests: &mut [Digest]) {
        let texts = texts.chunks_exact(STRIDE).zip(lengths);
        for ((text, length), out) in texts.zip(digests) {
            *out = digest(&text[..*length as usize], table);
        }
    }
}

impl Work for Messages {
    fn serial(&mut self) {
        digests(&self.texts, &self.lengths, &self.table, &mut self.digests);
    }

    fn parallel(&mut self) {
        let texts = self.texts.par_chunks(CHUNK * STRIDE);
        let texts = texts.zip(self.lengths.par_chunks(CHUNK));
        let all = texts.zip(self.digests.par_chunks_mut(CHUNK));
        all.for_each(|((texts, lengths), out)| digests(texts, lengths, &self.table, out));
    }

    fn result(&self) -> Values {
        Values::Exact(self.digests.concat())
    }

    fn on_device(&self, runtime: &Runtime) -> margay::Result<OnDevice> {
        let module = runtime.load_ptx(PTX)?;
        let kernel = module.kernel("sha256_batch")?;
        let stream = runtime.context()?.legacy_stream();
        let table = module.global("table")?.ptr;
        for (word, at) in self.table.into_iter().zip((0..).step_by(4)) {
            stream.fill(table.offset(at), word, 4, 1, 1, 0)?;
        }
        let n = self.lengths.len() as i32;
        let texts = runtime.upload(&self.texts)?;
        let lengths = runtime.upload(&self.lengths)?;
        let digests = Rc::new(runtime.upload(&self.digests)?);
        let (rt, out) = (runtime.clone(), Rc::clone(&digests));
        let config = LaunchConfig::linear(n as u32, 64);
        Ok(OnDevice::new(
            runtime,
            move || {
                let arguments = (&texts, &lengths, STRIDE as i32, &*out, n);
                rt.launch(&kernel, config, arguments)
            },
            move || Ok(Values::Exact(digests.to_vec()?.concat())),
        ))
    }
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
