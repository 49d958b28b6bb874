//! The XPTI streams of the producer, and which notifications somebody has registered for.
//!
//! The crate calls XPTI streams *channels*, because CUDA's streams are a different thing.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::abi::point;
use crate::framework::{Framework, Notification};

/// A stream of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Channel {
    /// Graph, nodes, edges, tasks, waits, barriers, CUDA streams.
    Graph = 0,
    /// Driver calls.
    Calls = 1,
    /// Allocations and releases.
    Memory = 2,
    /// Diagnostics.
    Diagnostics = 3,
}

/// The names of each channel: its own, and that of the SYCL stream with the same contents.
const NAMES: [(&CStr, Option<&CStr>); 4] = [
    (c"margay", Some(c"sycl")),
    (c"margay.call", Some(c"ur.call")),
    (c"margay.mem", Some(c"sycl.experimental.mem_alloc")),
    (c"margay.diag", None),
];

/// All channels.
pub(crate) struct Channels([Streams; 4]);

/// The streams of a channel.
struct Streams {
    /// The trace points that somebody has registered for on one of the streams.
    registered: Registered,
    streams: Vec<Stream>,
}

/// A stream of the framework.
struct Stream {
    name: &'static CStr,
    id: u8,
    registered: Registered,
}

/// A set of trace points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Points([u64; 2]);

impl Points {
    /// Returns the set of `points`, which are below 128.
    pub(crate) const fn of(points: &[u16]) -> Points {
        let mut words = [0; 2];
        let mut index = 0;
        while index < points.len() {
            words[(points[index] >> 6) as usize] |= 1 << (points[index] & 63);
            index += 1;
        }
        Points(words)
    }
}

/// A set of trace points that one thread replaces while others read it.
#[derive(Default)]
struct Registered([AtomicU64; 2]);

impl Registered {
    /// Tells whether the set contains one of `points`.
    #[inline]
    fn contains_any(&self, points: Points) -> bool {
        let [low, high] = &self.0;
        low.load(Relaxed) & points.0[0] | high.load(Relaxed) & points.0[1] != 0
    }

    fn replace(&self, points: Points) {
        for (word, value) in self.0.iter().zip(points.0) {
            word.store(value, Relaxed);
        }
    }
}

impl Channels {
    /// Registers the streams and announces them to the subscribers, which register callbacks. Also announces the SYCL
    /// streams if `sycl_names` is true.
    pub(crate) fn open(
        framework: &Framework,
        sycl_names: bool,
        version: (u32, u32),
        version_text: &CStr,
    ) -> Channels {
        let open = |name: &'static CStr| {
            let id = framework.register_stream(name);
            framework.initialize_stream(name, version, version_text);
            Stream {
                name,
                id,
                registered: Registered::default(),
            }
        };
        let channels = Channels(NAMES.map(|(name, sycl)| {
            let sycl = sycl.filter(|_| sycl_names);
            Streams {
                registered: Registered::default(),
                streams: [name].into_iter().chain(sycl).map(open).collect(),
            }
        }));
        channels.refresh(framework);
        channels
    }

    /// Asks the framework again which notifications somebody has registered for.
    pub(crate) fn refresh(&self, framework: &Framework) {
        for channel in &self.0 {
            let mut all = Points([0; 2]);
            for stream in &channel.streams {
                let points = registered(framework, stream.id);
                stream.registered.replace(points);
                all = Points([all.0[0] | points.0[0], all.0[1] | points.0[1]]);
            }
            channel.registered.replace(all);
        }
    }

    /// Tells whether somebody has registered for one of `points`.
    #[inline]
    pub(crate) fn listens(&self, channel: Channel, points: Points) -> bool {
        self.0[channel as usize].registered.contains_any(points)
    }

    /// Sends a notification to those who have registered for it.
    #[inline]
    pub(crate) fn send(
        &self,
        framework: &Framework,
        channel: Channel,
        notification: &Notification<'_>,
    ) {
        let point = Points::of(&[notification.point]);
        for stream in &self.0[channel as usize].streams {
            if stream.registered.contains_any(point) {
                framework.notify(stream.id, notification);
            }
        }
    }

    /// Announces the end of all streams, in the reverse of their order.
    pub(crate) fn close(&self, framework: &Framework) {
        let streams = self.0.iter().flat_map(|channel| &channel.streams);
        for stream in streams.rev() {
            framework.finalize_stream(stream.name);
        }
    }
}

/// Returns the trace points that somebody has registered for on a stream.
fn registered(framework: &Framework, stream: u8) -> Points {
    let enabled = |point: &u16| framework.check_enabled(stream, *point);
    let points: Vec<u16> = point::ALL.into_iter().filter(enabled).collect();
    Points::of(&points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_what_was_assigned_last() {
        let registered = Registered::default();
        let contained = || -> Vec<u16> {
            let single = |point: &u16| registered.contains_any(Points::of(&[*point]));
            (0..128).filter(single).collect()
        };
        registered.replace(Points::of(&[2, 63, 64, 126]));
        assert_eq!(contained(), [2, 63, 64, 126]);
        assert!(registered.contains_any(Points::of(&[3, 126])));
        assert!(!registered.contains_any(Points::of(&[3, 127])));
        registered.replace(Points::of(&[3]));
        assert_eq!(contained(), [3]);
    }

    #[test]
    fn all_points_fit_in_a_set() {
        assert!(point::ALL.iter().all(|point| *point < 128));
    }
}
