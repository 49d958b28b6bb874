//! Selects the kernels that are probed.

/// The options `--kernel` and `--filter`: lists of texts that are compared with the names of kernels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// If not empty, only kernels whose name contains one of these texts are probed.
    pub only: Vec<String>,
    /// Kernels whose name contains one of these texts are not probed.
    pub except: Vec<String>,
}

impl Selection {
    /// Creates a selection from the two options, in which colons separate the texts. Empty texts have no effect.
    pub fn new(only: &str, except: &str) -> Selection {
        let list = |text: &str| {
            let parts = text.split(':').filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        Selection {
            only: list(only),
            except: list(except),
        }
    }

    /// Whether the kernel with this name is probed.
    pub fn includes(&self, kernel: &str) -> bool {
        let has = |list: &[String]| list.iter().any(|part| kernel.contains(part.as_str()));
        (self.only.is_empty() || has(&self.only)) && !has(&self.except)
    }
}
