//! Stream capture: work submitted to a capturing stream becomes nodes of a graph instead of running.
//!
//! Sources: CUDA programming guide, "Creating a Graph Using Stream Capture"; CUDA driver API, `cuStreamBeginCapture`
//! and `cuThreadExchangeStreamCaptureMode`. A *sequence* is one capture: its graph, the stream where it began, and for
//! each stream in it the nodes that the stream's next node waits for.
//!
//! Invariants: one lock protects all sequences, and only calls that concern captures take it. A stream is *watched*
//! while it is in a sequence. A context's legacy stream is watched while a blocking stream of that context is. For a
//! stream that is not watched, captures cost one load.

mod ops;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::context::Context;
use crate::error::{CaptureError, Error, Result};
use crate::event::{Event, Recorded};
use crate::graph::{EdgeData, Graph, Node, NodeOp};
use crate::process::{next_id, thread_id};
use crate::stream::{Stream, StreamKind};

pub(crate) use ops::*;

/// Which calls a capture forbids, and in which threads (`CUstreamCaptureMode`).
///
/// ```
/// use margay::capture::CaptureMode;
///
/// let rt = margay::Runtime::new()?;
/// let words = rt.alloc::<u32>(4)?;
/// let stream = rt.context()?.create_stream(margay::StreamKind::Blocking, 0)?;
/// stream.begin_capture(CaptureMode::Relaxed)?;
/// stream.fill(words.ptr(), 7, 4, 4, 1, 0)?;
/// let graph = stream.end_capture()?;
/// assert_eq!(graph.nodes().len(), 1);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum CaptureMode {
    /// Calls that may synchronise are forbidden in all threads.
    #[default]
    Global = 0,
    /// Calls that may synchronise are forbidden in the capturing thread.
    ThreadLocal = 1,
    /// No calls are forbidden.
    Relaxed = 2,
}

/// The capture state of a stream (`CUstreamCaptureStatus`).
///
/// ```
/// use margay::capture::{CaptureMode, CaptureStatus};
///
/// let context = margay::Runtime::new()?.context()?;
/// let stream = context.create_stream(margay::StreamKind::Blocking, 0)?;
/// stream.begin_capture(CaptureMode::Relaxed)?;
/// assert_eq!(stream.capture_status()?, CaptureStatus::Active);
/// stream.end_capture()?;
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum CaptureStatus {
    /// The stream is not in a capture.
    None = 0,
    /// Work submitted to the stream becomes nodes.
    Active = 1,
    /// The stream is in a capture that an error has invalidated; [`Stream::end_capture`] ends it.
    Invalidated = 2,
}

/// The capture that a stream takes part in.
///
/// ```
/// use margay::capture::CaptureMode;
///
/// let context = margay::Runtime::new()?.context()?;
/// let stream = context.create_stream(margay::StreamKind::Blocking, 0)?;
/// assert!(stream.capture_info().is_none());
/// stream.begin_capture(CaptureMode::Relaxed)?;
/// assert!(stream.capture_info().is_some_and(|info| info.dependencies.is_empty()));
/// stream.end_capture()?;
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CaptureInfo {
    /// The number of the capture; unique in the process.
    pub id: u64,
    /// The graph to which nodes are added.
    pub graph: Graph,
    /// The nodes that the stream's next node waits for.
    pub dependencies: Vec<(Node, EdgeData)>,
}

/// How new dependencies of a capturing stream combine with the present ones.
///
/// ```
/// use margay::capture::{CaptureMode, DependencyUpdate};
///
/// let rt = margay::Runtime::new()?;
/// let words = rt.alloc::<u32>(4)?;
/// let stream = rt.context()?.create_stream(margay::StreamKind::Blocking, 0)?;
/// stream.begin_capture(CaptureMode::Relaxed)?;
/// stream.fill(words.ptr(), 7, 4, 4, 1, 0)?;
/// stream.update_capture_dependencies(&[], DependencyUpdate::Set)?;
/// stream.end_capture()?;
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyUpdate {
    /// The new dependencies are added to the present ones.
    Add,
    /// The new dependencies replace the present ones.
    Set,
}

