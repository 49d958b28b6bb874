//! Activity records of this process for `libcupti` (`shims/cupti`).
//!
//! A client attaches itself through the table of functions in [`table`], which opens the gate of the recorder
//! ([`crate::records`]) when the client asks for records.
//! [`callbacks`] calls the client around calls of the driver API.

mod callbacks;
mod table;

use margay::Runtime;
use margay_activity::layout::DEVICE_ATTRIBUTES;
use margay_activity::{Context, Device, Kind, Name, Record};

pub(crate) use table::start;

use crate::guard;
use crate::handles::contexts;
use crate::records::recorder;

/// Sends the records that describe the devices, if they are wanted and the driver is initialised.
fn announce_devices() {
    if !recorder().has_kind(Kind::Device) || !guard::is_ready() {
        return;
    }
    let Ok(runtime) = Runtime::global() else {
        return;
    };
    for ordinal in 0..runtime.device_count() {
        let Ok(device) = runtime.device(ordinal) else {
            continue;
        };
        recorder().send(Record::Device(Box::new(Device {
            id: ordinal as u32,
            name: Name::of(&device.name()),
            uuid: device.uuid(),
            memory: device.total_memory(),
            attributes: DEVICE_ATTRIBUTES
                .map(|(attribute, _)| device.attribute(attribute).unwrap_or(0).max(0) as u32),
        })));
    }
}

/// Sends the records that describe the contexts, if they are wanted.
fn announce_contexts() {
    if recorder().has_kind(Kind::Context) && guard::is_ready() {
        let all = contexts().all();
        let contexts = all.iter().filter(|object| object.green.is_none());
        contexts.for_each(|object| announce_context(&object.context));
    }
}

/// Sends the record that describes a context, if it is wanted.
fn announce_context(context: &margay::Context) {
    recorder().send(Record::Context(Context {
        id: context.id() as u32,
        device: context.device().ordinal() as u32,
        null_stream: context.legacy_stream().id() as u32,
        process: std::process::id(),
    }));
}
