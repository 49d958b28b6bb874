//! Checks the documents:
//!
//! - every relative link leads to a file of the repository, and the anchor of a link leads to a heading;
//! - if the text of a link to a source file is code other than the end of the file's path (`` [`symbol`](path.rs) ``),
//!   the file contains this code, so the walkthroughs of CONTRIBUTING.md refer to existing code;
//! - `docs/SUMMARY.md` lists every page of `docs/` once, and the listed pages link to no unlisted Markdown files;
//! - `docs/errors.md` contains every result that the documentation of the runtime's errors names;
//! - `docs/environment.md` contains every environment variable that the runtime, the driver library and the program
//!   use;
//! - ARCHITECTURE.md has at most 300 lines. For each row of its table of crates, the manifest in
//!   the row's folder contains the same crate name and, under `[dependencies]`, the same crates of
//!   this project.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::links::{self, Link};

/// Maximum number of lines of ARCHITECTURE.md.
const MOST_LINES: usize = 300;

/// Runs all checks of the documentation and returns the problems as texts.
pub(super) fn all(root: &Path, pages: &[PathBuf]) -> Result<Vec<String>, String> {
    let summary = links::read(&root.join("docs/SUMMARY.md"))?;
    let book = listed(&summary);
    let mut problems = contents(pages, &book);
    for page in pages {
        let text = links::read(&root.join(page))?;
        for link in links::of(&text) {
            let problem = match follow(root, page, &text, &link) {
                Err(problem) => problem,
                Ok(()) if book.contains(page) && leaves(&book, page, &link) => {
                    format!("{} is not in the book", link.target)
                }
                Ok(()) => continue,
            };
            problems.push(format!("{}:{}: {problem}", page.display(), link.line));
        }
    }
    let architecture = links::read(&root.join("ARCHITECTURE.md"))?;
    let lines = architecture.lines().count();
    if lines > MOST_LINES {
        problems.push(format!(
            "ARCHITECTURE.md: {lines} lines of at most {MOST_LINES}"
        ));
    }
    problems.extend(dependencies(root, &architecture)?);
    let source = links::read(&root.join("runtime/src/error.rs"))?;
    problems.extend(results(
        &source,
        &links::read(&root.join("docs/errors.md"))?,
    ));
    let page = links::read(&root.join("docs/environment.md"))?;
    for folder in ["runtime/src", "ffi/src", "cli/src"] {
        for file in sources(&root.join(folder))? {
            let named = variables(&links::read(&file)?, &page);
            problems.extend(
                named
                    .iter()
                    .map(|name| format!("docs/environment.md: no {name}")),
            );
        }
    }
    problems.dedup();
    Ok(problems)
}

/// Prefixes of the environment variables that only tests and builds use. `docs/environment.md` need not contain these
/// variables.
const INNER_VARIABLES: [&str; 3] = ["MARGAY_TEST_", "MARGAY_FULL", "MARGAY_LIBRARIES"];

