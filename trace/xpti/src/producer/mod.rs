//! The producer: one method for each thing that a CUDA runtime does.
//!
//! Every method may be called on every thread. A method does nothing if no subscriber listens to what it sends.

mod calls;
mod finish;
mod memory;
mod streams;
mod submit;
mod sync;
mod tasks;

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use crate::abi::point;
use crate::channels::{Channel, Channels, Points};
use crate::flights::{self, Flight, Flights};
use crate::framework::{self, Event, EventRef, Framework, Notification, User};
use crate::input::Options;
use crate::operation::OldEvents;
use crate::sites::{Key, Site, Sites, Visit};
use crate::text::{Names, c_string};
use crate::values::{Entry, Registered, Values};

pub use calls::Call;
pub use finish::Finished;
pub use memory::{Allocation, Release};
use streams::Stream;
pub use sync::{Barrier, Wait};
pub use tasks::Attached;

/// Sends events to the subscribers.
pub struct Producer {
    framework: Framework,
    options: Options,
    flights: Flights,
    channels: Channels,
    names: Names,
    values: Values,
    sites: Sites,
    old: OldEvents,
    /// The event of the program: the parent of all nodes.
    application: Option<Event>,
    /// The streams that the program has created and not destroyed.
    streams: RwLock<FxHashMap<u64, Stream>>,
    /// The number of streams that the program has created so far.
    created_streams: AtomicU64,
    /// The number of operations that have begun and not ended.
    running: AtomicU64,
    /// Which bounds have been announced: names, values, sites.
    announced: [AtomicBool; 3],
}

impl Producer {
    /// Loads the framework, which loads the subscribers, and announces the streams.
    pub(crate) fn open(dispatcher: &OsStr, options: Options) -> Result<Producer, String> {
        let path = CString::new(dispatcher.as_bytes())
            .map_err(|_| "XPTI_FRAMEWORK_DISPATCHER contains a NUL byte".to_owned())?;
        let framework = Framework::load(&path)?;
        framework.initialize();
        let text = c_string(&options.version_text);
        let channels = Channels::open(&framework, options.sycl_names, options.version, &text);
        if !framework.trace_enabled() {
            channels.close(&framework);
            framework.finalize();
            return Err("the framework has loaded no subscriber".to_owned());
        }
        let mut producer = Producer {
            framework,
            options,
            flights: Flights::default(),
            channels,
            names: Names::default(),
            values: Values::default(),
            sites: Sites::default(),
            old: OldEvents::default(),
            application: None,
            streams: RwLock::default(),
            created_streams: AtomicU64::new(0),
            running: AtomicU64::new(0),
            announced: Default::default(),
        };
        framework::call_in_forked_children(flights::end_in_child);
        producer.application = producer.announce_application();
        Ok(producer)
    }

    /// Asks the framework again which notifications somebody has registered for.
    ///
    /// Subscribers usually register in their initialisation, so the producer remembers the answers. It also asks again
    /// when a module is loaded and when a stream is created.
    pub fn refresh(&self) {
        if let Some(_flight) = self.flights.enter() {
            self.channels.refresh(&self.framework);
        }
    }

    /// Sends a diagnostic text, for example the report of a fault, on `margay.diag`. A NUL byte ends the text.
    pub fn diagnostic(&self, text: &str) {
        if let Some(_flight) = self.enter(Channel::Diagnostics, Points::of(&[point::DIAGNOSTICS])) {
            self.send_diagnostic(text);
        }
    }

    /// Tells whether the producer still sends.
    pub(crate) fn is_open(&self) -> bool {
        self.flights.is_open()
    }

    fn announce_application(&self) -> Option<Event> {
        let _flight = self.flights.enter()?;
        let site = self.sites.get(&self.names, &Key::Application)?;
        let visit = site.visit(&self.framework, |event, instance, _| {
            let created = Notification {
                point: point::GRAPH_CREATE,
                parent: None,
                event: Some(event),
                instance,
                user: User::None,
            };
            self.send(Channel::Graph, &created);
        })?;
        visit.event.kept()
    }

    /// Enters if somebody listens to one of `points` on `channel`.
    #[inline]
    fn enter(&self, channel: Channel, points: Points) -> Option<Flight<'_>> {
        if self.channels.listens(channel, points) {
            self.flights.enter()
        } else {
            None
        }
    }

    #[inline]
    fn send(&self, channel: Channel, notification: &Notification<'_>) {
        self.channels.send(&self.framework, channel, notification);
    }

    /// Sends a notification on `margay` whose parent is the event of the program.
    fn send_node(&self, point: u16, event: EventRef<'_>, instance: u64, user: User<'_>) {
        let notification = Notification {
            point,
            parent: self.application.as_ref().map(Event::handle),
            event: Some(event),
            instance,
            user,
        };
        self.send(Channel::Graph, &notification);
    }

    fn send_diagnostic(&self, text: &str) {
        let text = c_string(text);
        let notification = Notification {
            point: point::DIAGNOSTICS,
            parent: None,
            event: None,
            instance: 0,
            user: User::Text(&text),
        };
        self.send(Channel::Diagnostics, &notification);
    }

    fn site(&self, key: &Key<'_>) -> Option<Arc<Site>> {
        let site = self.sites.get(&self.names, key);
        self.announce_bounds();
        site
    }

    /// Creates an event of `site`. New events get the metadata `fixed`, which is the same for all events of the site, and
    /// `entries`. Calls `first` with the first event of the site.
    fn visit(
        &self,
        site: &Site,
        fixed: impl Fn() -> Vec<Registered>,
        entries: &[Entry<'_>],
        first: impl Fn(EventRef<'_>, u64),
    ) -> Option<Visit> {
        let visit = site.visit(&self.framework, |event, instance, is_first| {
            for (key, object) in site.metadata(&fixed) {
                self.framework.add_metadata(event, key, *object);
            }
            self.values.add_all(&self.framework, event, entries);
            if is_first {
                first(event, instance);
            }
        })?;
        self.old.add(&self.framework, &visit);
        Some(visit)
    }

    /// Sends a diagnostic for each bound that was reached since the last call.
    fn announce_bounds(&self) {
        let reached = [
            self.names.is_full(),
            self.values.is_full(),
            self.sites.is_full(),
        ];
        for ((reached, announced), what) in reached.into_iter().zip(&self.announced).zip(BOUNDS) {
            if reached && !announced.load(Relaxed) && !announced.swap(true, Relaxed) {
                self.send_diagnostic(what);
            }
        }
    }
}

/// The diagnostics for the bounds of [`crate::limits`].
const BOUNDS: [&str; 3] = [
    "Margay's XPTI events are incomplete: the total size of names has reached its bound, and new names are replaced",
    "Margay's XPTI events are incomplete: the number of metadata values has reached its bound, and new values are left \
     out",
    "Margay's XPTI events are incomplete: the number of sites has reached its bound; new sites share common events, and \
     new edges are left out",
];
