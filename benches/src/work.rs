//! Describes a calculation as data: buffers, launches, and expected results.
//!
//! All contenders run the same [`Work`], so each kernel is described only once. The C function gets pointers to the
//! buffers instead of the launches' arguments. The extents that it needs are described separately (`numbers`).

/// An index into [`Work::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer(pub(crate) usize);

/// A number type whose values buffers and arguments can contain.
pub(crate) trait Element: Copy {
    /// Appends the value's bytes, in little-endian order, to `out`.
    fn put(self, out: &mut Vec<u8>);
    /// Reads a value from `bytes`, which must have the size of the value.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($t:ty)*) => {$(
        impl Element for $t {
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> $t {
                <$t>::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
        }
    )*};
}

element!(u8 u16 u32 i32 f32 f64);

impl<T: Element, const N: usize> Element for [T; N] {
    fn put(self, out: &mut Vec<u8>) {
        self.into_iter().for_each(|value| value.put(out));
    }
    fn get(bytes: &[u8]) -> [T; N] {
        let each = bytes.len() / N;
        std::array::from_fn(|i| T::get(&bytes[i * each..][..each]))
    }
}

/// Returns the bytes of `values`, in little-endian order.
pub(crate) fn bytes<T: Element>(values: &[T]) -> Vec<u8> {
    let mut out = Vec::with_capacity(size_of_val(values));
    values.iter().for_each(|value| value.put(&mut out));
    out
}

/// An argument of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// The address of a buffer.
    Buffer(Buffer),
    /// The bytes of a value.
    Value(Vec<u8>),
}

impl From<Buffer> for Argument {
    fn from(buffer: Buffer) -> Argument {
        Argument::Buffer(buffer)
    }
}

impl<T: Element> From<T> for Argument {
    fn from(value: T) -> Argument {
        Argument::Value(bytes(&[value]))
    }
}

/// Builds a list of arguments from buffers and numbers.
macro_rules! args {
    ($($argument:expr),* $(,)?) => { vec![$($crate::work::Argument::from($argument)),*] };
}
pub(crate) use args;

/// Extents in three dimensions, x first.
pub(crate) type Extent = [u32; 3];

/// Conversion from extents of one, two or three dimensions.
pub(crate) trait IntoExtent {
    /// Converts this extent to three dimensions, with 1 in the dimensions that it lacks.
    fn extent(self) -> Extent;
}

impl IntoExtent for usize {
    fn extent(self) -> Extent {
        (self, 1).extent()
    }
}

impl IntoExtent for (usize, usize) {
    fn extent(self) -> Extent {
        (self.0, self.1, 1).extent()
    }
}

impl IntoExtent for (usize, usize, usize) {
    fn extent(self) -> Extent {
        [self.0, self.1, self.2].map(|n| u32::try_from(n).expect("extents are small"))
    }
}

/// A step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sets all bytes of a buffer to zero.
    Zero(Buffer),
    /// Launches a kernel.
    Launch(Launch),
}

/// A launch of a kernel, which has the same name and arguments in every language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) kernel: &'static str,
    pub(crate) grid: Extent,
    pub(crate) block: Extent,
    pub(crate) arguments: Vec<Argument>,
}

/// The expected content of a buffer after the first run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    /// The buffer must contain exactly these bytes. The number is the size of an element in bytes.
    Exact(Vec<u8>, usize),
    /// The buffer must contain approximately these values. A result may differ from a value by the tolerance times the
    /// larger of 1 and the value's magnitude.
    Close(Vec<f32>, f32),
}

impl Values {
    /// Returns the expectation that a buffer contains exactly these values.
    pub(crate) fn exact<T: Element>(values: &[T]) -> Values {
        Values::Exact(bytes(values), size_of::<T>())
    }

