//! Stream capture: work submitted to a capturing stream becomes nodes of a graph instead of running.
//!
//! Sources: CUDA programming guide, "Creating a Graph Using Stream Capture"; CUDA driver API, `cuStreamBeginCapture`
//! and `cuThreadExchangeStreamCaptureMode`. A *sequence* is the state of a capture: its graph, the streams in the
//! capture, and for each of these streams the nodes on which the stream's next node depends.
//!
//! Invariants: one lock protects the table of all captures ([`table`]). Calls that do not involve
//! captures take this lock only while a capture is active. A stream is *watched* while it takes
//! part in a capture. A context's legacy stream is watched while a blocking stream of that context
//! takes part in a capture. A call for a stream finds out with a single load whether the stream is
//! watched.

mod ops;
mod table;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use crate::context::Context;
use crate::error::{CaptureError, Error, Result};
use crate::event::{Event, Recorded};
use crate::graph::{EdgeData, Graph, Node, NodeOp};
use crate::process::thread_id;
use crate::stream::{Stream, StreamKind};

pub(crate) use ops::*;
use table::{Branch, Sequence, Sequences};

/// The calls that a capture forbids, and the threads in which these calls are forbidden (`CUstreamCaptureMode`). Each
/// thread also has a mode of its own ([`exchange_thread_mode`]). If this mode is `Relaxed`, the modes of captures have
/// no effect on the thread.
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
    /// Calls that can synchronise are forbidden in the thread that began the capture, and in all
    /// threads whose own mode is `Global`.
    #[default]
    Global = 0,
    /// Calls that can synchronise are forbidden in the thread that began the capture.
    ThreadLocal = 1,
    /// The capture forbids no calls.
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
    /// Work that is submitted to the stream becomes nodes.
    Active = 1,
    /// The stream is in a capture that an error has invalidated; [`Stream::end_capture`] ends the capture.
    Invalidated = 2,
}

/// The capture in which a stream takes part.
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
    /// ID of the capture, which is unique in the process.
    pub id: u64,
    /// The graph to which nodes are added.
    pub graph: Graph,
    /// The nodes on which the stream's next node depends.
    pub dependencies: Vec<(Node, EdgeData)>,
}

/// How new dependencies of a capturing stream are combined with its current dependencies.
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
    /// The new dependencies are added to the current dependencies.
    Add,
    /// The new dependencies replace the current dependencies.
    Set,
}

/// The nodes on which a node depends, with the data of the edges.
pub(crate) type Dependencies = Vec<(Node, EdgeData)>;

static SEQUENCES: Mutex<Sequences> = Mutex::new(Sequences::new());
/// Number of captures. This number can be read without the lock of the table.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

/// Sets the calling thread's capture mode and returns its previous mode.
pub fn exchange_thread_mode(mode: CaptureMode) -> CaptureMode {
    MODE.replace(mode)
}

/// Returns an error if a capture forbids this thread to make calls that can synchronise, and
/// invalidates each capture that forbids this.
///
/// # Errors
/// [`CaptureError::Unsupported`] if a capture forbids the call.
pub fn check_unsafe_call() -> Result<()> {
    if ACTIVE.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let (own, thread) = (MODE.get(), thread_id());
    if own == CaptureMode::Relaxed {
        return Ok(());
    }
    let mut sequences = SEQUENCES.lock();
    if !sequences.forbids(own, thread) {
        return Ok(());
    }
    sequences.invalidate_where(|sequence| {
        let here = sequence.thread == thread && sequence.mode != CaptureMode::Relaxed;
        here || (own == CaptureMode::Global && sequence.mode == CaptureMode::Global)
    });
    Err(CaptureError::Unsupported.into())
}

/// Returns an error if a stream of the context takes part in a capture, and invalidates each
/// capture in which a stream of the context takes part. Calls that affect all work of a context use
/// this check.
///
/// # Errors
/// [`CaptureError::Unsupported`] if a stream of the context is capturing.
pub(crate) fn check_context(context: &Context) -> Result<()> {
    if ACTIVE.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let mut sequences = SEQUENCES.lock();
    if !sequences.has_context(context) {
        return Ok(());
    }
    sequences.invalidate_where(|sequence| sequence.has_context(context));
    Err(CaptureError::Unsupported.into())
}

