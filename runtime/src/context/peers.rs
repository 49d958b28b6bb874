//! Access to the memory of contexts of other devices.
//!
//! All devices are this process, so kernels can reach every context's memory; access is switched and asked for as on
//! GPUs that are linked, and not enforced. Copies that several contexts are in order with are here, too.

use super::Context;
use crate::error::{Error, Result};
use crate::stream::Stream;

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

impl Stream {
    /// Submits work in order with everything else in some contexts (`cuMemcpyPeer`): it begins when all that they were
    /// given so far is complete, and what they are given from now on waits for it. Streams that capture keep out of it.
    ///
    /// # Errors
    /// What `submit` fails with, and the errors of the contexts.
    pub fn in_order_with<E: From<Error>>(
        &self,
        contexts: &[Context],
        submit: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for context in contexts {
            context.status()?;
        }
        for context in contexts {
            for tail in context.inner().streams.all_tails() {
                self.wait_task(&tail);
            }
        }
        submit()?;
        let done = self.mark()?;
        for context in contexts {
            context.wait_task(&done)?;
        }
        Ok(())
    }
}
