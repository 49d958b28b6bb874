//! Executable memory: whole pages for each function. The pages are never writable and executable at the same time.
//!
//! The pages are unmapped when the last owner of the kernel is dropped. The memory providers of cranelift-jit pack
//! functions into shared pages instead: the code of unloaded modules would stay in memory, and a page with running code
//! would become writable again when another function is added.

use memmap2::{Mmap, MmapMut};

/// Returns the effective user of this process. The process may execute code from files of this user. Returns `None` if
/// the process has more rights than the user who started it (set-user-ID, set-group-ID or file capabilities): the
/// environment variables, which can name the cache folder, then come from a less privileged user.
pub(crate) fn trusted_user() -> Option<u32> {
    // SAFETY: getauxval has no preconditions.
    let raised = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    (!raised).then_some(user)
}

/// Native code of one function.
#[derive(Debug)]
pub struct CodeMemory {
    pages: Mmap,
    code_len: usize,
}

impl CodeMemory {
    /// Copies code into new pages and makes them executable.
    ///
    /// # Errors
    /// Returns an error if the operating system does not provide executable memory.
    pub fn new(code: &[u8]) -> std::io::Result<CodeMemory> {
        let mut pages = MmapMut::map_anon(code.len().max(1))?;
        pages[..code.len()].copy_from_slice(code);
        Ok(CodeMemory {
            pages: pages.make_exec()?,
            code_len: code.len(),
        })
    }

    /// Returns the address of the first byte of the code.
    pub fn start(&self) -> *const u8 {
        self.pages.as_ptr()
    }

    /// Returns the code bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.pages[..self.code_len]
    }
}
