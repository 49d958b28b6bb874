//! The submission of kernels, copies and fills: nodes of the graph.

use std::ffi::CStr;
use std::sync::atomic::AtomicBool;

use crate::abi::{KernelEnqueue, point};
use crate::channels::{Channel, Points};
use crate::framework::User;
use crate::input::{CopyKind, Location};
use crate::operation::{Operation, Submitted};
use crate::producer::Producer;
use crate::sites::Key;
use crate::submission::{Copy, Dependence, Fill, KernelInfo, Launch};
use crate::values::{Entry, Value, argument_key};

/// The trace points that need the event of an operation.
const OPERATION_POINTS: Points = Points::of(&[
    point::NODE_CREATE,
    point::EDGE_CREATE,
    point::TASK_BEGIN,
    point::TASK_END,
    point::SIGNAL,
    point::TRANSFER_BEGIN,
    point::TRANSFER_END,
    point::BARRIER_BEGIN,
    point::BARRIER_END,
]);

/// A node of the graph.
struct Node<'a> {
    key: Key<'a>,
    /// Metadata that is the same each time.
    fixed: &'a [Entry<'a>],
    /// Metadata of this operation.
    entries: &'a [Entry<'a>],
    user: &'static CStr,
    stream: Option<u64>,
    is_copy: bool,
    after: &'a [Dependence<'a>],
}

impl Producer {
    /// Announces the launch of a kernel, within the call that launches it.
    ///
    /// The first launch of a kernel creates the kernel's node. The metadata of later launches reaches subscribers only with
    /// frameworks that create an event for each launch (2026.2). With others (2025.0), the node keeps the metadata of the
    /// first launch.
    pub fn submit_kernel(&self, kernel: &KernelInfo<'_>, launch: &Launch<'_>) -> Operation {
        if !self.observes_operations() {
            return Operation::NONE;
        }
        let location = kernel.location.map(with_column);
        let mut fixed = vec![
            (c"kernel_name", Value::Text(kernel.name)),
            (c"sym_function_name", Value::Text(kernel.symbol)),
            (c"from_source", Value::Bool(location.is_some())),
        ];
        add_location(&mut fixed, location);
        let dimensions = |[x, y, z]: [u32; 3]| format!("{x},{y},{z}");
        let texts = [launch.grid, launch.block].map(dimensions);
        let enqueue = enqueue_data(launch).bytes();
        let mut entries = vec![
            (c"sycl_device", Value::Unsigned(u64::from(launch.device))),
            (c"grid", Value::Text(&texts[0])),
            (c"block", Value::Text(&texts[1])),
            (c"shared_bytes", Value::Unsigned(launch.shared_bytes)),
            (c"enqueue_kernel_data", Value::Binary(&enqueue)),
        ];
        if let Some(device) = self.options.devices.get(launch.device as usize) {
            entries.push((c"sycl_device_type", Value::Text(&device.kind)));
            entries.push((c"sycl_device_name", Value::Text(&device.name)));
        }
        add_origin(&mut entries, launch.stream, launch.correlation);
        for (index, bytes) in launch.arguments.iter().enumerate() {
            entries.extend(argument_key(index).map(|key| (key, Value::Binary(bytes))));
        }
        self.submit(&Node {
            key: Key::Kernel(kernel.name, location),
            fixed: &fixed,
            entries: &entries,
            user: c"command_group_node",
            stream: launch.stream,
            is_copy: false,
            after: launch.after,
        })
    }

    /// Announces a copy, within the call that submits it.
    pub fn submit_copy(&self, copy: &Copy<'_>) -> Operation {
        if !self.observes_operations() {
            return Operation::NONE;
        }
        let location = copy.location.map(with_column);
        let mut entries = vec![
            (c"copy_to", Value::Unsigned(copy.to)),
            (c"copy_from", Value::Unsigned(copy.from)),
            (c"memory_size", Value::Unsigned(copy.bytes)),
            (c"memory_object", Value::Unsigned(memory_object(copy))),
        ];
        add_location(&mut entries, location);
        add_origin(&mut entries, copy.stream, copy.correlation);
        let transfer = (copy.function.name, copy.to, copy.bytes, location);
        self.submit(&Node {
            key: Key::Copy(transfer, copy.kind, copy.from),
            fixed: &[],
            entries: &entries,
            user: c"memory_transfer_node",
            stream: copy.stream,
            is_copy: true,
            after: copy.after,
        })
    }

