//! The trait that tools implement.

use std::sync::Arc;

use super::{Events, Gate, HostEvent, Launch, Request, Worker};
use crate::engine::KernelInfo;

/// A tool that observes kernels. The module's documentation ([`crate::observe`]) contains an example.
///
/// Threads of the runtime and threads of the program call the methods. The methods must not call
/// the runtime. They must not wait for a lock that a thread of the program holds while it calls the
/// runtime, because the two threads could then wait for each other.
pub trait Tool: Send + Sync {
    /// Returns the name of the tool, for messages.
    fn name(&self) -> &str;

    /// Returns the events that the tool wants to receive from launches of a kernel. The runtime
    /// calls this method once for each kernel of an image, before the first launch of the kernel.
    /// If the request contains an event that is not implemented, launches of the kernel fail with
    /// [`crate::Error::Unsupported`] and a text that names the event.
    fn request(&self, kernel: &KernelInfo) -> Request;

    /// Returns whether the tool wants to receive the events of a launch. The runtime calls this
    /// method once for each launch of a kernel for which the tool has requested events, in the
    /// order in which the launches are prepared. If the tool does not want the events, the kernel's
    /// code still contains the operations that record the events, but the runtime discards the
    /// events.
    fn observes(&self, launch: &Launch) -> bool {
        let _ = launch;
        true
    }

    /// Receives events of a launch. [`crate::observe`] describes the order of calls.
    fn events(&self, launch: &Launch, events: Events<'_>);

    /// Returns a receiver of the events that one worker thread causes in a launch. The default is `None`: the tool
    /// receives these events later, in grid order, by [`Tool::events`]. A tool that returns a receiver receives only
    /// the beginning and the end of the launch and of CTAs by [`Tool::events`]. The runtime calls this method as often as threads
    /// run CTAs of the launch at the same time, or more often.
    fn worker(&self, launch: &Launch) -> Option<Box<dyn Worker>> {
        let _ = launch;
        None
    }

    /// Returns whether the tool wants to receive events of the host ([`HostEvent`]). The runtime
    /// calls this method once, when the runtime is created.
    fn observes_host(&self) -> bool {
        false
    }

    /// Returns whether the tool wants to receive the calls of the driver API ([`HostEvent::BeginCall`] and
    /// [`HostEvent::EndCall`]) and the annotations of the program ([`HostEvent::Annotate`] and [`HostEvent::Name`]). Only
    /// tools of the process's runtime receive them.
    fn observes_calls(&self) -> bool {
        false
    }

    /// Returns the switch of a tool that is idle most of the time; the default is `None`. The runtime calls this method
    /// once, when the runtime is created. While the gate is closed, the tool receives no events. The requests of a tool
    /// with a gate may contain only the beginning and the end of launches ([`Request::launches`]), so the code of kernels
    /// does not depend on the gate. [`HostEvent::Submit`] can be missing for work in contexts that existed before the
    /// gate was opened.
    fn gate(&self) -> Option<Arc<Gate>> {
        None
    }

    /// Receives an event of the host. [`HostEvent`] states which thread calls this method.
    fn host(&self, event: &HostEvent<'_>) {
        let _ = event;
    }
}
