//! The bodies of the fuzz targets in `fuzz/`: properties that hold for every input.
//!
//! A target is a function that takes bytes and panics if a property is violated. It must return soon for every input.
//! The fuzzer calls the targets with generated inputs, and `tests/tests/fuzz_corpora.rs` calls them with the inputs in
//! `fuzz/corpus`.

pub use crate::fuzz_driver::driver_calls;
pub use crate::fuzz_images::image_sizes;
pub use crate::fuzz_kernels::{kernels, large_kernels};
pub use crate::fuzz_process::{calls_under_limits, process_limits};
use margay_frontend::container::{
    Image, container_len, elf_len, elf_tables_len, select_ptx, wrapper,
};
use margay_frontend::diagnostic::Style;
use margay_frontend::lexer::{Lexer, Token};
use margay_frontend::{Diagnostic, SourceFile, Span, parse};
use margay_ir::analysis::uniformity::{Assumptions, Uniformity};

/// A fuzz target.
#[derive(Debug)]
pub struct Target {
    /// The name of the target and of its corpus.
    pub name: &'static str,
    /// The function that is the body of the target.
    pub run: fn(&[u8]),
    /// Number of damaged copies of each input in the corpus with which the normal tests call the
    /// target. The number is lower for targets whose runs are slow.
    pub damaged: u32,
}

impl Target {
    const fn new(name: &'static str, run: fn(&[u8]), damaged: u32) -> Self {
        Target { name, run, damaged }
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target::new("lexer", lexer, 500),
    Target::new("parser", parser, 500),
    Target::new("lower", lower, 200),
    Target::new("container", container, 500),
    Target::new("ir_text", ir_text, 500),
    Target::new("driver_calls", driver_calls, 25),
    Target::new("image_sizes", image_sizes, 60),
    Target::new("kernels", kernels, 10),
    Target::new("large_kernels", large_kernels, 5),
    Target::new("process_limits", process_limits, 10),
];

/// Checks that tokens are in order, do not overlap and are not empty. Also checks that the lexer
/// returns `Token::End` at the end of the text, in the first call and in each later call.
pub fn lexer(bytes: &[u8]) {
    let source = SourceFile::from_bytes("fuzz", bytes);
    let text = source.text();
    let mut lexer = Lexer::new(text);
    let mut end = 0;
    loop {
        let (token, span) = lexer.next_token();
        if token == Token::End {
            break;
        }
        assert!(
            span.start >= end,
            "{token:?} at {span:?} begins before {end}"
        );
        assert!(!span.is_empty(), "{token:?} at {span:?} is empty");
        assert!(
            text.get(span.range()).is_some(),
            "{token:?} at {span:?} is not in the text"
        );
        end = span.end;
    }
    assert_eq!(lexer.next_token().0, Token::End, "the end is the end");
}

/// Checks that the parser returns a tree for every text, and that its diagnostics can be rendered.
pub fn parser(bytes: &[u8]) {
    let parsed = parse(SourceFile::from_bytes("fuzz", bytes));
    let text = parsed.source.text();
    let inside = |span: Span| span.start <= span.end && text.get(span.range()).is_some();
    for diagnostic in &parsed.diagnostics {
        assert!(
            inside(diagnostic.span),
            "{diagnostic:?} points outside of the text"
        );
    }
    // For a text with an error on each line, rendering all diagnostics would take quadratic time.
    for diagnostic in parsed.diagnostics.iter().take(RENDERED) {
        show(diagnostic, &parsed.source);
    }
}

/// Checks that a text without parse errors is either lowered to a module or rejected with
/// diagnostics. The diagnostics must be renderable.
pub fn lower(bytes: &[u8]) {
    let parsed = parse(SourceFile::from_bytes("fuzz", bytes));
    if parsed.has_errors() {
        return;
    }
    let resolution = margay_frontend::resolve::resolve(&parsed);
    for diagnostic in resolution.diagnostics.iter().take(RENDERED) {
        show(diagnostic, &parsed.source);
    }
    if let Err(diagnostics) = margay_frontend::lower(&parsed, &resolution) {
        assert!(!diagnostics.is_empty(), "a refusal has a reason");
        for diagnostic in diagnostics.iter().take(RENDERED) {
            show(diagnostic, &parsed.source);
        }
    }
}

/// Maximum number of diagnostics that are rendered for one input.
const RENDERED: usize = 16;

fn show(diagnostic: &Diagnostic, source: &SourceFile) {
    let summary = diagnostic.summary(source);
    assert!(
        summary.contains("fuzz:"),
        "a summary names its file: {summary}"
    );
    assert!(!diagnostic.render(source, Style::Plain).is_empty());
}

/// Checks that the reader of images does not panic, and that the parts that it returns are inside
/// the image.
pub fn container(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk() {
        let _ = wrapper(header);
    }
    if let Some(header) = bytes.first_chunk() {
        let _ = container_len(header);
    }
    if let Some(header) = bytes.first_chunk()
        && let Ok(length) = elf_tables_len(header)
        && let Some(tables) = bytes.get(..length)
    {
        let _ = elf_len(tables);
    }
    if let Ok(Image::Fatbin(container)) = Image::parse(bytes) {
        for entry in &container.entries {
            assert!(entry.stored().len() <= bytes.len());
            assert!(entry.prefix(64).map_or(0, |p| p.len()) <= 64);
        }
    }
    if let Ok(selection) = select_ptx(&[bytes], 80) {
        assert!(selection.texts.iter().all(|t| !t.text.contains('\0')));
    }
}

/// Checks that the printed text of a parsed module parses to the same module. Also checks that a
/// module that the verifier accepts is still accepted after each pass.
pub fn ir_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let module = match margay_ir::parse::module(text) {
        Ok(module) => module,
        Err(error) => {
            let lines = 1 + text.bytes().filter(|&byte| byte == b'\n').count();
            assert!(
                error.line as usize <= lines,
                "{error} is outside of the text"
            );
            return;
        }
    };
    let printed = module.to_string();
    let again = margay_ir::parse::module(&printed).expect("a printed module parses");
    assert_eq!(again.to_string(), printed);
    if !margay_ir::verify::module(&module).is_empty() {
        return;
    }
    for (id, function) in module.functions.iter() {
        if function.has_body() {
            margay_ir::pass::prepare_watched(&module, id, None, |pass, _, function| {
                let problems = margay_ir::verify::function(&module, function, pass.stage);
                assert!(problems.is_empty(), "behind {}: {problems:?}", pass.name);
                Uniformity::new(function, Assumptions::default());
            });
        }
    }
}
