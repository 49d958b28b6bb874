//! Descriptions of forms for the support table and for the coverage tests.

use crate::pattern::{Form, Slot};
use smallvec::SmallVec;

/// The types that an instruction names, such as `u32`, spelled as in the syntax table.
pub type TypeList = SmallVec<[&'static str; 4]>;

impl Form {
    /// Returns every combination of types that the form accepts. If the form has no types, returns one empty list.
    pub fn type_lists(&self) -> Vec<TypeList> {
        let mut lists = vec![TypeList::new()];
        for slot in &self.types {
            lists = lists
                .iter()
                .flat_map(|list| {
                    slot.choices.iter().map(|choice| {
                        let mut longer = list.clone();
                        longer.push(choice.text);
                        longer
                    })
                })
                .collect();
        }
        lists
    }

    /// Returns the spelling of the form, as in `add{.rn|rz|rm|rp}{.ftz}.f32`. Braces enclose optional
    /// modifiers.
    pub fn shape(&self) -> String {
        let mut text = self.head.to_owned();
        let modifiers = self.prefix.iter().chain(&self.slots).chain(&self.ordered);
        for slot in modifiers.chain(&self.types) {
            let choices: Vec<&str> = slot.choices.iter().map(|choice| choice.text).collect();
            let choices = choices.join("|");
            if slot.required || self.is_type(slot) {
                text.push_str(&format!(".{choices}"));
            } else {
                text.push_str(&format!("{{.{choices}}}"));
            }
        }
        text
    }

    fn is_type(&self, slot: &Slot) -> bool {
        self.types.iter().any(|own| std::ptr::eq(own, slot))
    }
}

#[cfg(test)]
mod tests {
    use crate::forms_of;

    #[test]
    fn shapes_show_what_may_be_missing() {
        let shapes: Vec<String> = forms_of("div").iter().map(|form| form.shape()).collect();
        assert!(
            shapes.contains(&"div.u16|s16|u32|s32|u64|s64".to_owned()),
            "{shapes:?}"
        );
        assert!(
            shapes.contains(&"div.rn|rz|rm|rp{.ftz}.f32".to_owned()),
            "{shapes:?}"
        );
    }

    #[test]
    fn type_lists_are_all_combinations() {
        let dot = forms_of("dp4a")[0].type_lists();
        let lists: Vec<String> = dot.iter().map(|list| list.join(" ")).collect();
        assert_eq!(lists, ["u32 u32", "u32 s32", "s32 u32", "s32 s32"]);
        assert_eq!(forms_of("exit")[0].type_lists().len(), 1);
    }
}
