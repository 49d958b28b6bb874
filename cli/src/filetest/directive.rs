//! Parses the directives of a file test; [the harness](super) describes the notation.
//!
//! Invariants: for every line that begins like a directive, the parser either accepts the line or returns an error, and
//! a returned test has expectations. This module depends only on the standard library and the modules `texels` and
//! `value`, because the tests of the front end also compile it.

use super::texels::{Kind, Texels};
use super::value::{Expected, Tolerance, Type, list};

/// The expectations that the directives of a file test state.
#[derive(Debug)]
pub enum FileTest {
    /// Loading the module fails with these diagnostics, in order.
    Rejected(Vec<Rejection>),
    /// The module loads, and these launches run.
    Launches(Vec<Launch>),
}

/// An expected diagnostic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Line of the directive, counted from 1.
    pub at: usize,
    /// Line that the diagnostic must name, counted from 1.
    pub line: usize,
    /// The diagnostic's code and message.
    pub text: String,
}

/// A launch of one kernel.
#[derive(Debug)]
pub struct Launch {
    /// Line of the `kernel` directive, counted from 1.
    pub at: usize,
    /// The kernel's name.
    pub kernel: String,
    /// Number of blocks in the grid.
    pub grid: [u32; 3],
    /// Number of threads in a block.
    pub block: [u32; 3],
    /// Number of blocks in a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Size in bytes of the dynamic shared memory of a block.
    pub shared: u32,
    /// Whether the launch is cooperative, so that all blocks are resident at once.
    pub cooperative: bool,
    /// The kernel's arguments, in order.
    pub arguments: Vec<Argument>,
    /// The expected outcome of the launch.
    pub outcome: Outcome,
    /// The allowed error of values that are written as numbers.
    pub tolerance: Tolerance,
    /// Whether native code must run the kernel too. If false, no native code can be generated for
    /// the kernel, and the launch in the native engine must fail.
    pub native: bool,
    /// The expected findings of a checking run, in order of lines: the kind (the name of a variant of
    /// `checks::Undefined`), and the line if the directive specifies one.
    pub findings: Vec<(String, Option<u32>)>,
}

/// A kernel's argument.
#[derive(Debug)]
pub enum Argument {
    /// Bytes passed by value.
    Scalar(Vec<u8>),
    /// Device memory.
    Buffer(Buffer),
    /// A texture or surface. If it is bound to a variable, it is not passed as an argument.
    Texels(Texels),
}

impl Argument {
    /// Returns the argument's memory, whose content can be compared after the launch. A scalar has no memory.
    pub fn buffer(&self) -> Option<&Buffer> {
        match self {
            Argument::Scalar(_) => None,
            Argument::Buffer(buffer) => Some(buffer),
            Argument::Texels(texels) => Some(&texels.buffer),
        }
    }

    /// Returns whether the argument is passed as a parameter of the kernel.
    pub fn is_passed(&self) -> bool {
        match self {
            Argument::Texels(texels) => texels.variable.is_none(),
            _ => true,
        }
    }
}

/// Device memory, with its contents before and after the launch.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Type of the elements.
    pub ty: Type,
    /// Content before the launch.
    pub bytes: Vec<u8>,
    /// Type and values of the expected content after the launch; `None` if the content is not compared.
    pub expected: Option<(Type, Vec<Expected>)>,
}

/// The expected outcome of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The launch completes, and buffers have the expected contents.
    Values,
    /// Device code causes a fault. The fields are the name of a `FaultKind`, and the line of the fault if the directive
    /// specifies one.
    Fault(String, Option<u32>),
    /// The launch fails as unsupported, with an error that contains this text.
    Unsupported(String),
}

/// A mistake in a directive: its line, counted from 1, and the message.
pub type Mistake = (usize, String);

/// Parses the directives of a file.
///
/// # Errors
///
/// Returns the first mistake in the file.
pub fn read(text: &str) -> Result<FileTest, Mistake> {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        let result = if let Some(row) = line.strip_prefix("//|") {
            reader.case(row)
        } else if let Some(directive) = line.strip_prefix("//@") {
            reader.directive(number, directive.trim())
        } else {
            Ok(())
        };
        result.map_err(|what| (number, what))?;
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    rejections: Vec<Rejection>,
    launches: Vec<Launch>,
    /// The table of the current launch: the types of its columns, and the number of input columns.
    columns: Option<(Vec<Type>, usize)>,
    rows: usize,
    /// Whether the current launch has a `block` directive; if not, the number of rows of its table determines the
    /// number of threads.
    block_given: bool,
}

