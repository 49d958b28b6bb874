//! Parses links and headings of Markdown pages.

use std::path::{Component, Path, PathBuf};

/// A link `[text](target)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) text: String,
    pub(super) target: String,
    /// Number of the line that contains the link. The first line has the number 1.
    pub(super) line: usize,
}

impl Link {
    /// Returns the path of the file to which the link on `page` leads, relative to the repository's
    /// root; `None` if the link leads out of the repository or to a heading of its own page.
    pub(super) fn file(&self, page: &Path) -> Option<PathBuf> {
        let path = self.target.split('#').next().unwrap_or_default();
        let outside = path.contains("://") || path.starts_with("mailto:");
        (!path.is_empty() && !outside).then(|| join(page, path))
    }

    /// Returns the anchor of the heading to which the link leads; `None` if it leads to a whole
    /// file.
    pub(super) fn anchor(&self) -> Option<&str> {
        let outside = self.target.contains("://");
        self.target
            .split_once('#')
            .map(|(_, anchor)| anchor)
            .filter(|_| !outside)
    }
}

/// Returns the path to which `path` leads, relative to the folder of the page `page`. The result
/// does not contain `..`.
fn join(page: &Path, path: &str) -> PathBuf {
    let mut joined = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                joined.pop();
            }
            Component::CurDir => {}
            other => joined.push(other),
        }
    }
    joined
}

/// Returns the text of a page, or an error message that names the file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the links in the text of a page, except links in code blocks.
pub(super) fn of(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let mut rest = line;
        while let Some(middle) = rest.find("](") {
            let (before, after) = (&rest[..middle], &rest[middle + 2..]);
            rest = after;
            let Some(start) = opening(before) else {
                continue;
            };
            let Some(end) = after.find(')') else { continue };
            links.push(Link {
                // In tables a vertical bar is escaped by a backslash.
                text: before[start + 1..].replace("\\|", "|"),
                target: after[..end].to_owned(),
                line: index + 1,
            });
        }
    }
    links
}

/// Returns the position in `before` of the bracket at which a link's text begins. The text of the
/// link may itself contain pairs of brackets.
fn opening(before: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (index, c) in before.char_indices().rev() {
        match c {
            ']' => depth += 1,
            '[' if depth == 0 => return Some(index),
            '[' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the anchors that GitHub and mdBook generate for a page's headings.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut anchors: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let keep = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let plain = heading.trim().to_lowercase();
        anchors.push(
            plain
                .chars()
                .filter(keep)
                .collect::<String>()
                .replace(' ', "-"),
        );
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_where_they_lead() {
        let text =
            "see [`a`](../x/a.rs) and [b](b.md#part)\n```\n[no](no.md)\n```\n[c](https://c.org/#d)";
        let links = of(text);
        let targets: Vec<&str> = links.iter().map(|link| link.target.as_str()).collect();
        assert_eq!(targets, ["../x/a.rs", "b.md#part", "https://c.org/#d"]);
        let page = Path::new("docs/page.md");
        assert_eq!(links[0].file(page), Some("x/a.rs".into()));
        assert_eq!(links[1].file(page), Some("docs/b.md".into()));
        assert_eq!(links[1].anchor(), Some("part"));
        assert_eq!((links[2].file(page), links[2].anchor()), (None, None));
    }

    #[test]
    fn texts_may_have_brackets_and_bars() {
        let texts = of("| [`&[a, b],`](c.rs) | [`a \\| b`](d.rs) |");
        let texts: Vec<&str> = texts.iter().map(|link| link.text.as_str()).collect();
        assert_eq!(texts, ["`&[a, b],`", "`a | b`"]);
    }

    #[test]
    fn anchors_of_headings() {
        assert_eq!(
            anchors("# In CI, without a GPU\n## `margay run`\n#no"),
            ["in-ci-without-a-gpu", "margay-run"]
        );
    }
}
