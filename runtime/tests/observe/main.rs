//! Tools that observe kernels ([`margay::observe`]).

mod delivery;
mod engines;
mod kernels;
mod records;
mod refusals;
mod warps;

use std::collections::BTreeMap;
use std::sync::Arc;

use margay::observe::{AccessKind, Event, Events, Launch, Request, Space, Tool};
use margay::{KernelInfo, LaunchConfig, Runtime, RuntimeBuilder};
use parking_lot::Mutex;

/// One access of a thread: PTX line, space, kind, number of bytes, address. A global address is relative to the buffer.
type ThreadAccess = (u32, Space, AccessKind, u32, u64);

/// One access of a warp: PTX line, mask, addresses of the lanes.
type WarpAccess = (u32, u32, Vec<u64>);

/// Collects all accesses by CTA and thread, and by CTA and warp.
#[derive(Default)]
struct Collector {
    whole_warps: bool,
    threads: Mutex<BTreeMap<(u64, u32), Vec<ThreadAccess>>>,
    warps: Mutex<BTreeMap<(u64, u32), Vec<WarpAccess>>>,
}

impl Tool for Collector {
    fn name(&self) -> &str {
        "collector"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        let all = Request::none().accesses(&Space::ALL, &AccessKind::ALL);
        match self.whole_warps {
            true => all.whole_warps(),
            false => all,
        }
    }

    fn events(&self, _: &Launch, events: Events<'_>) {
        let Some(cta) = events.cta() else {
            return;
        };
        let (mut threads, mut warps) = (self.threads.lock(), self.warps.lock());
        for event in events {
            let Event::Access(access) = event else {
                panic!("{event:?} was not requested");
            };
            let line = access.position.ptx_line();
            for (lane, address) in access.lanes() {
                let thread = threads.entry((cta.linear, 32 * access.warp + lane));
                let what = (line, access.space, access.kind, access.bytes, address);
                thread.or_default().push(what);
            }
            let addresses = access.lanes().map(|(_, address)| address).collect();
            let warp = warps.entry((cta.linear, access.warp));
            warp.or_default().push((line, access.mask, addresses));
        }
    }
}

/// What a run of a kernel produced.
#[derive(PartialEq, Eq, Debug)]
struct Ran {
    output: Vec<u32>,
    threads: BTreeMap<(u64, u32), Vec<ThreadAccess>>,
    warps: BTreeMap<(u64, u32), Vec<WarpAccess>>,
}

/// Number of elements of the buffer that kernels of these tests read and write.
const LEN: usize = 4096;

/// Runs `kernel(buffer)` of a module with a collector.
fn observe(text: &str, builder: RuntimeBuilder, whole_warps: bool, config: LaunchConfig) -> Ran {
    let tool = Arc::new(Collector {
        whole_warps,
        ..Collector::default()
    });
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
    Ran {
        output,
        threads,
        warps,
    }
}

/// Runs `kernel(buffer)` of a module. Returns the buffer's content and its address.
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
