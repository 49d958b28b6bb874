//! What a sweep found: the worst errors and where they are, and results that are wrong.

/// In what an error is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Units in the last place of the exact result.
    Ulp,
    /// Relative to the exact result.
    Relative,
    /// The difference itself.
    Absolute,
    /// No error at all: the size of the result, where the ISA bounds nothing.
    Size,
}

/// Inputs with a bound of their own.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Which inputs.
    pub about: &'static str,
    /// The largest error that may be.
    pub bound: f64,
    /// Its unit.
    pub unit: Unit,
    /// Whether the bound is the ISA's, or our own where it states none.
    pub stated: bool,
}

/// The worst error of a region, and the operands that show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worst {
    /// In the region's unit.
    pub error: f64,
    /// Encodings; unused ones are 0.
    pub at: [u64; 3],
}

/// A result that may not be.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// Encodings of the operands.
    pub inputs: Vec<u64>,
    /// The encoding of the result.
    pub got: u64,
    /// What is wrong with it.
    pub why: String,
}

/// How many wrong results are kept.
const KEPT: usize = 8;

/// The findings of one row.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Results judged.
    pub checked: u64,
    /// The bounds.
    pub regions: &'static [Region],
    /// One for each region.
    pub worst: Vec<Worst>,
    /// Wrong results.
    pub wrong_count: u64,
    /// The first of them.
    pub wrong: Vec<Wrong>,
    /// A hash of all results in order; all NaNs of `f32` and `f64` are one.
    pub hash: u64,
}

impl Tally {
    /// Nothing found yet.
    pub fn new(regions: &'static [Region]) -> Tally {
        Tally {
            checked: 0,
            regions,
            worst: vec![Worst::default(); regions.len()],
            wrong_count: 0,
            wrong: Vec::new(),
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Notes an error, and that it is wrong when it exceeds the region's bound.
    #[inline(always)]
    pub fn error(&mut self, region: usize, error: f64, inputs: &[u64], got: u64) {
        let worst = &mut self.worst[region];
        if error > worst.error {
            worst.error = error;
            worst.at[..inputs.len()].copy_from_slice(inputs);
        }
        // A NaN is no small error.
        let within = error <= self.regions[region].bound;
        if !within {
            self.beyond(region, error, inputs, got);
        }
    }

    #[cold]
    fn beyond(&mut self, region: usize, error: f64, inputs: &[u64], got: u64) {
        let what = self.regions[region].about;
        self.wrong(inputs, got, &format!("error {error:e} ({what})"));
    }

    /// Notes a wrong result.
    #[cold]
    pub fn wrong(&mut self, inputs: &[u64], got: u64, why: &str) {
        self.wrong_count += 1;
        if self.wrong.len() < KEPT {
            self.wrong.push(Wrong {
                inputs: inputs.to_vec(),
                got,
                why: why.to_owned(),
            });
        }
    }

    /// Notes a wrong result unless `right`.
    #[inline(always)]
    pub fn expect(&mut self, right: bool, inputs: &[u64], got: u64, why: &str) {
        if !right {
            self.wrong(inputs, got, why);
        }
    }
}
