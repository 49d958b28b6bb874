//! The functions of CUDA's device runtime that device code calls. They decode their arguments,
//! record requests for the host, and return results.
//!
//! Sources: `cuda_device_runtime_api.h` for the signatures; the CUDA programming guide for the semantics.

use margay_ir::syscall::Syscall;

use super::copies::{Job, PitchedBox, Source};
use super::{Child, Configured, DEEPEST, DeviceRuntime, Line, MOST_OBJECTS, Wish};
use crate::context::{Context, Limit, Pending};
use crate::engine::{Coordinates, Services};
use crate::error::Fault;
use crate::error_texts::{self, Answer, CudaError};
use crate::fault::{AccessKind, access};
use crate::kernel::{FunctionAttribute, Kernel};
use crate::launch::{Dim3, LaunchConfig};
use crate::syscalls::LaunchServices;

/// The stream handle `cudaStreamTailLaunch`. The next constant is the stream handle
/// `cudaStreamFireAndForget`.
const TAIL_LAUNCH: u64 = 3;
const FIRE_AND_FORGET: u64 = 4;
/// The lowest handle of the special streams to which device code launches graphs.
const GRAPH_STREAMS: u64 = 1 << 56;
/// `cudaStreamNonBlocking`, which device code must pass when it creates a stream.
const NON_BLOCKING: u32 = 1;
/// `cudaEventDisableTiming`, which device code must pass when it creates an event.
const DISABLE_TIMING: u32 = 2;
/// `cudaMemcpyDeviceToDevice` and `cudaMemcpyDefault`.
const DEVICE_TO_DEVICE: [u32; 2] = [3, 4];
/// Size in bytes of a `cudaMemcpy3DParms`. [`PITCHED`] and [`EXTENT`] are the sizes of a
/// `cudaPitchedPtr` and of a `cudaExtent`.
const COPY_3D: usize = 160;
const PITCHED: usize = 32;
const EXTENT: usize = 24;

/// A call of a device runtime function by a thread.
pub(in crate::syscalls) struct Call<'a> {
    pub(in crate::syscalls) services: &'a LaunchServices,
    pub(in crate::syscalls) at: &'a Coordinates,
    /// Returns the name of the function that has a given handle.
    pub(in crate::syscalls) name_of: &'a dyn Fn(u64) -> Option<String>,
}

