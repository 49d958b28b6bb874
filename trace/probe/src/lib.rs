//! Neutrino probes for Margay: probe files, PTX with probes, the memory of maps, and result files.
//!
//! A *probe* is PTX text that runs at selected instructions of a kernel, and a *map* stores what probes save. This
//! crate works on texts and bytes; it launches nothing.
//!
//! 1. [`load()`] reads a probe file: TOML in one of three spellings, a Python program, or the name of a shipped one.
//! 2. [`rewrite()`] inserts the probes into the PTX of a module. [`compat::probe`] does the same in the manner of the
//!    original engine.
//! 3. [`MapLayout`] says how much memory each map needs for a launch, and reads the memory after it.
//! 4. [`ResultFile`] writes the file that Neutrino's programs read, and [`Trace`] reads it. [`reader()`] generates
//!    `read.py`, and [`Event`], [`kernel_info`] and the folder names complete the folder of results.
//!
//! ```
//! use std::sync::Arc;
//!
//! use margay_frontend::{SourceFile, parse};
//! use margay_probe::{Faults, Geometry, MapLayout, Options, ResultFile, Selection, Storage};
//!
//! let text = ".version 7.0 .target sm_80 .address_size 64
//!     .visible .entry clear(.param .u64 to) {
//!         .reg .b64 %a;
//!         ld.param.u64 %a, [to];
//!         st.global.u32 [%a], 0;
//!         ret;
//!     }";
//! let file = margay_probe::load("gmem_bytes", None, Faults::Fixed)?;
//! let parsed = parse(Arc::new(SourceFile::new("clear.ptx", text)));
//! let probed = margay_probe::rewrite(&parsed, &file, &Selection::default(), Options::default())?;
//! assert!(probed.text.contains(".param .u64 param_GMEMBytes"));
//!
//! let launch = Geometry { grid: [1, 1, 1], block: [2, 1, 1], shared: 0 };
//! let layout = MapLayout::new(&file.maps[0], Storage::Counted);
//! let mut memory = vec![0; layout.device_bytes(&launch)? as usize];
//! let header = layout.header(memory.len() as u64);
//! memory[..header.len()].copy_from_slice(&header);
//! // A launch with the address of `memory` as additional argument runs here.
//! let section = layout.section(&memory, &launch)?;
//! let mut bytes = Vec::new();
//! ResultFile { launch, sections: vec![section], offsets: Default::default() }.write(&mut bytes)?;
//! assert_eq!(bytes.len(), 32 + 16 + 2 * 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod compat;
mod dsl;
mod error;
mod event;
mod folder;
mod layout;
mod load;
mod model;
mod options;
mod point;
mod reader;
mod result;
mod rewrite;
mod section;
mod select;
pub mod snippet;
mod toml_file;
mod tools;
mod width;

pub use dsl::{Faults, load_dsl};
pub use error::Error;
pub use event::Event;
pub use folder::{LocalTime, kernel_folder, kernel_info, result_file, trace_folder};
pub use layout::{
    CHUNK_HEADER_BYTES, FIRST_RECORDS, Geometry, HEADER_BYTES, LayoutError, MapLayout, Storage,
};
pub use load::load;
pub use model::{Capacity, Field, Level, Map, Packing, Point, Probe, ProbeFile};
pub use options::{Addresses, AfterTransfer, Matching, Options};
pub use reader::{Warps, reader};
pub use result::{Offsets, ResultFile, Trace, TraceError, TraceSection};
pub use rewrite::{Kernel, Outcome, Rewritten, rewrite};
pub use section::Section;
pub use select::Selection;
pub use toml_file::load as load_toml;
pub use tools::{TOOLS, callback, tool};
pub use width::Width;