    /// Compares the bytes of a buffer with the expected values. The error describes the first difference.
    pub(crate) fn compare(&self, got: &[u8]) -> Result<(), String> {
        match self {
            Values::Exact(want, element) => same_length(got.len(), want.len()).and_then(|()| {
                let pairs = got.chunks(*element).zip(want.chunks(*element));
                match pairs.enumerate().find(|(_, (got, want))| got != want) {
                    Some((at, (got, want))) => Err(format!(
                        "value {at} is {} instead of {}",
                        hexadecimal(got),
                        hexadecimal(want)
                    )),
                    None => Ok(()),
                }
            }),
            Values::Close(want, tolerance) => {
                same_length(got.len(), size_of_val(want.as_slice()))?;
                let got = got.chunks(4).map(f32::get);
                // This comparison is false for a NaN, so a NaN is reported as wrong.
                let near =
                    |got: f32, want: f32| (got - want).abs() <= tolerance * want.abs().max(1.0);
                let pairs = got.zip(want);
                match pairs
                    .enumerate()
                    .find(|(_, (got, want))| !near(*got, **want))
                {
                    Some((at, (got, want))) => {
                        Err(format!("value {at} is {got} instead of {want}"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

fn same_length(got: usize, want: usize) -> Result<(), String> {
    match got == want {
        true => Ok(()),
        false => Err(format!("{got} bytes instead of {want}")),
    }
}

/// Formats a number, given as bytes in little-endian order, as hexadecimal text.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().rev().map(|byte| format!("{byte:02x}"));
    format!("0x{}", digits.collect::<String>())
}

/// The work of a kernel: buffers, the steps of a run, and the expected results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// The initial content of each buffer.
    pub(crate) buffers: Vec<Vec<u8>>,
    /// The steps of a run.
    pub(crate) steps: Vec<Step>,
    /// The data extents that the C function receives in addition to the buffers.
    pub(crate) numbers: Vec<i64>,
    /// The expected contents of the result buffers.
    pub(crate) expected: Vec<(Buffer, Values)>,
    /// Number of elements that a run processes: the number of results or, if one result depends on many input values,
    /// the number of input values.
    pub(crate) elements: u64,
    /// Number of floating-point operations of a run, if they can limit the kernel.
    pub(crate) operations: Option<f64>,
    /// Number of times that a run processes the data.
    pub(crate) repeats: usize,
    /// The buffers that a run reads before it writes them.
    read: Vec<Buffer>,
}

impl Work {
    /// Returns work without buffers and steps, whose run processes `elements` elements.
    pub(crate) fn on(elements: usize) -> Work {
        Work {
            elements: elements as u64,
            repeats: 1,
            ..Work::default()
        }
    }

    /// Adds a buffer that contains `values` before the first run and that a run reads.
    pub(crate) fn input<T: Element>(&mut self, values: &[T]) -> Buffer {
        let buffer = self.preset(values);
        self.read.push(buffer);
        buffer
    }

    /// Adds a buffer for results that contains `values` before the first run and that no run reads.
    pub(crate) fn preset<T: Element>(&mut self, values: &[T]) -> Buffer {
        self.buffers.push(bytes(values));
        Buffer(self.buffers.len() - 1)
    }

    /// Adds a buffer for results. Its bytes are initially 0xa5, so that it does not contain the expected result by
    /// chance.
    pub(crate) fn output<T: Element>(&mut self, len: usize) -> Buffer {
        self.buffers.push(vec![0xa5; len * size_of::<T>()]);
        Buffer(self.buffers.len() - 1)
    }

    /// Adds a step that sets a buffer to zero in every run.
    pub(crate) fn zero(&mut self, buffer: Buffer) {
        self.steps.push(Step::Zero(buffer));
    }

    /// Adds a step that launches a kernel.
    pub(crate) fn launch(
        &mut self,
        kernel: &'static str,
        grid: impl IntoExtent,
        block: impl IntoExtent,
        arguments: Vec<Argument>,
    ) {
        self.steps.push(Step::Launch(Launch {
            kernel,
            grid: grid.extent(),
            block: block.extent(),
            arguments,
        }));
    }

    /// Sets the extents that the C function receives in addition to the buffers.
    pub(crate) fn numbers<const N: usize>(&mut self, numbers: [usize; N]) {
        self.numbers = numbers.map(|n| n as i64).to_vec();
    }

    /// Adds the expected content of a buffer after the first run.
    pub(crate) fn expect(&mut self, buffer: Buffer, values: Values) {
        self.expected.push((buffer, values));
    }

    /// Returns the least number of bytes that a run reads and writes: all inputs once and all results once, for each
    /// time that the run processes the data.
    pub(crate) fn least_bytes(&self) -> u64 {
        let written = self.expected.iter().map(|(buffer, _)| buffer);
        self.repeats as u64 * self.size(self.read.iter().chain(written))
    }

    /// Returns the number of bytes of all inputs and results.
    pub(crate) fn footprint(&self) -> u64 {
        let written = self.expected.iter().map(|(buffer, _)| buffer);
        let both = |buffer: &&Buffer| !self.read.contains(buffer);
        self.size(self.read.iter().chain(written.filter(both)))
    }

    fn size<'a>(&self, buffers: impl Iterator<Item = &'a Buffer>) -> u64 {
        buffers
            .map(|buffer| self.buffers[buffer.0].len() as u64)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_results_are_found() {
        let exact = Values::exact(&[1u32, 2]);
        assert_eq!(exact.compare(&bytes(&[1u32, 2])), Ok(()));
        assert_eq!(
            exact.compare(&bytes(&[1u32, 3])),
            Err("value 1 is 0x00000003 instead of 0x00000002".to_owned())
        );
        assert!(exact.compare(&bytes(&[1u32])).is_err());
        let close = Values::Close(vec![100.0], 0.01);
        assert_eq!(close.compare(&bytes(&[100.5f32])), Ok(()));
        assert!(close.compare(&bytes(&[102.0f32])).is_err());
        assert!(close.compare(&bytes(&[f32::NAN])).is_err());
        assert!(close.compare(&[]).is_err());
    }

    #[test]
    fn elements_keep_their_bits() {
        assert_eq!(bytes(&[1.0f32]), [0, 0, 0x80, 0x3f]);
        assert_eq!(bytes(&[[1u16, 2]]), [1, 0, 2, 0]);
        assert_eq!(<[f32; 2]>::get(&bytes(&[[0.5f32, -1.0]])), [0.5, -1.0]);
    }

    #[test]
    fn the_least_traffic_counts_each_buffer_once() {
        let mut work = Work::on(1);
        let (both, _) = (work.input(&[1u32; 5]), work.input(&[1u32; 3]));
        let (scratch, written) = (work.output::<u32>(100), work.preset(&[0u32; 7]));
        work.launch("kernel", 1, 1, args![both, scratch, written]);
        work.expect(both, Values::exact(&[1u32; 5]));
        work.expect(written, Values::exact(&[1u32; 7]));
        assert_eq!(work.least_bytes(), 4 * (5 + 3 + 5 + 7));
        assert_eq!(work.footprint(), 4 * (5 + 3 + 7));
        work.repeats = 3;
        assert_eq!(work.least_bytes(), 3 * 4 * (5 + 3 + 5 + 7));
    }

    #[test]
    fn arguments_know_buffers_from_numbers() {
        let arguments = args![Buffer(2), 7i32, 0.5f32];
        assert_eq!(arguments[0], Argument::Buffer(Buffer(2)));
        assert_eq!(arguments[1], Argument::Value(vec![7, 0, 0, 0]));
        assert_eq!(arguments.len(), 3);
    }
}
