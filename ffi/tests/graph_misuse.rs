//! Calls every function for graphs, captures and stream memory operations, with one wrong argument at a time.
//!
//! The test takes the functions from the library's table of exports. Each call has valid arguments,
//! chosen by their types, except for one argument: an invalid or null handle, or a null pointer.
//! The result must be an error that the function's documentation lists.

mod common;

use std::collections::BTreeMap;

use common::Driver;

/// A number that is never a valid handle.
const BOGUS: usize = 0x5a5a_5a58;

/// Functions for which the test also accepts `INVALID_VALUE`, although NVIDIA's documentation does not list it.
const FORGOTTEN: &[&str] = &[
    "cuDeviceGetGraphMemAttribute",
    "cuDeviceSetGraphMemAttribute",
    "cuGraphExecUpdate",
];

/// Pairs of a function and a parameter, which may be null in a valid call.
const OPTIONAL: &[(&str, &str)] = &[
    ("cuStreamBatchMemOp", "param_array"),
    ("cuGraphAddNode", "dependency_data"),
    ("cuGraphExecUpdate", "error_node_out"),
    ("cuGraphInstantiate", "log_buffer"),
    ("cuGraphInstantiate", "ph_error_node"),
    ("cuGraphAddDependencies", "from"),
    ("cuGraphAddDependencies", "to"),
    ("cuGraphAddDependencies", "edge_data"),
    ("cuGraphRemoveDependencies", "from"),
    ("cuGraphRemoveDependencies", "to"),
    ("cuGraphRemoveDependencies", "edge_data"),
    ("cuGraphGetNodes", "nodes"),
    ("cuGraphGetRootNodes", "root_nodes"),
    ("cuGraphGetEdges", "edge_data"),
    ("cuGraphNodeGetDependencies", "dependencies"),
    ("cuGraphNodeGetDependencies", "edge_data"),
    ("cuGraphNodeGetDependentNodes", "dependent_nodes"),
    ("cuGraphNodeGetDependentNodes", "edge_data"),
    ("cuStreamBeginCaptureToGraph", "dependencies"),
    ("cuStreamBeginCaptureToGraph", "dependency_data"),
    ("cuStreamGetCaptureInfo", "id_out"),
    ("cuStreamGetCaptureInfo", "graph_out"),
    ("cuStreamGetCaptureInfo", "dependencies_out"),
    ("cuStreamGetCaptureInfo", "edge_data_out"),
    ("cuStreamGetCaptureInfo", "num_dependencies_out"),
    ("cuStreamUpdateCaptureDependencies", "dependencies"),
    ("cuStreamUpdateCaptureDependencies", "dependency_data"),
    ("cuUserObjectCreate", "ptr"),
];

/// The name of the parameter that points to the dependencies of a new node. The pointer may be null
/// when the number of dependencies is 0.
const NO_DEPENDENCIES: &str = "dependencies";

