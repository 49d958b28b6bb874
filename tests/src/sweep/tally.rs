//! The results of a sweep of a row: the largest errors with their operands, and the wrong results.

/// The unit of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Units in the last place of the exact result.
    Ulp,
    /// The difference from the exact result, divided by the exact result.
    Relative,
    /// The difference from the exact result.
    Absolute,
    /// The magnitude of the result instead of an error, if the ISA states no bound.
    Size,
}

/// A set of inputs that has its own error bound.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Description of the inputs that belong to the region.
    pub about: &'static str,
    /// The largest permitted error of results for these inputs.
    pub bound: f64,
    /// The unit of the bound.
    pub unit: Unit,
    /// Whether the ISA states the bound. If false, this project has chosen the bound.
    pub stated: bool,
}

/// The largest error in a region, and the operands for which it occurs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worst {
    /// The error, in the unit of the region's bound.
    pub error: f64,
    /// Encodings of the operands. The encodings of unused operands are 0.
    pub at: [u64; 3],
}

/// A wrong result.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// Encodings of the operands.
    pub inputs: Vec<u64>,
    /// The encoding of the result.
    pub got: u64,
    /// Description of what is wrong with the result.
    pub why: String,
}

/// Maximum number of wrong results that a tally contains in detail.
const KEPT: usize = 8;

/// The errors and wrong results of one row.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Number of checked results.
    pub checked: u64,
    /// The regions and their bounds.
    pub regions: &'static [Region],
    /// The largest error in each region.
    pub worst: Vec<Worst>,
    /// Number of wrong results.
    pub wrong_count: u64,
    /// The first few wrong results of the row.
    pub wrong: Vec<Wrong>,
    /// A hash of all results, in the order of the inputs. It does not depend on the bits of NaNs of
    /// `f32` and `f64`. It is computed only if a sample of the inputs runs.
    pub hash: u64,
}

impl Tally {
    /// Returns a tally without results.
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

    /// Records the error of a result. If the error is larger than the bound of the region `region`,
    /// also records the result as wrong.
    #[inline(always)]
    pub fn error(&mut self, region: usize, error: f64, inputs: &[u64], got: u64) {
        let worst = &mut self.worst[region];
        if error > worst.error {
            worst.error = error;
            worst.at[..inputs.len()].copy_from_slice(inputs);
        }
        // The comparison is false for a NaN.
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

    /// Records that the result `got` for the operands `inputs` is wrong.
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

    /// Records that the result `got` is wrong if `right` is false.
    #[inline(always)]
    pub fn expect(&mut self, right: bool, inputs: &[u64], got: u64, why: &str) {
        if !right {
            self.wrong(inputs, got, why);
        }
    }
}