/// Ends all captures in which streams of a context take part. The runtime calls this function when
/// the context is destroyed or reset.
pub(crate) fn forget_context(context: &Context) {
    if ACTIVE.load(Ordering::Relaxed) == 0 {
        return;
    }
    let mut sequences = SEQUENCES.lock();
    for id in sequences.of_context(context) {
        finish(&mut sequences, id);
    }
}

/// Removes a destroyed stream from its capture. If the capture began in the stream, the capture
/// ends. If the capture began in another stream, the capture continues. Before that capture ends,
/// the program must still join the last nodes of the destroyed stream to the stream in which the
/// capture began.
pub(crate) fn forget_stream(stream: &Stream) {
    let mut sequences = SEQUENCES.lock();
    let Some(place) = sequences.place_of(stream) else {
        return;
    };
    if place.is_first() {
        finish(&mut sequences, place.sequence);
    } else if let Some(gone) = sequences.leave(place) {
        unwatch(&sequences, &gone);
    }
}

/// Ends a capture: removes it from the table `sequences`, marks its streams and its graph as not
/// capturing, and returns it.
fn finish(sequences: &mut Sequences, id: u64) -> Option<Sequence> {
    let sequence = sequences.remove(id)?;
    ACTIVE.store(sequences.len(), Ordering::Relaxed);
    for branch in sequence.branches.values() {
        unwatch(sequences, &branch.stream);
    }
    sequence.graph.set_capturing(false);
    Some(sequence)
}

/// Marks a stream that has joined a capture as watched. If the stream is blocking, also marks the
/// legacy stream of its context as watched.
fn watch(stream: &Stream) {
    stream.set_watched(true);
    if is_blocking(stream) {
        stream.context().legacy_stream().set_watched(true);
    }
}

/// Marks a stream that has left its capture as not watched. If no blocking stream of its context
/// takes part in a capture, also marks the context's legacy stream as not watched.
fn unwatch(sequences: &Sequences, stream: &Stream) {
    stream.set_watched(false);
    if !sequences.has_blocking(stream.context()) {
        stream.context().legacy_stream().set_watched(false);
    }
}

fn is_blocking(stream: &Stream) -> bool {
    matches!(stream.kind(), StreamKind::Blocking | StreamKind::PerThread)
}

/// Adds to `dependencies` each dependency of `more` whose node `dependencies` does not contain yet.
fn join(dependencies: &mut Dependencies, more: &[(Node, EdgeData)]) {
    for (node, data) in more {
        if !dependencies.iter().any(|(known, _)| known == node) {
            dependencies.push((node.clone(), *data));
        }
    }
}

/// Adds dependencies like [`join`], and also removes from `dependencies` the nodes on which a node
/// of `more` directly depends. If the function did not remove these nodes, a stream that repeatedly
/// forks and joins without work of its own would depend on the last nodes of all forks.
fn join_later(dependencies: &mut Dependencies, more: &[(Node, EdgeData)]) {
    for (node, data) in more.iter().filter(|(_, data)| data.is_plain()) {
        if dependencies.is_empty() || dependencies.contains(&(node.clone(), *data)) {
            continue;
        }
        // A destroyed node has no dependencies.
        let earlier = node.dependencies().unwrap_or_default();
        let earlier = earlier.into_iter().filter(|(_, data)| data.is_plain());
        let earlier: FxHashSet<u64> = earlier.map(|(node, _)| node.id()).collect();
        dependencies.retain(|(known, _)| !earlier.contains(&known.id()));
    }
    join(dependencies, more);
}

impl Stream {
    /// Begins a capture: work that is submitted to the stream after this call becomes nodes of a
    /// new graph.
    ///
    /// # Errors
    /// [`CaptureError::Unsupported`] for the legacy stream; [`Error::IllegalState`] if the stream is capturing.
    pub fn begin_capture(&self, mode: CaptureMode) -> Result<()> {
        self.begin_capture_to(&Graph::new(), &[], mode)
    }

