//! Tests of tools that observe kernels ([`margay::observe`]).

mod counts;
mod delivery;
mod engines;
mod events;
mod gate;
mod host;
mod kernels;
mod probes;
mod records;
mod refusals;
mod warps;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use margay::observe::{
    AccessKind, CopyOperation, Event, EventKind, Events, Launch, MemoryOrder, MemoryScope, Request,
    Space, SyncOperation, Tool,
};
use margay::{KernelInfo, LaunchConfig, Runtime, RuntimeBuilder};
use parking_lot::Mutex;

/// One access of a thread: PTX line, space, kind, number of bytes, address. A global address is relative to the buffer.
type ThreadAccess = (u32, Space, AccessKind, u32, u64);

/// One access of a warp: PTX line, mask, addresses of the lanes.
type WarpAccess = (u32, u32, Vec<u64>);

/// An event of a thread other than an access.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Other {
    Synchronisation(SyncOperation),
    Fence(MemoryOrder, MemoryScope),
    Copy(CopyOperation),
    /// The opcode of an instruction, its index in the function, and whether the thread executes it.
    Instruction(String, u32, bool),
    /// A branch, and whether the thread takes it.
    Branch(bool),
}

/// A map of lists. The key consists of the index of the CTA and the index of the thread or warp.
type Table<T> = BTreeMap<(u64, u32), Vec<T>>;

/// A tool that collects the events of each thread and of each warp.
#[derive(Default)]
struct Collector {
    whole_warps: bool,
    /// Whether the tool also requests events other than accesses.
    all: bool,
    others: Mutex<Table<(u32, Other)>>,
    /// For each warp, the PTX line and the lane mask of each event.
    steps: Mutex<Table<(u32, u32)>>,
    threads: Mutex<Table<ThreadAccess>>,
    warps: Mutex<Table<WarpAccess>>,
}

impl Tool for Collector {
    fn name(&self) -> &str {
        "collector"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        let mut all = Request::none().accesses(&Space::ALL, &AccessKind::ALL);
        if self.all {
            all = all
                .events(EventKind::Synchronisation)
                .events(EventKind::AsynchronousCopies)
                .events(EventKind::Fences)
                .events(EventKind::Instructions)
                .events(EventKind::Branches);
        }
        match self.whole_warps {
            true => all.whole_warps(),
            false => all,
        }
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        let Some(cta) = events.cta() else {
            return;
        };
        let cta = cta.linear;
        let (mut threads, mut warps) = (self.threads.lock(), self.warps.lock());
        let (mut others, mut steps) = (self.others.lock(), self.steps.lock());
        for event in events {
            if let Event::Access(access) = event {
                let line = access.position.ptx_line();
                for (lane, address) in access.lanes() {
                    let thread = threads.entry((cta, 32 * access.warp + lane));
                    let what = (line, access.space, access.kind, access.bytes, address);
                    thread.or_default().push(what);
                }
                let addresses = access.lanes().map(|(_, address)| address).collect();
                let warp = warps.entry((cta, access.warp)).or_default();
                warp.push((line, access.mask, addresses));
                let steps = steps.entry((cta, access.warp)).or_default();
                steps.push((line, access.mask));
                continue;
            }
            assert!(self.all, "{event:?} was not requested");
            let (position, warp, mask, what): (_, _, _, Box<dyn Fn(u32) -> Other>) = match event {
                Event::Synchronisation(event) => {
                    let what = move |_| Other::Synchronisation(event.operation);
                    (event.position, event.warp, event.mask, Box::new(what))
                }
                Event::Fence(event) => {
                    let what = move |_| Other::Fence(event.order, event.scope);
                    (event.position, event.warp, event.mask, Box::new(what))
                }
                Event::CopyGroup(event) => {
                    let what = move |_| Other::Copy(event.operation);
                    (event.position, event.warp, event.mask, Box::new(what))
                }
                Event::Instruction(event) => {
                    let opcode = launch.opcode(&event).to_owned();
                    let what = move |lane: u32| {
                        let executes = event.mask >> lane & 1 != 0;
                        Other::Instruction(opcode.clone(), event.index, executes)
                    };
                    (event.position, event.warp, event.active, Box::new(what))
                }
                Event::Branch(event) => {
                    let what = move |lane: u32| Other::Branch(event.taken >> lane & 1 != 0);
                    (event.position, event.warp, event.mask, Box::new(what))
                }
                other => panic!("{other:?} was not requested"),
            };
            let line = position.ptx_line();
            for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
                let thread = others.entry((cta, 32 * warp + lane)).or_default();
                thread.push((line, what(lane)));
            }
            steps.entry((cta, warp)).or_default().push((line, mask));
        }
    }
}

/// The output of a launch, and the records that a tool collected.
#[derive(PartialEq, Eq, Debug)]
struct Ran {
    output: Vec<u32>,
    threads: Table<ThreadAccess>,
    warps: Table<WarpAccess>,
    others: Table<(u32, Other)>,
    steps: Table<(u32, u32)>,
}

/// Number of elements of the buffer that kernels of these tests read and write.
const LEN: usize = 4096;

/// Runs `kernel(buffer)` of the PTX text `text` with a collector of accesses.
fn observe(text: &str, builder: RuntimeBuilder, whole_warps: bool, config: LaunchConfig) -> Ran {
    let tool = Collector {
        whole_warps,
        ..Collector::default()
    };
    observe_with(tool, text, builder, config)
}

/// Runs `kernel(buffer)` of the PTX text `text` with a collector.
fn observe_with(tool: Collector, text: &str, builder: RuntimeBuilder, config: LaunchConfig) -> Ran {
    let tool = Arc::new(tool);
    let runtime = builder.tool(tool.clone()).build().expect("built");
    let (output, base) = run(text, &runtime, config);
    let relative = |space: Space, address: u64| match space {
        Space::Global => address - base,
        _ => address,
    };
    let mut threads = std::mem::take(&mut *tool.threads.lock());
    for access in threads.values_mut().flatten() {
        access.4 = relative(access.1, access.4);
    }
    let warps = std::mem::take(&mut *tool.warps.lock());
    let others = std::mem::take(&mut *tool.others.lock());
    let steps = std::mem::take(&mut *tool.steps.lock());
    Ran {
        output,
        threads,
        warps,
        others,
        steps,
    }
}

/// Runs `kernel(buffer)` of the PTX text `text`. Returns the buffer's content after the launch, and
/// its address.
fn run(text: &str, runtime: &Runtime, config: LaunchConfig) -> (Vec<u32>, u64) {
    let module = runtime.load_ptx(text).expect("loads");
    let kernel = module.kernel("kernel").expect("known");
    let values: Vec<u32> = (0..LEN as u32)
        .map(|i| i.wrapping_mul(0x9e37_79b9))
        .collect();
    let mut buffer = runtime.upload(&values).expect("room");
    runtime
        .launch(&kernel, config, (&mut buffer,))
        .expect("launched");
    let base = buffer.ptr().address();
    (buffer.to_vec().expect("no fault"), base)
}
