//! Creates, retains, resets and destroys contexts, and waits for all their work.

use parking_lot::Mutex;

use crate::capture;
use crate::context::{Context, check_flags};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph;
use crate::observe::WaitKind;
use crate::process::check_fork;

/// The state of a primary context.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let device = rt.device(0)?;
/// device.primary_retain()?;
/// assert!(device.primary_state()?.active);
/// device.primary_release()?;
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrimaryState {
    /// The context's flags.
    pub flags: u32,
    /// Whether the context is active, that is, retained.
    pub active: bool,
}

impl Device {
    fn retained(&self) -> Result<&Mutex<u64>> {
        let state = self.machine().device(self.ordinal());
        let state = state.ok_or(Error::InvalidDevice(self.ordinal()))?;
        Ok(&state.retained)
    }

    /// Returns the primary context, even if the context is not retained. A device has the same primary context as long
    /// as the runtime exists.
    ///
    /// # Errors
    /// [`Error::Deinitialized`] when the runtime no longer exists; [`Error::NotInitialized`] in the child of a fork.
    pub fn primary_context(&self) -> Result<Context> {
        check_fork()?;
        Context::primary_of(self.machine(), self.ordinal()).ok_or(Error::Deinitialized)
    }

    /// Retains the primary context; the first retain activates the context.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] in the child of a fork.
    pub fn primary_retain(&self) -> Result<Context> {
        let primary = self.primary_context()?;
        let mut retained = self.retained()?.lock();
        if *retained == 0 {
            primary.activate();
        }
        *retained += 1;
        Ok(primary)
    }

    /// Releases the primary context. The last release resets the context and makes it inactive.
    ///
    /// # Errors
    /// [`Error::InvalidContext`] when the context is not retained.
    pub fn primary_release(&self) -> Result<()> {
        let primary = self.primary_context()?;
        let mut retained = self.retained()?.lock();
        match *retained {
            0 => {
                return Err(Error::InvalidContext(
                    "the primary context is not retained".into(),
                ));
            }
            1 => primary.end_life(false),
            _ => {}
        }
        *retained -= 1;
        Ok(())
    }

    /// Returns whether the next release is the last one, which makes the primary context inactive.
    ///
    /// # Errors
    /// [`Error::InvalidDevice`] when the runtime does not have this device.
    pub fn is_last_use(&self) -> Result<bool> {
        Ok(*self.retained()?.lock() == 1)
    }

    /// Stops all work of the primary context, frees everything that the context owns, and clears
    /// its fault. If the context is retained, it stays active, but contains no objects.
    ///
    /// The reset also frees device and managed memory that streams of primary contexts have
    /// allocated from pools of the device. CUDA's documentation states that the reset "explicitly
    /// destroys and cleans up all resources associated with the current device in the current
    /// process", and that it destroys the allocations of the primary context. The documentation
    /// does not state what happens to pool memory that a stream of a created context has allocated.
    /// Margay keeps this memory, because the created context continues to work. It also keeps the
    /// pools and their settings.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] in the child of a fork.
    pub fn primary_reset(&self) -> Result<()> {
        let primary = self.primary_context()?;
        let retained = self.retained()?.lock();
        primary.end_life(*retained > 0);
        Ok(())
    }

    /// Returns the primary context's flags and whether the context is active.
    ///
    /// # Errors
    /// Returns the same errors as [`Device::primary_context`].
    pub fn primary_state(&self) -> Result<PrimaryState> {
        let primary = self.primary_context()?;
        Ok(PrimaryState {
            flags: primary.flags(),
            active: primary.is_alive(),
        })
    }

    /// Changes the primary context's flags.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for unknown flags.
    pub fn primary_set_flags(&self, flags: u32) -> Result<()> {
        self.primary_context()?.set_flags(flags)
    }

    /// Creates a context.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for unknown flags.
    pub fn create_context(&self, flags: u32) -> Result<Context> {
        check_fork()?;
        check_flags(flags)?;
        Ok(Context::new(self.machine(), self.ordinal(), false, flags))
    }
}

impl Context {
    /// Waits for all work of the context, and writes the printf output of completed launches.
    pub fn synchronize(&self) -> Result<()> {
        let life = self.life();
        self.check_wait(life)?;
        capture::check_context(self)?;
        let _told = self.told_wait(WaitKind::Context, None, None);
        self.settle();
        self.waited(life)
    }

    /// Waits for the work that was submitted so far, frees everything that the context owns, and
    /// makes the context unusable. If the context has failed, the remaining work is dropped.
    ///
    /// # Errors
    /// [`Error::InvalidContext`] for a primary context, [`Error::ContextDestroyed`] when the context is already
    /// destroyed.
    pub fn destroy(&self) -> Result<()> {
        check_fork()?;
        if self.is_primary() {
            return Err(Error::InvalidContext(
                "a primary context is released, not destroyed".into(),
            ));
        }
        if !self.is_alive() {
            return Err(Error::ContextDestroyed);
        }
        if self.fault_status().is_ok() {
            self.settle();
        }
        self.end_life(false);
        Ok(())
    }

    /// Resets or destroys a context: stops launches, drops work that has not started, frees
    /// everything that the context owns, ends its captures and clears the fault. If `again` is
    /// true, the context is then active and empty.
    fn end_life(&self, again: bool) {
        self.stop_life();
        capture::forget_context(self);
        graph::forget_context(self);
        self.clear_life(again);
    }
}
