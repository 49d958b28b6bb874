//! The tool that counts: it observes all kernels, and adds the counts of all threads and launches.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use margay::KernelInfo;
use margay::observe::{
    AccessCount, AccessKind, AllocationKind, CopyDirection, Cta, Event, EventKind, Events,
    HostEvent, Launch, Request, Space, Tool, Worker,
};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::counts::Counts;
use crate::cta::CtaState;
use crate::document::{self, LaunchShape, Profile, Slice};
use crate::kernel::{self, Kernel, Shared};
use crate::options::Options;
use crate::reuse::ReuseDistances;
use crate::save::SavedFile;
use crate::text::Text;

/// A tool that profiles all kernels of a runtime. The crate's documentation contains an example.
#[derive(Debug)]
pub struct Profiler {
    options: Options,
    start: Instant,
    state: Mutex<State>,
    file: Option<SavedFile>,
}

/// The maximum number of launches and copies in the timeline.
const SLICES: usize = 20_000;

#[derive(Default, Debug)]
struct State {
    kernels: FxHashMap<u64, Kernel>,
    copies: BTreeMap<&'static str, (u64, u64)>,
    /// The sizes of the live allocations, by address.
    live: FxHashMap<u64, u64>,
    allocated: u64,
    live_bytes: u64,
    peak_bytes: u64,
    slices: Vec<Slice>,
    dropped_slices: u64,
    /// The beginnings of the launches that run: the number of the launch, and the time.
    running: FxHashMap<u64, Instant>,
}

impl Profiler {
    /// Creates a tool that has counted nothing.
    pub fn new(options: Options) -> Profiler {
        Profiler {
            options,
            start: Instant::now(),
            state: Mutex::default(),
            file: None,
        }
    }

    /// Makes the profiler write its profile to a file: from time to time when a launch has ended, and in
    /// [`Profiler::save`].
    #[must_use]
    pub fn saving_to(mut self, path: PathBuf) -> Profiler {
        self.file = Some(SavedFile::new(path));
        self
    }

    /// Writes the profile to the file of [`Profiler::saving_to`], if there is one. If the file cannot be written, prints
    /// a message to standard error.
    pub fn save(&self) {
        if let Some(file) = &self.file {
            file.write(|| self.profile());
        }
    }

