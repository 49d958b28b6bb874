//! Kernels with probes ([`crate::probe`]): the code that their launches run, and the parameters that the probes add.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::{Engine, KernelInfo, ParamInfo};
use crate::error::Result;
use crate::params::Params;
use crate::probe::{Code, Probes};

/// What a launch of a kernel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// A launch that the program requests.
    Ordinary,
    /// A launch of the kernel's variant before a launch that the program requests.
    Rehearsal,
    /// A launch that the program requests, after that of the variant.
    Rehearsed,
}

/// How launches of a kernel with probes run.
pub(crate) struct Probed {
    kernel: Runs,
    rehearsal: Option<Runs>,
    /// Held while the variant and the kernel run.
    order: Mutex<()>,
}

/// The engine of a kernel, and the kernel's probes.
struct Runs {
    engine: Arc<dyn Engine>,
    added: Option<Added>,
}

/// The probes of a kernel, and the parameters that they add.
pub(crate) struct Added {
    pub(crate) probes: Arc<dyn Probes>,
    params: Vec<ParamInfo>,
    /// Size in bytes of the parameter space with the added parameters.
    param_bytes: u32,
    /// Whether the kernel's own text contains the probes, so that no launch can run without them.
    pub(crate) is_in_place: bool,
}

impl Added {
    fn new(probes: Arc<dyn Probes>, complete: &KernelInfo, original: &KernelInfo) -> Added {
        Added {
            probes,
            params: complete
                .params
                .get(original.params.len()..)
                .unwrap_or_default()
                .to_vec(),
            param_bytes: complete.param_bytes,
            is_in_place: false,
        }
    }
}

impl Probed {
    /// Returns how launches run of the kernel whose engine is `engine`; `None` if the kernel has no probes. `variant`
    /// loads a text that contains a variant of the kernel.
    pub(crate) fn new(
        engine: &Arc<dyn Engine>,
        variant: &dyn Fn(&str) -> Result<Arc<dyn Engine>>,
    ) -> Result<Option<Probed>> {
        let Some((probes, complete)) = engine.probes() else {
            return Ok(None);
        };
        let original = engine.info();
        let separate = |text: &str, probes: Arc<dyn Probes>| -> Result<Runs> {
            let engine = variant(text)?;
            let added = Some(Added::new(probes, engine.info(), original));
            Ok(Runs { engine, added })
        };
        let in_place = |added| Runs {
            engine: Arc::clone(engine),
            added,
        };
        let kernel = match probes.code() {
            Code::InPlace => in_place(Some(Added {
                is_in_place: true,
                ..Added::new(Arc::clone(probes), complete, original)
            })),
            Code::Separate(text) => separate(&text, Arc::clone(probes))?,
            Code::Unprobed => in_place(None),
        };
        let rehearsal = match &kernel.added {
            Some(_) => probes.rehearsal(),
            None => None,
        };
        let rehearsal = rehearsal.map(|other| separate(&other.text, other.probes));
        Ok(Some(Probed {
            kernel,
            rehearsal: rehearsal.transpose()?,
            order: Mutex::new(()),
        }))
    }

    /// Returns the lock that a thread holds while the variant and the kernel run; `None` if the kernel has no variant.
    pub(crate) fn rehearses(&self) -> Option<&Mutex<()>> {
        self.rehearsal.as_ref().map(|_| &self.order)
    }

    fn runs(&self, role: Role) -> &Runs {
        match (role, &self.rehearsal) {
            (Role::Rehearsal, Some(rehearsal)) => rehearsal,
            _ => &self.kernel,
        }
    }

    /// Returns the engine for a launch.
    pub(crate) fn engine(&self, role: Role) -> &dyn Engine {
        &*self.runs(role).engine
    }

    /// Returns the probes of a launch, and the parameters that they add; `None` if the launch has none.
    pub(crate) fn added(&self, role: Role) -> Option<&Added> {
        self.runs(role).added.as_ref()
    }
}

impl Added {
    /// Returns a parameter space with the bytes of `params`, and the values of the added parameters.
    pub(crate) fn append(&self, params: &Params, values: &[u64]) -> Params {
        let mut whole = Params::zeroed(self.param_bytes as usize);
        let bytes = whole.bytes_mut();
        let own = params.bytes();
        let fits = own.len().min(bytes.len());
        bytes[..fits].copy_from_slice(&own[..fits]);
        for (param, value) in self.params.iter().zip(values) {
            let (start, size) = (param.offset as usize, param.size.min(8) as usize);
            if let Some(slot) = bytes.get_mut(start..start + size) {
                slot.copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
        whole
    }
}
