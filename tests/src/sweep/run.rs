//! Runs the rows of the table: launches the kernel of a row for each piece of the inputs, and
//! passes the results to the row's checker.

use std::sync::mpsc::sync_channel;

use margay::{DeviceBuffer, DevicePtr, EngineChoice, Error, LaunchConfig, Module, Runtime};

use super::inputs::{self, Random};
use super::kernel::Held;
use super::rows::{Inputs, Row};
use super::tally::Tally;

/// Maximum number of inputs of one launch.
const PIECE: usize = 1 << 19;
/// Number of threads of a block.
const BLOCK: u32 = 256;

/// How many of a row's inputs run.
#[derive(Clone, Copy, Debug)]
pub enum Depth {
    /// All inputs. The exceptions are instructions that run slowly, whose inputs have equal
    /// distances, and instructions with several operands or with `f64` operands, which run with
    /// many selected and random inputs.
    Full,
    /// Approximately this number of inputs for each row.
    Sample(usize),
}

/// A runtime, and the seed of random inputs.
pub struct Machine {
    runtime: Runtime,
    seed: u64,
}

/// The results of a launch, as words of 32 or 64 bits.
enum Words {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Words {
    fn get(&self, at: usize) -> u64 {
        match self {
            Words::Narrow(words) => words[at].into(),
            Words::Wide(words) => words[at],
        }
    }
}

/// Device memory for results.
enum Out {
    Narrow(DeviceBuffer<u32>),
    Wide(DeviceBuffer<u64>),
}

impl Out {
    fn new(runtime: &Runtime, result: Held, len: usize) -> Result<Out, Error> {
        Ok(match result.bytes() {
            8 => Out::Wide(runtime.alloc(len)?),
            _ => Out::Narrow(runtime.alloc(len)?),
        })
    }

    fn ptr(&self) -> DevicePtr {
        match self {
            Out::Narrow(buffer) => buffer.ptr(),
            Out::Wide(buffer) => buffer.ptr(),
        }
    }

    fn read(&self) -> Result<Words, Error> {
        Ok(match self {
            Out::Narrow(buffer) => Words::Narrow(buffer.to_vec()?),
            Out::Wide(buffer) => Words::Wide(buffer.to_vec()?),
        })
    }
}

/// The operands of one launch.
enum Piece {
    Ramp { start: u32, step: u32 },
    List(Vec<Vec<u64>>),
}

impl Machine {
    /// Creates a machine with the engine `engine` and one worker.
    ///
    /// # Errors
    ///
    /// Returns an error if the runtime cannot be created.
    pub fn new(engine: EngineChoice, seed: u64) -> Result<Machine, Error> {
        let runtime = Runtime::builder().engine(engine).workers(1).build()?;
        Ok(Machine { runtime, seed })
    }

    /// Runs a row and checks all its results.
    ///
    /// # Errors
    ///
    /// Returns the error if the kernel cannot be loaded or launched.
    pub fn run(&self, row: &Row, depth: Depth) -> Result<Tally, Error> {
        let module = self.runtime.load_ptx(&row.instruction.module())?;
        let mut tally = Tally::new(row.regions);
        let hashed = matches!(depth, Depth::Sample(_));
        let (sender, receiver) = sync_channel::<(Piece, Words, usize)>(2);
        std::thread::scope(|scope| {
            let tally = &mut tally;
            let judge = scope.spawn(move || {
                for (piece, words, count) in receiver {
                    judge(row, &piece, &words, count, hashed, tally);
                }
            });
            let produced = self.produce(row, depth, &module, |piece, words, count| {
                // The checking thread ends only when the sender is dropped.
                sender.send((piece, words, count)).expect("the judge works");
            });
            drop(sender);
            judge.join().expect("the judge does not panic");
            produced
        })?;
        module.unload()?;
        Ok(tally)
    }

