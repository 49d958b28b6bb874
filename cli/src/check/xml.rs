//! Reads the XML of suppressions, and escapes text for XML and HTML. The result of parsing contains
//! elements and text, but no attributes, comments and declarations.

/// An element.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// The text of the element, without surrounding white space.
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

/// The maximum number of nested open elements, including the document itself.
const DEEPEST: usize = 64;

impl Element {
    /// Returns the first child called `name`.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Returns the text of the first child called `name`.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        Some(self.child(name)?.text.as_str())
    }
}

/// Parses a document and returns its root.
///
/// # Errors
/// Returns an error text that contains the line of the mistake.
pub(crate) fn parse(text: &str) -> Result<Element, String> {
    let mut reader = Reader { text, at: 0 };
    // The document is the parent of the root.
    let mut open = vec![Element::default()];
    loop {
        let (before, tag) = reader.next_tag()?;
        let depth = open.len();
        let Some(current) = open.last_mut() else {
            break;
        };
        current.text.push_str(&before);
        let Some(tag) = tag else {
            break;
        };
        match tag {
            Tag::Text(text) => current.text.push_str(text),
            Tag::Start(name, is_empty) => {
                open.push(Element {
                    name: name.to_owned(),
                    ..Element::default()
                });
                if open.len() > DEEPEST {
                    return Err(reader.error("elements are nested too deep"));
                }
                if is_empty {
                    close(&mut open);
                }
            }
            Tag::End(name) => {
                if depth == 1 || current.name != name {
                    return Err(reader.error(&format!("</{name}> has no opening tag")));
                }
                close(&mut open);
            }
        }
    }
    if open.len() > 1 {
        let name = &open[open.len() - 1].name;
        return Err(reader.error(&format!("<{name}> is not closed")));
    }
    let roots = open.pop().map(|document| document.children);
    let root = roots.and_then(|roots| roots.into_iter().next());
    root.ok_or_else(|| reader.error("the file has no element"))
}

/// Adds the innermost open element to the children of its parent.
fn close(open: &mut Vec<Element>) {
    if let Some(mut element) = open.pop() {
        element.text = element.text.trim().to_owned();
        if let Some(parent) = open.last_mut() {
            parent.children.push(element);
        }
    }
}

enum Tag<'a> {
    /// A start tag: the element's name, and whether the tag also ends the element (`<name/>`).
    Start(&'a str, bool),
    End(&'a str),
    /// The content of a CDATA section, in which `&` does not begin an entity.
    Text(&'a str),
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, what: &str) -> String {
        let line = self.text[..self.at].matches('\n').count() + 1;
        format!("line {line}: {what}")
    }

    /// Returns the text before the next tag, and the tag; instead of the tag `None` if the document
    /// has ended.
    fn next_tag(&mut self) -> Result<(String, Option<Tag<'a>>), String> {
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(start) = rest.find('<') else {
                text.push_str(&decode(rest));
                self.at = self.text.len();
                return Ok((text, None));
            };
            text.push_str(&decode(&rest[..start]));
            self.at += start;
            let skipped = [("<!--", "-->"), ("<?", "?>"), ("<!DOCTYPE", ">")];
            let rest = &rest[start..];
            let skipped = skipped.iter().find(|(open, _)| rest.starts_with(open));
            if let Some((open, end)) = skipped {
                self.until(open, end)?;
            } else if rest.starts_with("<![CDATA[") {
                let inner = self.until("<![CDATA[", "]]>")?;
                return Ok((text, Some(Tag::Text(inner))));
            } else {
                let inner = self.until("<", ">")?;
                return Ok((text, Some(self.tag(inner)?)));
            }
        }
    }

    /// Returns the text between `open` and the next `end`, and moves past `end`. The remaining text must begin with
    /// `open`.
    fn until(&mut self, open: &str, end: &str) -> Result<&'a str, String> {
        let rest = &self.text[self.at + open.len()..];
        let Some((inner, _)) = rest.split_once(end) else {
            return Err(self.error(&format!("`{open}` without `{end}`")));
        };
        self.at += open.len() + inner.len() + end.len();
        Ok(inner)
    }

    fn tag(&self, inner: &'a str) -> Result<Tag<'a>, String> {
        if let Some(name) = inner.strip_prefix('/') {
            return Ok(Tag::End(name.trim()));
        }
        let is_empty = inner.ends_with('/');
        let name = inner.trim_end_matches('/').split_whitespace().next();
        let name = name.filter(|_| !inner.starts_with(char::is_whitespace));
        match name {
            Some(name) => Ok(Tag::Start(name, is_empty)),
            None => Err(self.error("a tag has no name")),
        }
    }
}

/// Replaces entities by the characters that they stand for.
fn decode(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after.split_once(';');
        match entity.and_then(|(name, end)| Some((entity_char(name)?, end))) {
            Some((c, end)) => {
                out.push(c);
                rest = end;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity_char(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

/// Replaces the characters that have a special meaning in XML and HTML, and the control characters that XML and HTML
/// forbid.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            c => out.push(super::words::visible(c)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_text_are_read() {
        let text = "<?xml version=\"1.0\"?>\n<!-- <a> -->\n<r x='1'><a> f(int&#42;) &lt;&amp;&bad; </a><b/>\
                    <a><![CDATA[<x> & y]]></a></r>\n";
        let root = parse(text).expect("a document");
        assert_eq!(root.name, "r");
        assert_eq!(root.children.len(), 3);
        assert_eq!(root.text_of("a"), Some("f(int*) <&&bad;"));
        assert_eq!(root.children[2].text, "<x> & y");
        assert_eq!(root.child("b"), Some(&root.children[1]));
        assert!(root.child("c").is_none());
    }

    #[test]
    fn errors_name_the_line() {
        for (text, error) in [
            ("", "line 1: the file has no element"),
            ("<a>\n</b>", "line 2: </b> has no opening tag"),
            ("</a>", "line 1: </a> has no opening tag"),
            ("<a>\n<b></b>\n", "line 3: <a> is not closed"),
            ("\n<a", "line 2: `<` without `>`"),
            ("<a><!-- x</a>", "line 1: `<!--` without `-->`"),
            ("<>", "line 1: a tag has no name"),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
        let deep = "<a>".repeat(1 << 20);
        assert_eq!(
            parse(&deep),
            Err("line 1: elements are nested too deep".to_owned())
        );
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            escape("a<b> & \"c'\x1b"),
            "a&lt;b&gt; &amp; &quot;c&#39;\u{fffd}"
        );
    }
}
