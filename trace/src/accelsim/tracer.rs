//! The tool that writes traces.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use margay::KernelInfo;
use margay::files;
use margay::observe::{
    AccessKind, CopyDirection, Event, EventKind, Events, HostEvent, Launch, Request, Space, Tool,
};
use margay_accelsim::{self as format, Command, Dim3, Header};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::kernel::{Counts, Kernel, names};
use super::listing::Listing;
use super::options::Options;
use super::sass::Architecture;
use super::warps::{LOCAL_BASE, SHARED_BASE};

/// A tool that writes a trace of all kernels of a runtime.
pub struct Tracer {
    folder: PathBuf,
    options: Arc<Options>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lists: Lists,
    /// The number of launches so far.
    launches: u64,
    /// The launches that run, by the runtime's number.
    running: FxHashMap<u64, Running>,
    /// The listings, by the runtime's number of the kernel. `None` if the kernel cannot be traced.
    listings: FxHashMap<u64, Option<Arc<Listing>>>,
    /// The streams that the program has created. Other streams are default streams.
    streams: FxHashSet<u64>,
    /// Lines of `stats.csv` behind a launch that has not ended, by number. `None` if the launch has not ended.
    stats: BTreeMap<u64, Option<format::Launch>>,
    is_active: bool,
    /// The kernels for which a message has been printed.
    reported: FxHashSet<String>,
}

/// A launch that is traced.
struct Running {
    number: u64,
    /// The number of the work, when the launch is submitted.
    work: Option<u64>,
    stream: u64,
    /// Whether the lists name the launch.
    is_listed: bool,
    listing: Arc<Listing>,
    architecture: Architecture,
    /// The trace, when the launch has begun. Only the thread that delivers the events of the launch locks it.
    kernel: Option<Arc<Mutex<Option<Kernel>>>>,
}

/// The files that list all launches.
#[derive(Default)]
struct Lists {
    raw: Option<fs::File>,
    grouped: Option<fs::File>,
    stats: Option<fs::File>,
}

impl Tracer {
    /// Creates a tracer that writes to `folder`, which is created if necessary. Lists in the folder are overwritten.
    ///
    /// # Errors
    /// Those of the folder and the lists.
    pub fn new(folder: &Path, options: Options) -> io::Result<Tracer> {
        fs::create_dir_all(folder)?;
        let create = |name: &str, wanted: bool| match wanted {
            true => fs::File::create(folder.join(name)).map(Some),
            false => Ok(None),
        };
        let forms = options.forms;
        let mut lists = Lists {
            raw: create("kernelslist", forms.raw)?,
            grouped: create("kernelslist.g", forms.grouped || forms.packed)?,
            stats: create("stats.csv", true)?,
        };
        if let Some(stats) = &mut lists.stats {
            format::Launch::write_columns(stats)?;
        }
        Ok(Tracer {
            folder: folder.to_owned(),
            state: Mutex::new(State {
                lists,
                is_active: options.active_from_start,
                ..State::default()
            }),
            options: Arc::new(options),
        })
    }

    /// Gives a launch its number, and decides whether it is traced.
    fn decide(&self, launch: &Launch) -> bool {
        let mut state = self.state.lock();
        state.launches += 1;
        let number = state.launches;
        let options = &self.options;
        if options.active_from_start && options.terminate && number > *options.launches.end() {
            drop(state);
            self.terminate();
        }
        let is_wanted = match options.active_from_start {
            true => options.launches.contains(&number),
            false => state.is_active,
        };
        let architecture = options.architecture;
        let architecture =
            architecture.unwrap_or_else(|| Architecture::of_target(launch.kernel().target));
        let listing = match is_wanted {
            true => self.listing(&mut state, launch, architecture),
            false => None,
        };
        match listing {
            Some(listing) => {
                state.stats.insert(number, None);
                let running = Running {
                    number,
                    work: None,
                    stream: 0,
                    is_listed: false,
                    listing,
                    architecture,
                    kernel: None,
                };
                state.running.insert(launch.id(), running);
                true
            }
            None => {
                let line = self.stats(launch, number, Counts::default());
                self.add_stats(&mut state, number, line);
                false
            }
        }
    }

