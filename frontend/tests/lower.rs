//! Every checked-in PTX program lowers without a problem.

use std::io::Read;
use std::path::Path;

use margay_frontend::{SourceFile, lower, parse};

fn text_of(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|e| e == "gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .unwrap();
        text
    } else {
        String::from_utf8(bytes).unwrap()
    }
}

#[test]
fn checked_in_programs_lower() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cuda/ptx");
    let mut kernels = 0;
    let mut problems = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let parsed = parse(SourceFile::new(name.clone(), text_of(&path)));
        problems.extend(parsed.diagnostics.iter().map(|d| d.summary(&parsed.source)));
        match lower(&parsed) {
            Ok(module) => {
                kernels += module.kernels().count();
                for function in module.functions.values() {
                    for (line, what) in &function.unsupported {
                        problems.push(format!("{name}:{line}: {what} is left out"));
                    }
                }
            }
            Err(errors) => problems.extend(errors.iter().map(|d| d.summary(&parsed.source))),
        }
    }
    assert!(
        problems.is_empty(),
        "{} problems\n{}",
        problems.len(),
        problems.join("\n")
    );
    assert!(kernels > 80, "only {kernels} kernels");
}
