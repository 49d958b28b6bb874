//! A channel of device memory.
//!
//! The controller of a channel reorders its queue so that accesses to open rows come first. The model does not hold the
//! accesses of the queue: an access reserves the data bus and its bank when it is issued. If an earlier access to the same
//! row is still in the queue when it arrives, it counts as one that the controller moves ahead.

use crate::config::Config;
use crate::cycle::{Cycle, Window};

/// The times of the channel are in 1/256 cycles of a core.
const FRACTION: u32 = 8;

/// The number of rows of a bank whose accesses the controller groups.
const ROWS: usize = 4;

/// Times in fractions of a cycle of a core.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    column: u64,
    column_in_bank: u64,
    row_cycle: u64,
    row_to_row: u64,
    row_to_column: u64,
    precharge: u64,
    data: u64,
}

impl Timing {
    /// Returns the times of a configuration.
    pub(crate) fn new(config: &Config) -> Timing {
        let dram = &config.dram;
        let cycle = config.clocks.core / config.clocks.dram * f64::from(1 << FRACTION);
        let time = |cycles: f64| (cycles * cycle).round() as u64;
        // Cycles of the data bus for a sector.
        let bytes = f64::from(dram.bus_bytes) * f64::from(dram.transfers_per_cycle);
        let burst = (32.0 / bytes).max(f64::from(dram.column_to_column));
        Timing {
            column: time(burst),
            column_in_bank: time(f64::from(dram.column_to_column_in_group).max(burst)),
            row_cycle: time(f64::from(dram.row_cycle)),
            row_to_row: time(f64::from(dram.row_to_row)),
            row_to_column: time(f64::from(dram.row_to_column)),
            precharge: time(f64::from(dram.precharge)),
            data: time(f64::from(dram.column_latency)),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Bank {
    /// The recent rows, from the newest one, each with the time when its last access leaves the queue. Rows count from 1; 0
    /// is none.
    rows: [(u64, u64); ROWS],
    /// When a column can be accessed.
    column: u64,
    /// When a row can be activated.
    activation: u64,
}

/// A channel.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    banks: Vec<Bank>,
    bus: u64,
    /// When a row of any bank can be activated.
    activation: u64,
    /// When the accesses in the queue leave it.
    queue: Window,
}

impl Channel {
    /// Returns an idle channel.
    pub(crate) fn new(config: &Config) -> Channel {
        Channel {
            banks: vec![Bank::default(); config.dram.banks as usize],
            bus: 0,
            activation: 0,
            queue: Window::new(config.dram.queue as usize),
        }
    }

    /// Accesses a sector. Returns when its data is there, and whether its row was open.
    pub(crate) fn access(
        &mut self,
        timing: &Timing,
        arrival: Cycle,
        bank: u32,
        row: u64,
    ) -> (Cycle, bool) {
        let arrival = (arrival << FRACTION).max(self.queue.room());
        let slot = self.bus.max(arrival);
        self.bus = slot + timing.column;
        let bank = &mut self.banks[bank as usize];
        let is_open = bank.open(timing, arrival, row + 1, &mut self.activation);
        let column = bank.column.max(slot);
        bank.column = column + timing.column_in_bank;
        bank.rows[0].1 = column;
        self.queue.push(column);
        let ready = column + timing.data + timing.column;
        (ready.div_ceil(1 << FRACTION), is_open)
    }

    /// Returns when the bus becomes free.
    pub(crate) fn free(&self) -> Cycle {
        self.bus >> FRACTION
    }
}

impl Bank {
    /// Opens a row if it is not open. Returns whether it was open.
    fn open(&mut self, timing: &Timing, now: u64, row: u64, channel: &mut u64) -> bool {
        let recent = |(index, &(known, last)): (usize, &(u64, u64))| {
            known == row && (index == 0 || now <= last)
        };
        let found = self.rows.iter().enumerate().position(recent);
        let is_first = self.rows[0].0 == 0;
        self.rows[..=found.unwrap_or(ROWS - 1)].rotate_right(1);
        self.rows[0].0 = row;
        if found.is_some() {
            return true;
        }
        // The rate of activations is limited, but one that waits for its bank does not delay those of other banks.
        let slot = now.max(*channel);
        *channel = slot + timing.row_to_row;
        let activation = self.activation.max(slot);
        let precharge = if is_first { 0 } else { timing.precharge };
        self.activation = activation + timing.row_cycle;
        self.column = self
            .column
            .max(activation + precharge + timing.row_to_column);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses rows of banks at a time. Returns when the last data is there, and the number of activations.
    fn access(rows: impl Iterator<Item = (u32, u64)>, queue: u32) -> (Cycle, usize) {
        let mut config = Config::builtin("qv100").unwrap();
        config.dram.queue = queue;
        let mut channel = Channel::new(&config);
        let timing = Timing::new(&config);
        let mut last = 0;
        let mut activations = 0;
        for (bank, row) in rows {
            let (data, is_open) = channel.access(&timing, 1000, bank, row);
            last = last.max(data);
            activations += usize::from(!is_open);
        }
        (last, activations)
    }

    #[test]
    fn accesses_to_a_row_in_the_queue_are_grouped() {
        let alternating = || (0..16).map(|index| (0, index % 2));
        assert_eq!(access(alternating(), 64).1, 2);
        assert_eq!(access(alternating(), 1).1, 16);
    }

    #[test]
    fn the_rate_of_activations_is_limited() {
        let (many, activations) = access((0..16).map(|bank| (bank, 0)), 64);
        assert_eq!(activations, 16);
        // 15 more activations, 3 cycles of 850 MHz apart.
        let (first, _) = access([(0, 0)].into_iter(), 64);
        assert!(many >= first + 15 * 4 - 1, "{many} {first}");
    }
}