    /// Returns the tools that a runtime must have so that this profiler counts what its options name.
    pub fn tools(self: &Arc<Profiler>) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::clone(self) as Arc<dyn Tool>];
        if self.options.reuse {
            tools.push(Arc::new(Reuse(Arc::clone(self))));
        }
        tools
    }

    /// Returns the profile of the launches that have ended so far.
    pub fn profile(&self) -> Profile {
        let state = self.state.lock();
        let mut kernels: Vec<_> = state
            .kernels
            .values()
            .map(|kernel| kernel::profile(kernel, &kernel.shared.counts.lock(), self.options))
            .collect();
        document::sort(&mut kernels);
        let copies = state
            .copies
            .iter()
            .map(|(direction, &(count, bytes))| document::CopyRow {
                direction: (*direction).to_owned(),
                count,
                bytes,
            });
        Profile {
            format: document::FORMAT.to_owned(),
            version: document::VERSION,
            program: String::new(),
            processes: 1,
            seconds: self.start.elapsed().as_secs_f64(),
            allocated_bytes: state.allocated,
            peak_bytes: state.peak_bytes,
            copies: copies.collect(),
            kernels,
            timeline: state.slices.clone(),
            dropped_slices: state.dropped_slices,
        }
    }

    fn seconds(&self, time: Instant) -> f64 {
        time.saturating_duration_since(self.start).as_secs_f64()
    }

    fn begin(&self, launch: &Launch) {
        let mut state = self.state.lock();
        state.running.insert(launch.id(), Instant::now());
        let kernel = self.kernel_of(&mut state, launch);
        let shape = LaunchShape {
            grid: dimensions(launch.grid()),
            block: dimensions(launch.block()),
            cluster: dimensions(launch.cluster()),
            static_shared: launch.static_shared(),
            dynamic_shared: launch.dynamic_shared(),
        };
        *kernel.shapes.entry(shape).or_default() += 1;
        kernel.launches += 1;
    }

    fn end(&self, launch: &Launch, completed: bool) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let begun = state.running.remove(&launch.id()).unwrap_or(now);
        let seconds = now.saturating_duration_since(begun).as_secs_f64();
        let start = self.seconds(begun);
        let kernel = self.kernel_of(&mut state, launch);
        kernel.seconds += seconds;
        kernel.failed += u64::from(!completed);
        kernel.reuse.end_launch();
        let name = kernel.info.name.clone();
        let shared = Arc::clone(&kernel.shared);
        state.slice(Slice {
            kernel: name,
            start,
            seconds,
        });
        drop(state);
        // A launch that has failed leaves CTAs that have not ended.
        if !completed {
            let mut ctas = shared.ctas.lock();
            let of_launch = ctas.extract_if(|&(of, _), _| of == launch.id());
            of_launch.for_each(|(_, cta)| shared.end_cta(launch.id(), cta));
        }
        shared.end_launch(launch.id());
        if self.file.as_ref().is_some_and(SavedFile::is_due) {
            self.save();
        }
    }

    fn kernel_of<'a>(&self, state: &'a mut State, launch: &Launch) -> &'a mut Kernel {
        let kernels = &mut state.kernels;
        kernels.entry(launch.kernel_id()).or_insert_with(|| Kernel {
            info: launch.kernel().clone(),
            text: Text::default(),
            launches: 0,
            failed: 0,
            seconds: 0.0,
            shapes: BTreeMap::new(),
            shared: Arc::default(),
            reuse: ReuseDistances::default(),
        })
    }

    /// Returns the counts of the launched kernel.
    fn shared_of(&self, launch: &Launch) -> Arc<Shared> {
        let mut state = self.state.lock();
        Arc::clone(&self.kernel_of(&mut state, launch).shared)
    }

    /// Stores the opcodes and source lines of the instructions that the kernel has executed, because the module may be
    /// unloaded later.
    fn keep_text(&self, launch: &Launch) {
        let mut state = self.state.lock();
        let kernel = self.kernel_of(&mut state, launch);
        let shared = Arc::clone(&kernel.shared);
        let counts = shared.counts.lock();
        kernel.text.add(&counts, launch);
    }

    /// Adds the accesses of a CTA to the reuse distances.
    fn reuse(&self, launch: &Launch, events: Events<'_>) {
        let mut state = self.state.lock();
        let kernel = self.kernel_of(&mut state, launch);
        for event in events {
            if let Event::Access(access) = event
                && access.space == Space::Global
            {
                kernel.reuse.request(&access);
            }
        }
    }
}

impl State {
    fn slice(&mut self, slice: Slice) {
        match self.slices.len() < SLICES {
            true => self.slices.push(slice),
            false => self.dropped_slices += 1,
        }
    }
}

fn dimensions(of: margay::Dim3) -> [u32; 3] {
    [of.x, of.y, of.z]
}

impl Tool for Profiler {
    fn name(&self) -> &str {
        "profile"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        let mut request = Request::none().launches();
        if self.options.instructions {
            request = request.events(EventKind::InstructionRuns).whole_warps();
        }
        if self.options.accesses {
            request = request
                .accesses(&Space::ALL, &AccessKind::ALL)
                .events(EventKind::Synchronisation)
                .events(EventKind::Ctas)
                .whole_warps();
        }
        request.counts()
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        for event in events {
            match event {
                Event::KernelBegin => self.begin(launch),
                Event::CtaEnd { cta, .. } => {
                    let shared = self.shared_of(launch);
                    let state = shared.ctas.lock().remove(&(launch.id(), cta.linear));
                    shared.end_cta(launch.id(), state.unwrap_or_default());
                }
                Event::InstructionCount(run) => self.shared_of(launch).counts.lock().run(&run),
                Event::AccessCount(AccessCount {
                    access, requests, ..
                }) => {
                    let shared = self.shared_of(launch);
                    shared.counts.lock().access(&access, requests);
                }
                Event::KernelEnd { completed, .. } => {
                    self.keep_text(launch);
                    self.end(launch, completed);
                }
                _ => {}
            }
        }
    }

