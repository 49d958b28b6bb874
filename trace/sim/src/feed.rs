//! Reads and encodes the CTAs of a kernel in a thread of its own, a few CTAs ahead of the simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use margay_accelsim::{Dim3, GroupedReader, Header, Item};

use crate::config::Config;
use crate::encode::{Encoder, TooMany};
use crate::error::Error;
use crate::program::CtaProgram;

/// The number of CTAs that wait at most.
const AHEAD: usize = 4;

/// The CTAs of a kernel in the order of its file.
pub(crate) struct Feed {
    receiver: Receiver<Result<CtaProgram, Error>>,
    is_stopped: Arc<AtomicBool>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

impl Feed {
    /// Starts to read the CTAs of a file. `limit` is that on the bytes of a CTA.
    pub(crate) fn start(reader: GroupedReader, config: &Config, limit: u64) -> Result<Feed, Error> {
        let (sender, receiver) = sync_channel(AHEAD);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let mut source = Source {
            encoder: Encoder::new(reader.header(), config),
            limit,
            is_stopped: is_stopped.clone(),
            reader,
        };
        let thread = thread::Builder::new().name("margay-sim-feed".to_owned());
        thread
            .spawn(move || source.run(&sender))
            .map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Feed {
            receiver,
            is_stopped,
        })
    }

    /// Returns the next CTA, or none at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<CtaProgram>, Error> {
        self.receiver.recv().ok().transpose()
    }
}

/// The side of the thread.
struct Source {
    reader: GroupedReader,
    encoder: Encoder,
    limit: u64,
    is_stopped: Arc<AtomicBool>,
}

impl Source {
    /// Sends all CTAs, or the first error.
    fn run(&mut self, sender: &SyncSender<Result<CtaProgram, Error>>) {
        while let Some(message) = self.next().transpose() {
            let is_error = message.is_err();
            if sender.send(message).is_err() || is_error {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Option<CtaProgram>, Error> {
        let mut program: Option<CtaProgram> = None;
        let mut warp = 0;
        while let Some(item) = self.reader.next_item()? {
            if self.is_stopped.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match (item, &mut program) {
                (Item::Cta { cta, .. }, _) => program = Some(self.begin(cta)),
                (Item::Warp { warp: next, .. }, Some(program)) => {
                    warp = next as usize;
                    let start = program.records.len();
                    program.warps[warp] = start..start;
                }
                (Item::Instruction(instruction), Some(program)) => {
                    let pushed = self.encoder.push(program, &instruction);
                    pushed.map_err(|TooMany| too_large(self.reader.header(), self.limit))?;
                    program.warps[warp].end = program.records.len();
                    // A multiple of the check costs less than each.
                    if program.records.len() % 1024 == 0 && program.bytes() > self.limit {
                        return Err(too_large(self.reader.header(), self.limit));
                    }
                }
                (Item::EndCta, Some(_)) => break,
                (_, None) => {}
            }
        }
        Ok(program)
    }

    fn begin(&self, cta: Dim3) -> CtaProgram {
        CtaProgram {
            cta,
            warps: vec![0..0; self.reader.header().warps() as usize],
            records: Vec::new(),
            lines: Vec::new(),
            templates: Vec::new(),
        }
    }
}

pub(crate) fn too_large(header: &Header, limit: u64) -> Error {
    Error::TooLarge {
        kernel: header.kernel_id,
        name: header.kernel_name.clone(),
        limit,
    }
}