    fn produce(
        &self,
        row: &Row,
        depth: Depth,
        module: &Module,
        mut give: impl FnMut(Piece, Words, usize),
    ) -> Result<(), Error> {
        for turn in 0..turns(row, depth) {
            for list in self.lists(row, depth, turn) {
                let count = list[0].len();
                let words = self.list(row, module, &list)?;
                give(Piece::List(list), words, count);
            }
        }
        let Some(step) = step(row, depth) else {
            return Ok(());
        };
        let total = (1u64 << 32).div_ceil(step.into());
        let first = self.seed.wrapping_mul(0x9e37_79b9) as u32 % step;
        let kernel = module.kernel("ramp")?;
        let length = PIECE.min(total as usize);
        let out = Out::new(&self.runtime, row.instruction.result, length)?;
        let mut done = 0;
        while done < total {
            let count = (total - done).min(length as u64) as usize;
            let start = (done as u32).wrapping_mul(step).wrapping_add(first);
            let config = LaunchConfig::linear(count as u32, BLOCK);
            let arguments = (out.ptr(), count as u32, start, step);
            self.runtime.launch(&kernel, config, arguments)?;
            give(Piece::Ramp { start, step }, out.read()?, count);
            done += count as u64;
        }
        Ok(())
    }

    /// Returns the inputs that the kernel `list` loads, divided into pieces for one launch each. A
    /// piece contains one list for each operand. The random inputs depend on the round `turn`.
    fn lists(&self, row: &Row, depth: Depth, turn: u64) -> Vec<Vec<Vec<u64>>> {
        let random = &mut Random(self.seed ^ turn << 32);
        let count = match depth {
            Depth::Full => PIECE,
            Depth::Sample(count) => count,
        };
        let singles = |list: Vec<u32>| list.into_iter().map(|x| vec![x.into()]).collect();
        let tuples: Vec<Vec<u64>> = match row.inputs {
            // A ramp over all inputs contains the difficult inputs; a sample needs them in addition.
            Inputs::Every(format) | Inputs::Strided(format) => {
                let mut list = inputs::limits();
                if let Some(format) = format {
                    list.extend(inputs::boundaries(format));
                }
                singles(list)
            }
            Inputs::Halves => (0..1 << 16).map(|x| vec![x]).collect(),
            Inputs::HalfPairs => (0..1 << 16)
                .map(|x: u64| vec![x | ((x * 40503) & 0xffff) << 16])
                .collect(),
            Inputs::Pairs => inputs::pairs(random, count)
                .into_iter()
                .map(|pair| pair.to_vec())
                .collect(),
            Inputs::BoundaryPairs(format) => {
                let list: Vec<u64> = inputs::limits()
                    .into_iter()
                    .chain(inputs::boundaries(format))
                    .map(u64::from)
                    .collect();
                let other = |at: usize| list[(at * 7919 + 13) % list.len()];
                (0..list.len())
                    .map(|at| vec![list[at], other(at)])
                    .collect()
            }
            Inputs::Triples => inputs::triples(random, count)
                .into_iter()
                .map(|triple| triple.to_vec())
                .collect(),
            Inputs::Doubles => inputs::doubles(random, count)
                .into_iter()
                .map(|list| list[..row.instruction.operands.len()].to_vec())
                .collect(),
        };
        tuples.chunks(PIECE).map(transposed).collect()
    }