/// The nodes that a node waits for.
pub(crate) type Dependencies = Vec<(Node, EdgeData)>;

struct Branch {
    stream: Stream,
    dependencies: Dependencies,
}

struct Sequence {
    id: u64,
    graph: Graph,
    mode: CaptureMode,
    thread: u64,
    invalid: bool,
    /// The first branch is the stream where the capture began.
    branches: Vec<Branch>,
    /// The last nodes of branches whose streams are destroyed.
    left: Dependencies,
    /// The dependencies of each record of an event, in the order of the calls.
    records: Vec<Dependencies>,
}

static SEQUENCES: Mutex<Vec<Sequence>> = Mutex::new(Vec::new());
/// The number of sequences.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

/// Sets the calling thread's mode and returns the previous one.
pub fn exchange_thread_mode(mode: CaptureMode) -> CaptureMode {
    MODE.replace(mode)
}

/// Checks whether a call that may synchronise is permitted. A capture that forbids the call is invalidated.
///
/// # Errors
/// [`CaptureError::Unsupported`] when a capture forbids the call.
pub fn check_unsafe_call() -> Result<()> {
    if ACTIVE.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let (own, thread) = (MODE.get(), thread_id());
    if own == CaptureMode::Relaxed {
        return Ok(());
    }
    forbid_where(|sequence| {
        let here = sequence.thread == thread && sequence.mode != CaptureMode::Relaxed;
        here || (own == CaptureMode::Global && sequence.mode == CaptureMode::Global)
    })
}

/// Rejects a call that concerns all work of a context while one of its streams is capturing, and invalidates the
/// capture.
///
/// # Errors
/// [`CaptureError::Unsupported`] when a stream of the context is capturing.
pub(crate) fn check_context(context: &Context) -> Result<()> {
    if ACTIVE.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    forbid_where(|sequence| {
        let of_context = |branch: &Branch| branch.stream.context() == context;
        sequence.branches.iter().any(of_context)
    })
}

fn forbid_where(forbids: impl Fn(&Sequence) -> bool) -> Result<()> {
    let mut sequences = SEQUENCES.lock();
    let mut forbidden = false;
    for sequence in sequences.iter_mut().filter(|sequence| forbids(sequence)) {
        sequence.invalid = true;
        forbidden = true;
    }
    match forbidden {
        true => Err(CaptureError::Unsupported.into()),
        false => Ok(()),
    }
}

/// Ends all captures in which streams of a context take part; the context's life ends.
pub(crate) fn forget_context(context: &Context) {
    if ACTIVE.load(Ordering::Relaxed) == 0 {
        return;
    }
    let mut sequences = SEQUENCES.lock();
    let mut at = 0;
    while at < sequences.len() {
        let concerned = sequences[at].branches.iter();
        match { concerned }.any(|branch| branch.stream.context() == context) {
            true => drop(finish(&mut sequences, at)),
            false => at += 1,
        }
    }
}

/// Removes a destroyed stream. A capture that began in the stream ends. A capture that the stream joined continues, and
/// the stream's last nodes must still precede the capture's end.
pub(crate) fn forget_stream(stream: &Stream) {
    let mut sequences = SEQUENCES.lock();
    let Some((at, branch)) = find(&sequences, stream) else {
        return;
    };
    match branch {
        0 => drop(finish(&mut sequences, at)),
        _ => {
            let gone = sequences[at].branches.remove(branch);
            sequences[at].left.extend(gone.dependencies);
            gone.stream.set_watched(false);
            update_legacy(&sequences, gone.stream.context());
        }
    }
}

/// Returns the indices of a stream's sequence and branch.
fn find(sequences: &[Sequence], stream: &Stream) -> Option<(usize, usize)> {
    sequences.iter().enumerate().find_map(|(at, sequence)| {
        let branch = sequence.branches.iter().position(|b| b.stream == *stream)?;
        Some((at, branch))
    })
}

