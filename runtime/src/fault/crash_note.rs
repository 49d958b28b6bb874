//! Writes a note when a fault outside device code ends the process: which library or program faulted.
//!
//! A client's library can divide by zero or use a wrong pointer, for example because a call of the driver returned an
//! unexpected value. The shell then prints only the signal's name. The note also names the file that contains the
//! instruction. If the address of the instruction is in no file, as after a call of a null pointer, the note names the
//! file that contains the return address.
//!
//! Invariant: [`write()`] only makes system calls that signal handlers may make. It takes no lock and allocates no memory,
//! so the list of libraries is read from the operating system, not from the dynamic linker.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use super::arch::Context;

/// Whether a note may be written: set when the handlers are installed, cleared by the first note.
static MAY_WRITE: AtomicBool = AtomicBool::new(false);

/// Lets [`write()`] write one note, unless `MARGAY_QUIET` is set.
pub(super) fn enable() {
    let may_write = std::env::var_os("MARGAY_QUIET").is_none();
    MAY_WRITE.store(may_write, Ordering::Relaxed);
}

/// Writes the note for the fault `signal` to standard error.
///
/// # Safety
/// Must be called from a signal handler for a fault, with the context pointer of that handler.
pub(super) unsafe fn write(signal: i32, context: *mut c_void) {
    if !MAY_WRITE.swap(false, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the caller passes the context of the running handler.
    let context = unsafe { Context::new(context) };
    let pc = context.pc();
    let (mut line, mut place) = (Line::new(), Place::default());
    line.text(b"margay: ");
    line.text(name(signal));
    if find(pc, &mut place) {
        line.text(b" in ");
    } else {
        line.text(b" at the address 0x");
        line.hexadecimal(pc);
        line.text(b", which is in no file");
        let caller = context.return_address();
        if caller.is_some_and(|caller| find(caller.wrapping_sub(1), &mut place)) {
            line.text(b"; called from ");
        }
    }
    if let Some(file) = place.file() {
        line.text(file);
        line.text(b" (offset 0x");
        line.hexadecimal(place.offset);
        line.text(b")");
    }
    line.text(b" ends the process; the fault is in code of the CPU, not in a kernel\n");
    line.flush();
}

fn name(signal: i32) -> &'static [u8] {
    match signal {
        libc::SIGSEGV => b"SIGSEGV (wrong memory access)",
        libc::SIGBUS => b"SIGBUS (wrong memory access)",
        libc::SIGFPE => b"SIGFPE (integer division by zero or overflow)",
        _ => b"SIGILL (illegal instruction)",
    }
}

/// A line of text that is written with one system call. Text beyond its capacity is dropped.
struct Line {
    bytes: [u8; Line::CAPACITY],
    len: usize,
}

impl Line {
    const CAPACITY: usize = 512;

    fn new() -> Line {
        Line {
            bytes: [0; Line::CAPACITY],
            len: 0,
        }
    }

    fn text(&mut self, text: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(self.len).zip(text) {
            *to = *from;
            self.len += 1;
        }
    }

    fn hexadecimal(&mut self, number: u64) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let value = (number >> (4 * digit)) & 15;
            self.text(&[DIGITS[value as usize]]);
        }
    }

    fn flush(&self) {
        let len = self.len.min(Line::CAPACITY);
        // SAFETY: the first `len` bytes of the array are initialised and stay valid during the call.
        unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), len) };
    }
}

/// A place in a file that is mapped into memory.
struct Place {
    path: [u8; Place::CAPACITY],
    len: usize,
    /// Position in the file.
    offset: u64,
}

impl Default for Place {
    fn default() -> Place {
        Place {
            path: [0; Place::CAPACITY],
            len: 0,
            offset: 0,
        }
    }
}

impl Place {
    /// Longer paths are cut; the file's name is at their end, so the end is kept.
    const CAPACITY: usize = 256;

    /// Returns the path of the file; `None` if the memory belongs to no file.
    fn file(&self) -> Option<&[u8]> {
        let path = self.path.get(..self.len)?;
        path.starts_with(b"/").then_some(path)
    }

    fn push(&mut self, byte: u8) {
        if self.len == Place::CAPACITY {
            // The first byte stays a slash, which shows that the place is in a file.
            self.path.copy_within(2.., 1);
            self.len -= 1;
        }
        self.path[self.len] = byte;
        self.len += 1;
    }
}