    fn list(&self, row: &Row, module: &Module, list: &[Vec<u64>]) -> Result<Words, Error> {
        let count = list[0].len();
        let out = Out::new(&self.runtime, row.instruction.result, count)?;
        let mut narrow = Vec::new();
        let mut wide = Vec::new();
        let mut pointers = Vec::new();
        for (operand, values) in row.instruction.operands.iter().zip(list) {
            if operand.bytes() == 8 {
                let buffer = self.runtime.upload(values)?;
                pointers.push(buffer.ptr());
                wide.push(buffer);
            } else {
                let values: Vec<u32> = values.iter().map(|&x| x as u32).collect();
                let buffer = self.runtime.upload(&values)?;
                pointers.push(buffer.ptr());
                narrow.push(buffer);
            }
        }
        let kernel = module.kernel("list")?;
        let config = LaunchConfig::linear(count as u32, BLOCK);
        let (out_ptr, len) = (out.ptr(), count as u32);
        match pointers[..] {
            [a] => self.runtime.launch(&kernel, config, (out_ptr, len, a))?,
            [a, b] => self.runtime.launch(&kernel, config, (out_ptr, len, a, b))?,
            [a, b, c] => self
                .runtime
                .launch(&kernel, config, (out_ptr, len, a, b, c))?,
            _ => return Err(Error::invalid("an instruction has one to three operands")),
        }
        out.read()
    }
}

/// Returns the number of rounds of a row. In each round, other random operands are chosen.
fn turns(row: &Row, depth: Depth) -> u64 {
    const FULL_TURNS: u64 = 16;
    match (row.inputs, depth) {
        (Inputs::Pairs | Inputs::Triples | Inputs::Doubles, Depth::Full) => FULL_TURNS,
        _ => 1,
    }
}

fn transposed(tuples: &[Vec<u64>]) -> Vec<Vec<u64>> {
    let operands = tuples.first().map_or(0, Vec::len);
    let column = |at: usize| tuples.iter().map(|tuple| tuple[at]).collect();
    (0..operands).map(column).collect()
}

/// Returns the distance between consecutive inputs of the kernel `ramp`; `None` if only the kernel
/// `list` runs.
fn step(row: &Row, depth: Depth) -> Option<u32> {
    /// The distance for instructions that run slowly. The kernel `list` also runs these
    /// instructions with all rounding boundaries.
    const FULL_STRIDE: u32 = 251;
    let sampled = |count: usize| ((1u64 << 32) / count as u64) as u32 | 1;
    match (row.inputs, depth) {
        (Inputs::Every(_), Depth::Full) => Some(1),
        (Inputs::Strided(_), Depth::Full) => Some(FULL_STRIDE),
        (Inputs::Every(_) | Inputs::Strided(_), Depth::Sample(count)) => Some(sampled(count)),
        _ => None,
    }
}

fn judge(row: &Row, piece: &Piece, words: &Words, count: usize, hashed: bool, tally: &mut Tally) {
    let check = &row.check;
    match (piece, words) {
        (Piece::Ramp { start, step }, Words::Narrow(words)) => {
            ramp(row, *start, *step, &words[..count], tally);
        }
        (Piece::Ramp { start, step }, Words::Wide(words)) => {
            for (at, &got) in words[..count].iter().enumerate() {
                let input = (at as u32).wrapping_mul(*step).wrapping_add(*start);
                check.one(&[input.into()], got, tally);
            }
        }
        (Piece::List(list), _) => {
            let mut inputs = [0; 3];
            for at in 0..count {
                for (input, operand) in inputs.iter_mut().zip(list) {
                    *input = operand[at];
                }
                check.one(&inputs[..list.len()], words.get(at), tally);
            }
        }
    }
    for at in 0..if hashed { count } else { 0 } {
        let result = without_payload(row.instruction.result, words.get(at));
        tally.hash = (tally.hash ^ result).wrapping_mul(0x0100_0000_01b3);
    }
    tally.checked += count as u64;
}

/// Returns the result `bits`, or a fixed encoding of NaN if it is a NaN, because the ISA does not
/// specify the bits of NaNs.
fn without_payload(held: Held, bits: u64) -> u64 {
    match held {
        Held::Float(32) if f32::from_bits(bits as u32).is_nan() => u64::MAX,
        Held::Float(64) if f64::from_bits(bits).is_nan() => u64::MAX,
        _ => bits,
    }
}

/// Checks the results of consecutive inputs that have the same exponent. If all these results are
/// equal, only some of them are checked. This is sufficient because the function is monotonic for
/// these inputs, so the worst error occurs at the first or the last input. (Sine and cosine are not
/// monotonic. If their results are equal, only the magnitude of the results is checked.)
fn ramp(row: &Row, start: u32, step: u32, results: &[u32], tally: &mut Tally) {
    const SAMPLED: usize = 4096;
    let first = results.first().copied().unwrap_or_default();
    let inside = step == 1 && (start >> 23) == (start + (results.len() - 1) as u32) >> 23;
    if !inside || results.iter().any(|&got| got != first) {
        return row.check.ramp(start, step, results, tally);
    }
    let last = results.len() - 1;
    for at in (0..last).step_by(SAMPLED).chain([1, last]) {
        let input = start + at as u32;
        row.check.one(&[input.into()], results[at].into(), tally);
    }
}
