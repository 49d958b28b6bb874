//! The errors and warnings (problems) that are found in a source text.
//!
//! The parser, name resolution and lowering all represent problems as [`Diagnostic`]s. A
//! diagnostic contains facts only (code, spans, message). [`Diagnostic::render`] formats it as
//! text, with the source lines and carets under the spans. Invariant: a span refers to the file
//! that is passed to `render`.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::source::{LineColumn, SourceFile, Span};

pub use crate::code::Code;

/// The severity of a problem.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Severity {
    /// The program is valid, but probably not what its author wants.
    Warning,
    /// The program is invalid and is not compiled.
    Error,
}

/// A position in the source text, other than that of the problem, that helps to explain the
/// problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The position.
    pub span: Span,
    /// A description of the position in a few words.
    pub text: String,
}

/// One problem at one position in a source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The code of the kind of problem.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The position of the problem.
    pub span: Span,
    /// The description of the problem, as one sentence without a full stop.
    pub message: String,
    /// A few words that are drawn under the caret, such as "expected `;`". The label may be empty.
    pub label: String,
    /// Other positions that help to explain the problem, such as an earlier declaration.
    pub related: Vec<Label>,
    /// Sentences that give advice or explain the background of the problem.
    pub notes: Vec<String>,
    /// For [`Code::OUT_OF_MEMORY`], the number of bytes that could not be allocated.
    needed_bytes: Option<u64>,
}

impl Diagnostic {
    /// Creates a diagnostic for an error at `span`.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            span,
            message: shortened(message.into()),
            label: String::new(),
            related: Vec::new(),
            notes: Vec::new(),
            needed_bytes: None,
        }
    }

    /// Creates the diagnostic for an allocation of `bytes` bytes that failed.
    pub(crate) fn out_of_memory(span: Span, bytes: u64) -> Self {
        let message = format!("out of memory: {bytes} bytes for the contents of the text");
        Diagnostic {
            needed_bytes: Some(bytes),
            ..Diagnostic::error(Code::OUT_OF_MEMORY, span, message)
        }
    }

    /// Creates a diagnostic for a warning at `span`.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(code, span, message)
        }
    }

    /// Sets the text that is drawn under the caret, and returns the diagnostic.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = shortened(label.into());
        self
    }

    /// Adds a position that helps to explain the problem, with its description, and returns the
    /// diagnostic.
    #[must_use]
    pub fn with_related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push(Label {
            span,
            text: shortened(text.into()),
        });
        self
    }

    /// Adds a sentence that gives advice or explains the background, and returns the diagnostic.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(shortened(note.into()));
        self
    }

    /// Whether the problem is an error; otherwise it is a warning.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns the number of bytes of the allocation that failed, if the code is [`Code::OUT_OF_MEMORY`].
    pub fn needed_bytes(&self) -> Option<u64> {
        self.needed_bytes
    }

    /// Returns the line and column at which the problem starts.
    pub fn position(&self, source: &SourceFile) -> LineColumn {
        source.line_column(self.span.start)
    }

    /// Returns one line: `file:line:column: error[E0001]: message`.
    pub fn summary(&self, source: &SourceFile) -> String {
        let at = self.position(source);
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        format!(
            "{}:{}:{}: {severity}[{}]: {}",
            source.name(),
            at.line,
            at.column,
            self.code,
            self.message
        )
    }

    /// Formats the problem as text of several lines, with the source lines and carets under the
    /// spans. [`Style::Coloured`] uses terminal colours.
    pub fn render(&self, source: &SourceFile, style: Style) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let code = self.code.to_string();
        let window = Window::around(source, self);
        let primary = AnnotationKind::Primary.span(window.clip(self.span));
        let primary = match self.label.as_str() {
            "" => primary,
            label => primary.label(label),
        };
        let related = self.related.iter().filter(|label| self.shows(label));
        let related = related.map(|label| {
            AnnotationKind::Context
                .span(window.clip(label.span))
                .label(label.text.as_str())
        });
        let distant = self.related.iter().filter(|label| !self.shows(label));
        let distant: Vec<String> = distant
            .map(|label| {
                let at = source.line_column(label.span.start);
                format!("{}: line {}, column {}", label.text, at.line, at.column)
            })
            .collect();
        let snippet = Snippet::source(window.text)
            .path(source.name())
            .line_start(window.first_line)
            .annotation(primary)
            .annotations(related);
        let group: Group<'_> = level
            .primary_title(self.message.as_str())
            .id(code.as_str())
            .element(snippet)
            .elements(
                distant
                    .iter()
                    .chain(&self.notes)
                    .map(|note| Level::NOTE.message(note.as_str())),
            );
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Coloured => Renderer::styled(),
        };
        renderer.render(&[group])
    }

    /// Returns whether the source line of the related position `label` is drawn. A distant position
    /// is only mentioned in a note, because the time and memory for drawing grow with the length of
    /// the text between the positions.
    fn shows(&self, label: &Label) -> bool {
        label.span.start.abs_diff(self.span.start) <= Window::MAX_BETWEEN
    }
}