    /// Announces a fill, within the call that submits it.
    pub fn submit_fill(&self, fill: &Fill<'_>) -> Operation {
        if !self.observes_operations() {
            return Operation::NONE;
        }
        let location = fill.location.map(with_column);
        let mut entries = vec![
            (c"value_set", Value::Unsigned(fill.value)),
            (c"copy_to", Value::Unsigned(fill.to)),
            (c"memory_size", Value::Unsigned(fill.bytes)),
            (c"memory_object", Value::Unsigned(fill.to)),
        ];
        add_location(&mut entries, location);
        add_origin(&mut entries, fill.stream, fill.correlation);
        let transfer = (fill.function.name, fill.to, fill.bytes, location);
        self.submit(&Node {
            key: Key::Fill(transfer, fill.value),
            fixed: &[],
            entries: &entries,
            user: c"memory_transfer_node",
            stream: fill.stream,
            is_copy: false,
            after: fill.after,
        })
    }

    /// Tells whether somebody listens to operations, that is, whether [`Producer::submit_kernel`] and its relatives send
    /// notifications.
    pub fn observes_operations(&self) -> bool {
        self.channels.listens(Channel::Graph, OPERATION_POINTS)
    }

    fn submit(&self, node: &Node<'_>) -> Operation {
        let submitted = self.flights.enter().and_then(|_flight| {
            let site = self.site(&node.key)?;
            let fixed = || self.values.register_all(&self.framework, node.fixed);
            let visit = self.visit(&site, fixed, node.entries, |event, instance| {
                let user = User::Text(node.user);
                self.send_node(point::NODE_CREATE, event, instance, user);
            })?;
            let submitted = Submitted {
                site,
                id: visit.event.handle().unique_id(),
                visit,
                stream: self.stream_name(node.stream),
                is_copy: node.is_copy,
                running: AtomicBool::new(false),
            };
            if self
                .channels
                .listens(Channel::Graph, Points::of(&[point::EDGE_CREATE]))
            {
                for dependence in node.after {
                    self.send_edge(&submitted, dependence);
                }
            }
            Some(submitted)
        });
        submitted.map_or(Operation::NONE, Operation::from)
    }
}

/// Returns the structure that describes a launch to existing collectors: its sizes are in threads.
fn enqueue_data(launch: &Launch<'_>) -> KernelEnqueue {
    let local = launch.block.map(u64::from);
    let mut global = launch.grid.map(u64::from);
    for (global, local) in global.iter_mut().zip(local) {
        *global *= local;
    }
    KernelEnqueue {
        global,
        local,
        offset: [0; 3],
        arguments: launch.arguments.len() as u64,
    }
}

/// Returns the address of the device memory that a copy reads or writes.
fn memory_object(copy: &Copy<'_>) -> u64 {
    match copy.kind {
        CopyKind::DeviceToHost => copy.from,
        _ => copy.to,
    }
}

/// Returns the location with column 1 if the column is unknown.
fn with_column(location: Location<'_>) -> Location<'_> {
    Location {
        column: location.column.max(1),
        ..location
    }
}

fn add_location<'a>(entries: &mut Vec<Entry<'a>>, location: Option<Location<'a>>) {
    if let Some(location) = location {
        let number = |number| Value::Unsigned(u64::from(number));
        entries.push((c"sym_source_file_name", Value::Text(location.file)));
        entries.push((c"sym_line_no", number(location.line)));
        entries.push((c"sym_column_no", number(location.column)));
    }
}

fn add_origin(entries: &mut Vec<Entry<'_>>, stream: Option<u64>, correlation: u64) {
    if let Some(stream) = stream {
        entries.push((c"queue_id", Value::Unsigned(stream)));
    }
    if correlation != 0 {
        entries.push((c"correlation_id", Value::Unsigned(correlation)));
    }
}
