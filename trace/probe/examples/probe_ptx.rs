//! Writes the PTX of a file with probes: `probe_ptx PROBE FILE.ptx [KERNEL]`.
//!
//! `PROBE` is a probe file or the name of a shipped one. With the name of a kernel, the kernel is probed in the original
//! engine's manner. Without a PTX file, the program writes the probe file as TOML. Messages about kernels that stay as
//! they are go to the error output.

use std::io::Write;
use std::sync::Arc;

use margay_frontend::{SourceFile, parse};
use margay_probe::{Faults, Options, Outcome, Selection, compat, load, rewrite};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (probe, path, kernel) = match arguments.as_slice() {
        [probe] => (probe, None, None),
        [probe, path] => (probe, Some(path), None),
        [probe, path, kernel] => (probe, Some(path), Some(kernel)),
        _ => return Err("usage: probe_ptx PROBE [FILE.ptx [KERNEL]]".into()),
    };
    let text = std::fs::read_to_string(probe).ok();
    let faults = if kernel.is_some() {
        Faults::Original
    } else {
        Faults::Fixed
    };
    let file = load(probe, text.as_deref(), faults)?;
    let mut out = std::io::stdout().lock();
    let Some(path) = path else {
        out.write_all(file.text.as_bytes())?;
        return Ok(());
    };
    let source = SourceFile::from_bytes(path, &std::fs::read(path)?);
    if let Some(kernel) = kernel {
        let probed = compat::probe(path, source.text(), kernel, &file)?;
        out.write_all(probed.probed.as_bytes())?;
        return Ok(());
    }
    let rewritten = rewrite(
        &parse(Arc::new(source)),
        &file,
        &Selection::default(),
        Options::default(),
    )?;
    for kernel in &rewritten.kernels {
        match &kernel.outcome {
            Outcome::Failed(error) => eprintln!("{}: {error}", kernel.name),
            outcome => eprintln!("{}: {outcome:?}", kernel.name),
        }
    }
    out.write_all(rewritten.text.as_bytes())?;
    Ok(())
}
