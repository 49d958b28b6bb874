//! `cargo xtask book [--check]`: checks the documentation and builds it as a book in `target/book`.
//!
//! The pages of the book are the files in `docs/` and the documents in the repository's root folder, such as
//! `ARCHITECTURE.md`. This command checks the pages ([`check`]), copies them and the files that they link to into one
//! folder, and runs `mdbook` on this folder if `mdbook` is installed. `docs/SUMMARY.md` is the table of contents,
//! `docs/book.toml` is the configuration. With `--check`, the command checks the pages and does not build the book.
//!
//! Invariant: files have the same paths in the copied folder as in the repository, so a relative
//! link leads to the same page in a clone and in the book.

mod check;
mod links;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, exec};

/// Documents in the repository's root folder that are pages of the book.
const ROOT_PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "BENCHMARKING.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
];

/// The HTML text of the book's start page, which redirects to the introduction.
const INDEX: &str = "<!DOCTYPE html>\n<meta charset=\"utf-8\"><title>Margay</title>\n\
    <meta http-equiv=\"refresh\" content=\"0; url=docs/introduction.html\">\n\
    <a href=\"docs/introduction.html\">Margay</a>\n";

pub(crate) fn run(args: &[String]) -> Outcome {
    let build = match args {
        [] => true,
        [flag] if flag == "--check" => false,
        _ => return Err("the only option is --check".to_owned()),
    };
    let root = exec::root();
    let pages = pages(&root)?;
    let problems = check::all(&root, &pages)?;
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        return Err(format!("{} problems in the documents", problems.len()));
    }
    println!("{} pages checked", pages.len());
    match build {
        true => make(&root, &pages),
        false => Ok(()),
    }
}

/// Returns the paths of the documentation's Markdown files, relative to the repository's root.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages: Vec<PathBuf> = ROOT_PAGES.iter().map(PathBuf::from).collect();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder));
        for entry in entries.map_err(|e| format!("{}: {e}", folder.display()))? {
            let path = entry.map_err(|e| e.to_string())?.path();
            let below = path.strip_prefix(root).map_err(|e| e.to_string())?;
            if path.is_dir() {
                folders.push(below.to_owned());
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(below.to_owned());
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// Copies the pages and the files that they link to into one folder, and runs `mdbook` on it.
fn make(root: &Path, pages: &[PathBuf]) -> Outcome {
    let Some(mdbook) = mdbook(root) else {
        println!("mdbook is not installed; see CONTRIBUTING.md");
        return Ok(());
    };
    let copy = root.join("target/book-source");
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(|e| format!("{}: {e}", copy.display()))?;
    }
    let mut files: Vec<PathBuf> = pages.to_vec();
    for page in pages {
        let text = links::read(&root.join(page))?;
        let targets = links::of(&text)
            .into_iter()
            .filter_map(|link| link.file(page));
        files.extend(targets);
    }
    files.sort();
    files.dedup();
    for file in files
        .iter()
        .filter(|file| !file.ends_with("docs/SUMMARY.md"))
    {
        put(
            &copy.join(file),
            &fs::read(root.join(file)).map_err(|e| e.to_string())?,
        )?;
    }
    let summary = links::read(&root.join("docs/SUMMARY.md"))?;
    put(&copy.join("SUMMARY.md"), from_root(&summary).as_bytes())?;
    let config = links::read(&root.join("docs/book.toml"))?;
    put(&copy.join("book.toml"), config.as_bytes())?;
    exec::run(Command::new(mdbook).arg("build").arg(&copy))?;
    // mdbook writes a copy of the first chapter to `index.html`, where the chapter's relative links are wrong.
    put(&root.join("target/book/index.html"), INDEX.as_bytes())?;
    println!("target/book/index.html");
    Ok(())
}

/// Returns the table of contents with paths that begin at the repository's root instead of `docs/`.
fn from_root(summary: &str) -> String {
    let inside = summary.replace("](", "](docs/");
    inside.replace("](docs/../", "](")
}

fn put(path: &Path, bytes: &[u8]) -> Outcome {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the path of `mdbook`: in a folder of `PATH`, or in the folder where `.ci/run` installs it.
fn mdbook(root: &Path) -> Option<PathBuf> {
    let own = root.join(".cache/mdbook/bin/mdbook");
    let found = |program: &PathBuf| exec::output(Command::new(program).arg("--version")).is_ok();
    [PathBuf::from("mdbook"), own].into_iter().find(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_contents_moves_to_the_root() {
        let summary = "- [A](a.md)\n- [B](../B.md)\n";
        assert_eq!(from_root(summary), "- [A](docs/a.md)\n- [B](B.md)\n");
    }
}
