//! What a thread of the program does: the calls that it executes, its waits, the graph that it launches, and the external
//! numbers that the client has pushed.

use std::cell::RefCell;

/// A call that has not ended.
pub(super) struct OpenCall {
    pub(super) call: u64,
    pub(super) name: &'static str,
    pub(super) correlation: u32,
    pub(super) start: u64,
    /// Whether the call has submitted work.
    pub(super) has_work: bool,
}

/// A wait that has not ended.
pub(super) struct OpenWait {
    pub(super) kind: margay_activity::SynchronisationKind,
    pub(super) start: u64,
    pub(super) context: u32,
    pub(super) stream: Option<u32>,
    pub(super) event: Option<u32>,
}

/// What a thread does.
#[derive(Default)]
pub(super) struct Here {
    pub(super) calls: Vec<OpenCall>,
    pub(super) waits: Vec<OpenWait>,
    /// The executable graph that the thread launches, and the stream.
    pub(super) graph: Option<(u64, u64)>,
    /// External numbers with their kinds, the newest last.
    pub(super) external: Vec<(u32, u64)>,
    /// The numbers of the annotated ranges that the thread has begun and not ended.
    pub(super) ranges: Vec<u32>,
}

impl Here {
    /// Returns the newest external number of each kind.
    pub(super) fn newest_external(&self) -> Vec<(u32, u64)> {
        let mut newest: Vec<(u32, u64)> = Vec::new();
        for &(kind, id) in self.external.iter().rev() {
            if newest.iter().all(|&(known, _)| known != kind) {
                newest.push((kind, id));
            }
        }
        newest
    }
}

thread_local! {
    /// For each recorder of the process, by its number, what the thread does.
    static HERE: RefCell<Vec<(u64, Here)>> = const { RefCell::new(Vec::new()) };
}

/// Calls `action` with what the thread does. Does nothing while the thread ends.
pub(super) fn with<T>(recorder: u64, action: impl FnOnce(&mut Here) -> T) -> Option<T> {
    let result = HERE.try_with(|here| {
        let mut all = here.try_borrow_mut().ok()?;
        let known = all.iter().position(|&(known, _)| known == recorder);
        let index = known.unwrap_or_else(|| {
            all.push((recorder, Here::default()));
            all.len() - 1
        });
        Some(action(&mut all[index].1))
    });
    result.ok().flatten()
}