    /// Ends the process when the launches to trace are complete.
    #[allow(
        clippy::exit,
        reason = "TERMINATE_UPON_LIMIT of the original tracer ends the process"
    )]
    fn terminate(&self) -> ! {
        // Launches that were never submitted have no end.
        let is_open = |running: &Running| running.is_listed;
        while self.state.lock().running.values().any(is_open) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::process::exit(0)
    }

    fn listing(
        &self,
        state: &mut State,
        launch: &Launch,
        architecture: Architecture,
    ) -> Option<Arc<Listing>> {
        if let Some(known) = state.listings.get(&launch.kernel_id()) {
            return known.clone();
        }
        let listing = match Listing::new(launch, architecture) {
            Ok(listing) => Some(Arc::new(listing)),
            Err(unsupported) => {
                let name = &launch.kernel().name;
                if state.reported.insert(name.clone()) {
                    files::tell(format_args!(
                        "margay: {name} is not traced: Accel-Sim has no instruction for `{}` (PTX line {})",
                        unsupported.opcode, unsupported.ptx_line
                    ));
                }
                None
            }
        };
        state.listings.insert(launch.kernel_id(), listing.clone());
        listing
    }

    fn header(&self, launch: &Launch, running: &Running) -> Header {
        let kernel = launch.kernel();
        let mut header = Header::new(
            &kernel.name,
            running.number,
            dim(launch.grid()),
            dim(launch.block()),
        );
        header.shared_bytes =
            u64::from(launch.static_shared()) + u64::from(launch.dynamic_shared());
        // The simulator divides the register file by this number.
        header.registers = match kernel.registers {
            0 => running.listing.registers,
            known => known,
        };
        header.binary_version = running.architecture.number();
        header.stream = running.stream;
        header.shared_base = SHARED_BASE;
        header.local_base = LOCAL_BASE;
        header.nvbit_version = concat!("margay ", env!("CARGO_PKG_VERSION")).to_owned();
        header.tracer_version = self.options.version;
        header.line_numbers = self.options.line_numbers;
        header
    }

    fn begin(&self, launch: &Launch) {
        let mut state = self.state.lock();
        // Launches by device code are not submitted by the program.
        self.list_launch(&mut state, launch.id());
        let Some(running) = state.running.get_mut(&launch.id()) else {
            return;
        };
        let header = self.header(launch, running);
        let created = Kernel::create(&self.folder, &self.options, &running.listing, header);
        let kernel = match created {
            Ok(kernel) => Some(kernel),
            Err(error) => {
                files::tell(format_args!("margay: the trace is incomplete: {error}"));
                None
            }
        };
        running.kernel = Some(Arc::new(Mutex::new(kernel)));
        if self.options.verbose {
            let (number, name) = (running.number, &launch.kernel().name);
            files::tell(format_args!("margay: tracing kernel {number}: {name}"));
        }
    }

    fn end(&self, launch: &Launch) {
        let running = self.state.lock().running.remove(&launch.id());
        let Some(running) = running else {
            return;
        };
        let kernel = running.kernel.and_then(|kernel| kernel.lock().take());
        let counts = kernel.map_or(Ok(Counts::default()), Kernel::finish);
        let counts = counts.unwrap_or_else(|error| {
            let name = &launch.kernel().name;
            files::tell(format_args!(
                "margay: the trace of {name} is incomplete: {error}"
            ));
            Counts::default()
        });
        let line = self.stats(launch, running.number, counts);
        self.add_stats(&mut self.state.lock(), running.number, line);
    }

    fn stats(&self, launch: &Launch, number: u64, counts: Counts) -> format::Launch {
        let names = names(&self.options, number);
        format::Launch {
            file: names
                .raw
                .or(names.grouped)
                .or(names.packed)
                .unwrap_or_default(),
            kernel_name: launch.kernel().name.clone(),
            grid: dim(launch.grid()),
            block: dim(launch.block()),
            total: counts.all,
            reported: counts.written,
        }
    }

    /// Adds a line to `stats.csv`, whose lines are in the order of the launches.
    fn add_stats(&self, state: &mut State, number: u64, line: format::Launch) {
        state.stats.insert(number, Some(line));
        while let Some(entry) = state.stats.first_entry() {
            if entry.get().is_none() {
                break;
            }
            if let Some(line) = entry.remove() {
                write_stats(&mut state.lists.stats, &line);
            }
        }
    }

    fn launched(&self, launch: u64, work: u64, stream: Option<u64>) {
        let mut state = self.state.lock();
        let known = stream.filter(|stream| state.streams.contains(stream));
        if let Some(running) = state.running.get_mut(&launch) {
            running.stream = known.unwrap_or(0);
            running.work = Some(work);
        }
        self.list_launch(&mut state, launch);
    }

    /// Adds a launch to the lists, unless they contain it.
    fn list_launch(&self, state: &mut State, launch: u64) {
        let Some(running) = state.running.get_mut(&launch) else {
            return;
        };
        if std::mem::replace(&mut running.is_listed, true) {
            return;
        }
        let names = names(&self.options, running.number);
        if let Some(name) = names.raw {
            list("kernelslist", &mut state.lists.raw, Command::Kernel(name));
        }
        if let Some(name) = names.grouped.or(names.packed) {
            list(
                "kernelslist.g",
                &mut state.lists.grouped,
                Command::Kernel(name),
            );
        }
    }

    /// Forgets a launch that has ended without a beginning, because the context has failed.
    fn cancelled(&self, work: u64) {
        let mut state = self.state.lock();
        let of_work =
            |running: &mut Running| running.work == Some(work) && running.kernel.is_none();
        let numbers: Vec<u64> = state
            .running
            .extract_if(|_, running| of_work(running))
            .map(|(_, running)| running.number)
            .collect();
        for number in numbers {
            state.stats.remove(&number);
        }
    }

    /// Writes the lines of `stats.csv` that wait for the line of a launch that has no end.
    pub fn finish(&self) {
        let mut state = self.state.lock();
        let waiting = std::mem::take(&mut state.stats);
        for line in waiting.into_values().flatten() {
            write_stats(&mut state.lists.stats, &line);
        }
    }

    fn copied(&self, address: u64, bytes: u64) {
        let mut state = self.state.lock();
        let State { lists, .. } = &mut *state;
        for (name, file) in [
            ("kernelslist", &mut lists.raw),
            ("kernelslist.g", &mut lists.grouped),
        ] {
            list(name, file, Command::MemcpyHtoD { address, bytes });
        }
    }
}