/// Removes a sequence; its streams no longer capture.
fn finish(sequences: &mut Vec<Sequence>, at: usize) -> Sequence {
    let sequence = sequences.remove(at);
    ACTIVE.store(sequences.len(), Ordering::Relaxed);
    for branch in &sequence.branches {
        branch.stream.set_watched(false);
        update_legacy(sequences, branch.stream.context());
    }
    sequence.graph.set_capturing(false);
    sequence
}

fn is_blocking(stream: &Stream) -> bool {
    matches!(stream.kind(), StreamKind::Blocking | StreamKind::PerThread)
}

/// Makes the legacy stream of a context watched while one of the context's blocking streams is capturing.
fn update_legacy(sequences: &[Sequence], context: &Context) {
    let branches = sequences.iter().flat_map(|sequence| &sequence.branches);
    let watched = { branches }
        .any(|branch| branch.stream.context() == context && is_blocking(&branch.stream));
    context.legacy_stream().set_watched(watched);
}

impl Sequence {
    fn check(&self) -> Result<()> {
        match self.invalid {
            true => Err(CaptureError::Invalidated.into()),
            false => Ok(()),
        }
    }

    /// Adds a node after the nodes that a branch waits for.
    fn add(&mut self, branch: usize, op: NodeOp) -> Result<Node> {
        self.check()?;
        let dependencies = &mut self.branches[branch].dependencies;
        match self.graph.add(op, dependencies) {
            Ok(node) => {
                *dependencies = vec![(node.clone(), EdgeData::default())];
                Ok(node)
            }
            Err(error) => {
                self.invalid = true;
                Err(error)
            }
        }
    }

    /// Returns whether everything that the other branches wait for precedes the end of the first branch.
    fn is_joined(&self) -> Result<bool> {
        let mut joined: rustc_hash::FxHashSet<u64> = rustc_hash::FxHashSet::default();
        let first = self.branches[0].dependencies.iter();
        let mut todo: Vec<Node> = first.map(|(node, _)| node.clone()).collect();
        while let Some(node) = todo.pop() {
            if joined.insert(node.id()) {
                todo.extend(node.dependencies()?.into_iter().map(|(node, _)| node));
            }
        }
        let others = self.branches[1..].iter();
        let mut ends = others
            .flat_map(|branch| &branch.dependencies)
            .chain(&self.left);
        Ok(ends.all(|(node, _)| joined.contains(&node.id())))
    }
}

/// Adds the elements of `more` that `dependencies` lacks.
fn join(dependencies: &mut Dependencies, more: &[(Node, EdgeData)]) {
    for (node, data) in more {
        if !dependencies.iter().any(|(known, _)| known == node) {
            dependencies.push((node.clone(), *data));
        }
    }
}

impl Stream {
    /// Begins a capture: from now on, work submitted to the stream becomes nodes of a new graph.
    ///
    /// # Errors
    /// [`CaptureError::Unsupported`] for the legacy stream, [`Error::IllegalState`] when the
    /// stream is capturing.
    pub fn begin_capture(&self, mode: CaptureMode) -> Result<()> {
        self.begin_capture_to(&Graph::new(), &[], mode)
    }

    /// Begins a capture into an existing graph. The first nodes depend on `dependencies`, which are nodes of the graph.
    ///
    /// # Errors
    /// The errors of [`Stream::begin_capture`]; [`Error::InvalidValue`] for nodes of other graphs.
    pub fn begin_capture_to(
        &self,
        graph: &Graph,
        dependencies: &[(Node, EdgeData)],
        mode: CaptureMode,
    ) -> Result<()> {
        self.check()?;
        if self.kind() == StreamKind::Legacy {
            return Err(CaptureError::Unsupported.into());
        }
        check_dependencies(graph, dependencies)?;
        let mut sequences = SEQUENCES.lock();
        if find(&sequences, self).is_some() {
            return Err(Error::IllegalState("the stream is capturing".into()));
        }
        graph.set_capturing(true);
        sequences.push(Sequence {
            id: next_id(),
            graph: graph.clone(),
            mode,
            thread: thread_id(),
            invalid: false,
            branches: vec![Branch {
                stream: self.clone(),
                dependencies: dependencies.to_vec(),
            }],
            left: Dependencies::new(),
            records: Vec::new(),
        });
        ACTIVE.store(sequences.len(), Ordering::Relaxed);
        self.set_watched(true);
        update_legacy(&sequences, self.context());
        Ok(())
    }