/// The way in which a diagnostic is formatted as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Text without escape sequences for colours.
    Plain,
    /// Text with escape sequences for the colours of a terminal.
    Coloured,
}

/// The part of a file that is drawn for a diagnostic: the lines of its spans, with at most
/// [`Window::MAX_SIDE`] bytes before and after the spans. The size of this part is limited, so that
/// drawing is fast even if the text has many megabytes.
struct Window<'s> {
    text: &'s str,
    start: usize,
    first_line: usize,
}

impl<'s> Window<'s> {
    /// The maximum number of bytes that are drawn before the first span, and after the last span.
    const MAX_SIDE: usize = 4096;
    /// The maximum number of bytes of a span that are drawn.
    const MAX_SPAN: u32 = 4096;
    /// The maximum distance in bytes from the problem to a related position whose source line is
    /// drawn.
    const MAX_BETWEEN: u32 = 64 << 10;

    fn around(source: &'s SourceFile, diagnostic: &Diagnostic) -> Self {
        let text = source.text();
        let spans = || {
            diagnostic
                .related
                .iter()
                .filter(|label| diagnostic.shows(label))
                .map(|label| label.span)
                .chain([diagnostic.span])
                .map(Self::beginning)
        };
        let low = spans().map(|span| span.start).min().unwrap_or(0) as usize;
        let high = spans().map(|span| span.end).max().unwrap_or(0) as usize;
        let low = floor_boundary(text, low.min(text.len()));
        let high = floor_boundary(text, high.clamp(low, text.len()));
        let near = floor_boundary(text, low.saturating_sub(Self::MAX_SIDE));
        let far = floor_boundary(text, high.saturating_add(Self::MAX_SIDE).min(text.len()));
        let start = text[near..low].rfind('\n').map_or(near, |i| near + i + 1);
        let end = text[high..far].find('\n').map_or(far, |i| high + i);
        Window {
            text: &text[start..end],
            start,
            first_line: source.line_column(start as u32).line as usize,
        }
    }

    /// Returns the part of a span that is drawn: the first [`Window::MAX_SPAN`] bytes.
    fn beginning(span: Span) -> Span {
        let end = span.start.saturating_add(Self::MAX_SPAN);
        Span::new(span.start, span.end.min(end))
    }

    /// Converts the drawn part of a span to offsets in the window's text, rounded down to character
    /// boundaries.
    fn clip(&self, span: Span) -> std::ops::Range<usize> {
        let span = Self::beginning(span);
        let place = |offset: u32| {
            let offset = (offset as usize).saturating_sub(self.start);
            floor_boundary(self.text, offset.min(self.text.len()))
        };
        let start = place(span.start);
        start..place(span.end).max(start)
    }
}

