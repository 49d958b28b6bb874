//! Loads a probe file of any kind.

use crate::dsl::{Faults, load_dsl};
use crate::error::Error;
use crate::model::ProbeFile;
use crate::toml_file;
use crate::tools::tool;

/// Loads the probe file that the option `--probe` names. `text` is the file's text, or `None` if there is no such file;
/// then `name` must be a shipped probe file. A name that ends in `.py` is a Python program, any other one is TOML.
///
/// # Errors
///
/// Returns the first error in the file, or an error that lists the shipped probe files.
pub fn load(name: &str, text: Option<&str>, faults: Faults) -> Result<ProbeFile, Error> {
    match (text, tool(name)) {
        (Some(text), _) if name.ends_with(".py") => load_dsl(name, text, faults),
        (Some(text), _) | (None, Some(text)) => toml_file::load(name, text),
        (None, None) => {
            let known: Vec<&str> = crate::tools::TOOLS.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "there is no such probe file; the shipped ones are {}",
                known.join(", ")
            );
            Err(Error::new(name, 0, message))
        }
    }
}