    /// Ends the capture that began in this stream and returns its graph.
    ///
    /// # Errors
    /// [`Error::IllegalState`] when the stream is not capturing; [`CaptureError::WrongThread`] when the capture began
    /// in another thread; [`CaptureError::Unmatched`] when it began in another stream. The following errors also end
    /// the capture: [`CaptureError::Invalidated`] after an earlier error, and [`CaptureError::Unjoined`] when a branch
    /// has not joined the first stream.
    pub fn end_capture(&self) -> Result<Graph> {
        self.check()?;
        let mut sequences = SEQUENCES.lock();
        let Some((at, branch)) = find(&sequences, self) else {
            return Err(Error::IllegalState("the stream is not capturing".into()));
        };
        let sequence = &mut sequences[at];
        if branch != 0 {
            sequence.invalid = true;
            return Err(CaptureError::Unmatched.into());
        }
        let here = thread_id() == sequence.thread;
        if sequence.mode != CaptureMode::Relaxed && !here {
            return Err(CaptureError::WrongThread.into());
        }
        let sequence = finish(&mut sequences, at);
        drop(sequences);
        sequence.check()?;
        match sequence.is_joined()? {
            true => Ok(sequence.graph),
            false => Err(CaptureError::Unjoined.into()),
        }
    }

    /// Returns the capture state of the stream.
    ///
    /// # Errors
    /// [`CaptureError::Implicit`] for the legacy stream while a blocking stream of the context is capturing.
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        self.check()?;
        if !self.is_watched() {
            return Ok(CaptureStatus::None);
        }
        if self.kind() == StreamKind::Legacy {
            return Err(CaptureError::Implicit.into());
        }
        let sequences = SEQUENCES.lock();
        Ok(match find(&sequences, self) {
            None => CaptureStatus::None,
            Some((at, _)) if sequences[at].invalid => CaptureStatus::Invalidated,
            Some(_) => CaptureStatus::Active,
        })
    }

    /// Returns the capture that the stream takes part in; `None` if there is none or it is invalidated.
    pub fn capture_info(&self) -> Option<CaptureInfo> {
        let sequences = SEQUENCES.lock();
        let (at, branch) = find(&sequences, self)?;
        let sequence = &sequences[at];
        (!sequence.invalid).then(|| CaptureInfo {
            id: sequence.id,
            graph: sequence.graph.clone(),
            dependencies: sequence.branches[branch].dependencies.clone(),
        })
    }

    /// Changes which nodes the next captured node waits for.
    ///
    /// # Errors
    /// [`Error::IllegalState`] when the stream is not capturing, [`Error::InvalidValue`] for
    /// nodes of other graphs.
    pub fn update_capture_dependencies(
        &self,
        dependencies: &[(Node, EdgeData)],
        how: DependencyUpdate,
    ) -> Result<()> {
        self.check()?;
        let mut sequences = SEQUENCES.lock();
        let Some((at, branch)) = find(&sequences, self) else {
            return Err(Error::IllegalState("the stream is not capturing".into()));
        };
        let sequence = &mut sequences[at];
        sequence.check()?;
        check_dependencies(&sequence.graph, dependencies)?;
        let current = &mut sequence.branches[branch].dependencies;
        if how == DependencyUpdate::Set {
            current.clear();
        }
        join(current, dependencies);
        Ok(())
    }
}

fn check_dependencies(graph: &Graph, dependencies: &[(Node, EdgeData)]) -> Result<()> {
    for (node, _) in dependencies {
        node.op()?;
        if node.graph()? != *graph {
            return Err(Error::invalid("a node of another graph"));
        }
    }
    Ok(())
}

