//! Sorting of lines by CTA and warp with bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};

/// A line with its place in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record<'a> {
    /// The linear index of the CTA.
    pub(super) cta: u64,
    /// The warp.
    pub(super) warp: u32,
    /// Whether the line is one of the two of an asynchronous copy.
    pub(super) is_copy: bool,
    /// The line without prefix and newline.
    pub(super) text: &'a [u8],
}

/// The bytes of a record before its text in a run.
const FIXED: usize = 17;

impl Record<'_> {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.cta.to_le_bytes())?;
        out.write_all(&self.warp.to_le_bytes())?;
        out.write_all(&(self.text.len() as u32).to_le_bytes())?;
        out.write_all(&[u8::from(self.is_copy)])?;
        out.write_all(self.text)
    }
}

/// A record in memory, whose text lies in a common buffer.
struct Held {
    cta: u64,
    warp: u32,
    is_copy: bool,
    begin: usize,
    length: usize,
}

/// The number of runs that are merged at once.
const FAN_IN: usize = 64;

/// Lines that arrive in any order. Lines of one warp keep their order.
pub(super) struct Sorter {
    memory: usize,
    text: Vec<u8>,
    held: Vec<Held>,
    /// Sorted runs. Runs of a level are merges of [`FAN_IN`] runs of the previous one, and older than all runs of it.
    levels: Vec<Vec<File>>,
}

impl Sorter {
    /// Returns a sorter that uses about `memory` bytes.
    pub(super) fn new(memory: usize) -> Sorter {
        Sorter {
            memory,
            text: Vec::new(),
            held: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// Adds a line.
    pub(super) fn push(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.held.push(Held {
            cta: record.cta,
            warp: record.warp,
            is_copy: record.is_copy,
            begin: self.text.len(),
            length: record.text.len(),
        });
        self.text.extend_from_slice(record.text);
        // Growing vectors may reserve twice what they hold.
        let used = self.text.len() + self.held.len() * size_of::<Held>();
        match used > self.memory / 2 {
            true => self.spill(),
            false => Ok(()),
        }
    }

    /// Sorts the lines in memory and writes them to a run.
    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut run = BufWriter::new(tempfile::tempfile()?);
        for held in &self.held {
            held.record(&self.text).write(&mut run)?;
        }
        self.held.clear();
        self.text.clear();
        self.add_run(run.into_inner()?, 0)
    }

    fn sort(&mut self) {
        self.held.sort_by_key(|held| (held.cta, held.warp));
    }

    /// Adds a run to a level. Merges the level if it is full.
    fn add_run(&mut self, run: File, level: usize) -> io::Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        let runs = &mut self.levels[level];
        runs.push(run);
        if runs.len() < FAN_IN {
            return Ok(());
        }
        let mut merge = Merge::new(std::mem::take(runs), Vec::new(), Vec::new())?;
        let mut merged = BufWriter::new(tempfile::tempfile()?);
        while let Some(record) = merge.next()? {
            record.write(&mut merged)?;
        }
        drop(merge);
        self.add_run(merged.into_inner()?, level + 1)
    }

    /// Returns all lines in order.
    pub(super) fn finish(mut self) -> io::Result<Merge> {
        self.sort();
        let runs = self.levels.into_iter().rev().flatten().collect();
        Merge::new(runs, self.held, self.text)
    }
}

impl Held {
    fn record<'a>(&self, text: &'a [u8]) -> Record<'a> {
        Record {
            cta: self.cta,
            warp: self.warp,
            is_copy: self.is_copy,
            text: &text[self.begin..self.begin + self.length],
        }
    }
}

/// A run while it is read.
struct Run {
    source: BufReader<File>,
    fixed: [u8; FIXED],
    text: Vec<u8>,
}

impl Run {
    fn new(mut file: File) -> io::Result<Run> {
        file.rewind()?;
        Ok(Run {
            source: BufReader::with_capacity(32 * 1024, file),
            fixed: [0; FIXED],
            text: Vec::new(),
        })
    }

