//! Finds the kernels and variables of a loaded image by name.
//!
//! Programs look up each kernel and variable of an image by its name, and an image can have tens of thousands of
//! kernels and variables.

use rustc_hash::FxHashMap;

use crate::engine::{LoadedImage, VariableInfo};

/// The indices of an image's kernels and variables, by their (mangled) names.
#[derive(Debug)]
pub(crate) struct Names {
    kernels: FxHashMap<String, usize>,
    /// By name, the index of each module-level variable that is not a texture, sampler or surface reference.
    variables: FxHashMap<String, usize>,
    /// By name, the index of each module-level texture, sampler and surface reference.
    references: FxHashMap<String, usize>,
}

impl Names {
    /// Collects the names of an image.
    pub(crate) fn of(image: &dyn LoadedImage) -> Names {
        let kernels = image.kernels().iter().enumerate();
        Names {
            kernels: kernels.map(|(i, k)| (k.name.clone(), i)).collect(),
            variables: variables(image, |variable| variable.reference.is_none()),
            references: variables(image, |variable| variable.reference.is_some()),
        }
    }

    /// Returns the index of a kernel among [`LoadedImage::kernels`].
    pub(crate) fn kernel(&self, name: &str) -> Option<usize> {
        self.kernels.get(name).copied()
    }

    /// Returns the index of a variable among [`LoadedImage::variables`]. If several variables have the name, returns
    /// the first one. Does not return texture, sampler and surface references.
    pub(crate) fn variable(&self, name: &str) -> Option<usize> {
        self.variables.get(name).copied()
    }

    /// Returns the index of a texture, sampler or surface reference among [`LoadedImage::variables`].
    pub(crate) fn reference(&self, name: &str) -> Option<usize> {
        self.references.get(name).copied()
    }
}

/// Returns a map from names to indices. The map contains the variables at module scope for which
/// `is_wanted` returns true. If several variables have the same name, the map contains the first of
/// these variables.
fn variables(
    image: &dyn LoadedImage,
    is_wanted: impl Fn(&VariableInfo) -> bool,
) -> FxHashMap<String, usize> {
    let mut found = FxHashMap::default();
    for (index, variable) in image.variables().iter().enumerate() {
        if variable.visible && is_wanted(variable) {
            found.entry(variable.name.clone()).or_insert(index);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::engine::{Image, LoadOptions, Loader};
    use crate::testing::{TestLoader, kernel};

    fn variable(name: &str, visible: bool) -> VariableInfo {
        VariableInfo {
            name: name.into(),
            size: 4,
            align: 4,
            constant: false,
            managed: false,
            visible,
            reference: None,
        }
    }

    fn names(variables: Vec<VariableInfo>) -> Names {
        let specs = ["a", "b"].map(|name| kernel(name, 0, false, |_| crate::testing::Step::Done));
        let loader = TestLoader {
            specs: specs.into(),
            initial: vec![Vec::new(); variables.len()],
            variables,
        };
        let image = loader.load(Image::Ptx(""), &LoadOptions::default());
        Names::of(&*image.expect("loads"))
    }

    #[test]
    fn the_first_visible_variable_of_a_name_is_found() {
        let names = names(vec![
            variable("x", false),
            variable("x", true),
            variable("x", true),
            variable("y", false),
        ]);
        assert_eq!(names.variable("x"), Some(1));
        assert_eq!(names.variable("y"), None);
        assert_eq!(names.reference("x"), None);
        assert_eq!([names.kernel("b"), names.kernel("x")], [Some(1), None]);
    }

    // Regression test: each search compared all names, which takes minutes for this number of variables.
    #[test]
    fn searches_do_not_compare_all_names() {
        const COUNT: usize = 300_000;
        let name = |i: usize| format!("a_variable_with_a_long_name_{i}");
        let names = names((0..COUNT).map(|i| variable(&name(i), true)).collect());
        let start = Instant::now();
        for i in 0..COUNT {
            assert_eq!(names.variable(&name(i)), Some(i));
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
