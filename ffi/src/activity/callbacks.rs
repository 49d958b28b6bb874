//! Calls of the client around calls of the driver API.
//!
//! The data of a callback contain the arguments of the function as a structure with one field for each argument, as
//! `generated_cuda_meta.h` declares it for each function: such a structure has the layout that C gives it, so it is
//! built from the sizes and alignments of the arguments. Calls that the client makes in a callback cause no callbacks.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use margay_activity::interface::{
    ALL_CALLBACKS, CallData, ModuleData, Outcome, ResourceData, WaitData, domain, resource,
};
use margay_activity::{Name, callbacks};
use parking_lot::Mutex;

use super::{announce_context, announce_devices};
use crate::arguments::Parameters;
use crate::guard::symbol_of;
use crate::handles::handle_of;
use crate::handles::{FunctionObject, contexts, current_handle, functions, modules, streams};
use crate::records::{receiver, recorder};
use crate::result::CuResult;
use crate::tools::CallObserver;

/// Number of words of a set of function numbers.
const WORDS: usize = callbacks::END.div_ceil(64) as usize;

/// The requested callbacks of the driver API, one bit for each number.
static CALLS: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// The requested callbacks of the other domains, by the number of the domain.
static OTHERS: [AtomicU64; 7] = [const { AtomicU64::new(0) }; 7];
/// Whether any callback is requested.
static ANY: AtomicBool = AtomicBool::new(false);
/// The IDs of contexts whose creation the client knows.
static KNOWN_CONTEXTS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

thread_local! {
    /// Whether the thread executes a callback.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn words(domain_of: u32) -> Option<&'static [AtomicU64]> {
    match domain_of {
        domain::DRIVER_API => Some(&CALLS),
        domain::RESOURCE | domain::SYNCHRONIZE | domain::STATE => {
            Some(std::slice::from_ref(&OTHERS[domain_of as usize]))
        }
        _ => None,
    }
}