fn documented() -> BTreeMap<&'static str, Vec<&'static str>> {
    let lines = include_str!("data/return-codes.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, codes)| (name, codes.split(' ').collect()))
        .collect()
}

fn address<T>(place: &mut T) -> usize {
    std::ptr::from_mut(place) as usize
}

struct World {
    driver: Driver,
    graph: usize,
    node: usize,
    exec: usize,
    event: usize,
    stream: usize,
    object: usize,
    room: Vec<u64>,
}

extern "C" fn nothing(_: *mut std::ffi::c_void) {}

impl World {
    fn new() -> World {
        let driver = Driver::load();
        let good = |name: &str, arguments: &[usize]| {
            assert_eq!(driver.call(name, arguments), 0, "{name}");
        };
        let (mut context, mut graph, mut node, mut exec) = (0usize, 0usize, 0usize, 0usize);
        let (mut event, mut stream, mut object) = (0usize, 0usize, 0usize);
        good("cuInit", &[0]);
        good("cuDevicePrimaryCtxRetain", &[address(&mut context), 0]);
        good("cuCtxSetCurrent", &[context]);
        good("cuGraphCreate", &[address(&mut graph), 0]);
        good("cuGraphAddEmptyNode", &[address(&mut node), graph, 0, 0]);
        good(
            "cuGraphInstantiateWithFlags",
            &[address(&mut exec), graph, 0],
        );
        good("cuEventCreate", &[address(&mut event), 0]);
        good("cuStreamCreate", &[address(&mut stream), 1]);
        let destroy = nothing as extern "C" fn(_) as usize;
        good(
            "cuUserObjectCreate",
            &[address(&mut object), 0, destroy, 1, 1],
        );
        World {
            driver,
            graph,
            node,
            exec,
            event,
            stream,
            object,
            room: vec![0; 4096],
        }
    }

    /// Returns a valid argument for the parameter with the index `at` and the C type `kind`.
    fn argument(&mut self, kind: &str, at: usize) -> usize {
        match kind {
            "CUgraph" => self.graph,
            "CUgraphNode" => self.node,
            "CUgraphExec" => self.exec,
            "CUevent" => self.event,
            "CUstream" => self.stream,
            "CUuserObject" => self.object,
            "CUhostFn" => nothing as extern "C" fn(_) as usize,
            kind if kind.starts_with('*') => {
                self.room[at * 256..(at + 1) * 256].fill(0);
                self.room[at * 256..].as_mut_ptr() as usize
            }
            _ => 0,
        }
    }

    fn name_of(&self, code: u32) -> String {
        let mut text: *const std::ffi::c_char = std::ptr::null();
        let asked = self
            .driver
            .call("cuGetErrorName", &[code as usize, address(&mut text)]);
        assert_eq!(asked, 0);
        // SAFETY: the call succeeded, so the pointer is a C string.
        let text = unsafe { std::ffi::CStr::from_ptr(text) };
        let text = text.to_str().expect("ASCII");
        text.trim_start_matches("CUDA_ERROR_").to_owned()
    }
}

/// Returns the parameters of the function that `row` describes, each as a pair of strings.
fn parameters(row: &cuda::ApiRow) -> Vec<(String, String)> {
    let text = row.parameters.trim_matches(['(', ')']);
    let pairs = text.split(',').filter_map(|part| part.split_once(':'));
    pairs
        .map(|(name, kind)| (name.trim().to_owned(), kind.trim().to_owned()))
        .collect()
}

fn concerned(row: &cuda::ApiRow) -> bool {
    let graphs = ["cuGraph", "cuUserObject", "cuThreadExchange"];
    let streams = ["Capture", "WaitValue", "WriteValue", "BatchMemOp"];
    let export = row.export;
    row.is_implemented()
        && !export.starts_with("cuGraphics")
        && (graphs.iter().any(|start| export.starts_with(start))
            || export.contains("GraphMem")
            || (export.starts_with("cuStream") && streams.iter().any(|s| export.contains(s))))
}

#[test]
fn each_argument_wrong_in_turn() {
    let mut world = World::new();
    let documented = documented();
    let (mut wrong, mut calls) = (Vec::new(), 0);
    for row in cuda::api_rows().filter(|row| concerned(row)) {
        let parameters = parameters(row);
        // The documentation describes this function under an earlier name.
        let symbol = match row.symbol() {
            "cuGraphInstantiateWithFlags" => "cuGraphInstantiate",
            symbol => symbol,
        };
        let codes = documented.get(symbol).cloned().unwrap_or_default();
        assert!(!codes.is_empty(), "{} is not documented", row.export);
        for (bad, (name, kind)) in parameters.iter().enumerate() {
            let optional = OPTIONAL.contains(&(row.symbol(), name.as_str()))
                || (name == NO_DEPENDENCIES && row.export.starts_with("cuGraphAdd"));
            let values: &[usize] = match kind.as_str() {
                "CUgraph" | "CUgraphNode" | "CUgraphExec" | "CUuserObject" | "CUevent" => {
                    &[0, BOGUS]
                }
                "CUstream" => &[BOGUS],
                "CUhostFn" => &[0],
                kind if kind.starts_with('*') && !optional => &[0],
                _ => &[],
            };
            for &value in values {
                let kinds = parameters.iter().enumerate();
                let mut arguments: Vec<usize> = kinds
                    .map(|(at, (_, kind))| world.argument(kind, at))
                    .collect();
                arguments[bad] = value;
                let code = world.driver.call(row.export, &arguments);
                calls += 1;
                let said = world.name_of(code);
                let forgotten = FORGOTTEN.contains(&row.symbol()) && said == "INVALID_VALUE";
                if code == 0 || !(forgotten || codes.contains(&said.as_str())) {
                    wrong.push(format!("{}({name} = {value:#x}): {said}", row.export));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(calls > 250, "{calls} calls");
}
