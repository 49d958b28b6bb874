//! CUDA streams, which XPTI calls queues, and modules.

use std::collections::hash_map::Entry;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use crate::abi::point;
use crate::channels::{Channel, Points};
use crate::framework::User;
use crate::producer::Producer;
use crate::sites::{Key, Visit};
use crate::values::Value;

/// A stream that the program has created.
pub(super) struct Stream {
    name: &'static CStr,
    visit: Option<Visit>,
}

impl Producer {
    /// Announces that the program has created the stream with the ID `stream`. IDs of destroyed streams may recur; a
    /// second creation of an existing stream causes no notification.
    ///
    /// The producer names a stream that was not announced, such as the default stream, after its ID.
    pub fn stream_created(&self, stream: u64) {
        let Some(_flight) = self.flights.enter() else {
            return;
        };
        self.channels.refresh(&self.framework);
        let name = self.names.keep(&format!("stream {stream}"));
        match self.streams.write().entry(stream) {
            Entry::Occupied(_) => return,
            Entry::Vacant(entry) => entry.insert(Stream { name, visit: None }),
        };
        // Subscribers' callbacks run, so the table must not be locked.
        let visit = self.queue_event(stream);
        if let Some(created) = self.streams.write().get_mut(&stream) {
            created.visit = visit;
        }
    }

    /// Announces that the program has destroyed a stream.
    pub fn stream_destroyed(&self, stream: u64) {
        let Some(_flight) = self.flights.enter() else {
            return;
        };
        let destroyed = self.streams.write().remove(&stream);
        if let Some(stream) = destroyed {
            self.send_destroyed(&stream);
        }
    }

    /// Announces that the program has loaded a module. The kernels' events follow with the first launch of each kernel.
    ///
    /// The driver call that loads the module is all that subscribers see; the producer asks again which notifications they
    /// have registered for.
    pub fn module_loaded(&self) {
        self.refresh();
    }

    /// Returns the name of a stream, for the user data of operations.
    pub(super) fn stream_name(&self, stream: Option<u64>) -> &'static CStr {
        let Some(stream) = stream else {
            return c"graph";
        };
        if let Some(known) = self.streams.read().get(&stream) {
            return known.name;
        }
        self.names.keep(&format!("stream {stream}"))
    }

    /// Announces that all open streams are destroyed, in the order of their IDs.
    pub(super) fn destroy_streams(&self) {
        let mut streams: Vec<_> = self.streams.write().drain().collect();
        streams.sort_unstable_by_key(|(id, _)| *id);
        for (_, stream) in &streams {
            self.send_destroyed(stream);
        }
    }

    fn queue_event(&self, stream: u64) -> Option<Visit> {
        const POINTS: Points = Points::of(&[point::QUEUE_CREATE, point::QUEUE_DESTROY]);
        if !self.channels.listens(Channel::Graph, POINTS) {
            return None;
        }
        let number = self.created_streams.fetch_add(1, Relaxed);
        let site = self.site(&Key::Stream(stream, number))?;
        let id = [(c"queue_id", Value::Unsigned(stream))];
        let visit = self.visit(&site, Vec::new, &id, |_, _| ())?;
        let user = User::Text(c"queue_create");
        self.send_node(
            point::QUEUE_CREATE,
            visit.event.handle(),
            visit.instance,
            user,
        );
        Some(visit)
    }

    fn send_destroyed(&self, stream: &Stream) {
        if let Some(visit) = &stream.visit {
            let user = User::Text(c"queue_destroy");
            self.send_node(
                point::QUEUE_DESTROY,
                visit.event.handle(),
                visit.instance,
                user,
            );
        }
    }
}
