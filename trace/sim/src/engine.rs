//! The simulation: launches kernels in the order of their list, places their CTAs, and lets the cores act until all ended.

use std::path::Path;

use margay_accelsim::{CommandList, GroupedReader, Header};

use crate::config::Config;
use crate::core::{Core, Ended};
use crate::counters::Counters;
use crate::cycle::{Cycle, NEVER};
use crate::error::Error;
use crate::feed::{Feed, too_large};
use crate::kernel::Kernel;
use crate::load_store::ways;
use crate::local::LocalMemory;
use crate::memory::MemorySystem;
use crate::occupancy::{Occupancy, Resources};
use crate::options::{Options, Progress};
use crate::report::{KernelReport, NOTE, Report, Totals};
use crate::streams::{Launch, Streams};

/// A simulation.
pub(crate) struct Engine<'a> {
    config: &'a Config,
    options: Options<'a>,
    streams: Streams,
    cores: Vec<Core>,
    memory: MemorySystem,
    kernels: Vec<Option<Kernel>>,
    /// The kernels that run, in the order of their launches.
    running: Vec<usize>,
    now: Cycle,
    /// When CTAs may be placed next.
    dispatch: Cycle,
    /// The core that got a CTA last.
    last_core: usize,
    launches: u64,
    resident_bytes: u64,
    totals: Totals,
    reports: Vec<KernelReport>,
}

impl<'a> Engine<'a> {
    /// Reads a list.
    pub(crate) fn new(
        list: &Path,
        config: &'a Config,
        options: Options<'a>,
    ) -> Result<Engine<'a>, Error> {
        let list = CommandList::read(list)?;
        let arrive = !options.strict_barriers;
        Ok(Engine {
            streams: Streams::new(list, config, &options),
            cores: (0..config.cores())
                .map(|_| Core::new(config, arrive))
                .collect(),
            memory: MemorySystem::new(config),
            kernels: Vec::new(),
            running: Vec::new(),
            now: 0,
            dispatch: NEVER,
            last_core: 0,
            launches: 0,
            resident_bytes: 0,
            totals: Totals::default(),
            reports: Vec::new(),
            config,
            options,
        })
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Result<Report, Error> {
        let mut ended = Vec::new();
        self.launch()?;
        while !self.running.is_empty() {
            let next = self.cores.iter().map(|core| core.next).min();
            let next = next.unwrap_or(NEVER).min(self.dispatch);
            if next == NEVER {
                return Err(self.deadlock());
            }
            self.now = next;
            if self.dispatch <= next {
                self.place()?;
            }
            for core in &mut self.cores {
                if core.next <= next {
                    core.step(next, &mut self.memory, &mut self.kernels, &mut ended);
                }
            }
            if !ended.is_empty() {
                self.end(&mut ended)?;
            }
        }
        Ok(Report {
            note: NOTE,
            config: self.config.clone(),
            totals: self.totals,
            kernels: self.reports,
        })
    }

    /// Executes the commands that can begin now.
    fn launch(&mut self) -> Result<(), Error> {
        loop {
            let running = self.running.iter().filter_map(|&index| {
                let kernel = self.kernels[index].as_ref()?;
                Some(kernel.header.stream)
            });
            let running: Vec<u64> = running.collect();
            match self.streams.next(&running)? {
                None => return Ok(()),
                Some(Launch::Copy { address, bytes }) => {
                    self.totals.copies += 1;
                    self.totals.copied_bytes += bytes;
                    if self.config.copies_fill_l2 {
                        self.memory.fill(self.copied(address), bytes, self.now);
                    }
                }
                Some(Launch::Kernel { file, reader }) => self.launch_kernel(file, *reader)?,
            }
        }
    }

    /// Returns the address that a copy fills. The simulator keeps 32 bits of it, so that a copy to memory above 4 GiB does
    /// not help the kernels that read it.
    fn copied(&self, address: u64) -> u64 {
        match self.options.whole_copy_addresses {
            true => address,
            false => address & u64::from(u32::MAX),
        }
    }

    fn launch_kernel(&mut self, file: String, reader: GroupedReader) -> Result<(), Error> {
        let header = reader.header().clone();
        let occupancy = Occupancy::of(&header, self.config)?;
        let latency = self.config.launch.cta_latency.saturating_mul(header.ctas());
        let start = self.now + self.config.launch.kernel_latency + 1;
        let start = start.saturating_add(latency);
        self.launches += 1;
        let kernel = Kernel {
            uid: self.launches,
            file,
            occupancy,
            resources: Resources::of(&header),
            l1_ways: ways(
                &self.config.l1,
                shared_bytes(&header, occupancy, self.config),
            ),
            feed: Feed::start(reader, self.config, self.options.max_resident_bytes)?,
            templates: Vec::new(),
            launched: self.now,
            start,
            placed: 0,
            counters: Counters::default(),
            header,
        };
        self.dispatch = self.dispatch.min(start);
        let free = self.kernels.iter().position(Option::is_none);
        let index = free.unwrap_or(self.kernels.len());
        if index == self.kernels.len() {
            self.kernels.push(None);
        }
        self.kernels[index] = Some(kernel);
        self.running.push(index);
        Ok(())
    }

