//! PTX versions and targets (GPU architectures), and the lowest versions and targets that forms
//! require.
//!
//! Invariant: if a version satisfies a [`Requirement`], every later version also satisfies the
//! requirement. If a target satisfies a requirement, every later target also satisfies it, unless
//! the requirement contains an architecture-specific (`a`) or family-specific (`f`) target.

use smallvec::SmallVec;
use std::fmt;

/// A PTX language version, such as 8.5.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Version(u16);

impl Version {
    /// Creates version `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Version {
        Version(major * 100 + minor)
    }

    /// Parses a version such as `8.5`.
    pub fn parse(text: &str) -> Option<Version> {
        let (major, minor) = text.split_once('.')?;
        let (major, minor): (u16, u16) = (major.parse().ok()?, minor.parse().ok()?);
        (major < 100 && minor < 100).then(|| Version::new(major, minor))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 100, self.0 % 100)
    }
}

/// The variant of a target, which determines the instructions that the target has in addition to
/// the portable instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Variant {
    /// No additional instructions: `sm_100`.
    #[default]
    Base,
    /// The additional instructions of the target's family of architectures: `sm_100f`.
    Family,
    /// The additional instructions of exactly this architecture: `sm_100a`.
    Specific,
}

/// A target architecture, such as `sm_90a`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Target {
    /// The number, such as 90 for `sm_90a`.
    pub number: u16,
    /// The variant that the suffix specifies, such as `a` in `sm_90a`.
    pub variant: Variant,
}

impl Target {
    /// Returns the portable target with this number.
    pub const fn base(number: u16) -> Target {
        Target {
            number,
            variant: Variant::Base,
        }
    }

    /// Parses a name such as `sm_90a` or `compute_90a`.
    pub fn parse(text: &str) -> Option<Target> {
        let digits = text
            .strip_prefix("sm_")
            .or_else(|| text.strip_prefix("compute_"))?;
        Target::parse_number(digits)
    }

    fn parse_number(text: &str) -> Option<Target> {
        let (digits, variant) = match text.strip_suffix('a') {
            Some(digits) => (digits, Variant::Specific),
            None => match text.strip_suffix('f') {
                Some(digits) => (digits, Variant::Family),
                None => (text, Variant::Base),
            },
        };
        let number = digits.parse().ok()?;
        Some(Target { number, variant })
    }

    /// Whether a module for the target `self` may use a feature that was introduced with the target `needed`. A
    /// portable feature exists on `needed` and on all later targets. A family-specific feature exists on the `f` and
    /// `a` variants of `needed` and of later targets of the same family. An architecture-specific feature exists on
    /// `needed` only.
    pub fn has(self, needed: Target) -> bool {
        match needed.variant {
            Variant::Base => self.number >= needed.number,
            Variant::Family => {
                self.variant != Variant::Base
                    && self.number >= needed.number
                    && self.number / 10 == needed.number / 10
            }
            Variant::Specific => self == needed,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.variant {
            Variant::Base => "",
            Variant::Family => "f",
            Variant::Specific => "a",
        };
        write!(f, "sm_{}{suffix}", self.number)
    }
}

/// The requirements of a form or modifier on the module's version and target. For at least one target in `targets`,
/// [`Target::has`] must be true.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Requirement {
    /// Lowest PTX version.
    pub version: Version,
    /// The lowest targets that have the feature, as alternatives. If the list is empty, every
    /// target is accepted.
    pub targets: SmallVec<[Target; 2]>,
    /// Exceptions from `version`: the lowest targets that support the feature from an earlier PTX
    /// version on, each with this earlier version.
    pub earlier: SmallVec<[(Target, Version); 1]>,
}

impl Requirement {
    /// Parses `80/7.0`, `90a|100f/8.0`, `80` or `/7.0`. `89/8.1,90/7.8` means that `sm_89` has the feature from PTX 8.1
    /// on, and targets from `sm_90` on have it from PTX 7.8 on.
    pub(super) fn parse(text: &str) -> Option<Requirement> {
        let mut alternatives = text.split(',');
        let mut requirement = Requirement::parse_one(alternatives.next()?)?;
        for alternative in alternatives {
            let earlier = Requirement::parse_one(alternative)?;
            let targets = earlier.targets.iter();
            requirement
                .earlier
                .extend(targets.map(|&target| (target, earlier.version)));
        }
        Some(requirement)
    }

    fn parse_one(text: &str) -> Option<Requirement> {
        let (targets, version) = text.split_once('/').unwrap_or((text, "0.0"));
        let version = Version::parse(version)?;
        let mut alternatives = SmallVec::new();
        for target in targets.split('|').filter(|t| !t.is_empty()) {
            alternatives.push(Target::parse_number(target)?);
        }
        Some(Requirement {
            version,
            targets: alternatives,
            earlier: SmallVec::new(),
        })
    }

    /// Whether the form or modifier exists on `target`, for a sufficient PTX version.
    pub fn allows(&self, target: Target) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|&needed| target.has(needed))
    }

    /// Returns the lowest PTX version that supports the feature on `target`, which must satisfy
    /// [`Requirement::allows`].
    pub fn version_for(&self, target: Target) -> Version {
        let earlier = self
            .earlier
            .iter()
            .filter(|(needed, _)| target.has(*needed));
        let versions = earlier.map(|&(_, version)| version);
        versions.chain([self.version]).min().unwrap_or(self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_reach_as_far_as_their_family() {
        let target = |text| Target::parse(text).unwrap();
        assert!(target("sm_120").has(target("sm_90")));
        assert!(target("sm_90a").has(target("sm_90")));
        assert!(!target("sm_100a").has(target("sm_90a")));
        assert!(target("sm_103a").has(target("sm_100f")));
        assert!(!target("sm_110f").has(target("sm_100f")));
        assert!(!target("sm_103").has(target("sm_100f")));
        assert!(!target("sm_100f").has(target("sm_100a")));
    }

    #[test]
    fn requirements_list_alternatives() {
        let requirement = Requirement::parse("90a|100f/8.0").unwrap();
        assert_eq!(requirement.version, Version::new(8, 0));
        assert!(requirement.allows(Target::parse("sm_103f").unwrap()));
        assert!(!requirement.allows(Target::parse("sm_90").unwrap()));
    }

    #[test]
    fn later_targets_may_have_it_in_earlier_versions() {
        let requirement = Requirement::parse("89/8.1,90/7.8").unwrap();
        let version = |target| requirement.version_for(Target::parse(target).unwrap());
        assert!(!requirement.allows(Target::base(87)));
        assert_eq!(version("sm_89"), Version::new(8, 1));
        assert_eq!(version("sm_90"), Version::new(7, 8));
        assert_eq!(version("sm_120a"), Version::new(7, 8));
    }
}
