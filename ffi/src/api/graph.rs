//! Entry points for graphs, stream capture and user objects.
//!
//! Each row in `cuda_api!` declares one or more exported functions that share a signature; [`crate::api`] describes the
//! format of a row.

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
        (stream: CUstream, mode: CUstreamCaptureMode) => stream_begin_capture;
    cuStreamBeginRecaptureToGraph 13030,
    cuStreamBeginRecaptureToGraph_ptsz 13030 ptsz:
        (stream: CUstream, mode: CUstreamCaptureMode, graph: CUgraph,
         callback_func: CUgraphRecaptureCallback, user_data: *mut c_void) => unsupported;
    cuStreamBeginCaptureToGraph 12030,
    cuStreamBeginCaptureToGraph_ptsz 12030 ptsz:
        (stream: CUstream, graph: CUgraph, dependencies: *const CUgraphNode,
         dependency_data: *const CUgraphEdgeData, num_dependencies: usize,
         mode: CUstreamCaptureMode) => stream_begin_capture_to_graph;
    cuThreadExchangeStreamCaptureMode 10010:
        (mode: *mut CUstreamCaptureMode) => thread_exchange_stream_capture_mode;
    cuStreamEndCapture 10000,
    cuStreamEndCapture_ptsz 10000 ptsz: (stream: CUstream, ph_graph: *mut CUgraph) => stream_end_capture;
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
         num_dependencies: usize, flags: c_uint) => stream_update_capture_dependencies_v2;
    cuGraphCreate 10000: (ph_graph: *mut CUgraph, flags: c_uint) => graph_create;
    cuGraphAddKernelNode_v2 12000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS) => graph_add_kernel_node_v2;
    cuGraphKernelNodeGetParams_v2 12000:
        (node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS) => graph_kernel_node_get_params_v2;
    cuGraphKernelNodeSetParams_v2 12000:
        (node: CUgraphNode, node_params: *const CUDA_KERNEL_NODE_PARAMS) => graph_kernel_node_set_params_v2;
    cuGraphAddMemcpyNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, copy_params: *const CUDA_MEMCPY3D, ctx: CUcontext) => graph_add_memcpy_node;
    cuGraphMemcpyNodeGetParams 10000:
        (node: CUgraphNode, node_params: *mut CUDA_MEMCPY3D) => graph_memcpy_node_get_params;
    cuGraphMemcpyNodeSetParams 10000:
        (node: CUgraphNode, node_params: *const CUDA_MEMCPY3D) => graph_memcpy_node_set_params;
    cuGraphAddMemsetNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, memset_params: *const CUDA_MEMSET_NODE_PARAMS,
         ctx: CUcontext) => graph_add_memset_node;
    cuGraphMemsetNodeGetParams 10000:
        (node: CUgraphNode, node_params: *mut CUDA_MEMSET_NODE_PARAMS) => graph_memset_node_get_params;
    cuGraphMemsetNodeSetParams 10000:
        (node: CUgraphNode, node_params: *const CUDA_MEMSET_NODE_PARAMS) => graph_memset_node_set_params;
    cuGraphAddHostNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *const CUDA_HOST_NODE_PARAMS) => graph_add_host_node;
    cuGraphHostNodeGetParams 10000:
        (node: CUgraphNode, node_params: *mut CUDA_HOST_NODE_PARAMS) => graph_host_node_get_params;
    cuGraphHostNodeSetParams 10000:
        (node: CUgraphNode, node_params: *const CUDA_HOST_NODE_PARAMS) => graph_host_node_set_params;
    cuGraphAddChildGraphNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, child_graph: CUgraph) => graph_add_child_graph_node;
    cuGraphChildGraphNodeGetGraph 10000: (node: CUgraphNode, ph_graph: *mut CUgraph) => graph_child_graph_node_get_graph;
    cuGraphAddEmptyNode 10000:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize) => graph_add_empty_node;
    cuGraphAddEventRecordNode 11010:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, event: CUevent) => graph_add_event_record_node;
    cuGraphEventRecordNodeGetEvent 11010:
        (node: CUgraphNode, event_out: *mut CUevent) => graph_event_record_node_get_event;
    cuGraphEventRecordNodeSetEvent 11010: (node: CUgraphNode, event: CUevent) => graph_event_record_node_set_event;
    cuGraphAddEventWaitNode 11010:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, event: CUevent) => graph_add_event_wait_node;
    cuGraphEventWaitNodeGetEvent 11010: (node: CUgraphNode, event_out: *mut CUevent) => graph_event_wait_node_get_event;
    cuGraphEventWaitNodeSetEvent 11010: (node: CUgraphNode, event: CUevent) => graph_event_wait_node_set_event;
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
         num_dependencies: usize, node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) => graph_add_batch_mem_op_node;
    cuGraphBatchMemOpNodeGetParams 11070:
        (node: CUgraphNode, node_params_out: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS) => graph_batch_mem_op_node_get_params;
    cuGraphBatchMemOpNodeSetParams 11070:
        (node: CUgraphNode, node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) => graph_batch_mem_op_node_set_params;
    cuGraphExecBatchMemOpNodeSetParams 11070:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) => graph_exec_batch_mem_op_node_set_params;
    cuGraphAddMemAllocNode 11040:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *mut CUDA_MEM_ALLOC_NODE_PARAMS) => graph_add_mem_alloc_node;
    cuGraphMemAllocNodeGetParams 11040:
        (node: CUgraphNode, params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS) => graph_mem_alloc_node_get_params;
    cuGraphAddMemFreeNode 11040:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, dptr: CUdeviceptr) => graph_add_mem_free_node;
    cuGraphMemFreeNodeGetParams 11040:
        (node: CUgraphNode, dptr_out: *mut CUdeviceptr) => graph_mem_free_node_get_params;
    cuDeviceGraphMemTrim 11040: (device: CUdevice) => device_graph_mem_trim;
    cuDeviceGetGraphMemAttribute 11040:
        (device: CUdevice, attr: CUgraphMem_attribute, value: *mut c_void) => device_get_graph_mem_attribute;
    cuDeviceSetGraphMemAttribute 11040:
        (device: CUdevice, attr: CUgraphMem_attribute, value: *mut c_void) => device_set_graph_mem_attribute;
    cuGraphClone 10000: (ph_graph_clone: *mut CUgraph, original_graph: CUgraph) => graph_clone;
    cuGraphNodeFindInClone 10000:
        (ph_node: *mut CUgraphNode, original_node: CUgraphNode,
         cloned_graph: CUgraph) => graph_node_find_in_clone;
    cuGraphNodeGetType 10000: (node: CUgraphNode, type_: *mut CUgraphNodeType) => graph_node_get_type;
    cuGraphNodeGetContainingGraph 13010: (node: CUgraphNode, ph_graph: *mut CUgraph) => graph_node_get_containing_graph;
    cuGraphNodeGetLocalId 13010: (node: CUgraphNode, node_id: *mut c_uint) => graph_node_get_local_id;
    cuGraphNodeGetToolsId 13010:
        (node: CUgraphNode, tools_node_id: *mut c_ulonglong) => graph_node_get_tools_id;
    cuGraphGetId 13010: (graph: CUgraph, graph_id: *mut c_uint) => graph_get_id;
    cuGraphExecGetId 13010: (graph_exec: CUgraphExec, graph_id: *mut c_uint) => graph_exec_get_id;
    cuGraphGetNodes 10000:
        (graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize) => graph_get_nodes;
    cuGraphGetRootNodes 10000:
        (graph: CUgraph, root_nodes: *mut CUgraphNode, num_root_nodes: *mut usize) => graph_get_root_nodes;
    cuGraphGetEdges_v2 12030:
        (graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode,
         edge_data: *mut CUgraphEdgeData, num_edges: *mut usize) => graph_get_edges_v2;
    cuGraphNodeGetDependencies_v2 12030:
        (node: CUgraphNode, dependencies: *mut CUgraphNode, edge_data: *mut CUgraphEdgeData,
         num_dependencies: *mut usize) => graph_node_get_dependencies_v2;
    cuGraphNodeGetDependentNodes_v2 12030:
        (node: CUgraphNode, dependent_nodes: *mut CUgraphNode, edge_data: *mut CUgraphEdgeData,
         num_dependent_nodes: *mut usize) => graph_node_get_dependent_nodes_v2;
    cuGraphAddDependencies_v2 12030:
        (graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
         edge_data: *const CUgraphEdgeData, num_dependencies: usize) => graph_add_dependencies_v2;
    cuGraphRemoveDependencies_v2 12030:
        (graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
         edge_data: *const CUgraphEdgeData, num_dependencies: usize) => graph_remove_dependencies_v2;
    cuGraphDestroyNode 10000: (node: CUgraphNode) => graph_destroy_node;
    cuGraphInstantiateWithFlags 11040:
        (ph_graph_exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) => graph_instantiate_with_flags;
    cuGraphInstantiateWithParams 12000,
    cuGraphInstantiateWithParams_ptsz 12000 ptsz:
        (ph_graph_exec: *mut CUgraphExec, graph: CUgraph,
         instantiate_params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS) => graph_instantiate_with_params;
    cuGraphExecGetFlags 12000: (graph_exec: CUgraphExec, flags: *mut u64) => graph_exec_get_flags;
    cuGraphExecKernelNodeSetParams_v2 12000:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_KERNEL_NODE_PARAMS) => graph_exec_kernel_node_set_params_v2;
    cuGraphExecMemcpyNodeSetParams 10020:
        (graph_exec: CUgraphExec, node: CUgraphNode, copy_params: *const CUDA_MEMCPY3D,
         ctx: CUcontext) => graph_exec_memcpy_node_set_params;
    cuGraphExecMemsetNodeSetParams 10020:
        (graph_exec: CUgraphExec, node: CUgraphNode, memset_params: *const CUDA_MEMSET_NODE_PARAMS,
         ctx: CUcontext) => graph_exec_memset_node_set_params;
    cuGraphExecHostNodeSetParams 10020:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_HOST_NODE_PARAMS) => graph_exec_host_node_set_params;
    cuGraphExecChildGraphNodeSetParams 11010:
        (graph_exec: CUgraphExec, node: CUgraphNode, child_graph: CUgraph) => graph_exec_child_graph_node_set_params;
    cuGraphExecEventRecordNodeSetEvent 11010:
        (graph_exec: CUgraphExec, node: CUgraphNode, event: CUevent) => graph_exec_event_record_node_set_event;
    cuGraphExecEventWaitNodeSetEvent 11010:
        (graph_exec: CUgraphExec, node: CUgraphNode, event: CUevent) => graph_exec_event_wait_node_set_event;
    cuGraphExecExternalSemaphoresSignalNodeSetParams 11020:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS) => unsupported;
    cuGraphExecExternalSemaphoresWaitNodeSetParams 11020:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS) => unsupported;
    cuGraphNodeSetEnabled 11060:
        (graph_exec: CUgraphExec, node: CUgraphNode, is_enabled: c_uint) => graph_node_set_enabled;
    cuGraphNodeGetEnabled 11060:
        (graph_exec: CUgraphExec, node: CUgraphNode, is_enabled: *mut c_uint) => graph_node_get_enabled;
    cuGraphUpload 11010,
    cuGraphUpload_ptsz 11010 ptsz: (graph_exec: CUgraphExec, stream: CUstream) => graph_upload;
    cuGraphLaunch 10000,
    cuGraphLaunch_ptsz 10000 ptsz: (graph_exec: CUgraphExec, stream: CUstream) => graph_launch;
    cuGraphExecDestroy 10000: (graph_exec: CUgraphExec) => graph_exec_destroy;
    cuGraphDestroy 10000: (graph: CUgraph) => graph_destroy;
    cuGraphExecUpdate_v2 12000:
        (graph_exec: CUgraphExec, graph: CUgraph,
         result_info: *mut CUgraphExecUpdateResultInfo) => graph_exec_update_v2;
    cuGraphKernelNodeCopyAttributes 11000: (dst: CUgraphNode, src: CUgraphNode) => graph_kernel_node_copy_attributes;
    cuGraphKernelNodeGetAttribute 11000:
        (node: CUgraphNode, attr: CUkernelNodeAttrID,
         value_out: *mut CUkernelNodeAttrValue) => graph_kernel_node_get_attribute;
    cuGraphKernelNodeSetAttribute 11000:
        (node: CUgraphNode, attr: CUkernelNodeAttrID,
         value: *const CUkernelNodeAttrValue) => graph_kernel_node_set_attribute;
    cuGraphDebugDotPrint 11030: (graph: CUgraph, path: *const c_char, flags: c_uint) => graph_debug_dot_print;
    cuUserObjectCreate 11030:
        (object_out: *mut CUuserObject, ptr: *mut c_void, destroy: CUhostFn,
         initial_refcount: c_uint, flags: c_uint) => user_object_create;
    cuUserObjectRetain 11030: (object: CUuserObject, count: c_uint) => user_object_retain;
    cuUserObjectRelease 11030: (object: CUuserObject, count: c_uint) => user_object_release;
    cuGraphRetainUserObject 11030:
        (graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint) => graph_retain_user_object;
    cuGraphReleaseUserObject 11030:
        (graph: CUgraph, object: CUuserObject, count: c_uint) => graph_release_user_object;
    cuGraphAddNode_v2 12030,
    cuGraphAddNode_v3 13040:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         dependency_data: *const CUgraphEdgeData, num_dependencies: usize,
         node_params: *mut CUgraphNodeParams) => graph_add_node_v2;
    cuGraphNodeSetParams 12020,
    cuGraphNodeSetParams_v2 13040:
        (node: CUgraphNode, node_params: *mut CUgraphNodeParams) => graph_node_set_params;
    cuGraphNodeGetParams 13020:
        (node: CUgraphNode, node_params: *mut CUgraphNodeParams) => graph_node_get_params;
    cuGraphExecNodeSetParams 12020:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *mut CUgraphNodeParams) => graph_exec_node_set_params;
    cuGraphConditionalHandleCreate 12030:
        (handle_out: *mut CUgraphConditionalHandle, graph: CUgraph, ctx: CUcontext,
         default_launch_value: c_uint, flags: c_uint) => graph_conditional_handle_create;
    cuStreamBeginCapture 10000,
    cuStreamBeginCapture_ptsz 10000 ptsz: (stream: CUstream) => stream_begin_capture_v1;
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
         num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS_v1) => graph_add_kernel_node;
    cuGraphKernelNodeGetParams 10000:
        (node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS_v1) => graph_kernel_node_get_params;
    cuGraphKernelNodeSetParams 10000:
        (node: CUgraphNode, node_params: *const CUDA_KERNEL_NODE_PARAMS_v1) => graph_kernel_node_set_params;
    cuGraphExecKernelNodeSetParams 10010:
        (graph_exec: CUgraphExec, node: CUgraphNode,
         node_params: *const CUDA_KERNEL_NODE_PARAMS_v1) => graph_exec_kernel_node_set_params;
    cuGraphExecUpdate 10020:
        (graph_exec: CUgraphExec, graph: CUgraph, error_node_out: *mut CUgraphNode,
         update_result_out: *mut CUgraphExecUpdateResult) => graph_exec_update;
    cuGraphGetEdges 10000:
        (graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode,
         num_edges: *mut usize) => graph_get_edges;
    cuGraphNodeGetDependencies 10000:
        (node: CUgraphNode, dependencies: *mut CUgraphNode,
         num_dependencies: *mut usize) => graph_node_get_dependencies;
    cuGraphNodeGetDependentNodes 10000:
        (node: CUgraphNode, dependent_nodes: *mut CUgraphNode,
         num_dependent_nodes: *mut usize) => graph_node_get_dependent_nodes;
    cuGraphAddDependencies 10000:
        (graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
         num_dependencies: usize) => graph_add_dependencies;
    cuGraphRemoveDependencies 10000:
        (graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
         num_dependencies: usize) => graph_remove_dependencies;
    cuGraphAddNode 12020:
        (ph_graph_node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
         num_dependencies: usize, node_params: *mut CUgraphNodeParams) => graph_add_node;
    cuGraphInstantiate 10000,
    cuGraphInstantiate_v2 11000:
        (ph_graph_exec: *mut CUgraphExec, graph: CUgraph, ph_error_node: *mut CUgraphNode,
         log_buffer: *mut c_char, buffer_size: usize) => graph_instantiate;
    cuStreamUpdateCaptureDependencies 11030,
    cuStreamUpdateCaptureDependencies_ptsz 11030 ptsz:
        (stream: CUstream, dependencies: *mut CUgraphNode, num_dependencies: usize,
         flags: c_uint) => stream_update_capture_dependencies;
}
