//! Groups of calls (`ncclGroupStart`, `ncclGroupEnd`). A call outside a group is a group of one call.
//!
//! Calls in a group are checked when they are made, and take effect when the outermost group ends: first communicators
//! join, so that one thread can join as several ranks; then the collectives are submitted in the order of the calls; then
//! the messages, those of each communicator and stream as one operation.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::collective::{Call, collective};
use crate::comm::{Comm, Key, Member};
use crate::exchange::exchange;
use crate::matching::Message;
use crate::place;
use crate::status::{Outcome, Status, failure};

/// What happens when a group ends.
pub(crate) enum Job {
    /// Waits until the other ranks of a communicator have joined.
    Join(Arc<Comm>),
    /// Joins a part of a communicator, and stores the new handle.
    Split {
        parent: Arc<Comm>,
        number: u32,
        blocking: bool,
        handle: *mut usize,
    },
    /// Submits a collective.
    Collective(Arc<Comm>, usize, Call),
    /// Submits a message.
    Message(Arc<Comm>, usize, Message),
}

#[derive(Default)]
struct Group {
    depth: usize,
    jobs: Vec<Job>,
    error: Option<Status>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Begins a group.
pub(crate) fn start() -> Outcome {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    Ok(())
}

/// Ends a group.
pub(crate) fn end() -> Outcome {
    let ended = GROUP.with_borrow_mut(|group| match group.depth {
        0 => None,
        1 => Some(Some(std::mem::take(group))),
        _ => {
            group.depth -= 1;
            Some(None)
        }
    });
    match ended {
        None => Err(failure(
            Status::INVALID_USAGE,
            "ncclGroupEnd without ncclGroupStart",
        )),
        Some(None) => Ok(()),
        Some(Some(group)) => match group.error {
            Some(error) => Err(error),
            None => perform(group.jobs),
        },
    }
}

/// Drops the calls of a group.
pub(crate) fn discard() {
    GROUP.take();
}

/// Notes that a call in a group failed. Then the group has no effect.
pub(crate) fn note_failure(status: Status) {
    // A thread that ends has no group.
    let _ = GROUP.try_with(|group| {
        if let Ok(mut group) = group.try_borrow_mut()
            && group.depth > 0
        {
            group.error.get_or_insert(status);
        }
    });
}

/// Does a job, or adds it to the open group.
pub(crate) fn add(job: Job) -> Outcome {
    let now = GROUP.with_borrow_mut(|group| match group.depth {
        0 => Some(job),
        _ => {
            group.jobs.push(job);
            None
        }
    });
    now.map_or(Ok(()), |job| perform(vec![job]))
}

fn perform(jobs: Vec<Job>) -> Outcome {
    let mut joined = Vec::new();
    for job in &jobs {
        match job {
            Job::Join(comm) => joined.push(Arc::clone(comm)),
            Job::Split {
                parent,
                number,
                blocking,
                handle,
            } => joined.extend(split(parent, *number, *blocking, *handle)?),
            Job::Collective(..) | Job::Message(..) => {}
        }
    }
    for comm in joined.iter().filter(|comm| comm.blocking) {
        comm.wait_for_ranks()?;
    }
    let mut exchanges: Vec<(Arc<Comm>, usize, Vec<Message>)> = Vec::new();
    for job in jobs {
        match job {
            Job::Join(_) | Job::Split { .. } => {}
            Job::Collective(comm, stream, call) => collective(&comm, stream, call)?,
            Job::Message(comm, stream, message) => {
                let same = |other: &(Arc<Comm>, usize, Vec<Message>)| {
                    Arc::ptr_eq(&other.0, &comm) && other.1 == stream
                };
                match exchanges.iter_mut().find(|other| same(other)) {
                    Some(found) => found.2.push(message),
                    None => exchanges.push((comm, stream, vec![message])),
                }
            }
        }
    }
    for (comm, stream, messages) in exchanges {
        exchange(&comm, stream, messages)?;
    }
    Ok(())
}

/// The color of ranks that get no new communicator.
pub(crate) const NO_COLOR: i32 = -1;

/// Tells the other ranks of `parent` how this rank takes part in the next split. Returns the number of the split.
///
/// The words are used in turn for two splits: a rank announces a split only when it has done the one before, for which all
/// ranks had announced themselves and so had done the one before that.
pub(crate) fn announce(parent: &Comm, color: i32, order: i32) -> u32 {
    let own = parent.control.rank(parent.rank);
    let number = own.splits.load(SeqCst).wrapping_add(1);
    let turn = (number % 2) as usize;
    own.color[turn].store(color.cast_unsigned(), SeqCst);
    own.order[turn].store(order.cast_unsigned(), SeqCst);
    own.splits.store(number, SeqCst);
    number
}

/// Joins the ranks of `parent` with the same color, when all ranks have announced the split.
fn split(
    parent: &Arc<Comm>,
    number: u32,
    blocking: bool,
    handle: *mut usize,
) -> Outcome<Option<Arc<Comm>>> {
    let announced = || {
        let behind = |rank: &crate::control::Rank| {
            number.wrapping_sub(rank.splits.load(SeqCst)).cast_signed() > 0
        };
        !parent.control.all().any(behind)
    };
    parent.wait_until("to split the communicator", announced)?;
    let turn = (number % 2) as usize;
    let color_of = |rank: usize| {
        parent.control.rank(rank).color[turn]
            .load(SeqCst)
            .cast_signed()
    };
    let color = color_of(parent.rank);
    if color == NO_COLOR {
        return Ok(None);
    }
    let mut members: Vec<_> = (0..parent.ranks)
        .filter(|&rank| color_of(rank) == color)
        .map(|rank| {
            let order = parent.control.rank(rank).order[turn].load(SeqCst);
            (order.cast_signed(), rank)
        })
        .collect();
    members.sort_unstable();
    let rank = members.iter().position(|&(_, rank)| rank == parent.rank);
    let member = Member {
        rank: rank.ok_or(Status::INTERNAL)?,
        ranks: members.len(),
        device: parent.device,
        context: parent.context,
        blocking,
    };
    let key = derived(
        parent.key,
        &[1, u64::from(number), u64::from(color.cast_unsigned())],
    );
    let comm = Comm::join_as(key, member, parent.process())?;
    let stored = place::write(handle, comm.publish());
    stored.ok_or_else(|| {
        failure(
            Status::INVALID_ARGUMENT,
            "the place for the communicator is not writable",
        )
    })?;
    Ok(Some(comm))
}

/// Returns a key that is computed from another one. Ranks in different processes compute the same one (FNV-1a).
pub(crate) fn derived(key: Key, words: &[u64]) -> Key {
    let half = |start: u64| {
        let bytes = key
            .iter()
            .copied()
            .chain(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.fold(start, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    let mut result = [0; 16];
    result[..8].copy_from_slice(&half(0xcbf2_9ce4_8422_2325).to_le_bytes());
    result[8..].copy_from_slice(&half(0x6c62_272e_07bb_0142).to_le_bytes());
    result
}
