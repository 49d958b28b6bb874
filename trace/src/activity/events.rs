//! Turns the events of a runtime into records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use margay::KernelInfo;
use margay::observe::{
    AllocationKind, Annotation, AnnotationKind, AnnotationPayload, CopyDirection, Event, Events,
    Gate, HostEvent, Launch, MemoryPlace, Request, Tool, WaitKind,
};
use margay_activity::{
    CopyKind, CudaEvent, Function, Kind, Marker, MarkerData, MarkerKind, Memory, MemoryKind,
    Module, Name, Payload, Record, Stream, StreamFlag, Synchronisation, SynchronisationKind,
};

use super::pending::{Begun, Launched, MOST_EVENTS, What};
use super::thread::OpenWait;
use super::{At, Recorder};

/// The kinds of kernels.
const KERNELS: [Kind; 2] = [Kind::Kernel, Kind::ConcurrentKernel];

fn memory_of(place: MemoryPlace) -> MemoryKind {
    match place {
        MemoryPlace::Pageable => MemoryKind::Pageable,
        MemoryPlace::Pinned => MemoryKind::Pinned,
        MemoryPlace::Managed => MemoryKind::Managed,
        _ => MemoryKind::Device,
    }
}

fn memory_of_allocation(kind: AllocationKind) -> MemoryKind {
    match kind {
        AllocationKind::Device => MemoryKind::Device,
        AllocationKind::Managed => MemoryKind::Managed,
        AllocationKind::Pinned => MemoryKind::Pinned,
    }
}

fn is_host(memory: MemoryKind) -> bool {
    matches!(memory, MemoryKind::Pageable | MemoryKind::Pinned)
}

/// Returns the direction of a copy. If the program has not stated it, the memory determines it.
fn copy_kind(direction: CopyDirection, from: MemoryKind, to: MemoryKind) -> CopyKind {
    match direction {
        CopyDirection::HostToDevice => CopyKind::HostToDevice,
        CopyDirection::DeviceToHost => CopyKind::DeviceToHost,
        CopyDirection::DeviceToDevice => CopyKind::DeviceToDevice,
        CopyDirection::HostToHost => CopyKind::HostToHost,
        CopyDirection::Unified => match (is_host(from), is_host(to)) {
            (true, false) => CopyKind::HostToDevice,
            (false, true) => CopyKind::DeviceToHost,
            (false, false) => CopyKind::DeviceToDevice,
            (true, true) => CopyKind::HostToHost,
        },
    }
}

/// Returns the devices of the source and of the destination, if they differ.
fn devices([to, from]: [MemoryPlace; 2]) -> Option<[u32; 2]> {
    match (from, to) {
        (MemoryPlace::Device(from), MemoryPlace::Device(to)) if from != to => {
            Some([from as u32, to as u32])
        }
        _ => None,
    }
}

fn wait_kind(kind: WaitKind) -> SynchronisationKind {
    match kind {
        WaitKind::Event => SynchronisationKind::Event,
        WaitKind::StreamEvent => SynchronisationKind::StreamEvent,
        WaitKind::Stream => SynchronisationKind::Stream,
        WaitKind::Context => SynchronisationKind::Context,
    }
}

impl Recorder {
    fn copy(&self, work: u64, at: At, direction: CopyDirection, what: (u64, [MemoryPlace; 2])) {
        let (bytes, places) = what;
        let devices = devices(places);
        // Without records for peer copies, such a copy is a plain one.
        let peers = devices.filter(|_| self.has_kind(Kind::PeerCopy));
        let wanted = match peers {
            Some(_) => true,
            None => self.has_kind(Kind::Copy),
        };
        if !wanted {
            return;
        }
        let [to, from] = places.map(memory_of);
        let kind = match devices {
            Some(_) => CopyKind::PeerToPeer,
            None => copy_kind(direction, from, to),
        };
        self.describe(work, at, |is_asynchronous| What::Copy {
            kind,
            from,
            to,
            bytes,
            is_asynchronous,
            devices: peers,
        });
    }

    fn begin_wait(&self, wait: OpenWait) {
        self.here(|here| here.waits.push(wait));
    }

