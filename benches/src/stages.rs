//! Measures the stages from a PTX text to native code: lexing, parsing and resolution, lowering, and the first launch,
//! which compiles the kernels.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use margay::{DeviceBuffer, Kernel, LaunchConfig, Module, Runtime};
use margay_frontend::lexer::{Lexer, Token};
use margay_frontend::resolve::{Resolution, resolve};
use margay_frontend::{Parsed, SourceFile};
use serde::Serialize;

use crate::measure::{self, Time};

/// A PTX text to load.
pub struct Text {
    /// The name of the text in the tables, and its origin.
    pub name: &'static str,
    /// The text itself.
    pub source: Arc<SourceFile>,
}

macro_rules! ptx {
    ($name:literal) => {
        include_str!(concat!("../../tests/cuda/ptx/", $name, ".ptx"))
    };
}

/// The smallest program.
pub(crate) const SAXPY: &str = ptx!("saxpy");

/// The programs that the large text contains. The large text contains each program several times.
pub(crate) const PARTS: &[&str] = &[
    SAXPY,
    ptx!("reduction"),
    ptx!("matmul_tiled"),
    ptx!("transpose"),
    ptx!("histogram"),
    ptx!("nbody"),
    ptx!("mandelbrot"),
    ptx!("black_scholes"),
    ptx!("scan"),
    ptx!("sha256"),
];
const TURNS: usize = 10;

/// Returns a small, a medium and a large text.
pub fn texts() -> [Text; 3] {
    let text = |name, text: &str| Text {
        name,
        source: Arc::new(SourceFile::new("bench.ptx", text)),
    };
    [
        text("small (saxpy)", PARTS[0]),
        text("middle (SHA-256)", ptx!("sha256")),
        text("large (22 kernels, 10 times)", &repeated(PARTS, TURNS)),
    ]
}

/// Returns a PTX text that consists of one header and `turns` copies of each program in `parts`.
/// Symbols are renamed so that all symbols of the text are distinct.
pub(crate) fn repeated(parts: &[&str], turns: usize) -> String {
    let mut text = ".version 9.5\n.target sm_75\n.address_size 64\n".to_owned();
    for turn in 0..turns {
        for (part, all) in parts.iter().enumerate() {
            let header = ".address_size 64";
            let start = all.find(header).expect("nvcc writes it") + header.len();
            rename(&all[start..], &format!("_{turn}_{part}"), &mut text);
        }
    }
    text
}

/// Copies a text and appends `suffix` to each name that is declared outside functions.
fn rename(text: &str, suffix: &str, out: &mut String) {
    let names = module_names(text);
    let mut copied = 0;
    let mut lexer = Lexer::new(text);
    loop {
        let (token, span) = lexer.next_token();
        let range = span.range();
        out.push_str(&text[copied..range.end]);
        copied = range.end;
        match token {
            Token::End => return out.push_str(&text[copied..]),
            Token::Ident if names.contains(&text[range]) => out.push_str(suffix),
            _ => {}
        }
    }
}

/// Returns the names that a PTX text declares outside braces and parentheses: the first name of
/// each declaration.
fn module_names(text: &str) -> HashSet<&str> {
    let mut names = HashSet::new();
    let mut lexer = Lexer::new(text);
    let (mut depth, mut declares) = (0i32, true);
    loop {
        let (token, span) = lexer.next_token();
        match token {
            Token::End => return names,
            Token::LeftBrace | Token::LeftParen => depth += 1,
            Token::RightBrace | Token::RightParen => depth -= 1,
            Token::Ident if depth == 0 && declares => {
                names.insert(&text[span.range()]);
                declares = false;
                continue;
            }
            _ => {}
        }
        declares |= depth == 0 && matches!(token, Token::Semicolon | Token::RightBrace);
    }
}

/// Splits a text into tokens and returns their number.
pub fn lex(text: &str) -> usize {
    let mut lexer = Lexer::new(text);
    let mut tokens = 0;
    while lexer.next_token().0 != Token::End {
        tokens += 1;
    }
    tokens
}

/// Parses a text.
///
/// # Panics
/// Panics if the text has errors.
pub fn parse(source: &Arc<SourceFile>) -> Parsed {
    let parsed = margay_frontend::parse(Arc::clone(source));
    assert!(!parsed.has_errors(), "{:?}", parsed.diagnostics.first());
    parsed
}

/// Resolves the names of a parsed text.
pub fn resolved(parsed: &Parsed) -> Resolution {
    resolve(parsed)
}

/// Lowers a parsed and resolved text.
pub fn lower(parsed: &Parsed, resolution: &Resolution) -> margay_ir::module::Module {
    margay_frontend::lower(parsed, resolution).expect("the text is right")
}

/// A PTX text that is loaded and whose kernels have not been launched.
pub struct Loaded {
    runtime: Runtime,
    _module: Module,
    kernels: Vec<Kernel>,
    /// Scratch memory. Each parameter of eight bytes gets the address of the middle of this memory.
    scratch: DeviceBuffer<u8>,
}

