//! A finding: one defect at one place of a program.

use std::fmt;

use margay_ir::observe::AccessMode;
use serde_json::{Map, Value, json};

use super::kind::{Kind, Severity, Tool};
use crate::call_stack::{HostFrame, site_of};
use crate::error::SourceLine;

/// A place in a kernel.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// The line of the PTX text, counted from 1.
    pub ptx_line: Option<u32>,
    /// The line of the source that the PTX was compiled from.
    pub source: Option<SourceLine>,
}

/// How an access uses memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes atomically.
    Atomic,
}

impl Access {
    /// Returns the name of the access in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "atomic",
        }
    }

    /// Returns the name with a capital letter, for the beginning of a sentence.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Access::Read => "Read",
            Access::Write => "Write",
            Access::Atomic => "Atomic",
        }
    }

    /// Returns how an access with this mode uses memory.
    pub(crate) fn of(mode: AccessMode) -> Access {
        match mode {
            AccessMode::Load | AccessMode::Copy => Access::Read,
            AccessMode::Store | AccessMode::Release => Access::Write,
            AccessMode::Update => Access::Atomic,
        }
    }
}

/// A thread: its coordinates in the block, and the coordinates of the block in the grid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ThreadPlace {
    /// `threadIdx`.
    pub thread: [u32; 3],
    /// `blockIdx`.
    pub block: [u32; 3],
}

/// All texts that [`Finding::missing`] can contain. The least specific text comes first, and the
/// most specific text comes last. Each text names a kind of synchronisation that would have ordered
/// the two accesses of a race.
const MISSING: [&str; 12] = [
    "warp barrier",
    "barrier",
    "cluster barrier",
    "grid barrier or atomic flag",
    "stream order",
    "fence.gpu",
    "scope gpu",
    "one size of atomic accesses",
    "fence.proxy.async",
    "mbarrier wait",
    "cp.async.bulk wait",
    "cp.async wait",
];

/// Returns the more specific of two texts of [`MISSING`]. Races at the same two places can lack different
/// synchronisation in different threads. The report must not depend on which of these races is found first.
pub(crate) fn more_specific(
    a: Option<&'static str>,
    b: Option<&'static str>,
) -> Option<&'static str> {
    let rank = |text: Option<&str>| text.map(|text| MISSING.iter().position(|one| *one == text));
    if rank(b) > rank(a) { b } else { a }
}

/// The second access of a race. The fields of the [`Finding`] describe the first access.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Other {
    /// The (mangled) name of the kernel that performs the access; `None` if the host, a copy or a fill accesses the
    /// memory.
    pub kernel: Option<String>,
    /// The place of this access in the kernel.
    pub place: Place,
    /// Whether the access reads, writes, or does both atomically.
    pub access: Access,
    /// The thread that performs the access; `None` if the host, a copy or a fill accesses the
    /// memory.
    pub thread: Option<ThreadPlace>,
}

/// A finding. Fields that do not apply to the kind of the finding are `None`.
///
/// ```
/// use margay::checks::{Finding, Kind, Tool};
///
/// let mut finding = Finding::new(Kind::OutOfBounds, "Invalid __global__ write of size 4 bytes");
/// finding.kernel = Some("fill".into());
/// assert_eq!(finding.kind.tool(), Tool::Memory);
/// assert_eq!(
///     finding.to_string(),
///     "memcheck: Invalid __global__ write of size 4 bytes in kernel fill"
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The kind of the finding.
    pub kind: Kind,
    /// How serious the finding is.
    pub severity: Severity,
    /// A description of the finding in one sentence. The description does not contain the place.
    pub text: String,
    /// Details of this occurrence of the finding. Reports append these details, in parentheses, to
    /// the text of the finding.
    pub explanation: Option<String>,
    /// The kernel's (mangled) name.
    pub kernel: Option<String>,
    /// The place in the kernel to which the finding refers.
    pub place: Place,
    /// Whether the access reads, writes, or does both atomically.
    pub access: Option<Access>,
    /// The state space, as CUDA names it: `__global__`.
    pub space: Option<&'static str>,
    /// Number of bytes that are accessed, leaked or copied.
    pub size: Option<u64>,
    /// The first thread in which the finding occurred.
    pub thread: Option<ThreadPlace>,
    /// The warp and the lanes in which the finding occurred: the index of the warp in the block, and a mask of lanes.
    pub lanes: Option<(u32, u32)>,
    /// The address of the access, or of the memory that the finding is about.
    pub address: Option<u64>,
    /// Describes the memory at the accessed address, or near this address.
    pub allocation: Option<String>,
    /// The second access of a race.
    pub other: Option<Box<Other>>,
    /// The kind of synchronisation that would order the two accesses of a race.
    pub missing: Option<&'static str>,
    /// The number of occurrences of the finding, that is, the number of threads, blocks or calls in
    /// which it occurred.
    pub count: u64,
    /// The host's stack at the call that launched the kernel, or at the call that the finding is
    /// about.
    pub host: Vec<HostFrame>,
    /// The host's stack at the call that allocated the memory. Empty if [`Finding::host`] already
    /// contains this stack.
    pub origin: Vec<HostFrame>,
}

