//! The execution units of a core, except the one for loads and stores.

use crate::config::{Config, Unit};
use crate::cycle::{Cycle, Server, Window};
use crate::program::{Template, UnitKind};

/// The number of instructions that wait for a unit at most.
const WAITING: usize = 4;

/// The inputs of the units.
#[derive(Debug)]
pub(crate) struct Units {
    /// By [`UnitKind`].
    kinds: [Kind; UnitKind::COUNT - 1],
}

/// The units of a kind.
#[derive(Debug)]
struct Kind {
    ports: Vec<Port>,
    /// The number of units behind a port.
    units: u64,
}

#[derive(Clone, Debug)]
struct Port {
    unit: Server,
    waiting: Window,
}

impl Kind {
    /// With fewer units than schedulers, schedulers share the ports.
    fn new(unit: &Unit, schedulers: u32) -> Kind {
        let ports = unit.count.clamp(1, schedulers);
        let port = Port {
            unit: Server::default(),
            waiting: Window::new(WAITING),
        };
        Kind {
            ports: vec![port; ports as usize],
            units: u64::from((unit.count / ports).max(1)),
        }
    }
}

impl Units {
    /// Returns idle units.
    pub(crate) fn new(config: &Config) -> Units {
        let units = &config.units;
        let [branch, texture, matrix, uniform] = &units.specialized;
        let all = [
            &units.fp32,
            &units.integer,
            &units.fp64,
            &units.special,
            branch,
            texture,
            matrix,
            uniform,
        ];
        Units {
            kinds: all.map(|unit| Kind::new(unit, config.core.schedulers)),
        }
    }

    /// Returns when a unit accepts an instruction of a scheduler.
    pub(crate) fn room(&self, scheduler: usize, unit: UnitKind) -> Cycle {
        let kind = &self.kinds[unit as usize];
        kind.ports[scheduler % kind.ports.len()].waiting.room()
    }

    /// Starts an instruction of a scheduler. Returns when the unit begins with it.
    pub(crate) fn start(&mut self, scheduler: usize, template: &Template, now: Cycle) -> Cycle {
        let kind = &mut self.kinds[template.unit as usize];
        let interval = u64::from(template.interval).div_ceil(kind.units);
        let count = kind.ports.len();
        let port = &mut kind.ports[scheduler % count];
        let start = port.unit.reserve(now, interval);
        port.waiting.push(start);
        start
    }
}