    fn end_wait(&self) {
        let Some(wait) = self.here(|here| here.waits.pop()).flatten() else {
            return;
        };
        if !self.has_kind(Kind::Synchronisation) {
            return;
        }
        let (correlation, _) = self.origin();
        let event = wait.event.map(u64::from);
        let record = event.and_then(|event| self.pending.lock().recorded.get(&event).copied());
        self.send(Record::Synchronisation(Synchronisation {
            kind: wait.kind,
            start: wait.start,
            end: self.now(),
            correlation,
            context: wait.context,
            stream: wait.stream,
            event: wait.event,
            record: record.unwrap_or(0),
        }));
    }

    fn record_event(&self, event: u64, at: &At) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if !self
            .kinds
            .has_any(&[Kind::CudaEvent, Kind::Synchronisation])
        {
            return;
        }
        let record = NEXT.fetch_add(1, Ordering::Relaxed);
        {
            let mut pending = self.pending.lock();
            if pending.recorded.len() >= MOST_EVENTS {
                pending.recorded.clear();
            }
            pending.recorded.insert(event, record);
        }
        let (correlation, _) = self.origin();
        self.send(Record::CudaEvent(CudaEvent {
            id: event as u32,
            context: at.context as u32,
            device: at.device as u32,
            stream: at.stream.unwrap_or(0) as u32,
            correlation,
            record,
        }));
    }

    fn memory(&self, address: u64, bytes: u64, kind: AllocationKind, owner: (u64, i32, bool)) {
        if !self.has_kind(Kind::Memory) {
            return;
        }
        let (context, device, is_release) = owner;
        let (correlation, is_asynchronous) = self
            .here(|here| {
                let call = here.calls.last()?;
                Some((call.correlation, call.name.contains("Async")))
            })
            .flatten()
            .unwrap_or((0, false));
        self.send(Record::Memory(Memory {
            is_release,
            kind: memory_of_allocation(kind),
            correlation,
            address,
            bytes,
            time: self.now(),
            process: self.process(),
            device: device as u32,
            context: context as u32,
            is_asynchronous,
        }));
    }

    fn load_module(&self, module: u64, context: u64, kernels: &[KernelInfo]) {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let (module, context) = (module as u32, context as u32);
        self.send(Record::Module(Module {
            id: module,
            context,
        }));
        if !self.has_kind(Kind::Function) {
            return;
        }
        for (index, kernel) in kernels.iter().enumerate() {
            self.send(Record::Function(Function {
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                context,
                module,
                index: index as u32,
                name: Name::of(&kernel.name),
            }));
        }
    }

    fn annotate(&self, annotation: &Annotation<'_>) {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        if !self.kinds.has_any(&[Kind::Marker, Kind::MarkerData]) {
            return;
        }
        let fresh = || NEXT.fetch_add(1, Ordering::Relaxed);
        let (kind, id) = match annotation.kind {
            AnnotationKind::Mark => (MarkerKind::Mark, Some(fresh())),
            AnnotationKind::Push => {
                let id = fresh();
                self.here(|here| here.ranges.push(id));
                (MarkerKind::Start, Some(id))
            }
            AnnotationKind::Pop => (
                MarkerKind::End,
                self.here(|here| here.ranges.pop()).flatten(),
            ),
            AnnotationKind::Start => {
                let id = fresh();
                let mut pending = self.pending.lock();
                if pending.ranges.len() < MOST_EVENTS {
                    pending.ranges.insert(annotation.range, id);
                }
                (MarkerKind::Start, Some(id))
            }
            AnnotationKind::End => (
                MarkerKind::End,
                self.pending.lock().ranges.remove(&annotation.range),
            ),
        };
        // The range began before the recording, or the program has begun too many.
        let Some(id) = id else {
            return;
        };
        let is_end = kind == MarkerKind::End;
        self.send(Record::Marker(Marker {
            kind,
            time: self.now(),
            id,
            process: self.process(),
            thread: self.thread(),
            name: (!is_end).then(|| Name::of(annotation.text)),
            domain: (!annotation.domain.is_empty()).then(|| Name::of(annotation.domain)),
        }));
        if !is_end {
            self.send(Record::MarkerData(MarkerData {
                id,
                colour: annotation.colour,
                category: annotation.category,
                payload: annotation.payload.map(|payload| match payload {
                    AnnotationPayload::Unsigned(value) => Payload::Unsigned(value),
                    AnnotationPayload::Signed(value) => Payload::Signed(value),
                    AnnotationPayload::Float(value) => Payload::Float(value),
                }),
            }));
        }
    }
}

