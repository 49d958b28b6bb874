//! The syntax table, indexed by head (the first word of an instruction). The lines of a head are
//! compiled on first use.

use crate::compile::{Lines, read};
use crate::pattern::{Form, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{LazyLock, OnceLock};

/// The files of the syntax table, in the order in which the matcher tries their forms. The definition of a class can
/// only use classes that are defined before it, in the same file or in an earlier one.
const FILES: &[&str] = &[
    include_str!("../tables/classes.forms"),
    include_str!("../tables/arithmetic.forms"),
    include_str!("../tables/logic.forms"),
    include_str!("../tables/convert.forms"),
    include_str!("../tables/memory.forms"),
    include_str!("../tables/control.forms"),
    include_str!("../tables/async.forms"),
    include_str!("../tables/matrix.forms"),
    include_str!("../tables/video.forms"),
    include_str!("../tables/texture.forms"),
];

struct Table {
    lines: Lines,
    by_head: FxHashMap<&'static str, OnceLock<Vec<&'static Form>>>,
    words: OnceLock<Words>,
}

/// The modifiers of all forms and of each head, for error messages about wrong modifiers.
#[derive(Default)]
struct Words {
    modifiers: FxHashSet<&'static str>,
    by_head: FxHashSet<(&'static str, &'static str)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let lines = read(FILES);
    Table {
        by_head: lines.heads().map(|head| (head, OnceLock::new())).collect(),
        lines,
        words: OnceLock::new(),
    }
});

fn known_words() -> &'static Words {
    TABLE.words.get_or_init(|| {
        let mut words = Words::default();
        for form in heads().flat_map(forms_of) {
            for choice in form.all_slots().flat_map(|slot| &slot.choices) {
                words.modifiers.insert(choice.text);
                words.by_head.insert((form.head, choice.text));
            }
        }
        words
    })
}

impl Form {
    fn all_slots(&self) -> impl Iterator<Item = &Slot> {
        let unordered = self.prefix.iter().chain(&self.slots);
        unordered.chain(&self.types).chain(&self.ordered)
    }
}

/// Returns the forms with this head, in the order of the table. Returns an empty slice if the head is unknown.
pub fn forms_of(head: &str) -> &'static [&'static Form] {
    let Some((&head, cell)) = TABLE.by_head.get_key_value(head) else {
        return &[];
    };
    cell.get_or_init(|| {
        // The forms are leaked, so that a `Spelling` can contain a `&'static` reference to its form.
        let forms: &'static [Form] = Vec::leak(TABLE.lines.forms_of(head));
        forms.iter().collect()
    })
}

/// Returns the heads of all instructions, in no particular order.
pub fn heads() -> impl Iterator<Item = &'static str> {
    TABLE.by_head.keys().copied()
}

/// Whether PTX has an instruction with this modifier.
pub fn knows_modifier(text: &str) -> bool {
    known_words().modifiers.contains(text)
}

/// Whether any form of the head takes the modifier.
pub(super) fn head_takes(head: &str, modifier: &str) -> bool {
    known_words().by_head.contains(&(head, modifier))
}