    /// Places at most one CTA in each core.
    fn place(&mut self) -> Result<(), Error> {
        let count = self.cores.len();
        let first = self.last_core + 1;
        let mut has_placed = false;
        for index in (first..first + count).map(|index| index % count) {
            if self.place_in(index)? {
                self.last_core = index;
                has_placed = true;
            }
        }
        self.dispatch = match has_placed {
            true => self.now + 1,
            false => self.next_start(),
        };
        Ok(())
    }

    /// Returns when the next kernel can place its first CTA.
    fn next_start(&self) -> Cycle {
        let kernels = self.kernels.iter().flatten();
        let starts = kernels.map(|kernel| kernel.start);
        starts
            .filter(|start| *start > self.now)
            .min()
            .unwrap_or(NEVER)
    }

    /// Places a CTA of the first kernel that fits in a core. Returns whether there is one.
    fn place_in(&mut self, index: usize) -> Result<bool, Error> {
        let core = &mut self.cores[index];
        for &number in &self.running {
            let Some(kernel) = &mut self.kernels[number] else {
                continue;
            };
            let is_ready = kernel.has_ctas() && kernel.start <= self.now;
            if !is_ready || !core.has_room(number, &kernel.resources) {
                continue;
            }
            let mut program = kernel.next_cta()?;
            kernel.templates.append(&mut program.templates);
            self.resident_bytes += program.bytes();
            if self.resident_bytes > self.options.max_resident_bytes {
                return Err(too_large(&kernel.header, self.options.max_resident_bytes));
            }
            if core.last_kernel != kernel.uid {
                core.last_kernel = kernel.uid;
                let threads = u64::from(kernel.header.warps()) * 32;
                let ctas = kernel.occupancy.ctas;
                core.set_local(LocalMemory::new(self.config, index, threads, ctas));
                if self.config.l1.flush {
                    core.flush(kernel.l1_ways);
                }
            }
            let resources = kernel.resources;
            core.place(self.now, number, program, resources, &kernel.templates);
            return Ok(true);
        }
        Ok(false)
    }

    /// Notes the ends of CTAs.
    fn end(&mut self, ended: &mut Vec<Ended>) -> Result<(), Error> {
        self.dispatch = self.dispatch.min(self.now + 1);
        let mut has_kernel_ended = false;
        for Ended { kernel, bytes } in ended.drain(..) {
            self.resident_bytes -= bytes;
            let Some(running) = &mut self.kernels[kernel] else {
                continue;
            };
            running.counters.ctas += 1;
            if running.has_ended() {
                has_kernel_ended = true;
                self.end_kernel(kernel)?;
            }
        }
        match has_kernel_ended {
            true => self.launch(),
            false => Ok(()),
        }
    }

    fn end_kernel(&mut self, index: usize) -> Result<(), Error> {
        self.running.retain(|running| *running != index);
        let Some(mut kernel) = self.kernels[index].take() else {
            return Ok(());
        };
        kernel.check_end()?;
        self.totals.counters.add(&kernel.counters);
        self.totals.cycles = self.now;
        let report = kernel.report(self.now, &self.totals);
        (self.options.progress)(&Progress::KernelEnded(&report))?;
        self.reports.push(report);
        Ok(())
    }

    fn deadlock(&self) -> Error {
        let stuck = self.cores.iter().find_map(|core| core.stuck(&self.kernels));
        if let Some(deadlock) = stuck {
            return Error::Deadlock(Box::new(deadlock));
        }
        let header = self
            .kernels
            .iter()
            .flatten()
            .next()
            .map(|kernel| &kernel.header);
        Error::Stalled {
            kernel: header.map_or(0, |header| header.kernel_id),
            name: header.map_or_else(String::new, |header| header.kernel_name.clone()),
        }
    }
}

/// Returns the shared memory of the CTAs that a core holds at most. If the grid is small, it holds fewer.
fn shared_bytes(header: &Header, occupancy: Occupancy, config: &Config) -> u64 {
    let per_core = header.ctas().div_ceil(u64::from(config.cores()));
    header.shared_bytes * occupancy.ctas.min(per_core)
}