    /// Reads the next record. Returns its place in the order, or none at the end.
    fn advance(&mut self) -> io::Result<Option<(u64, u32)>> {
        match self.source.read_exact(&mut self.fixed) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let record = self.record();
        let key = (record.cta, record.warp);
        let length = u32::from_le_bytes(self.part(12));
        self.text.resize(length as usize, 0);
        self.source.read_exact(&mut self.text)?;
        Ok(Some(key))
    }

    fn record(&self) -> Record<'_> {
        Record {
            cta: u64::from_le_bytes(self.part(0)),
            warp: u32::from_le_bytes(self.part(8)),
            is_copy: self.fixed[16] != 0,
            text: &self.text,
        }
    }

    fn part<const SIZE: usize>(&self, begin: usize) -> [u8; SIZE] {
        let mut part = [0; SIZE];
        part.copy_from_slice(&self.fixed[begin..begin + SIZE]);
        part
    }
}

/// All lines in order: runs from the oldest to the newest, then the lines in memory.
pub(super) struct Merge {
    runs: Vec<Run>,
    held: Vec<Held>,
    text: Vec<u8>,
    /// The number of lines in memory that were returned.
    returned: usize,
    /// The next record of each source. Of equal ones, the oldest source comes first.
    next: BinaryHeap<Reverse<(u64, u32, usize)>>,
    /// The source whose record was returned last.
    last: Option<usize>,
}

impl Merge {
    fn new(files: Vec<File>, held: Vec<Held>, text: Vec<u8>) -> io::Result<Merge> {
        let runs: io::Result<Vec<Run>> = files.into_iter().map(Run::new).collect();
        let mut merge = Merge {
            runs: runs?,
            held,
            text,
            returned: 0,
            next: BinaryHeap::new(),
            last: None,
        };
        for source in 0..=merge.runs.len() {
            merge.advance(source)?;
        }
        merge.returned = 0;
        Ok(merge)
    }

    /// Makes the next record of a source available.
    fn advance(&mut self, source: usize) -> io::Result<()> {
        let key = match self.runs.get_mut(source) {
            Some(run) => run.advance()?,
            None => {
                self.returned += usize::from(self.last == Some(source));
                let held = self.held.get(self.returned);
                held.map(|held| (held.cta, held.warp))
            }
        };
        if let Some((cta, warp)) = key {
            self.next.push(Reverse((cta, warp, source)));
        }
        Ok(())
    }

    /// Returns the next line.
    pub(super) fn next(&mut self) -> io::Result<Option<Record<'_>>> {
        if let Some(source) = self.last {
            self.advance(source)?;
        }
        let Some(Reverse((_, _, source))) = self.next.pop() else {
            self.last = None;
            return Ok(None);
        };
        self.last = Some(source);
        Ok(Some(match self.runs.get(source) {
            Some(run) => run.record(),
            None => self.held[self.returned].record(&self.text),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorts `count` records with little memory and compares them with a stable sort.
    fn check(count: u64, memory: usize) -> usize {
        let key = |number: u64| (number * 7919 % 13, (number * 104_729 % 3) as u32);
        let mut sorter = Sorter::new(memory);
        let mut expected = Vec::new();
        for number in 0..count {
            let (cta, warp) = key(number);
            let text = format!("line {number}");
            sorter
                .push(&Record {
                    cta,
                    warp,
                    is_copy: number % 5 == 0,
                    text: text.as_bytes(),
                })
                .unwrap();
            expected.push((cta, warp, number));
        }
        expected.sort_by_key(|&(cta, warp, _)| (cta, warp));
        let levels = sorter.levels.len();
        let mut merge = sorter.finish().unwrap();
        for (cta, warp, number) in expected {
            let text = format!("line {number}");
            let record = Record {
                cta,
                warp,
                is_copy: number % 5 == 0,
                text: text.as_bytes(),
            };
            assert_eq!(merge.next().unwrap(), Some(record));
        }
        assert_eq!(merge.next().unwrap(), None);
        levels
    }

    #[test]
    fn lines_are_sorted_and_keep_their_order_in_a_warp() {
        assert_eq!(check(0, 1024), 0);
        assert_eq!(check(1000, 1 << 20), 0);
        assert_eq!(check(1000, 4096), 1);
        // More than 64 runs of one line each.
        assert_eq!(check(200, 0), 2);
        assert_eq!(check(64 * 64 + 3, 0), 3);
    }
}