impl Tool for Recorder {
    fn name(&self) -> &str {
        "activity records"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none().launches()
    }

    fn observes(&self, _: &Launch) -> bool {
        self.kinds.has_any(&KERNELS)
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        for event in events {
            if let Event::KernelBegin = event {
                let cluster = launch.cluster();
                let cluster = match cluster.count() {
                    1 => [0; 3],
                    _ => [cluster.x, cluster.y, cluster.z],
                };
                let begun = Begun {
                    cluster,
                    registers: launch.kernel().registers,
                    static_shared: launch.static_shared(),
                };
                let now = self.now();
                self.pending.lock().begin_launch(launch.id(), now, begun);
            }
        }
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn observes_calls(&self) -> bool {
        self.is_open()
    }

    fn gate(&self) -> Option<Arc<Gate>> {
        Some(Arc::clone(&self.gate))
    }

    fn host(&self, event: &HostEvent<'_>) {
        match *event {
            HostEvent::BeginCall { call, name, .. } => self.begin_call(call, name),
            HostEvent::EndCall { call, result, .. } => self.end_call(call, result),
            HostEvent::Launch {
                launch,
                work,
                kernel,
                grid,
                block,
                dynamic_shared,
                stream,
                context,
                device,
                ..
            } if self.kinds.has_any(&KERNELS) => {
                let at = At {
                    context,
                    device,
                    stream,
                };
                self.describe(work, at, |_| {
                    What::Kernel(Box::new(Launched {
                        launch,
                        is_concurrent: self.has_kind(Kind::ConcurrentKernel),
                        name: Name::of(kernel),
                        grid: [grid.x, grid.y, grid.z].map(|size| size as i32),
                        block: [block.x, block.y, block.z].map(|size| size as i32),
                        dynamic_shared,
                        begun: Begun::default(),
                    }))
                });
            }
            HostEvent::Copy {
                work,
                direction,
                bytes,
                places,
                stream,
                context,
                device,
                ..
            } => {
                let at = At {
                    context,
                    device,
                    stream,
                };
                self.copy(work, at, direction, (bytes, places));
            }
            HostEvent::Fill {
                work,
                bytes,
                value,
                place,
                stream,
                context,
                device,
                ..
            } if self.has_kind(Kind::Fill) => {
                let at = At {
                    context,
                    device,
                    stream,
                };
                self.describe(work, at, |is_asynchronous| What::Fill {
                    value,
                    bytes,
                    memory: memory_of(place),
                    is_asynchronous,
                });
            }
            HostEvent::LaunchGraph { graph, stream } => {
                self.here(|here| here.graph = Some((graph, stream)));
            }
            HostEvent::BeginWork { work } => self.begin(work),
            HostEvent::EndWork { work } => self.end(work),
            HostEvent::BeginWait {
                kind,
                context,
                stream,
                event,
            } => self.begin_wait(OpenWait {
                kind: wait_kind(kind),
                start: self.now(),
                context: context as u32,
                stream: stream.map(|stream| stream as u32),
                event: event.map(|event| event as u32),
            }),
            HostEvent::EndWait => self.end_wait(),
            HostEvent::CreateStream {
                stream,
                context,
                priority,
                is_blocking,
            } if self.has_kind(Kind::Stream) => {
                let (correlation, _) = self.origin();
                self.send(Record::Stream(Stream {
                    context: context as u32,
                    id: stream as u32,
                    priority,
                    flag: match is_blocking {
                        true => StreamFlag::Default,
                        false => StreamFlag::NonBlocking,
                    },
                    correlation,
                }));
            }
            HostEvent::RecordEvent {
                event,
                stream,
                context,
                device,
                ..
            } => {
                let at = At {
                    context,
                    device,
                    stream: Some(stream),
                };
                self.record_event(event, &at);
            }
            HostEvent::Allocate {
                address,
                bytes,
                kind,
                context,
                device,
            } => self.memory(address, bytes, kind, (context, device, false)),
            HostEvent::Free {
                address,
                bytes,
                kind,
                context,
                device,
            } => self.memory(address, bytes, kind, (context, device, true)),
            HostEvent::LoadModule {
                module,
                context,
                kernels,
            } => self.load_module(module, context, kernels),
            HostEvent::Annotate(ref annotation) => self.annotate(annotation),
            _ => {}
        }
    }
}
