//! A timeline: the file, its tracks, and its end.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::describe::{Clocks, CounterTrack, Group, Settings, Subject, Thread};
use crate::encoder::Format;
use crate::layout::{self, Place, Process};
use crate::sink::{Limits, Sink, Summary};
use crate::track::{Core, Counter, Track};

/// How a timeline is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format.
    pub format: Format,
    /// The number of the traced process.
    pub process_id: u32,
    /// The name of the traced process.
    pub process_name: String,
    /// The time in nanoseconds that Chrome's format shows as 0. Its viewers compute with floating-point numbers, so that
    /// times since the start of the machine would lose digits. Perfetto's format contains the times as they are.
    pub origin: u64,
    /// Readings of the clocks. Without them, a viewer cannot align the timeline with other traces.
    pub clocks: Option<Clocks>,
    /// The number of bytes that a track buffers.
    pub buffer: usize,
    /// The span of time that a track buffers.
    pub buffer_time: Duration,
}

impl Options {
    /// Returns the options for a process, with buffers of 32 KiB and a second.
    pub fn new(format: Format, process_id: u32, process_name: &str) -> Options {
        Options {
            format,
            process_id,
            process_name: process_name.to_owned(),
            origin: 0,
            clocks: None,
            buffer: 32 * 1024,
            buffer_time: Duration::from_secs(1),
        }
    }
}

/// What a counter shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quantity<'a> {
    /// The bytes that are allocated on a device.
    DeviceBytes(u32),
    /// The bytes of pinned host memory.
    PinnedBytes,
    /// The bytes of managed memory.
    ManagedBytes,
    /// Another number of bytes, by its name.
    Bytes(&'a str),
    /// A count of something else, by its name.
    Count(&'a str),
}

impl Quantity<'_> {
    fn name(self) -> String {
        match self {
            Quantity::DeviceBytes(0) => "device bytes".to_owned(),
            Quantity::DeviceBytes(index) => format!("device {index} bytes"),
            Quantity::PinnedBytes => "pinned bytes".to_owned(),
            Quantity::ManagedBytes => "managed bytes".to_owned(),
            Quantity::Bytes(name) | Quantity::Count(name) => name.to_owned(),
        }
    }

    fn rank(self) -> i32 {
        match self {
            Quantity::DeviceBytes(index) => i32::try_from(index)
                .unwrap_or(i32::MAX)
                .min(FIRST_NAMED - 3),
            Quantity::PinnedBytes => FIRST_NAMED - 2,
            Quantity::ManagedBytes => FIRST_NAMED - 1,
            Quantity::Bytes(_) | Quantity::Count(_) => FIRST_NAMED,
        }
    }
}

/// The rank of counters that have a name of their own.
const FIRST_NAMED: i32 = 1 << 16;

/// A timeline that is being written. Clones are handles of the same timeline, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Timeline {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sink: Arc<Sink>,
    process_id: u32,
    tracks: Mutex<Tracks>,
}

#[derive(Debug, Default)]
struct Tracks {
    threads: FxHashMap<Place, Weak<Core>>,
    counters: FxHashMap<String, Weak<Core>>,
    groups: FxHashSet<Process>,
    /// How many threads of the host have a track.
    host_threads: i32,
    /// The number of entries at which entries of dropped tracks are removed.
    clean_at: usize,
}

impl Timeline {
    /// Creates a file, or replaces it, and starts a timeline in it.
    pub fn create(path: &Path, options: &Options) -> io::Result<Timeline> {
        Ok(Timeline::new(Box::new(File::create(path)?), options))
    }

    /// Starts a timeline in `file`. Each write consists of complete events, so `file` needs no buffer.
    pub fn new(file: Box<dyn Write + Send>, options: &Options) -> Timeline {
        let settings = Settings {
            process_id: options.process_id,
            origin: options.origin,
            clocks: options.clocks,
        };
        let limits = Limits {
            bytes: options.buffer,
            time: u64::try_from(options.buffer_time.as_nanos()).unwrap_or(u64::MAX),
        };
        let sink = Arc::new(Sink::new(file, options.format, settings, limits));
        let mut header = Vec::new();
        options.format.header(&mut header, &settings);
        sink.write(&mut header, &mut Summary::default());
        let timeline = Timeline {
            shared: Arc::new(Shared {
                sink,
                process_id: options.process_id,
                tracks: Mutex::default(),
            }),
        };
        timeline.name_process(Process::Host, &options.process_name);
        timeline
    }

    /// Names a group of tracks. A group without a name has that of its kind, such as "Device 0".
    pub fn name_process(&self, process: Process, name: &str) {
        let mut tracks = self.shared.tracks.lock();
        self.describe_group(&mut tracks, process, name);
    }

    /// Returns the track of an OS thread of the program. Threads are shown in the order of these calls, behind the main
    /// thread. A track that exists keeps its name.
    pub fn host_thread(&self, thread_id: u64, name: &str) -> Track {
        let mut tracks = self.shared.tracks.lock();
        let is_main = thread_id == u64::from(self.shared.process_id);
        let rank = if is_main {
            0
        } else {
            tracks.host_threads.saturating_add(1)
        };
        tracks.host_threads = tracks.host_threads.saturating_add(1);
        self.thread(&mut tracks, Process::Host, thread_id, name.to_owned(), rank)
    }

