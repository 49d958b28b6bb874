//! Executable memory: whole pages per function, never writable and executable at once.

use memmap2::{Mmap, MmapMut};

/// The user whose files may be run as code: the one who started this process. `None` where the process was given
/// another user's rights, so that its environment comes from somebody who lacks them.
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
    /// Copies code into fresh pages and makes them executable.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn new(code: &[u8]) -> std::io::Result<CodeMemory> {
        let mut pages = MmapMut::map_anon(code.len().max(1))?;
        pages[..code.len()].copy_from_slice(code);
        Ok(CodeMemory {
            pages: pages.make_exec()?,
            code_len: code.len(),
        })
    }

    /// First byte of the code.
    pub fn start(&self) -> *const u8 {
        self.pages.as_ptr()
    }

    /// The code bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.pages[..self.code_len]
    }
}
