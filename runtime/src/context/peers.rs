//! Enables and disables a context's access to the memory of contexts of other devices.
//!
//! All devices are part of this process, so kernels can reach the memory of every context. As with
//! GPUs that are linked to each other, a program can enable, disable and query access to the memory
//! of a context of another device. Margay does not enforce the access rights: kernels can access
//! the memory of a context of another device even if the program has not enabled this access.

use super::Context;
use crate::error::{Error, Result};

impl Context {
    /// Gives this context access to the memory of a context of another device.
    ///
    /// # Errors
    /// [`Error::PeerAccessUnsupported`] for a context of the same device, [`Error::PeerAccessAlreadyEnabled`] when this
    /// context already has access.
    pub fn enable_peer(&self, peer: &Context) -> Result<()> {
        self.status()?;
        peer.status()?;
        if peer.ordinal() == self.ordinal() {
            return Err(Error::PeerAccessUnsupported);
        }
        match self.inner().peers.lock().insert(peer.id()) {
            true => Ok(()),
            false => Err(Error::PeerAccessAlreadyEnabled),
        }
    }

    /// Ends this context's access to the memory of `peer`.
    ///
    /// # Errors
    /// [`Error::PeerAccessNotEnabled`] when this context has no access.
    pub fn disable_peer(&self, peer: &Context) -> Result<()> {
        self.status()?;
        match self.inner().peers.lock().remove(&peer.id()) {
            true => Ok(()),
            false => Err(Error::PeerAccessNotEnabled),
        }
    }
}