impl Reader {
    fn directive(&mut self, at: usize, text: &str) -> Result<(), String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let rest = rest.trim();
        match name {
            "error" => return self.rejection(at, rest),
            "kernel" => return self.kernel(at, rest),
            _ => {}
        }
        let Some(launch) = self.launches.last_mut() else {
            return Err(format!(
                "unknown directive `{name}`, or no kernel before it"
            ));
        };
        match name {
            "grid" => launch.grid = extents(rest)?,
            "block" => {
                launch.block = extents(rest)?;
                self.block_given = true;
            }
            "cluster" => launch.cluster = Some(extents(rest)?),
            "shared" => launch.shared = number(rest)?,
            "cooperative" => launch.cooperative = true,
            "tolerance" => launch.tolerance = tolerance(rest)?,
            "scalar" => launch.arguments.push(scalar(rest)?),
            "buffer" => launch.arguments.push(Argument::Buffer(buffer(rest)?)),
            "expect" => expect(launch, rest)?,
            "texture" => texels(launch, Texels::read(Kind::Texture, false, rest)?),
            "surface" => texels(launch, Texels::read(Kind::Surface, false, rest)?),
            "texref" => texels(launch, Texels::read(Kind::Texture, true, rest)?),
            "surfref" => texels(launch, Texels::read(Kind::Surface, true, rest)?),
            "cases" => return self.cases(rest),
            "fault" => {
                let (kind, line) = kind_and_line(rest)?;
                launch.outcome = Outcome::Fault(kind, line);
            }
            "unsupported" if !rest.is_empty() => {
                launch.outcome = Outcome::Unsupported(rest.to_owned());
            }
            "finding" => launch.findings.push(kind_and_line(rest)?),
            "native" if rest == "refused" => launch.native = false,
            _ => return Err(format!("unknown directive `{text}`")),
        }
        Ok(())
    }

    fn rejection(&mut self, at: usize, rest: &str) -> Result<(), String> {
        let (line, text) = rest.split_once(':').ok_or("needs LINE: TEXT")?;
        self.rejections.push(Rejection {
            at,
            line: number::<usize>(line)?,
            text: text.trim().to_owned(),
        });
        Ok(())
    }

    fn kernel(&mut self, at: usize, name: &str) -> Result<(), String> {
        self.end_launch()?;
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("needs the kernel's name".to_owned());
        }
        self.launches.push(Launch {
            at,
            kernel: name.to_owned(),
            grid: [1; 3],
            block: [1; 3],
            cluster: None,
            shared: 0,
            cooperative: false,
            arguments: Vec::new(),
            outcome: Outcome::Values,
            tolerance: Tolerance::Absolute(0.0),
            native: true,
            findings: Vec::new(),
        });
        Ok(())
    }

    /// Parses the columns of a table, such as `u32 s32 = u32`, and adds an argument for each.
    fn cases(&mut self, rest: &str) -> Result<(), String> {
        let Some(launch) = self.launches.last_mut() else {
            return Err("no kernel before it".to_owned());
        };
        if self.columns.is_some() {
            return Err("a launch has one table of cases".to_owned());
        }
        let (inputs, outputs) = rest.split_once('=').ok_or("needs TYPES = TYPES")?;
        let types = |text: &str| {
            text.split_whitespace()
                .map(named)
                .collect::<Result<Vec<_>, _>>()
        };
        let (mut all, outputs) = (types(inputs)?, types(outputs)?);
        if outputs.is_empty() {
            return Err("nothing is expected".to_owned());
        }
        let count = all.len();
        all.extend(outputs);
        for (index, &ty) in all.iter().enumerate() {
            launch.arguments.push(Argument::Buffer(Buffer {
                ty,
                bytes: Vec::new(),
                expected: (index >= count).then(|| (ty, Vec::new())),
            }));
        }
        self.columns = Some((all, count));
        Ok(())
    }

    fn case(&mut self, row: &str) -> Result<(), String> {
        let Some((types, inputs)) = &self.columns else {
            return Err("a case without a table".to_owned());
        };
        let launch = self.launches.last_mut().ok_or("no kernel before it")?;
        let near = launch.tolerance != Tolerance::Absolute(0.0);
        let (left, right) = row.split_once('=').ok_or("needs VALUES = VALUES")?;
        let words: Vec<&str> = left
            .split_whitespace()
            .chain(right.split_whitespace())
            .collect();
        if words.len() != types.len() || left.split_whitespace().count() != *inputs {
            return Err(format!(
                "{} values for {} columns",
                words.len(),
                types.len()
            ));
        }
        let first = launch.arguments.len() - types.len();
        let columns = launch.arguments[first..].iter_mut();
        for ((argument, &ty), word) in columns.zip(types).zip(words) {
            let Argument::Buffer(buffer) = argument else {
                continue;
            };
            match &mut buffer.expected {
                None => buffer.bytes.extend(ty.to_bytes(ty.parse(word)?)),
                Some((_, expected)) => {
                    buffer.bytes.extend(ty.to_bytes(0));
                    expected.push(ty.expect(word, near)?);
                }
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Completes the current launch before the next one begins.
    fn end_launch(&mut self) -> Result<(), String> {
        let columns = self.columns.take();
        let rows = std::mem::take(&mut self.rows);
        let block_given = std::mem::take(&mut self.block_given);
        let Some(launch) = self.launches.last_mut() else {
            return Ok(());
        };
        if columns.is_some() {
            if rows == 0 {
                return Err(format!("{}: no cases", launch.kernel));
            }
            if !block_given {
                launch.block = [u32::try_from(rows).unwrap_or(u32::MAX), 1, 1];
            }
        }
        let expects = launch.arguments.iter().any(|argument| {
            let expected = argument
                .buffer()
                .and_then(|buffer| buffer.expected.as_ref());
            expected.is_some_and(|(_, all)| all.iter().any(|value| *value != Expected::Any))
        });
        let expects = expects || !launch.findings.is_empty();
        if launch.outcome == Outcome::Values && !expects {
            return Err(format!("{}: nothing is expected", launch.kernel));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<FileTest, Mistake> {
        let at = self.launches.last().map_or(1, |launch| launch.at);
        self.end_launch().map_err(|what| (at, what))?;
        match (self.rejections.is_empty(), self.launches.is_empty()) {
            (false, true) => Ok(FileTest::Rejected(self.rejections)),
            (true, false) => Ok(FileTest::Launches(self.launches)),
            (true, true) => Err((1, "the file expects nothing".to_owned())),
            (false, false) => Err((1, "both refused and launched".to_owned())),
        }
    }
}

fn named(name: &str) -> Result<Type, String> {
    Type::named(name).ok_or_else(|| format!("`{name}` is not a type"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    let text = text.trim();
    text.parse()
        .map_err(|_| format!("`{text}` is not a number"))
}

fn extents(text: &str) -> Result<[u32; 3], String> {
    let mut all = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > all.len() {
        return Err("at most three dimensions".to_owned());
    }
    for (extent, part) in all.iter_mut().zip(parts) {
        *extent = number(part)?;
    }
    Ok(all)
}

fn tolerance(text: &str) -> Result<Tolerance, String> {
    let (kind, amount) = text.split_once(' ').ok_or("needs a kind and an amount")?;
    let amount: f64 = match amount.trim().strip_prefix("2^") {
        Some(power) => number::<f64>(power)?.exp2(),
        None => number(amount)?,
    };
    if !(amount > 0.0 && amount.is_finite()) {
        return Err("must be greater than 0".to_owned());
    }
    match kind {
        "absolute" => Ok(Tolerance::Absolute(amount)),
        "relative" => Ok(Tolerance::Relative(amount)),
        "ulps" => Ok(Tolerance::Ulps(amount)),
        _ => Err(format!("`{kind}` is not a kind of tolerance")),
    }
}

/// Splits a text into the type at its start and the words after the type.
fn typed(text: &str) -> Result<(Type, Vec<String>), String> {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    Ok((named(name)?, list(rest)?))
}

fn bytes_of(ty: Type, words: &[String]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend(ty.to_bytes(ty.parse(word)?));
    }
    if bytes.is_empty() {
        return Err("needs values".to_owned());
    }
    Ok(bytes)
}

fn scalar(text: &str) -> Result<Argument, String> {
    let (ty, words) = typed(text)?;
    bytes_of(ty, &words).map(Argument::Scalar)
}

fn buffer(text: &str) -> Result<Buffer, String> {
    let (ty, words) = typed(text)?;
    Ok(Buffer {
        ty,
        bytes: bytes_of(ty, &words)?,
        expected: None,
    })
}

fn texels(launch: &mut Launch, texels: Texels) {
    launch.arguments.push(Argument::Texels(texels));
}

/// Parses the expected content of the preceding buffer or texels, which must contain all elements.
fn expect(launch: &mut Launch, text: &str) -> Result<(), String> {
    let near = launch.tolerance != Tolerance::Absolute(0.0);
    let (ty, words) = typed(text)?;
    let buffer = match launch.arguments.last_mut() {
        Some(Argument::Buffer(buffer)) => buffer,
        Some(Argument::Texels(texels)) => &mut texels.buffer,
        _ => return Err("no buffer before it".to_owned()),
    };
    if buffer.expected.is_some() {
        return Err("the buffer has an expectation".to_owned());
    }
    if words.len() * ty.bytes() != buffer.bytes.len() {
        return Err(format!(
            "{} bytes are expected of a buffer of {}",
            words.len() * ty.bytes(),
            buffer.bytes.len()
        ));
    }
    let values = words.iter().map(|word| ty.expect(word, near));
    buffer.expected = Some((ty, values.collect::<Result<_, _>>()?));
    Ok(())
}

/// Parses `KIND` or `KIND line N`.
fn kind_and_line(text: &str) -> Result<(String, Option<u32>), String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [kind] => Ok((kind.to_owned(), None)),
        [kind, "line", line] => Ok((kind.to_owned(), Some(number(line)?))),
        _ => Err("needs KIND or KIND line N".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launches(text: &str) -> Vec<Launch> {
        match read(text) {
            Ok(FileTest::Launches(launches)) => launches,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_table_makes_a_buffer_of_each_column() {
        let all = launches("//@ kernel: k\n//@ cases: u8 u16 = u16\n//| 1 2 = 3\n//| 4 5 = 9\n");
        assert_eq!(all[0].block, [2, 1, 1]);
        let buffers: Vec<&Buffer> = all[0]
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Buffer(buffer) => buffer,
                _ => panic!("no buffer"),
            })
            .collect();
        assert_eq!(buffers[0].bytes, [1, 4]);
        assert_eq!(buffers[1].bytes, [2, 0, 5, 0]);
        assert_eq!(buffers[2].bytes, [0; 4]);
        let expected = buffers[2].expected.as_ref().unwrap();
        assert_eq!(expected.1, [Expected::Bits(3), Expected::Bits(9)]);
    }

    #[test]
    fn shapes_arguments_and_faults_are_read() {
        let all = launches(
            "//@ kernel: k\n//@ grid: 2,3\n//@ block: 32\n//@ shared: 16\n//@ scalar: u32 7\n\
             //@ buffer: u32 0*2\n//@ fault: IllegalAddress line 9\n",
        );
        assert_eq!(
            (all[0].grid, all[0].block, all[0].shared),
            ([2, 3, 1], [32, 1, 1], 16)
        );
        assert!(matches!(&all[0].arguments[0], Argument::Scalar(b) if b[..] == [7, 0, 0, 0]));
        assert_eq!(
            all[0].outcome,
            Outcome::Fault("IllegalAddress".into(), Some(9))
        );
    }

    #[test]
    fn mistakes_are_found_in_their_line() {
        let mistake = |text: &str| read(text).unwrap_err();
        assert_eq!(mistake("ret;\n").1, "the file expects nothing");
        assert_eq!(mistake("//@ kernel: k\n//@ wrap: 3\n").0, 2);
        assert_eq!(
            mistake("//@ kernel: k\n//@ buffer: u32 0\n").1,
            "k: nothing is expected"
        );
        assert_eq!(
            mistake("//@ kernel: k\n//@ buffer: u32 0\n//@ expect: u32 1 2\n").0,
            3
        );
        assert_eq!(
            mistake("//@ kernel: k\n//@ cases: u32 = u32\n").1,
            "k: no cases"
        );
        assert_eq!(
            mistake("//@ kernel: k\n//@ cases: u32 = u32\n//| 1 2 = 3\n").0,
            3
        );
        assert_eq!(mistake("//| 1 = 3\n").0, 1);
        assert_eq!(mistake("//@ grid: 1\n").0, 1);
        assert!(
            mistake("//@ kernel: k\n//@ buffer: u32 0\n//@ expect: u32 _\n")
                .1
                .contains("nothing")
        );
        assert_eq!(
            mistake("//@ error: 3: x\n//@ kernel: k\n//@ fault: Trap\n").1,
            "both refused and launched"
        );
    }
}