/// Returns the Rust files below a folder.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder);
        for entry in entries.map_err(|e| format!("{}: {e}", folder.display()))? {
            let path = entry.map_err(|e| e.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the names of environment variables (string literals `"MARGAY_..."`) in the source text
/// `source` that the text `page` does not contain.
fn variables(source: &str, page: &str) -> BTreeSet<String> {
    let texts = source
        .split("\"MARGAY_")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let is_letter = |b: u8| b.is_ascii_uppercase() || b == b'_';
    let is_name = |text: &&str| !text.is_empty() && text.bytes().all(is_letter);
    let names = texts.filter(is_name).map(|text| format!("MARGAY_{text}"));
    let inner = |name: &String| INNER_VARIABLES.iter().any(|inner| name.starts_with(inner));
    names
        .filter(|name| !inner(name) && !page.contains(&format!("`{name}`")))
        .collect()
}

/// The documentation of the runtime's errors contains results in brackets (`[700 ILLEGAL_ADDRESS]`). Returns a problem
/// for each such result in `source` that the page does not contain.
fn results(source: &str, page: &str) -> Vec<String> {
    let named = source.lines().filter_map(|line| {
        let (_, rest) = line.trim_start().strip_prefix("///")?.split_once('[')?;
        let (number, name) = rest.split_once(']')?.0.split_once(' ')?;
        number
            .parse::<u32>()
            .ok()
            .map(|number| format!("| {number} | `{name}` |"))
    });
    let missing = named.filter(|row| !page.contains(row));
    missing
        .map(|row| format!("docs/errors.md: no row {row}"))
        .collect()
}

/// Returns an error if a link leads to a file, heading or symbol that does not exist.
fn follow(root: &Path, page: &Path, text: &str, link: &Link) -> Result<(), String> {
    let file = link.file(page);
    let target = match &file {
        Some(file) if !root.join(file).is_file() => {
            return Err(format!("{} is not a file", link.target));
        }
        // A picture has no text.
        Some(file) if file.extension().is_some_and(|end| end == "png") => String::new(),
        Some(file) => links::read(&root.join(file))?,
        None => text.to_owned(),
    };
    let is_page = file
        .as_ref()
        .is_none_or(|file| file.extension().is_some_and(|e| e == "md"));
    if let Some(anchor) = link.anchor() {
        let known = is_page && links::anchors(&target).iter().any(|known| known == anchor);
        return known
            .then_some(())
            .ok_or(format!("{} is not a heading", link.target));
    }
    let symbol = link
        .text
        .strip_prefix('`')
        .and_then(|text| text.strip_suffix('`'));
    match (symbol, &file) {
        (Some(symbol), Some(file)) if !is_page && !file.ends_with(symbol) => target
            .contains(symbol)
            .then_some(())
            .ok_or(format!("{} has no `{symbol}`", file.display())),
        _ => Ok(()),
    }
}

/// Returns the paths of the pages that the book's table of contents lists.
fn listed(summary: &str) -> Vec<PathBuf> {
    let page = Path::new("docs/SUMMARY.md");
    let links = links::of(summary);
    links.iter().filter_map(|link| link.file(page)).collect()
}

/// Returns whether a link leads to a Markdown file that is not in the book. In the built book, such a link would lead
/// to a missing page.
fn leaves(book: &[PathBuf], page: &Path, link: &Link) -> bool {
    let file = link.file(page);
    let file = file.filter(|file| file.extension().is_some_and(|e| e == "md"));
    file.is_some_and(|file| !book.contains(&file))
}

/// Returns a problem for each page of `docs/` that the table of contents omits or lists twice.
fn contents(pages: &[PathBuf], book: &[PathBuf]) -> Vec<String> {
    let own = |page: &&PathBuf| page.starts_with("docs") && !page.ends_with("SUMMARY.md");
    let times = |page: &PathBuf| book.iter().filter(|one| *one == page).count();
    pages
        .iter()
        .filter(own)
        .filter(|page| times(page) != 1)
        .map(|page| {
            format!(
                "docs/SUMMARY.md: lists {} {} times",
                page.display(),
                times(page)
            )
        })
        .collect()
}

/// Compares ARCHITECTURE.md's table of crates (columns: `folder`, `crate`, contents, `depends on`)
/// with the crates' manifests, and returns the differences. Crates without a row, and dependencies
/// on crates of other projects, are not compared.
fn dependencies(root: &Path, architecture: &str) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    for line in architecture.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [folder, name, _, on] = cells[..] else {
            continue;
        };
        let bare = |text: &str| text.trim_matches(['`', '/', ' ', '|']).to_owned();
        if name.starts_with('`') {
            let on = on
                .split(',')
                .map(bare)
                .filter(|one| !one.is_empty() && one != "none");
            rows.push((bare(folder), bare(name), on.collect::<BTreeSet<String>>()));
        }
    }
    if rows.is_empty() {
        return Ok(vec!["ARCHITECTURE.md: no table of crates".to_owned()]);
    }
    let mut problems = Vec::new();
    for (folder, name, told) in &rows {
        let manifest = links::read(&root.join(folder).join("Cargo.toml"))?;
        let manifest: toml::Table = manifest.parse().map_err(|e| format!("{folder}: {e}"))?;
        let is = manifest
            .get("package")
            .and_then(|p| p.get("name"))
            .and_then(|n| n.as_str());
        if is != Some(name.as_str()) {
            problems.push(format!("ARCHITECTURE.md: {folder} is {is:?}, not {name}"));
        }
        let needs = manifest.get("dependencies").and_then(|d| d.as_table());
        let needs = needs.into_iter().flat_map(|needs| needs.keys());
        let ours = |name: &&String| *name == "margay" || name.starts_with("margay-");
        let needs: BTreeSet<String> = needs.filter(ours).cloned().collect();
        if needs != *told {
            problems.push(format!(
                "ARCHITECTURE.md: {folder} depends on {needs:?}, not {told:?}"
            ));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_not_listed_are_found() {
        let pages = ["docs/a.md", "docs/b.md", "docs/SUMMARY.md", "README.md"].map(PathBuf::from);
        let book = listed("- [A](a.md)\n- [R](../README.md)\n");
        let problems = contents(&pages, &book);
        assert_eq!(problems, ["docs/SUMMARY.md: lists docs/b.md 0 times"]);
        let link = |target: &str| links::of(&format!("[x]({target})")).remove(0);
        let leaves = |target: &str| leaves(&book, Path::new("docs/a.md"), &link(target));
        assert!(leaves("b.md") && !leaves("../README.md#x") && !leaves("../c.rs"));
    }

    #[test]
    fn results_that_the_page_lacks_are_found() {
        let source = "/// Bad [1 INVALID_VALUE].\n/// See [`Error`].\n    /// [2 OUT_OF_MEMORY].";
        let problems = results(source, "| 1 | `INVALID_VALUE` | bad |");
        assert_eq!(problems, ["docs/errors.md: no row | 2 | `OUT_OF_MEMORY` |"]);
    }

    #[test]
    fn variables_that_the_page_lacks_are_found() {
        let source = "var(\"MARGAY_A\"), var(\"MARGAY_B\"), var(\"MARGAY_TEST_C\"), \"other\"";
        let missing = variables(source, "| `MARGAY_A` |");
        assert_eq!(missing, BTreeSet::from(["MARGAY_B".to_owned()]));
    }

    #[test]
    fn symbols_have_to_be_in_the_file() {
        let root = crate::exec::root();
        let page = Path::new("docs/page.md");
        let link = |text: &str, target: &str| Link {
            text: text.to_owned(),
            target: target.to_owned(),
            line: 1,
        };
        let found =
            |text: &str, target: &str| follow(&root, page, "# Here", &link(text, target)).is_ok();
        assert!(found("`const MOST_LINES`", "../xtask/src/book/check.rs"));
        assert!(!found("`const LEAST_LINES`", "../xtask/src/none.rs"));
        assert!(!found(
            concat!("`const LEAST", "_LINES`"),
            "../xtask/src/book/links.rs"
        ));
        assert!(found("there", "#here") && !found("there", "#nowhere"));
        assert!(!found("gone", "gone.md"));
    }
}
