//! Selects the launches that a checking run examines, by the kernel's name and by the launch's
//! position among all launches of kernels with matching names.

use std::sync::atomic::{AtomicU64, Ordering};

use regex_lite::Regex;

use crate::environment::{env, number};

/// A condition on the (mangled) name of a kernel.
#[derive(Clone, Debug)]
enum Part {
    Equals(String),
    Contains(String),
    Matches(Regex),
}

impl Part {
    fn matches(&self, kernel: &str) -> bool {
        match self {
            Part::Equals(name) => name == kernel,
            Part::Contains(text) => kernel.contains(text.as_str()),
            Part::Matches(regex) => regex.is_match(kernel),
        }
    }
}

/// A filter that selects kernels: a list of conditions, all of which the kernel's name must meet.
///
/// ```
/// use margay::checks::KernelFilter;
///
/// let filter = KernelFilter::parse("kns=reduce,regex=^_Z1").unwrap();
/// assert!(filter.matches("_Z10reduce_allPf"));
/// assert!(!filter.matches("_Z20reduce_allPf"));
/// assert!(KernelFilter::parse("name=reduce").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct KernelFilter(Vec<Part>);

/// A function that creates a condition from the text after the condition's key.
type Make = fn(&str) -> Result<Part, String>;

/// The keys of conditions, each with the function that creates a condition with this key.
const KEYS: [(&str, Make); 5] = [
    ("kne=", |text| Ok(Part::Equals(text.to_owned()))),
    ("kernel_name=", |text| Ok(Part::Equals(text.to_owned()))),
    ("kns=", |text| Ok(Part::Contains(text.to_owned()))),
    ("kernel_substring=", |text| {
        Ok(Part::Contains(text.to_owned()))
    }),
    ("regex=", |text| {
        let regex = Regex::new(text);
        regex.map(Part::Matches).map_err(|e| e.to_string())
    }),
];

impl KernelFilter {
    /// Parses a list of conditions that are separated by commas: `kne=NAME` or `kernel_name=NAME`,
    /// `kns=TEXT` or `kernel_substring=TEXT`, and `regex=EXPRESSION`. The expression may contain
    /// commas. It need not match the whole name.
    ///
    /// # Errors
    /// Returns a message that contains the first invalid condition and the reason.
    pub fn parse(text: &str) -> Result<KernelFilter, String> {
        let mut texts: Vec<String> = Vec::new();
        for piece in text.split(',') {
            let begins = KEYS.iter().any(|(key, _)| piece.starts_with(key));
            match texts.last_mut().filter(|last| last.starts_with("regex=")) {
                Some(last) if !begins => *last = format!("{last},{piece}"),
                _ => texts.push(piece.to_owned()),
            }
        }
        let parts = texts.iter().map(|text| {
            let found = KEYS
                .iter()
                .find_map(|(key, make)| Some((*make, text.strip_prefix(key)?)));
            match found {
                Some((_, "")) => Err(format!("`{text}` has no value")),
                Some((make, value)) => make(value).map_err(|e| format!("`{text}`: {e}")),
                None => Err(format!(
                    "`{text}` begins with none of kne=, kernel_name=, kns=, kernel_substring=, regex="
                )),
            }
        });
        parts.collect::<Result<_, _>>().map(KernelFilter)
    }

    /// Returns whether a kernel meets all conditions.
    pub fn matches(&self, kernel: &str) -> bool {
        self.0.iter().all(|part| part.matches(kernel))
    }
}

/// Returns whether each line of a text is a valid filter.
pub(crate) fn are_filters(text: &str) -> bool {
    text.lines().all(|line| KernelFilter::parse(line).is_ok())
}

/// Parses filters, one in each line. The result does not contain invalid filters.
fn parse_lines(text: &str) -> Vec<KernelFilter> {
    let filters = text.lines().map(KernelFilter::parse);
    filters.filter_map(Result::ok).collect()
}

/// Selects the launches that are examined.
#[derive(Debug, Default)]
pub(super) struct LaunchFilter {
    /// If this list is not empty, only kernels that match at least one of these filters are
    /// examined.
    included: Vec<KernelFilter>,
    /// A kernel that matches any of these filters is not examined.
    excluded: Vec<KernelFilter>,
    /// Number of launches of matching kernels to skip before the first examined launch.
    skip: u64,
    /// Number of launches to examine after the skipped launches; `None` if there is no limit.
    count: Option<u64>,
    /// Number of launches of matching kernels so far.
    seen: AtomicU64,
}

impl LaunchFilter {
    pub(super) fn from_env() -> LaunchFilter {
        let filters = |name| env(name).map_or(Vec::new(), |text| parse_lines(&text));
        LaunchFilter {
            included: filters("MARGAY_CHECK_KERNELS"),
            excluded: filters("MARGAY_CHECK_KERNELS_EXCLUDED"),
            skip: number("MARGAY_CHECK_LAUNCH_SKIP").unwrap_or(0),
            count: number("MARGAY_CHECK_LAUNCH_COUNT"),
            seen: AtomicU64::new(0),
        }
    }

    /// Returns whether the checking run examines a launch of a kernel. Must be called exactly once for each launch,
    /// because each call counts one launch.
    pub(super) fn selects(&self, kernel: &str) -> bool {
        let any = |filters: &[KernelFilter]| filters.iter().any(|filter| filter.matches(kernel));
        if !self.included.is_empty() && !any(&self.included) || any(&self.excluded) {
            return false;
        }
        let index = self.seen.fetch_add(1, Ordering::Relaxed);
        let examined = index.checked_sub(self.skip);
        examined.is_some_and(|index| self.count.is_none_or(|count| index < count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(filter: &str, kernel: &str) -> bool {
        KernelFilter::parse(filter)
            .expect("a filter")
            .matches(kernel)
    }

    #[test]
    fn all_conditions_of_a_filter_must_hold() {
        assert!(matches("kne=fill", "fill"));
        assert!(!matches("kernel_name=fill", "fill2"));
        assert!(matches("kns=ill", "fill2"));
        assert!(matches("kernel_substring=fi,kns=2", "fill2"));
        assert!(!matches("kns=fi,kns=3", "fill2"));
        assert!(matches("regex=^f.*[0-9]$", "fill2"));
        // A comma that no condition follows is part of the expression.
        assert!(matches("regex=^f.{1,3}l,kns=l", "fill"));
        assert!(!matches("regex=^f.{1,3}l,kns=x", "fill"));
    }

    #[test]
    fn wrong_filters_name_the_condition() {
        let wrong = |text: &str| KernelFilter::parse(text).unwrap_err();
        assert!(wrong("fill").starts_with("`fill` begins with none of kne=, "));
        assert!(wrong("kns=a,b").starts_with("`b` begins with none of"));
        assert_eq!(wrong("kne="), "`kne=` has no value");
        assert!(wrong("regex=(").starts_with("`regex=(`: "));
        assert!(are_filters("kns=a\nkne=b"));
        assert!(!are_filters("kns=a\nb"));
    }

    #[test]
    fn launches_are_counted_among_those_that_match() {
        let filter = LaunchFilter {
            included: parse_lines("kns=a\nkne=b"),
            excluded: parse_lines("kns=x"),
            skip: 1,
            count: Some(2),
            ..LaunchFilter::default()
        };
        let launches = ["a", "c", "ax", "b", "a2", "a3"];
        let examined = launches.map(|kernel| filter.selects(kernel));
        assert_eq!(examined, [false, false, false, true, true, false]);
        let all = LaunchFilter::default();
        assert!(all.selects("anything") && all.selects("anything"));
    }
}
