//! Decides from environment variables whether the producer loads the framework.

use std::ffi::{OsStr, OsString};

/// The decision of the environment.
///
/// Tracing is on if `XPTI_FRAMEWORK_DISPATCHER` and `XPTI_SUBSCRIBERS` are set and not empty, and `XPTI_TRACE_ENABLE` is
/// unset, `1` or `true`. The framework reads the last two variables, too, and follows the same rule: for example, it
/// takes `yes` for off.
///
/// ```
/// use std::ffi::OsStr;
///
/// use margay_xpti::{Gate, Off};
///
/// let library = Some(OsStr::new("/opt/libxptifw.so"));
/// let tool = Some(OsStr::new("/opt/libtool.so"));
/// assert_eq!(Gate::decide(library, tool, None), Gate::On { dispatcher: "/opt/libxptifw.so".into() });
/// assert_eq!(Gate::decide(library, tool, Some(OsStr::new("yes"))), Gate::Off(Off::Disabled));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gate {
    /// The producer loads the framework.
    On {
        /// The path of the framework library.
        dispatcher: OsString,
    },
    /// The producer loads nothing.
    Off(Off),
}

/// The reason why tracing is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Off {
    /// `XPTI_FRAMEWORK_DISPATCHER` is unset or empty.
    NoDispatcher,
    /// `XPTI_SUBSCRIBERS` is unset or empty.
    NoSubscribers,
    /// `XPTI_TRACE_ENABLE` is neither unset nor `1` nor `true`.
    Disabled,
}

impl Gate {
    /// Decides from the variables of this process.
    pub fn from_environment() -> Gate {
        let value = std::env::var_os;
        Gate::decide(
            value("XPTI_FRAMEWORK_DISPATCHER").as_deref(),
            value("XPTI_SUBSCRIBERS").as_deref(),
            value("XPTI_TRACE_ENABLE").as_deref(),
        )
    }

    /// Decides from the values of the three variables: dispatcher, subscribers, enable.
    pub fn decide(
        dispatcher: Option<&OsStr>,
        subscribers: Option<&OsStr>,
        enable: Option<&OsStr>,
    ) -> Gate {
        // The dynamic linker takes an empty name for the program itself.
        let Some(dispatcher) = dispatcher.filter(|path| !path.is_empty()) else {
            return Gate::Off(Off::NoDispatcher);
        };
        if subscribers.is_none_or(OsStr::is_empty) {
            return Gate::Off(Off::NoSubscribers);
        }
        if enable.is_some_and(|value| value != "1" && value != "true") {
            return Gate::Off(Off::Disabled);
        }
        Gate::On {
            dispatcher: dispatcher.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(dispatcher: &str, subscribers: &str, enable: Option<&str>) -> Gate {
        Gate::decide(
            Some(OsStr::new(dispatcher)),
            Some(OsStr::new(subscribers)),
            enable.map(OsStr::new),
        )
    }

    #[test]
    fn only_one_and_true_enable_tracing() {
        for enable in [None, Some("1"), Some("true")] {
            let on = Gate::On {
                dispatcher: "d".into(),
            };
            assert_eq!(decide("d", "s", enable), on, "{enable:?}");
        }
        for enable in ["0", "false", "yes", "TRUE", "", "2", "on", " 1"] {
            let off = Gate::Off(Off::Disabled);
            assert_eq!(decide("d", "s", Some(enable)), off, "{enable:?}");
        }
    }

    #[test]
    fn both_libraries_are_needed() {
        let path = Some(OsStr::new("x"));
        assert_eq!(Gate::decide(None, path, None), Gate::Off(Off::NoDispatcher));
        assert_eq!(
            Gate::decide(path, None, None),
            Gate::Off(Off::NoSubscribers)
        );
        assert_eq!(decide("", "s", None), Gate::Off(Off::NoDispatcher));
        assert_eq!(decide("d", "", None), Gate::Off(Off::NoSubscribers));
    }
}
