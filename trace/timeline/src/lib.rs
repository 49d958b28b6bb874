//! The timeline of a CUDA program, as a file for [Perfetto](https://ui.perfetto.dev) or in Chrome's JSON format.
//!
//! A [`Timeline`] writes a file while the program runs. It consists of groups ([`Process`]) of tracks: the threads of
//! the program, the streams of each device, counters of memory, and the worker threads of the runtime. A [`Track`]
//! holds slices, which have a begin, an end and arguments ([`Event`]); arrows ([`FlowKind`]) lead from a launch to the run
//! of the kernel, and from an operation to those that depend on it. [`nvtx`] contains the data of NVTX, with which
//! programs annotate their timeline.
//!
//! - Each track has its own buffer, so that threads do not wait for each other. Buffers contain complete events, and
//!   they are written when they are full, after a second, and when the timeline ends.
//! - A file that ends early, because the program does, can be loaded.
//! - The memory is bounded: the buffers, the interned strings and the open slices of a track have limits, and what is
//!   omitted is counted in the [`Summary`].
//!
//! ```
//! use margay_timeline::{Arg, Event, FlowKind, Format, Options, StreamKind, Timeline, category};
//!
//! let path = std::env::temp_dir().join(format!("timeline-{}.pftrace", std::process::id()));
//! let timeline = Timeline::create(&path, &Options::new(Format::Perfetto, 4711, "vecadd"))?;
//! let thread = timeline.host_thread(4711, "main");
//! let stream = timeline.stream(0, 7, StreamKind::Default);
//!
//! let args = [Arg::new("result", 0)];
//! thread.slice(1_000, 5_000, &Event::new(category::DRIVER, "cuLaunchKernel").correlation(1).args(&args));
//! let run = stream.slice(6_000, 90_000, &Event::new(category::KERNEL, "add").correlation(1));
//! stream.flow(FlowKind::Launch, 1, thread.point(4_000), run);
//!
//! let summary = timeline.finish()?;
//! assert_eq!((summary.slices, summary.flows, summary.overlaps), (2, 1, 0));
//! # std::fs::remove_file(path)?;
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

mod chrome;
mod describe;
mod encoder;
mod event;
mod flow;
mod intern;
mod lane;
mod layout;
mod nesting;
pub mod nvtx;
mod perfetto;
mod protobuf;
mod sink;
mod text;
mod timeline;
mod track;

pub use describe::Clocks;
pub use encoder::Format;
pub use event::{Arg, Event, MAX_DEPTH, TOO_DEEP, Value, category};
pub use flow::{FlowEnd, FlowKind, Span};
pub use layout::Process;
pub use sink::{Overlap, Summary};
pub use text::{MAX_TEXT, text_of_bytes, text_of_wide};
pub use timeline::{Options, Quantity, StreamKind, Timeline};
pub use track::{Counter, Track};