/// Invalidates the capture in which an event was recorded, if it is still active, and returns the error for a call that
/// uses the event.
pub(crate) fn refuse_event(recorded: Recorded) -> Error {
    let mut sequences = SEQUENCES.lock();
    if let Some(sequence) = sequences.iter_mut().find(|s| s.id == recorded.sequence) {
        sequence.invalid = true;
    }
    CaptureError::CapturedEvent.into()
}

/// Makes `stream` wait for a record of an event in a capture: the stream joins that capture.
pub(crate) fn wait_captured(stream: &Stream, recorded: Recorded) -> Result<()> {
    let mut sequences = SEQUENCES.lock();
    let Some(at) = sequences.iter().position(|s| s.id == recorded.sequence) else {
        return Err(CaptureError::CapturedEvent.into());
    };
    if stream.kind() == StreamKind::Legacy {
        sequences[at].invalid = true;
        return Err(CaptureError::Implicit.into());
    }
    let recorded = sequences[at].records.get(recorded.index).cloned();
    let recorded = recorded.unwrap_or_default();
    match find(&sequences, stream) {
        Some((own, _)) if own != at => {
            sequences[own].invalid = true;
            sequences[at].invalid = true;
            return Err(CaptureError::Merge.into());
        }
        Some((_, branch)) => {
            sequences[at].check()?;
            let branch = &mut sequences[at].branches[branch];
            join(&mut branch.dependencies, &recorded);
        }
        None => {
            sequences[at].check()?;
            sequences[at].branches.push(Branch {
                stream: stream.clone(),
                dependencies: recorded,
            });
            stream.set_watched(true);
            update_legacy(&sequences, stream.context());
        }
    }
    Ok(())
}

/// Rejects a wait of a capturing stream for an event that was not recorded in a capture, and invalidates the capture.
pub(crate) fn wait_outside(stream: &Stream) -> Result<()> {
    refuse(stream, CaptureError::Isolation)
}

/// Records an event in a capturing stream.
pub(crate) fn record(stream: &Stream, event: &Event) -> Result<()> {
    let mut sequences = SEQUENCES.lock();
    let Some((at, branch)) = find(&sequences, stream) else {
        drop(sequences);
        return refuse(stream, CaptureError::Unsupported);
    };
    let sequence = &mut sequences[at];
    sequence.check()?;
    let recorded = Recorded {
        sequence: sequence.id,
        index: sequence.records.len(),
    };
    let dependencies = sequence.branches[branch].dependencies.clone();
    sequence.records.push(dependencies);
    // The event's lock is taken after the lock of the sequences is released.
    drop(sequences);
    event.set_captured(recorded);
    Ok(())
}

/// Adds a node to the capture of a watched stream.
fn add(stream: &Stream, op: NodeOp) -> Result<Node> {
    let mut sequences = SEQUENCES.lock();
    match find(&sequences, stream) {
        Some((at, branch)) => sequences[at].add(branch, op),
        None => {
            drop(sequences);
            Err(refusal(stream, CaptureError::Unsupported))
        }
    }
}

/// Rejects an operation that a watched stream cannot do, and invalidates the captures concerned.
pub(crate) fn refuse(stream: &Stream, error: CaptureError) -> Result<()> {
    Err(refusal(stream, error))
}

fn refusal(stream: &Stream, error: CaptureError) -> Error {
    let mut sequences = SEQUENCES.lock();
    if let Some((at, _)) = find(&sequences, stream) {
        let was = std::mem::replace(&mut sequences[at].invalid, true);
        return match was {
            true => CaptureError::Invalidated.into(),
            false => error.into(),
        };
    }
    // The legacy stream, watched because other streams capture.
    let concerned = |branch: &Branch| {
        branch.stream.context() == stream.context() && is_blocking(&branch.stream)
    };
    for sequence in sequences.iter_mut() {
        if sequence.branches.iter().any(concerned) {
            sequence.invalid = true;
        }
    }
    CaptureError::Implicit.into()
}