    /// Begins a capture that adds nodes to an existing graph. The stream's first node depends on `dependencies`, which
    /// are nodes of the graph.
    ///
    /// # Errors
    /// Returns the same errors as [`Stream::begin_capture`], and [`Error::InvalidValue`] for nodes of other graphs.
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
        if sequences.place_of(self).is_some() {
            return Err(Error::IllegalState("the stream is capturing".into()));
        }
        graph.set_capturing(true);
        sequences.begin(graph, mode, self, dependencies.to_vec());
        ACTIVE.store(sequences.len(), Ordering::Relaxed);
        watch(self);
        Ok(())
    }

    /// Ends the capture that began in this stream and returns its graph.
    ///
    /// # Errors
    /// [`Error::IllegalState`] if the stream is not capturing; [`CaptureError::WrongThread`] if the capture began in
    /// another thread and the capture's mode is not [`CaptureMode::Relaxed`]; [`CaptureError::Unmatched`] if the
    /// capture began in another stream, which also invalidates the capture. The following errors also end the capture:
    /// [`CaptureError::Invalidated`] after an earlier error, and [`CaptureError::Unjoined`] if another stream of the
    /// capture has not been joined to this stream.
    pub fn end_capture(&self) -> Result<Graph> {
        self.check()?;
        let mut sequences = SEQUENCES.lock();
        let (place, sequence) = sequences.find(self).ok_or_else(not_capturing)?;
        if !place.is_first() {
            sequence.invalid = true;
            return Err(CaptureError::Unmatched.into());
        }
        let here = thread_id() == sequence.thread;
        if sequence.mode != CaptureMode::Relaxed && !here {
            return Err(CaptureError::WrongThread.into());
        }
        let sequence = finish(&mut sequences, place.sequence).ok_or_else(not_capturing)?;
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
    /// [`CaptureError::Implicit`] if this is the legacy stream and a blocking stream of the context
    /// is capturing.
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        self.check()?;
        if !self.is_watched() {
            return Ok(CaptureStatus::None);
        }
        if self.kind() == StreamKind::Legacy {
            return Err(CaptureError::Implicit.into());
        }
        Ok(match SEQUENCES.lock().find(self) {
            None => CaptureStatus::None,
            Some((_, sequence)) if sequence.invalid => CaptureStatus::Invalidated,
            Some(_) => CaptureStatus::Active,
        })
    }

    /// Returns the capture in which the stream takes part; `None` if there is no such capture or the capture is
    /// invalidated.
    pub fn capture_info(&self) -> Option<CaptureInfo> {
        let mut sequences = SEQUENCES.lock();
        let (place, sequence) = sequences.find(self)?;
        if sequence.invalid {
            return None;
        }
        Some(CaptureInfo {
            id: place.sequence,
            graph: sequence.graph.clone(),
            dependencies: sequence.dependencies(place).clone(),
        })
    }

    /// Changes the nodes on which the stream's next captured node depends.
    ///
    /// # Errors
    /// [`Error::IllegalState`] if the stream is not capturing; [`Error::InvalidValue`] for nodes of other graphs.
    pub fn update_capture_dependencies(
        &self,
        dependencies: &[(Node, EdgeData)],
        how: DependencyUpdate,
    ) -> Result<()> {
        self.check()?;
        let mut sequences = SEQUENCES.lock();
        let (place, sequence) = sequences.find(self).ok_or_else(not_capturing)?;
        sequence.check()?;
        check_dependencies(&sequence.graph, dependencies)?;
        let current = sequence.dependencies(place);
        if how == DependencyUpdate::Set {
            current.clear();
        }
        join(current, dependencies);
        Ok(())
    }
}

fn not_capturing() -> Error {
    Error::IllegalState("the stream is not capturing".into())
}

