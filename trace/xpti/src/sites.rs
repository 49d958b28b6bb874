//! Sites: what the framework calls the same event when it happens again.
//!
//! A site is a kernel, a kind of copy, a function that allocates, and so on. Frameworks find the event of a site from
//! its name, file, line and column. The hash function of one release (2025.0) confuses sites without a file, so each
//! site has all four, fictitious ones if the real ones are unknown: a file whose name starts with `<`, and a running
//! number as the line. Two sites never have the same four.
//!
//! The producer never relies on the framework's identity: some releases return the same event again, others a new one
//! ([`Site::visit`] handles both).

use std::ffi::CStr;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::abi::EventType;
use crate::framework::{Event, EventRef, Framework, Identity, OwnedEvent};
use crate::input::{AllocationKind, CopyKind, Location, Reason, WaitKind};
use crate::limits;
use crate::text::Names;
use crate::values::Registered;

/// What distinguishes a site from the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key<'a> {
    Application,
    Kernel(&'a str, Option<Location<'a>>),
    Copy(Transfer<'a>, CopyKind, u64),
    Fill(Transfer<'a>, u64),
    Edge(u32, u32, Reason),
    Allocate(&'a CStr, AllocationKind),
    Release(&'a CStr),
    Wait(&'a CStr, WaitKind),
    /// The ID of the stream, and the number of streams that were created before: IDs may recur.
    Stream(u64, u64),
    Barrier(Location<'a>),
    /// A barrier without a location: the kernel's name and the position in the kernel.
    UnplacedBarrier(&'a str, u32),
    /// All sites of a kind beyond [`limits::SITES`].
    Beyond(Kind),
}

/// A copy or a fill: the name of the function, the destination, the size, and the position of the call.
pub(crate) type Transfer<'a> = (&'a CStr, u64, u64, Option<Location<'a>>);

/// The kind of sites that are beyond the limit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Kernel,
    Copy(CopyKind),
    Fill,
    Allocate,
    Release,
    Wait,
    Stream,
    Barrier,
}

impl Kind {
    fn text(self) -> &'static str {
        match self {
            Kind::Kernel => "<other kernels>",
            Kind::Copy(_) => "<other copies>",
            Kind::Fill => "<other fills>",
            Kind::Allocate => "<other allocations>",
            Kind::Release => "<other releases>",
            Kind::Wait => "<other waits>",
            Kind::Stream => "<other streams>",
            Kind::Barrier => "<other barriers>",
        }
    }
}

impl Key<'_> {
    /// Returns the kind; `None` if sites of this kind are not created beyond the limit.
    fn kind(&self) -> Option<Kind> {
        match self {
            Key::Application | Key::Edge(..) | Key::Beyond(_) => None,
            Key::Kernel(..) => Some(Kind::Kernel),
            Key::Copy(_, kind, _) => Some(Kind::Copy(*kind)),
            Key::Fill(..) => Some(Kind::Fill),
            Key::Allocate(..) => Some(Kind::Allocate),
            Key::Release(_) => Some(Kind::Release),
            Key::Wait(..) => Some(Kind::Wait),
            Key::Stream(..) => Some(Kind::Stream),
            Key::Barrier(_) | Key::UnplacedBarrier(..) => Some(Kind::Barrier),
        }
    }

    fn event_type(&self) -> EventType {
        match self {
            Key::Application | Key::Edge(..) => EventType::Graph,
            Key::Kernel(..) | Key::Beyond(Kind::Kernel) => EventType::Algorithm,
            Key::Copy(_, kind, _) | Key::Beyond(Kind::Copy(kind)) => match kind {
                CopyKind::HostToDevice => EventType::OffloadWrite,
                CopyKind::DeviceToHost => EventType::OffloadRead,
                CopyKind::DeviceToDevice | CopyKind::HostToHost => EventType::MemoryObject,
            },
            Key::Stream(..) | Key::Beyond(Kind::Stream) => EventType::Scheduler,
            Key::Wait(..)
            | Key::Barrier(_)
            | Key::UnplacedBarrier(..)
            | Key::Beyond(Kind::Wait | Kind::Barrier) => EventType::Barrier,
            Key::Fill(..) | Key::Allocate(..) | Key::Release(_) | Key::Beyond(_) => {
                EventType::MemoryObject
            }
        }
    }
}

/// A site, for the whole life of the process.
#[derive(Debug)]
pub(crate) struct Site {
    /// A number for [`Key::Edge`].
    pub(crate) number: u32,
    identity: Identity,
    /// Metadata that is the same for all events of the site.
    metadata: OnceLock<Vec<Registered>>,
    first: OnceLock<Option<Event>>,
}

/// An event of a site: one execution of it.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) event: Made,
    pub(crate) instance: u64,
}

/// How long an event is valid.
#[derive(Debug)]
pub(crate) enum Made {
    /// Until the process ends.
    Kept(Event),
    /// Until the producer releases it.
    Owned(Arc<OwnedEvent>),
}

impl Made {
    /// Returns the event if it stays valid until the process ends.
    pub(crate) fn kept(&self) -> Option<Event> {
        match self {
            Made::Kept(event) => Some(*event),
            Made::Owned(_) => None,
        }
    }

    pub(crate) fn handle(&self) -> EventRef<'_> {
        match self {
            Made::Kept(event) => event.handle(),
            Made::Owned(event) => event.handle(),
        }
    }
}

impl Site {
    /// Creates the event of one execution of the site. Calls `announce` with each new event: it adds metadata and, if
    /// the second argument is true, sends what belongs to the first event of a site. Returns `None` if the framework
    /// creates no event.
    ///
    /// Other threads that execute the site wait until the first event is announced, so that no subscriber gets a
    /// notification of a node that it does not know.
    pub(crate) fn visit(
        &self,
        framework: &Framework,
        announce: impl Fn(EventRef<'_>, u64, bool),
    ) -> Option<Visit> {
        let mut created = None;
        let first = *self.first.get_or_init(|| {
            let (event, instance) = framework.make_first(&self.identity)?;
            announce(event.handle(), instance, true);
            created = Some(instance);
            Some(event)
        });
        let first = first?;
        if let Some(instance) = created {
            return Some(Visit {
                event: Made::Kept(first),
                instance,
            });
        }
        let (owned, instance) = framework.make_again(&self.identity, first)?;
        let event = owned.map_or(Made::Kept(first), |event| Made::Owned(Arc::new(event)));
        if let Made::Owned(event) = &event {
            announce(event.handle(), instance, false);
        }
        Some(Visit { event, instance })
    }

    /// Returns the metadata that all events of the site have. The first call creates it.
    pub(crate) fn metadata(&self, create: impl FnOnce() -> Vec<Registered>) -> &[Registered] {
        self.metadata.get_or_init(create)
    }
}

/// The number of parts of the table, each with its own lock.
const PARTS: usize = 16;

type Part = FxHashMap<Key<'static>, Arc<Site>>;

/// The sites of a producer.
#[derive(Default)]
pub(crate) struct Sites {
    parts: [RwLock<Part>; PARTS],
    count: AtomicU32,
    full: AtomicBool,
}

impl Sites {
    /// Returns the site of `key`. Beyond [`limits::SITES`], this is the common site of the key's kind; `None` if the
    /// kind has no such site.
    pub(crate) fn get(&self, names: &Names, key: &Key<'_>) -> Option<Arc<Site>> {
        if let Some(site) = self.known(key) {
            return Some(site);
        }
        let beyond = matches!(key, Key::Beyond(_));
        if !beyond && self.count.load(Relaxed) as usize >= limits::SITES {
            self.full.store(true, Relaxed);
            return self.get(names, &Key::Beyond(key.kind()?));
        }
        let key = key.keep(names);
        let mut part = self.part(&key).write();
        // Another thread may have created the site, also that of a longer name that was cut.
        let site = part.entry(key).or_insert_with(|| {
            let number = self.count.fetch_add(1, Relaxed) + 1;
            Arc::new(Site {
                number,
                identity: key.identity(names, number),
                metadata: OnceLock::new(),
                first: OnceLock::new(),
            })
        });
        Some(Arc::clone(site))
    }

    /// Tells whether a site was replaced by a common one because [`limits::SITES`] was reached.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    fn known(&self, key: &Key<'_>) -> Option<Arc<Site>> {
        let part = self.part(key).read();
        let sites: &FxHashMap<Key<'_>, Arc<Site>> = &part;
        sites.get(key).map(Arc::clone)
    }

    fn part(&self, key: &Key<'_>) -> &RwLock<Part> {
        &self.parts[(FxBuildHasher.hash_one(key) >> 40) as usize % PARTS]
    }
}

impl Key<'_> {
    /// Returns the key with texts that are never freed.
    fn keep(&self, names: &Names) -> Key<'static> {
        let text = |text: &str| names.keep(text).to_str().unwrap_or_default();
        let place = |place: Option<Location<'_>>| {
            place.map(|place| Location {
                file: text(place.file),
                line: place.line,
                column: place.column,
            })
        };
        let name = |name: &CStr| names.keep(&name.to_string_lossy());
        match *self {
            Key::Application => Key::Application,
            Key::Kernel(kernel, at) => Key::Kernel(text(kernel), place(at)),
            Key::Copy(copy, kind, from) => {
                Key::Copy((name(copy.0), copy.1, copy.2, place(copy.3)), kind, from)
            }
            Key::Fill(fill, value) => {
                Key::Fill((name(fill.0), fill.1, fill.2, place(fill.3)), value)
            }
            Key::Edge(from, to, reason) => Key::Edge(from, to, reason),
            Key::Allocate(function, kind) => Key::Allocate(name(function), kind),
            Key::Release(function) => Key::Release(name(function)),
            Key::Wait(function, kind) => Key::Wait(name(function), kind),
            Key::Stream(stream, number) => Key::Stream(stream, number),
            Key::Barrier(at) => Key::Barrier(Location {
                file: text(at.file),
                ..at
            }),
            Key::UnplacedBarrier(kernel, instruction) => {
                Key::UnplacedBarrier(text(kernel), instruction)
            }
            Key::Beyond(kind) => Key::Beyond(kind),
        }
    }
}