/// The reason why a call fails: an error code that the call returns, or a fault that ends the launch.
enum Failure {
    Error(CudaError),
    Fault(Box<Fault>),
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Failure {
        Failure::Error(error)
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Failure {
        Failure::Error(CudaError::of(&error))
    }
}

type Done<T> = Result<T, Failure>;

fn word(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
    u64::from_le_bytes(word)
}

impl Call<'_> {
    /// Executes the call of the function `which` and returns its result; returns `None` if `which`
    /// is not a device runtime function.
    ///
    /// # Errors
    /// Returns a fault if the call must access an address that cannot be accessed, or if it frees an address that
    /// `malloc` did not return.
    pub(in crate::syscalls) fn answer(
        &self,
        which: Syscall,
        args: &[u64],
    ) -> Option<Result<u64, Fault>> {
        let arg = |i: usize| args.get(i).copied().unwrap_or(0);
        let small = |i: usize| arg(i) as u32;
        let done = match which {
            Syscall::Vprintf
            | Syscall::Malloc
            | Syscall::Free
            | Syscall::Assertfail
            | Syscall::GraphSetConditional => return None,
            // These functions return something other than an error code.
            Syscall::DevGetLastError => return Some(Ok(self.last_error(true))),
            Syscall::DevPeekAtLastError => return Some(Ok(self.last_error(false))),
            Syscall::DevGetErrorString => {
                return Some(Ok(error_texts::text(small(0)).as_ptr() as u64));
            }
            Syscall::DevGetErrorName => {
                return Some(Ok(error_texts::name(small(0)).as_ptr() as u64));
            }
            Syscall::DevGetParameterBuffer => {
                return Some(self.buffer_or_null(self.plain_buffer(arg(1))));
            }
            Syscall::DevGetParameterBufferV2 => {
                let buffer = self.configured_buffer(arg(0), arg(1), arg(2), small(3));
                return Some(self.buffer_or_null(buffer));
            }
            Syscall::DevLaunchDevice => {
                let shape = self.shape(arg(2), arg(3), small(4));
                shape.and_then(|config| self.launch(arg(1), arg(5), Some((arg(0), config))))
            }
            Syscall::DevLaunchDeviceV2 => self.launch(arg(0), arg(1), None),
            Syscall::DevGetDeviceCount => {
                let count = self.context().map(|c| c.machine().device_count());
                count.and_then(|count| self.store32(arg(0), count as u32))
            }
            Syscall::DevGetDevice => {
                let device = self.context().map(|c| c.device().ordinal() as u32);
                device.and_then(|device| self.store32(arg(0), device))
            }
            Syscall::DevDeviceGetAttribute => self.device_attribute(arg(0), small(1), small(2)),
            Syscall::DevDeviceGetLimit => self.limit(arg(0), small(1)),
            Syscall::DevDeviceGetCacheConfig => {
                let config = self.context().map(|c| c.cache_config() as u32);
                config.and_then(|config| self.store32(arg(0), config))
            }
            // The value 1 means that banks are four bytes wide.
            Syscall::DevDeviceGetSharedMemConfig => self.store32(arg(0), 1),
            Syscall::DevRuntimeGetVersion => {
                let version = self.context().map(|c| c.machine().config.driver_version);
                version.and_then(|version| self.store32(arg(0), version as u32))
            }
            Syscall::DevFuncGetAttributes => self.function_attributes(arg(0), arg(1)),
            Syscall::DevOccupancy => self.occupancy(arg(0), arg(1), small(2), arg(3)),
            Syscall::DevOccupancyWithFlags => match small(4) {
                0 | 1 => self.occupancy(arg(0), arg(1), small(2), arg(3)),
                _ => Err(CudaError::INVALID_VALUE.into()),
            },
            Syscall::DevStreamCreate => self.make(arg(0), small(1) == NON_BLOCKING, true),
            Syscall::DevStreamDestroy => self.end(arg(0), true),
            Syscall::DevStreamWaitEvent => self.event(Wish::Wait, arg(1), arg(0), small(2)),
            Syscall::DevEventCreate => self.make(arg(0), small(1) == DISABLE_TIMING, false),
            Syscall::DevEventRecord => self.event(Wish::Record, arg(0), arg(1), 0),
            Syscall::DevEventRecordWithFlags => self.event(Wish::Record, arg(0), arg(1), small(2)),
            Syscall::DevEventDestroy => self.end(arg(0), false),
            Syscall::DevMalloc => self.malloc(arg(0), arg(1)),
            Syscall::DevFree => self
                .services
                .free(self.at, arg(0))
                .map_err(|fault| Failure::Fault(Box::new(fault))),
            Syscall::DevMemcpy => self.copy(
                [PitchedBox::row(arg(0)), PitchedBox::row(arg(1))],
                [arg(2), 1, 1],
                small(3),
                arg(4),
            ),
            Syscall::DevMemcpy2D => {
                let place = |start, pitch| PitchedBox {
                    start,
                    pitch,
                    slice: 0,
                };
                let places = [place(arg(0), arg(1)), place(arg(2), arg(3))];
                self.copy(places, [arg(4), arg(5), 1], small(6), arg(7))
            }
            Syscall::DevMemcpy3D => self.copy_3d(arg(0), arg(1)),
            Syscall::DevMemset => {
                self.fill(PitchedBox::row(arg(0)), arg(1), [arg(2), 1, 1], arg(3))
            }
            Syscall::DevMemset2D => {
                let place = PitchedBox {
                    start: arg(0),
                    pitch: arg(1),
                    slice: 0,
                };
                self.fill(place, arg(2), [arg(3), arg(4), 1], arg(5))
            }
            Syscall::DevMemset3D => self.fill_3d(arg(0), arg(1), arg(2), arg(3)),
        };
        Some(match done {
            Ok(()) => Ok(0),
            Err(Failure::Error(error)) => {
                self.state().note(self.at, error);
                Ok(u64::from(error.0))
            }
            Err(Failure::Fault(fault)) => Err(*fault),
        })
    }

    fn state(&self) -> &DeviceRuntime {
        &self.services.device_runtime
    }

    fn context(&self) -> Done<&Context> {
        let module = self.state().module.as_ref();
        Ok(module.ok_or(CudaError::NOT_SUPPORTED)?.context())
    }

    fn kernel(&self, handle: u64) -> Done<Kernel> {
        let module = self.state().module.as_ref();
        let module = module.ok_or(CudaError::NOT_SUPPORTED)?;
        let name = (self.name_of)(handle).ok_or(CudaError::INVALID_FUNCTION)?;
        Ok(module.kernel(&name)?)
    }

