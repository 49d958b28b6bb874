//! The order of launches: kernels of a stream run one after the other, kernels of different streams overlap.

use std::collections::VecDeque;

use margay_accelsim::{Command, CommandList, GroupedReader, ReadOptions};

use crate::config::Config;
use crate::error::Error;
use crate::options::Options;

/// The number of kernels that are looked at to find one whose stream is idle.
const LOOK_AHEAD: usize = 64;

/// What begins.
pub(crate) enum Launch {
    /// A copy to device memory.
    Copy { address: u64, bytes: u64 },
    /// A kernel.
    Kernel {
        /// The name of its file in the list.
        file: String,
        reader: Box<GroupedReader>,
    },
}

/// The commands of a list that have not begun.
pub(crate) struct Streams {
    list: CommandList,
    /// The next command of the list.
    next: usize,
    /// Kernels that wait for their streams, in the order of the list.
    waiting: VecDeque<(String, GroupedReader)>,
    read: ReadOptions,
    max_running: usize,
    look_ahead: usize,
}

impl Streams {
    pub(crate) fn new(list: CommandList, config: &Config, options: &Options<'_>) -> Streams {
        let max_running = config.launch.max_kernels as usize;
        Streams {
            list,
            next: 0,
            waiting: VecDeque::new(),
            read: options.read.clone(),
            max_running: if options.overlap_streams {
                max_running
            } else {
                1
            },
            look_ahead: if options.overlap_streams {
                LOOK_AHEAD
            } else {
                1
            },
        }
    }

    /// Returns what can begin while kernels of these streams run. A copy begins when the list has been read up to it, which
    /// is no later than the launch of the kernel behind it.
    pub(crate) fn next(&mut self, running: &[u64]) -> Result<Option<Launch>, Error> {
        loop {
            if let Some(launch) = self.waiting_kernel(running) {
                return Ok(Some(launch));
            }
            if self.waiting.len() >= self.look_ahead
                || !self.waiting.is_empty() && running.is_empty()
            {
                return Ok(None);
            }
            let Some((_, command)) = self.list.commands.get(self.next) else {
                return Ok(None);
            };
            self.next += 1;
            match command {
                Command::MemcpyHtoD { address, bytes } => {
                    return Ok(Some(Launch::Copy {
                        address: *address,
                        bytes: *bytes,
                    }));
                }
                Command::Kernel(name) => {
                    let path = self.list.resolve(name);
                    let reader = GroupedReader::open(&path, &self.read)?;
                    self.waiting.push_back((name.clone(), reader));
                }
                Command::Other(_) => {}
            }
        }
    }

    /// Returns the first waiting kernel whose stream is idle and has no earlier kernel.
    fn waiting_kernel(&mut self, running: &[u64]) -> Option<Launch> {
        if running.len() >= self.max_running {
            return None;
        }
        let stream = |index: usize| self.waiting[index].1.header().stream;
        let can_begin = |index: &usize| {
            let own = stream(*index);
            !running.contains(&own) && (0..*index).all(|earlier| stream(earlier) != own)
        };
        let index = (0..self.waiting.len()).find(can_begin)?;
        let (file, reader) = self.waiting.remove(index)?;
        Some(Launch::Kernel {
            file,
            reader: Box::new(reader),
        })
    }
}