    fn worker(&self, launch: &Launch) -> Option<Box<dyn Worker>> {
        let shared = self.shared_of(launch);
        Some(Box::new(Counter {
            counts: Counts::default(),
            cta: None,
            launch: launch.id(),
            block: launch.block().count() as u32,
            keeps_ctas: self.options.accesses,
            shared,
        }))
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn host(&self, event: &HostEvent<'_>) {
        let mut state = self.state.lock();
        match *event {
            HostEvent::Copy {
                direction, bytes, ..
            } => {
                let (count, sum) = state.copies.entry(direction_name(direction)).or_default();
                *count += 1;
                *sum += bytes;
            }
            HostEvent::Fill { bytes, .. } => {
                let (count, sum) = state.copies.entry("fill").or_default();
                *count += 1;
                *sum += bytes;
            }
            HostEvent::Allocate {
                address,
                bytes,
                kind,
                ..
            } if kind != AllocationKind::Pinned => {
                state.live.insert(address, bytes);
                state.allocated += bytes;
                state.live_bytes += bytes;
                state.peak_bytes = state.peak_bytes.max(state.live_bytes);
            }
            HostEvent::Free { address, .. } => {
                let bytes = state.live.remove(&address).unwrap_or(0);
                state.live_bytes -= bytes;
            }
            _ => {}
        }
    }
}

fn direction_name(direction: CopyDirection) -> &'static str {
    match direction {
        CopyDirection::HostToDevice => "host to device",
        CopyDirection::DeviceToHost => "device to host",
        CopyDirection::DeviceToDevice => "device to device",
        CopyDirection::HostToHost => "host to host",
        CopyDirection::Unified => "unified",
    }
}

/// A tool that receives accesses in grid order, and adds them to the reuse distances of a profiler.
struct Reuse(Arc<Profiler>);

impl Tool for Reuse {
    fn name(&self) -> &str {
        "reuse distances"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none()
            .accesses(&[Space::Global], &AccessKind::ALL)
            .whole_warps()
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        if events.cta().is_some() {
            self.0.reuse(launch, events);
        }
    }
}

/// Counts the events of one thread.
struct Counter {
    counts: Counts,
    /// The state of the current CTA.
    cta: Option<CtaState>,
    launch: u64,
    /// The number of threads of a CTA.
    block: u32,
    /// Whether the state of CTAs is needed.
    keeps_ctas: bool,
    shared: Arc<Shared>,
}

impl Worker for Counter {
    fn enter(&mut self, cta: &Cta) {
        if self.keeps_ctas {
            let known = self.shared.ctas.lock().remove(&(self.launch, cta.linear));
            self.cta = Some(known.unwrap_or_default());
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Access(access) => self.counts.access(access, 1),
            Event::Synchronisation(event) => {
                if let Some(cta) = &mut self.cta {
                    cta.arrive(event, self.block, &mut self.counts);
                }
            }
            _ => {}
        }
    }

    fn instructions(&mut self, warp: u32, count: u64) {
        if let Some(cta) = &mut self.cta {
            cta.run(warp, count);
        }
    }

    fn leave(&mut self, cta: &Cta) {
        if let Some(state) = self.cta.take() {
            let mut ctas = self.shared.ctas.lock();
            ctas.insert((self.launch, cta.linear), state);
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.shared.counts.lock().add(&self.counts);
    }
}
