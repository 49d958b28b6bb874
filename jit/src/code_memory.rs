//! Executable memory: whole pages per function, never writable and executable at once.

use std::ptr::NonNull;

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
    start: NonNull<u8>,
    len: usize,
    code_len: usize,
}

// SAFETY: the pages are read-only after construction and unmapped once, on drop.
unsafe impl Send for CodeMemory {}
// SAFETY: as above; sharing only reads.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Copies code into fresh pages and makes them executable.
    pub fn new(code: &[u8]) -> std::io::Result<CodeMemory> {
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
        let len = code.len().max(1).next_multiple_of(page);
        // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let start = (start != libc::MAP_FAILED)
            .then(|| NonNull::new(start.cast::<u8>()))
            .flatten()
            .ok_or_else(std::io::Error::last_os_error)?;
        let memory = CodeMemory {
            start,
            len,
            code_len: code.len(),
        };
        // SAFETY: the mapping is writable, at least `code.len()` bytes long, and new.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), start.as_ptr(), code.len()) };
        // SAFETY: the range is exactly the mapping made above.
        let sealed = unsafe {
            libc::mprotect(
                start.as_ptr().cast(),
                len,
                libc::PROT_READ | libc::PROT_EXEC,
            )
        };
        if sealed == 0 {
            Ok(memory)
        } else {
            Err(std::io::Error::last_os_error())
        }
    }

    /// First byte of the code.
    pub fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no code; never true.
    pub fn is_empty(&self) -> bool {
        self.code_len == 0
    }

    /// The code bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable for its life and at least `code_len` bytes long.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.code_len) }
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the mapping that `new` made; nobody runs it any more, since
        // whoever runs code holds the kernel that owns it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
