//! Kernels in the disk cache in the form in which [`CompiledKernel`] needs them: lowered and prepared by an earlier
//! process. A process that finds such an entry neither parses nor lowers nor analyses the kernel.
//!
//! The key of an entry is a digest of the complete PTX text and of the sources of everything that reads it
//! (`build.rs`). Lowering and preparation depend on nothing else: entries exist only for kernels without checks and
//! tools.

use margay_ir::entity::FuncId;
use margay_ir::function::Function;
use serde::{Deserialize, Serialize};

use crate::cache::{Digest, DiskCache, digest_of};
use crate::compiler::CompiledKernel;
use crate::prepared::PreparedFunction;

/// A kernel in the disk cache.
#[derive(Serialize, Deserialize)]
pub struct StoredKernel {
    /// The functions that the kernel can reach, lowered, with their IDs in the module.
    pub bodies: Vec<(FuncId, Function)>,
    /// The kernel and the functions that it still calls after inlining, prepared.
    pub prepared: Vec<(FuncId, PreparedFunction)>,
}

/// Identifies a PTX text in the disk cache.
#[derive(Clone, Copy, Debug)]
pub struct TextKey(Digest);

impl TextKey {
    /// Computes the key of a text. `defines_externals` states whether the module defines the external variables of the
    /// text itself.
    pub fn new(text: &str, defines_externals: bool) -> TextKey {
        TextKey(digest_of(&(text, defines_externals)))
    }

    /// Returns the digest that identifies the code of the function `id` of the text, as it is prepared for `kernel`. It
    /// replaces the digest of the prepared function ([`CompiledKernel::identified`]).
    pub fn function(&self, kernel: FuncId, id: FuncId) -> [u8; 32] {
        digest_of(&("function", self.0, kernel, id))
    }

    fn kernel(&self, kernel: FuncId) -> Digest {
        digest_of(&("kernel", self.0, kernel))
    }
}

impl DiskCache {
    /// Reads a kernel of a text. Returns `None` if the cache does not contain the kernel.
    pub fn kernel(&self, text: &TextKey, kernel: FuncId) -> Option<StoredKernel> {
        let decode = |bytes: &[u8]| postcard::from_bytes(bytes).ok();
        self.read_data(&text.kernel(kernel), decode)
    }

    /// Stores a kernel of a text: the lowered functions that it can reach, and the prepared functions.
    pub fn store_kernel(
        &self,
        text: &TextKey,
        kernel: FuncId,
        bodies: &[(FuncId, &Function)],
        prepared: &[(FuncId, &CompiledKernel)],
    ) {
        // The fields of `StoredKernel` and `PreparedFunction`, in their order, by reference.
        let prepared: Vec<_> = prepared
            .iter()
            .map(|(id, kernel)| (id, kernel.prepared()))
            .collect();
        if let Ok(bytes) = postcard::to_stdvec(&(bodies, prepared)) {
            self.write_data(&text.kernel(kernel), &bytes);
        }
    }
}