impl Finding {
    /// Creates a finding that occurred once, with the default severity of `kind`. All other fields
    /// are empty.
    pub fn new(kind: Kind, text: impl Into<String>) -> Finding {
        Finding {
            kind,
            severity: kind.severity(),
            text: text.into(),
            explanation: None,
            kernel: None,
            place: Place::default(),
            access: None,
            space: None,
            size: None,
            thread: None,
            lanes: None,
            address: None,
            allocation: None,
            other: None,
            missing: None,
            count: 1,
            host: Vec::new(),
            origin: Vec::new(),
        }
    }

    /// Returns the finding as a JSON object. `docs/checks.md` describes the members. Members that do not apply to the
    /// kind of the finding are absent.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(name.to_owned(), value);
            }
        };
        put("tool", Some(self.kind.tool().name().into()));
        put("kind", Some(self.kind.name().into()));
        put("severity", Some(self.severity.name().into()));
        put("message", Some(self.text.clone().into()));
        put("explanation", self.explanation.clone().map(Value::from));
        put("kernel", self.kernel.clone().map(Value::from));
        place_members(&self.place, &mut put);
        put("access", self.access.map(|access| access.name().into()));
        put("space", self.space.map(Value::from));
        put("size", self.size.map(Value::from));
        put("thread", self.thread.map(|at| json!(at.thread)));
        put("block", self.thread.map(|at| json!(at.block)));
        put("warp", self.lanes.map(|(warp, _)| warp.into()));
        put("lanes", self.lanes.map(|(_, lanes)| lanes.into()));
        put("address", self.address.map(Value::from));
        put("allocation", self.allocation.clone().map(Value::from));
        put("other", self.other.as_ref().map(|other| other.to_json()));
        put("missing", self.missing.map(Value::from));
        put("count", Some(self.count.into()));
        put(
            "host",
            Some(self.host.iter().map(HostFrame::to_json).collect()),
        );
        let origin = self.origin.iter().map(HostFrame::to_json);
        put(
            "origin",
            (!self.origin.is_empty()).then(|| origin.collect()),
        );
        Value::Object(map)
    }
}

fn place_members(place: &Place, put: &mut impl FnMut(&str, Option<Value>)) {
    let source = place.source.as_ref();
    put("file", source.map(|source| source.file.clone().into()));
    put("line", source.map(|source| source.line.into()));
    let inlined = source.filter(|source| !source.inlined.is_empty());
    put(
        "inlined",
        inlined.map(|source| {
            let frame = |(file, line): &(String, u32)| json!({"file": file, "line": line});
            source.inlined.iter().map(frame).collect()
        }),
    );
    put("ptx_line", place.ptx_line.map(Value::from));
}

impl Other {
    fn to_json(&self) -> Value {
        let mut map = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(name.to_owned(), value);
            }
        };
        put("kernel", self.kernel.clone().map(Value::from));
        place_members(&self.place, &mut put);
        put("access", Some(self.access.name().into()));
        put("thread", self.thread.map(|at| json!(at.thread)));
        put("block", self.thread.map(|at| json!(at.block)));
        Value::Object(map)
    }
}

/// Three coordinates, displayed as `(x,y,z)`.
struct Coordinates([u32; 3]);

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "({x},{y},{z})")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, ", {source}")?;
        }
        if let Some(line) = self.ptx_line {
            write!(f, ", PTX line {line}")?;
        }
        Ok(())
    }
}

/// Writes the finding in one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind.tool().name())?;
        if self.severity != Severity::Error {
            write!(f, "{}: ", self.severity.name())?;
        }
        f.write_str(&self.text)?;
        if let Some(explanation) = &self.explanation {
            write!(f, " ({explanation})")?;
        }
        if let Some(kernel) = &self.kernel {
            write!(f, " in kernel {kernel}")?;
        }
        if let Some(at) = &self.thread {
            write!(f, ", block {}", Coordinates(at.block))?;
            match self.lanes {
                Some((warp, lanes)) => write!(f, ", warp {warp}, lanes {lanes:#010x}")?,
                None => write!(f, ", thread {}", Coordinates(at.thread))?,
            }
        }
        write!(f, "{}", self.place)?;
        if let Some(address) = self.address {
            write!(f, ", address {address:#x}")?;
        }
        if let Some(allocation) = &self.allocation {
            write!(f, ": {allocation}")?;
        }
        if let Some(other) = &self.other {
            write!(f, "; and {}", other.access.name())?;
            if let Some(at) = &other.thread {
                let (block, thread) = (Coordinates(at.block), Coordinates(at.thread));
                write!(f, " in block {block}, thread {thread}")?;
            }
            write!(f, "{}", other.place)?;
        }
        if let Some(missing) = self.missing {
            write!(f, "; missing: {missing}")?;
        }
        if let Some(site) = site_of(&self.host) {
            let what = match self.kind.tool() {
                Tool::Leak => "created",
                _ if self.kernel.is_some() => "launched",
                _ => "called",
            };
            write!(f, "; {what} {site}")?;
        }
        Ok(())
    }
}