impl Key<'static> {
    /// Returns what the framework finds the site's events by. `number` is the number of the site.
    fn identity(&self, names: &Names, number: u32) -> Identity {
        let at = |name: &str, file: &str, line: u32, column: u32| Identity {
            name: names.keep(name),
            file: names.keep(file),
            line,
            column,
            kind: self.event_type(),
        };
        let within = |name: &str, function: &CStr| {
            let file = format!("<{}>", function.to_string_lossy());
            at(name, &file, number, 1)
        };
        match *self {
            Key::Application => at("application", "<application>", number, 1),
            Key::Kernel(name, Some(place)) => at(name, place.file, place.line, place.column),
            Key::Kernel(name, None) => at(name, "<module>", number, 1),
            Key::Copy(copy, ..) => within("memory transfer", copy.0),
            Key::Fill(fill, _) => within("memory fill", fill.0),
            Key::Edge(_, _, reason) => within("edge", reason.text()),
            Key::Allocate(function, _) => within("allocation", function),
            Key::Release(function) => within("release", function),
            Key::Wait(function, kind) => within(kind.text(), function),
            Key::Stream(stream, _) => at(&format!("stream {stream}"), "<stream>", number, 1),
            Key::Barrier(place) => at("cta.barrier", place.file, place.line, place.column),
            Key::UnplacedBarrier(..) => at("cta.barrier", "<module>", number, 1),
            Key::Beyond(kind) => at(kind.text(), "<limit>", number, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Location<'_> = Location {
        file: "k.cu",
        line: 10,
        column: 1,
    };

    fn identity(site: &Site) -> (&CStr, &CStr, u32, u32) {
        let Identity {
            name,
            file,
            line,
            column,
            ..
        } = site.identity;
        (name, file, line, column)
    }

    #[test]
    fn identities_have_file_line_and_column() {
        let (sites, names) = (Sites::default(), Names::default());
        let get = |key: Key<'_>| sites.get(&names, &key).unwrap();
        let placed = get(Key::Kernel("vecadd", Some(PLACE)));
        assert_eq!(identity(&placed), (c"vecadd", c"k.cu", 10, 1));
        let first = get(Key::Kernel("first", None));
        assert_eq!(identity(&first), (c"first", c"<module>", 2, 1));
        let second = get(Key::Kernel("second", None));
        assert_eq!(identity(&second), (c"second", c"<module>", 3, 1));
        let wait = get(Key::Wait(c"cuStreamSynchronize", WaitKind::Stream));
        let expected = (c"stream.wait", c"<cuStreamSynchronize>", 4, 1);
        assert_eq!(identity(&wait), expected);
        assert!(Arc::ptr_eq(
            &placed,
            &get(Key::Kernel("vecadd", Some(PLACE)))
        ));
    }

    #[test]
    fn sites_are_found_by_texts_that_end() {
        let (sites, names) = (Sites::default(), Names::default());
        let get = |name: &str| sites.get(&names, &Key::Kernel(name, None)).unwrap();
        let long = "k".repeat(limits::NAME + 1);
        assert!(Arc::ptr_eq(&get(&long), &get(&long[..limits::NAME])));
        assert!(Arc::ptr_eq(&get(&long), &get(&long)));
        assert!(Arc::ptr_eq(&get("a\0b"), &get("a")));
    }

    #[test]
    fn sites_beyond_the_limit_share_one_of_their_kind() {
        let (sites, names) = (Sites::default(), Names::default());
        let get = |key: Key<'_>| sites.get(&names, &key);
        for number in 0..limits::SITES as u32 {
            assert!(get(Key::Edge(0, number, Reason::Graph)).is_some());
        }
        assert!(!sites.is_full());
        assert!(get(Key::Edge(1, 0, Reason::Graph)).is_none());
        assert!(sites.is_full());
        assert!(get(Key::Edge(0, 0, Reason::Graph)).is_some());
        let [a, b] = ["a", "b"].map(|name| get(Key::Kernel(name, None)).unwrap());
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(identity(&a).0, c"<other kernels>");
        let stream = get(Key::Stream(1, 1)).unwrap();
        assert_eq!(identity(&stream).0, c"<other streams>");
    }
}