/// Shortens the words of a message that are longer than `LONGEST`, such as identifiers of several megabytes. A word is
/// a sequence of characters that PTX names can contain.
fn shortened(text: String) -> String {
    /// The maximum length, in bytes, of a word that is not shortened. Mangled names of templates
    /// have hundreds of characters.
    const LONGEST: usize = 1024;
    /// The number of characters that remain of a word that is shortened.
    const KEPT: usize = 80;
    if text.len() <= LONGEST {
        return text;
    }
    let outside = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%'));
    let mut short = String::new();
    for part in text.split_inclusive(outside) {
        // A part is a word, which may be empty, and at most one other character after it.
        let word = part.trim_end_matches(outside);
        match word.len() > LONGEST {
            true => {
                short.push_str(&word[..KEPT]);
                short.push_str("...");
                short.push_str(&part[word.len()..]);
            }
            false => short.push_str(part),
        }
    }
    short
}

fn floor_boundary(text: &str, mut offset: usize) -> usize {
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendering_shows_line_and_caret() {
        let source = SourceFile::new("k.ptx", "// one\nadd.s32 , %r1;\n");
        let diagnostic = Diagnostic::error(Code::SYNTAX, Span::new(15, 16), "unexpected `,`")
            .with_label("expected an operand")
            .with_note("operands are separated by commas");
        assert_eq!(
            diagnostic.summary(&source),
            "k.ptx:2:9: error[E0001]: unexpected `,`"
        );
        let expected = "\
error[E0001]: unexpected `,`
 --> k.ptx:2:9
  |
2 | add.s32 , %r1;
  |         ^ expected an operand
  |
  = note: operands are separated by commas";
        assert_eq!(diagnostic.render(&source, Style::Plain), expected);
    }

    #[test]
    fn distant_places_are_named_in_a_note() {
        let text = format!("{{ // one\n{}\n", ":".repeat(5_000_000));
        let last = text.len() as u32;
        let source = SourceFile::new("k.ptx", text);
        let unclosed = Diagnostic::error(Code::UNEXPECTED_END, Span::new(last, last), "no `}`");
        let unclosed = unclosed.with_related(Span::new(0, 1), "this `{` is not closed");
        let drawn = unclosed.render(&source, Style::Plain);
        assert!(drawn.len() < 20_000, "{}", drawn.len());
        let note = "note: this `{` is not closed: line 1, column 1";
        assert!(drawn.contains(note), "{drawn}");
    }

    #[test]
    fn long_names_are_shortened() {
        let name = "a".repeat(5_000_000);
        let source = SourceFile::new("k.ptx", format!("mov.u32 %r0, {name};\n"));
        let span = Span::new(13, 13 + name.len() as u32);
        let text = format!("`{name}` is not declared; `b` is");
        let diagnostic = Diagnostic::error(Code::UNKNOWN_SYMBOL, span, text.as_str())
            .with_label(text.as_str())
            .with_related(span, text.as_str())
            .with_note(text.as_str());
        let short = format!("`{}...` is not declared; `b` is", "a".repeat(80));
        assert_eq!(diagnostic.message, short);
        let rendered = diagnostic.render(&source, Style::Plain);
        assert!(rendered.len() < 20_000, "{} bytes", rendered.len());
        let mangled = format!("`{}`", "_ZN".repeat(300));
        let kept = Diagnostic::error(Code::UNKNOWN_SYMBOL, span, mangled.as_str());
        assert_eq!(kept.message, mangled);
    }

    #[test]
    fn rendering_survives_any_span() {
        let source = SourceFile::new("k.ptx", "ü\nü");
        for start in 0..8 {
            for end in 0..8 {
                let span = Span::new(start, end);
                let diagnostic = Diagnostic::error(Code::SYNTAX, span, "m").with_related(span, "r");
                assert!(
                    diagnostic
                        .render(&source, Style::Plain)
                        .contains("error[E0001]: m")
                );
            }
        }
    }
}
