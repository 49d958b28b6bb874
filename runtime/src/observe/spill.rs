//! A temporary file for records that do not fit into memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use parking_lot::Mutex;

/// The location of a sequence of words in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spilled {
    /// Offset in bytes.
    at: u64,
    /// Number of words.
    pub(super) words: usize,
}

/// A file without a name. The file is created when it is first needed, and the system deletes it when it is closed.
#[derive(Default)]
pub(super) struct SpillFile(Mutex<Option<(File, u64)>>);

impl SpillFile {
    /// Appends words.
    pub(super) fn write(&self, words: &[u64]) -> io::Result<Spilled> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(8 * words.len())
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let mut file = self.0.lock();
        let (file, end) = match &mut *file {
            Some(file) => file,
            none => none.insert((unnamed()?, 0)),
        };
        file.write_all_at(&bytes, *end)?;
        let at = std::mem::replace(end, *end + bytes.len() as u64);
        Ok(Spilled {
            at,
            words: words.len(),
        })
    }

    /// Reads the words at the location `what`, which were written before.
    pub(super) fn read(&self, what: Spilled) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; 8 * what.words];
        match &*self.0.lock() {
            Some((file, _)) => file.read_exact_at(&mut bytes, what.at)?,
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        let words = bytes.as_chunks::<8>().0;
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}

/// Creates a temporary file and removes its name from its folder.
fn unnamed() -> io::Result<File> {
    let number = crate::process::next_id();
    let name = format!("margay-records-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spilled_words_come_back() {
        let file = SpillFile::default();
        let first = file.write(&[1, u64::MAX]).unwrap();
        let second = file.write(&[3]).unwrap();
        assert_eq!(file.read(second).unwrap(), [3]);
        assert_eq!(file.read(first).unwrap(), [1, u64::MAX]);
    }
}