fn write_stats(file: &mut Option<fs::File>, line: &format::Launch) {
    if let Some(file) = file {
        let mut text = Vec::new();
        let written = line
            .write_begin(&mut text)
            .and_then(|()| line.write_end(&mut text));
        report("stats.csv", written.and_then(|()| file.write_all(&text)));
    }
}

/// Appends a command to a list, if there is one.
fn list(name: &str, file: &mut Option<fs::File>, command: Command) {
    if let Some(file) = file {
        let mut text = Vec::new();
        let written = command.write(&mut text);
        report(name, written.and_then(|()| file.write_all(&text)));
    }
}

fn report(name: &str, result: io::Result<()>) {
    if let Err(error) = result {
        files::tell(format_args!(
            "margay: the trace is incomplete: {name}: {error}"
        ));
    }
}

fn dim(of: margay::Dim3) -> Dim3 {
    Dim3::new(of.x, of.y, of.z)
}

impl Tool for Tracer {
    fn name(&self) -> &str {
        "Accel-Sim trace"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none()
            .events(EventKind::Instructions)
            .events(EventKind::Ctas)
            .accesses(&Space::ALL, &AccessKind::ALL)
            .whole_warps()
    }

    fn observes(&self, launch: &Launch) -> bool {
        self.decide(launch)
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        if events.cta().is_some() {
            let kernel = {
                let state = self.state.lock();
                state
                    .running
                    .get(&launch.id())
                    .and_then(|running| running.kernel.clone())
            };
            if let Some(kernel) = kernel
                && let Some(kernel) = &mut *kernel.lock()
            {
                kernel.add(events);
            }
            return;
        }
        for event in events {
            match event {
                Event::KernelBegin => self.begin(launch),
                Event::KernelEnd { .. } => self.end(launch),
                _ => {}
            }
        }
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn observes_calls(&self) -> bool {
        !self.options.active_from_start
    }

    fn host(&self, event: &HostEvent<'_>) {
        match *event {
            HostEvent::Launch {
                launch,
                work,
                stream,
                ..
            } => self.launched(launch, work, stream),
            HostEvent::EndWork { work } => self.cancelled(work),
            HostEvent::Copy {
                direction: CopyDirection::HostToDevice,
                bytes,
                to,
                ..
            } => self.copied(to, bytes),
            HostEvent::CreateStream { stream, .. } => {
                self.state.lock().streams.insert(stream);
            }
            HostEvent::BeginCall { name, .. } if !self.options.active_from_start => match name {
                "cuProfilerStart" => self.state.lock().is_active = true,
                "cuProfilerStop" => self.state.lock().is_active = false,
                _ => {}
            },
            _ => {}
        }
    }
}
