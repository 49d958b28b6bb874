//! Problems found in a source text.
//!
//! Lexer, parser, resolution and lowering use one type. A diagnostic contains facts only (code, spans,
//! message). [`Diagnostic::render`] draws it with source lines and carets. Invariant: a span refers to the
//! file that is passed to `render`.

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

/// A second position that helps to explain a problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The position.
    pub span: Span,
    /// A description of this position in a few words.
    pub text: String,
}

/// One problem at one position in a source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The kind of problem.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The position of the problem.
    pub span: Span,
    /// What is wrong, as one sentence without a full stop.
    pub message: String,
    /// A few words under the caret, such as what was expected; may be empty.
    pub label: String,
    /// Other relevant positions, such as an earlier declaration.
    pub related: Vec<Label>,
    /// Advice and background, one sentence each.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// Creates an error at `span`.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            span,
            message: message.into(),
            label: String::new(),
            related: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Creates a warning at `span`.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(code, span, message)
        }
    }

    /// Sets the words under the caret.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds another relevant position.
    #[must_use]
    pub fn with_related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    /// Adds a sentence of advice or background.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
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

    /// Draws the problem with its source lines and carets, on several lines. [`Style::Coloured`] uses
    /// terminal colours.
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
        let related = self.related.iter().map(|label| {
            AnnotationKind::Context
                .span(window.clip(label.span))
                .label(label.text.as_str())
        });
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
                self.notes
                    .iter()
                    .map(|note| Level::NOTE.message(note.as_str())),
            );
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Coloured => Renderer::styled(),
        };
        renderer.render(&[group])
    }
}

/// How a diagnostic is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Plain text.
    Plain,
    /// With the terminal's colours.
    Coloured,
}

/// The part of a file that a diagnostic shows: whole lines around its spans. This keeps drawing fast even if
/// the text has many megabytes.
struct Window<'s> {
    text: &'s str,
    start: usize,
    first_line: usize,
}

impl<'s> Window<'s> {
    /// Maximum number of bytes shown on either side of a span.
    const MAX_SIDE: usize = 4096;

    fn around(source: &'s SourceFile, diagnostic: &Diagnostic) -> Self {
        let text = source.text();
        let spans = || {
            diagnostic
                .related
                .iter()
                .map(|label| label.span)
                .chain([diagnostic.span])
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

    /// Converts the span to the window's own offsets, on character boundaries.
    fn clip(&self, span: Span) -> std::ops::Range<usize> {
        let place = |offset: u32| {
            let offset = (offset as usize).saturating_sub(self.start);
            floor_boundary(self.text, offset.min(self.text.len()))
        };
        let start = place(span.start);
        start..place(span.end).max(start)
    }
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