impl Loaded {
    /// Loads a text. Appends a unique comment, because the runtime recognises images that it has loaded before and
    /// would reuse their code.
    ///
    /// # Errors
    /// Returns the error of the runtime if the text cannot be loaded.
    pub fn new(runtime: &Runtime, text: &str) -> margay::Result<Loaded> {
        static LOADS: AtomicU32 = AtomicU32::new(0);
        let load = LOADS.fetch_add(1, Ordering::Relaxed);
        let module = runtime.load_ptx(&format!("{text}\n// load {load}\n"))?;
        Ok(Loaded {
            runtime: runtime.clone(),
            kernels: module.kernels(),
            _module: module,
            scratch: runtime.alloc(1 << 20)?,
        })
    }

    /// Launches each kernel once with one block, so that compilation dominates the time. Each
    /// parameter of eight bytes gets the address of scratch memory, and all other arguments are
    /// zero.
    ///
    /// # Panics
    /// Panics if a kernel fails.
    pub fn launch_all(&self) {
        let stream = self.runtime.context().expect("there").legacy_stream();
        let middle = self.scratch.ptr().address() + self.scratch.len() as u64 / 2;
        for kernel in &self.kernels {
            let mut bytes = vec![0; kernel.info().param_bytes as usize];
            for param in kernel.params().iter().filter(|p| p.size == 8) {
                bytes[param.offset as usize..][..8].copy_from_slice(&middle.to_le_bytes());
            }
            let launched = stream.launch(kernel, LaunchConfig::new(1, 64), &bytes[..]);
            launched.expect("the launch is right");
        }
        self.runtime.synchronize().expect("no kernel fails");
    }
}

/// The times of the stages for one text.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rates {
    pub(crate) text: &'static str,
    pub(crate) bytes: usize,
    pub(crate) lexing: Time,
    /// Time of parsing and resolution.
    pub(crate) parsing: Time,
    pub(crate) lowering: Time,
    /// Time of the first launch of every kernel.
    pub(crate) compiling: Time,
}

/// Measures all texts.
pub(crate) fn measure() -> Result<Vec<Rates>, String> {
    let runtime = Runtime::builder().without_disk_cache().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let rates = texts().into_iter().map(|text| {
        margay::files::tell(format_args!("loading: {}", text.name));
        rates(&runtime, &text)
    });
    rates.collect()
}

fn rates(runtime: &Runtime, text: &Text) -> Result<Rates, String> {
    let source = text.source.text();
    Loaded::new(runtime, source).map_err(|e| e.to_string())?;
    let parsed = parse(&text.source);
    let resolution = resolved(&parsed);
    let load = || Loaded::new(runtime, source).expect("it loaded before");
    Ok(Rates {
        text: text.name,
        bytes: source.len(),
        lexing: measure::alone(|| {
            std::hint::black_box(lex(source));
        }),
        parsing: measure::alone(|| {
            let parsed = parse(&text.source);
            std::hint::black_box(resolved(&parsed));
        }),
        lowering: measure::alone(|| {
            std::hint::black_box(lower(&parsed, &resolution));
        }),
        compiling: measure::with_setup(load, |loaded| loaded.launch_all()),
    })
}

/// Formats a number of bytes in a suitable unit.
pub fn size_of(bytes: usize) -> String {
    let mut text = String::new();
    let kilobytes = bytes as f64 / 1e3;
    let done = if kilobytes < 1e3 {
        write!(text, "{kilobytes:.1} kB")
    } else {
        write!(text, "{:.2} MB", kilobytes / 1e3)
    };
    done.expect("writing to a string");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_outer_level() {
        let text = ".const .b8 t[4]; .visible .entry k(.param .u32 p)\n{ .reg .b32 r; mov.u32 r, t; ret; }\n\
                    .func (.reg .u32 o) f(.reg .u32 i) { ret; }";
        let names = module_names(text);
        assert_eq!(names, HashSet::from(["t", "k", "f"]));
        let mut out = String::new();
        rename(text, "_1", &mut out);
        assert!(out.contains(".b8 t_1[4]; .visible .entry k_1(.param .u32 p)"));
        assert!(out.contains("mov.u32 r, t_1;"), "{out}");
    }

    #[test]
    fn every_text_loads_and_every_kernel_launches() {
        let runtime = Runtime::builder().workers(2).build().expect("starts");
        let large = repeated(PARTS, 2);
        for text in [PARTS[0], ptx!("sha256"), &large] {
            assert!(lex(text) > 100);
            let loaded = Loaded::new(&runtime, text).expect("loads");
            loaded.launch_all();
        }
        let kernels = runtime.load_ptx(&large).expect("loads").kernels().len();
        assert_eq!(kernels, 2 * 22);
    }
}
