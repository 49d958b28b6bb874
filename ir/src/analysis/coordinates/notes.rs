//! Adds the classes of values to a listing of a function.

use std::fmt;

use super::{Coordinates, CtaClass};
use crate::analysis::uniformity::{Class, Uniformity};
use crate::entity::{Block, Inst, Value};
use crate::function::Function;
use crate::print::Notes;

impl fmt::Display for CtaClass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CtaClass::Launch => f.write_str("launch"),
            CtaClass::Cta => f.write_str("cta"),
            CtaClass::Affine(form) => write!(f, "{form}"),
            CtaClass::Varying => f.write_str("varying"),
        }
    }
}

/// Adds the classes of a function's values as comments to a listing of the function. For a predicate that consists of
/// tests, the comment contains the tests. For a branch, the comment is about its condition.
#[derive(Debug)]
pub struct CoordinateNotes<'a> {
    /// The function.
    pub function: &'a Function,
    /// The classes of the function's values in a CTA.
    pub coordinates: &'a Coordinates,
    /// The classes in a warp or chunk, which are added for values that vary in the CTA.
    pub uniformity: Option<&'a Uniformity>,
}

impl Notes for CoordinateNotes<'_> {
    fn inst(&self, inst: Inst) -> Option<String> {
        let dfg = &self.function.dfg;
        let results = dfg.results(inst);
        if let ([_, _, ..], [condition, ..]) = (dfg.targets(inst), dfg.args(inst)) {
            let blocks = self.function.blocks().iter().copied();
            let mut home = blocks.filter(|&b| self.function.layout.terminator(b) == Some(inst));
            let class = home.next().map_or(CtaClass::Varying, |block| {
                self.coordinates.class_in(self.function, *condition, block)
            });
            return Some(class.to_string());
        }
        (!results.is_empty()).then(|| self.classes(results))
    }

    fn block(&self, block: Block) -> Option<String> {
        let params = &self.function.dfg.blocks[block].params;
        (!params.is_empty()).then(|| self.classes(params))
    }
}

impl CoordinateNotes<'_> {
    fn classes(&self, values: &[Value]) -> String {
        let texts: Vec<String> = values.iter().map(|&value| self.text(value)).collect();
        texts.join("; ")
    }

    fn text(&self, value: Value) -> String {
        let class = self.coordinates.class(value);
        if class != CtaClass::Varying {
            return class.to_string();
        }
        if let Some(predicate) = self.coordinates.predicate(value) {
            return predicate.to_string();
        }
        let in_warp = self.uniformity.map(|uniformity| uniformity.class(value));
        match in_warp {
            None | Some(Class::Varying) => class.to_string(),
            Some(in_warp) => format!("{class}, in a warp {in_warp}"),
        }
    }
}
