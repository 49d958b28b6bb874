//! Tests of the contents of records.

use std::sync::Arc;

use margay::observe::{
    Access, AccessKind, Addresses, Event, Events, Launch, MemoryOrder, MemoryScope, Request, Space,
    Tool,
};
use margay::{EngineChoice, KernelInfo, LaunchConfig, Runtime};
use parking_lot::Mutex;

use super::kernels::{FIRST, module};
use super::{observe, run};

/// Tests the records of a CTA of 48 threads, which has one warp with 32 threads and one warp with
/// 16 threads. Thread `i` stores 4 bytes at offset `4 * i`.
#[test]
fn threads_store_their_elements() {
    let text = module("    st.global.u32 [%own], %i;");
    let config = LaunchConfig::new(2, 48);
    let ran = observe(&text, Runtime::builder(), true, config);
    assert_eq!(ran.threads.len(), 96);
    for ((cta, thread), accesses) in &ran.threads {
        let offset = 4 * (48 * cta + u64::from(*thread));
        let store = (FIRST, Space::Global, AccessKind::Store, 4, offset);
        assert_eq!(*accesses, [store]);
    }
    let masks: Vec<_> = ran.warps.iter().map(|(at, all)| (*at, all[0].1)).collect();
    let expected = [
        ((0, 0), u32::MAX),
        ((0, 1), 0xffff),
        ((1, 0), u32::MAX),
        ((1, 1), 0xffff),
    ];
    assert_eq!(masks, expected);
}

/// A tool that calls a function with each access that the request contains.
struct Each<F>(Request, F);

impl<F: Fn(&Launch, &Access<'_>) + Send + Sync> Tool for Each<F> {
    fn name(&self) -> &str {
        "each"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        self.0
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        for event in events {
            if let Event::Access(access) = event {
                self.1(launch, &access);
            }
        }
    }
}

/// Tests the records of two instructions: a compare-and-swap with release semantics on the word at
/// offset 8 of shared memory, with a generic address, and a volatile load of two 8-byte elements.
#[test]
fn properties_are_those_of_the_instruction() {
    let text = module(
        "    cvta.shared.u64 %x, s;
    atom.release.cta.cas.b32 %b, [%x+8], 0, 1;
    bar.sync 0;
    ld.volatile.shared.v2.u64 {%o, %x}, [s+16];",
    );
    for engine in [EngineChoice::Native, EngineChoice::Interpreter] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Request::none().accesses(&Space::ALL, &AccessKind::ALL);
        let target = Arc::clone(&seen);
        let tool = Each(all, move |launch: &Launch, access: &Access<'_>| {
            assert_eq!(launch.kernel().name, "kernel");
            assert_eq!((launch.grid().x, launch.block().x), (1, 1));
            assert_eq!((launch.static_shared(), launch.dynamic_shared()), (4096, 0));
            assert_eq!((access.warp, access.mask), (0, 1));
            assert_eq!(launch.source(access.position), None);
            let Addresses::Strided { base, .. } = access.addresses else {
                panic!("one lane has any stride");
            };
            let size = (access.bytes, access.element_bytes);
            let order = (access.order, access.scope, access.operation);
            let place = (access.position.ptx_line(), access.space, access.is_generic);
            target.lock().push((place, access.kind, base, size, order));
        });
        let builder = Runtime::builder().engine(engine).tool(Arc::new(tool));
        let runtime = builder.build().expect("built");
        run(&text, &runtime, LaunchConfig::new(1, 1));
        let cas = (
            (FIRST + 1, Space::Shared, true),
            AccessKind::Atomic,
            8,
            (4, 4),
            (MemoryOrder::Release, MemoryScope::Cta, "cas"),
        );
        let load = (
            (FIRST + 3, Space::Shared, false),
            AccessKind::Load,
            16,
            (16, 8),
            (MemoryOrder::Volatile, MemoryScope::System, ""),
        );
        assert_eq!(*seen.lock(), [cas, load], "{engine:?}");
    }
}

/// Tests an asynchronous copy that reads 16 bytes in 20 threads and 4 bytes in the remaining
/// threads, and writes 16 bytes in all threads.
#[test]
fn copies_read_as_many_bytes_as_they_state() {
    let text = module(super::kernels::MEMORY);
    let ran = observe(&text, Runtime::builder(), false, LaunchConfig::new(1, 64));
    let line = FIRST + 19;
    for ((_, thread), accesses) in &ran.threads {
        let copied: Vec<_> = accesses.iter().filter(|access| access.0 == line).collect();
        let bytes = if *thread < 20 { 16 } else { 4 };
        let [read, written] = copied[..] else {
            panic!("a copy reads and writes");
        };
        assert_eq!(
            (read.1, read.2, read.3),
            (Space::Global, AccessKind::Load, bytes)
        );
        let expected = (
            line,
            Space::Shared,
            AccessKind::Store,
            16,
            16 * u64::from(*thread),
        );
        assert_eq!(*written, expected);
    }
}

/// Tests that each of several tools receives only the events that it has requested.
#[test]
fn requests_are_merged() {
    let text = module(super::kernels::BARRIERS);
    let shared = Request::none().accesses(&[Space::Shared], &[AccessKind::Load]);
    let global = Request::none().accesses(&[Space::Global], &AccessKind::ALL);
    let seen = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
    let mut builder = Runtime::builder();
    for (request, seen) in [shared, global].into_iter().zip(&seen) {
        let seen = Arc::clone(seen);
        let tool = Each(request, move |_: &Launch, access: &Access<'_>| {
            let line = access.position.ptx_line() - FIRST;
            let threads = access.mask.count_ones();
            seen.lock().push((line, access.space, access.kind, threads));
        });
        builder = builder.tool(Arc::new(tool));
    }
    let runtime = builder.build().expect("built");
    run(&text, &runtime, LaunchConfig::new(1, 64));
    let totals = seen.map(|seen| {
        let mut sums = std::collections::BTreeMap::new();
        for &(line, space, kind, threads) in &*seen.lock() {
            *sums.entry((line, space, kind)).or_insert(0) += threads;
        }
        sums.into_iter().collect::<Vec<_>>()
    });
    let load = |line, space| ((line, space, AccessKind::Load), 64);
    assert_eq!(
        totals[0],
        [load(10, Space::Shared), load(24, Space::Shared)]
    );
    let store = ((27, Space::Global, AccessKind::Store), 64);
    assert_eq!(totals[1], [load(1, Space::Global), store]);
}
