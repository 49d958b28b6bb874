//! Writes Margay's Python package to a folder that `margay run` adds to `PYTHONPATH`.
//!
//! PyTorch and JAX find the package through the entry points in the folder's metadata, in whatever environment they are
//! installed. A wheel of Margay in the same environment has the same entry points, and the package registers its
//! functions once. The folder therefore contains the whole package: it precedes an installed one.
//!
//! ```text
//! margay/                            the package, with margay/jax and margay/torch
//! margay_run-VERSION.dist-info/      its metadata: METADATA, entry_points.txt
//! ```
//!
//! Invariant: a file is replaced atomically, because another `margay run` may read or write it.

use std::io;
use std::path::Path;

use super::folder::{self, own_folder};

macro_rules! package {
    ($($name:literal)*) => {
        /// The name and the text of each file of the package.
        const PACKAGE: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../python/margay/", $name)))),*];
    };
}

package! {
    "__init__.py"
    "_log.py"
    "_program.py"
    "jax/__init__.py"
    "jax/convolution.py"
    "jax/fallback.py"
    "jax/flags.py"
    "jax/toolkit.py"
    "pytest_plugin.py"
    "torch/__init__.py"
    "torch/assembler.py"
    "torch/attention.py"
    "torch/capture.py"
    "torch/cells.py"
    "torch/collectives.py"
    "torch/direct.py"
    "torch/formulas.py"
    "torch/generators.py"
    "torch/kernels.py"
    "torch/memory.py"
    "torch/named.py"
    "torch/normalisation.py"
    "torch/order.py"
    "torch/registration.py"
    "torch/signature.py"
    "torch/transfers.py"
    "torch/widening.py"
}

/// The entry points that PyTorch loads when it is imported, and JAX when it looks for its backends.
const ENTRY_POINTS: &str = "[torch.backends]\nmargay = margay.torch:autoload\n\n\
                            [jax_plugins]\nmargay = margay.jax\n";

/// The mode of the files.
const MODE: u32 = 0o600;

/// The folders in the package's folder.
const FOLDERS: [&str; 2] = ["jax", "torch"];

/// Writes the package and its metadata to the folder `at`, unless they are there.
pub(super) fn write(at: &Path, user: u32) -> io::Result<()> {
    own_folder(at, user)?;
    let package = at.join("margay");
    own_folder(&package, user)?;
    for name in FOLDERS {
        own_folder(&package.join(name), user)?;
    }
    for (name, text) in PACKAGE {
        folder::write(text, &package.join(name), MODE)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let metadata = at.join(format!("margay_run-{version}.dist-info"));
    own_folder(&metadata, user)?;
    folder::write(ENTRY_POINTS, &metadata.join("entry_points.txt"), MODE)?;
    let text = format!("Metadata-Version: 2.1\nName: margay-run\nVersion: {version}\n");
    folder::write(&text, &metadata.join("METADATA"), MODE)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::PACKAGE;

    /// Adds the names of all Python files below `folder` to `found`.
    fn walk(folder: &Path, above: &str, found: &mut Vec<String>) {
        for entry in folder.read_dir().unwrap().flatten() {
            let name = format!("{above}{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                walk(&entry.path(), &format!("{name}/"), found);
            } else if name.ends_with(".py") {
                found.push(name);
            }
        }
    }

    #[test]
    fn the_package_is_complete() {
        let mut found = Vec::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/margay");
        walk(&folder, "", &mut found);
        found.sort();
        let written: Vec<&str> = PACKAGE.iter().map(|(name, _)| *name).collect();
        assert_eq!(written, found);
    }
}
