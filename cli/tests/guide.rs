//! Checks the programs and the reports in `docs/checks.md`.
//!
//! The document contains the programs of `tests/checks/guide`. After a line `<!-- program NAME -->` follow two fenced
//! blocks: the program and its report. The test compares the program with its file, runs the program under `margay
//! check` and compares the report. With `BLESS=1`, it writes programs and reports into the document.
//!
//! No CUDA compiler is needed: the kernels are available as PTX, and a C compiler builds `main` with a header that
//! replaces the header of CUDA's runtime. Of the host's stack, only frames in the program's source file are compared.
//! Addresses are replaced by a constant address.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MARK: &str = "<!-- program ";
/// The address that replaces all addresses in reports.
const ADDRESS: &str = "0x7f0000000000";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn guide() -> PathBuf {
    root().join("tests/checks/guide").canonicalize().unwrap()
}

fn names() -> BTreeSet<String> {
    let files = fs::read_dir(guide())
        .unwrap()
        .map(|file| file.unwrap().path());
    let programs = files.filter(|path| path.extension().is_some_and(|end| end == "cu"));
    programs
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// Returns the mangled name of the kernel that the source calls `kernel`.
fn mangled<'a>(ptx: &'a str, kernel: &str) -> &'a str {
    let start = format!("_Z{}{kernel}", kernel.len());
    let mut words = ptx.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
    words.find(|word| word.starts_with(&start)).unwrap()
}

/// Returns a line of `main` as C: `k<<<1, 2>>>(p)` becomes a call of `launch_`.
fn as_c(line: &str, ptx: &str) -> String {
    let Some((before, rest)) = line.split_once("<<<") else {
        return line.to_owned();
    };
    let (extents, arguments) = rest.split_once(">>>(").unwrap();
    let (arguments, end) = arguments.rsplit_once(')').unwrap();
    let mut extents: Vec<&str> = extents.split(", ").collect();
    extents.resize(4, "0");
    let values: Vec<&str> = arguments
        .split(", ")
        .filter(|value| !value.is_empty())
        .collect();
    let cells = values.iter().map(|value| format!("(uint64_t)({value})"));
    let cells: Vec<String> = cells.chain(["0".to_owned()]).collect();
    format!(
        "launch_(\"{}\", {}, {}, (uint64_t[]){{{}}}){end}",
        mangled(ptx, before.trim()),
        extents.join(", "),
        values.len(),
        cells.join(", ")
    )
}

/// Returns the function `main` of the program `name` (whose source is `text`), converted to C. A
/// `#line` directive preserves the line numbers.
fn host_part(name: &str, text: &str) -> String {
    let ptx = guide().join(format!("{name}.ptx"));
    let kernels = fs::read_to_string(&ptx).unwrap_or_default();
    let first = text
        .lines()
        .position(|line| line.starts_with("int main"))
        .unwrap();
    let mut out = format!(
        "#define KERNELS_ \"{}\"\n#include \"cuda_runtime.h\"\n#line {} \"{name}.cu\"\n",
        ptx.display(),
        first + 1
    );
    for line in text.lines().skip(first) {
        out += &as_c(line, &kernels);
        out.push('\n');
    }
    out
}

/// Runs the program `name`, whose source is `text`, under `margay check`, and returns the report.
fn report(name: &str, text: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guide-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let library = std::env::current_exe()
        .unwrap()
        .with_file_name("libcuda.so");
    assert!(library.exists(), "{} is missing", library.display());
    let link = folder.join("libcuda.so.1");
    std::os::unix::fs::symlink(&library, &link).unwrap();
    let source = folder.join("main.c");
    fs::write(&source, host_part(name, text)).unwrap();
    let program = folder.join(name);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(compiler)
        .args(["-std=gnu11", "-g", "-O0", "-w", "-I"])
        .arg(guide().join("runtime"))
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg(&link)
        .current_dir(&folder)
        .status();
    assert!(built.unwrap().success(), "{name}");
    let options = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("// options: "));
    let output = Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(["check", "--strip-paths", "yes"])
        .args(options.unwrap_or_default().split_whitespace())
        .arg("--")
        .arg(&program)
        .current_dir(guide())
        .env("XDG_RUNTIME_DIR", &folder)
        .env("MARGAY_LIBCUDA", &library)
        .output()
        .unwrap();
    let _ = fs::remove_dir_all(&folder);
    shown(&String::from_utf8(output.stderr).unwrap())
}

/// Returns the part of a report that the document shows: the findings, without the text that differs between runs.
fn shown(report: &str) -> String {
    let mut out = String::new();
    for line in report.lines() {
        let frame = line
            .trim_start_matches('=')
            .trim_start()
            .strip_prefix("Host Frame: ");
        let ends = line.contains(" SUMMARY: ") || line.ends_with("COMPUTE-SANITIZER");
        if !line.starts_with("=========")
            || ends
            || frame.is_some_and(|frame| !frame.contains(".cu:"))
        {
            continue;
        }
        out += &with_address(line.trim_end());
        out.push('\n');
    }
    out.trim_end_matches("\n=========\n").trim_end().to_owned()
}

/// Returns a line of a report with all addresses replaced by [`ADDRESS`].
fn with_address(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        let is_address = part.len() - rest.len() > 8;
        out += if is_address { ADDRESS } else { &line[..0] };
        out += &match is_address {
            true => rest.to_owned(),
            false => format!("0x{part}"),
        };
    }
    out
}

/// Returns the two blocks that the document must contain after the mark of a program.
fn blocks(name: &str, text: &str) -> String {
    format!(
        "\n```cuda\n{}\n```\n\n```text\n{}\n```\n",
        text.trim_end(),
        report(name, text)
    )
}

#[test]
fn the_document_shows_the_programs_and_their_reports() {
    let path = root().join("docs/checks.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut sections = page.split(MARK);
    let mut blessed = sections.next().unwrap_or_default().to_owned();
    let (mut seen, mut wrong) = (BTreeSet::new(), String::new());
    for section in sections {
        let (name, rest) = section.split_once(" -->\n").expect("the end of a mark");
        let text = fs::read_to_string(guide().join(format!("{name}.cu"))).expect(name);
        let wanted = blocks(name, &text);
        let is_same = rest.starts_with(&wanted);
        if !is_same {
            wrong += &format!("{name}:{wanted}");
        }
        // The two blocks end after the fourth fence.
        let fences: Vec<usize> = rest
            .match_indices("\n```")
            .map(|(at, _)| at)
            .take(4)
            .collect();
        let old = match rest.starts_with("\n```cuda\n") && fences.len() == 4 {
            true => fences[3] + "\n```\n".len(),
            false => 0,
        };
        blessed += &format!("{MARK}{name} -->\n{wanted}{}", &rest[old..]);
        seen.insert(name.to_owned());
    }
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, blessed).unwrap();
        return;
    }
    assert!(
        wrong.is_empty(),
        "BLESS=1 writes these programs and reports:\n{wrong}"
    );
    assert_eq!(seen, names(), "the document shows each program");
}
