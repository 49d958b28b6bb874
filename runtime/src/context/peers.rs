//! Access to the memory of contexts of other devices.
//!
//! All devices are this process, so kernels can reach every context's memory; access is switched and asked for as on
//! GPUs that are linked, and not enforced.

use super::Context;
use crate::error::{Error, Result};

impl Context {
    /// Gives this context access to the memory of one of another device.
    ///
    /// # Errors
    /// [`Error::PeerAccessUnsupported`] for a context of the same device, [`Error::PeerAccessAlreadyEnabled`].
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

    /// Takes the access away.
    ///
    /// # Errors
    /// [`Error::PeerAccessNotEnabled`].
    pub fn disable_peer(&self, peer: &Context) -> Result<()> {
        self.status()?;
        match self.inner().peers.lock().remove(&peer.id()) {
            true => Ok(()),
            false => Err(Error::PeerAccessNotEnabled),
        }
    }
}
