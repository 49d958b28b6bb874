//! Which slice of the second cache and which channel, bank and row of device memory hold an address.

use crate::config::Config;

/// The bytes that are contiguous in a channel.
const CHUNK_SHIFT: u32 = 8;

/// Where a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The slice of the second cache.
    pub(crate) slice: u32,
    /// The channel of device memory.
    pub(crate) channel: u32,
    /// The bank of the channel.
    pub(crate) bank: u32,
    /// The row of the bank.
    pub(crate) row: u64,
    /// The number of the line without the bits that select the channel.
    pub(crate) local_line: u64,
}

/// Maps addresses to places.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    channels: u64,
    slices_per_channel: u64,
    banks: u64,
    hash: Option<Hash>,
}

impl Partition {
    /// Returns the map of a configuration.
    pub(crate) fn new(config: &Config) -> Partition {
        let slices = u64::from(config.slices());
        Partition {
            channels: u64::from(config.dram.channels),
            slices_per_channel: u64::from(config.l2.slices_per_channel),
            banks: u64::from(config.dram.banks),
            hash: config.l2.hashed.then(|| Hash::new(slices)),
        }
    }

    /// Returns the place of a line of 128 bytes.
    pub(crate) fn place(&self, line: u64) -> Place {
        let chunk = line >> (CHUNK_SHIFT - 7);
        let (channel, chunk_in_channel) = (chunk % self.channels, chunk / self.channels);
        // Rows are above 7 bits of chunks; banks are bits 0 and 4 to 6.
        let bank = chunk_in_channel & 1 | (chunk_in_channel >> 4 & 7) << 1;
        let index = channel * self.slices_per_channel + bank % self.slices_per_channel;
        let slice = match &self.hash {
            Some(hash) => {
                let high = chunk / self.channels / self.slices_per_channel;
                hash.index(high, index) % (self.channels * self.slices_per_channel)
            }
            None => index,
        };
        Place {
            slice: slice as u32,
            channel: (slice / self.slices_per_channel) as u32,
            bank: (bank % self.banks) as u32,
            row: chunk_in_channel >> 7,
            local_line: chunk_in_channel << 1 | line & 1,
        }
    }
}

/// A hash that spreads all strides that are powers of two: the remainder of the address, as a polynomial over the field of
/// two elements, by an irreducible polynomial (Rau, Pseudo-randomly interleaved memory, ISCA 1991).
#[derive(Clone, Debug)]
struct Hash {
    /// The number of bits of an index.
    bits: u32,
    /// The remainder of x^(bits + i) for each bit i of the high part.
    remainders: [u64; 64],
}

impl Hash {
    /// Irreducible polynomials with the degree 0, 1, 2 and so on. Bit i is the coefficient of x^i.
    const POLYNOMIALS: [u64; 13] = [
        0b1,
        0b10,
        0b111,
        0b1011,
        0b10011,
        0b10_0101,
        0b100_0011,
        0b1000_0011,
        0b1_0001_1011,
        0b10_0001_0001,
        0b100_0000_1001,
        0b1000_0000_0101,
        0b1_0000_0101_0011,
    ];

    /// Returns a hash for this number of slices, at most 4096. Indices are below the next power of two.
    fn new(slices: u64) -> Hash {
        let bits = slices.next_power_of_two().trailing_zeros().min(12);
        let polynomial = Hash::POLYNOMIALS[bits as usize];
        let mut remainders = [0; 64];
        let mut power = if bits == 0 { 0 } else { polynomial ^ 1 << bits };
        for remainder in &mut remainders {
            *remainder = power;
            power <<= 1;
            if power >> bits & 1 == 1 {
                power ^= polynomial;
            }
        }
        Hash { bits, remainders }
    }

    fn index(&self, high: u64, index: u64) -> u64 {
        // Higher bits do not change the simulator's index.
        let mut rest = high & ((1 << 19) - 1);
        let mut hashed = index & ((1 << self.bits) - 1);
        while rest != 0 {
            hashed ^= self.remainders[rest.trailing_zeros() as usize];
            rest &= rest - 1;
        }
        hashed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_of_powers_of_two_use_all_slices() {
        for name in ["qv100", "rtx3070"] {
            let config = Config::builtin(name).unwrap();
            let partition = Partition::new(&config);
            for stride in 8..18 {
                let slices = (0..64).map(|step: u64| partition.place(step << stride >> 7).slice);
                let mut slices: Vec<u32> = slices.collect();
                slices.sort_unstable();
                slices.dedup();
                assert!(
                    slices.len() >= config.slices() as usize / 2,
                    "{name} {stride}"
                );
            }
        }
    }

    #[test]
    fn the_lines_of_a_chunk_share_a_slice() {
        for name in Config::BUILTIN {
            let config = Config::builtin(name).unwrap();
            let partition = Partition::new(&config);
            for line in (0..100_000).step_by(2) {
                let (one, other) = (partition.place(line), partition.place(line + 1));
                assert_eq!(
                    (one.slice, one.bank, one.row),
                    (other.slice, other.bank, other.row)
                );
                assert_eq!(one.channel, one.slice / config.l2.slices_per_channel);
                assert!(one.slice < config.slices());
            }
        }
    }
}