fn check_dependencies(graph: &Graph, dependencies: &[(Node, EdgeData)]) -> Result<()> {
    for (node, _) in dependencies {
        node.op()?;
        if node.graph()? != *graph {
            return Err(Error::invalid("a node of a different graph"));
        }
    }
    Ok(())
}

/// Returns the error for a call that uses an event which was recorded in a capture. If this capture
/// is still active, invalidates it.
pub(crate) fn refuse_event(recorded: Recorded) -> Error {
    if let Some(sequence) = SEQUENCES.lock().get(recorded.sequence) {
        sequence.invalid = true;
    }
    CaptureError::CapturedEvent.into()
}

/// Makes `stream` wait for an event that was recorded in a capture. If the stream is not part of
/// this capture yet, it joins the capture.
pub(crate) fn wait_captured(stream: &Stream, recorded: Recorded) -> Result<()> {
    let mut sequences = SEQUENCES.lock();
    let own = sequences.place_of(stream);
    let Some(sequence) = sequences.get(recorded.sequence) else {
        return Err(CaptureError::CapturedEvent.into());
    };
    if stream.kind() == StreamKind::Legacy {
        sequence.invalid = true;
        return Err(CaptureError::Implicit.into());
    }
    if let Some(own) = own.filter(|own| own.sequence != recorded.sequence) {
        sequence.invalid = true;
        if let Some(own) = sequences.get(own.sequence) {
            own.invalid = true;
        }
        return Err(CaptureError::Merge.into());
    }
    sequence.check()?;
    let dependencies = sequence.records.get(recorded.index).cloned();
    let dependencies = dependencies.unwrap_or_default();
    match own {
        Some(own) => join_later(sequence.dependencies(own), &dependencies),
        None => {
            sequences.join(recorded.sequence, stream, dependencies);
            watch(stream);
        }
    }
    Ok(())
}

/// Returns the error for a capturing stream that waits for an event which was not recorded in a
/// capture. Invalidates the capture of the stream.
pub(crate) fn wait_outside(stream: &Stream) -> Result<()> {
    refuse(stream, CaptureError::Isolation)
}

/// Records an event in a capturing stream.
pub(crate) fn record(stream: &Stream, event: &Event) -> Result<()> {
    let mut sequences = SEQUENCES.lock();
    let Some((place, sequence)) = sequences.find(stream) else {
        drop(sequences);
        return refuse(stream, CaptureError::Unsupported);
    };
    sequence.check()?;
    let recorded = Recorded {
        sequence: place.sequence,
        index: sequence.records.len(),
    };
    let dependencies = sequence.dependencies(place).clone();
    sequence.records.push(dependencies);
    // The lock of the sequences is released before the event's lock is taken.
    drop(sequences);
    event.set_captured(recorded);
    Ok(())
}

/// Adds a node to the graph of the capture in which a stream takes part.
fn add(stream: &Stream, op: NodeOp) -> Result<Node> {
    let mut sequences = SEQUENCES.lock();
    if let Some((place, sequence)) = sequences.find(stream) {
        return sequence.add(place, op);
    }
    drop(sequences);
    Err(refusal(stream, CaptureError::Unsupported))
}

/// Returns `error` for an operation that is not allowed in a stream while the stream is watched,
/// and invalidates the captures because of which the stream is watched.
pub(crate) fn refuse(stream: &Stream, error: CaptureError) -> Result<()> {
    Err(refusal(stream, error))
}

fn refusal(stream: &Stream, error: CaptureError) -> Error {
    let mut sequences = SEQUENCES.lock();
    if let Some((_, sequence)) = sequences.find(stream) {
        let was = std::mem::replace(&mut sequence.invalid, true);
        return match was {
            true => CaptureError::Invalidated.into(),
            false => error.into(),
        };
    }
    // The stream is a legacy stream, which is watched because blocking streams of its context are capturing.
    let concerned = |branch: &Branch| {
        branch.stream.context() == stream.context() && is_blocking(&branch.stream)
    };
    sequences.invalidate_where(|sequence| sequence.branches.values().any(concerned));
    CaptureError::Implicit.into()
}