/// Requests or ends callbacks. Returns an error for domains whose callbacks do not exist.
pub(super) fn set(domain_of: u32, number: u32, on: bool) -> Outcome {
    let Some(words) = words(domain_of) else {
        return match domain_of {
            domain::RUNTIME_API | domain::NVTX => Outcome::NOT_SUPPORTED,
            _ => Outcome::INVALID_PARAMETER,
        };
    };
    if number == ALL_CALLBACKS {
        for word in words {
            word.store(if on { u64::MAX } else { 0 }, Ordering::Relaxed);
        }
    } else {
        let Some(word) = words.get(number as usize / 64) else {
            return Outcome::INVALID_PARAMETER;
        };
        let bit = 1 << (number % 64);
        match on {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }
    let mut all = CALLS.iter().chain(&OTHERS);
    ANY.store(
        all.any(|word| word.load(Ordering::Relaxed) != 0),
        Ordering::Relaxed,
    );
    Outcome::SUCCESS
}

/// Ends all callbacks.
pub(super) fn clear() {
    for word in CALLS.iter().chain(&OTHERS) {
        word.store(0, Ordering::Relaxed);
    }
    ANY.store(false, Ordering::Relaxed);
    KNOWN_CONTEXTS.lock().clear();
}

/// Returns whether any callback is requested.
pub(super) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Returns whether callbacks with a number are requested; `None` for a wrong domain or number.
pub(super) fn get(domain_of: u32, number: u32) -> Option<bool> {
    match domain_of {
        domain::RUNTIME_API | domain::NVTX => Some(false),
        _ => {
            let word = words(domain_of)?.get(number as usize / 64)?;
            Some(word.load(Ordering::Relaxed) >> (number % 64) & 1 != 0)
        }
    }
}

fn wants(domain_of: u32, number: u32) -> bool {
    get(domain_of, number) == Some(true)
}

/// Calls the client.
fn call_client<T>(domain_of: u32, number: u32, data: &T) {
    let Some(receiver) = receiver() else {
        return;
    };
    INSIDE.set(true);
    (receiver.callback)(domain_of, number, std::ptr::from_ref(data).cast());
    INSIDE.set(false);
}

/// A call around which the client is called.
struct Site {
    name: &'static str,
    number: Option<u32>,
    parameters: Parameters,
    symbol: Option<Name>,
    data: u64,
}

impl Site {
    fn tell_call(&mut self, site: u32, result: Option<&mut CuResult>) {
        let Some(number) = self.number else {
            return;
        };
        let context = current_handle().map_or(0, |handle| handle.0);
        let id = contexts().get(context).map(|object| object.context.id());
        let data = CallData {
            site,
            function: Name::of(self.name).pointer(),
            parameters: self.parameters.start(),
            result: result.map_or(null_mut(), |result| std::ptr::from_mut(result).cast()),
            symbol: self.symbol.map_or(null::<c_char>(), Name::pointer),
            context: context as *mut c_void,
            context_id: id.unwrap_or(0) as u32,
            correlation_data: &raw mut self.data,
            correlation: recorder().correlation().unwrap_or(0),
        };
        call_client(domain::DRIVER_API, number, &data);
    }
}

/// Returns the name of the kernel that a call launches.
fn launched(symbol: &str, parameters: &Parameters) -> Option<Name> {
    let index = match symbol {
        "cuLaunchKernel"
        | "cuLaunchCooperativeKernel"
        | "cuLaunch"
        | "cuLaunchGrid"
        | "cuLaunchGridAsync" => 0,
        "cuLaunchKernelEx" => 1,
        _ => return None,
    };
    let function = functions().get(parameters.word(index)?)?;
    let name = match &*function {
        FunctionObject::Loaded { name, .. } | FunctionObject::OfLibrary { name, .. } => name,
    };
    Some(Name::of(name.to_str().ok()?))
}

/// The functions that [`crate::tools`] calls around calls of the driver API.
pub(super) const OBSERVER: CallObserver = CallObserver { enter, leave };

/// Calls the client before a call of the driver API. Returns what [`leave`] needs, if the client wants callbacks.
fn enter(name: &'static str, parameters: &Parameters) -> Option<Box<dyn Any>> {
    if !any() || INSIDE.get() {
        return None;
    }
    let number = callbacks::number(name);
    let number = number.filter(|&number| wants(domain::DRIVER_API, number));
    let others = [domain::RESOURCE, domain::SYNCHRONIZE]
        .into_iter()
        .any(|domain_of| OTHERS[domain_of as usize].load(Ordering::Relaxed) != 0);
    if number.is_none() && !others {
        return None;
    }
    let symbol = number.and_then(|_| launched(symbol_of(name), parameters));
    let mut site = Box::new(Site {
        name,
        number,
        parameters: parameters.clone(),
        symbol,
        data: 0,
    });
    site.tell_call(0, None);
    if others {
        tell_destruction(symbol_of(name), &site.parameters);
    }
    Some(site)
}

/// Calls the client after a call of the driver API.
fn leave(site: Option<Box<dyn Any>>, name: &str, code: CuResult) {
    if code == CuResult::SUCCESS && name == "cuInit" {
        announce_devices();
    }
    let site = site.and_then(|site| site.downcast::<Site>().ok());
    let Some(mut site) = site else {
        return;
    };
    if code == CuResult::SUCCESS {
        tell_creation(symbol_of(site.name), &site.parameters);
    }
    let mut result = code;
    site.tell_call(1, Some(&mut result));
}

fn tell_resource(number: u32, context: usize, handle: usize, module: Option<u32>) {
    if !wants(domain::RESOURCE, number) {
        return;
    }
    let module = module.map(|module| ModuleData {
        module,
        bytes: 0,
        code: null(),
    });
    let descriptor = module.as_ref().map_or(null(), std::ptr::from_ref);
    let data = ResourceData {
        context: context as *mut c_void,
        handle: handle as *mut c_void,
        descriptor: descriptor.cast(),
    };
    call_client(domain::RESOURCE, number, &data);
}

fn context_of_stream(stream: usize) -> usize {
    let context = streams()
        .get(stream)
        .and_then(|stream| handle_of(stream.context()).ok());
    let context = context.or_else(|| current_handle().ok());
    context.map_or(0, |handle| handle.0)
}

fn tell_module(number: u32, module: usize) {
    if let Some(object) = modules().get(module) {
        let context = handle_of(object.module.context()).map_or(0, |handle| handle.0);
        tell_resource(number, context, 0, Some(object.module.id() as u32));
    }
}

/// Tells the client of an object that a call is about to destroy.
fn tell_destruction(symbol: &str, parameters: &Parameters) {
    let Some(handle) = parameters.word(0) else {
        return;
    };
    match symbol {
        "cuCtxDestroy" => {
            if let Some(object) = contexts().get(handle) {
                KNOWN_CONTEXTS.lock().remove(&object.context.id());
                tell_resource(resource::CONTEXT_DESTROY_STARTING, handle, 0, None);
            }
        }
        "cuStreamDestroy" if streams().get(handle).is_some() => {
            let context = context_of_stream(handle);
            tell_resource(resource::STREAM_DESTROY_STARTING, context, handle, None);
        }
        "cuModuleUnload" => tell_module(resource::MODULE_UNLOAD_STARTING, handle),
        _ => {}
    }
}

/// Tells the client of an object that a call has created, or of a wait that has ended.
fn tell_creation(symbol: &str, parameters: &Parameters) {
    match symbol {
        "cuInit" => tell_resource(resource::INIT_FINISHED, 0, 0, None),
        "cuCtxCreate" | "cuDevicePrimaryCtxRetain" => {
            let Some(handle) = parameters.stored(0) else {
                return;
            };
            if let Some(object) = contexts().get(handle)
                && KNOWN_CONTEXTS.lock().insert(object.context.id())
            {
                announce_context(&object.context);
                tell_resource(resource::CONTEXT_CREATED, handle, 0, None);
            }
        }
        "cuStreamCreate" | "cuStreamCreateWithPriority" => {
            if let Some(stream) = parameters.stored(0) {
                let context = context_of_stream(stream);
                tell_resource(resource::STREAM_CREATED, context, stream, None);
            }
        }
        "cuModuleLoad" | "cuModuleLoadData" | "cuModuleLoadDataEx" | "cuModuleLoadFatBinary" => {
            if let Some(module) = parameters.stored(0) {
                tell_module(resource::MODULE_LOADED, module);
            }
        }
        "cuStreamSynchronize" => {
            let stream = parameters.word(0).unwrap_or(0);
            tell_wait(1, context_of_stream(stream), stream);
        }
        "cuCtxSynchronize" => {
            let given = parameters.word(0).filter(|&context| context != 0);
            let context = given.or_else(|| Some(current_handle().ok()?.0));
            tell_wait(2, context.unwrap_or(0), 0);
        }
        _ => {}
    }
}

fn tell_wait(number: u32, context: usize, stream: usize) {
    if wants(domain::SYNCHRONIZE, number) {
        let data = WaitData {
            context: context as *mut c_void,
            stream: stream as *mut c_void,
        };
        call_client(domain::SYNCHRONIZE, number, &data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_are_requested_by_number_and_by_domain() {
        assert_eq!(get(domain::DRIVER_API, 307), Some(false));
        assert_eq!(set(domain::DRIVER_API, 307, true), Outcome::SUCCESS);
        assert_eq!(
            (get(1, 307), get(1, 308), any()),
            (Some(true), Some(false), true)
        );
        assert_eq!(
            set(domain::DRIVER_API, 100_000, true),
            Outcome::INVALID_PARAMETER
        );
        assert_eq!(set(domain::RUNTIME_API, 1, true), Outcome::NOT_SUPPORTED);
        assert_eq!(set(99, 1, true), Outcome::INVALID_PARAMETER);
        assert_eq!(set(domain::RESOURCE, ALL_CALLBACKS, true), Outcome::SUCCESS);
        assert_eq!(get(domain::RESOURCE, 3), Some(true));
        clear();
        assert_eq!((get(1, 307), any()), (Some(false), false));
    }
}
