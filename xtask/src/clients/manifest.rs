//! Reads `tests/clients/manifest.toml`, whose first comment describes the fields.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    client: Vec<Client>,
}

/// A client of the manifest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) package: String,
    pub(super) programs: Vec<String>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    pub(super) install: Option<String>,
    #[serde(default)]
    pub(super) quick: bool,
    #[serde(default)]
    pub(super) large: bool,
    pub(super) suite: Option<Suite>,
}

/// The test suite of a client.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suite {
    pub(super) command: Vec<String>,
    #[serde(default)]
    pub(super) pieces: Vec<String>,
    pub(super) sources: Option<[String; 2]>,
    pub(super) goal: u32,
    pub(super) cost: u32,
}

/// Reads the manifest `manifest.toml` in the folder `folder`.
pub(super) fn load(folder: &Path) -> Result<Vec<Client>, String> {
    let path = folder.join("manifest.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let manifest: Manifest =
        toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(manifest.client)
}