    /// Returns the track of a stream of a device. Numbers are unique in a device and at least 1.
    pub fn stream(&self, device: u32, number: u64, kind: StreamKind) -> Track {
        let name = match kind {
            StreamKind::Default => format!("Stream {number} (default)"),
            StreamKind::PerThread => format!("Stream {number} (per thread)"),
            StreamKind::Created => format!("Stream {number}"),
        };
        let mut tracks = self.shared.tracks.lock();
        self.thread(
            &mut tracks,
            Process::Device(device),
            number,
            name,
            rank(number),
        )
    }

    /// Returns the track of a worker thread of the runtime, counted from 0.
    pub fn worker(&self, index: u32) -> Track {
        let mut tracks = self.shared.tracks.lock();
        let thread = u64::from(index) + 1;
        self.thread(
            &mut tracks,
            Process::Workers,
            thread,
            format!("Worker {index}"),
            rank(thread),
        )
    }

    /// Returns the track of a counter.
    pub fn counter(&self, quantity: Quantity<'_>) -> Counter {
        let mut tracks = self.shared.tracks.lock();
        let name = quantity.name();
        if let Some(core) = tracks.counters.get(&name).and_then(Weak::upgrade) {
            return Counter::new(core);
        }
        self.introduce(&mut tracks, Process::Memory);
        let uuid = layout::counter_uuid(&name);
        let is_bytes = !matches!(quantity, Quantity::Count(_));
        let subject = Subject::Counter(CounterTrack {
            process: Process::Memory,
            uuid,
            name: name.clone(),
            series: if is_bytes { "live" } else { "count" },
            is_bytes,
            rank: quantity.rank(),
        });
        let place = Place {
            process: Process::Memory,
            thread: 1,
        };
        let core = Arc::new(Core::new(Arc::clone(&self.shared.sink), subject, place));
        tracks.counters.insert(name, Arc::downgrade(&core));
        tracks.clean();
        Counter::new(core)
    }

    /// Writes what all tracks have buffered.
    pub fn flush(&self) {
        for core in self.shared.cores() {
            core.write();
        }
        self.shared.sink.flush();
    }

    /// Writes what tracks have buffered, without waiting for a thread that records or writes. Returns whether everything
    /// was written. For use where the program ends because of a fatal signal.
    pub fn flush_without_waiting(&self) -> bool {
        let Some(tracks) = self.shared.tracks.try_lock() else {
            return false;
        };
        let mut is_complete = true;
        for core in tracks.cores() {
            is_complete &= core.try_write();
        }
        is_complete
    }

    /// Returns the text of the first error of the file. After an error, the timeline writes nothing.
    pub fn error(&self) -> Option<String> {
        self.shared.sink.error()
    }

    /// Ends the timeline: writes what is buffered and closes the array. Returns what the file contains, or its first
    /// error. Recording has no effect from here on.
    pub fn finish(&self) -> io::Result<Summary> {
        self.shared.finish()
    }

    fn thread(
        &self,
        tracks: &mut Tracks,
        process: Process,
        thread: u64,
        name: String,
        rank: i32,
    ) -> Track {
        let place = Place { process, thread };
        if let Some(core) = tracks.threads.get(&place).and_then(Weak::upgrade) {
            return Track::new(core);
        }
        self.introduce(tracks, process);
        let subject = Subject::Thread(Thread { place, name, rank });
        let core = Arc::new(Core::new(Arc::clone(&self.shared.sink), subject, place));
        tracks.threads.insert(place, Arc::downgrade(&core));
        tracks.clean();
        Track::new(core)
    }

    /// Describes a group that has no description yet.
    fn introduce(&self, tracks: &mut Tracks, process: Process) {
        if !tracks.groups.contains(&process) {
            self.describe_group(tracks, process, &process.default_name());
        }
    }

    fn describe_group(&self, tracks: &mut Tracks, process: Process, name: &str) {
        tracks.groups.insert(process);
        let sink = &self.shared.sink;
        let group = Group {
            process,
            name: name.to_owned(),
        };
        let mut bytes = Vec::new();
        sink.format.group(&mut bytes, &sink.settings, &group);
        sink.write(&mut bytes, &mut Summary::default());
    }
}

/// What a stream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    /// The stream that exists without being created (`CU_STREAM_LEGACY`).
    Default,
    /// The default stream of a thread (`CU_STREAM_PER_THREAD`).
    PerThread,
    /// A stream that the program created.
    Created,
}

impl Shared {
    fn cores(&self) -> Vec<Arc<Core>> {
        self.tracks.lock().cores().collect()
    }

    fn finish(&self) -> io::Result<Summary> {
        for core in self.cores() {
            core.write();
        }
        self.sink.end()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // `Timeline::finish` reports errors.
        let _ = self.finish();
    }
}

impl Tracks {
    fn cores(&self) -> impl Iterator<Item = Arc<Core>> {
        self.threads
            .values()
            .chain(self.counters.values())
            .filter_map(Weak::upgrade)
    }

    /// Removes the entries of dropped tracks, if the number of entries has doubled since the last time.
    fn clean(&mut self) {
        let is_alive = |core: &mut Weak<Core>| core.strong_count() > 0;
        if self.threads.len() + self.counters.len() >= self.clean_at {
            self.threads.retain(|_, core| is_alive(core));
            self.counters.retain(|_, core| is_alive(core));
            self.clean_at = 2 * (self.threads.len() + self.counters.len()) + 64;
        }
    }
}

fn rank(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
