//! How many CTAs of a kernel a core can hold.

use margay_accelsim::Header;
use serde::Serialize;

use crate::config::Config;
use crate::error::Error;

/// The resources of a core that its resident CTAs use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Resources {
    pub(crate) ctas: u64,
    pub(crate) warps: u64,
    pub(crate) registers: u64,
    pub(crate) shared_bytes: u64,
}

/// How many CTAs of a kernel fit in a core, and why not more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Occupancy {
    /// The number of CTAs.
    pub ctas: u64,
    /// The number of their warps.
    pub warps: u64,
    /// The resources that limit it: `threads`, `registers`, `shared memory` or `CTAs`.
    pub limit: &'static str,
}

/// The unit in which the simulator allocates registers of a thread.
const REGISTER_UNIT: u64 = 4;

impl Resources {
    /// Returns the demand of a CTA.
    pub(crate) fn of(header: &Header) -> Resources {
        let warps = u64::from(header.warps());
        let registers = u64::from(header.registers).next_multiple_of(REGISTER_UNIT);
        Resources {
            ctas: 1,
            warps,
            registers: registers * warps * 32,
            shared_bytes: header.shared_bytes,
        }
    }

    /// Returns what a core has.
    pub(crate) fn of_core(config: &Config) -> Resources {
        Resources {
            ctas: u64::from(config.core.ctas),
            warps: u64::from(config.warps_per_core()),
            registers: u64::from(config.core.registers),
            shared_bytes: u64::from(config.shared.bytes),
        }
    }

    /// Returns whether `more` fits in `all` beside these.
    pub(crate) fn fits(&self, more: &Resources, all: &Resources) -> bool {
        self.ctas + more.ctas <= all.ctas
            && self.warps + more.warps <= all.warps
            && self.registers + more.registers <= all.registers
            && self.shared_bytes + more.shared_bytes <= all.shared_bytes
    }

    pub(crate) fn add(&mut self, more: &Resources) {
        self.ctas += more.ctas;
        self.warps += more.warps;
        self.registers += more.registers;
        self.shared_bytes += more.shared_bytes;
    }

    pub(crate) fn subtract(&mut self, less: &Resources) {
        self.ctas -= less.ctas;
        self.warps -= less.warps;
        self.registers -= less.registers;
        self.shared_bytes -= less.shared_bytes;
    }
}

impl Occupancy {
    /// Returns the occupancy of a core with CTAs of a kernel.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoom`] if a core cannot hold one CTA.
    pub fn of(header: &Header, config: &Config) -> Result<Occupancy, Error> {
        let (cta, core) = (Resources::of(header), Resources::of_core(config));
        let limits = [
            ("threads", cta.warps, core.warps),
            ("shared memory", cta.shared_bytes, core.shared_bytes),
            ("registers", cta.registers, core.registers),
            ("CTAs", cta.ctas, core.ctas),
        ];
        if let Some((resource, needed, available)) = limits
            .into_iter()
            .find(|(_, needed, available)| needed > available)
        {
            return Err(Error::NoRoom {
                kernel: header.kernel_id,
                name: header.kernel_name.clone(),
                resource: match resource {
                    "threads" => "warps",
                    "shared memory" => "bytes of shared memory",
                    other => other,
                },
                needed,
                available,
            });
        }
        let count = |(_, needed, available): &(&str, u64, u64)| {
            available.checked_div(*needed).unwrap_or(u64::MAX)
        };
        let tightest = limits.iter().min_by_key(|limit| count(limit));
        let (limit, ctas) = tightest.map_or(("CTAs", 0), |limit| (limit.0, count(limit)));
        Ok(Occupancy {
            ctas,
            warps: ctas * cta.warps,
            limit,
        })
    }
}