/// Finds the file that contains the address `pc`. Returns false if no file contains it.
fn find(pc: u64, place: &mut Place) -> bool {
    // SAFETY: the path is a C string.
    let file = unsafe {
        libc::open(
            c"/proc/self/maps".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if file < 0 {
        return false;
    }
    let mut bytes = [0; 512];
    let (mut at, mut len) = (0, 0);
    let next = || {
        if at == len {
            // SAFETY: the array is valid for writes of its length.
            let read = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) };
            (at, len) = (0, usize::try_from(read).unwrap_or(0));
        }
        let byte = bytes[..len].get(at).copied();
        at += usize::from(byte.is_some());
        byte
    };
    let found = find_in(next, pc, place);
    // SAFETY: this function has opened the file.
    unsafe { libc::close(file) };
    found
}

/// Finds the file that contains the address `pc` in the text of `/proc/self/maps`, whose bytes `next` returns.
fn find_in(mut next: impl FnMut() -> Option<u8>, pc: u64, place: &mut Place) -> bool {
    loop {
        let Some(start) = number(&mut next, b'-') else {
            return false;
        };
        let mut word = || number(&mut next, b' ');
        let (Some(end), Some(_protection), Some(offset), Some(_device), Some(_file)) =
            (word(), word(), word(), word(), word())
        else {
            return false;
        };
        place.len = 0;
        loop {
            match next() {
                None | Some(b'\n') => break,
                Some(b' ') if place.len == 0 => {}
                Some(byte) => place.push(byte),
            }
        }
        if (start..end).contains(&pc) {
            place.offset = (pc - start).wrapping_add(offset);
            return place.file().is_some();
        }
    }
}

/// Reads a word up to the byte `end` and returns its hexadecimal digits as a number; `None` at the end of the text. (The
/// words for the protection and the device are read as numbers whose value is not used.)
fn number(next: &mut impl FnMut() -> Option<u8>, end: u8) -> Option<u64> {
    let mut value = 0;
    loop {
        let byte = next()?;
        if byte == end {
            return Some(value);
        }
        if let Some(digit) = char::from(byte).to_digit(16) {
            value = value << 4 | u64::from(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00452000 r-xp 00001000 08:02 173521 /usr/bin/program with space
7f0000000000-7f0000001000 ---p 00000000 00:00 0 
7f0000002000-7f0000003000 r-xp 00020000 08:02 99       /opt/lib/libcublas.so.12
7fff0000f000-7fff00010000 rw-p 00000000 00:00 0                          [stack]
";

    fn found(pc: u64) -> Option<(String, u64)> {
        let mut bytes = MAPS.bytes();
        let mut place = Place::default();
        let file = find_in(|| bytes.next(), pc, &mut place);
        let path = place
            .file()
            .map(|path| String::from_utf8_lossy(path).into_owned());
        file.then(|| (path.expect("a file"), place.offset))
    }

    #[test]
    fn the_file_of_an_address_is_found() {
        let program = "/usr/bin/program with space".to_owned();
        assert_eq!(found(0x40_0000), Some((program.clone(), 0x1000)));
        assert_eq!(found(0x45_1fff), Some((program, 0x5_2fff)));
        let library = "/opt/lib/libcublas.so.12".to_owned();
        assert_eq!(found(0x7f00_0000_2010), Some((library, 0x2_0010)));
        for nowhere in [0, 0x45_2000, 0x7f00_0000_0000, 0x7fff_0000_f000, u64::MAX] {
            assert_eq!(found(nowhere), None, "{nowhere:#x}");
        }
    }

    #[test]
    fn an_address_of_this_program_is_in_its_file() {
        let mut place = Place::default();
        let here = an_address_of_this_program_is_in_its_file as fn() as usize as u64;
        assert!(find(here, &mut place));
        let own = std::env::current_exe().expect("a path");
        assert_eq!(place.file(), Some(own.as_os_str().as_encoded_bytes()));
        assert!(!find(8, &mut Place::default()));
    }

    #[test]
    fn the_end_of_a_long_path_is_kept() {
        let mut place = Place::default();
        let long = format!("/{}/libnvrtc.so", "folder/".repeat(100));
        long.bytes().for_each(|byte| place.push(byte));
        let path = place.file().expect("a file");
        assert_eq!(path.len(), Place::CAPACITY);
        assert!(path.ends_with(b"folder//libnvrtc.so"));
    }

    #[test]
    fn numbers_are_written_in_hexadecimal() {
        let text = |number| {
            let mut line = Line::new();
            line.hexadecimal(number);
            String::from_utf8_lossy(&line.bytes[..line.len]).into_owned()
        };
        assert_eq!(text(0), "0");
        assert_eq!(text(0x1f0), "1f0");
        assert_eq!(text(u64::MAX), "ffffffffffffffff");
    }
}
