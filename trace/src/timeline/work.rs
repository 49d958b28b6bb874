//! The pieces of work of streams and graphs, as the timeline shows them.

use std::sync::Arc;

use margay::observe::{CopyDirection, Dependence};
use margay_timeline::{Arg, Event, Span, Value, category};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::host::MOST_ENDED;

/// A piece of work that has not ended.
pub(super) struct Work {
    pub(super) what: What,
    pub(super) stream: Option<u64>,
    /// The place in the thread that has submitted the work, and the call in which it was.
    pub(super) submitted: (Span, u64),
    pub(super) begin: Option<u64>,
    pub(super) after: SmallVec<[Dependence; 2]>,
}

/// What a piece of work does.
pub(super) enum What {
    Kernel {
        launch: u64,
        name: Name,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
    },
    Copy {
        direction: CopyDirection,
        bytes: u64,
        to: u64,
        from: u64,
    },
    Fill {
        bytes: u64,
        to: u64,
        value: u32,
    },
    HostFunction,
}

impl What {
    /// Returns the number of the launch, if the work is one.
    pub(super) fn launch(&self) -> Option<u64> {
        match self {
            What::Kernel { launch, .. } => Some(*launch),
            _ => None,
        }
    }

    /// Calls `action` with the event that describes the work.
    pub(super) fn event<T>(&self, action: impl FnOnce(Event<'_>) -> T) -> T {
        match self {
            What::Kernel {
                name,
                grid,
                block,
                dynamic_shared,
                ..
            } => {
                let (grid, block) = (grid.map(Value::from), block.map(Value::from));
                let args = [
                    Arg::new("grid", Value::List(&grid)),
                    Arg::new("block", Value::List(&block)),
                    Arg::new("dynamic shared memory", u64::from(*dynamic_shared)),
                    Arg::new("symbol", &*name.symbol),
                ];
                action(Event::new(category::KERNEL, &name.readable).args(&args))
            }
            &What::Copy {
                direction,
                bytes,
                to,
                from,
            } => {
                let args = [
                    Arg::new("bytes", bytes),
                    Arg::new("to", Value::Address(to)),
                    Arg::new("from", Value::Address(from)),
                ];
                action(Event::new(category::MEMCPY, copy_name(direction)).args(&args))
            }
            &What::Fill { bytes, to, value } => {
                let args = [
                    Arg::new("bytes", bytes),
                    Arg::new("to", Value::Address(to)),
                    Arg::new("value", u64::from(value)),
                ];
                action(Event::new(category::MEMSET, "Memset").args(&args))
            }
            What::HostFunction => action(Event::new(category::HOST_FUNCTION, "Host function")),
        }
    }
}

fn copy_name(direction: CopyDirection) -> &'static str {
    match direction {
        CopyDirection::HostToDevice => "Memcpy HtoD",
        CopyDirection::DeviceToHost => "Memcpy DtoH",
        CopyDirection::DeviceToDevice => "Memcpy DtoD",
        CopyDirection::HostToHost => "Memcpy HtoH",
        CopyDirection::Unified => "Memcpy",
    }
}

/// The names of a kernel.
#[derive(Clone)]
pub(super) struct Name {
    /// The demangled name.
    pub(super) readable: Arc<str>,
    pub(super) symbol: Arc<str>,
}

/// Maximum number of kernels whose names are kept.
const MOST_NAMES: usize = 1 << 12;

/// The names of kernels that were launched, by their symbols.
#[derive(Default)]
pub(super) struct Names(Mutex<FxHashMap<Arc<str>, Name>>);

impl Names {
    /// Returns the names of the kernel with a symbol.
    pub(super) fn of(&self, symbol: &str) -> Name {
        let mut names = self.0.lock();
        if let Some(name) = names.get(symbol) {
            return name.clone();
        }
        let name = Name {
            readable: margay::demangle::readable(symbol).into(),
            symbol: symbol.into(),
        };
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        names.insert(Arc::clone(&name.symbol), name.clone());
        name
    }
}

/// Where the newest pieces of work that have ended are in the timeline, at most [`MOST_ENDED`]. Work has ascending numbers,
/// so the place of a piece of work in the table is its number modulo [`MOST_ENDED`].
#[derive(Default)]
pub(super) struct Ended(Vec<(u64, Option<Span>)>);

impl Ended {
    pub(super) fn insert(&mut self, work: u64, span: Span) {
        let place = work as usize % MOST_ENDED;
        if place >= self.0.len() {
            self.0.resize(place + 1, (0, None));
        }
        // Work that took long may end after newer work with the same place.
        if self.0[place].0 <= work {
            self.0[place] = (work, Some(span));
        }
    }

    pub(super) fn get(&self, work: u64) -> Option<Span> {
        let &(known, span) = self.0.get(work as usize % MOST_ENDED)?;
        span.filter(|_| known == work)
    }
}

#[cfg(test)]
mod tests {
    use margay_timeline::{Format, Options, Timeline};

    use super::*;

    #[test]
    fn the_newest_work_that_has_ended_is_known() {
        let options = Options::new(Format::Perfetto, 1, "program");
        let timeline = Timeline::create("/dev/null".as_ref(), &options).expect("creates");
        let track = timeline.worker(0);
        let mut ended = Ended::default();
        let newest = MOST_ENDED as u64 + 5;
        for work in [3, newest, 5] {
            ended.insert(work, track.point(work));
        }
        assert_eq!(ended.get(3), Some(track.point(3)));
        assert_eq!(ended.get(newest), Some(track.point(newest)));
        for work in [4, 5, 6, 2 * newest] {
            assert_eq!(ended.get(work), None, "{work}");
        }
    }
}