    // Accesses to memory of the caller.

    fn checked<T>(&self, result: Result<T, crate::fault::AccessFault>) -> Done<T> {
        result.map_err(|fault| Failure::Fault(Box::new(self.services.bad_address(self.at, fault))))
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Done<()> {
        if address == 0 {
            return Err(CudaError::INVALID_VALUE.into());
        }
        let bytes_of = bytes.len() as u64;
        self.checked(self.services.may(address, bytes_of, AccessKind::Write))?;
        // SAFETY: device code chooses the address, and the check above permits the access. An access to inaccessible
        // memory faults and is reported.
        self.checked(unsafe { access::write(address, bytes) })
    }

    fn store32(&self, address: u64, value: u32) -> Done<()> {
        self.store(address, &value.to_le_bytes())
    }

    fn read<const N: usize>(&self, address: u64) -> Done<[u8; N]> {
        if address == 0 {
            return Err(CudaError::INVALID_VALUE.into());
        }
        let mut bytes = [0; N];
        self.checked(self.services.may(address, N as u64, AccessKind::Read))?;
        self.checked(access::read(&mut bytes, address))?;
        Ok(bytes)
    }

    // Launches.

    fn last_error(&self, forget: bool) -> u64 {
        let thread = (self.at.cta_number, self.at.thread);
        let errors = &mut self.state().lock().errors;
        let found = match forget {
            true => errors.remove(&thread),
            false => errors.get(&thread).copied(),
        };
        u64::from(found.unwrap_or(0))
    }

    fn buffer_or_null(&self, buffer: Done<u64>) -> Result<u64, Fault> {
        match buffer {
            Ok(address) => Ok(address),
            Err(Failure::Error(error)) => {
                self.state().note(self.at, error);
                Ok(0)
            }
            Err(Failure::Fault(fault)) => Err(*fault),
        }
    }

    fn shape(&self, grid: u64, block: u64, shared: u32) -> Done<LaunchConfig> {
        let dims = |address| -> Done<Dim3> {
            let bytes: [u8; 12] = self.read(address)?;
            let at = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[4 * i + byte]));
            Ok(Dim3::new(at(0), at(1), at(2)))
        };
        Ok(LaunchConfig::new(dims(grid)?, dims(block)?).with_shared(shared))
    }

    /// Returns the kernel with the handle `func`. Returns an error if the calling grid must not
    /// launch this kernel with the configuration `config`.
    fn launchable(&self, func: u64, config: &LaunchConfig) -> Done<Kernel> {
        let kernel = self.kernel(func)?;
        kernel.check_config(config)?;
        match self.state().depth >= DEEPEST {
            true => Err(CudaError::MAX_DEPTH.into()),
            false => Ok(kernel),
        }
    }

    fn new_buffer(&self, bytes: u64, launch: Option<(Kernel, LaunchConfig)>) -> Done<u64> {
        let context = self.context()?;
        let address = context.launch_buffers().allocate(
            bytes,
            context.limit_value(Limit::DevRuntimePendingLaunchCount) * super::BUFFER,
        );
        if address == 0 {
            return Err(CudaError::PENDING_COUNT.into());
        }
        let buffers = &mut self.state().lock().buffers;
        buffers.insert(address, Configured { launch });
        Ok(address)
    }

    fn plain_buffer(&self, bytes: u64) -> Done<u64> {
        match bytes > super::LONGEST {
            true => Err(CudaError::INVALID_VALUE.into()),
            false => self.new_buffer(bytes, None),
        }
    }

    fn configured_buffer(&self, func: u64, grid: u64, block: u64, shared: u32) -> Done<u64> {
        let config = self.shape(grid, block, shared)?;
        let kernel = self.launchable(func, &config)?;
        let bytes = u64::from(kernel.info().param_bytes);
        self.new_buffer(bytes, Some((kernel, config)))
    }

    fn launch(&self, buffer: u64, stream: u64, given: Option<(u64, LaunchConfig)>) -> Done<()> {
        let state = self.state();
        let found = state.lock().buffers.remove(&buffer);
        let found = found.ok_or(CudaError::INVALID_VALUE)?;
        let context = self.context()?;
        // The buffer is freed even if the launch fails.
        let params = |kernel: &Kernel| {
            let mut params = kernel.empty_params();
            let bytes = params.bytes_mut();
            let may = self
                .services
                .may(buffer, bytes.len() as u64, AccessKind::Read);
            let read = self.checked(may.and_then(|()| access::read(bytes, buffer)));
            read.map(|()| params)
        };
        let launch = match (found.launch, given) {
            (Some(launch), None) => Ok(launch),
            (None, Some((func, config))) => self
                .launchable(func, &config)
                .map(|kernel| (kernel, config)),
            _ => Err(CudaError::INVALID_VALUE.into()),
        };
        let launch = launch.and_then(|(kernel, config)| Ok((params(&kernel)?, kernel, config)));
        context.launch_buffers().free(buffer);
        let (params, kernel, config) = launch?;
        let line = match stream {
            TAIL_LAUNCH => Line::Tail,
            FIRE_AND_FORGET => Line::Loose,
            stream => self.line(stream)?,
        };
        let pending = context.new_request().ok_or(CudaError::PENDING_COUNT)?;
        let child = Box::new(Child {
            kernel,
            config,
            params,
            depth: state.depth + 1,
            deadline: state.deadline(),
            pending,
        });
        state.wish(line, Wish::Launch(child));
        Ok(())
    }

    /// Returns the [`Line`] for requests to the stream with the handle `stream`. Returns an error
    /// for the special streams, such as `cudaStreamTailLaunch`.
    fn line(&self, stream: u64) -> Done<Line> {
        match stream {
            0..=2 => Ok(Line::Block(self.at.cta_number)),
            TAIL_LAUNCH | FIRE_AND_FORGET | GRAPH_STREAMS.. => Err(CudaError::NOT_SUPPORTED.into()),
            stream if self.state().lock().streams.contains(&stream) => Ok(Line::Made(stream)),
            _ => Err(CudaError::INVALID_HANDLE.into()),
        }
    }

    // Streams and events.

    fn make(&self, out: u64, allowed: bool, stream: bool) -> Done<()> {
        if !allowed {
            return Err(CudaError::INVALID_VALUE.into());
        }
        let number = self.state().number();
        {
            let mut state = self.state().lock();
            let objects = match stream {
                true => &mut state.streams,
                false => &mut state.events,
            };
            if objects.len() >= MOST_OBJECTS {
                return Err(CudaError::MEMORY_ALLOCATION.into());
            }
            objects.insert(number);
        }
        self.store(out, &number.to_le_bytes())?;
        Ok(())
    }

    fn end(&self, number: u64, stream: bool) -> Done<()> {
        let mut state = self.state().lock();
        let known = match stream {
            true => state.streams.remove(&number),
            false => state.events.remove(&number),
        };
        known.then_some(()).ok_or(CudaError::INVALID_HANDLE.into())
    }

    fn event(
        &self,
        wish: fn(u64, Pending) -> Wish,
        event: u64,
        stream: u64,
        flags: u32,
    ) -> Done<()> {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE.into());
        }
        let line = self.line(stream)?;
        if !self.state().lock().events.contains(&event) {
            return Err(CudaError::INVALID_HANDLE.into());
        }
        let pending = self.context()?.new_request();
        let pending = pending.ok_or(CudaError::MEMORY_ALLOCATION)?;
        self.state().wish(line, wish(event, pending));
        Ok(())
    }

    // Queries.

    fn device_attribute(&self, out: u64, attribute: u32, device: u32) -> Done<()> {
        let context = self.context()?;
        if device != context.device().ordinal() as u32 {
            return Err(CudaError::INVALID_DEVICE.into());
        }
        let value = context.device().attribute(attribute as i32);
        self.store32(out, value.ok_or(CudaError::INVALID_VALUE)? as u32)
    }

    fn limit(&self, out: u64, limit: u32) -> Done<()> {
        let limit = Limit::from_number(limit as i32)?;
        let value = self.context()?.limit_value(limit);
        self.store(out, &value.to_le_bytes())
    }

    /// Writes the attributes of the kernel `func` to the address `out`: the first fields of a
    /// `cudaFuncAttributes`, up to and including the cluster fields.
    fn function_attributes(&self, out: u64, func: u64) -> Done<()> {
        use FunctionAttribute as A;
        let kernel = self.kernel(func)?;
        let mut bytes = Vec::new();
        for wide in [A::SharedSizeBytes, A::ConstSizeBytes, A::LocalSizeBytes] {
            bytes.extend(u64::from(kernel.attribute(wide)? as u32).to_le_bytes());
        }
        for narrow in [
            A::MaxThreadsPerBlock,
            A::NumRegs,
            A::PtxVersion,
            A::BinaryVersion,
            A::CacheModeCa,
            A::MaxDynamicSharedSizeBytes,
            A::PreferredSharedMemoryCarveout,
            A::ClusterSizeMustBeSet,
            A::RequiredClusterWidth,
            A::RequiredClusterHeight,
            A::RequiredClusterDepth,
            A::ClusterSchedulingPolicyPreference,
            A::NonPortableClusterSizeAllowed,
        ] {
            bytes.extend(kernel.attribute(narrow)?.to_le_bytes());
        }
        self.store(out, &bytes)
    }

    fn occupancy(&self, out: u64, func: u64, threads: u32, shared: u64) -> Done<()> {
        let blocks = self.kernel(func)?.max_active_blocks(threads, shared)?;
        self.store32(out, blocks)
    }

    // Memory.

    fn malloc(&self, out: u64, bytes: u64) -> Done<()> {
        let address = match bytes {
            0 => 0,
            bytes => self.services.malloc(bytes),
        };
        if bytes > 0 && address == 0 {
            return Err(CudaError::MEMORY_ALLOCATION.into());
        }
        self.store(out, &address.to_le_bytes())
    }

    fn copy(
        &self,
        [to, from]: [PitchedBox; 2],
        extent: [u64; 3],
        kind: u32,
        stream: u64,
    ) -> Done<()> {
        if !DEVICE_TO_DEVICE.contains(&kind) {
            return Err(CudaError::INVALID_DIRECTION.into());
        }
        check_box(&to, extent)?;
        check_box(&from, extent)?;
        let line = self.line(stream)?;
        let from = Source::Bytes(from);
        self.submit(line, Job { to, from, extent })
    }

    fn copy_3d(&self, params: u64, stream: u64) -> Done<()> {
        let bytes: [u8; COPY_3D] = self.read(params)?;
        // The structure contains an array, a position and a pitched pointer for the source, the same members for the
        // destination, the extent, and the kind.
        let side = |first: usize| -> Done<PitchedBox> {
            if word(&bytes, first) != 0 {
                return Err(CudaError::NOT_SUPPORTED.into());
            }
            let [x, y, z] = [1, 2, 3].map(|i| word(&bytes, first + i));
            let [start, pitch, rows] = [4, 5, 7].map(|i| word(&bytes, first + i));
            let slice = pitch.wrapping_mul(rows);
            let offset = x
                .wrapping_add(y.wrapping_mul(pitch))
                .wrapping_add(z.wrapping_mul(slice));
            Ok(PitchedBox {
                start: start.wrapping_add(offset),
                pitch,
                slice,
            })
        };
        let places = [side(8)?, side(0)?];
        let extent = [16, 17, 18].map(|i| word(&bytes, i));
        self.copy(places, extent, word(&bytes, 19) as u32, stream)
    }

    fn fill(&self, to: PitchedBox, value: u64, extent: [u64; 3], stream: u64) -> Done<()> {
        check_box(&to, extent)?;
        let line = self.line(stream)?;
        let from = Source::Value(value as u8);
        self.submit(line, Job { to, from, extent })
    }

    /// Records a request for a copy or fill. On a GPU, such an operation is a launch, so it counts
    /// towards the limit of pending launches.
    fn submit(&self, line: Line, job: Job) -> Done<()> {
        let pending = self.context()?.new_request();
        let pending = pending.ok_or(CudaError::PENDING_COUNT)?;
        self.state().wish(line, Wish::Memory(job, pending));
        Ok(())
    }

    fn fill_3d(&self, place: u64, value: u64, extent: u64, stream: u64) -> Done<()> {
        let place: [u8; PITCHED] = self.read(place)?;
        let extent: [u8; EXTENT] = self.read(extent)?;
        let to = PitchedBox {
            start: word(&place, 0),
            pitch: word(&place, 1),
            slice: word(&place, 1).wrapping_mul(word(&place, 3)),
        };
        self.fill(to, value, [0, 1, 2].map(|i| word(&extent, i)), stream)
    }
}

fn check_box(place: &PitchedBox, extent: [u64; 3]) -> Answer {
    match place.overlaps(extent) {
        true => Err(CudaError::INVALID_PITCH),
        false => Ok(()),
    }
}
