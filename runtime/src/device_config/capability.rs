//! Compute capabilities, and for each capability the limits of a multiprocessor.
//!
//! The numbers come from the CUDA programming guide's table of technical specifications per compute capability.

/// A compute capability.
///
/// ```
/// use margay::device::Capability;
///
/// let capability = Capability::parse("sm_90").expect("a capability");
/// assert_eq!((capability.major, capability.number()), (9, 90));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Limits of one multiprocessor.
///
/// ```
/// use margay::device::Capability;
///
/// let limits = Capability::from_number(80).limits();
/// assert_eq!((limits.threads, limits.ctas), (2048, 32));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmLimits {
    /// Resident threads.
    pub threads: u32,
    /// Resident CTAs.
    pub ctas: u32,
    /// Number of bytes of shared memory of a multiprocessor.
    pub shared: u32,
    /// Maximum bytes of shared memory of a CTA whose kernel opts in.
    pub shared_optin: u32,
    /// Bytes of shared memory that the system reserves in each CTA.
    pub shared_reserved: u32,
    /// Granularity of shared memory allocations in bytes.
    pub shared_unit: u32,
    /// Number of registers of a multiprocessor. A single CTA may use all of them.
    pub registers: u32,
    /// Throughput of f32 operations divided by that of f64 operations.
    pub double_ratio: u32,
}

const KIB: u32 = 1024;

/// Columns: capability, threads, CTAs, shared KiB, opt-in KiB, f32:f64. The rows are in ascending order of the
/// capability.
const TABLE: &[(u32, u32, u32, u32, u32, u32)] = &[
    (20, 1536, 8, 48, 48, 2),
    (21, 1536, 8, 48, 48, 12),
    (30, 2048, 16, 48, 48, 24),
    (35, 2048, 16, 48, 48, 3),
    (37, 2048, 16, 112, 48, 3),
    (50, 2048, 32, 64, 48, 32),
    (52, 2048, 32, 96, 48, 32),
    (53, 2048, 32, 64, 48, 32),
    (60, 2048, 32, 64, 48, 2),
    (61, 2048, 32, 96, 48, 32),
    (62, 2048, 32, 64, 48, 32),
    (70, 2048, 32, 96, 96, 2),
    (75, 1024, 16, 64, 64, 32),
    (80, 2048, 32, 164, 163, 2),
    (86, 1536, 16, 100, 99, 32),
    (87, 1536, 16, 164, 163, 32),
    (89, 1536, 24, 100, 99, 64),
    (90, 2048, 32, 228, 227, 2),
    (100, 2048, 32, 228, 227, 2),
    (110, 1536, 24, 228, 227, 64),
    (120, 1536, 24, 100, 99, 64),
];

impl Capability {
    /// Parses `8.6`, `86`, `sm_86` or `compute_86`.
    pub fn parse(text: &str) -> Option<Capability> {
        let text = text.trim();
        let text = text
            .strip_prefix("sm_")
            .or_else(|| text.strip_prefix("compute_"))
            .unwrap_or(text);
        let capability = match text.split_once('.') {
            Some((major, minor)) => Capability {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            },
            None => Capability::from_number(text.parse().ok()?),
        };
        let known = (2..=99).contains(&capability.major) && capability.minor < 10;
        known.then_some(capability)
    }

    /// Returns the capability with this number, which is ten times the major number plus the minor number: 86 for 8.6,
    /// 120 for 12.0.
    pub fn from_number(number: u32) -> Capability {
        Capability {
            major: number / 10,
            minor: number % 10,
        }
    }

    /// Returns ten times the major number plus the minor number: 86 for 8.6, 120 for 12.0.
    pub fn number(self) -> u32 {
        self.major * 10 + self.minor
    }

    /// Returns the limits. If the capability is not in the table, returns the limits of the next lower capability in
    /// the table.
    pub fn limits(self) -> SmLimits {
        let row = TABLE
            .iter()
            .rev()
            .find(|row| row.0 <= self.number())
            .unwrap_or(&TABLE[0]);
        let &(_, threads, ctas, shared, optin, double_ratio) = row;
        SmLimits {
            threads,
            ctas,
            shared: shared * KIB,
            shared_optin: optin * KIB,
            shared_reserved: if self.major >= 8 { KIB } else { 0 },
            shared_unit: if self.major >= 8 { 128 } else { 256 },
            registers: if self.major < 3 { 32 } else { 64 } * KIB,
            double_ratio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_spelling() {
        let expected = Some(Capability { major: 8, minor: 6 });
        for text in ["8.6", "86", "sm_86", "compute_86", " 8.6 "] {
            assert_eq!(Capability::parse(text), expected, "{text}");
        }
        assert_eq!(Capability::parse("120").map(Capability::number), Some(120));
        assert_eq!(Capability::parse("x"), None);
        assert_eq!(Capability::parse("1.0"), None);
    }

    #[test]
    fn unknown_capabilities_take_the_limits_below() {
        let known = Capability {
            major: 12,
            minor: 0,
        };
        let unknown = Capability {
            major: 13,
            minor: 0,
        };
        assert_eq!(unknown.limits().threads, known.limits().threads);
        assert_eq!(Capability { major: 8, minor: 6 }.limits().shared, 102_400);
        let old = Capability::parse("compute_20").expect("known").limits();
        assert_eq!((old.threads, old.ctas, old.registers), (1536, 8, 32 << 10));
    }
}
