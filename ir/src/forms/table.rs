//! The compiled table, indexed by head.

use super::compile::compile;
use super::pattern::{Form, Slot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::LazyLock;

/// The table's files. Classes of one are known in those behind it.
const FILES: &[&str] = &[
    include_str!("tables/classes.forms"),
    include_str!("tables/arithmetic.forms"),
    include_str!("tables/logic.forms"),
    include_str!("tables/convert.forms"),
    include_str!("tables/memory.forms"),
    include_str!("tables/control.forms"),
    include_str!("tables/async.forms"),
    include_str!("tables/matrix.forms"),
    include_str!("tables/video.forms"),
    include_str!("tables/texture.forms"),
];

struct Table {
    by_head: FxHashMap<&'static str, Vec<&'static Form>>,
    modifiers: FxHashSet<&'static str>,
    by_head_and_modifier: FxHashSet<(&'static str, &'static str)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // Forms live as long as the process, so that spellings can point at them.
    let forms: &'static [Form] = Vec::leak(compile(FILES));
    let mut table = Table {
        by_head: FxHashMap::default(),
        modifiers: FxHashSet::default(),
        by_head_and_modifier: FxHashSet::default(),
    };
    for form in forms {
        table.by_head.entry(form.head).or_default().push(form);
        for choice in form.all_slots().flat_map(|slot| &slot.choices) {
            table.modifiers.insert(choice.text);
            table.by_head_and_modifier.insert((form.head, choice.text));
        }
    }
    table
});

impl Form {
    fn all_slots(&self) -> impl Iterator<Item = &Slot> {
        let unordered = self.prefix.iter().chain(&self.slots);
        unordered.chain(&self.types).chain(&self.ordered)
    }
}

/// The forms with that first word, in the table's order; empty for an unknown word.
pub fn forms_of(head: &str) -> &'static [&'static Form] {
    TABLE.by_head.get(head).map_or(&[], Vec::as_slice)
}

/// All heads, in no order.
pub fn heads() -> impl Iterator<Item = &'static str> {
    TABLE.by_head.keys().copied()
}

/// Whether any instruction takes the modifier.
pub fn knows_modifier(text: &str) -> bool {
    TABLE.modifiers.contains(text)
}

/// Whether any form of the head takes the modifier.
pub(super) fn head_takes(head: &str, modifier: &str) -> bool {
    TABLE.by_head_and_modifier.contains(&(head, modifier))
}
