//! Graphs, stream capture, user objects.
//!
//! One family of the table; see [`crate::api`].

use super::cuda_api;
use crate::serve::*;
use crate::types::*;
use std::ffi::{c_char, c_uint, c_ulonglong, c_void};

cuda_api! {
    cuStreamBeginCaptureToCig 13010,
    cuStreamBeginCaptureToCig_ptsz 13010 ptsz:
        (stream: CUstream, stream_cig_capture_params: *mut CUstreamCigCaptureParams) => unsupported;
    cuStreamEndCaptureToCig 13010,
    cuStreamEndCaptureToCig_ptsz 13010 ptsz: (stream: CUstream) => unsupported;
    cuStreamBeginCapture_v2 10010,
    cuStreamBeginCapture_v2_ptsz 10010 ptsz:
        (stream: CUstream, mode: CUstreamCaptureMode) => unsupported;
    cuStreamBeginRecaptureToGraph 13030,
    cuStreamBeginRecaptureToGraph_ptsz 13030 ptsz:
        (stream: CUstream, mode: CUstreamCaptureMode, graph: CUgraph,
         callback_func: CUgraphRecaptureCallback, user_data: *mut c_void) => unsupported;
    cuStreamBeginCaptureToGraph 12030,
    cuStreamBeginCaptureToGraph_ptsz 12030 ptsz:
        (stream: CUstream, graph: CUgraph, dependencies: *const CUgraphNode,
         dependency_data: *const CUgraphEdgeData, num_dependencies: usize,
         mode: CUstreamCaptureMode) => unsupported;
    cuThreadExchangeStreamCaptureMode 10010:
        (mode: *mut CUstreamCaptureMode) => thread_exchange_stream_capture_mode;
    cuStreamEndCapture 10000,
    cuStreamEndCapture_ptsz 10000 ptsz: (stream: CUstream, ph_graph: *mut CUgraph) => unsupported;
    cuStreamIsCapturing 10000,
    cuStreamIsCapturing_ptsz 10000 ptsz:
        (stream: CUstream, capture_status: *mut CUstreamCaptureStatus) => stream_is_capturing;
    cuStreamGetCaptureInfo_v3 12030,
    cuStreamGetCaptureInfo_v3_ptsz 12030 ptsz:
        (stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus, id_out: *mut u64,
         graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode,
         edge_data_out: *mut *const CUgraphEdgeData,
         num_dependencies_out: *mut usize) => stream_get_capture_info_v3;
    cuStreamUpdateCaptureDependencies_v2 12030,
    cuStreamUpdateCaptureDependencies_v2_ptsz 12030 ptsz:
        (stream: CUstream, dependencies: *mut CUgraphNode, dependency_data: *const CUgraphEdgeData,
         num_dependencies: usize, flags: c_uint) => unsupported;
    cuGraphCreate 10000: (ph_graph: *mut CUgraph, flags: c_uint) => unsupported;
    cuGraphAddKernelNode_v2 12000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS) => unsupported;
    cuGraphKernelNodeGetParams_v2 12000:
        (node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS) => unsupported;
    cuGraphKernelNodeSetParams_v2 12000:
        (node: CUgraphNode, node_params: *const CUDA_KERNEL_NODE_PARAMS) => unsupported;
    cuGraphAddMemcpyNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, copy_params: *const CUDA_MEMCPY3D, ctx: CUcontext) => unsupported;
    cuGraphMemcpyNodeGetParams 10000:
        (node: CUgraphNode, node_params: *mut CUDA_MEMCPY3D) => unsupported;
    cuGraphMemcpyNodeSetParams 10000:
        (node: CUgraphNode, node_params: *const CUDA_MEMCPY3D) => unsupported;
    cuGraphAddMemsetNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, memset_params: *const CUDA_MEMSET_NODE_PARAMS,
         ctx: CUcontext) => unsupported;
    cuGraphMemsetNodeGetParams 10000:
        (node: CUgraphNode, node_params: *mut CUDA_MEMSET_NODE_PARAMS) => unsupported;
    cuGraphMemsetNodeSetParams 10000:
        (node: CUgraphNode, node_params: *const CUDA_MEMSET_NODE_PARAMS) => unsupported;
    cuGraphAddHostNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *const CUDA_HOST_NODE_PARAMS) => unsupported;
    cuGraphHostNodeGetParams 10000:
        (node: CUgraphNode, node_params: *mut CUDA_HOST_NODE_PARAMS) => unsupported;
    cuGraphHostNodeSetParams 10000:
        (node: CUgraphNode, node_params: *const CUDA_HOST_NODE_PARAMS) => unsupported;
    cuGraphAddChildGraphNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, child_graph: CUgraph) => unsupported;
    cuGraphChildGraphNodeGetGraph 10000: (node: CUgraphNode, ph_graph: *mut CUgraph) => unsupported;
    cuGraphAddEmptyNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize) => unsupported;
    cuGraphAddEventRecordNode 11010:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, event: CUevent) => unsupported;
    cuGraphEventRecordNodeGetEvent 11010:
        (node: CUgraphNode, event_out: *mut CUevent) => unsupported;
    cuGraphEventRecordNodeSetEvent 11010: (node: CUgraphNode, event: CUevent) => unsupported;
    cuGraphAddEventWaitNode 11010:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, event: CUevent) => unsupported;
    cuGraphEventWaitNodeGetEvent 11010: (node: CUgraphNode, event_out: *mut CUevent) => unsupported;
    cuGraphEventWaitNodeSetEvent 11010: (node: CUgraphNode, event: CUevent) => unsupported;
    cuGraphAddExternalSemaphoresSignalNode 11020:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize,
         node_params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS) => unsupported;
    cuGraphExternalSemaphoresSignalNodeGetParams 11020:
        (node: CUgraphNode, params_out: *mut CUDA_EXT_SEM_SIGNAL_NODE_PARAMS) => unsupported;
    cuGraphExternalSemaphoresSignalNodeSetParams 11020:
        (node: CUgraphNode, node_params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS) => unsupported;
    cuGraphAddExternalSemaphoresWaitNode 11020:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS) => unsupported;
    cuGraphExternalSemaphoresWaitNodeGetParams 11020:
        (node: CUgraphNode, params_out: *mut CUDA_EXT_SEM_WAIT_NODE_PARAMS) => unsupported;
    cuGraphExternalSemaphoresWaitNodeSetParams 11020:
        (node: CUgraphNode, node_params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS) => unsupported;
    cuGraphAddBatchMemOpNode 11070:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) => unsupported;
    cuGraphBatchMemOpNodeGetParams 11070:
        (node: CUgraphNode, node_params_out: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS) => unsupported;
    cuGraphBatchMemOpNodeSetParams 11070:
        (node: CUgraphNode, node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) => unsupported;
    cuGraphExecBatchMemOpNodeSetParams 11070:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) => unsupported;
    cuGraphAddMemAllocNode 11040:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *mut CUDA_MEM_ALLOC_NODE_PARAMS) => unsupported;
    cuGraphMemAllocNodeGetParams 11040:
        (node: CUgraphNode, params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS) => unsupported;
    cuGraphAddMemFreeNode 11040:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, dptr: CUdeviceptr) => unsupported;
    cuGraphMemFreeNodeGetParams 11040:
        (node: CUgraphNode, dptr_out: *mut CUdeviceptr) => unsupported;
    cuDeviceGraphMemTrim 11040: (device: CUdevice) => unsupported;
    cuDeviceGetGraphMemAttribute 11040:
        (device: CUdevice, attr: CUgraphMem_attribute, value: *mut c_void) => unsupported;
    cuDeviceSetGraphMemAttribute 11040:
        (device: CUdevice, attr: CUgraphMem_attribute, value: *mut c_void) => unsupported;
    cuGraphClone 10000: (ph_graph_clone: *mut CUgraph, original_graph: CUgraph) => unsupported;
    cuGraphNodeFindInClone 10000:
        (ph_node: *mut CUgraphNode, original_node: CUgraphNode,
         cloned_graph: CUgraph) => unsupported;
    cuGraphNodeGetType 10000: (node: CUgraphNode, type_: *mut CUgraphNodeType) => unsupported;
    cuGraphNodeGetContainingGraph 13010: (node: CUgraphNode, ph_graph: *mut CUgraph) => unsupported;
    cuGraphNodeGetLocalId 13010: (node: CUgraphNode, node_id: *mut c_uint) => unsupported;
    cuGraphNodeGetToolsId 13010:
        (node: CUgraphNode, tools_node_id: *mut c_ulonglong) => unsupported;
    cuGraphGetId 13010: (graph: CUgraph, graph_id: *mut c_uint) => unsupported;
    cuGraphExecGetId 13010: (graph_exec: CUgraphExec, graph_id: *mut c_uint) => unsupported;
    cuGraphGetNodes 10000:
        (graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize) => unsupported;
    cuGraphGetRootNodes 10000:
        (graph: CUgraph, root_nodes: *mut CUgraphNode, num_root_nodes: *mut usize) => unsupported;
    cuGraphGetEdges_v2 12030:
        (graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode,
         edge_data: *mut CUgraphEdgeData, num_edges: *mut usize) => unsupported;
    cuGraphNodeGetDependencies_v2 12030:
        (node: CUgraphNode, dependencies: *mut CUgraphNode, edge_data: *mut CUgraphEdgeData,
         num_dependencies: *mut usize) => unsupported;
    cuGraphNodeGetDependentNodes_v2 12030:
        (node: CUgraphNode, dependent_nodes: *mut CUgraphNode, edge_data: *mut CUgraphEdgeData,
         num_dependent_nodes: *mut usize) => unsupported;
    cuGraphAddDependencies_v2 12030:
        (graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
         edge_data: *const CUgraphEdgeData, num_dependencies: usize) => unsupported;
    cuGraphRemoveDependencies_v2 12030:
        (graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
         edge_data: *const CUgraphEdgeData, num_dependencies: usize) => unsupported;
    cuGraphDestroyNode 10000: (node: CUgraphNode) => unsupported;
    cuGraphInstantiateWithFlags 11040:
        (ph_graph_exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) => unsupported;
    cuGraphInstantiateWithParams 12000,
    cuGraphInstantiateWithParams_ptsz 12000 ptsz:
        (ph_graph_exec: *mut CUgraphExec, graph: CUgraph,
         instantiate_params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS) => unsupported;
    cuGraphExecGetFlags 12000: (graph_exec: CUgraphExec, flags: *mut u64) => unsupported;
    cuGraphExecKernelNodeSetParams_v2 12000:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_KERNEL_NODE_PARAMS) => unsupported;
    cuGraphExecMemcpyNodeSetParams 10020:
        (graph_exec: CUgraphExec, node: CUgraphNode, copy_params: *const CUDA_MEMCPY3D,
         ctx: CUcontext) => unsupported;
    cuGraphExecMemsetNodeSetParams 10020:
        (graph_exec: CUgraphExec, node: CUgraphNode, memset_params: *const CUDA_MEMSET_NODE_PARAMS,
         ctx: CUcontext) => unsupported;
    cuGraphExecHostNodeSetParams 10020:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_HOST_NODE_PARAMS) => unsupported;
    cuGraphExecChildGraphNodeSetParams 11010:
        (graph_exec: CUgraphExec, node: CUgraphNode, child_graph: CUgraph) => unsupported;
    cuGraphExecEventRecordNodeSetEvent 11010:
        (graph_exec: CUgraphExec, node: CUgraphNode, event: CUevent) => unsupported;
    cuGraphExecEventWaitNodeSetEvent 11010:
        (graph_exec: CUgraphExec, node: CUgraphNode, event: CUevent) => unsupported;
    cuGraphExecExternalSemaphoresSignalNodeSetParams 11020:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS) => unsupported;
    cuGraphExecExternalSemaphoresWaitNodeSetParams 11020:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS) => unsupported;
    cuGraphNodeSetEnabled 11060:
        (graph_exec: CUgraphExec, node: CUgraphNode, is_enabled: c_uint) => unsupported;
    cuGraphNodeGetEnabled 11060:
        (graph_exec: CUgraphExec, node: CUgraphNode, is_enabled: *mut c_uint) => unsupported;
    cuGraphUpload 11010,
    cuGraphUpload_ptsz 11010 ptsz: (graph_exec: CUgraphExec, stream: CUstream) => unsupported;
    cuGraphLaunch 10000,
    cuGraphLaunch_ptsz 10000 ptsz: (graph_exec: CUgraphExec, stream: CUstream) => unsupported;
    cuGraphExecDestroy 10000: (graph_exec: CUgraphExec) => unsupported;
    cuGraphDestroy 10000: (graph: CUgraph) => unsupported;
    cuGraphExecUpdate_v2 12000:
        (graph_exec: CUgraphExec, graph: CUgraph,
         result_info: *mut CUgraphExecUpdateResultInfo) => unsupported;
    cuGraphKernelNodeCopyAttributes 11000: (dst: CUgraphNode, src: CUgraphNode) => unsupported;
    cuGraphKernelNodeGetAttribute 11000:
        (node: CUgraphNode, attr: CUkernelNodeAttrID,
         value_out: *mut CUkernelNodeAttrValue) => unsupported;
    cuGraphKernelNodeSetAttribute 11000:
        (node: CUgraphNode, attr: CUkernelNodeAttrID,
         value: *const CUkernelNodeAttrValue) => unsupported;
    cuGraphDebugDotPrint 11030: (graph: CUgraph, path: *const c_char, flags: c_uint) => unsupported;
    cuUserObjectCreate 11030:
        (object_out: *mut CUuserObject, ptr: *mut c_void, destroy: CUhostFn,
         initial_refcount: c_uint, flags: c_uint) => unsupported;
    cuUserObjectRetain 11030: (object: CUuserObject, count: c_uint) => unsupported;
    cuUserObjectRelease 11030: (object: CUuserObject, count: c_uint) => unsupported;
    cuGraphRetainUserObject 11030:
        (graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint) => unsupported;
    cuGraphReleaseUserObject 11030:
        (graph: CUgraph, object: CUuserObject, count: c_uint) => unsupported;
    cuGraphAddNode_v2 12030,
    cuGraphAddNode_v3 13040:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         dependency_data: *const CUgraphEdgeData, num_dependencies: usize,
         node_params: *mut CUgraphNodeParams) => unsupported;
    cuGraphNodeSetParams 12020,
    cuGraphNodeSetParams_v2 13040:
        (node: CUgraphNode, node_params: *mut CUgraphNodeParams) => unsupported;
    cuGraphNodeGetParams 13020:
        (node: CUgraphNode, node_params: *mut CUgraphNodeParams) => unsupported;
    cuGraphExecNodeSetParams 12020:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *mut CUgraphNodeParams) => unsupported;
    cuGraphConditionalHandleCreate 12030:
        (handle_out: *mut CUgraphConditionalHandle, graph: CUgraph, ctx: CUcontext,
         default_launch_value: c_uint, flags: c_uint) => unsupported;
    cuStreamBeginCapture 10000,
    cuStreamBeginCapture_ptsz 10000 ptsz: (stream: CUstream) => unsupported;
    cuStreamGetCaptureInfo 10010,
    cuStreamGetCaptureInfo_ptsz 10010 ptsz:
        (stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus,
         id_out: *mut u64) => stream_get_capture_info_v1;
    cuStreamGetCaptureInfo_v2 11030,
    cuStreamGetCaptureInfo_v2_ptsz 11030 ptsz:
        (stream: CUstream, capture_status_out: *mut CUstreamCaptureStatus, id_out: *mut u64,
         graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode,
         num_dependencies_out: *mut usize) => stream_get_capture_info_v2;
    cuGraphAddKernelNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS_v1) => unsupported;
    cuGraphKernelNodeGetParams 10000:
        (node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS_v1) => unsupported;
    cuGraphKernelNodeSetParams 10000:
        (node: CUgraphNode, node_params: *const CUDA_KERNEL_NODE_PARAMS_v1) => unsupported;
    cuGraphExecKernelNodeSetParams 10010:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_KERNEL_NODE_PARAMS_v1) => unsupported;
    cuGraphExecUpdate 10020:
        (graph_exec: CUgraphExec, graph: CUgraph, error_node_out: *mut CUgraphNode,
         update_result_out: *mut CUgraphExecUpdateResult) => unsupported;
    cuGraphGetEdges 10000:
        (graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode,
         num_edges: *mut usize) => unsupported;
    cuGraphNodeGetDependencies 10000:
        (node: CUgraphNode, dependencies: *mut CUgraphNode,
         num_dependencies: *mut usize) => unsupported;
    cuGraphNodeGetDependentNodes 10000:
        (node: CUgraphNode, dependent_nodes: *mut CUgraphNode,
         num_dependent_nodes: *mut usize) => unsupported;
    cuGraphAddDependencies 10000:
        (graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
         num_dependencies: usize) => unsupported;
    cuGraphRemoveDependencies 10000:
        (graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
         num_dependencies: usize) => unsupported;
    cuGraphAddNode 12020:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *mut CUgraphNodeParams) => unsupported;
    cuGraphInstantiate 10000,
    cuGraphInstantiate_v2 11000:
        (ph_graph_exec: *mut CUgraphExec, graph: CUgraph, ph_error_node: *mut CUgraphNode,
         log_buffer: *mut c_char, buffer_size: usize) => unsupported;
    cuStreamUpdateCaptureDependencies 11030,
    cuStreamUpdateCaptureDependencies_ptsz 11030 ptsz:
        (stream: CUstream, dependencies: *mut CUgraphNode, num_dependencies: usize,
         flags: c_uint) => unsupported;
}
